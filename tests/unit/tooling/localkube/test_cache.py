"""A cached folder is complete, and is made again if a part of its key changes."""

import threading
from pathlib import Path

import pytest

from localkube import cache


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "CACHE", tmp_path)


def write(out: Path) -> None:
    (out / "made").touch()


def test_makes_once_per_key() -> None:
    calls: list[Path] = []
    first = cache.cached("tool", ["1"], calls.append)
    assert cache.cached("tool", ["1"], calls.append) == first
    assert cache.cached("tool", ["2"], calls.append) != first
    assert len(calls) == 2


def test_a_failed_build_leaves_nothing_that_looks_made() -> None:
    def fail(out: Path) -> None:
        (out / "half").touch()
        raise InterruptedError

    with pytest.raises(InterruptedError):
        cache.cached("tool", ["1"], fail)
    made = cache.cached("tool", ["1"], write)
    assert [path.name for path in made.iterdir()] == ["made"]


def test_parts_of_a_key_do_not_run_together() -> None:
    assert cache.key(["ab", "c"]) != cache.key(["a", "bc"])


def test_contents_tell_a_renamed_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    before = cache.contents(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    assert cache.contents(tmp_path) != before


def test_a_run_waited_for_another_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """For as long as that one built, which may be half an hour."""
    said: list[str] = []
    waits, done = threading.Event(), threading.Event()

    def say(text: str) -> None:
        said.append(text)
        waits.set()

    def second() -> None:
        with cache.alone():
            done.set()

    monkeypatch.setattr(cache, "say", say)
    thread = threading.Thread(target=second)
    with cache.alone():
        thread.start()
        assert waits.wait(10)
        assert not done.is_set()
    thread.join(10)

    assert done.is_set()
    assert said == [f"waiting for another run, which holds {cache.CACHE / 'lock'}"]
