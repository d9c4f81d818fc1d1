"""Observed objects other than pods: the Secret, claims and Jobs, and objects of other owners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from etcd_stateful.records.bootstrap import Bootstrap
from etcd_stateful.records.member import MemberRecord

Live = Mapping[str, Any]
"""An object as the API server stores it."""

_OF_KUBERNETES: Final = frozenset({"foregroundDeletion", "orphan"})
"""Finalizers that the garbage collector removes by itself."""


def finalizers_of_others(metadata: Mapping[str, Any]) -> str:
    """The finalizers, by name, that do not go by themselves; empty if there are none."""
    return ", ".join(one for one in metadata.get("finalizers") or () if one not in _OF_KUBERNETES)


@dataclass(frozen=True, slots=True)
class Secret:
    """The Secret with the ticket key and the bootstrap record. Only the shell has the key
    itself."""

    resource_version: str
    bootstrap: Bootstrap | None
    damage: str = ""
    """Why the record cannot be used; empty if it can."""
    newer: bool = False
    """The record is unusable only because a newer operator wrote it."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim with the name of one of the cluster's ordinals."""

    ordinal: int
    name: str
    uid: str
    resource_version: str
    cluster_uid: str
    """UID of the EtcdCluster that it was created for or recorded by; empty if unknown."""
    record: MemberRecord | None
    damage: str = ""
    """Why its record cannot be read; empty if it can."""
    deleting: bool = False
    phase: str = "Bound"
    requested: str = ""
    """The requested size, a quantity such as `8Gi`."""
    capacity: str = ""
    """The size of its volume, a quantity."""
    raised: str = ""
    """The size that the operator last requested, a quantity; empty if it never did."""
    fixed: str = ""
    """Why the requested size cannot be changed, in the API server's words. Only tried when it has
    to be changed."""

    @property
    def own_record(self) -> MemberRecord | None:
        """Its record, if it was written for this very claim: not restored, cloned or damaged."""
        own = self.record and not self.damage and self.record.claim_uid == self.uid
        return self.record if own else None


@dataclass(frozen=True, slots=True)
class Foreign:
    """An object of another owner that has a name which the cluster needs."""

    kind: str
    name: str
    owner: str
    """Its owner, for messages."""
    passing: bool = False
    """It will go away: it is being deleted, or its owner was a deleted cluster of this name."""
    orphan: bool = False
    """It has no owner."""
    kept_by: str = ""
    """The finalizers that keep it, once nothing else does."""


@dataclass(frozen=True, slots=True)
class Job:
    """The Job of a recovery or a restore. Outside of those it is read only if it has a pod."""

    name: str
    uid: str
    resource_version: str
    survivor: str
    epoch: int
    spec_hash: str
    """As for pods: if it differs from the present hash, the spec was edited since."""
    state: Literal["running", "complete", "failed"]
    deleting: bool = False
    stranger: str = ""
    """Its owner, for messages, if that is not this cluster."""
    trouble: str = ""
    """What its pod waits for or why it failed; empty if nothing is wrong."""
    unpullable: bool = False
    """Its operator image cannot be pulled, and the operator now runs another one."""
    claim_uid: str = ""
    """UID of the claim that a restore Job was created to fill."""
    storage: str = ""
    """The size that this claim requested then, a quantity; empty if unknown."""
    etcd_started: bool = False
    """etcd has started in one of its pods, or this cannot be ruled out any more."""
    etcd_crashing: bool = False
    """etcd keeps failing in its pod, and does not run now."""
