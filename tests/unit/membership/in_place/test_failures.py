"""A restore in place whose Job, volumes or record fail."""

from __future__ import annotations

from dataclasses import replace

import pytest
from inplace_world import running
from recovery_world import RecoveryWorld
from worlds import UID, Data, drive, is_write

from etcd_stateful import identity, naming
from etcd_stateful.api.tls import Trust
from etcd_stateful.membership.epochs import in_place
from etcd_stateful.membership.irreversible import is_final
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import Hold, Settled, Wait, WriteBootstrap
from etcd_stateful.records import takeover
from etcd_stateful.status.restore_progress import restoring
from unit.membership.in_place.disturbed_world import MOST, data_of, go, is_stop


class TestWhatFails:
    def test_an_incomplete_backup_stops_no_pod(self) -> None:
        world = running()
        world.job_runs = False
        world.ask()
        drive(world, idle=2)
        assert world.job is not None
        world.job = replace(world.job, state="failed", trouble="refused: etcd's hash")

        step = drive(world, idle=2)

        assert isinstance(step, Hold)
        assert (step.reason, "etcd's hash" in step.message) == ("RestoreFailed", True)
        told = restoring(world.observe())
        assert told is not None
        assert (told["state"], told["generation"]) == ("Failed", 1)
        assert world.serving() == {0, 1, 2}
        assert not any(map(is_stop, world.history))
        # Once it has been reported, nothing is left of it.
        assert world.restore is not None
        world.restore["status"] = {"succeeded": False, "observedGeneration": 1}
        assert drive(world, idle=8) == Settled()
        assert (sorted(world.claims), world.job) == ([0, 1, 2], None)
        assert world.serving() == {0, 1, 2}

    def test_a_claim_that_blocked_it_was_named_without_a_way_out(self) -> None:
        world = running()
        world.job_runs = False
        world.ask()
        drive(world, idle=2)
        seen = world.observe()
        [mine] = [claim for claim in seen.claims if claim.ordinal == 3]
        assert mine.record is not None
        other = replace(mine, record=replace(mine.record, cluster_uid="other", cluster_id=7))
        claims = tuple(other if claim is mine else claim for claim in seen.claims)

        step = decide(replace(seen, claims=claims))

        assert isinstance(step, Hold)
        assert step.reason == "RestoreFailed"
        assert "claim data-c-3 holds another member's data" in step.message
        assert "delete the claim" in step.message

    def test_a_failure_does_not_prevent_the_replacement_of_a_lost_member(self) -> None:
        """The cluster's own repair does not wait for the restore."""
        world = running()
        world.job_runs = False
        world.ask()
        drive(world, idle=2)

        world.wipe(2)
        drive(world, idle=8)

        assert world.serving() == {0, 1, 2}
        assert len(data_of(world, world.record.cluster_id)) == 3

    def test_the_old_claims_stay_until_the_restored_cluster_serves(self) -> None:
        world = running()
        old = world.record.cluster_id
        world.ask()
        world.stuck.add(3)

        step = drive(world, idle=8, limit=MOST)

        assert isinstance(step, Wait)
        assert "c-3 to serve the restored data" in step.reason
        assert "claims data-c-0, data-c-1, data-c-2 of the replaced cluster are kept" in step.reason
        assert data_of(world, old) == [0, 1, 2]
        world.stuck.clear()
        assert drive(world, idle=8, limit=MOST) == Settled()
        assert not data_of(world, old)

    def test_a_pod_that_a_deleted_claim_kept_away_was_waited_for_without_saying_so(self) -> None:
        """An old claim was deleted, and a finalizer kept it: it was said to be kept until the
        restored cluster serves, which it kept from serving."""
        world = running()
        world.ask()
        go(world, lambda _: bool(world.record.retired))
        world.stuck_claims = {1}
        world.claims[1].deleting = True

        step = drive(world, idle=8, limit=MOST)

        assert isinstance(step, Wait)
        assert step.reason.startswith("claim data-c-1 to be gone: until then pod c-3 is not")
        world.stuck_claims = set()
        assert drive(world, idle=8, limit=MOST) == Settled()

    def test_a_pod_that_is_refused_was_waited_for_without_saying_so(self) -> None:
        """Until it is created nobody is served. A policy or a quota may keep it away."""
        world = running()
        world.ask()
        go(world, lambda _: bool(world.record.retired))
        seen = world.observe()
        assert seen.pod(3) is None

        step = in_place.clean_up(seen)

        assert isinstance(step, Wait)
        assert step.reason.startswith(
            "c-3 to serve the restored data (its pod has yet to be created; the Events of "
            "StatefulSet c say what keeps it); until then claims data-c-0"
        )

    def test_a_claim_that_is_being_deleted_was_said_to_be_kept(self) -> None:
        world = running()
        world.ask()
        world.stuck.add(3)
        drive(world, idle=8, limit=MOST)
        world.claims[1].deleting = True

        step = in_place.clean_up(world.observe())

        assert isinstance(step, Wait)
        assert "c-3 to serve the restored data; until then claims data-c-0, data-c-2" in step.reason

    @pytest.mark.parametrize(
        ("note", "text", "reason"),
        [
            (naming.CLAIM_UID, "of-the-claim-it-was-copied-from", "ClaimRestored"),
            (naming.EPOCH, "?", "ClaimRecordDamaged"),
        ],
    )
    def test_an_old_claim_that_was_deleted_by_hand_broke_a_rule(
        self, note: str, text: str, reason: str
    ) -> None:
        """The operator leaves it alone, so a human deletes it, as a condition says. While a
        finalizer keeps it, no pod runs on it: nothing of the restore is left to do."""
        world = running()
        world.ask()
        go(world, lambda _: bool(world.record.retired))
        world.claims[1].annotations[note] = text
        held = drive(world, idle=3)
        assert isinstance(held, Hold)
        assert (held.reason, "delete the claim" in held.message) == (reason, True)
        assert world.record.retired, "not over while the claim is there"

        world.stuck_claims = {1}
        world.empty(1)
        drive(world, idle=3)

        assert not world.record.retired
        assert 1 in world.claims.keys() - world.pods.keys()
        world.stuck_claims = set()
        assert drive(world, idle=8, limit=MOST) == Settled()

    def test_a_lost_quorum_was_reported_as_a_cluster_that_has_yet_to_serve(self) -> None:
        """As long as an old claim could not be deleted, for example on a dead node."""
        world = running()
        kept, old = world.claims[2].annotations, world.record.cluster_id
        world.ask()
        assert drive(world, idle=8, limit=MOST) == Settled()
        world.secret = (world.secret[0], replace(world.record, retired=(old,)))
        world.claims[2].annotations = kept | {naming.CLAIM_UID: world.claims[2].uid}
        world.claims[2].deleting = world.pods[2].deleting = True

        for ordinal in (0, 1):
            world.claims[ordinal].data = None
            world.run_start(ordinal)
        step = decide(world.observe())

        assert isinstance(step, Hold)
        assert step.reason == "QuorumLost"

    def test_users_in_the_backup_that_lock_the_operator_out_are_reported(self) -> None:
        """The status said for good that the cluster was about to serve, and never what to do."""
        world = running()
        world.ask()
        world.stuck.add(3)
        drive(world, idle=8, limit=MOST)

        seen = replace(world.observe(), denied="user name is empty")
        step = decide(seen)

        assert isinstance(step, Hold)
        assert step.reason == "AuthenticationRefused"
        assert "user name is empty" in step.message

    def test_a_restored_cluster_that_is_lost_before_it_serves_can_be_restored_again(self) -> None:
        world = running()
        first = world.record.cluster_id
        world.ask()
        world.stuck.add(3)
        drive(world, idle=8, limit=MOST)
        second = world.record.cluster_id
        world.claims[3].data = None
        world.claims[3].deleting = True
        world.pods[3].deleting = True

        step = drive(world, idle=8)
        assert isinstance(step, Hold)
        assert f'spec.replace.clusterID is "{identity.to_hex(second)}"' in step.message
        assert data_of(world, first) == [0, 1, 2]

        world.stuck.clear()
        world.ask(uid="uid-s")
        assert drive(world, idle=8, limit=MOST) == Settled()
        assert world.record.cluster_id not in (first, second)
        assert len(data_of(world, world.record.cluster_id)) == 3
        assert not data_of(world, first)

    @pytest.mark.parametrize("how", ["emptied", "damaged"])
    def test_a_first_volume_that_start_finds_lost_was_waited_for(self, how: str) -> None:
        """Its claim was still there, so the cluster was said for ever to be about to serve."""
        world = running()
        world.ask()
        world.stuck.add(3)
        drive(world, idle=8, limit=MOST)
        world.stuck.clear()
        if how == "emptied":
            world.claims[3].data = None
        else:
            world.claims[3].damaged = "the log is cut short"

        step = drive(world, idle=8)

        assert isinstance(step, Hold)
        assert step.reason == "RestoreFailed"
        assert "the restored cluster lost its volume before it served" in step.message
        assert (
            "claims data-c-0, data-c-1, data-c-2 of the replaced cluster are kept" in step.message
        )
        world.ask(uid="uid-s")
        assert drive(world, idle=8, limit=MOST) == Settled()

    def test_a_restored_cluster_that_never_serves_can_be_replaced_by_another(self) -> None:
        """For example if the backup is of a newer etcd, and no manifest says so."""
        world = running()
        first = world.record.cluster_id
        world.ask()
        world.stuck.add(3)
        drive(world, idle=8, limit=MOST)
        second = world.record.cluster_id

        world.ask(uid="uid-s")
        assert drive(world, idle=8, limit=MOST) == Settled()

        assert world.record.cluster_id not in (first, second)
        assert data_of(world, world.record.cluster_id) == [0, 1, 2]
        assert not [one for one in (first, second) if data_of(world, one)]

    def test_a_volume_of_neither_cluster_is_left_alone(self) -> None:
        """It has the name of an ordinal, and nobody has given it up."""
        world = running()
        world.ask()
        world.stuck.add(3)
        drive(world, idle=8, limit=MOST)
        world.claims[2].annotations[naming.CLUSTER_ID] = "00000000000000cd"
        world.claims[2].data = other = Data(UID, "c-2", 1, 0xCD)
        world.stuck.clear()
        drive(world, idle=8, limit=MOST)

        assert world.claims[2].data == other
        assert not world.claims[2].deleting
        assert world.serving() >= {0, 1}

    def test_a_pod_that_does_not_stop_is_waited_for(self) -> None:
        world = running()
        old = world.record.cluster_id
        world.ask()
        go(world, is_stop)
        world.apply(decide(world.observe()))
        world.turn()
        world.pods[1].deleting = world.pods[1].overdue = True

        step = drive(world, idle=3)

        assert isinstance(step, Wait)
        assert "c-1 (its node does not confirm that it has stopped" in step.reason
        assert world.record.cluster_id == old

    def test_a_pod_without_its_labels_that_does_not_stop_is_waited_for(self) -> None:
        """The StatefulSet releases it, and its etcd still runs on an old volume."""
        world = running()
        old = world.record.cluster_id
        world.ask()
        go(world, is_stop)
        world.strangers = ("c-1",)

        step = drive(world, idle=3)

        assert isinstance(step, Wait)
        assert "pods c-1 to stop" in step.reason
        assert "kubectl delete pod c-1, as nothing else stops it" in step.reason
        assert "delete the Node, or force-delete the pod" in step.reason
        assert (world.record.cluster_id, not world.pods) == (old, True)
        world.strangers = ()
        assert drive(world, idle=8, limit=MOST) == Settled()

    def test_a_cluster_is_replaced_only_by_steps_that_are_decided_twice(self) -> None:
        """After the first of these writes the old volumes are useless."""
        world = running()
        world.ask()
        old = world.record.cluster_id
        steps = [
            go(world, is_stop),
            go(world, lambda one: isinstance(one, WriteBootstrap) and one.record.cluster_id != old),
        ]

        assert [is_final(one) for one in steps] == [True, True]

    def test_pending_operations_are_not_passed_on_to_the_new_cluster(self) -> None:
        """Its data is of the Job's version, and nothing has been requested of it."""
        world = running()
        world.ask()
        go(world, is_stop)
        record, taking = world.record, world.record.successor
        assert taking is not None
        busy = replace(record, declined=True, before="3.6.16", oldest="3.6.16", version="3.7.3")

        after = takeover.taken_over(busy, taking)

        assert (after.declined, after.before, after.oldest) == (False, "", "3.7.3")
        assert (after.successor, after.members, after.size) == (None, (), taking.ordinal + 1)

    def test_without_a_quorum_it_is_the_way_out(self) -> None:
        """All volumes are gone, and nobody knows the last revision."""
        world = running()
        world.wipe(0, 1, 2)
        step = drive(world, idle=3)
        assert isinstance(step, Hold)
        assert step.reason == "QuorumLost"
        old = world.record.cluster_id

        world.ask()
        assert drive(world, idle=8, limit=MOST) == Settled()

        assert world.record.cluster_id != old
        assert len(data_of(world, world.record.cluster_id)) == 3

    def test_a_recovery_requested_beside_it_stopped_all_pods_for_nothing(self) -> None:
        """The recovery waited for a Job that could not run. If it had run, the backup would have
        won."""
        world = running()
        world.job_runs = False
        world.ask()
        drive(world, idle=3)
        assert world.job is not None
        world.wipe(1, 2)
        drive(world, idle=3)
        old = world.record.cluster_id

        RecoveryWorld.ask(world, 0)
        step = decide(world.observe())
        told = restoring(world.observe())
        assert told is not None
        assert (told["state"], "spec.recovery asks" in told["message"]) == ("Held", True)
        for _ in range(MOST):
            if world.record.survivor:
                break
            world.apply(step) if is_write(step) else world.turn()
            step = decide(world.observe())

        assert (world.record.survivor, world.record.epoch) == ("c-0", 2)
        assert (world.record.cluster_id, data_of(world, old)) == (old, [0])

    def test_pods_are_stopped_before_a_version_that_is_edited_meanwhile_is_recorded(self) -> None:
        """The recorded version could be lower than the backup's, and no edit could correct that."""
        world = running()
        world.ask()
        go(world, is_stop)

        world.edit(version="3.7.2", pod={"labels": {"a": "b"}})
        seen = world.observe()
        trust = replace(seen.cluster.trust, peer="0123456789abcdef")

        assert is_stop(decide(seen))
        assert is_stop(decide(replace(seen, cluster=replace(seen.cluster, trust=trust))))

    def test_a_version_that_was_taken_back_just_then_got_data_of_the_newer_one(self) -> None:
        """The first volume was filled with the version that the members were changing to, and
        perhaps with data that only that can read. No edit could correct that any more."""
        world = running(version="3.6.16")
        world.edit(version="3.7.3")
        go(world, lambda _: world.record.version == "3.7.3")
        world.ask()
        go(world, is_stop)

        world.edit(version="3.6.16")

        assert is_stop(decide(world.observe()))
        assert drive(world, idle=8, limit=MOST) == Settled()
        assert (world.record.version, world.record.retired) == ("3.6.16", ())

    @pytest.mark.parametrize("ended", [False, True])
    def test_each_turn_of_a_rotation_beside_it_began_the_download_again(self, ended: bool) -> None:
        """The Job mounts no certificates, and the spec had not been edited, as the reason said."""
        world = running()
        world.job_runs = False
        world.ask()
        drive(world, idle=3)
        seen = world.observe()
        assert seen.job is not None
        job = replace(seen.job, state="complete") if ended else seen.job
        trust = Trust(peer="0123456789abcdef")

        step = in_place.next_step(
            replace(seen, job=job, cluster=replace(seen.cluster, trust=trust))
        )

        assert isinstance(step, WriteBootstrap if ended else Wait), step

    def test_nothing_continues_while_paused(self) -> None:
        world = running()
        world.ask()
        world.edit(paused=True)
        before = len(world.history)
        drive(world, idle=2)

        assert len(world.history) == before
        told = restoring(world.observe())
        assert told is not None
        assert (told["state"], "spec.paused" in told["message"]) == ("Held", True)
