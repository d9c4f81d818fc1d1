"""The stand-in for the coreos operator decides as the original did."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "comparison"))

from random_names.decide import (
    AddMember,
    LostQuorum,
    Nothing,
    Pass,
    Pod,
    RemoveMember,
    Skip,
    Spec,
    Upgrade,
    decide,
    running,
)

OWNER = "owner"


def pod(name: str, phase: str = "Running", version: str = "3.7.2", **other: object) -> Pod:
    return Pod(name, phase, version, **{"owner": OWNER, **other})


def pods(names: str) -> list[Pod]:
    return [pod(name) for name in names]


def passes(spec: Spec, members: str, alive: str) -> Pass:
    """Members and pods are given by letters. Where several fit, the last is picked."""
    return decide(spec, list(members), pods(alive), lambda names: names[-1])


THREE = Spec(3, "3.7.2")


# Which pods count.


def test_waits_while_any_pod_is_pending():
    assert running(THREE, [*pods("ab"), pod("c", "Pending")], OWNER) == Skip("a pod is pending")


@pytest.mark.parametrize("phase", ["Failed", "Succeeded", "Unknown", ""])
def test_a_pod_that_does_not_run_is_dead(phase: str):
    assert running(THREE, [*pods("ab"), pod("c", phase)], OWNER) == tuple(pods("ab"))


def test_a_pod_that_is_being_deleted_is_dead_whatever_its_phase():
    gone = [pod("c", deleting=True), pod("d", "Pending", deleting=True)]

    assert running(THREE, [*pods("ab"), *gone], OWNER) == tuple(pods("ab"))


def test_pods_of_another_owner_are_nobody():
    assert running(THREE, [*pods("a"), pod("b", owner="other")], OWNER) == tuple(pods("a"))


def test_all_pods_gone_is_only_logged():
    assert running(THREE, [pod("a", "Failed")], OWNER) == Skip("all pods are dead")
    assert running(THREE, [], OWNER) == Skip("all pods are dead")


def test_paused_does_nothing():
    assert running(Spec(3, "3.7.2", paused=True), pods("abc"), OWNER) == Skip("paused")


# What is done.


def test_all_as_declared_is_nothing():
    assert passes(THREE, "abc", "abc") == Pass((), Nothing())


@pytest.mark.parametrize("there", ["a", "ab"])
def test_grows_by_one_member_in_a_pass(there: str):
    assert passes(THREE, there, there) == Pass((), AddMember())


def test_shrinks_by_one_member_in_a_pass_picked_at_random():
    picked = {
        decide(THREE, list("abcde"), pods("abcde"), lambda names, at=at: names[at]).move
        for at in range(5)
    }

    assert picked == {RemoveMember(name) for name in "abcde"}


def test_with_a_majority_running_the_dead_member_is_removed_and_only_then_another_added():
    assert passes(THREE, "abc", "ab") == Pass((), RemoveMember("c"))
    assert passes(THREE, "ab", "ab") == Pass((), AddMember())


def test_the_dead_go_before_the_size_counts():
    assert passes(Spec(5, "3.7.2"), "abc", "ab").move == RemoveMember("c")
    assert passes(Spec(1, "3.7.2"), "abc", "ab").move == RemoveMember("c")


@pytest.mark.parametrize(("members", "alive"), [("abc", "a"), ("abcde", "ab"), ("abcd", "ab")])
def test_without_a_majority_nothing_is_done(members: str, alive: str):
    assert passes(Spec(len(members), "3.7.2"), members, alive) == Pass((), LostQuorum())


def test_two_of_five_dead_are_removed_one_a_pass():
    assert passes(Spec(5, "3.7.2"), "abcde", "abc").move == RemoveMember("e")
    assert passes(Spec(5, "3.7.2"), "abcd", "abc").move == RemoveMember("d")


def test_a_pod_that_runs_and_is_no_member_is_deleted_first():
    assert passes(THREE, "abc", "abcx") == Pass(("x",), Nothing())
    assert passes(THREE, "abc", "abx") == Pass(("x",), RemoveMember("c"))


# Versions.


def test_one_pod_of_another_version_is_patched_in_a_pass():
    old, new = pods("ab"), pod("c", version="3.7.3")

    found = decide(Spec(3, "3.7.3"), list("abc"), [*old, new], max)

    assert found == Pass((), Upgrade("a"))


def test_the_version_waits_until_the_members_are_as_declared():
    assert passes(Spec(3, "3.7.3"), "abc", "ab").move == RemoveMember("c")
    assert passes(Spec(5, "3.7.3"), "abc", "abc").move == AddMember()


def test_neither_skew_nor_downgrade_is_looked_at():
    assert passes(Spec(3, "3.5.0"), "abc", "abc").move == Upgrade("a")
