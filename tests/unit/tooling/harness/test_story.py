"""The record of pod events in end-to-end tests: two pods down at once, and their order."""

from __future__ import annotations

from harness.story import Chapter, Story


def told(*chapters: tuple[str, str, str]) -> Story:
    story = Story(cluster=None)
    for name, uid, state in chapters:
        story.chapters.append(
            Chapter(name, name + uid, state == "ready", state == "stopping", state == "gone")
        )
    return story


BEGINNING = [("a", "1", "ready"), ("b", "1", "ready"), ("c", "1", "ready")]


def life(name: str) -> list[tuple[str, str, str]]:
    return [
        (name, "1", "stopping"),
        (name, "1", "gone"),
        (name, "2", "starting"),
        (name, "2", "ready"),
    ]


def test_one_after_the_other():
    story = told(*BEGINNING, *life("c"), *life("a"), *life("b"))

    assert story.stopped == ["c", "a", "b"]
    assert story.most_down == story.most_away == 1


def test_the_next_before_the_one_is_back():
    story = told(*BEGINNING, *life("c")[:3], *life("a"))

    assert story.stopped == ["c", "a"]
    assert story.most_down == story.most_away == 2


def test_one_that_is_gone_without_stopping_and_one_that_goes_twice():
    story = told(*BEGINNING, ("b", "1", "gone"), *life("b")[2:], ("b", "2", "stopping"))

    assert story.stopped == ["b", "b"]


def test_a_pod_that_fails_by_itself_is_down_but_was_not_stopped():
    story = told(*BEGINNING, ("b", "1", "starting"), ("a", "1", "stopping"))

    assert story.stopped == ["a"]
    assert story.most_down == 2
    assert story.most_away == 1


def test_one_that_was_never_up_is_not_missed():
    story = told(*BEGINNING, ("d", "1", "starting"), ("d", "1", "stopping"))

    assert story.most_down == 0
