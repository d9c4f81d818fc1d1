"""Looks up the backup that an EtcdBackup has stored last.

Its spec names the store and the credentials. Its status has the location, which is a new one each
time if backups are made at an interval. A location outside of the store in the spec is not used:
somebody who may only write the status must not choose where credentials are sent.
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
class NotRestorable:
    """The EtcdBackup has no backup that could be restored now."""

    why: str
    """Begins with the name of the EtcdBackup. If it is not stuck, it continues `waiting for`."""
    stuck: bool = True
    """Whether somebody has to act. If not, the backup is being made."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What an EtcdBackup had stored when it was looked up. It may change or be deleted later."""

    backup: str
    """Name of the EtcdBackup."""
    store: Store


def chosen_as_json(chosen: Chosen) -> dict[str, object]:
    return {"backup": chosen.backup, "store": stores.to_json(chosen.store)}


def load_chosen(raw: Mapping[str, Any]) -> Chosen:
    """What `chosen_as_json` wrote. Raises ValueError, KeyError and TypeError."""
    return Chosen(str(raw["backup"]), stores.from_json(raw["store"]))


def resolved(source: Source, found: Store | NotRestorable | None) -> Store | NotRestorable:
    """The store and key of a source.

    Args:
        found: what `last_stored` found for the EtcdBackup in the source; None if it was not asked.
    """
    if isinstance(source, Store):
        return source
    return found or NotRestorable(f"EtcdBackup {source.name} to be looked up", stuck=False)


def last_stored(name: str, body: Mapping[str, Any] | None) -> Store | NotRestorable:
    """Where the EtcdBackup has stored last, or why that cannot be restored now.

    Args:
        body: the EtcdBackup; None if it does not exist.
    """
    if body is None:
        return NotRestorable(f"EtcdBackup {name} does not exist; create it, or name another")
    if "deletionTimestamp" in body["metadata"]:
        return NotRestorable(f"EtcdBackup {name} is being deleted; name another")
    try:
        backup = parse_backup(body)
    except RefusedBackup as refused:
        return NotRestorable(f"EtcdBackup {name} is not accepted: {str(refused)[:400]}")
    status: Mapping[str, Any] = body.get("status") or {}
    found = _unfinished(backup, status) or _place(backup, str(status.get("location") or ""))
    if isinstance(found, NotRestorable):
        return found
    sha256, said = str(status.get("sha256") or ""), status.get("etcdRevision")
    revision = said if sha256 and type(said) is int else 0  # `type`, because a bool is an int too.
    return replace(found, sha256=sha256, revision=revision)


def pod_of(body: Mapping[str, Any] | None) -> JobPod:
    """The settings of its own pods, which also apply to pods that read what it has stored."""
    try:
        return parse_backup(body).pod if body is not None else JobPod()
    except RefusedBackup:
        return JobPod()


def _unfinished(backup: EtcdBackup, status: Mapping[str, Any]) -> NotRestorable | None:
    """Why the last run cannot be restored; None if it can. An EtcdBackup with an interval can be
    restored from its first success on: each of its backups has its own key, so later failures
    change nothing in it."""
    if status.get("succeeded") is True:
        return None
    if backup.periodic and status.get("lastSuccessDate") and status.get("location"):
        return None
    name = backup.name
    if status.get("succeeded") is False:
        why = str(status.get("reason") or "for an unknown reason")[:400]
        return NotRestorable(f"EtcdBackup {name} has failed ({why}); it has to succeed first")
    return NotRestorable(f"EtcdBackup {name} to succeed, which it has not yet", stuck=False)


def _place(backup: EtcdBackup, location: str) -> Store | NotRestorable:
    name, store, root = backup.name, backup.store, backup.store.location("")
    if not location:
        why = "has succeeded, but its status.location is empty"
        return NotRestorable(f"EtcdBackup {name} {why}; {_OTHERWISE}")
    key = store.key_at(location)
    if not key:
        return NotRestorable(
            f"EtcdBackup {name} has stored {location[:200]!r}, which is not in the store "
            f"that its spec names now, {root}; {_OTHERWISE}"
        )
    return replace(store, key=key)
