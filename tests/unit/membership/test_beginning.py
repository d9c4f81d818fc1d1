"""Edits of a cluster that has not formed yet: applied if no member can have data, else reported."""

from __future__ import annotations

from dataclasses import replace

import pytest
from views import with_claim, with_pod
from worlds import World, body, drive, formed, is_write, labels, until

from etcd_stateful import naming
from etcd_stateful.api.tls import Link
from etcd_stateful.certificates import provided
from etcd_stateful.membership.beginning import attempts
from etcd_stateful.membership.observation import recorded
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import (
    ApplyChild,
    CreateSecret,
    DeletePod,
    Hold,
    PushTicket,
    Settled,
    Wait,
    WriteBootstrap,
)
from etcd_stateful.membership.tls import certificates
from etcd_stateful.observed.certificates import Certificates
from etcd_stateful.records.member import MemberRecord

WRONG, RIGHT = "3.7.99", "3.7.3"
STORAGE = pytest.mark.parametrize(
    "storage", [{}, {"pod": {"emptyDir": {}}}], ids=["claims", "emptyDir"]
)


def begun(**spec: object) -> World:
    """A cluster whose record is written, and for which nothing else exists yet."""
    world = World(body(3, **spec))
    step = decide(world.observe())
    assert isinstance(step, CreateSecret)
    world.apply(step)
    return world


def without_images(version: str = WRONG, size: int = 3, **spec: object) -> World:
    """A cluster whose members have their tickets, and wait for an image that does not exist."""
    world = World(body(size, version=version, **spec))
    world.late_images = {version}
    drive(world)
    assert len([one for one in world.history if isinstance(one, PushTicket)]) == size
    return world


class TestNoTicketsGiven:
    @pytest.mark.parametrize(
        ("edit", "now"),
        [
            ({"version": "3.6.14"}, ("3.6.14", 3)),
            ({"size": 1}, ("3.7.3", 1)),
            ({"size": 5, "version": "3.5.33"}, ("3.5.33", 5)),
        ],
    )
    def test_a_cluster_begins_with_its_edited_spec(
        self, edit: dict[str, object], now: tuple[str, int]
    ) -> None:
        world = begun()
        world.edit(**edit)

        assert drive(world) == Settled()

        assert (world.record.version, len(world.record.members)) == now
        assert (world.record.oldest, world.record.attempt) == (now[0], 2)
        assert {pod.version for pod in world.pods.values()} == {now[0]}

    @pytest.mark.parametrize("by_hand", [8, 12])
    def test_a_stateful_set_that_was_scaled_by_hand_began_with_more_members_than_there_can_be(
        self, by_hand: int
    ) -> None:
        """While the first pods could not be scheduled. Members from c-7 on are none of the
        cluster's, so it was held for ever, with as many members."""
        world = World(body(3))
        world.stuck = {0, 1, 2}
        drive(world)
        world.alter("StatefulSet", "c")["spec"]["replicas"] = by_hand
        world.stuck = set()

        assert drive(world) == Settled()
        assert sorted(world.pods) == [0, 1, 2]
        assert len(world.record.members) == naming.MAX_SIZE

    def test_a_misspelt_secret_name_can_be_edited(self) -> None:
        """The name was recorded before anybody looked at the Secret, and the old one was still
        required after the edit."""
        world = begun(TLS={"static": {"member": {"peerSecret": "typo"}}})
        world.edit(TLS={"static": {"member": {"peerSecret": "there"}}})

        assert drive(world) == Settled()
        assert world.record.links.peer == Link("Static", "there")

    def test_links_that_are_removed_from_the_spec_get_the_default(self) -> None:
        world = begun(TLS={"peer": "Plaintext", "client": "Plaintext"})
        first = world.record
        del world.body["spec"]["TLS"]

        assert drive(world) == Settled()
        assert first.links.are_plaintext
        assert not world.record.links.are_plaintext
        assert world.record.initial_cluster.startswith("c-0=https://")

    def test_the_other_attempt_shares_no_member_with_the_one_before(self) -> None:
        world = begun()
        first = world.record
        world.edit(version="3.6.14")

        step = decide(world.observe())

        assert isinstance(step, WriteBootstrap)
        assert step.final
        assert step.record.token != first.token
        assert step.record.cluster_id != first.cluster_id
        assert not {one.member_id for one in first.members} & {
            one.member_id for one in step.record.members
        }

    def test_waiting_pods_are_recreated_before_any_gets_a_ticket(self) -> None:
        """Otherwise they would write data of the old version, which is not the recorded one."""
        world = World(body(3, version="3.6.14"))
        world.apply(until(world, "StatefulSet c"))
        world.turn()
        world.edit(version="3.7.3")

        assert drive(world) == Settled()

        steps = labels(world.history)
        assert steps.index("restart c-2") < steps.index("ledger 3")
        assert world.record.version == "3.7.3"

    def test_the_stateful_set_is_decided_twice(self) -> None:
        """With an old view of the record it would get the old version."""
        step = until(World(body(3)), "StatefulSet c")

        assert isinstance(step, ApplyChild)
        assert step.final

    def test_every_existing_pod_stays_a_member(self) -> None:
        world = World(body(3))
        world.apply(until(world, "StatefulSet c"))
        world.turn()
        world.edit(size=1)

        assert attempts.rewrite_record(world.observe()) is None
        assert drive(world) == Settled()

    @pytest.mark.parametrize("what", ["ledger", "claim", "pod", "status"])
    def test_no_new_attempt_beside_a_trace_of_the_old_one(self, what: str) -> None:
        world = World(body(3))
        world.apply(until(world, "StatefulSet c"))
        world.turn()
        world.edit(version="3.6.14")
        seen = world.observe()
        assert attempts.rewrite_record(seen) is not None
        record = MemberRecord(seen.cluster.uid, "v1", 5, 6)
        assert seen.secret is not None
        assert seen.secret.bootstrap is not None
        spent = replace(seen.secret.bootstrap, issued=((5, "a run"),))
        traces = {
            "ledger": replace(seen, secret=replace(seen.secret, bootstrap=spent)),
            "claim": with_claim(seen, 2, record=record),
            "pod": with_pod(seen, 0, in_start=False, answer=None, etcd_started=True),
            "status": replace(seen, statuses=formed(3).observe().statuses),
        }

        assert attempts.rewrite_record(traces[what]) is None


