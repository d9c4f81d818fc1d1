"""Pods of a cluster's StatefulSet, and what `start` answers in those that are still in it."""

from __future__ import annotations

from dataclasses import dataclass

from etcd_stateful import versions
from etcd_stateful.api.tls import AS_MADE, Levels, Trust
from etcd_stateful.records.member import MemberRecord
from etcd_stateful.start.ticket import Finding


@dataclass(frozen=True, slots=True)
class StartAnswer:
    """What `start` in a pod answered, authenticated, for a pod that is still in `start`."""

    challenge: str
    finding: Finding


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that the cluster's StatefulSet made."""

    ordinal: int
    name: str
    uid: str
    resource_version: str
    address: str
    deleting: bool
    ready: bool
    in_start: bool
    """The init container `start` runs right now: the volume waits for a ticket."""
    etcd_started: bool
    trouble: str = ""
    """What it waits for or fails at, in words; empty while all is as expected."""
    answer: StartAnswer | None = None
    record: MemberRecord | None = None
    """With an emptyDir the pod's own annotations play the claim's part."""
    revision: str = ""
    """Of the StatefulSet's template that it was made from."""
    age: float = 0.0
    """Seconds since the API server made it, at the time of this observation."""
    spec_hash: str = ""
    """`EtcdCluster.template_hash` of the spec that its template was rendered from."""
    image: str = ""
    """Of its etcd container."""
    image_missing: bool = False
    """That one cannot be had, from anywhere."""
    start_missing: bool = False
    """The operator's image, which `start` is run of, cannot be had from anywhere."""
    crashing: bool = False
    """Its etcd container keeps failing, and does not run now."""
    tried_again: bool = False
    """etcd kept failing in it, and runs once more: it may come up this time, or fail as before.
    `trouble` and `damage` still say what they said, for people; nothing is decided by them."""
    damage: str = ""
    """etcd's own last words when it refuses to start on damaged data, again and again."""
    node_gone: bool = False
    """No node there is may use the claim's volume: the node that it lies on was removed."""
    ran_as: int = 0
    """The member whose data `start` let run in this pod, by its own word; 0 where it said none."""
    has_data: bool = False
    """By the word of its `start` there was data on the volume before etcd ran in this pod."""
    overdue: bool = False
    """It was deleted, and nobody confirms that it has stopped."""
    trust: Trust = AS_MADE
    """The authorities that its etcd was started to trust, by what the pod mounts."""
    noted_trust: Trust = AS_MADE
    """The same by the operator's own note on the pod, for links where the mounts do not say."""
    labelled: str = ""
    """The member's ID on its label."""
    epoch: int | None = None
    """That its `start` looks for; None where it does not say."""
    levels: Levels | None = None
    """How it was started to talk to members and clients; None where it is as the record says."""
    quota: int = 0  # in bytes, that its etcd was started with; 0 where it does not say

    @property
    def finding(self) -> Finding | None:
        """What `start` found on the volume, while it waits in this pod; None at any other time."""
        if self.deleting or not self.in_start or self.answer is None:
            return None
        return self.answer.finding

    @property
    def waits_empty(self) -> bool:
        """`start` says, authenticated, that there is no data on the volume."""
        return self.finding is not None and self.finding.found == "no-data"

    @property
    def runs_etcd(self) -> bool:
        """Its etcd container has started, and `start` does not wait in it again."""
        return self.etcd_started and not self.in_start

    @property
    def takes_traffic(self) -> bool:
        """Ready, and not being deleted: the client Service leads to it."""
        return self.ready and not self.deleting

    @property
    def is_stuck(self) -> bool:
        """Whether it is in trouble now, and not only until a moment ago."""
        return bool(self.trouble) and not self.tried_again

    @property
    def made_for(self) -> versions.Version | None:
        """The version that it was made to run, whatever admission made of its image."""
        return versions.made_for(self.spec_hash, self.image)
