"""The decisions of `start`, branch by branch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from start_helpers import (
    CHALLENGE,
    CLUSTER_ID,
    FIRST_SEGMENT,
    LATER_SEGMENT,
    MARKER,
    MEMBER_ID,
    SETTINGS,
    TICKET,
)

from etcd_stateful.start import marker, rules, ticket
from etcd_stateful.start.configuration import run_config, ticket_config

MARKED = marker.serialise(MARKER)
EMPTY = rules.VolumeFacts()
LEFT = rules.VolumeFacts(leftovers=True)
OURS = rules.VolumeFacts(heads=(FIRST_SEGMENT,), marker=MARKED)
UNMARKED = replace(OURS, marker=None)
OURS_IN_WORDS = f"member {MEMBER_ID:016x} of etcd cluster {CLUSTER_ID:016x}"
GARBLED = replace(OURS, heads=(b"noise" * 20,))
BROKEN = rules.VolumeFacts(problem="/var/etcd/data/member/wal: Permission denied")


def marked(**changes: Any) -> rules.VolumeFacts:
    """A log of MEMBER_ID, with a marker that differs from ours."""
    return replace(OURS, marker=marker.serialise(replace(MARKER, **changes)))


def found(facts: rules.VolumeFacts) -> ticket.Finding:
    verdict = rules.inspect(SETTINGS, facts)
    assert isinstance(verdict, rules.Wait)
    return verdict.finding


def refused(facts: rules.VolumeFacts, offered: ticket.Ticket) -> str:
    decision = rules.accept(SETTINGS, facts, CHALLENGE, offered)
    assert isinstance(decision, rules.Refusal)
    return decision.why


@pytest.mark.parametrize("heads", [(FIRST_SEGMENT,), (LATER_SEGMENT, FIRST_SEGMENT)])
def test_a_volume_with_this_member_s_data_is_started(heads: tuple[bytes, ...]) -> None:
    verdict = rules.inspect(SETTINGS, replace(OURS, heads=heads))
    assert verdict == rules.Run(MARKER, run_config(SETTINGS))


def test_a_volume_reverted_by_its_storage_runs_because_nothing_can_tell() -> None:
    """The docs say so, and what to do instead: claim, marker and log belong to this member."""
    now = replace(OURS, heads=(LATER_SEGMENT, FIRST_SEGMENT))
    put_back = replace(now, heads=(FIRST_SEGMENT,))

    assert rules.inspect(SETTINGS, put_back) == rules.inspect(SETTINGS, now)


@pytest.mark.parametrize("left", [None, MARKED, b"noise"])
def test_without_a_wal_there_is_no_data_whatever_the_marker_says(left: bytes | None) -> None:
    """After a crash between the marker and etcd's first write, the ticket is spent and there is no
    data."""
    assert found(replace(EMPTY, marker=left)) == ticket.Finding("no-data")


def test_remains_of_a_refused_join_are_no_data() -> None:
    finding = found(LEFT)
    assert finding.found == "no-data"
    assert "left-overs" in finding.detail


def test_a_wal_without_a_marker_is_held() -> None:
    assert found(UNMARKED) == ticket.Finding(
        "foreign-data", "a log without a marker", member_id=MEMBER_ID, cluster_id=CLUSTER_ID
    )


@pytest.mark.parametrize("noise", [b"", b"noise", b"{}", b"[]", MARKED[:-5], MARKED * 100])
def test_a_wal_with_a_malformed_marker_is_held(noise: bytes) -> None:
    finding = found(replace(OURS, marker=noise))
    assert finding.found == "foreign-data"
    assert "marker" in finding.detail
    assert (finding.member_id, finding.cluster_id) == (MEMBER_ID, CLUSTER_ID)
    assert (finding.cluster_uid, finding.epoch, finding.member) == (None, None, None)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"cluster_uid": "another"}, "the marker names cluster another"),
        ({"epoch": 2}, "the marker is of epoch 2, not 3"),
        ({"epoch": 4}, "the marker is of epoch 4, not 3"),
        ({"member": "c-0"}, "the marker names pod c-0"),
        ({"member_id": 1}, "the marker names member 0000000000000001 of etcd cluster"),
        ({"cluster_id": 1}, "of etcd cluster 0000000000000001, the log another"),
        ({"member_id": CLUSTER_ID, "cluster_id": MEMBER_ID}, "the log another"),
    ],
    ids=["cluster", "old-epoch", "new-epoch", "clone", "member-id", "cluster-id", "swapped"],
)
def test_data_of_another_member_is_not_started(changes: dict[str, Any], why: str) -> None:
    named = replace(MARKER, **changes)
    finding = found(marked(**changes))
    assert finding.found == "foreign-data"
    assert why in finding.detail
    assert finding.cluster_uid == named.cluster_uid
    assert (finding.epoch, finding.member) == (named.epoch, named.member)
    # The log's, not the marker's: etcd would run under them.
    assert (finding.member_id, finding.cluster_id) == (MEMBER_ID, CLUSTER_ID)


def test_every_difference_is_named_up_to_a_limit() -> None:
    changes = {"cluster_uid": "u" * 253, "epoch": 9, "member": "m" * 253, "member_id": 1}
    assert len(found(marked(**changes)).detail) == 300


@pytest.mark.parametrize(
    "heads",
    [
        GARBLED.heads,
        (bytes(4096),),
        (b"",),
        (FIRST_SEGMENT[:40],),
        (b"noise" * 20, FIRST_SEGMENT),
    ],
    ids=["noise", "zeros", "empty", "cut short", "newest"],
)
def test_an_unreadable_wal_beside_this_pod_s_marker_is_damaged(heads: tuple[bytes, ...]) -> None:
    finding = found(replace(GARBLED, heads=heads))
    assert finding.detail.startswith("log: ")
    assert finding == ticket.Finding(
        "damaged", finding.detail, SETTINGS.cluster_uid, 3, "c-1", MEMBER_ID, CLUSTER_ID
    )


@pytest.mark.parametrize(
    "left",
    [
        None,
        b"",
        b"noise",
        MARKED[:-5],
        *(
            marker.serialise(replace(MARKER, **changes))
            for changes in ({"cluster_uid": "another"}, {"epoch": 2}, {"member": "c-0"})
        ),
    ],
    ids=["none", "empty", "noise", "cut short", "cluster", "epoch", "clone"],
)
def test_a_garbled_wal_of_an_unknown_member_is_unreadable(left: bytes | None) -> None:
    """Damage costs a member its place, so it must be this pod's data beyond doubt."""
    finding = found(replace(GARBLED, marker=left))
    assert finding == ticket.Finding("unreadable", finding.detail)
    assert finding.detail.startswith("log: ")