class TestTicketsGiven:
    @STORAGE
    @pytest.mark.parametrize("size", [1, 3])
    @pytest.mark.parametrize("wanted", [RIGHT, "3.5.33"])
    def test_a_first_version_without_an_image_could_never_be_changed(
        self, wanted: str, size: int, storage: dict[str, object]
    ) -> None:
        """The record kept it, and no pod was outdated by its template."""
        world = without_images(size=size, **storage)
        world.edit(version=wanted)

        assert drive(world) == Settled()

        assert (world.record.version, world.record.attempt) == (wanted, 2)
        assert {pod.version for pod in world.pods.values()} == {wanted}
        assert len(world.members) == 1

    def test_without_an_edit_no_pod_is_recreated(self) -> None:
        world = without_images()
        world.history.clear()

        assert isinstance(drive(world), Wait)
        assert world.history == []

    def test_a_version_that_is_removed_from_the_spec_is_replaced_by_the_default(self) -> None:
        world = without_images()
        del world.body["spec"]["version"]

        assert drive(world) == Settled()
        assert world.record.version == RIGHT

    def test_no_pod_is_recreated_if_one_may_have_data(self) -> None:
        world = without_images()
        world.edit(version=RIGHT)
        seen = world.observe()
        assert isinstance(attempts.recreate_unpullable(seen), DeletePod)

        for sign in ("etcd_started", "has_data"):
            assert attempts.recreate_unpullable(with_pod(seen, 1, **{sign: True})) is None

    def test_only_pods_that_lack_their_image_are_recreated(self) -> None:
        world = without_images()
        world.edit(version=RIGHT)
        seen = with_pod(world.observe(), 0, deleting=True)

        step = attempts.recreate_unpullable(with_pod(seen, 1, image_missing=False))

        assert isinstance(step, DeletePod)
        assert step.name == "c-2"


