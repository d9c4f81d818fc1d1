"""Makes the planner fast enough for millions of decisions: it caches the comparison of children.

`_children` renders four objects and compares each with its live one. That takes most of the time of
`decide`, and its answer depends on a few inputs only. Every thousandth answer is verified.
"""

from __future__ import annotations

import functools
from dataclasses import fields
from typing import Any, Final

from etcd_stateful import naming
from etcd_stateful.manifests.statefulset import version_of
from etcd_stateful.membership import planner
from etcd_stateful.membership.beginning import bootstrap
from etcd_stateful.membership.members import replicas
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.rolling import rollback, upgrade, version_first
from etcd_stateful.membership.steps import Step
from etcd_stateful.records.bootstrap import Bootstrap

CHECKED: Final = 1000

_RECORDED: Final = tuple(one.name for one in fields(Bootstrap) if one.name != "issued")

_children: Final = planner._children
_known: dict[tuple[Any, ...], tuple[Step | None, tuple[Any, ...]]] = {}
_count = 0
watched = False
"""While answers are traced, the cache is not used."""


def children(seen: Observation) -> Step | None:
    global _count  # noqa: PLW0603 - a counter of this process
    if watched:
        return _children(seen)
    lives = (
        seen.cluster,
        seen.stateful_set,
        seen.headless_service,
        seen.client_service,
        seen.disruption_budget,
    )
    record = seen.bootstrap
    key = (
        *(id(one) for one in lives),
        replicas.wanted(seen),
        bootstrap.running_version(seen),
        seen.etcd and (seen.etcd.cluster_id, len(seen.etcd.members)),
        record and tuple(getattr(record, name) for name in _RECORDED),
        seen.foreign,
        seen.operator_image,
        *_of_an_edit(seen),
    )
    found = _known.get(key)
    _count += 1
    if found is None:
        # The objects are kept alive, so that no other object can get their identity.
        found = _known[key] = (_children(seen), lives)
    elif _count % CHECKED == 0:
        again = _children(seen)
        assert again == found[0], "rendering depends on more than is looked at here"
    return found[0]


def _of_an_edit(seen: Observation) -> tuple[bool, ...]:
    """What else the StatefulSet goes by while another version is due."""
    live = seen.stateful_set
    if live is None or not (seen.bootstrap and seen.bootstrap.latched):
        return ()
    blindly = rollback.is_unsafe_downgrade(seen, version_of(live))
    if upgrade.target(seen) == bootstrap.running_version(seen):
        return (blindly,)
    first = planner._of_version(seen) is not None
    return blindly, version_first.keeps_template(seen), first


def install() -> None:
    naming.ordinal_of = functools.cache(naming.ordinal_of)
    questions = [children if one is _children else one for one in planner._QUESTIONS]
    assert children in questions
    planner._QUESTIONS = tuple(questions)  # type: ignore[misc]