def test_a_volume_that_cannot_be_inspected_is_unreadable() -> None:
    """Whatever else was seen: nothing is certain, so it counts neither as empty nor as data to
    run."""
    for facts in (BROKEN, replace(OURS, problem=BROKEN.problem)):
        assert found(facts) == ticket.Finding("unreadable", BROKEN.problem)


@pytest.mark.parametrize("state", ["new", "existing"])
@pytest.mark.parametrize("facts", [EMPTY, LEFT, replace(EMPTY, marker=MARKED)])
def test_an_empty_volume_takes_a_ticket(
    facts: rules.VolumeFacts, state: ticket.ClusterState
) -> None:
    offered = replace(TICKET, state=state)
    plan = rules.accept(SETTINGS, facts, CHALLENGE, offered)
    assert plan == rules.Plan(MARKED, run_config(SETTINGS), ticket_config(SETTINGS, offered))


@pytest.mark.parametrize(
    "facts",
    [
        OURS,
        UNMARKED,
        marked(cluster_uid="another"),
        marked(epoch=2),
        marked(member="c-0"),
        marked(member_id=1),
        replace(OURS, marker=b"noise"),
    ],
)
def test_adoption_uses_the_ids_in_the_wal(facts: rules.VolumeFacts) -> None:
    plan = rules.accept(SETTINGS, facts, CHALLENGE, replace(TICKET, state="adopt"))
    # It cannot bootstrap: only the log may say who this is.
    assert plan == rules.Plan(MARKED, run_config(SETTINGS), first=None)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"challenge": "d" * 64}, "another run"),
        ({"challenge": ""}, "another run"),
        ({"cluster_uid": "another"}, "for cluster another"),
        ({"epoch": 2}, "epoch 2"),
        ({"epoch": 4}, "epoch 4"),
        ({"member": "c-0"}, "for c-0"),
        ({"member_id": 0}, "lacks a member"),
        ({"member_id": -1}, "lacks a member"),
        ({"cluster_id": 0}, "lacks a member"),
        ({"cluster_id": 1 << 64}, "lacks a member"),
    ],
)
@pytest.mark.parametrize(("facts", "state"), [(EMPTY, "new"), (EMPTY, "existing"), (OURS, "adopt")])
def test_a_ticket_that_does_not_match_is_refused(
    facts: rules.VolumeFacts, state: ticket.ClusterState, changes: dict[str, Any], why: str
) -> None:
    assert why in refused(facts, replace(TICKET, state=state, **changes))


