"""Recoveries that are refused, adoption, and what conditions and status say."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from recovery_world import RecoveryWorld, formed, lost
from views import with_pod, with_status, without_status
from worlds import UID, drive, is_write

from etcd_stateful import identity, naming
from etcd_stateful.membership.epochs import survivor
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import CreateJob, CreateSecret, Hold, RecordMember, Settled
from etcd_stateful.observed.members import MemberStatus
from etcd_stateful.observed.objects import Claim
from etcd_stateful.observed.pods import StartAnswer
from etcd_stateful.records import bootstrap as records
from etcd_stateful.records.bootstrap_json import dump_bootstrap, load_bootstrap
from etcd_stateful.records.errors import BadRecord
from etcd_stateful.records.member import MemberRecord, load_member, member_annotations
from etcd_stateful.start.ticket import Finding
from etcd_stateful.status.conditions import all_conditions
from etcd_stateful.status.outcome import LONGEST_MESSAGE, Outcome
from etcd_stateful.status.rendering import render
from model.world.told import recovery_in
from unit.membership.recovery.driving import (
    drive_until,
    first_id,
    hold,
    other_record,
    raised,
    wait,
    with_claim,
)


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({"clusterID": "00000000000000ab"}, "it names cluster 00000000000000ab"),
            ({"epoch": 2}, "it names epoch 2, but status.epoch of the cluster is 1"),
            ({"survivor": "c-5"}, "c-5 has no claim"),
            ({"survivor": "c-0"}, "the volume of c-0 holds no usable data"),
        ],
    )
    def test_a_request_that_does_not_match(self, fields: dict[str, Any], words: str) -> None:
        world = lost()
        world.ask(1, **fields)

        hold(drive(world), "RecoveryRefused", words, "survivor that you choose: c-1 (index")
        assert len(world.pods) == 3

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"deleting": True}, "the volume of claim data-c-1 is lost"),
            ({"phase": "Lost"}, "the volume of claim data-c-1 is lost"),
            ({"record": None}, "does not say whose data it holds"),
        ],
    )
    def test_a_survivor_without_a_volume(self, change: dict[str, Any], words: str) -> None:
        world = lost()
        world.ask(1)
        seen = with_claim(world.observe(), 1, **change)

        assert not survivor.halted(seen)
        asked = survivor.requested(seen)
        assert asked is not None
        assert words in survivor.why_not(seen, asked)

    @pytest.mark.parametrize("change", [{"cluster_uid": "other"}, {"cluster_id": 7}])
    def test_a_recovery_continued_with_the_data_of_another_cluster(
        self, change: dict[str, Any]
    ) -> None:
        """Another cluster's volume was bound to this claim, or the volume is from before a restore
        in place."""
        world = lost()
        world.ask(1)
        seen = world.observe()
        claim = seen.claim(1)
        assert claim is not None
        assert claim.record is not None
        record = replace(claim.record, **change)
        seen = with_claim(seen, 1, record=record)
        asked = survivor.requested(seen)

        assert asked is not None
        words = "claim data-c-1 holds data of another cluster"
        assert words in survivor.why_not(seen, asked)
        assert "c-1" not in [seat.name for seat in survivor.candidates(seen)]

    def test_a_survivor_of_an_earlier_epoch(self) -> None:
        """Its volume came back after another survivor had been used."""
        world = lost()
        world.ask(1)
        seen = world.observe()
        claim = seen.claim(0)
        assert claim is not None
        newer = with_claim(seen, 0, record=other_record(seen, epoch=2))

        asked = survivor.requested(newer)

        assert asked is not None
        assert "is of epoch 1, but others are of 2" in survivor.why_not(newer, asked)

    @pytest.mark.parametrize("other", [True, False])
    def test_a_survivor_with_the_volume_of_another_used_up_an_epoch(self, other: bool) -> None:
        """Volumes were swapped. The Job refuses each of them, and by then no other pod starts."""
        world = lost()
        world.ask(1)
        seen = world.observe()
        member_id = first_id(world, 2 if other else 1)
        ids = (UID, 1, "c-2", member_id, world.record.cluster_id)
        answer = StartAnswer("c" * 64, Finding("foreign-data", "the marker names pod c-2", *ids))
        pods = tuple(
            replace(pod, in_start=True, etcd_started=False, answer=answer)
            if pod.ordinal == 1
            else pod
            for pod in seen.pods
        )
        seen = replace(seen, pods=pods, statuses={})
        asked = survivor.requested(seen)
        assert asked is not None

        why = survivor.why_not(seen, asked)

        assert ("c-1 holds the data of another member" in why) is other
        assert survivor.halted(seen) is not other

    def test_a_survivor_on_a_node_that_is_gone(self) -> None:
        world = lost()
        world.pods[1].node_gone = True
        world.ask(1)

        hold(drive(world), "RecoveryRefused", "the node that the volume of c-1 lies on is gone")

    def test_two_etcd_clusters(self) -> None:
        world = lost()
        world.ask(1)
        seen = world.observe()
        other = replace(seen.statuses[1], cluster_id=7)

        step = decide(replace(seen, statuses={**seen.statuses, 2: other}))

        hold(step, "SplitBrain", "etcd answers with cluster ID 0000000000000007")

    def test_a_learner(self) -> None:
        world = lost()
        world.ask(1)
        seen = world.observe()
        learner = replace(seen.statuses[1], learner=True)
        asked = survivor.requested(seen)
        assert asked is not None

        why = survivor.why_not(replace(seen, statuses={1: learner}), asked)

        assert "c-1 is a learner" in why

    def test_an_empty_dir(self) -> None:
        world = formed(3, pod={"emptyDir": {}})
        world.restart_pod(0)
        world.restart_pod(2)
        world.turn()
        world.ask(1)

        hold(drive(world), "RecoveryRefused", "emptyDir")
        assert len(world.pods) == 3

    def test_a_cluster_that_has_not_formed(self) -> None:
        world = RecoveryWorld()
        world.stuck = {0, 1, 2}
        drive(world, idle=2)
        world.ask(1)

        assert not survivor.halted(world.observe())
        assert not isinstance(drive(world), Hold)

    @pytest.mark.parametrize("how", ["ready", "led"])
    def test_silence_alone_proves_no_lost_quorum(self, how: str) -> None:
        """The operator may be the one that is cut off. Kubelets and members know better."""
        world = formed()
        world.ask(1)
        seen = replace(world.observe(), etcd=None)
        if how == "ready":
            seen = replace(seen, statuses={})
        else:
            seen = replace(seen, pods=tuple(replace(pod, ready=False) for pod in seen.pods))

        step = decide(seen)

        said = wait(step, "c-0, c-1, c-2 to be no longer Ready and to have no leader")
        assert not survivor.halted(seen)
        assert ("delete its pod" in said.reason) is (how == "led")

    def test_a_quorum_was_stopped_as_somebody_had_changed_the_labels_of_one_of_its_pods(
        self,
    ) -> None:
        """Under CORRUPT no pod is Ready, and the operator reached none of them."""
        world = formed()
        world.stuck = {1}
        world.restart_pod(1)
        drive(world, idle=2)
        world.pods[0].hidden = True
        world.cut_off = True
        world.ask(1)
        seen = with_pod(world.observe(), 2, ready=False)

        wait(decide(seen), "enough of c-2, c-0 to answer: etcd runs there")
        assert not survivor.halted(seen)

    def test_a_survivor_whose_disk_had_hung_was_waited_for_without_a_way_out(self) -> None:
        """It goes on naming the leader that it had (seen on 3.5.35 and 3.7.3), and what answers is
        not accepted as fenced."""
        world = lost()
        world.ask(1)
        seen = with_pod(with_status(world.observe(), 1, leader_id=7), 1, ready=False)
        wait(decide(seen), "delete its pod")

        stops = without_status(with_pod(seen, 1, deleting=True), 1)
        assert survivor.halted(stops)

    def test_nothing_happens_while_paused(self) -> None:
        world = lost()
        world.ask(1)
        world.edit(paused=True)

        hold(drive(world), "Paused")
        assert len(world.pods) == 3


class TestWhileAQuorumAnswers:
    def test_it_is_not_needed_and_the_cluster_continues(self) -> None:
        world = formed()
        world.ask(1)
        world.edit(size=5)

        hold(drive(world), "RecoveryNotNeeded", "remove it")
        assert len(world.etcds[world.record.cluster_id].voters) == 5

    def test_a_member_list_alone_is_enough(self) -> None:
        """Whatever kubelets report, and whichever members answer."""
        world = formed()
        world.ask(1)
        seen = world.observe()
        pods = tuple(replace(pod, ready=False) for pod in seen.pods)
        leaderless = {at: replace(said, leader_id=0) for at, said in seen.statuses.items()}

        for statuses in ({}, leaderless):
            assert not survivor.halted(replace(seen, statuses=statuses, pods=pods))
        without = replace(seen, etcd=None, statuses=leaderless, pods=pods)
        assert survivor.halted(without)

    def test_the_request_is_not_kept_for_the_next_lost_quorum(self) -> None:
        world = formed()
        world.ask(1)
        drive(world)
        world.wipe(0, 2)

        hold(drive(world), "RecoveryRefused", "set while a quorum answered")
        assert len(world.pods) == 3

    def test_removed_and_set_again_it_counts(self) -> None:
        world = formed()
        world.ask(1)
        drive(world)
        world.wipe(0, 2)
        drive(world)
        world.take_back()
        hold(drive(world), "QuorumLost")
        assert not world.record.declined

        world.ask(1)

        drive(world)
        assert world.record.epoch == 2

    def test_a_request_for_another_cluster_is_not_recorded_as_declined(self) -> None:
        world = formed()
        world.ask(1, clusterID="00000000000000ab")

        hold(drive(world), "RecoveryNotNeeded")
        assert not world.record.declined

    def test_a_request_that_was_carried_out_is_not_mentioned(self) -> None:
        world = lost()
        world.ask(1)
        drive(world)
        world.edit(size=5)

        assert drive(world) == Settled()


class TestWhatTheConditionSays:
    def test_all_that_the_spec_needs(self) -> None:
        world = lost()
        message = hold(decide(world.observe()), "QuorumLost").message
        asked = recovery_in(message)
        assert asked is not None

        world.edit(recovery=asked)

        assert drive(world) == Settled()
        assert world.record.epoch == 2

    def test_no_survivor_was_left_to_choose(self) -> None:
        """The condition had a whole `spec.recovery` to copy: it proposed one member."""
        message = survivor.ways_out(five_with_three_lost({0: (100, 5), 1: (120, 2)}))

        assert '"c-1"' not in message
        assert "the survivor that you choose: c-1 (index 120), c-0 (index 100); the hi" in message

    @pytest.mark.parametrize(
        ("progress", "best"),
        [
            ({0: (100, 5), 1: (120, 2)}, "c-1"),
            ({0: (120, 2), 1: (100, 9)}, "c-0"),
            ({0: (100, 2), 1: (100, 2)}, "c-0"),
            ({1: (1, 1)}, "c-1"),
        ],
    )
    def test_the_highest_index_comes_first_whatever_the_term(
        self, progress: dict[int, tuple[int, int]], best: str
    ) -> None:
        """Committed entries are one sequence. The term of a member without a leader says nothing
        about how much of it the member has."""
        seen = five_with_three_lost(progress)

        message = survivor.ways_out(seen)

        assert re.search(rf"choose: {best} \(", message)
        for ordinal, (index, term) in progress.items():
            assert f"c-{ordinal} (index {index})" in message, term

    def test_each_election_that_failed_was_an_event_and_a_write_of_the_status(self) -> None:
        """With `pre-vote: false` a member without a leader raises its term each second."""
        said = {
            survivor.ways_out(five_with_three_lost({0: (100, term), 1: (120, term)}))
            for term in (5, 6)
        }

        assert len(said) == 1

    def test_silent_members_should_be_started_first(self) -> None:
        message = survivor.ways_out(five_with_three_lost({1: (100, 2)}))

        assert "c-0 (does not answer)" in message
        assert "start those that do not answer first" in message

    def test_no_member_is_left(self) -> None:
        world = lost(3, (0, 1, 2))

        hold(drive(world), "QuorumLost", "No member's data is left here", "restore a backup")

    def test_the_message_fits_into_a_condition(self) -> None:
        """At least the way out does, even with the longest names."""
        world = lost(7, (0, 1, 2, 3))
        message = hold(decide(world.observe()), "QuorumLost").message
        until = message.index("; c-") if "; c-" in message else len(message)
        said = message[:until]

        assert len(said) + said.count("c-") * 51 < LONGEST_MESSAGE


def five_with_three_lost(progress: dict[int, tuple[int, int]]) -> Observation:
    seen = lost(5, (2, 3, 4)).observe()
    assert seen.secret is not None
    assert seen.secret.bootstrap is not None
    cluster_id = seen.secret.bootstrap.cluster_id
    said = {
        ordinal: MemberStatus(
            ordinal + 1, cluster_id, "3.7.3", 0, term, index, learner=False, db_size=1
        )
        for ordinal, (index, term) in progress.items()
    }
    return replace(seen, statuses=said)


class TestAdoption:
    def test_a_volume_of_an_earlier_epoch_is_not_adopted(self) -> None:
        """The cluster was deleted before the other members' claims were."""
        world = raised()
        world.apply(drive_until(world, CreateJob))
        world.turn()
        world.apply(drive_until(world, RecordMember))
        claims = {
            ordinal: claim.annotations[naming.EPOCH] for ordinal, claim in world.claims.items()
        }
        assert claims == {0: "1", 1: "2", 2: "1"}
        seen = world.observe()
        other = replace(seen.cluster, uid="new", recovery=None)
        adopt = replace(other, retained_claims=replace(other.retained_claims, adopt=UID))

        step = decide(replace(seen, cluster=adopt, secret=None, stateful_set=None, pods=()))

        assert isinstance(step, CreateSecret)
        assert step.record.epoch == 2


