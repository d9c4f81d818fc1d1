"""Nothing starts empty by itself (I11), nor while paused or deleted; one write at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from worlds import World, body, drive, formed, is_write, labels

from etcd_stateful import naming
from etcd_stateful.membership.beginning import bootstrap
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import CreateSecret, Hold, Settled, Step, Wait
from etcd_stateful.observed.members import EtcdView
from unit.membership.rules.wide_world import EMPTY_DIR, before, pushes


class TestI11NothingStartsEmptyByItself:
    @pytest.mark.parametrize("storage", [{}, EMPTY_DIR], ids=["claims", "emptyDir"])
    def test_a_lost_secret_of_a_running_cluster_is_recreated_as_latched(
        self, storage: dict
    ) -> None:
        world = formed(3, **storage)
        before_it = world.record
        world.lose_secret()

        assert drive(world) == Settled()

        assert world.record.latched
        assert world.record.cluster_id == before_it.cluster_id
        assert labels(world.history)[-1] == "CreateSecret"

    @pytest.mark.parametrize("storage", [{}, EMPTY_DIR], ids=["claims", "emptyDir"])
    def test_with_the_secret_and_every_volume_lost_the_status_remembers(
        self, storage: dict
    ) -> None:
        world = formed(3, **storage)
        world.body["status"] = {"clusterID": f"{world.record.cluster_id:016x}"}
        world.lose_secret()
        world.claims.clear()
        world.pods.clear()

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "QuorumLost"
        assert len(pushes(world)) == 3

    def test_with_secret_and_status_lost_and_every_volume_emptied_the_claims_remember(self) -> None:
        world = formed(3)
        world.lose_secret()
        for claim in world.claims.values():
            claim.data = None
        for ordinal in range(3):
            world.restart_pod(ordinal)

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "QuorumLost"
        assert "restore a backup" in rest.message
        assert {push.ticket.state for push in pushes(world)} == {"new", "existing"}
        assert len(pushes(world)) == 3

    def test_a_secret_lost_while_tickets_were_out_leads_to_no_new_ticket(self) -> None:
        world = before(World(body(3)), "push c-1 new")
        world.lose_secret()

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "QuorumLost"
        assert len(pushes(world)) == 1

    def test_all_members_lost_at_once_is_held(self) -> None:
        world = formed(3)
        for ordinal in range(3):
            world.empty(ordinal)

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "QuorumLost"
        assert len(pushes(world)) == 3

    @pytest.mark.parametrize("storage", [{}, EMPTY_DIR], ids=["claims", "emptyDir"])
    def test_with_every_record_lost_no_cluster_starts_beside_a_running_etcd(
        self, storage: dict
    ) -> None:
        world = formed(3, **storage)
        world.lose_secret()
        world.cut_off = True
        for holder in (*world.claims.values(), *world.pods.values()):
            holder.annotations = {}

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "RecordsLost"
        assert "pod c-0" in rest.message
        assert world.secret is None

    def test_the_suggested_way_out_of_lost_records_works(self) -> None:
        world = formed(3)
        cluster_id = world.record.cluster_id
        world.lose_secret()
        world.cut_off = True
        for claim in world.claims.values():
            claim.annotations = {}
        drive(world)
        world.body["status"] = {"clusterID": f"{cluster_id:016x}"}
        world.cut_off = False

        assert drive(world) == Settled()
        assert world.record.cluster_id == cluster_id

    def test_with_every_record_lost_etcd_is_not_asked(self) -> None:
        """It would answer, but without a record nothing says which cluster it belongs to."""
        world = formed(3)
        world.lose_secret()
        for claim in world.claims.values():
            claim.annotations = {}

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "RecordsLost"

    @pytest.mark.parametrize("storage", [{}, EMPTY_DIR], ids=["claims", "emptyDir"])
    def test_with_the_secret_lost_and_etcd_silent_the_records_on_claims_or_pods_remember(
        self, storage: dict
    ) -> None:
        world = formed(3, **storage)
        cluster_id = world.record.cluster_id
        world.lose_secret()
        world.cut_off = True

        step = decide(world.observe())

        assert isinstance(step, CreateSecret)
        assert step.record.latched
        assert step.record.cluster_id == cluster_id

    def test_claims_of_two_etcd_clusters_are_split_brain(self) -> None:
        world = formed(3)
        world.lose_secret()
        world.claims[2].annotations[naming.CLUSTER_ID] = "00000000000000aa"

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "SplitBrain"
        assert "claim data-c-2 says 00000000000000aa" in rest.message
        assert world.secret is None

    def test_the_suggested_way_out_of_two_etcd_clusters_works(self) -> None:
        """The message named two IDs, but neither whose they were nor what to do."""
        world = formed(3)
        formed_as = f"{world.record.cluster_id:016x}"
        world.lose_secret()
        world.claims[2].annotations[naming.CLUSTER_ID] = "00000000000000aa"
        rest = drive(world)
        assert isinstance(rest, Hold)
        assert f"claim data-c-0 says {formed_as}" in rest.message
        assert "status.clusterID" in rest.message

        world.body["status"] = {"clusterID": formed_as}
        drive(world)

        assert f"{world.record.cluster_id:016x}" == formed_as

    def test_a_claim_of_an_earlier_attempt_is_no_split_brain_if_the_status_tells(
        self,
    ) -> None:
        """c-1 was recorded by an attempt, and had no ticket yet from the next one, which formed."""
        world = formed(3)
        formed_as = world.record.cluster_id
        world.body["status"] = {"clusterID": f"{formed_as:016x}"}
        world.claims[1].annotations[naming.CLUSTER_ID] = "00000000000000aa"
        world.lose_secret()

        drive(world)

        assert world.record.cluster_id == formed_as

    def test_the_status_does_not_outweigh_what_etcd_answers(self) -> None:
        world = formed(3)
        world.body["status"] = {"clusterID": f"{world.record.cluster_id:016x}"}
        world.lose_secret()
        seen = world.observe()

        step = decide(replace(seen, etcd=EtcdView(0x77, ())))

        assert isinstance(step, Hold)
        assert step.reason == "SplitBrain"

    @pytest.mark.parametrize("storage", [{}, EMPTY_DIR], ids=["claims", "emptyDir"])
    def test_a_damaged_secret_is_held(self, storage: dict) -> None:
        world = formed(3, **storage)
        world.damage = "its data has no 'bootstrap' in base64"

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "SecretDamaged"
        assert "no 'bootstrap'" in rest.message
        assert "delete it" in rest.message

    @pytest.mark.parametrize("storage", [{}, EMPTY_DIR], ids=["claims", "emptyDir"])
    def test_deleting_a_newer_operators_record_is_not_suggested(self, storage: dict) -> None:
        seen = formed(3, **storage).observe()
        newer = replace(seen.secret, bootstrap=None, damage="it is of format 2", newer=True)

        rest = decide(replace(seen, secret=newer))

        assert isinstance(rest, Hold)
        assert rest.reason == "SecretDamaged"
        assert "it is of format 2. Install the newer operator again" in rest.message
        assert "delete it" not in rest.message

    def test_a_secret_without_a_record_is_held(self) -> None:
        world = formed(1)
        seen = world.observe()

        rest = decide(replace(seen, secret=replace(seen.secret, bootstrap=None)))

        assert isinstance(rest, Hold)
        assert "no record" in rest.message


class TestPaused:
    @pytest.mark.parametrize("storage", [{}, EMPTY_DIR], ids=["claims", "emptyDir"])
    def test_nothing_is_written_from_any_point_on(self, storage: dict) -> None:
        world = World(body(3, **storage))
        for _ in range(40):
            seen = world.observe()
            paused = replace(seen, cluster=replace(seen.cluster, paused=True))
            held = decide(paused)
            assert held == Hold(
                "Paused", "spec.paused is true: nothing is written until it is false"
            )
            step = decide(seen)
            world.apply(step) if is_write(step) else world.turn()

    def test_damage_is_repaired_after_the_pause(self) -> None:
        world = formed(3)
        world.edit(paused=True)
        del world.objects["Service", "c-client"]
        assert decide(world.observe()).reason == "Paused"

        world.edit(paused=False)

        assert labels([decide(world.observe())]) == ["Service c-client"]


class TestDeleting:
    def test_nothing_is_recreated_while_the_cluster_is_being_deleted(self) -> None:
        world = formed(3)
        world.body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        world.delete_stateful_set(with_pods=True)

        assert decide(world.observe()) == Wait("the cluster's objects to be deleted")


class TestOneWriteAtATime:
    def test_a_step_is_one_write_and_children_are_created_one_by_one(self) -> None:
        world = formed(3)
        world.objects.clear()
        done: list[Step] = []
        while is_write(step := decide(world.observe())):
            world.apply(step)
            done.append(step)

        first = ["Service c", "StatefulSet c"]
        assert labels(done) == [*first, "Service c-client", "PodDisruptionBudget c"]

    @pytest.mark.parametrize(
        ("kind", "name"),
        [
            ("Service", "c"),
            ("StatefulSet", "c"),
            ("Service", "c-client"),
            ("PodDisruptionBudget", "c"),
        ],
    )
    def test_a_child_that_is_being_deleted_is_waited_for(self, kind: str, name: str) -> None:
        world = formed(3)
        world.objects[kind, name]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

        step = decide(world.observe())

        assert step == Wait(
            f"{kind} {name}, which is being deleted, to be gone; then it is recreated"
        )

    def test_no_client_service_before_the_cluster_has_formed(self) -> None:
        world = World(body(3))
        world.cut_off = True

        drive(world)

        assert ("Service", "c-client") not in world.objects

    def test_a_settled_cluster_is_not_written_to(self) -> None:
        world = formed(3)
        world.history.clear()

        assert drive(world, idle=40) == Settled()
        assert world.history == []


def test_the_record_can_be_used_only_once_there_is_a_secret() -> None:
    seen = World(body(1)).observe()

    assert isinstance(decide(seen), CreateSecret)
    with pytest.raises(LookupError, match="before the Secret"):
        bootstrap.latch(seen)


def test_a_cluster_whose_pods_are_not_seen_is_not_settled() -> None:
    step = decide(replace(formed(3).observe(), pods=()))

    assert step == Wait("pod c-0 to be created; the Events of StatefulSet c say what keeps it")


def test_a_pod_no_longer_stopped_once_its_stateful_set_was_deleted_without_its_pods() -> None:
    """Nothing takes a deletion back, but the tiny world did."""
    world = formed(3)
    world.restart_pod(1)

    world.delete_stateful_set()

    assert [pod.deleting for pod in world.pods.values()] == [False, True, False]
