"""The other objects of a cluster: its Secret, claims and Jobs, and those of other owners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from etcd_stateful.records.bootstrap import Bootstrap
from etcd_stateful.records.member import MemberRecord

Live = Mapping[str, Any]
"""An object as the API server stores it."""


@dataclass(frozen=True, slots=True)
class Secret:
    """The Secret with the tickets' key; without the key, which only the shell holds."""

    resource_version: str
    bootstrap: Bootstrap | None
    damage: str = ""
    """Why it cannot be used, in words; empty for a sound one."""
    newer: bool = False
    """It is damaged for this operator alone: a newer one wrote it."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim that carries the name of one of the cluster's ordinals."""

    ordinal: int
    name: str
    uid: str
    resource_version: str
    cluster_uid: str
    """UID of the EtcdCluster it was made for or recorded by; empty where nothing says so."""
    record: MemberRecord | None
    damage: str = ""
    """Why its record cannot be read, in words."""
    deleting: bool = False
    phase: str = "Bound"
    labelled: bool = True
    requested: str = ""
    """The size that it asks for: a quantity such as `8Gi`, as the two below."""
    capacity: str = ""
    """The size that its volume has."""
    raised: str = ""
    """The size that the operator had it ask for last; empty where it never did."""
    fixed: str = ""
    """Why it cannot ask for another, in the API server's words. Looked for only where it should."""

    @property
    def own_record(self) -> MemberRecord | None:
        """Its record, where it was written for this very claim: not restored, cloned or damaged."""
        own = self.record and not self.damage and self.record.claim_uid == self.uid
        return self.record if own else None


@dataclass(frozen=True, slots=True)
class Foreign:
    """An object that has a name we need and another owner."""

    kind: str
    name: str
    owner: str
    """Who owns it, in words."""
    passing: bool = False
    """It is being deleted, or its owner was a cluster of this name that is gone."""


@dataclass(frozen=True, slots=True)
class Job:
    """The Job of a recovery or a restore; else asked for only if there is a pod of one."""

    name: str
    uid: str
    resource_version: str
    survivor: str
    epoch: int
    spec_hash: str
    """As of the pods: another one means that the spec was edited since."""
    state: Literal["running", "complete", "failed"]
    deleting: bool = False
    stranger: str = ""
    """Who owns it, in words, where it is not this cluster's."""
    trouble: str = ""
    """What its pod waits for or failed at, in words."""
    unpullable: bool = False
    """The operator's image that it was made with cannot be had, and the operator has another."""
    claim_uid: str = ""
    """Of the claim that a restore's Job was made to fill."""
    etcd_started: bool = False
    """In one of its pods, or nobody can tell any more that it has not."""
