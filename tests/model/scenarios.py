"""The exhaustive searches: sizes 1, 3 and 5, two faults, two edits, late steps.

No single search allows everything at once. Each is complete for what it allows, and together they
reach every branch of the planner. `QUICK` is the part for every run of the tests.
"""

from __future__ import annotations

from typing import Final

from model.search import Scenario
from model.world import faults, faults_of_others, faults_recovery

SPEC3: Final[dict[str, object]] = {"size": 3}
OLD: Final[dict[str, object]] = {"size": 3, "version": "3.6.16"}
EMPTY_DIR: Final[dict[str, object]] = {"pod": {"emptyDir": {}}}

ALL: Final = tuple(faults.FAULTS)
SIZES: Final = tuple(f'{{"size": {size}}}' for size in (1, 3, 5))
TEMPLATES: Final = (
    '{"pod": {"labels": {"a": "b"}}}',
    '{"repository": "broken/etcd"}',
    '{"pod": null, "repository": null}',
)
LABELS: Final = ('{"pod": {"emptyDir": {}, "labels": {"a": "b"}}}',)
VERSIONS: Final = tuple(
    f'{{"version": "{version}"}}' for version in ("3.6.17", "3.7.3", "3.6.16", "3.5.35", "3.7.99")
)
UP_AND_DOWN: Final = (VERSIONS[1], VERSIONS[2])
OLDER: Final[dict[str, object]] = {"size": 3, "version": "3.5.35"}
UPWARDS: Final = VERSIONS[:2]
AT_ONCE: Final = (
    '{"size": 5, "version": "3.6.17", "etcd": {"snapshotCount": 5000}}',
    '{"size": 1, "version": "3.7.3", "etcd": {"snapshotCount": 6000}}',
)
"""Of everything at once: what is for the new version must not reach the old."""

WIDER: Final = (*VERSIONS[1:4], '{"size": 2}', '{"size": 1}')
UNBORN: Final[dict[str, object]] = {"size": 3, "version": "3.7.99"}
"""A version whose image is in no registry."""

UNBORN1: Final = UNBORN | {"size": 1}
BIRTHS: Final = ('{"version": "3.7.3"}', '{"version": "3.5.35"}', '{"size": 1}')
PAUSE: Final = ('{"paused": true}', '{"paused": null}')
LOSSES: Final = (
    "claim_deleted",
    "claim_and_pod_deleted",
    "volume_emptied",
    "node_reimaged",
    "node_removed",
    "removed_by_hand",
    "wrong_mount",
    "onto_terminating_claim",
)
WORST: Final = ("claim_deleted", "volume_emptied", "removed_by_hand", "node_removed")
PASSING: Final = (
    "container_restarts",
    "pod_deleted",
    "node_silent",
    "unscheduled",
    "old_pod_restored",
    "operator_cut_off",
    "operator_unpullable",
    "stateful_set_deleted",
    "stateful_set_orphaned",
    "pods_refused",
    "budget_deleted",
    "status_lost",
    "secret_lost",
)
DAMAGES: Final = (
    "log_damaged",
    "database_damaged",
    "data_differs",
    "data_differs_and_another_is_blamed",
    "volume_lost",
    "volume_unreadable",
)


def at(names: tuple[str, ...], *ordinals: int) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """These faults at these ordinals. Faults that are not of one ordinal occur once."""
    return tuple((name, (0,) if name in faults.EVERYWHERE else ordinals) for name in names)


REST: Final = ("rest",)
LOST: Final = (*REST, "fault node_reimaged 0", "fault node_reimaged 2", *REST)
"""The quorum is lost with two volumes of three."""
HALF_WAY: Final = (*REST, 'edit {"version": "3.7.99"}', *REST, "fault node_reimaged 0", *REST)
"""The quorum is lost with a version that has no image, and one volume."""
SILENT: Final = (*REST, "fault node_reimaged 0", "fault node_silent 2", "recover 1 fenced 2")
"""The quorum is lost with one volume, and with a node that a human declares off for good, perhaps
wrongly."""
AWAY: Final = (
    *REST,
    *(f"fault {what} {at}" for at in (0, 2) for what in ("unscheduled", "pod_deleted")),
    "world",
)
"""The quorum is lost with two pods of three, which come back with their volumes."""
BEHIND: Final = (
    *REST,
    "fault unscheduled 3",
    "fault pod_deleted 3",
    "world",
    *(f"fault node_reimaged {ordinal}" for ordinal in (0, 1, 2)),
)
"""Of five members two are left, and the lower one of them lacks the last writes."""
RECOVERING: Final = tuple(faults_recovery.FAULTS)
RECOVER: Final = ("recover told",)
WORDS: Final = (*RECOVER, "recover 1", "recover 0", '{"recovery": null}')