@pytest.mark.parametrize("state", ["new", "existing"])
@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (OURS, "holds a log"),
        (UNMARKED, "holds a log"),
        (GARBLED, "holds a log"),
        (marked(epoch=2), "holds a log"),
        (BROKEN, "Permission denied"),
    ],
)
def test_a_volume_with_a_wal_is_never_started_as_new(
    facts: rules.VolumeFacts, state: ticket.ClusterState, why: str
) -> None:
    assert why in refused(facts, replace(TICKET, state=state))


@pytest.mark.parametrize("state", ["new", "existing"])
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"initial_cluster": ""}, "lacks c-1=http://c-1.c.ns.svc:2380"),
        ({"initial_cluster": "c-0=http://c-0.c.ns.svc:2380"}, "lacks c-1="),
        ({"initial_cluster": "c-1=http://c-1.c.ns.svc:23800"}, "lacks c-1="),
        ({"initial_cluster": "c-11=http://c-1.c.ns.svc:2380"}, "lacks c-1="),
        ({"initial_cluster": "c-1=https://c-1.c.ns.svc:2380"}, "lacks c-1="),
        ({"token": ""}, "no token"),
    ],
)
def test_a_ticket_that_etcd_would_refuse_is_not_spent(
    state: ticket.ClusterState, changes: dict[str, Any], why: str
) -> None:
    assert why in refused(EMPTY, replace(TICKET, state=state, **changes))


@pytest.mark.parametrize(
    ("facts", "changes", "why"),
    [
        (EMPTY, {}, "no log to adopt"),
        (LEFT, {}, "no log to adopt"),
        (OURS, {"member_id": 1}, "the log is of member"),
        (OURS, {"cluster_id": 1}, "the log is of member"),
        (GARBLED, {}, "cannot read"),
        (BROKEN, {}, "Permission denied"),
    ],
)
def test_only_a_wal_with_the_ids_of_the_ticket_is_adopted(
    facts: rules.VolumeFacts, changes: dict[str, Any], why: str
) -> None:
    assert why in refused(facts, replace(TICKET, state="adopt", **changes))


@pytest.mark.parametrize("facts", [EMPTY, OURS, BROKEN])
def test_a_repeated_ticket_is_the_same_ticket(facts: rules.VolumeFacts) -> None:
    """The receipt was lost. By then the volume may show anything that the ticket made of it."""
    assert rules.accept(SETTINGS, facts, CHALLENGE, TICKET, taken=TICKET) == rules.SameTicket()


@pytest.mark.parametrize(
    "changes",
    [{"member_id": 5}, {"state": "existing"}, {"token": "other"}, {"member": "c-0"}],
)
def test_a_run_takes_only_one_ticket(changes: dict[str, Any]) -> None:
    other = replace(TICKET, **changes)
    decision = rules.accept(SETTINGS, EMPTY, CHALLENGE, other, taken=TICKET)
    assert decision == rules.Refusal("this run has taken another ticket")


def test_a_taken_ticket_means_nothing_to_another_run() -> None:
    """For example in a restarted container, a restored pod object, or on a reinstalled node."""
    decision = rules.accept(SETTINGS, EMPTY, "d" * 64, TICKET, taken=TICKET)
    assert decision == rules.Refusal("the ticket is for another run of start")


def test_data_whose_configuration_cannot_be_written_is_identified_by_its_ids() -> None:
    run = rules.inspect(SETTINGS, OURS)
    assert isinstance(run, rules.Run)
    finding = rules.stuck(run, "cannot write: No space left on device").finding
    assert finding.found == "unreadable"
    assert "No space left" in finding.detail
    assert (finding.cluster_uid, finding.epoch) == (SETTINGS.cluster_uid, 3)
    assert (finding.member, finding.member_id, finding.cluster_id) == (
        "c-1",
        MEMBER_ID,
        CLUSTER_ID,
    )


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        (EMPTY, "no data on the volume"),
        (LEFT, "no data on the volume (left-overs without a log, to be moved aside)"),
        (BROKEN, f"cannot read the volume: {BROKEN.problem}"),
        (
            UNMARKED,
            f"data of {OURS_IN_WORDS} on the volume that is not this pod's: a log without a marker",
        ),
        (GARBLED, f"the data of {OURS_IN_WORDS} is damaged: log: not a frame of an etcd log"),
    ],
)
def test_a_finding_is_described_in_words(facts: rules.VolumeFacts, text: str) -> None:
    assert rules.describe(found(facts)) == text


def test_a_taken_ticket_is_described_in_words() -> None:
    assert rules.describe(ticket.Finding("ticketed")) == "a ticket was taken"