def test_records_without_an_epoch_are_of_the_first() -> None:
    record = records.first_attempt("u", {"c-0": "http://c-0:2380"}, "3.7.3")
    text = json.loads(dump_bootstrap(record))
    for key in ("epoch", "survivor", "declined"):
        del text[key]

    assert load_bootstrap(json.dumps(text)) == record


@pytest.mark.parametrize("epoch", [0, -1, True, "2", 1.5, None, [], 2.0])
def test_an_invalid_epoch_is_a_damaged_record(epoch: object) -> None:
    record = records.first_attempt("u", {"c-0": "http://c-0:2380"}, "3.7.3")
    text = json.loads(dump_bootstrap(record)) | {"epoch": epoch}

    with pytest.raises(BadRecord):
        load_bootstrap(json.dumps(text))


@pytest.mark.parametrize("text", ["0", "", "x", "-1", "1.0", "٣", "1" * 10])
def test_an_invalid_epoch_on_a_claim_is_a_damaged_record(text: str) -> None:
    notes = member_annotations(MemberRecord("u", "c", 1, 2))

    with pytest.raises(BadRecord):
        load_member(notes | {naming.EPOCH: text})


def test_a_claim_has_its_epoch_on_record() -> None:
    record = MemberRecord("u", "c", 1, 2, epoch=7)

    assert load_member(member_annotations(record)) == record
    notes = member_annotations(record)
    del notes[naming.EPOCH]
    assert load_member(notes) == replace(record, epoch=1)