QUICK: Final[tuple[Scenario, ...]] = (
    Scenario("create 1, two faults", 1, {"size": 1}, faults=at(ALL, 0), left=(2, 0, 1)),
    Scenario("1, two faults", 1, {"size": 1}, REST, at(ALL, 0), left=(2, 0, 1)),
    Scenario("create 3, one fault", 3, SPEC3, faults=at(ALL, 0, 1, 2), left=(1, 0, 0)),
    Scenario("3, one fault, one late step", 3, SPEC3, REST, at(ALL, 0, 1, 2), left=(1, 0, 1)),
    Scenario("3, two faults", 3, SPEC3, REST, at(ALL, 0, 2), left=(2, 0, 0), eager=True),
    Scenario("sizes, no fault", 5, SPEC3, REST, edits=SIZES, left=(0, 2, 0)),
    Scenario("sizes, a late step", 5, SPEC3, REST, edits=SIZES, left=(0, 1, 1)),
    Scenario(
        "sizes, one fault", 5, SPEC3, REST, at(LOSSES, 0, 3), SIZES, left=(1, 1, 0), eager=True
    ),
    Scenario("templates", 3, SPEC3, REST, edits=TEMPLATES, left=(0, 2, 1)),
    Scenario("emptyDir of 1", 1, {"size": 1} | EMPTY_DIR, REST, at(ALL, 0), LABELS, (1, 1, 0)),
    Scenario("versions", 3, OLD, REST, edits=VERSIONS, left=(0, 2, 0)),
    Scenario("versions of 1", 1, OLD | {"size": 1}, REST, at(ALL, 0), VERSIONS, left=(1, 2, 0)),
    Scenario(
        "versions from 3.5 on", 3, OLDER, REST, at(("node_reimaged",), 2), UPWARDS, left=(1, 2, 0)
    ),
    Scenario(
        "versions with an emptyDir", 3, OLD | EMPTY_DIR, REST, edits=UP_AND_DOWN, left=(0, 3, 0)
    ),
    Scenario("versions and sizes", 2, OLD | {"size": 1}, REST, edits=WIDER, left=(0, 3, 0)),
    Scenario("everything at once", 5, OLD, REST, edits=AT_ONCE, left=(0, 1, 0)),
    Scenario("create 3, edits", 3, UNBORN, edits=BIRTHS, left=(0, 2, 0), eager=True),
    Scenario("create 3, an edit", 3, UNBORN, edits=BIRTHS, left=(0, 1, 0)),
    Scenario("create 1, an edit", 1, UNBORN1, (), at(ALL, 0), BIRTHS[:2], left=(1, 1, 1)),
    Scenario(
        "names taken",
        5,
        SPEC3,
        REST,
        tuple((name, (0,)) for name in faults_of_others.FAULTS),
        SIZES[1:],
        left=(2, 1, 0),
        eager=True,
    ),
    Scenario("pause", 5, SPEC3, REST, edits=(*SIZES[2:], *PAUSE), left=(0, 3, 0)),
    Scenario(
        "emptyDir", 3, SPEC3 | EMPTY_DIR, REST, at(ALL, 0, 1), SIZES[:2], left=(1, 1, 0), eager=True
    ),
    Scenario(
        "recovery, one fault",
        3,
        SPEC3,
        LOST,
        at((*ALL, *RECOVERING), 0, 1, 2),
        RECOVER,
        left=(1, 1, 0),
        eager=True,
    ),
    Scenario("recovery of 5, one behind", 5, {"size": 5}, BEHIND, edits=RECOVER, left=(0, 1, 0)),
    Scenario(
        "recovery, other words",
        3,
        SPEC3,
        LOST,
        at(("secret_lost", *RECOVERING[:3]), 1),
        WORDS,
        left=(1, 2, 0),
        eager=True,
    ),
    Scenario(
        "recovery, a silent node",
        3,
        SPEC3,
        SILENT,
        at(("secret_lost", "operator_cut_off", "pod_of_before_restored"), 2),
        WORDS[3:],
        left=(1, 1, 0),
        eager=True,
    ),
    Scenario(
        "recovery, templates", 3, SPEC3, LOST, edits=(*RECOVER, *TEMPLATES[:2]), left=(0, 2, 1)
    ),
)

