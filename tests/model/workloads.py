"""Workloads: what happens to a cluster over time, one thing after the other. `crashes` interrupts
them.

Each is a list of events. Before each event the operator and the world continue until the cluster is
at rest, or only until the operator has made a number of writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NEW_IMAGE: Final = '{"version": "3.6.17"}'
OLD: Final = {"version": "3.6.16"}
EMPTY_DIR: Final = {"pod": {"emptyDir": {}}}


@dataclass(frozen=True)
class Workload:
    """`events`: actions, each with the writes that have to come first, such as `2 MemberRemove`; an
    empty text waits for rest."""

    name: str
    spec: dict[str, object]
    events: tuple[tuple[str, str], ...] = ()
    settled: bool = True
    """Whether it begins with a settled cluster, and not with its creation."""
    width: int = 7


def _edit(size: int) -> str:
    return f'edit {{"size": {size}}}'


def _everything(size: int, version: str) -> str:
    return f'edit {{"size": {size}, "version": "{version}", "etcd": {{"snapshotCount": 5000}}}}'


def _size(name: str, before: int, after: int) -> Workload:
    return Workload(name, {"size": before}, (("", _edit(after)),))


def _replaced(name: str, fault: str, ordinal: int, size: int = 3, **spec: object) -> Workload:
    return Workload(name, {"size": size} | spec, (("", f"fault {fault} {ordinal}"),))


def _recovered(name: str, *events: tuple[str, str]) -> Workload:
    """A recovery after the quorum was lost with the volume of ordinal 0, and then another one."""
    return Workload(name, {"size": 3}, (("", "fault node_reimaged 0"), *events))


LOST: Final = "0 DeletePod"
"""Waits for no write at all."""
RECOVER: Final = ("", "recover told")

WORKLOADS: Final[tuple[Workload, ...]] = (
    Workload("create 1", {"size": 1}, settled=False),
    Workload("create 3", {"size": 3}, settled=False),
    Workload("create 5", {"size": 5}, settled=False),
    Workload("create 3 with an emptyDir", {"size": 3} | EMPTY_DIR, settled=False),
    _size("grow 1 to 3", 1, 3),
    _size("grow 3 to 5", 3, 5),
    _size("grow 3 to 7", 3, 7),
    _size("shrink 5 to 3", 5, 3),
    _size("shrink 7 to 1", 7, 1),
    _size("shrink 3 to 1", 3, 1),
    _replaced("claim and pod of 0, the leader, deleted", "claim_and_pod_deleted", 0),
    _replaced("claim of 1 deleted", "claim_deleted", 1),
    _replaced("volume of 0, the leader, emptied", "volume_emptied", 0),
    _replaced("volume of 4 emptied", "volume_emptied", 4, 5),
    _replaced("1 removed by hand", "removed_by_hand", 1),
    _replaced("0, the leader, removed by hand", "removed_by_hand", 0),
    _replaced("node of 2 gone", "node_removed", 2),
    _replaced("node of 0 gone", "node_removed", 0, 5),
    _replaced("log of 0 damaged", "log_damaged", 0),
    _replaced("database of 2 damaged", "database_damaged", 2),
    _replaced("data of 1 differs", "data_differs", 1),
    _replaced("node of 1 reimaged", "node_reimaged", 1),
    _replaced("emptyDir of 1 gone with its pod", "pod_deleted", 1, **EMPTY_DIR),
    _replaced("emptyDir of 0 gone with its pod", "pod_deleted", 0, 5, **EMPTY_DIR),
    Workload("roll of 3", {"size": 3}, (("", 'edit {"pod": {"labels": {"a": "b"}}}'),)),
    Workload("roll of 1", {"size": 1}, (("", 'edit {"pod": {"labels": {"a": "b"}}}'),)),
    Workload("roll of 5", {"size": 5}, (("", 'edit {"etcd": {"snapshotCount": 5000}}'),)),
    Workload("patch", {"size": 3} | OLD, (("", f"edit {NEW_IMAGE}"),)),
    Workload("minor", {"size": 3} | OLD, (("", 'edit {"version": "3.7.3"}'),)),
    Workload("downgrade", {"size": 3, "version": "3.7.3"}, (("", f"edit {NEW_IMAGE}"),)),
    Workload(
        "broken image and back",
        {"size": 3} | OLD,
        (("", 'edit {"version": "3.7.99"}'), ("", 'edit {"version": "3.6.16"}')),
    ),
    Workload(
        "minor, called off after the first pod",
        {"size": 3} | OLD,
        (("", 'edit {"version": "3.7.3"}'), ("1 DeletePod", 'edit {"version": "3.6.16"}')),
    ),
    Workload("everything at once, up", {"size": 3} | OLD, (("", _everything(5, "3.6.17")),)),
    Workload("everything at once, down", {"size": 3} | OLD, (("", _everything(1, "3.7.3")),)),
    Workload(
        "size edited half-way up", {"size": 3}, (("", _edit(7)), ("2 MemberAddLearner", _edit(3)))
    ),
    Workload(
        "size edited half-way down", {"size": 5}, (("", _edit(1)), ("2 MemberRemove", _edit(5)))
    ),
    Workload(
        "size edited between tickets", {"size": 3}, (("", _edit(5)), ("1 PushTicket", _edit(4)))
    ),
    Workload(
        "paused half-way",
        {"size": 3},
        (("", _edit(5)), ("1 PushTicket", 'edit {"paused": true}'), ("", 'edit {"paused": null}')),
    ),
    Workload(
        "StatefulSet deleted half-way",
        {"size": 3},
        (("", _edit(5)), ("2 MemberAddLearner", "fault stateful_set_deleted")),
    ),
    Workload(
        "StatefulSet orphaned half-way down",
        {"size": 5},
        (("", _edit(3)), ("1 MemberRemove", "fault stateful_set_orphaned")),
    ),
    Workload("status lost", {"size": 3}, (("", "fault status_lost"), ("", _edit(5)))),
    Workload("Secret lost", {"size": 3}, (("", "fault secret_lost"), ("", _edit(5)))),
    Workload(
        "two lost of five",
        {"size": 5},
        (("", "fault claim_and_pod_deleted 0"), ("", "fault volume_emptied 3")),
    ),
    _recovered("recovery", (LOST, "fault node_reimaged 2"), RECOVER),
    _recovered(
        "recovery with a silent node",
        (LOST, "fault node_silent 2"),
        (LOST, "recover 1 fenced 2"),
    ),
    _recovered(
        "recovery called off",
        (LOST, "fault node_reimaged 2"),
        RECOVER,
        ("1 ApplyChild", 'edit {"recovery": null}'),
    ),
    _recovered(
        "recovery whose Job fails, asked for anew",
        (LOST, "fault node_reimaged 2"),
        RECOVER,
        ("1 WriteBootstrap", "fault unscheduled 1"),
        ("1 CreateJob", "fault job_fails 1"),
        ("", "recover 1"),
    ),
)
