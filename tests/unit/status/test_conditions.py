"""Conditions: every reason can occur, and none is reported when it is not true."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from views import with_pod
from worlds import World, body, drive, formed, is_write, until

from etcd_stateful.api.cluster import RefusedCluster, parse_cluster
from etcd_stateful.membership.beginning.bootstrap import at_running_version
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import DeletePod, EtcdChange, Hold, Settled
from etcd_stateful.status.conditions import all_conditions, as_stored
from etcd_stateful.status.outcome import Condition, Outcome

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z"


def outcome(world: World, **more: object) -> Outcome:
    seen = world.observe()
    return Outcome(seen, decide(seen), **more)


def conditions(told: Outcome) -> dict[str, Condition]:
    return {one.type: one for one in all_conditions(told)}


def refusal(**spec: object) -> RefusedCluster:
    with pytest.raises(RefusedCluster) as caught:
        parse_cluster(body(**spec))
    return caught.value


def of(world: World, kind: str, **more: object) -> Condition:
    return conditions(outcome(world, **more))[kind]


def forming() -> World:
    world = World(body(3))
    world.cut_off = True
    drive(world)
    return world


def one_down() -> World:
    world = formed(3)
    world.pods[1].where, world.pods[1].trouble = "pending", "cannot be scheduled: no node"
    return world


def all_down() -> World:
    world = formed(3)
    for pod in world.pods.values():
        pod.where = "pending"
    return world


def paused() -> World:
    world = formed(3)
    world.edit(paused=True)
    return world


def held() -> World:
    """A cluster whose name a deleted one has left its claims under."""
    return formed(3).remake("new-uid")


class TestAccepted:
    def test_a_valid_spec(self) -> None:
        assert of(formed(3), "Accepted") == Condition(
            "Accepted", "True", "SpecAccepted", "every field is understood"
        )

    def test_a_field_without_effect_is_reported(self) -> None:
        condition = of(World(body(3, pod={"busyboxImage": "x"})), "Accepted")

        assert condition.status == "True"
        assert condition.message.startswith("spec.pod.busyboxImage: has no effect")

    @pytest.mark.parametrize(
        ("spec", "reason"),
        [
            ({"size": 9}, "InvalidSpec"),
            ({"version": "3.2.13"}, "UnsupportedVersion"),
            ({"TLS": {"static": {}}}, "InvalidSpec"),
        ],
    )
    def test_a_spec_that_is_refused_before_anything_has_formed_says_why(
        self, spec: dict, reason: str
    ) -> None:
        refused = refusal(**spec)

        told = conditions(Outcome(refused=refused))

        assert told == {
            "Accepted": Condition("Accepted", "False", reason, str(refused)),
            "Available": Condition(
                "Available",
                "False",
                "NotAccepted",
                "the spec is not accepted, and no cluster has formed",
            ),
            "Progressing": Condition("Progressing", "False", reason, "the spec is not accepted"),
            "Degraded": Condition("Degraded", "False", "NotFormed", "the cluster has not formed"),
            "Ready": Condition("Ready", "False", reason, str(refused)),
        }


class TestAvailable:
    def test_while_it_forms(self) -> None:
        world = forming()
        assert world.observe().pods[0].ready

        assert of(world, "Available") == Condition(
            "Available", "False", "Forming", "the cluster has not formed yet"
        )

    def test_when_all_serve(self) -> None:
        assert of(formed(3), "Available") == Condition(
            "Available", "True", "QuorumServes", "3 of 3 members serve"
        )

    def test_when_one_is_down(self) -> None:
        assert of(one_down(), "Available").message == (
            "2 of 3 members serve; not serving: c-1 (cannot be scheduled: no node)"
        )

    def test_why_a_pod_whose_etcd_is_ready_is_not_was_told_nowhere(self) -> None:
        """Admission had added a readiness gate, and everything waited for that pod."""
        gate = 'corresponding condition of pod readiness gate "elb" does not exist.'
        seen = with_pod(formed(3).observe(), 1, ready=False, unready=gate)
        told = conditions(Outcome(seen, decide(seen)))

        assert told["Available"].message == (
            f"2 of 3 members serve; not serving: c-1 (not ready: {gate})"
        )
        assert told["Progressing"].message == f"waiting for pod c-1 to become ready: {gate}"

    def test_when_all_are_down(self) -> None:
        condition = of(all_down(), "Available")

        assert (condition.status, condition.reason) == ("False", "NoQuorum")
        assert condition.message == (
            "not serving: c-0 (not ready), c-1 (not ready), c-2 (not ready)"
        )

    def test_a_lost_quorum_is_believed_before_the_probes_notice(self) -> None:
        told = Outcome(formed(3).observe(), Hold("QuorumLost", "two volumes are empty"))

        assert conditions(told)["Available"] == Condition(
            "Available", "False", "NoQuorum", "two volumes are empty"
        )

    def test_a_pod_that_is_being_deleted_does_not_count(self) -> None:
        world = formed(1)
        world.pods[0].deleting = True

        assert of(world, "Available").status == "False"

    def test_when_the_stateful_set_and_all_pods_are_gone(self) -> None:
        world = formed(3)
        world.delete_stateful_set(with_pods=True)
        world.turn()

        condition = of(world, "Available")

        assert condition.status == "False"
        assert "c-2 (no pod)" in condition.message

    @pytest.mark.parametrize("kind", ["Accepted", "Available", "Degraded"])
    def test_when_the_cluster_could_not_be_observed(self, kind: str) -> None:
        condition = conditions(Outcome(failure="internal error"))[kind]

        assert condition == Condition(
            kind, "Unknown", "NotObserved", "the cluster could not be observed"
        )

    def test_the_last_report_is_kept_if_the_cluster_could_not_be_observed(self) -> None:
        world = formed(3)
        world.pods[1].where = "pending"
        said = as_stored(all_conditions(outcome(world)), {}, NOW, 4)
        stored = {"phase": "Running", "conditions": said}

        told = all_conditions(Outcome(failure="internal error", stored=stored))

        before = {one["type"]: one for one in said}
        again = {one["type"]: one for one in as_stored(told, before, LATER, 5)}
        for kind in ("Accepted", "Available", "Degraded"):
            assert again[kind] == before[kind]

    def test_never_without_the_latch_or_without_a_ready_pod(self) -> None:
        seen = formed(3).observe()
        for latched in (True, False):
            for ready in (True, False):
                told = Outcome(_as(seen, latched=latched, ready=ready), Settled())

                available = conditions(told)["Available"].status == "True"

                assert available is (latched and ready)


def _as(seen: Observation, *, latched: bool, ready: bool) -> Observation:
    assert seen.secret is not None
    assert seen.secret.bootstrap is not None
    record = replace(seen.secret.bootstrap, latched=latched)
    pods = tuple(replace(pod, ready=ready) for pod in seen.pods)
    return replace(seen, secret=replace(seen.secret, bootstrap=record), pods=pods)


class TestProgressing:
    def test_as_declared(self) -> None:
        assert of(formed(3), "Progressing") == Condition(
            "Progressing", "False", "AsDeclared", "the cluster is as declared"
        )

    def test_working(self) -> None:
        assert of(World(body(3)), "Progressing") == Condition(
            "Progressing", "True", "Working", "a cluster of 3 begins"
        )

    def test_waiting(self) -> None:
        assert of(one_down(), "Progressing") == Condition(
            "Progressing", "True", "Waiting", "waiting for pod c-1: cannot be scheduled: no node"
        )

    def test_held(self) -> None:
        condition = of(held(), "Progressing")

        assert (condition.status, condition.reason) == ("False", "RetainedClaims")
        assert "spec.retainedClaims" in condition.message

    def test_a_refused_write(self) -> None:
        assert of(World(body(3)), "Progressing", failure="quota exceeded") == Condition(
            "Progressing", "True", "StepFailed", "quota exceeded"
        )

    def test_no_step(self) -> None:
        told = conditions(Outcome(formed(1).observe()))

        assert told["Progressing"].reason == "AsDeclared"


class TestPodsOfAnOlderTemplate:
    """F21: the cluster is at rest, but says which pods do not have the spec's template yet."""

    def seen(
        self, *, observed: int = 2, newest: str = "c-new", same: str = "", **revisions: str
    ) -> Observation:
        """`same`: the pod that was created from the present spec."""
        seen = formed(3).observe()
        live = copy.deepcopy(dict(seen.stateful_set or {}))
        live["metadata"]["generation"] = 2
        live["status"] = {"observedGeneration": observed, "updateRevision": newest}
        of_now = at_running_version(seen).template_hash
        pods = tuple(
            replace(
                pod,
                revision=revisions.get(pod.name.replace("-", "_"), "c-new"),
                spec_hash=of_now if pod.name == same else "of-before",
            )
            for pod in seen.pods
        )
        return replace(seen, stateful_set=live, pods=pods)

    def message(self, seen: Observation) -> str:
        return conditions(Outcome(seen, Settled()))["Progressing"].message

    @pytest.mark.parametrize("older", ["c-older", ""])
    def test_are_named_if_the_spec_has_changed(self, older: str) -> None:
        seen = self.seen(c_0="c-old", c_2=older)

        assert seen.outdated == ("c-0", "c-2")
        assert self.message(seen) == (
            "the cluster is as declared except for pods c-0, c-2, which have yet to be restarted "
            "for the spec"
        )

    def test_keep_running_if_only_the_operator_has_changed(self) -> None:
        message = self.message(self.seen(c_1="c-old", same="c-1"))

        assert message.startswith(
            "the cluster is as declared; pods c-1 keep the template from before another version"
        )
        assert "kubectl rollout restart" in message
        assert "when it is next restarted" in message
        assert "spec.pod.annotations" in message

    def test_of_both_kinds_are_named_separately(self) -> None:
        message = self.message(self.seen(c_0="c-old", c_1="c-old", same="c-1"))

        assert "except for pods c-0, which have yet" in message
        assert "; pods c-1 keep the template" in message

    @pytest.mark.parametrize(
        "seen",
        [
            {},
            {"c_0": "c-old", "observed": 1},
            {"c_0": "c-old", "newest": ""},
        ],
        ids=["none", "edit not seen by its controller", "newest unknown"],
    )
    def test_are_not_assumed(self, seen: dict) -> None:
        assert self.message(self.seen(**seen)) == "the cluster is as declared"

    def test_are_not_looked_for_without_a_stateful_set(self) -> None:
        assert replace(self.seen(c_0="c-old"), stateful_set=None).outdated == ()


