"""The two records: what is written can be read back, and what others wrote into them holds the
cluster."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etcd_stateful import naming
from etcd_stateful.records import bootstrap as records
from etcd_stateful.records.bootstrap import Bootstrap
from etcd_stateful.records.bootstrap_json import FORMAT, dump_bootstrap, load_bootstrap
from etcd_stateful.records.errors import BadRecord, NewerRecord
from etcd_stateful.records.member import MemberRecord, load_member, member_annotations

PEERS = {f"c-{ordinal}": f"http://c-{ordinal}.c.ns.svc:2380" for ordinal in range(3)}
FIRST = records.first_attempt("uid", PEERS, "3.7.3")
MEMBER = MemberRecord("uid", "claim-uid", 0xAA, 0xBB)

IDS = st.integers(1, 2**64 - 1)


class TestBootstrap:
    def test_a_first_attempt(self) -> None:
        assert FIRST.attempt == 1
        assert FIRST.token == "uid-1"
        assert not FIRST.latched
        assert FIRST.issued == ()
        assert FIRST.version == "3.7.3"
        assert FIRST.initial_cluster == ",".join(f"{name}={url}" for name, url in PEERS.items())

    def test_another_attempt_shares_nothing_with_the_previous_one(self) -> None:
        spent = records.issue(FIRST, {FIRST.members[0].member_id: "r"})
        second = records.next_attempt(spent, PEERS, "3.6.14", FIRST.links)

        assert second.attempt == 2
        assert second.token == "uid-2"
        assert (second.version, second.oldest) == ("3.6.14", "3.6.14")
        assert second.cluster_id != FIRST.cluster_id
        assert second.issued == ()
        assert not {one.member_id for one in second.members} & {
            one.member_id for one in FIRST.members
        }

    def test_an_adopted_cluster_is_latched_and_has_no_first_members(self) -> None:
        record = records.adopted("uid", 0xBB, "3.7.3", 5)

        assert record.latched
        assert record.members == ()
        assert record.cluster_id == 0xBB
        assert record.attempt == 0
        assert record.version == "3.7.3"
        assert record.size == 5
        assert load_bootstrap(dump_bootstrap(record)) == record

    def test_only_an_untried_version_is_marked_as_untried(self) -> None:
        record = replace(records.adopted("uid", 0xBB, "3.7.3", 5), untried=True)

        assert load_bootstrap(dump_bootstrap(record)) == record
        assert "untried" not in dump_bootstrap(FIRST)

    def test_a_rebuilt_record_remembers_a_later_epoch_that_was_begun(self) -> None:
        record = replace(records.adopted("uid", 0xBB, "3.7.3", 5, epoch=2), begun=4)

        assert load_bootstrap(dump_bootstrap(record)) == record
        assert records.recovering(record, "c-1").epoch == 5
        assert records.recovering(replace(record, begun=0), "c-1").epoch == 3
        assert "begun" not in dump_bootstrap(FIRST)

    def test_members_are_found_by_name(self) -> None:
        assert FIRST.member("c-1") == FIRST.members[1]
        assert FIRST.member("c-3") is None

    @given(st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=4), st.booleans())
    def test_what_is_written_comes_back(self, peers: dict[str, str], latched: bool) -> None:
        record = replace(records.first_attempt("uid", peers, "3.7.3"), latched=latched)
        record = records.issue(record, {one.member_id: "run" for one in record.members[:2]})

        assert load_bootstrap(dump_bootstrap(record)) == record

    def test_the_text_is_stable(self) -> None:
        once = dump_bootstrap(FIRST)

        assert dump_bootstrap(load_bootstrap(once)) == once


class TestLedger:
    ID = FIRST.members[0].member_id

    def test_a_ticket_is_recorded_with_its_run(self) -> None:
        record = records.issue(FIRST, {self.ID: "run-1"})

        assert record.challenge(self.ID) == "run-1"
        assert record.challenge(FIRST.members[1].member_id) is None

    @pytest.mark.parametrize("run", ["run-1", "run-2"])
    def test_no_member_is_recorded_twice(self, run: str) -> None:
        record = records.issue(FIRST, {self.ID: "run-1"})

        with pytest.raises(ValueError, match="had their ticket"):
            records.issue(record, {self.ID: run})

    @given(st.dictionaries(IDS, st.text(max_size=4)), st.dictionaries(IDS, st.text(max_size=4)))
    def test_the_ledger_only_grows(self, first: dict[int, str], second: dict[int, str]) -> None:
        record = records.issue(FIRST, first)
        later = {member: run for member, run in second.items() if member not in first}

        assert set(record.issued) <= set(records.issue(record, later).issued)

    def test_latching_keeps_the_ledger(self) -> None:
        record = records.issue(FIRST, {self.ID: "run-1"})

        assert records.latch(record) == replace(record, latched=True)


def broken(**changes: Any) -> str:
    raw = json.loads(dump_bootstrap(FIRST))
    return json.dumps({key: value for key, value in (raw | changes).items() if value is not ...})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "5",
        "[]",
        '"x"',
        "{}",
        "{",
        "not json",
        "[" * 100_000,
        broken(attempt=...),
        broken(attempt="x"),
        broken(attempt=None),
        broken(attempt=float("inf")),
        broken(attempt="9" * 5000),
        broken(token=...),
        broken(clusterUID=...),
        broken(clusterID=...),
        broken(clusterID="-1"),
        broken(clusterID="0x1"),
        broken(clusterID=5),
        broken(clusterID="f" * 17),
        broken(members=...),
        broken(members=5),
        broken(members=[["c-0", "http://x"]]),
        broken(members=[["c-0", "http://x", "nonsense"]]),
        broken(members=[5]),
        broken(issued=...),
        broken(issued=[["aa"]]),
        broken(issued=[["nonsense", "run"]]),
        broken(latched=...),
        broken(latched="true"),
        broken(latched=1),
        broken(latched=None),
        broken(untried="yes"),
        broken(version=...),
        broken(size=...),
        broken(size="x"),
        broken(epoch=0),
        broken(epoch="2"),
        broken(epoch=True),
        broken(format=0),
        broken(format=-1),
        broken(format="1"),
        broken(format=1.0),
        broken(format=True),
        broken(format=None),
    ],
)
def test_a_tampered_record_is_bad_and_raises_nothing_else(text: str) -> None:
    with pytest.raises(BadRecord, match="the bootstrap record cannot be read"):
        load_bootstrap(text)


class TestFormat:
    def test_a_record_from_before_formats_can_be_read(self) -> None:
        assert load_bootstrap(broken(format=...)) == FIRST

    def test_a_record_contains_its_format(self) -> None:
        assert json.loads(dump_bootstrap(FIRST))["format"] == FORMAT == 1

    @pytest.mark.parametrize("more", [{}, {"quorum": 2}, {"members": "others"}, {"size": ...}])
    def test_an_older_operator_refuses_a_record_with_fields_it_would_drop(
        self, more: dict[str, Any]
    ) -> None:
        with pytest.raises(NewerRecord, match=r"a newer operator wrote .*, in format 2"):
            load_bootstrap(broken(format=2, **more))


@given(
    st.text(max_size=60)
    | st.recursive(st.none() | st.booleans() | st.text(max_size=4), st.lists).map(json.dumps)
)
def test_any_text_is_a_record_or_is_refused(text: str) -> None:
    with pytest.raises(BadRecord):
        load_bootstrap(text)


@given(
    st.sampled_from(
        ["format", "attempt", "members", "issued", "clusterID", "latched", "version", "size"]
    ),
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=4),
        lambda one: st.lists(one, max_size=3),
    ),
)
def test_any_value_in_a_record_is_read_or_refused(key: str, value: Any) -> None:
    with contextlib.suppress(BadRecord):
        assert isinstance(load_bootstrap(broken(**{key: value})), Bootstrap)


class TestMemberRecord:
    @given(IDS, IDS, st.integers(1, 10**9 - 1), st.sampled_from(["http", "https"]))
    def test_what_is_written_comes_back(
        self, member: int, cluster: int, epoch: int, scheme: str
    ) -> None:
        record = MemberRecord("uid", "claim-uid", member, cluster, epoch, scheme)

        assert load_member(member_annotations(record)) == record

    def test_a_new_claim_has_none(self) -> None:
        assert load_member({}) is None
        assert load_member({naming.CLUSTER_UID: "uid", "other": "x"}) is None

    @pytest.mark.parametrize(
        "missing", [naming.MEMBER_ID, naming.CLUSTER_ID, naming.CLAIM_UID, naming.CLUSTER_UID]
    )
    def test_an_incomplete_one_is_refused(self, missing: str) -> None:
        annotations = member_annotations(MEMBER)
        del annotations[missing]

        with pytest.raises(BadRecord, match="the member record on the claim cannot be read"):
            load_member(annotations)

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            (naming.MEMBER_ID, ""),
            (naming.MEMBER_ID, "nonsense"),
            (naming.MEMBER_ID, "-1"),
            (naming.MEMBER_ID, "0" * 17),
            (naming.CLUSTER_ID, ""),
            (naming.CLUSTER_ID, "0xaa"),
            (naming.CLAIM_UID, ""),
            (naming.CLUSTER_UID, ""),
            (naming.EPOCH, "0"),
            (naming.EPOCH, "+1"),
            (naming.EPOCH, "\N{ARABIC-INDIC DIGIT THREE}"),
            (naming.EPOCH, "1" + "0" * 9),
            (naming.PEER_SCHEME, "ftp"),
        ],
    )
    def test_an_unreadable_value_is_refused(self, key: str, value: str) -> None:
        with pytest.raises(BadRecord):
            load_member(member_annotations(MEMBER) | {key: value})