def test_ids_are_printed_as_in_the_status() -> None:
    seen = lost().observe()
    assert seen.secret is not None
    assert seen.secret.bootstrap is not None
    shown = identity.to_hex(seen.secret.bootstrap.cluster_id)

    assert f'clusterID "{shown}"' in survivor.ways_out(seen)
    assert isinstance(seen.claims[0], Claim)


class TestWhatStatusSays:
    def conditions(self, world: RecoveryWorld) -> dict[str, str]:
        seen = world.observe()
        said = all_conditions(Outcome(seen, decide(seen)))
        return {one.type: one.status for one in said}

    def test_it_is_recovering_until_all_are_back_and_never_scaling(self) -> None:
        world = lost()
        world.ask(1)
        for _ in range(100):
            step = decide(world.observe())
            if world.record.epoch == 2 and world.record.survivor:
                assert self.conditions(world)["Recovering"] == "True"
            if survivor.halted(world.observe()):
                assert "Scaling" not in self.conditions(world)
            if step == Settled():
                break
            world.apply(step) if is_write(step) else world.turn()
        assert "Recovering" not in self.conditions(world)

    def test_the_epoch_is_shown(self) -> None:
        world = lost()
        resource = {**world.body, "status": {"epoch": 1}}
        assert render(resource, Outcome(), "2026-01-01T00:00:00Z")["epoch"] == 1
        world.ask(1)
        drive(world)
        seen = world.observe()

        assert render(resource, Outcome(seen, Settled()), "2026-01-01T00:00:00Z")["epoch"] == 2
