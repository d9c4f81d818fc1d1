"""Pods of a cluster's StatefulSet, and the answers of `start` in those where it still runs."""

from __future__ import annotations

from dataclasses import dataclass

from etcd_stateful import versions
from etcd_stateful.api.tls import AS_MADE, Levels, Trust
from etcd_stateful.records.member import MemberRecord
from etcd_stateful.start.ticket import Finding


@dataclass(frozen=True, slots=True)
class StartAnswer:
    """The authenticated answer of `start` in a pod where it still runs."""

    challenge: str
    finding: Finding


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that the cluster's StatefulSet created."""

    ordinal: int
    name: str
    uid: str
    resource_version: str
    address: str
    deleting: bool
    ready: bool
    in_start: bool
    """The init container `start` runs now, and waits for a ticket."""
    etcd_started: bool
    trouble: str = ""
    """What it waits for or why it fails; empty if nothing is wrong."""
    unready: str = ""
    """Why it is not Ready although its etcd container is; empty if that is not so."""
    answer: StartAnswer | None = None
    unanswered: str = ""
    """Why `start` did not answer; empty if it did, or was not asked."""
    no_handshake: str = ""
    """Why no TLS connection to its etcd came about; empty if one did, or it was not asked."""
    record: MemberRecord | None = None
    """The member record in the pod's annotations, used instead of the claim's with an emptyDir."""
    revision: str = ""
    """The StatefulSet revision (`controller-revision-hash`) that it was created from; empty if
    somebody has removed that label."""
    age: float = 0.0
    """Seconds since its creation, at the time of this observation."""
    spec_hash: str = ""
    """`EtcdCluster.template_hash` of the spec that its template was rendered from."""
    image: str = ""
    """The image of its etcd container."""
    image_missing: bool = False
    """The etcd image cannot be pulled, and the node does not have it."""
    start_missing: bool = False
    """The operator image, which `start` runs from, cannot be pulled, and the node does not have
    it."""
    crashing: bool = False
    """Its etcd container keeps failing, and does not run now."""
    tried_again: bool = False
    """etcd kept failing and was just restarted: it may come up this time, or fail as before.
    `trouble` and `damage` still describe the last failure, for messages; nothing is decided by
    them."""
    damage: str = ""
    """etcd's last log line, if it repeatedly refuses to start on damaged data."""
    node_gone: bool = False
    """No existing node can use the claim's volume: the volume's node was removed."""
    crowded_out: bool = False
    """The scheduler finds no node for it, because of what other pods take."""
    ran_as: int = 0
    """The member whose data `start` let etcd run on in this pod; 0 if `start` reported none."""
    has_data: bool = False
    """`start` reported data on the volume before etcd ran in this pod."""
    overdue: bool = False
    """It was deleted, but its node does not confirm that it has stopped."""
    kept_by: str = ""
    """The finalizers that keep it, although nobody waits for its containers any more."""
    idle: bool = False
    """It has had a node for a while, and nothing of it has begun, and its kubelet was not woken."""
    trust: Trust = AS_MADE
    """The authorities that its etcd trusts, by the bundle that the pod mounts."""
    noted_trust: Trust = AS_MADE
    """The same by the operator's note on the pod, for links whose mounted bundle has no name."""
    restarts: int = 0
    """How often its etcd container has restarted."""
    labelled: str = ""
    """The member ID in its label."""
    epoch: int | None = None
    """The epoch that its `start` expects; None if unknown."""
    levels: Levels | None = None
    """The levels of TLS that it was started with; None if unknown: then those on record count."""
    quota: int = 0
    """The quota in bytes that its etcd was started with; 0 if unknown."""

    @property
    def finding(self) -> Finding | None:
        """What `start` found on the volume; None if `start` is not waiting in this pod."""
        if self.deleting or not self.in_start or self.answer is None:
            return None
        return self.answer.finding

    @property
    def volume_is_empty(self) -> bool:
        """`start` waits in the pod and says, authenticated, that the volume has no data."""
        return self.finding is not None and self.finding.found == "no-data"

    @property
    def runs_etcd(self) -> bool:
        """Its etcd container has started, and `start` is not running again."""
        return self.etcd_started and not self.in_start

    @property
    def takes_traffic(self) -> bool:
        """Ready and not being deleted, so the client Service sends traffic to it."""
        return self.ready and not self.deleting

    @property
    def is_stuck(self) -> bool:
        """Whether it is in trouble, and etcd was neither just restarted nor is it ready: then only
        another container may be in trouble, which admission has added."""
        return bool(self.trouble) and not self.tried_again and not self.unready

    @property
    def runs_untroubled(self) -> bool:
        """Its etcd runs, and did not fail just before."""
        return self.runs_etcd and not self.trouble

    @property
    def runs_undisturbed(self) -> bool:
        """Its etcd runs, so far as Kubernetes tells; a missing answer may be a moment's."""
        return self.runs_etcd and not self.is_stuck

    @property
    def made_for(self) -> versions.Version | None:
        """The version that it was created for, even if an admission webhook has changed its
        image."""
        return versions.made_for(self.spec_hash, self.image)
