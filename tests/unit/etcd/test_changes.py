"""Which member gets a change of the membership; `test_etcd_cut_off.py` covers real etcd."""

from __future__ import annotations

from typing import cast

from etcd_operator.etcd.api import Endpoint, Etcd, Refused
from etcd_operator.etcd.changes import CUT_OFF, change
from etcd_operator.step_result import Declined, Done
from etcd_stateful.membership.steps import Leader, MemberAddLearner, MemberRemove, Voter

LEADER = Leader("10.0.0.1", 1, 7, others=(Voter("10.0.0.2", 2, 7), Voter("10.0.0.3", 3, 7)))


class CutOff:
    """Every member except one believes that it has too few peers."""

    def __init__(self, connected: int = 0) -> None:
        self.connected = connected
        self.asked: list[int | None] = []

    async def member_add_learner(self, at: Endpoint, *_: str) -> int:
        await self.member_remove(at, 0)
        return 0xABC

    async def member_remove(self, at: Endpoint, _: int) -> None:
        self.asked.append(at.member_id)
        if at.member_id != self.connected:
            raise Refused(CUT_OFF)


async def test_a_leader_that_believed_itself_cut_off_stopped_every_change() -> None:
    etcd = CutOff(connected=3)

    done = await change(cast("Etcd", etcd), MemberAddLearner(LEADER, "http://c-3:2380", "grow"))

    assert isinstance(done, Done)
    assert etcd.asked == [1, 2, 3]


async def test_a_member_that_leaves_is_not_asked_to_remove_itself() -> None:
    etcd = CutOff()

    said = await change(cast("Etcd", etcd), MemberRemove(LEADER, 2, "shrink"))

    assert said == Declined(CUT_OFF)
    assert etcd.asked == [1, 3]
