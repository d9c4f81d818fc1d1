"""The conditions Scaling, Upgrading and Recovering are true exactly as long as they should be."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from worlds import World, body, formed

from etcd_stateful.membership import roster
from etcd_stateful.membership.observation import Observation, recorded
from etcd_stateful.membership.steps import Hold, Step, Wait
from etcd_stateful.observed.members import Alarm
from etcd_stateful.records import bootstrap as records
from etcd_stateful.status.conditions import all_conditions
from etcd_stateful.status.outcome import LONGEST_MESSAGE, Condition, Outcome
from etcd_stateful.status.transitions import recovering, scaling, upgrading
from etcd_stateful.versions import parse_version

CATCH_UP = Wait("learner c-3 to catch up", soon=True)
PAUSED = Hold("Paused", "spec.paused is true: nothing is written until it is false")


def cluster(
    size: int,
    listed: Iterable[int],
    *,
    learner: int | None = None,
    replicas: int | None = None,
    blank: Iterable[int] = (),
) -> Observation:
    """A cluster of which some ordinals have members. The claims of `blank` ordinals have no
    record."""
    base = formed(7).observe()
    listed, blank = set(listed), set(blank)
    there = range(max(size, *(one + 1 for one in listed)) if replicas is None else replicas)
    live = copy.deepcopy(dict(base.stateful_set or {}))
    live["spec"]["replicas"] = len(there)
    assert base.etcd is not None
    assert base.secret is not None
    members = tuple(
        replace(member, learner=ordinal == learner)
        for member in base.etcd.members
        if (ordinal := roster.ordinal_of(base, member)) in listed
    )
    return replace(
        base,
        cluster=replace(base.cluster, size=size),
        secret=replace(base.secret, bootstrap=replace(recorded(base), size=len(there))),
        stateful_set=live,
        etcd=replace(base.etcd, members=members),
        statuses={one: status for one, status in base.statuses.items() if one in listed},
        pods=tuple(
            pod if pod.ordinal in listed else replace(pod, ready=False)
            for pod in base.pods
            if pod.ordinal in there
        ),
        claims=tuple(
            replace(claim, record=None) if claim.ordinal in blank else claim
            for claim in base.claims
            if claim.ordinal in there
        ),
    )


def stored(*true: str, generation: int = 1, **more: Any) -> Mapping[str, Any]:
    conditions = [{"type": one, "status": "True"} for one in true]
    return {"observedGeneration": generation, "conditions": conditions, **more}


def versions(seen: Observation, *run: str, made_for: Iterable[str] = ()) -> Observation:
    """The version that each member reports; `made_for` are the versions that their pods were
    created for."""
    statuses = {
        ordinal: replace(seen.statuses[0], version=version)
        for ordinal, version in enumerate(run)
        if version
    }
    tags = list(made_for) or list(run)
    pods = tuple(
        replace(pod, image=f"quay.io:443/coreos/etcd:v{tag}", spec_hash=f"0-{tag}")
        for pod, tag in zip(seen.pods, tags, strict=True)
    )
    return replace(seen, statuses=statuses, pods=pods)


def runs(seen: Observation, version: str) -> Observation:
    """The version that the cluster runs, by its record."""
    assert seen.secret is not None
    record = replace(recorded(seen), version=version)
    return replace(seen, secret=replace(seen.secret, bootstrap=record))


def asks(seen: Observation, version: str) -> Observation:
    wanted = parse_version(version)
    assert wanted is not None
    declared = replace(seen.cluster, version=wanted, version_declared=True)
    return replace(seen, cluster=declared)


def lost(seen: Observation, ordinal: int) -> Observation:
    claims = tuple(
        replace(one, deleting=True) if one.ordinal == ordinal else one for one in seen.claims
    )
    return replace(seen, claims=claims)


def as_paused(seen: Observation) -> Observation:
    """The view of the shell after an edit that paused the cluster: only its objects."""
    declared = replace(seen.cluster, paused=True, generation=seen.cluster.generation + 1)
    pods = tuple(replace(pod, answer=None) for pod in seen.pods)
    return replace(seen, cluster=declared, etcd=None, statuses={}, alarms=(), pods=pods)


def edited(seen: Observation) -> Observation:
    generation = seen.cluster.generation + 1
    return replace(seen, cluster=replace(seen.cluster, generation=generation))


def told(seen: Observation, step: Step | None = None, **more: Any) -> dict[str, Condition]:
    return {one.type: one for one in all_conditions(Outcome(seen, step, **more))}


class TestNoneOfThem:
    CHANGES = ("Scaling", "Upgrading", "Recovering")

    def test_at_rest(self) -> None:
        assert not told(cluster(3, range(3))).keys() & set(self.CHANGES)

    def test_while_it_forms(self) -> None:
        world = World(body(3))

        assert not told(world.observe()).keys() & set(self.CHANGES)

    @pytest.mark.parametrize("condition", [scaling, upgrading, recovering])
    def test_without_an_observation(self, condition: Any) -> None:
        assert condition(Outcome(failure="internal error")) is None

    def test_while_a_member_is_only_down(self) -> None:
        seen = cluster(3, range(3))
        pods = tuple(replace(pod, ready=pod.ordinal != 1) for pod in seen.pods)

        assert not told(replace(seen, pods=pods)).keys() & set(self.CHANGES)

    def test_while_nobody_answers(self) -> None:
        seen = replace(cluster(3, range(3)), etcd=None, statuses={})

        assert not told(seen).keys() & set(self.CHANGES)


class TestScaling:
    def test_up(self) -> None:
        seen = cluster(5, range(4), learner=3, blank=(3, 4))

        assert told(seen, CATCH_UP)["Scaling"] == Condition(
            "Scaling",
            "True",
            "ScalingUp",
            "from 3 to 5 members; waiting for learner c-3 to catch up",
        )

    def test_up_by_the_last_learner(self) -> None:
        assert told(cluster(4, range(4), learner=3), CATCH_UP)["Scaling"].reason == "ScalingUp"

    def test_down(self) -> None:
        wait = Wait("c-1 to serve, so that c-4 can be removed")
        scaled = told(cluster(3, range(5)), wait)["Scaling"]

        assert (scaled.reason, scaled.message) == (
            "ScalingDown",
            "from 5 to 3 members; waiting for c-1 to serve, so that c-4 can be removed",
        )

    def test_down_by_a_learner_beyond_the_size(self) -> None:
        assert told(cluster(3, range(4), learner=3))["Scaling"].reason == "ScalingDown"

    def test_while_the_write_fails(self) -> None:
        message = told(cluster(3, range(4)), failure="etcd refuses: unhealthy cluster")["Scaling"]

        assert message.message == (
            "from 4 to 3 members; to be retried: etcd refuses: unhealthy cluster"
        )

    def test_while_it_is_held_the_hold_is_the_reason(self) -> None:
        seen = as_paused(cluster(3, range(5)))

        scaled = told(seen, PAUSED, stored=stored("Scaling"))["Scaling"]

        assert (scaled.status, scaled.reason) == ("True", "Paused")
        assert scaled.message.startswith("to 3 members; spec.paused")

    def test_a_pause_half_way_does_not_end_it(self) -> None:
        """By then the StatefulSet has grown, and the member list is not requested."""
        seen = as_paused(cluster(5, range(4), learner=3, blank=(3, 4)))

        scaled = told(seen, PAUSED, stored=stored("Scaling"))["Scaling"]

        assert (scaled.status, scaled.reason) == ("True", "Paused")
        assert "Scaling" not in told(seen, PAUSED, stored=stored())

    def test_an_edit_during_the_pause_is_reported(self) -> None:
        seen = as_paused(cluster(5, range(3), replicas=3))

        assert told(seen, PAUSED, stored=stored())["Scaling"].reason == "Paused"

    @pytest.mark.parametrize(("size", "way"), [(5, "ScalingUp"), (1, "ScalingDown")])
    def test_requested_while_no_quorum_answers(self, size: int, way: str) -> None:
        seen = replace(cluster(size, range(3), replicas=3), etcd=None)

        scaled = told(seen, Wait("a quorum to answer"))["Scaling"]

        assert scaled.reason == way
        assert scaled.message == f"to {size} members; waiting for a quorum to answer"

    @pytest.mark.parametrize("by_hand", [1, 5])
    def test_was_reported_of_a_stateful_set_that_somebody_scaled(self, by_hand: int) -> None:
        """Without a quorum, `kubectl scale statefulset` looked like an edit of spec.size, until the
        quorum was back."""
        scaled, as_declared = cluster(3, range(3), replicas=by_hand), cluster(3, range(3))
        seen = replace(scaled, secret=as_declared.secret, etcd=None)

        assert "Scaling" not in told(seen, Wait("a quorum to answer"))

    def test_is_still_reported_when_the_quorum_is_lost_half_way(self) -> None:
        seen = replace(cluster(5, range(4), learner=3), etcd=None)

        assert "Scaling" not in told(seen)
        assert told(seen, stored=stored("Scaling"))["Scaling"].reason == "ScalingUp"
        assert "Scaling" not in told(seen, stored=stored("Scaling", generation=7))


class TestRecovering:
    def test_while_a_listed_member_is_lost(self) -> None:
        seen = lost(cluster(3, range(3)), 1)

        assert told(seen, Wait("the leader to answer"))["Recovering"] == Condition(
            "Recovering",
            "True",
            "MemberLost",
            "c-1: claim data-c-1 is being deleted; waiting for the leader to answer",
        )

    def test_while_its_place_is_empty(self) -> None:
        seen = cluster(3, (0, 2), blank=(1,))
        found = told(seen, Wait("pod c-1 to become ready"))

        assert found["Recovering"].reason == "MemberReplaced"
        assert found["Recovering"].message.startswith("c-1 is being replaced; waiting for pod c-1")
        assert "Scaling" not in found
        assert (found["Degraded"].status, found["Degraded"].reason) == ("True", "MembersMissing")

    def test_while_the_new_one_is_a_learner(self) -> None:
        found = told(cluster(3, range(3), learner=0, blank=(0,)), CATCH_UP)

        assert found["Recovering"].message.startswith("c-0 is being replaced")
        assert "Scaling" not in found

    def test_of_the_highest_ordinal_by_what_its_volume_was(self) -> None:
        found = told(cluster(3, (0, 1)))

        assert "Recovering" in found
        assert "Scaling" not in found

    def test_of_the_highest_ordinal_on_a_new_volume_by_what_was_said_before(self) -> None:
        """It looks like growth then."""
        seen = cluster(3, (0, 1), blank=(2,))

        assert told(seen)["Scaling"].reason == "ScalingUp"
        for before in (stored("Scaling"), stored("Scaling", "Recovering")):
            assert "Scaling" in told(seen, stored=before)
        assert "Scaling" not in told(seen, stored=stored("Recovering"))
        assert "Recovering" in told(seen, stored=stored("Recovering"))

    def test_growth_past_a_pod_that_started_late_was_taken_for_a_replacement(self) -> None:
        """From 1 to 3: c-2 had joined first. `Degraded` said that a member was missing."""
        seen = cluster(3, (0, 2), blank=(1,))

        found = told(seen, stored=stored("Scaling"))

        assert found["Scaling"].message == "from 2 to 3 members"
        assert "Recovering" not in found
        assert found["Degraded"].status == "False"

    def test_and_growth_beside_it(self) -> None:
        found = told(cluster(5, (0, 2), blank=(3, 4)))

        assert found["Recovering"].message == "c-1 is being replaced"
        assert found["Scaling"].message == "from 3 to 5 members"

    def test_and_shrinking_beside_it(self) -> None:
        found = told(cluster(3, (0, 2, 3)))

        assert found["Recovering"].message == "c-1 is being replaced"
        assert found["Scaling"].message == "from 4 to 3 members"

    def test_is_still_reported_when_the_quorum_is_lost(self) -> None:
        seen = replace(cluster(3, (0, 1)), etcd=None, statuses={})

        assert told(seen, stored=stored("Recovering"))["Recovering"].reason == "MemberLost"

    def test_a_pause_half_way_does_not_end_it(self) -> None:
        seen = as_paused(cluster(3, (0, 1), blank=(2,)))

        found = told(seen, PAUSED, stored=stored("Recovering"))

        assert (found["Recovering"].status, found["Recovering"].reason) == ("True", "Paused")
        assert (found["Degraded"].status, found["Degraded"].reason) == ("True", "MembersNotReady")
        assert "Scaling" not in found

    def test_a_pause_that_ends_does_not_make_it_growth(self) -> None:
        """A new volume at the highest ordinal looks like growth, and the edit changes the spec."""
        seen = cluster(3, (0, 1), blank=(2,))
        seen = replace(seen, cluster=replace(seen.cluster, generation=3))

        found = told(seen, stored=stored("Recovering", generation=2, controlPaused=True))

        assert "Recovering" in found
        assert "Scaling" not in found

    def test_an_edit_of_something_else_turned_a_replacement_into_growth(self) -> None:
        """As of the pod's resources, because the new pod finds no node. And `Degraded` ended: all
        members served."""
        seen = edited(cluster(3, (0, 1), blank=(2,)))

        found = told(seen, stored=stored("Recovering"))

        assert found["Recovering"].reason == "MemberReplaced"
        assert "Scaling" not in found
        assert (found["Degraded"].status, found["Degraded"].reason) == ("True", "MembersMissing")

        unheard = replace(seen, etcd=None, statuses={})
        assert "Recovering" in told(unheard, stored=stored("Recovering"))

    def test_an_edit_of_something_else_does_not_turn_growth_into_a_replacement(self) -> None:
        seen = edited(cluster(5, (0, 2), blank=(3, 4)))

        found = told(seen, stored=stored("Recovering", "Scaling"))

        assert found["Recovering"].message == "c-1 is being replaced"
        assert found["Scaling"].message == "from 3 to 5 members"

    def test_an_edit_of_the_size_is_growth(self) -> None:
        """Its first pass reports it before the replicas follow."""
        seen = edited(cluster(5, range(3), replicas=3))

        found = told(seen, stored=stored("Recovering"))

        assert found["Scaling"].message == "from 3 to 5 members"
        assert "Recovering" not in found

    def test_from_the_loss_of_the_quorum(self) -> None:
        seen = replace(cluster(3, range(3), replicas=0), etcd=None, statuses={}, pods=())
        assert seen.secret is not None
        record = records.recovering(recorded(seen), "c-1")
        seen = replace(seen, secret=replace(seen.secret, bootstrap=record))

        found = told(seen, Wait("Job c-recovery to make a cluster of one out of c-1"))

        assert found["Recovering"].reason == "QuorumLost"
        assert found["Recovering"].message.startswith("spec.recovery is carried out; waiting for")
        assert "Scaling" not in found

    def test_not_by_a_pod_that_waits_for_growth(self) -> None:
        assert told(cluster(5, range(3), blank=(3, 4)))["Degraded"].status == "False"


class TestUpgrading:
    def seen(self, record: str, spec: str, *run: str, **more: Any) -> Observation:
        return asks(runs(versions(cluster(3, range(3)), *run, **more), record), spec)

    def test_before_the_first_restart(self) -> None:
        seen = self.seen("3.6.16", "3.7.3", "3.6.16", "3.6.16", "3.6.16")

        assert told(seen, Wait("c-2 to serve"))["Upgrading"] == Condition(
            "Upgrading",
            "True",
            "Upgrading",
            "from etcd 3.6.16 to 3.7.3; 3 of 3 run 3.6.16; waiting for c-2 to serve",
        )

    def test_half_way(self) -> None:
        seen = self.seen("3.7.3", "3.7.3", "3.6.16", "3.6.16", "3.7.3")

        assert told(seen)["Upgrading"].message == (
            "from etcd 3.6.16 to 3.7.3; 2 of 3 run 3.6.16, 1 of 3 run 3.7.3"
        )

    def test_while_the_last_pod_has_not_answered_yet(self) -> None:
        seen = self.seen(
            "3.7.3", "3.7.3", "", "3.7.3", "3.7.3", made_for=("3.6.16", "3.7.3", "3.7.3")
        )

        assert told(seen)["Upgrading"].message == (
            "from etcd 3.6.16 to 3.7.3; 2 of 3 run 3.7.3, no answer from c-0"
        )

    def test_over_when_every_pod_was_made_for_it(self) -> None:
        """Even if the image contains another patch than its tag says."""
        seen = self.seen("3.7.3", "3.7.3", "3.7.2", "3.7.2", "3.7.2", made_for=["3.7.3"] * 3)

        assert "Upgrading" not in told(seen)

    def test_by_what_etcd_says_where_the_image_tells_no_version(self) -> None:
        seen = self.seen("3.7.3", "3.7.3", "3.6.16", "3.7.3", "3.7.3", made_for=["latest"] * 3)

        assert told(seen)["Upgrading"].message.startswith("from etcd 3.6.16 to 3.7.3")

    def test_down(self) -> None:
        seen = self.seen("3.7.3", "3.6.16", "3.7.3", "3.7.3", "3.7.3")

        assert told(seen)["Upgrading"].reason == "Downgrading"

    def test_going_back_half_way(self) -> None:
        seen = self.seen("3.6.16", "3.6.16", "3.6.16", "3.6.16", "3.7.3")

        downgrading = told(seen)["Upgrading"]

        assert downgrading.reason == "Downgrading"
        assert downgrading.message.startswith("from etcd 3.7.3 to 3.6.16")

    def test_a_jump_that_is_held(self) -> None:
        seen = self.seen("3.5.35", "3.7.3", "3.5.35", "3.5.35", "3.5.35")

        held = told(seen, Hold("VersionJump", "set spec.version to a 3.6 first"))["Upgrading"]

        assert held.reason == "VersionJump"
        assert held.message.endswith("; set spec.version to a 3.6 first")

    def test_not_when_the_spec_names_no_version(self) -> None:
        seen = self.seen("3.6.16", "3.7.3", "3.6.16", "3.6.16", "3.6.16")
        seen = replace(seen, cluster=replace(seen.cluster, version_declared=False))

        assert "Upgrading" not in told(seen)

    def test_while_no_member_answers(self) -> None:
        seen = self.seen("3.7.3", "3.7.3", "3.6.16", "3.7.3", "3.7.3")

        found = told(as_paused(seen), PAUSED)["Upgrading"]

        assert found.message.startswith("from etcd 3.6.16 to 3.7.3; spec.paused is true")


class TestWhoServes:
    def test_a_pod_that_is_no_member_is_not_missed(self) -> None:
        found = told(cluster(5, range(3), blank=(3, 4)))

        assert found["Available"].message == "3 of 3 members serve"

    def test_without_a_list_the_last_known_members_are_expected(self) -> None:
        seen = replace(cluster(5, range(3), blank=(3, 4)), etcd=None, statuses={})
        pods = tuple(replace(pod, ready=False) for pod in seen.pods)
        roles = {"c-0": "leader", "c-1": "voter", "c-2": "voter", "c-3": "learner", "x": "voter"}
        before = stored(memberStatus=[{"name": one, "role": role} for one, role in roles.items()])

        found = told(replace(seen, pods=pods), stored=before)["Available"]

        assert (found.status, found.reason) == ("False", "NoQuorum")
        assert found.message == "not serving: c-0 (not ready), c-1 (not ready), c-2 (not ready)"

    def test_why_each_is_missing_when_the_quorum_is_lost(self) -> None:
        world = formed(5)
        world.pods[0].trouble = "node n1 does not answer"
        for ordinal in (1, 3):
            world.empty(ordinal)
        world.turn()
        world.turn()
        world.pods[3].silent = True
        world.pods[4].deleting = True
        seen = world.observe()
        pods = tuple(replace(pod, ready=False) for pod in seen.pods)
        statuses = {2: replace(formed(5).observe().statuses[2], leader_id=0)}
        seen = replace(seen, etcd=None, pods=pods, statuses=statuses)

        assert told(seen)["Degraded"].message == (
            "not serving: c-0 (node n1 does not answer), c-1 (its volume is empty), "
            "c-2 (without a leader), c-3 (in its init container start), c-4 (stopping)"
        )

    def test_what_start_could_not_read(self) -> None:
        world = formed(3)
        world.claims[1].unreadable = "input/output error"
        world.restart_pod(1)
        world.turn()

        assert told(world.observe())["Degraded"].message == (
            "not serving: c-1 (its volume cannot be read: input/output error)"
        )

    def test_a_lost_member_is_reported_as_lost(self) -> None:
        seen = lost(cluster(3, range(3)), 1)
        pods = tuple(replace(pod, ready=pod.ordinal != 1) for pod in seen.pods)

        assert told(replace(seen, pods=pods))["Degraded"].message == (
            "not serving: c-1 (claim data-c-1 is being deleted)"
        )

    def test_an_alarm_degrades_even_while_all_serve(self) -> None:
        seen = replace(cluster(3, range(3)), alarms=(Alarm("NOSPACE", 1), Alarm("NOSPACE", 2)))

        assert told(seen)["Degraded"] == Condition(
            "Degraded", "True", "AlarmRaised", "etcd refuses writes: alarm NOSPACE is raised"
        )

    def test_an_alarm_is_reported_beside_a_member_that_does_not_serve(self) -> None:
        seen = replace(cluster(3, range(3)), alarms=(Alarm("CORRUPT", 1), Alarm("NOSPACE", 2)))
        pods = tuple(replace(pod, ready=pod.ordinal != 1) for pod in seen.pods)

        found = told(replace(seen, pods=pods))["Degraded"]

        assert found.reason == "MembersNotReady"
        assert found.message == (
            "not serving: c-1 (not ready); etcd refuses writes: alarm CORRUPT, NOSPACE is raised"
        )

    @pytest.mark.parametrize("away", [None, 1])
    @pytest.mark.parametrize("kinds", [("CORRUPT",), ("NOSPACE",), ("CORRUPT", "NOSPACE")])
    def test_the_message_leaves_room_for_every_alarm(
        self, kinds: tuple[Any, ...], away: int | None
    ) -> None:
        seen = cluster(3, range(3))
        pods = tuple(replace(pod, ready=pod.ordinal != away) for pod in seen.pods)
        alarms = tuple(Alarm(kind, 1) for kind in kinds)
        seen = replace(seen, pods=pods, alarms=alarms)
        before = told(seen)["Degraded"]
        as_stored = {"type": "Degraded", "status": before.status, "message": before.message}

        found = told(as_paused(seen), PAUSED, stored={"conditions": [as_stored]})["Degraded"]

        assert found.message == f"{before.message}, when it was last asked"

    def test_many_members_that_do_not_serve_hid_that_writes_are_refused(self) -> None:
        """The message was cut, and once no quorum answered, the alarm was forgotten."""
        seen = cluster(5, range(5))
        pods = tuple(
            replace(pod, ready=pod.ordinal == 0, trouble="0/9 nodes are available: " + "x" * 275)
            for pod in seen.pods
        )
        said = told(replace(seen, pods=pods, alarms=(Alarm("NOSPACE", 1),)))["Degraded"]

        assert said.message.startswith("not serving: c-1 (0/9 nodes")
        assert said.message[:LONGEST_MESSAGE].endswith(
            "; etcd refuses writes: alarm NOSPACE is raised"
        )
