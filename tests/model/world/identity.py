"""A number for each state that is the same in every search and every process.

A state refers to tables by numbers, which depend on what a process has met first. Here what they
refer to counts. So does what is there, and not how many ordinals a search leaves room for.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable
from hashlib import blake2b
from typing import Any, Final

from model.world import steps_held, tables
from model.world.state import MAX, NONE, Pod, State

NOTHING: Final = 0


def identity(state: State) -> int:
    """64 bits. Only integers are hashed, whose hashes are the same in all processes."""
    room = (NOTHING,) * (MAX - len(state.pods))
    return hash(
        state._replace(
            spec=_spec(state.spec),
            secret=_record(state.secret),
            sts=_object(state.sts),
            headless=_object(state.headless),
            client=_object(state.client),
            budget=_object(state.budget),
            claims=(*map(_part, state.claims), *room),  # type: ignore[arg-type]
            pods=(*map(_pod, state.pods), *room),  # type: ignore[arg-type]
            etcd=_part(state.etcd),  # type: ignore[arg-type]
            given=_part(state.given),  # type: ignore[arg-type]
            pending=_step(state.pending),
            job=_part(state.job),  # type: ignore[arg-type]
        )
    )


@functools.cache
def _spec(number: int) -> int:
    return _of_text(tables.specs[number].text)


@functools.cache
def _record(number: int) -> int:
    return NOTHING if number == NONE else _of_text(repr(tables.bootstraps[number]))


@functools.cache
def _object(number: int) -> int:
    return NOTHING if number == NONE else _of_text(tables.objects[number].text)


@functools.cache
def _step(number: int) -> int:
    return NOTHING if number == NONE else _of_text(repr(steps_held.step(number)))


@functools.cache
def _pod(pod: Pod | None) -> int:
    return _part(pod and pod._replace(template=_of_text(tables.templates[pod.template].text)))


@functools.cache
def _part(value: Hashable) -> int:
    return NOTHING if value is None else hash(_plain(value))


def _plain(value: Any) -> Any:
    """The value without text and None, whose hashes differ between processes."""
    if value is None:
        return NOTHING
    if isinstance(value, str):
        return _of_text(value)
    return tuple(map(_plain, value)) if isinstance(value, tuple) else int(value)


def _of_text(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=7).digest(), "big")
