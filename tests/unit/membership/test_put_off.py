"""Children that the API server refuses, or that others change again each time: other steps
continue."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from inplace_world import running
from recovery_world import RecoveryWorld, lost
from restore_world import born
from space_world import full
from world_switch import OFF, ON
from worlds import World, body, claim_gone, drive, formed, is_write, labels, until

from etcd_stateful import naming
from etcd_stateful.manifests.network_policy import OperatorPods
from etcd_stateful.membership import put_off
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.rolling import version_first
from etcd_stateful.membership.steps import (
    ApplyChild,
    CreateJob,
    Defragment,
    DeleteClaim,
    DeletePod,
    Hold,
    RecordMember,
    Settled,
    Step,
    Wait,
)
from etcd_stateful.observed.objects import Foreign
from etcd_stateful.observed.put_off import PutOff
from unit.membership.test_beginning import RIGHT, without_images
from unit.membership.test_grow import grown
from unit.membership.test_replace import REJOINS, chain, damaged_log, deleted, emptied
from unit.membership.test_shrink import shrunk
from unit.membership.test_tls_switch import began

POLICY, BUDGET, STATEFUL_SET = "NetworkPolicy", "PodDisruptionBudget", "StatefulSet"


class Refusals:
    """An API server that refuses some writes, by default those of these kinds, and an operator that
    has seen the refusals."""

    undoes = False
    why = ""

    def __init__(self, world: World, *kinds: str) -> None:
        self.kinds = kinds
        self._off: dict[tuple[str, str], PutOff] = {}
        self._observe, self._apply = world.observe, world.apply
        world.observe = self.observe  # type: ignore[method-assign]
        world.apply = self.apply  # type: ignore[method-assign]

    def observe(self) -> Observation:
        return replace(self._observe(), put_off=dict(self._off))

    def refuses(self, step: Step) -> bool:
        return isinstance(step, ApplyChild) and step.kind in self.kinds

    def apply(self, step: Step) -> None:
        if not self.refuses(step):
            self._apply(step)
            return
        assert isinstance(step, put_off.Postponable)
        if not put_off.may_wait(self.observe(), step):
            raise Starved(step.reason)
        name, made = put_off.name_of(step), put_off.made_by(step)
        known = self._off.get(name)
        assert not (known and known.is_of(made)), "it was put off"
        self._off[name] = PutOff(made, self.why or f"{name[0]} is refused", undone=self.undoes)


class Webhook(Refusals):
    """A webhook that replaces the image at each write of the StatefulSet."""

    undoes = True

    def __init__(self, world: World, image: str = "") -> None:
        super().__init__(world, STATEFUL_SET)
        self._world, self._image = world, image
        self._made: PutOff | None = None
        if (STATEFUL_SET, "c") in world.objects:
            self._mutate()

    def apply(self, step: Step) -> None:
        if not isinstance(step, ApplyChild) or step.kind != STATEFUL_SET:
            self._apply(step)
        elif self._made and self._made.is_of(step.manifest):
            super().apply(step)
        else:
            self._apply(step)
            self._made = PutOff(step.manifest, "")
            self._mutate()

    def _mutate(self) -> None:
        spec = self._world.alter(STATEFUL_SET, "c")["spec"]["template"]["spec"]
        [etcd] = spec["containers"]
        etcd["image"] = self._image or "mirror." + etcd["image"]


class Starved(Exception):
    """Nothing else is done before this write succeeds."""


def with_policy(world: World) -> World:
    world.operator = OperatorPods("operators", {"app": "etcd-operator"})
    return world


def edited(world: World, kind: str) -> None:
    """Changes the child, so that the operator wants to write it."""
    match kind:
        case "NetworkPolicy":
            world.alter(kind, "c")["spec"]["ingress"] = []
        case "PodDisruptionBudget":
            world.alter(kind, "c")["spec"]["unhealthyPodEvictionPolicy"] = "AlwaysAllow"
        case "Service":
            world.alter(kind, "c-client")["spec"]["selector"] = {"app": "other"}
        case _:
            spec = world.alter(kind, "c")["spec"]["template"]["spec"]
            spec["containers"][0]["image"] = "mirror." + spec["containers"][0]["image"]


@pytest.mark.parametrize("lose", [emptied, deleted, damaged_log])
@pytest.mark.parametrize("kind", [POLICY, BUDGET, "Service", STATEFUL_SET])
def test_a_lost_member_is_still_replaced(kind: str, lose: Any) -> None:
    world = with_policy(formed(3))
    drive(world)
    refused = Refusals(world, kind)
    edited(world, kind)
    lose(world, 1)
    world.history.clear()

    assert drive(world) == Settled()

    assert chain(world.history, 1)[-5:] == [one.format(1) for one in REJOINS]
    assert put_off.in_words(refused.observe()) == f"{kind} is refused"


def test_a_refused_policy_does_not_keep_a_cluster_from_forming() -> None:
    world = with_policy(World())
    Refusals(world, POLICY)

    assert drive(world) == Settled()

    assert world.record.latched


@pytest.mark.parametrize("kind", ["Service", STATEFUL_SET])
def test_a_cluster_that_forms_waits_for_what_its_pods_need(kind: str) -> None:
    world = World()
    Refusals(world, kind)

    with pytest.raises(Starved):
        drive(world)


def asked_for_a_recovery() -> RecoveryWorld:
    world = lost()
    world.ask(1)
    return world


@pytest.mark.parametrize("begin", [born, asked_for_a_recovery])
def test_a_job_before_which_no_pod_may_run_is_waited_for(begin: Any) -> None:
    world = begin()
    while not isinstance(step := decide(world.observe()), CreateJob):
        world.apply(step) if is_write(step) else world.turn()

    assert not put_off.may_wait(world.observe(), step)


@pytest.mark.parametrize("begin", [World, born, asked_for_a_recovery])
def test_a_webhook_kept_a_cluster_from_being_formed_restored_or_recovered(begin: Any) -> None:
    world = begin()
    Webhook(world)

    assert drive(world) == Settled()

    assert world.record.latched
    assert (world.record.survivor, world.record.restoring) == ("", False)


EDITS = [{"pod": {"labels": {"a": "1"}}}, {"version": "3.7.4"}, {"TLS": ON}]


@pytest.mark.parametrize("spec", EDITS, ids=["label", "version", "links"])
def test_beside_a_webhook_no_edit_ever_reached_the_pods(spec: Any) -> None:
    world = formed(3, TLS=OFF)
    Webhook(world)
    assert drive(world) == Settled()
    before = {pod.uid for pod in world.observe().pods}

    world.edit(**spec)

    assert drive(world, idle=8) == Settled()
    seen = world.observe()
    assert {pod.spec_hash for pod in seen.pods} == {version_first.spec_hash(seen.stateful_set)}
    assert not before & {pod.uid for pod in seen.pods}
    assert put_off.in_words(seen)


def test_no_pod_is_restarted_with_the_version_that_a_webhook_sets() -> None:
    world = formed(3)
    Webhook(world, "mirror/etcd:v3.6.14")
    drive(world)
    before = {pod.uid for pod in world.observe().pods}

    world.edit(pod={"labels": {"a": "1"}})
    drive(world)

    assert {pod.uid for pod in world.observe().pods} == before


class Kept(Refusals):
    """A policy by which nobody may delete a claim."""

    why = "no claim may be deleted"

    def refuses(self, step: Step) -> bool:
        return isinstance(step, DeleteClaim)


def test_a_claim_that_could_not_be_deleted_kept_a_lost_member_from_being_replaced() -> None:
    """The one of a member that was removed when the cluster shrank."""
    world = shrunk(5, 3)
    kept = Kept(world)
    assert drive(world) == Settled()
    assert put_off.in_words(kept.observe()) == "no claim may be deleted; no claim may be deleted"
    world.history.clear()

    emptied(world, 1)

    assert drive(world) == Settled()
    assert chain(world.history, 1)[-3:] == [one.format(1) for one in REJOINS][-3:]


def test_a_volume_that_could_not_be_deleted_kept_another_member_from_being_replaced() -> None:
    world = formed(5)
    Kept(world)
    damaged_log(world, 1)
    drive(world)
    world.history.clear()

    emptied(world, 3)

    step = drive(world)
    assert isinstance(step, Wait)
    assert "c-1" in step.reason
    assert chain(world.history, 3)[-3:] == [one.format(3) for one in REJOINS][-3:]


@pytest.mark.parametrize(
    ("size", "gone", "serve"), [(3, (0, 2), {0, 1}), (5, (2, 3, 4), {1})], ids=["empty", "old"]
)
def test_volumes_that_could_not_be_deleted_kept_a_recovered_cluster_from_serving(
    size: int, gone: tuple[int, ...], serve: set[int]
) -> None:
    """c-0 joins if its volume is empty, and does not start with its old data."""
    world = lost(size, gone)
    world.ask(1)
    kept = Kept(world)

    drive(world)

    assert world.record.survivor == ""
    assert world.serving() == serve
    assert "no claim may be deleted" in put_off.in_words(kept.observe())


def test_volumes_of_a_replaced_cluster_that_could_not_be_deleted_held_up_everything_else() -> None:
    world = running(3)
    world.ask()
    kept = Kept(world)
    drive(world)
    assert world.serving() == {3}
    assert "no claim may be deleted" in put_off.in_words(kept.observe())

    world.edit(size=5)

    drive(world)
    assert world.serving() == {3, 4}


def test_a_cluster_grows_into_no_claim_that_could_not_be_deleted() -> None:
    world = shrunk(5, 3)
    Kept(world)
    drive(world)

    world.edit(size=4)

    assert drive(world) == claim_gone(3)
    assert sorted(pod.ordinal for pod in world.observe().pods) == [0, 1, 2]


class Guarded(Refusals):
    """A webhook by which nobody may delete these pods."""

    why = "no pod may be deleted"

    def __init__(self, world: World, *ordinals: int) -> None:
        super().__init__(world)
        self._names = [naming.pod("c", one) for one in ordinals]

    def refuses(self, step: Step) -> bool:
        return isinstance(step, DeletePod) and step.name in self._names


def unready_and_outdated(*ordinals: int) -> World:
    world = formed(5)
    world.stuck.update(ordinals)
    for one in ordinals:
        world.restart_pod(one)
    drive(world)
    world.edit(pod={"labels": {"a": "1"}})
    return world


def test_a_pod_that_could_not_be_restarted_kept_a_lost_member_from_being_replaced() -> None:
    world = unready_and_outdated(1)
    guarded = Guarded(world, 1)
    drive(world)
    world.history.clear()

    emptied(world, 3)

    assert drive(world) == Wait("pod c-1 to become ready")
    assert put_off.in_words(guarded.observe()) == "no pod may be deleted"
    assert chain(world.history, 3)[-3:] == [one.format(3) for one in REJOINS][-3:]


def test_a_pod_that_could_not_be_restarted_kept_others_from_their_cure() -> None:
    world = unready_and_outdated(1, 3)
    Guarded(world, 1)
    before = world.pods[3].uid

    drive(world)

    assert world.pods[3].uid != before


def test_the_pod_of_a_removed_member_that_stayed_kept_another_member_away() -> None:
    world = formed(5)
    Guarded(world, 1)
    deleted(world, 1)
    drive(world)
    world.history.clear()

    emptied(world, 3)

    drive(world)
    assert chain(world.history, 3)[-3:] == [one.format(3) for one in REJOINS][-3:]


def crashing() -> World:
    world = formed(3)
    world.pods[1].crashing = True
    return world


def waiting_on_a_claim_that_goes() -> World:
    world = World(body(size=2))
    until(world, "push c-0 new")
    world.claims[1].deleting = True
    return world


def edited_without_images() -> World:
    world = without_images()
    world.edit(version=RIGHT)
    return world


def fenced() -> RecoveryWorld:
    world = lost()
    world.pods[2].silent = world.pods[2].overdue = True
    world.ask(1, fenced=["c-2"])
    return world


@pytest.mark.parametrize(
    "begin", [crashing, waiting_on_a_claim_that_goes, edited_without_images, fenced]
)
def test_a_refused_deletion_of_a_pod_was_tried_again_at_once(begin: Any) -> None:
    world = begin()
    while not isinstance(step := decide(world.observe()), DeletePod):
        world.apply(step) if is_write(step) else world.turn()
    seen = world.observe()
    assert put_off.may_wait(seen, step)
    off = {put_off.name_of(step): PutOff(put_off.made_by(step), "no pod may be deleted")}

    again = decide(replace(seen, put_off=off))

    assert not (isinstance(again, DeletePod) and again.uid == step.uid)


def test_a_pod_that_serves_and_could_not_be_restarted_is_waited_for() -> None:
    """An edit that needs all pods restarted must not go on without it."""
    world = formed(3)
    Guarded(world, 1)
    world.edit(pod={"labels": {"a": "1"}})

    with pytest.raises(Starved):
        drive(world)


def test_a_pod_that_serves_since_its_restart_was_refused_is_waited_for() -> None:
    world = formed(3)
    world.edit(pod={"labels": {"a": "1"}})
    while not isinstance(step := decide(world.observe()), DeletePod):
        world.apply(step) if is_write(step) else world.turn()
    off = {put_off.name_of(step): PutOff(put_off.made_by(step), "no pod may be deleted")}

    again = decide(replace(world.observe(), put_off=off))

    assert again == Wait(f"the API server to let pod {step.name} be restarted")


@pytest.mark.parametrize("lose", [emptied, deleted, damaged_log])
def test_a_service_that_a_finalizer_kept_held_up_the_replacement_of_a_lost_member(
    lose: Any,
) -> None:
    """Its names resolve for as long as it is there."""
    world = formed(3)
    metadata = world.alter("Service", "c")["metadata"]
    metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    metadata["finalizers"] = ["example.com/dns"]
    lose(world, 1)
    world.history.clear()

    assert drive(world) == Wait(
        "Service c, which is being deleted, to be gone; then it is recreated (its finalizer "
        "example.com/dns keeps it: if what set that is gone, remove it from metadata.finalizers)"
    )
    assert chain(world.history, 1)[-3:] == [one.format(1) for one in REJOINS][-3:]


def test_a_missing_stateful_set_is_waited_for() -> None:
    world = formed(3)
    Refusals(world, STATEFUL_SET)
    world.delete_stateful_set()

    with pytest.raises(Starved):
        drive(world)


def _epoch(live: Any) -> None:
    start = live["spec"]["template"]["spec"]["initContainers"][0]
    settings = next(one for one in start["env"] if one["name"] == "START_SETTINGS")
    settings["value"] = settings["value"].replace('"epoch": 1', '"epoch": 0')


def _version(live: Any) -> None:
    live["metadata"]["annotations"][naming.VERSION_ANNOTATION] = "3.6.12"


def _more(live: Any) -> None:
    live["spec"]["replicas"] = 5


def _none(live: Any) -> None:
    live["spec"]["replicas"] = 0


@pytest.mark.parametrize("alter", [_epoch, _version, _more, _none])
def test_a_template_that_members_depend_on_is_waited_for(alter: Any) -> None:
    world = formed(3)
    Refusals(world, STATEFUL_SET)
    alter(world.alter(STATEFUL_SET, "c"))

    with pytest.raises(Starved):
        drive(world)


def test_a_write_that_was_put_off_is_tried_again_once_members_depend_on_it() -> None:
    world = formed(3)
    Refusals(world, STATEFUL_SET)
    edited(world, STATEFUL_SET)
    assert drive(world) == Settled()

    _none(world.alter(STATEFUL_SET, "c"))

    assert labels([decide(world.observe())]) == ["StatefulSet c"]


def test_another_edit_of_the_same_object_is_tried_at_once() -> None:
    world = formed(3)
    refused = Refusals(world, STATEFUL_SET)
    world.edit(pod={"labels": {"a": "1"}})
    assert drive(world) == Settled()
    refused.kinds = ()

    world.edit(pod={"labels": {"a": "2"}})

    assert labels([decide(world.observe())]) == ["StatefulSet c"]
    assert drive(world) == Settled()
    assert not put_off.in_words(world.observe())


@pytest.mark.parametrize("spec", [{"version": "3.6.13"}, {"pod": {"labels": {"a": "1"}}}])
def test_no_pod_is_restarted_for_a_template_that_is_refused(spec: Any) -> None:
    world = formed(3)
    edited(world, STATEFUL_SET)
    Refusals(world, STATEFUL_SET)
    drive(world)
    world.history.clear()
    world.edit(**spec)

    drive(world)

    assert world.history == []


class TestBudget:
    def test_nobody_is_promoted_before_it_is_raised(self) -> None:
        """With four voters the old budget would allow two evictions at once, and no quorum would be
        left."""
        world = grown(3, 4)
        refused = Refusals(world, BUDGET)

        step = drive(world)

        assert isinstance(step, Wait)
        assert "PodDisruptionBudget" in step.reason
        assert len(world.etcd.voters) == 3
        refused.kinds = ()
        refused._off.clear()
        assert drive(world) == Settled()
        assert len(world.etcd.voters) == 4

    def test_no_learner_is_added_that_could_not_be_promoted(self) -> None:
        world = grown(3, 4)
        edited(world, BUDGET)
        Refusals(world, BUDGET)

        step = drive(world)

        assert isinstance(step, Wait)
        assert "before c-3 is added" in step.reason
        assert len(world.etcd.members) == 3

    def test_without_any_budget_no_member_is_added(self) -> None:
        world = grown(3, 5)
        del world.objects[BUDGET, "c"]
        Refusals(world, BUDGET)

        step = drive(world)

        assert isinstance(step, Wait)
        assert "before c-3 is added" in step.reason
        assert len(world.etcd.members) == 3

    def test_without_any_budget_a_cluster_forms_and_can_be_edited(self) -> None:
        world = World()
        Refusals(world, BUDGET)
        assert drive(world) == Settled()
        world.edit(pod={"labels": {"a": "1"}})
        world.history.clear()

        assert drive(world) == Settled()

        assert {"restart c-0", "restart c-1", "restart c-2"} <= set(labels(world.history))

    def test_one_that_is_too_high_does_not_hold_up_a_shrink(self) -> None:
        world = shrunk(5, 3)
        Refusals(world, BUDGET)

        assert drive(world) == Settled()

        assert len(world.etcd.voters) == 3


def test_a_secret_that_is_lost_meanwhile_is_recreated() -> None:
    """Which children should exist follows from its record. Asking for it first was an internal
    error."""
    world = with_policy(formed(3))
    drive(world)
    refused = Refusals(world, POLICY)
    edited(world, POLICY)
    drive(world)
    world.lose_secret()
    assert put_off.in_words(refused.observe()) == ""

    assert drive(world) == Settled()

    assert put_off.in_words(refused.observe()) == "NetworkPolicy is refused"


@pytest.mark.parametrize("kind", [POLICY, BUDGET])
def test_an_object_that_stays_terminating_holds_nothing_up(kind: str) -> None:
    """As with a finalizer that nobody removes."""
    world = with_policy(formed(3))
    drive(world)
    world.objects[kind, "c"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    emptied(world, 1)
    world.history.clear()

    step = drive(world)

    assert chain(world.history, 1)[-5:] == [one.format(1) for one in REJOINS]
    assert isinstance(step, Wait)
    assert f"{kind} c, which is being deleted" in step.reason


@pytest.mark.parametrize("kind", [POLICY, BUDGET])
def test_an_object_that_stayed_terminating_kept_full_members_from_being_defragmented(
    kind: str,
) -> None:
    """etcd refuses writes until they are."""
    world = with_policy(full(3))
    world.apply(decide(world.observe()))
    world.objects[kind, "c"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    step = drive(world)

    assert sum(isinstance(one, Defragment) for one in world.history) == 3
    assert isinstance(step, Wait)
    assert f"{kind} c, which is being deleted" in step.reason


def test_an_object_that_stayed_terminating_hid_what_a_human_has_to_do() -> None:
    world = with_policy(formed(3, version="3.5.33"))
    drive(world)
    world.objects[POLICY, "c"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.edit(version="3.7.3")

    step = drive(world)

    assert isinstance(step, Hold)
    assert step.reason == "VersionJump"


def test_a_refused_template_kept_members_with_room_from_taking_writes() -> None:
    """Whatever the edit, they did not count as running with the declared quota."""
    world = full(3)
    Refusals(world, STATEFUL_SET)
    world.edit(pod={"labels": {"a": "1"}})

    assert drive(world) == Settled()
    assert not world.etcd.alarms


@pytest.mark.parametrize(("file", "quota"), [(2100, "8Gi"), (2000, "1Gi")])
def test_a_quota_that_is_refused_with_its_template_does_not_let_writes_in(
    file: int, quota: str
) -> None:
    """The lower of the running and the declared quota counts."""
    world = full(3, *[(file, file - 10)] * 3, etcd={"quotaBackend": "2304Mi"})
    Refusals(world, STATEFUL_SET)
    world.edit(etcd={"quotaBackend": quota})

    step = drive(world)

    assert isinstance(step, Hold)
    assert step.reason == "NoSpace"


def test_a_taken_name_kept_full_members_from_being_defragmented() -> None:
    world = full(3)
    world.foreign = (Foreign("Service", "c-client", "nobody (it has no owner)"),)

    step = drive(world)

    assert sum(isinstance(one, Defragment) for one in world.history) == 3
    assert isinstance(step, Hold)
    assert step.reason == "NameTaken"


@pytest.mark.parametrize(("at_first", "then"), [(OFF, ON), (ON, OFF)], ids=["on", "off"])
def test_the_links_change_beside_an_object_that_stays_terminating(at_first: Any, then: Any) -> None:
    world = with_policy(began(at_first, 3))
    drive(world)
    world.objects[POLICY, "c"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.edit(TLS=then)

    drive(world, idle=8)

    assert world.schemes == {"https" if then == ON else "http"}


@pytest.mark.parametrize(("at_first", "then"), [(OFF, ON), (ON, OFF)], ids=["on", "off"])
def test_no_link_changes_while_its_template_is_refused(at_first: Any, then: Any) -> None:
    """Once it had begun, everything else would wait for that template: no lost member would be
    replaced."""
    world = began(at_first, 3)
    edited(world, STATEFUL_SET)
    Refusals(world, STATEFUL_SET)
    drive(world)
    before = world.record.links
    world.edit(TLS=then)

    drive(world, idle=8)

    assert world.record.links == before


def test_another_reason_that_needs_a_human_is_still_reported() -> None:
    world = with_policy(formed(3))
    drive(world)
    Refusals(world, POLICY)
    edited(world, POLICY)
    world.foreign = (Foreign("Service", "c-client", "nobody (it has no owner)"),)

    step = drive(world)

    assert isinstance(step, Hold)
    assert step.reason == "NameTaken"


def test_only_the_record_of_a_pod_that_waits_for_its_ticket_may_wait() -> None:
    """Any other one is of data that is about to be used."""
    world = World(body(3))
    step = until(world, "record data-c-0")

    assert put_off.may_wait(world.observe(), step)
    assert not put_off.may_wait(formed(3).observe(), step)


@pytest.mark.parametrize("kind", [RecordMember, DeleteClaim])
def test_a_claim_of_a_restore_that_cannot_be_written_held_up_everything_else(kind: Any) -> None:
    """As with a policy that keeps claims from being deleted, once a restore had failed."""
    world = running(3)
    world.ask()
    step = until(world, "record data-c-3")
    if kind is DeleteClaim:
        world.apply(step)
        world.restore = None
        step = until(world, "delete data-c-3")
    seen = world.observe()
    off = {put_off.name_of(step): PutOff(put_off.made_by(step), "a policy refuses it")}
    alone = replace(seen, etcd=None, statuses={})

    assert put_off.may_wait(seen, step)
    assert not is_write(decide(replace(seen, put_off=off)))
    assert "a policy refuses it" in put_off.in_words(replace(seen, put_off=off))
    assert not put_off.may_wait(alone, step), "it may be the way out"
    assert not put_off.may_wait(replace(seen, secret=None), step)
