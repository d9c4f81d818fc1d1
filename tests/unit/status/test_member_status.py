"""`status.memberStatus`, by which a human chooses a survivor. It never causes a write by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from worlds import World, body, drive, formed

from etcd_stateful.membership.observation import Observation
from etcd_stateful.observed.members import Member, MemberStatus
from etcd_stateful.status.member_status import member_status

FIGURES = {"term", "appliedIndex", "dbSize"}
SEEN = formed(3).observe()
AT_REST = member_status(SEEN, ())
IDS = [one["id"] for one in AT_REST]


def silent(*answers: int, **said: Any) -> Observation:
    """No quorum answers, and these members say that they have no leader."""
    statuses = {
        ordinal: replace(SEEN.statuses[ordinal], **({"leader_id": 0} | said)) for ordinal in answers
    }
    return replace(SEEN, etcd=None, statuses=statuses)


def told(seen: Observation, before: Any = AT_REST) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in member_status(seen, before)}


def with_status(seen: Observation, ordinal: int, **said: Any) -> Observation:
    changed = {ordinal: replace(seen.statuses[ordinal], **said)}
    return replace(seen, statuses={**seen.statuses, **changed})


class TestWhileAQuorumAnswers:
    def test_every_listed_member_is_reported(self) -> None:
        assert [one["name"] for one in AT_REST] == ["c-0", "c-1", "c-2"]
        assert sorted(one["role"] for one in AT_REST) == ["leader", "voter", "voter"]
        assert [one["version"] for one in AT_REST] == ["3.7.3"] * 3

    def test_figures_that_change_by_themselves_are_left_out(self) -> None:
        busy = replace(
            SEEN,
            statuses={
                ordinal: replace(one, term=9, applied_index=10**12, db_size=2**33)
                for ordinal, one in SEEN.statuses.items()
            },
        )

        assert member_status(busy, AT_REST) == AT_REST
        assert not any(one.keys() & FIGURES for one in AT_REST)

    @pytest.mark.parametrize("misses", [0, 1, 2])
    def test_a_missed_answer_changes_nothing(self, misses: int) -> None:
        statuses = {one: said for one, said in SEEN.statuses.items() if one != misses}

        assert member_status(replace(SEEN, statuses=statuses), AT_REST) == AT_REST

    def test_the_order_of_the_list_changes_nothing(self) -> None:
        assert SEEN.etcd is not None
        turned = replace(SEEN.etcd, members=SEEN.etcd.members[::-1])

        assert member_status(replace(SEEN, etcd=turned), AT_REST) == AT_REST

    def test_figures_from_an_outage_are_removed_when_it_is_over(self) -> None:
        during = member_status(silent(0, 1), AT_REST)

        assert member_status(SEEN, during) == AT_REST

    def test_a_learner(self) -> None:
        assert SEEN.etcd is not None
        first, *rest = SEEN.etcd.members
        view = replace(SEEN.etcd, members=(replace(first, learner=True), *rest))

        assert told(replace(SEEN, etcd=view))["c-0"]["role"] == "learner"

    def test_a_member_that_has_not_started_has_no_name_and_no_version(self) -> None:
        assert SEEN.etcd is not None
        view = replace(
            SEEN.etcd,
            members=(Member(7, "", ("http://c-3.c.ns.svc:2380",), learner=True),),
        )

        assert member_status(replace(SEEN, etcd=view, statuses={}), ()) == [
            {"name": "c-3", "id": "0000000000000007", "role": "learner"}
        ]

    @pytest.mark.parametrize("seen", [SEEN, silent(0)], ids=["list", "no list"])
    def test_a_private_build_with_a_long_version_had_the_status_refused(
        self, seen: Observation
    ) -> None:
        """The API server refused the whole status, for as long as that build ran."""
        version = f"3.6.14-acme.1-g{'0123456789abcdef' * 4}-dirty"

        found = told(with_status(seen, 0, version=version))

        assert found["c-0"]["version"] == version[:64]

    def test_a_stranger_with_a_long_name_had_the_status_refused(self) -> None:
        """So the status never said that somebody had added a member."""
        assert SEEN.etcd is not None
        stranger = Member(7, "m" * 300, ("http://elsewhere:2380",), learner=False)
        view = replace(SEEN.etcd, members=(*SEEN.etcd.members, stranger))

        assert "m" * 253 in told(replace(SEEN, etcd=view))

    def test_a_member_without_a_pod(self) -> None:
        assert SEEN.etcd is not None
        stranger = Member(7, "mine", ("http://elsewhere:2380",), learner=False)
        view = replace(SEEN.etcd, members=(*SEEN.etcd.members, stranger))

        assert told(replace(SEEN, etcd=view))["mine"] == {
            "name": "mine",
            "id": "0000000000000007",
            "role": "voter",
        }

    def test_the_status_of_another_member_at_its_ordinal_is_ignored(self) -> None:
        seen = with_status(SEEN, 0, member_id=7, version="3.6.16")

        assert told(seen)["c-0"]["version"] == "3.7.3"
        assert "version" not in told(seen, before=())["c-0"]

    def test_the_leader_of_the_latest_term(self) -> None:
        other = SEEN.statuses[2].member_id
        seen = with_status(SEEN, 2, leader_id=other, term=SEEN.statuses[2].term + 1)

        assert told(seen)["c-2"]["role"] == "leader"
        assert told(seen)["c-0"]["role"] == "voter"


class TestWithoutAQuorum:
    def test_members_that_answer_have_figures(self) -> None:
        found = told(silent(0, 2, term=5, applied_index=812, db_size=4096))

        assert found["c-0"] == {
            "name": "c-0",
            "id": IDS[0],
            "role": "voter",
            "version": "3.7.3",
            "term": 5,
            "appliedIndex": 812,
            "dbSize": 4096,
        }
        assert found["c-2"]["appliedIndex"] == 812

    def test_members_that_do_not_answer_are_as_last_known(self) -> None:
        assert told(silent(0, 2))["c-1"] == AT_REST[1]

    def test_a_member_that_answered_once_keeps_its_figures(self) -> None:
        during = member_status(silent(0, 2), AT_REST)

        assert member_status(silent(0), during) == during
        assert member_status(silent(), during) == during

    def test_a_former_leader_without_a_leader_is_a_voter(self) -> None:
        assert AT_REST[0]["role"] == "leader"
        assert told(silent(0))["c-0"]["role"] == "voter"

    def test_a_member_that_still_leads(self) -> None:
        found = told(silent(0, leader_id=SEEN.statuses[0].member_id))

        assert found["c-0"]["role"] == "leader"

    def test_a_learner_stays_one(self) -> None:
        assert told(silent(2, learner=True))["c-2"]["role"] == "learner"

    def test_a_term_that_rises_alone_is_not_written(self) -> None:
        during = member_status(silent(0, term=5, applied_index=812), AT_REST)

        assert member_status(silent(0, term=99, applied_index=812), during) == during
        assert told(silent(0, term=99, applied_index=813), during)["c-0"]["term"] == 99

    def test_without_an_earlier_status_the_members_that_answer_are_reported(self) -> None:
        found = told(silent(0), before=())

        assert list(found) == ["c-0"]
        assert found["c-0"]["id"] == IDS[0]

    def test_a_member_of_another_cluster_is_left_out(self) -> None:
        assert told(silent(0, cluster_id=7)) == {one["name"]: one for one in AT_REST}

    def test_a_paused_cluster_whose_etcd_is_not_asked_keeps_all(self) -> None:
        assert member_status(silent(), AT_REST) == AT_REST

    def test_a_lost_secret_keeps_all(self) -> None:
        assert member_status(replace(silent(0), secret=None), AT_REST) == AT_REST

    def test_before_there_is_a_cluster_there_is_nothing(self) -> None:
        world = World(body(3))
        world.cut_off = True
        drive(world)

        assert member_status(world.observe(), ()) == []

    def test_an_entry_without_a_name_was_an_internal_error_in_each_pass(self) -> None:
        """Somebody had written it. The CRD asks only for an ID."""
        entry = {"id": "0000000000000007"}

        assert entry in member_status(silent(), [*AT_REST, entry])

    def test_entries_without_an_id_are_dropped(self) -> None:
        assert member_status(silent(), [{"name": "c-0"}]) == []

    def test_an_unspecified_version_is_left_out(self) -> None:
        said: dict[int, MemberStatus] = {0: replace(SEEN.statuses[0], version="")}

        assert "version" not in told(replace(silent(), statuses=said), before=())["c-0"]