WHOLE: Final[tuple[Scenario, ...]] = (
    *QUICK,
    Scenario("sizes, no fault, a late step", 5, SPEC3, REST, edits=SIZES, left=(0, 2, 1)),
    Scenario("create 1, edits", 1, UNBORN1, (), at(ALL, 0), BIRTHS[:2], left=(1, 2, 1)),
    Scenario(
        "create 3, an edit, one fault",
        3,
        UNBORN,
        faults=at(ALL, 0, 2),
        edits=BIRTHS,
        left=(1, 1, 0),
        eager=True,
    ),
    Scenario("create 5, one fault", 5, {"size": 5}, faults=at(ALL, 0, 2, 4), left=(1, 0, 0)),
    Scenario("create 3, two faults", 3, SPEC3, faults=at(ALL, 0, 2), left=(2, 0, 0), eager=True),
    Scenario("3, two faults, any speed", 3, SPEC3, REST, at(ALL, 0, 1, 2), left=(2, 0, 0)),
    Scenario("5, two faults", 5, {"size": 5}, REST, at(ALL, 0, 1, 4), left=(2, 0, 0), eager=True),
    Scenario(
        "two losses, two edits", 5, SPEC3, REST, at(WORST, 0, 3), SIZES, left=(2, 2, 0), eager=True
    ),
    Scenario(
        "1, two losses, two edits",
        3,
        {"size": 1},
        REST,
        at(LOSSES, 0, 1),
        SIZES[:2],
        left=(2, 2, 0),
        eager=True,
    ),
    Scenario(
        "5, two losses, two edits",
        5,
        {"size": 5},
        REST,
        at(WORST, 0, 4),
        SIZES,
        left=(2, 2, 0),
        eager=True,
    ),
    Scenario(
        "sizes, passing", 5, SPEC3, REST, at(PASSING, 0, 4), SIZES, left=(1, 2, 0), eager=True
    ),
    Scenario(
        "sizes, damages", 5, SPEC3, REST, at(DAMAGES, 0, 4), SIZES, left=(1, 2, 0), eager=True
    ),
    Scenario(
        "sizes, one fault, a late step",
        5,
        SPEC3,
        REST,
        at(LOSSES, 0, 4),
        SIZES,
        left=(1, 1, 1),
        eager=True,
    ),
    Scenario(
        "templates, one fault", 3, SPEC3, REST, at(ALL, 0, 2), TEMPLATES, left=(1, 2, 0), eager=True
    ),
    Scenario(
        "versions, one fault", 3, OLD, REST, at(ALL, 0, 2), VERSIONS, left=(1, 2, 0), eager=True
    ),
    Scenario("templates of 1", 1, {"size": 1}, REST, at(ALL, 0), TEMPLATES, left=(2, 2, 1)),
    Scenario("emptyDir, two faults", 3, SPEC3 | EMPTY_DIR, REST, at(ALL, 0, 1, 2), left=(2, 0, 0)),
    Scenario(
        "emptyDir of 5",
        5,
        SPEC3 | EMPTY_DIR,
        REST,
        at(PASSING, 0, 4),
        SIZES,
        left=(1, 2, 0),
        eager=True,
    ),
    Scenario(
        "recovery at any speed",
        3,
        SPEC3,
        LOST,
        at((*ALL, *RECOVERING), 0, 1),
        RECOVER,
        left=(1, 1, 0),
    ),
    Scenario(
        "recovery, a late step",
        3,
        SPEC3,
        LOST,
        at((*WORST, *RECOVERING, "secret_lost"), 0, 1),
        RECOVER,
        left=(1, 1, 1),
    ),
    Scenario(
        "recovery, members that come back",
        3,
        SPEC3,
        AWAY,
        at(("secret_lost",), 0),
        ("recover 1", '{"recovery": null}'),
        left=(1, 2, 1),
        eager=True,
    ),
    Scenario(
        "recovery, two faults",
        3,
        SPEC3,
        LOST,
        at((*ALL, *RECOVERING), 0, 1),
        RECOVER,
        left=(2, 1, 0),
        eager=True,
    ),
    Scenario(
        "recovery, a silent node, two faults",
        3,
        SPEC3,
        SILENT,
        at((*LOSSES, *RECOVERING, "status_lost", "operator_cut_off"), 1, 2),
        left=(2, 0, 0),
        eager=True,
    ),
    Scenario(
        "recovery, sizes",
        5,
        SPEC3,
        LOST,
        at((*LOSSES, *RECOVERING), 1),
        (*RECOVER, *SIZES),
        left=(1, 2, 0),
        eager=True,
    ),
    Scenario("recovery, versions", 3, OLD, LOST, edits=(*RECOVER, *VERSIONS), left=(0, 3, 0)),
    Scenario(
        "recovery half-way to a version that cannot be had",
        3,
        OLD,
        HALF_WAY,
        edits=(*RECOVER, "recover 2", *VERSIONS),
        left=(0, 3, 1),
        eager=True,
    ),
)