class TestDegraded:
    def test_before_it_has_formed(self) -> None:
        assert of(forming(), "Degraded").reason == "NotFormed"

    def test_when_all_serve(self) -> None:
        assert of(formed(3), "Degraded") == Condition(
            "Degraded", "False", "AllMembersServe", "all members serve"
        )

    def test_a_member_that_does_not_serve_is_named_with_the_reason(self) -> None:
        world = formed(3)
        world.pods[0].deleting = True
        world.pods[1].where, world.pods[1].trouble = "pending", "image x cannot be pulled"
        del world.pods[2]

        assert of(world, "Degraded") == Condition(
            "Degraded",
            "True",
            "MembersNotReady",
            "not serving: c-0 (stopping), c-1 (image x cannot be pulled), c-2 (no pod)",
        )

    def test_a_missing_stateful_set_does_not_hide_its_members(self) -> None:
        world = formed(3)
        world.delete_stateful_set(with_pods=True)
        world.turn()

        assert of(world, "Degraded").status == "True"


class TestReady:
    """Helm and Flux took every object for ready as soon as it was applied."""

    def test_when_the_cluster_is_as_declared_and_all_members_serve(self) -> None:
        assert of(formed(3), "Ready") == Condition(
            "Ready", "True", "AsDeclared", "as declared, and all members serve"
        )

    def test_not_while_it_forms(self) -> None:
        told = conditions(outcome(forming()))

        assert told["Ready"] == replace(told["Progressing"], type="Ready", status="False")
        assert told["Ready"].reason == "Waiting"

    @pytest.mark.parametrize(
        ("world", "reason"),
        [
            (one_down, "Waiting"),
            (paused, "Paused"),
            (held, "RetainedClaims"),
        ],
    )
    def test_says_what_is_amiss(self, world: Callable[[], World], reason: str) -> None:
        ready = of(world(), "Ready")

        assert (ready.status, ready.reason) == ("False", reason)
        assert ready.message in {one.message for one in all_conditions(outcome(world()))}

    @pytest.mark.parametrize(("world", "kind"), [(one_down, "Degraded"), (all_down, "Available")])
    def test_not_while_members_are_away_even_if_nothing_is_left_to_do(
        self, world: Callable[[], World], kind: str
    ) -> None:
        told = conditions(Outcome(world().observe(), Settled()))

        assert told["Ready"] == replace(told[kind], type="Ready", status="False")

    def test_not_before_an_edit_is_carried_out(self) -> None:
        world = formed(3)
        world.edit(size=5)

        assert (of(world, "Ready").status, of(world, "Ready").reason) == ("False", "Working")

    def test_not_while_a_write_is_refused(self) -> None:
        told = conditions(outcome(formed(3), failure="quota exceeded"))

        assert told["Ready"] == Condition("Ready", "False", "StepFailed", "quota exceeded")

    def test_unknown_when_nothing_could_be_observed(self) -> None:
        assert conditions(Outcome(failure="internal error"))["Ready"] == Condition(
            "Ready", "Unknown", "NotObserved", "the cluster could not be observed"
        )


