"""The safety rules of keeping: replicas, claims, the cluster ID, the version, and what is not ours
(I5, I6, I7, I9, I10).
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import world_rules as rules
from worlds import OLD, UID, Conflict, World, body, drive, formed, labels

from etcd_stateful import naming
from etcd_stateful.membership import stalled
from etcd_stateful.membership.members import replicas
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import ApplyChild, DeleteClaim, Hold, Settled, Step, Wait
from etcd_stateful.observed.members import EtcdView, Member, MemberStatus
from etcd_stateful.observed.objects import Foreign
from etcd_stateful.records.member import MemberRecord
from unit.membership.rules.wide_world import before


class TestI5ReplicasAreNotLowered:
    def replicas(self, world: World) -> int:
        return world.objects["StatefulSet", "c"]["spec"]["replicas"]

    @pytest.mark.parametrize("size", [1, 2])
    def test_they_follow_the_member_list_one_by_one(self, size: int) -> None:
        world = formed(3)
        world.edit(size=size)
        highest: list[tuple[int, int]] = []

        def note(_: Step) -> None:
            seats = [rules.seat_of(one) for one in world.etcd.members.values()]
            highest.append((self.replicas(world), max(seats) + 1))

        assert drive(world, each=note) == Settled()
        assert all(replicas >= least for replicas, least in highest)
        assert self.replicas(world) == size

    @pytest.mark.parametrize("size", [1, 3])
    @pytest.mark.parametrize("with_pods", [False, True])
    def test_a_recreated_stateful_set_has_as_many_as_before(
        self, size: int, *, with_pods: bool
    ) -> None:
        world = formed(3)
        world.delete_stateful_set(with_pods=with_pods)
        world.edit(size=size)

        step = decide(world.observe())

        assert isinstance(step, ApplyChild)
        assert step.manifest["spec"]["replicas"] == 3

    @pytest.mark.parametrize("with_pods", [False, True])
    def test_a_size_edited_while_the_stateful_set_is_missing_is_applied_afterwards(
        self, *, with_pods: bool
    ) -> None:
        world = formed(3)
        world.delete_stateful_set(with_pods=with_pods)
        world.edit(size=1)

        assert drive(world) == Settled()
        assert self.replicas(world) == 1

    def test_they_are_not_raised_for_growth_without_a_member_list(self) -> None:
        world = formed(3)
        world.cut_off = True
        world.edit(size=5)

        drive(world)

        assert self.replicas(world) == 3

    def test_scaled_down_by_hand_is_put_back_at_once(self) -> None:
        world = formed(3)
        world.objects["StatefulSet", "c"]["spec"]["replicas"] = 1

        step = decide(world.observe())

        assert isinstance(step, ApplyChild)
        assert step.reason == "StatefulSet c differs at spec.replicas"
        assert step.manifest["spec"]["replicas"] == 3

    def test_a_first_ordinal_that_somebody_set_stopped_the_pod_of_the_first_member(self) -> None:
        """For ever: it is no field of the manifest, so it passed for an addition."""
        world = formed(3)
        world.alter("StatefulSet", "c")["spec"]["ordinals"] = {"start": 1}

        step = decide(world.observe())

        assert isinstance(step, ApplyChild)
        assert step.reason == "StatefulSet c differs at spec.ordinals.start"
        assert drive(world) == Settled()
        assert world.objects["StatefulSet", "c"]["spec"]["ordinals"] == {"start": 0}

    def test_a_manual_scale_down_stayed_while_another_minor_was_requested(self) -> None:
        """The version change waited for the very member that was stopped."""
        world = formed(3)
        world.edit(version="3.6.16")
        world.objects["StatefulSet", "c"]["spec"]["replicas"] = 2
        for _ in range(3):
            world.turn()
        assert sorted(world.pods) == [0, 1]

        drive(world)

        assert sorted(world.pods) == [0, 1, 2]

    def test_an_edit_waited_for_a_default_version_that_nobody_had_requested(self) -> None:
        """The cluster was created by an older operator, and its members are silent for a moment."""
        world = formed(3, version="3.7.2")
        del world.body["spec"]["version"]
        world.edit(pod={"labels": {"a": "b"}})
        world.cut_off = True

        step = decide(world.observe())

        assert isinstance(step, ApplyChild)
        assert step.kind == "StatefulSet"

    def test_the_member_list_of_another_cluster_is_ignored(self) -> None:
        """For example of a cluster that answers at a reused address."""
        seen = formed(3).observe()
        assert seen.etcd is not None
        other = replace(seen.etcd, cluster_id=seen.etcd.cluster_id + 1, members=())
        to_one = replace(seen.cluster, size=1)

        assert replicas.wanted(replace(seen, cluster=to_one)) == 3
        assert replicas.wanted(replace(seen, cluster=to_one, etcd=other)) == 3

    def test_they_stay_without_a_member_list_and_a_record(self) -> None:
        seen = replace(formed(3).observe(), secret=None, etcd=None)
        scaled = replace(seen, stateful_set={"spec": {"replicas": 5}})

        assert (replicas.wanted(seen), replicas.wanted(scaled)) == (3, 5)

    def test_a_manual_scale_up_is_put_back_with_a_member_list(self) -> None:
        world = formed(3)
        world.objects["StatefulSet", "c"]["spec"]["replicas"] = 50

        assert drive(world) == Settled()
        assert self.replicas(world) == 3

    def test_a_manual_scale_up_stays_without_a_member_list(self) -> None:
        world = formed(3)
        world.objects["StatefulSet", "c"]["spec"]["replicas"] = 5
        world.cut_off = True

        drive(world)

        assert self.replicas(world) == 5

    def test_ordinals_that_no_member_can_have_kept_the_operator_busy_without_a_member_list(
        self,
    ) -> None:
        """Each pass went through all of them, so whoever may scale a StatefulSet could use up the
        memory of an operator that serves other namespaces too."""
        world = formed(3)
        world.objects["StatefulSet", "c"]["spec"]["replicas"] = 10**6
        world.cut_off = True
        seen = world.observe()

        assert len(stalled.missing(replace(seen, pods=()))) == naming.MAX_SIZE
        drive(world)

        assert self.replicas(world) == naming.MAX_SIZE

    def test_a_list_of_another_cluster_lowers_nothing(self) -> None:
        world = formed(3)
        world.objects["StatefulSet", "c"]["spec"]["replicas"] = 5
        stranger = EtcdView(77, (Member(1, "c-0", ("http://x:2380",), learner=False),))

        step = decide(replace(world.observe(), etcd=stranger))

        assert isinstance(step, Hold)
        assert step.reason == "SplitBrain"

    def test_a_member_beyond_the_size_keeps_its_pod_while_it_is_listed(self) -> None:
        world = formed(3)
        world.objects["StatefulSet", "c"]["spec"]["replicas"] = 5
        listed = world.members[world.record.cluster_id]
        listed[99] = Member(99, "c-4", ("http://c-4.c.ns.svc:2380",), learner=False)

        assert drive(world) == Settled()

        assert labels(world.history)[-4:] == [
            "remove c-4",
            "size 3",
            "StatefulSet c",
            "PodDisruptionBudget c",
        ]
        assert self.replicas(world) == 3

    def test_a_claim_with_a_member_keeps_its_pod_without_a_member_list(self) -> None:
        """The StatefulSet is gone, and its replacement must not have too few replicas."""
        world = formed(3)
        world.cut_off = True
        world.delete_stateful_set()
        seen = world.observe()
        record = MemberRecord(UID, "v-4", 5, world.record.cluster_id)
        claim = replace(seen.claims[0], ordinal=4, name="data-c-4", uid="v-4", record=record)

        step = decide(replace(seen, claims=(*seen.claims, claim)))

        assert isinstance(step, ApplyChild)
        assert step.manifest["spec"]["replicas"] == 5

    def test_a_lost_secret_does_not_lose_the_number_of_members(self) -> None:
        """Then the StatefulSet is lost too, and the claims of the highest ordinals."""
        world = formed(5)
        world.lose_secret()
        world.cut_off = True
        drive(world)
        del world.claims[4], world.claims[3]
        world.delete_stateful_set(with_pods=True)

        drive(world)

        assert self.replicas(world) == 5

    def test_a_manually_scaled_number_is_not_taken_for_the_number_of_members(self) -> None:
        world = formed(3)
        world.objects["StatefulSet", "c"]["spec"]["replicas"] = 1000
        world.lose_secret()

        drive(world)

        assert world.record.size <= 7

    def test_a_step_from_an_old_view_conflicts(self) -> None:
        world = formed(3)
        world.alter("StatefulSet", "c")["spec"]["replicas"] = 1
        step = decide(world.observe())
        assert isinstance(step, ApplyChild)
        world.alter("StatefulSet", "c")["spec"]["replicas"] = 3

        with pytest.raises(Conflict, match="resourceVersion"):
            world.apply(step)

    @pytest.mark.parametrize(
        "name", ["c-7", "c-50", "c-999999999", "c-" + "9" * 5000, "d-4", "c-04"]
    )
    def test_a_member_with_an_absurd_name_creates_no_pods(self, name: str) -> None:
        world = formed(3)
        listed = world.members[world.record.cluster_id]
        listed[99] = Member(99, name, ("http://x:2380",), learner=False)

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "UnknownMember"
        assert "0000000000000063 at http://x:2380" in rest.message
        assert self.replicas(world) == 3
        assert len(listed) == 4


class TestI6NoClaimIsDeletedUnasked:
    def test_without_discard_no_claim_is_deleted_in_any_state(self) -> None:
        world = formed(3)
        drive(world)
        world.lose_secret()
        world.delete_stateful_set(with_pods=True)
        drive(world)

        assert not [step for step in world.history if isinstance(step, DeleteClaim)]

    @pytest.mark.parametrize("key", [naming.CLUSTER_UID, naming.CLAIM_UID])
    def test_a_record_with_an_empty_uid_does_not_match_an_unset_discard(self, key: str) -> None:
        """An unset `discard` reads as empty text."""
        world = formed(1).remake("new-uid")
        world.claims[0].annotations[key] = ""

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "ClaimRecordDamaged"
        assert 0 in world.claims

    def test_an_empty_uid_in_a_record_is_neither_discarded_nor_adopted(self) -> None:
        world = formed(1).remake("new-uid")
        seen = world.observe()
        record = replace(seen.claims[0].record, cluster_uid="")
        claim = replace(seen.claims[0], record=record)

        rest = decide(replace(seen, claims=(claim,)))

        assert isinstance(rest, Hold)
        assert rest.reason == "RetainedClaims"

    def test_a_running_cluster_keeps_its_claims_whatever_discard_says(self) -> None:
        world = formed(3)
        world.edit(retainedClaims={"discard": UID})

        assert drive(world) == Settled()

    def test_claims_of_another_uid_than_the_one_named_stay(self) -> None:
        world = formed(2).remake("new-uid", retainedClaims={"discard": OLD})

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "RetainedClaims"
        assert len(world.claims) == 2


class TestI7TheClusterIdStays:
    def test_etcd_answering_with_another_id_is_split_brain(self) -> None:
        world = formed(3)
        seen = world.observe()
        other = EtcdView(0x77, seen.etcd.members)

        step = decide(replace(seen, etcd=other))

        assert isinstance(step, Hold)
        assert step.reason == "SplitBrain"
        assert "0000000000000077" in step.message
        assert f"{world.record.cluster_id:016x}" in step.message

    def test_a_member_in_another_cluster_is_split_brain(self) -> None:
        world = formed(3)
        seen = world.observe()
        stray = replace(seen.statuses[2], cluster_id=0x77)

        step = decide(replace(seen, statuses={**seen.statuses, 2: stray}))

        assert isinstance(step, Hold)
        assert step.reason == "SplitBrain"
        assert "0000000000000077 in pods c-2, but the record says" in step.message

    def test_split_brain_before_the_latch_latches_nothing(self) -> None:
        world = before(World(body(3)), "latch")
        seen = world.observe()

        step = decide(replace(seen, etcd=EtcdView(0x77, ())))

        assert isinstance(step, Hold)
        assert step.reason == "SplitBrain"

    def test_a_stray_member_before_the_latch_stops_the_tickets(self) -> None:
        world = before(World(body(3)), "push c-1 new")
        seen = world.observe()
        stray = MemberStatus(1, 0x77, "3.7.3", 1, 2, 8, learner=False, db_size=1)

        step = decide(replace(seen, statuses={0: stray}))

        assert isinstance(step, Hold)
        assert step.reason == "SplitBrain"

    def test_a_secret_written_for_another_cluster_holds(self) -> None:
        world = formed(3)
        world.secret = (world.secret[0], replace(world.record, cluster_uid=OLD))

        step = decide(world.observe())

        assert isinstance(step, Hold)
        assert step.reason == "SecretOfAnotherCluster"
        assert OLD in step.message


class TestI9TheVersionStays:
    def versions(self, world: World) -> set[str]:
        live = world.objects["StatefulSet", "c"]
        image = live["spec"]["template"]["spec"]["containers"][0]["image"]
        return {
            live["metadata"]["annotations"][naming.VERSION_ANNOTATION],
            image.partition(":v")[2],
        }

    def test_an_edit_that_skips_a_minor_is_held_and_changes_nothing(self) -> None:
        world = formed(3)
        world.history.clear()
        world.edit(version="3.5.33")

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "VersionJump"
        assert world.history == []

    @pytest.mark.parametrize("with_pods", [False, True])
    def test_a_recreated_stateful_set_runs_the_same_version(self, *, with_pods: bool) -> None:
        """If somebody deletes it after an edit, it must not come back with a silent downgrade, or
        past the gates."""
        world = formed(3, version="3.5.33")
        world.edit(version="3.7.3")
        world.delete_stateful_set(with_pods=with_pods)

        drive(world)

        assert self.versions(world) == {"3.5.33"}

    @pytest.mark.parametrize("noted", ["3.5.33", "", "nonsense", None])
    def test_an_altered_version_annotation_is_put_back(self, noted: str | None) -> None:
        world = formed(3)
        notes = world.objects["StatefulSet", "c"]["metadata"]["annotations"]
        notes[naming.VERSION_ANNOTATION] = noted
        if noted is None:
            notes.clear()

        step = decide(world.observe())

        assert isinstance(step, ApplyChild)
        assert step.manifest["metadata"]["annotations"][naming.VERSION_ANNOTATION] == "3.7.3"
        assert drive(world) == Settled()

    def test_a_lost_secret_does_not_lose_the_version(self) -> None:
        world = formed(3, version="3.5.33")
        world.edit(version="3.7.3")
        world.lose_secret()

        drive(world)

        assert self.versions(world) == {"3.5.33"}
        assert world.record.version == "3.5.33"

    @pytest.mark.parametrize("wanted", ["3.7.3", "3.5.33"])
    def test_another_attempt_gets_the_version_in_the_spec(self, wanted: str) -> None:
        """No volume has data, so there is no version to keep, and it may have been the mistake."""
        world = before(World(body(3, version="3.6.14")), "record data-c-0")
        world.edit(version=wanted)
        for ordinal in range(3):
            world.restart_pod(ordinal)

        before(world, "latch")

        assert world.record.attempt == 2
        assert (world.record.version, world.record.oldest) == (wanted, wanted)
        assert self.versions(world) == {wanted}

    def test_a_record_without_a_version_takes_it_from_the_stateful_set(self) -> None:
        world = formed(3, version="3.5.33")
        world.secret = (world.secret[0], replace(world.record, version=""))
        world.edit(version="3.7.3")

        drive(world)

        assert self.versions(world) == {"3.5.33"}


class TestI10OthersObjectsAreLeftAlone:
    @pytest.mark.parametrize(
        ("kind", "name"), [("Secret", "c-start"), ("Service", "c"), ("StatefulSet", "c")]
    )
    def test_a_taken_name_holds_before_anything_is_written(self, kind: str, name: str) -> None:
        world = World(body(3))
        world.foreign = (Foreign(kind, name, "Deployment x"),)

        rest = drive(world)

        assert rest == Hold(
            "NameTaken",
            f"{kind} {name} belongs to Deployment x. It is left alone; delete it, or recreate it "
            "under another name, or choose another name for the cluster",
        )
        assert world.history == []

    @pytest.mark.parametrize(
        ("kind", "name"), [("Secret", "c-start"), ("Service", "c"), ("StatefulSet", "c")]
    )
    def test_an_object_that_is_about_to_be_deleted_is_waited_for(
        self, kind: str, name: str
    ) -> None:
        world = World(body(3))
        world.foreign = (Foreign(kind, name, "the deleted cluster", passing=True),)

        rest = drive(world)

        assert rest == Wait(f"{kind} {name} of the deleted cluster to be gone")
        world.foreign = tuple(replace(one, kept_by="lb/cleanup") for one in world.foreign)
        assert decide(world.observe()) == Wait(
            f"{kind} {name} of the deleted cluster to be gone (its finalizer lb/cleanup keeps it: "
            "if what set that is gone, remove it from metadata.finalizers)"
        ), "nothing said what keeps it"
        assert world.history == []

        world.foreign = ()
        assert drive(world) == Settled()

    def test_a_taken_client_service_does_not_keep_the_members_from_forming(self) -> None:
        world = World(body(3))
        world.foreign = (Foreign("Service", "c-client", "EtcdCluster c-client"),)

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "NameTaken"
        assert "Service c-client" in rest.message
        assert world.record.latched
        assert "Service c-client" not in labels(world.history)

    def test_a_client_service_that_is_about_to_be_deleted_is_waited_for(self) -> None:
        world = World(body(3))
        world.foreign = (Foreign("Service", "c-client", "x", passing=True),)

        assert drive(world) == Wait("Service c-client of x to be gone")

        world.foreign = ()
        assert drive(world) == Settled()

    def test_an_object_that_will_be_deleted_is_reported_before_one_that_stays(self) -> None:
        world = World(body(3))
        world.foreign = (
            Foreign("Service", "c", "x"),
            Foreign("StatefulSet", "c", "y", passing=True),
        )

        assert isinstance(decide(world.observe()), Wait)
