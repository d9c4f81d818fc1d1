"""Observations changed in one place, for cases that are tedious to reach step by step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from etcd_stateful.membership import roster
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.roster import Seat
from etcd_stateful.observed.members import Member


def with_pod(seen: Observation, ordinal: int, **changes: Any) -> Observation:
    pods = [replace(one, **changes) if one.ordinal == ordinal else one for one in seen.pods]
    return replace(seen, pods=tuple(pods))


def newest(seen: Observation) -> str:
    """The revision of the StatefulSet that pods are created from now."""
    assert seen.stateful_set is not None
    return str(seen.stateful_set["status"]["updateRevision"])


FAILING = {"ready": False, "trouble": "container etcd keeps failing"}
DOWN = {**FAILING, "crashing": True}
"""A pod whose etcd failed, while it waits to be started again."""

TRIED_AGAIN = {**FAILING, "tried_again": True}
"""The same pod in the moment in which it is started again."""


def with_claim(seen: Observation, ordinal: int, **changes: Any) -> Observation:
    claims = [replace(one, **changes) if one.ordinal == ordinal else one for one in seen.claims]
    return replace(seen, claims=tuple(claims))


def with_status(seen: Observation, ordinal: int, **changes: Any) -> Observation:
    changed = replace(seen.statuses[ordinal], **changes)
    return replace(seen, statuses={**seen.statuses, ordinal: changed})


def without_status(seen: Observation, *ordinals: int) -> Observation:
    left = {one: said for one, said in seen.statuses.items() if one not in ordinals}
    return replace(seen, statuses=left)


def with_members(seen: Observation, *members: Member) -> Observation:
    assert seen.etcd is not None
    return replace(seen, etcd=replace(seen.etcd, members=members))


def seat(seen: Observation, ordinal: int) -> Seat:
    return next(one for one in roster.seats(seen) if one.ordinal == ordinal)