class TestBlockedAndPaused:
    def test_neither_exists_at_rest(self) -> None:
        assert list(conditions(outcome(formed(3)))) == [
            "Accepted",
            "Available",
            "Progressing",
            "Degraded",
            "Ready",
        ]

    def test_blocked_while_a_human_has_to_act(self) -> None:
        told = conditions(outcome(held()))

        assert told["Blocked"].status == "True"
        assert told["Blocked"].reason == "RetainedClaims"
        assert "Paused" not in told

    def test_paused_is_not_blocked(self) -> None:
        told = conditions(outcome(paused()))

        assert told["Paused"] == Condition(
            "Paused",
            "True",
            "SpecPaused",
            "spec.paused is true: nothing is written until it is false",
        )
        assert "Blocked" not in told
        assert told["Available"].status == "True"


def test_reasons_have_the_form_that_kubernetes_wants() -> None:
    """At every step of a normal life, and of several that go wrong."""
    for told in _a_life():
        for one in all_conditions(told):
            assert re.fullmatch(r"[A-Za-z]([A-Za-z0-9]*[A-Za-z0-9])?", one.reason), one
            assert one.status in {"True", "False"}, "a cluster that is seen leaves nothing unknown"
            assert one.message


def _a_life() -> list[Outcome]:
    told: list[Outcome] = []
    for change in (_nothing, _empty_one, _empty_all, _lose_secret, _resize, _pause):
        world = World(body(3))
        for turn in range(50):
            if turn == 30:
                change(world)
            seen = world.observe()
            step = decide(seen)
            told.append(Outcome(seen, step))
            if isinstance(step, EtcdChange | DeletePod):
                break  # this world's etcd changes no membership
            world.apply(step) if is_write(step) else world.turn()
    return told