class TestTooLate:
    def half(self, version: str = RIGHT) -> World:
        """c-0 runs alone, because no node has room for the others."""
        world = World(body(3, version=version))
        world.stuck = {1, 2}
        for _ in range(30):
            step = decide(world.observe())
            world.apply(step) if is_write(step) else world.turn()
        for ordinal in (1, 2):
            world.pods[ordinal].trouble = "cannot be scheduled: no node has room"
        assert world.data(0) is not None
        return world

    def test_a_size_edit_that_is_not_applied_is_reported_with_what_to_do(self) -> None:
        world = self.half()
        world.edit(size=1)

        assert drive(world) == Hold(
            "BegunOtherwise",
            "spec.size is 1, but the cluster began with 3. Members may already have data, so the "
            "cluster goes on forming as it began, and the edit is applied once it has formed. If "
            "it cannot form, fix the cause or revert the edit; or delete the EtcdCluster and its "
            "claims, and create it again with the spec that you want; pod c-1: cannot be "
            "scheduled: no node has room; pod c-2: cannot be scheduled: no node has room",
        )

    @pytest.mark.parametrize(
        ("edit", "words"),
        [
            ({"version": "3.6.14"}, "spec.version is 3.6.14, but the cluster began with 3.7.3. "),
            (
                {"TLS": {"peer": "Plaintext"}},
                "spec.TLS asks for plaintext for peers, but they began with TLS with managed ",
            ),
            (
                {"TLS": {"client": "Managed", "allowPlaintextClients": True}},
                "spec.TLS asks for TLS with managed certificates beside plaintext for clients, ",
            ),
        ],
    )
    def test_what_the_members_began_with_stays(self, edit: dict[str, object], words: str) -> None:
        world = self.half()
        first = world.record
        world.edit(**edit)

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.message.startswith(words)
        assert world.record == first

    def test_the_edit_is_applied_once_the_cluster_has_formed(self) -> None:
        world = self.half()
        world.edit(version="3.6.14", size=1)
        assert isinstance(drive(world), Hold)

        world.stuck = set()
        for ordinal in (1, 2):
            world.pods[ordinal].trouble = ""

        assert drive(world) == Settled()
        assert world.pods[0].version == "3.6.14"
        assert sorted(world.pods) == [0]

    def test_nothing_is_reported_while_the_cluster_is_still_forming(self) -> None:
        world = self.half()
        world.edit(size=1)
        for ordinal in (1, 2):
            world.pods[ordinal].trouble = ""
        seen = world.observe()

        assert isinstance(decide(seen), Wait)
        aged = replace(seen, pods=tuple(replace(pod, age=121.0) for pod in seen.pods))
        assert isinstance(decide(aged), Hold)

    @pytest.mark.parametrize("old", [True, False])
    def test_a_cluster_that_is_as_declared_is_not_held(self, old: bool) -> None:
        seen = self.half().observe()
        aged = replace(seen, pods=tuple(replace(pod, age=300.0) for pod in seen.pods))

        assert attempts.late_edits(aged if old else seen) is None

    def test_the_edit_is_reported_beside_missing_certificates(self) -> None:
        world = World(body(1, TLS={"static": {"member": {"peerSecret": "old"}}}))
        world.apply(until(world, "push c-0 new"))
        world.cut_off = True
        seen = world.observe()
        assert provided(seen.cluster, 1)
        asked = replace(seen.cluster.requested_links, peer=Link("Static", "new"))
        seen = replace(
            seen,
            cluster=replace(seen.cluster, requested_links=asked),
            certificates=Certificates(0.0, {}),
        )

        step = certificates.of_members(seen)

        assert isinstance(step, Hold)
        assert "Secret old, which" in step.message
        assert "spec.TLS asks for TLS with the certificates in Secret new" in step.message
        assert "for peers, but they began with TLS with the certificates in Secret old" in (
            step.message
        )

    def test_claims_are_not_mentioned_where_there_are_none(self) -> None:
        world = without_images(pod={"emptyDir": {}})
        world.edit(size=1)

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert "or delete the EtcdCluster, and create it again" in rest.message

    def test_an_option_that_was_corrected_for_an_emptydir_was_waited_for_without_end(self) -> None:
        """etcd refused the first one before it wrote anything, but nothing shows that. The status
        repeated how etcd fails, and not that the edit was not applied."""
        world = World(body(3, pod={"emptyDir": {}}))
        world.failing = {str(world.cluster.version)}
        drive(world)
        world.edit(etcd={"snapshotCount": 20000})
        drive(world)
        fails = "container etcd keeps failing: exit code 2"

        rest = decide(with_pod(world.observe(), 0, trouble=fails))

        assert isinstance(rest, Hold)
        assert rest.reason == "BegunOtherwise"
        assert "other fields were edited, but pods c-0, c-1, c-2 keep what" in rest.message
        assert "or delete the EtcdCluster, and create it again" in rest.message
        assert rest.message.endswith(f"; pod c-0: {fails}")


def test_a_new_attempt_includes_every_existing_pod() -> None:
    """The StatefulSet keeps its replicas until there is a member list; only then are the two
    members removed."""
    world = without_images()
    for ordinal in range(3):
        world.empty(ordinal)
    world.late_images = set()
    world.edit(size=1)
    world.turn()

    step = until(world, "ledger 0")

    assert isinstance(step, WriteBootstrap)
    assert [one.name for one in step.record.members] == ["c-0", "c-1", "c-2"]
    world.apply(step)
    assert drive(world) == Settled()
    assert sorted(world.pods) == [0]


def test_nothing_here_applies_to_a_formed_cluster() -> None:
    seen = formed(3).observe()
    edited = replace(seen.cluster, size=1, requested_links=replace(seen.cluster.requested_links))
    asked = replace(seen, cluster=edited, etcd=None, statuses={})

    assert attempts.rewrite_record(asked) is None
    assert attempts.another_attempt(asked) is None
    assert attempts.recreate_unpullable(asked) is None
    assert attempts.describe_late_edits(asked) == ""


def test_a_run_that_may_still_get_its_ticket_has_not_spent_it() -> None:
    """The operator died after it wrote the ledger and before it pushed the ticket. The same run
    still waits."""
    world = World(body(3))
    until(world, "push c-0 new")
    seen = world.observe()
    pod = seen.pod(0)

    assert pod is not None
    assert recorded(seen).issued
    assert not attempts.has_spent_ticket(seen, pod)
