"""The member record: annotations on a claim, or on the pod if the data is in an emptyDir."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from etcd_stateful import identity, naming
from etcd_stateful.records.bootstrap import FIRST_EPOCH, Bootstrap
from etcd_stateful.records.errors import BadRecord


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """Which member a claim's volume belongs to; written before the member gets its ticket.

    `claim_uid` is the claim's own UID at that time. If the claim has another UID later, it was
    restored or cloned together with its annotations.
    """

    cluster_uid: str
    claim_uid: str
    member_id: int
    cluster_id: int
    epoch: int = FIRST_EPOCH
    """The epoch in the marker on the volume. It is kept here too, because the bootstrap record is
    deleted with its cluster, and claims are not."""

    peer_scheme: str = "http"
    """The scheme of the member's peer URL in etcd's data."""


def member_record(record: Bootstrap, member_id: int, claim_uid: str) -> MemberRecord:
    """The record of a member of the cluster that the bootstrap record describes."""
    return MemberRecord(
        cluster_uid=record.cluster_uid,
        claim_uid=claim_uid,
        member_id=member_id,
        cluster_id=record.cluster_id,
        epoch=record.epoch,
        peer_scheme=record.links.levels.peer_scheme,
    )


def member_annotations(record: MemberRecord) -> dict[str, str]:
    """The record as annotations; `load_member` reads them."""
    scheme = {naming.PEER_SCHEME: "https"} if record.peer_scheme == "https" else {}
    return {
        **scheme,
        naming.CLUSTER_UID: record.cluster_uid,
        naming.CLAIM_UID: record.claim_uid,
        naming.MEMBER_ID: identity.to_hex(record.member_id),
        naming.CLUSTER_ID: identity.to_hex(record.cluster_id),
        naming.EPOCH: str(record.epoch),
    }


def load_member(annotations: Mapping[str, str]) -> MemberRecord | None:
    """The record in annotations; None if there is none.

    Raises BadRecord for an incomplete record: somebody has edited it.
    """
    if not {naming.CLAIM_UID, naming.MEMBER_ID, naming.CLUSTER_ID} & annotations.keys():
        return None
    try:
        return MemberRecord(
            cluster_uid=_said(annotations, naming.CLUSTER_UID),
            claim_uid=_said(annotations, naming.CLAIM_UID),
            member_id=identity.from_hex(annotations[naming.MEMBER_ID]),
            cluster_id=identity.from_hex(annotations[naming.CLUSTER_ID]),
            epoch=_epoch_in(annotations.get(naming.EPOCH, str(FIRST_EPOCH))),
            peer_scheme=_scheme_in(annotations.get(naming.PEER_SCHEME, "http")),
        )
    except (KeyError, ValueError) as error:
        raise BadRecord(f"the member record on the claim cannot be read: {error}") from error


def _epoch_in(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9 or not int(text):
        raise ValueError(f"not an epoch: {text[:32]!r}")
    return int(text)


def _scheme_in(text: str) -> str:
    if text not in ("http", "https"):
        raise ValueError(f"not a scheme: {text[:32]!r}")
    return text


def _said(annotations: Mapping[str, str], key: str) -> str:
    """The annotation's value. An empty UID is refused: it would equal a UID that is not set."""
    if not annotations[key]:
        raise ValueError(f"{key} is empty")
    return annotations[key]