def _nothing(world: World) -> None:
    pass


def _empty_one(world: World) -> None:
    world.empty(1)


def _empty_all(world: World) -> None:
    for ordinal in range(3):
        world.empty(ordinal)


def _lose_secret(world: World) -> None:
    world.lose_secret()


def _resize(world: World) -> None:
    world.edit(size=1)


def _pause(world: World) -> None:
    world.edit(paused=True)


def test_available_is_true_only_while_a_latched_cluster_has_a_ready_pod() -> None:
    for told in _a_life():
        seen = told.observation
        assert seen is not None
        latched = bool(seen.secret and seen.secret.bootstrap and seen.secret.bootstrap.latched)
        ready = any(pod.ready and not pod.deleting for pod in seen.pods)

        available = conditions(told)["Available"].status == "True"

        assert available is (latched and ready)


class TestDates:
    SAID = (Condition("Available", "True", "QuorumServes", "3 of 3 members serve"),)

    def as_stored(
        self, *said: Condition, before: list[dict] | None = None, generation: int = 1
    ) -> list:
        stored = {one["type"]: one for one in before or []}
        return as_stored(list(said), stored, LATER if before else NOW, generation)

    def test_a_new_condition_has_the_present_time(self) -> None:
        assert self.as_stored(*self.SAID) == [
            {
                "type": "Available",
                "status": "True",
                "reason": "QuorumServes",
                "message": "3 of 3 members serve",
                "observedGeneration": 1,
                "lastTransitionTime": NOW,
                "lastUpdateTime": NOW,
            }
        ]

    def test_an_unchanged_condition_keeps_its_times(self) -> None:
        before = self.as_stored(*self.SAID)

        assert self.as_stored(*self.SAID, before=before) == before

    def test_another_message_is_an_update_and_no_transition(self) -> None:
        before = self.as_stored(*self.SAID)
        (after,) = self.as_stored(replace(self.SAID[0], message="2 of 3"), before=before)

        assert after["lastTransitionTime"] == NOW
        assert after["lastUpdateTime"] == LATER

    @pytest.mark.parametrize("change", [{"reason": "Other"}, {"message": "other"}])
    def test_only_a_status_that_changes_is_a_transition(self, change: dict[str, str]) -> None:
        before = self.as_stored(*self.SAID)
        (after,) = self.as_stored(replace(self.SAID[0], **change), before=before)

        assert after["lastTransitionTime"] == NOW

    def test_another_status_is_a_transition(self) -> None:
        before = self.as_stored(*self.SAID)
        (after,) = self.as_stored(replace(self.SAID[0], status="False"), before=before)

        assert after["lastTransitionTime"] == LATER
        assert after["lastUpdateTime"] == LATER

    def test_another_generation_is_an_update(self) -> None:
        before = self.as_stored(*self.SAID)
        (after,) = self.as_stored(*self.SAID, before=before, generation=2)

        assert after["lastTransitionTime"] == NOW
        assert after["lastUpdateTime"] == LATER

    def test_an_old_condition_without_times_gets_them(self) -> None:
        (after,) = self.as_stored(*self.SAID, before=[{"type": "Available", "status": "True"}])

        assert after["lastTransitionTime"] == LATER

    def test_a_long_message_is_truncated_and_still_stable(self) -> None:
        long = replace(self.SAID[0], message="x" * 5000)
        before = self.as_stored(long)

        assert len(before[0]["message"]) == 1024
        assert self.as_stored(long, before=before) == before


