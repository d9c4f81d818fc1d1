"""Where the backup lies that an EtcdBackup has stored last, and which one it is.

Its spec says which store, with which credentials. Its status says under which name, which is
another each time where backups are made at an interval. A status that leads out of the store is not
followed: whoever may write the status alone must not choose where credentials are used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from etcd_stateful.api import stores
from etcd_stateful.api.backup import EtcdBackup, JobPod, RefusedBackup, parse_backup
from etcd_stateful.api.source import Source
from etcd_stateful.api.stores import Store

_OTHERWISE = "name its store and path instead, or another EtcdBackup"


@dataclass(frozen=True, slots=True)
class Awaited:
    """There is nothing to be restored from it, for now."""

    why: str
    """Begins with the EtcdBackup."""
    stuck: bool = True
    """Whether somebody has to act; else it is being made."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What an EtcdBackup had stored when it was looked up. Later it may change, or go."""

    backup: str
    """Its name."""
    store: Store


def chosen_as_json(chosen: Chosen) -> dict[str, object]:
    return {"backup": chosen.backup, "store": stores.to_json(chosen.store)}


def load_chosen(raw: Mapping[str, Any]) -> Chosen:
    """Raises ValueError, KeyError and TypeError."""
    return Chosen(str(raw["backup"]), stores.from_json(raw["store"]))


def resolved(source: Source, found: Store | Awaited | None) -> Store | Awaited:
    """The place that a source means.

    Args:
        found: where the EtcdBackup has stored that it names; None where that was not looked up.
    """
    if isinstance(source, Store):
        return source
    return found or Awaited(f"EtcdBackup {source.name} to be looked up", stuck=False)


def stored_last(name: str, body: Mapping[str, Any] | None) -> Store | Awaited:
    """Where the EtcdBackup of that name has stored last; or why that cannot be restored now.

    Args:
        body: the EtcdBackup, None where there is none.
    """
    if body is None:
        return Awaited(f"EtcdBackup {name} is not there; make it, or name another")
    if "deletionTimestamp" in body["metadata"]:
        return Awaited(f"EtcdBackup {name} is being deleted; name another")
    try:
        backup = parse_backup(body)
    except RefusedBackup as refused:
        return Awaited(f"EtcdBackup {name} is not accepted: {str(refused)[:400]}")
    status: Mapping[str, Any] = body.get("status") or {}
    found = _unfinished(backup, status) or _place(backup, str(status.get("location") or ""))
    if isinstance(found, Awaited):
        return found
    sha256, said = str(status.get("sha256") or ""), status.get("etcdRevision")
    revision = said if sha256 and type(said) is int else 0  # `type`, because a bool is an int too.
    return replace(found, sha256=sha256, revision=revision)


def pod_of(body: Mapping[str, Any] | None) -> JobPod:
    """What its own pods are given, which is also what is given to who reads what it has stored."""
    try:
        return parse_backup(body).pod if body is not None else JobPod()
    except RefusedBackup:
        return JobPod()


def _unfinished(backup: EtcdBackup, status: Mapping[str, Any]) -> Awaited | None:
    """One of an interval counts from its first success: each has a name of its own, which what
    fails later leaves alone."""
    if status.get("succeeded") is True:
        return None
    if backup.periodic and status.get("lastSuccessDate") and status.get("location"):
        return None
    name = backup.name
    if status.get("succeeded") is False:
        why = str(status.get("reason") or "nobody knows why")[:400]
        return Awaited(f"EtcdBackup {name} has failed ({why}); that it succeeds is awaited")
    return Awaited(f"EtcdBackup {name} to succeed, which it has not yet", stuck=False)


def _place(backup: EtcdBackup, location: str) -> Store | Awaited:
    name, store, root = backup.name, backup.store, backup.store.location("")
    if not location:
        why = "has succeeded, but its status.location is empty"
        return Awaited(f"EtcdBackup {name} {why}; {_OTHERWISE}")
    key = store.key_at(location)
    if not key:
        return Awaited(
            f"EtcdBackup {name} has stored {location[:200]!r}, which is not in the store "
            f"that its spec names by now, {root}; {_OTHERWISE}"
        )
    return replace(store, key=key)
