"""The ledger of tickets: what it must keep, and what it may forget."""

from __future__ import annotations

from dataclasses import replace

import pytest
from views import with_claim, with_pod
from worlds import Conflict, drive, formed, labels, until

from etcd_stateful.membership.beginning import ledger
from etcd_stateful.membership.irreversible import is_final
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import Settled, WriteBootstrap
from etcd_stateful.observed.pods import StartAnswer
from etcd_stateful.records.member import MemberRecord
from etcd_stateful.start.ticket import Finding

GONE = 0xA0
"""A member that was removed."""


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "MANY", 4)


def with_entry(seen: Observation, member: int = GONE, **changes: object) -> Observation:
    record = seen.secret.bootstrap
    issued = tuple(sorted((*record.issued, (member, "a-run"))))
    record = replace(record, issued=issued, **changes)
    return replace(seen, secret=replace(seen.secret, bootstrap=record))


def knows(seen: Observation, member: int) -> bool:
    return ledger.pruned(seen).challenge(member) is not None


@pytest.mark.usefixtures("few")
def test_a_member_that_was_replaced_again_and_again_filled_the_secret() -> None:
    """After some 11,600 tickets, none of the Secret's records could be written any more."""
    world = formed(3)
    most = 0
    for _ in range(6):
        world.empty(2)
        assert drive(world) == Settled()
        most = max(most, len(world.record.issued))
        assert all(world.record.challenge(one) is not None for one in world.etcd.members)

    assert most < 3 + 6
    assert len(world.etcd.removed) == 6


@pytest.mark.usefixtures("few")
def test_a_learner_whose_etcd_kept_failing_filled_the_secret() -> None:
    world = formed(3)
    world.edit(size=4)
    for _ in range(8):
        until(world, "promote c-3")
        world.pods[3].crashing = True
        world.pods[3].age = 60.0
        world.apply(until(world, "remove c-3"))

    assert len(world.record.issued) < 3 + 8
    world.pods[3].crashing = False
    assert drive(world) == Settled()


@pytest.mark.usefixtures("few")
def test_leaving_an_entry_out_is_decided_twice() -> None:
    world = formed(3)
    world.edit(size=4)
    step = until(world, "ledger 4")
    assert isinstance(step, WriteBootstrap)
    assert not is_final(step)

    step = decide(with_entry(world.observe()))

    assert labels([step]) == ["ledger 4"]
    assert is_final(step)


def test_a_short_one_is_kept_whole() -> None:
    assert knows(with_entry(formed(3).observe()), GONE)


@pytest.mark.usefixtures("few")
class TestLongLedger:
    def seen(self) -> Observation:
        return with_entry(formed(3).observe())

    def test_a_removed_members_ticket_is_left_out(self) -> None:
        assert not knows(self.seen(), GONE)

    def test_those_on_the_list_stay(self) -> None:
        """Whether or not a claim or a pod names them."""
        seen = self.seen()
        members = (replace(seen.etcd.members[0], member_id=GONE), *seen.etcd.members[1:])

        assert knows(replace(seen, etcd=replace(seen.etcd, members=members)), GONE)

    def test_first_members_stay_even_if_they_were_removed(self) -> None:
        """Only the ledger knows them: a first member is listed by name before it starts."""
        seen = self.seen()
        first = seen.secret.bootstrap.members[2].member_id
        listed = tuple(one for one in seen.etcd.members if one.member_id != first)

        assert knows(replace(seen, etcd=replace(seen.etcd, members=listed)), first)

    def test_a_member_on_record_on_a_claim_stays(self) -> None:
        seen = self.seen()
        record = replace(seen.claims[1].record, member_id=GONE)

        assert knows(with_claim(seen, 1, record=record), GONE)

    @pytest.mark.parametrize("said", ["record", "start", "answer"])
    def test_a_member_that_a_pod_names_stays(self, said: str) -> None:
        finding = Finding("foreign-data", member="c-1", member_id=GONE)
        changes = {
            "record": {"record": MemberRecord("uid", "pod", GONE, 1)},
            "start": {"ran_as": GONE},
            "answer": {"answer": StartAnswer("run", finding)},
        }

        assert knows(with_pod(self.seen(), 1, **changes[said]), GONE)

    def test_nothing_is_left_out_before_the_latch(self) -> None:
        assert knows(with_entry(formed(3).observe(), latched=False), GONE)

    def test_nothing_is_left_out_without_a_member_list(self) -> None:
        assert knows(replace(self.seen(), etcd=None), GONE)

    def test_nothing_is_left_out_by_the_list_of_another_cluster(self) -> None:
        seen = self.seen()

        assert knows(replace(seen, etcd=replace(seen.etcd, cluster_id=7)), GONE)

    def test_an_old_view_writes_nothing(self) -> None:
        """It may still list the removed member, and be about to push a ticket for it."""
        world = formed(3)
        world.edit(size=4)
        old = until(world, "ledger 4")
        world.apply(decide(world.observe()))

        with pytest.raises(Conflict, match="resourceVersion"):
            world.apply(old)