class TestDrainsBlocked:
    @pytest.mark.parametrize("size", [1, 2])
    def test_a_cluster_that_can_spare_no_pod_says_so_and_what_to_do(self, size: int) -> None:
        condition = of(formed(size), "DrainsBlocked")

        assert (condition.status, condition.reason) == ("True", "NoMemberToSpare")
        assert "the drain of a node that runs one waits" in condition.message
        assert "spec.size to 3" in condition.message
        assert "delete the pod by hand" in condition.message

    def test_deleting_the_only_data_is_not_suggested(self) -> None:
        condition = of(formed(2, pod={"emptyDir": {}}), "DrainsBlocked")

        assert "delete" not in condition.message

    def test_three_members_report_nothing(self) -> None:
        assert "DrainsBlocked" not in conditions(outcome(formed(3)))

    def test_the_only_member_was_not_reported_once_the_spec_asked_for_three(self) -> None:
        """The other pods may wait for a node for hours, and the drain of the first waits too."""
        world = formed(1)
        world.stuck = {1, 2}
        world.edit(size=3)
        drive(world)

        message = of(world, "DrainsBlocked").message

        assert "the only voter is needed" in message
        assert "That ends when 3 members serve" in message
        assert "Set spec.size" not in message

    def test_three_members_were_reported_as_one_once_the_spec_asked_for_one(self) -> None:
        world = formed(3)
        world.edit(size=1)

        assert "DrainsBlocked" not in conditions(outcome(world))

    def test_a_learner_beside_three_keeps_each_of_them(self) -> None:
        """It raises the budget to three, and is itself never Ready."""
        world = formed(3)
        world.edit(size=5)
        until(world, "promote c-3")

        assert "all 3 voters are needed" in of(world, "DrainsBlocked").message

    def test_without_a_quorum_it_stays_what_it_was(self) -> None:
        world = formed(2)
        before = outcome(world)
        world.cut_off = True
        stored = {"conditions": as_stored(all_conditions(before), {}, NOW, 1)}

        assert "DrainsBlocked" in conditions(outcome(world, stored=stored))
        assert "DrainsBlocked" not in conditions(outcome(world))

    def test_a_cluster_that_has_not_formed_reports_nothing_as_it_has_no_budget(self) -> None:
        world = World(body(1))
        until(world, "latch")
        assert world.observe().etcd is not None

        assert "DrainsBlocked" not in conditions(outcome(world))
