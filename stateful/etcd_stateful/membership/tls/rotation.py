"""Rotates the certificate authority of a link, while members and clients keep working.

    begin       a successor is added to the authority's Secret; it signs nothing yet
                -> every certificate's Secret contains both -> the members restart, because etcd
                   reads its trusted CAs only at start; applications reload theirs
    take over   the successor signs -> every certificate is reissued; etcd reloads those by itself
    end         the old authority is removed, also from every Secret -> the members restart

The authority's Secret says how far the rotation is. The next step is made when all Secrets and pods
have followed, clients have had their time, and nothing else goes on. At each moment everybody
trusts every authority whose certificates may still be in use.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from etcd_stateful import naming
from etcd_stateful.api.tls import LinkName, Trust
from etcd_stateful.certificates import (
    DAY,
    CertificateSpec,
    Role,
    issued_at,
    managed,
    renewed_at,
    trust_of,
)
from etcd_stateful.manifests.statefulset import version_of
from etcd_stateful.manifests.tls import trust_in
from etcd_stateful.membership import roster
from etcd_stateful.membership.beginning import bootstrap
from etcd_stateful.membership.observation import Observation, is_latched, recorded
from etcd_stateful.membership.rolling import roll, upgrade, version_first
from etcd_stateful.membership.roster import Seat
from etcd_stateful.membership.steps import RotateAuthority, RotationStep, Step
from etcd_stateful.membership.tls.links import rendered as rendered_links
from etcd_stateful.observed.certificates import Certificate, Stage, usable
from etcd_stateful.observed.put_off import CERTIFICATE

KUBELET_SECONDS: Final = 180.0
"""After this time every kubelet has updated a changed Secret in its pods; it takes about 100."""

TOGETHER_SECONDS: Final = 30 * DAY
"""An authority that is due within this time is rotated along with the other: one restart for
both."""


@dataclass(frozen=True, slots=True)
class _Link:
    """An authority, and what it has signed, but for a name that another owner's Secret has."""

    need: CertificateSpec
    authority: Certificate
    leaves: tuple[Certificate | None, ...]

    @property
    def name(self) -> LinkName:
        return self.need.link


def with_trust(seen: Observation) -> Observation:
    """The observation with the trust bundle that pods are to be started with.

    It follows from the Secret that they mount. While that is unusable, the bundle stays the same.
    """
    kept = _kept(seen)
    trust = Trust(
        _mounted(seen, "peer", naming.peer_certificate(seen.cluster.name)) or kept.peer,
        _mounted(seen, "server", naming.server_certificate(seen.cluster.name)) or kept.client,
    )
    return replace(seen, cluster=replace(seen.cluster, trust=trust))


def _kept(seen: Observation) -> Trust:
    """The bundle as the StatefulSet has it; but none for a link whose kind of certificates was
    edited before the cluster formed."""
    live, now = rendered(seen), seen.cluster.links
    before = rendered_links(seen)
    if before is None:
        return live
    return Trust(
        live.peer if before.peer.mode == now.peer.mode else "",
        live.client if before.client.mode == now.client.mode else "",
    )


def rendered(seen: Observation) -> Trust:
    """The trust bundle in the StatefulSet's present template."""
    if seen.stateful_set is None:
        return Trust()
    return trust_in(seen.stateful_set["spec"]["template"]["spec"])


def _mounted(seen: Observation, role: Role, secret: str) -> str:
    found = usable(seen.certificate(secret, role))
    return found.pinned if found else ""


def advance(seen: Observation) -> Step | None:
    """The next step of a rotation. Both links are rotated together if possible: a step for one is
    made before the restart that the other's step needs."""
    step = _due(seen, list(_links(seen)))
    if step and (CERTIFICATE, step.need.secret) in seen.put_off:
        return None
    return step if step and is_at_rest(seen) else None


def _due(seen: Observation, links: list[_Link]) -> RotateAuthority | None:
    for stage in ("swapped", "overlap"):
        same = [link for link in links if link.authority.stage == stage]
        if same and all(_has_followed(seen, link) for link in same):
            return _go_on(seen, same[0])
    for link in links:
        if why := _why_due(seen, link, links):
            words = f"the authority in Secret {link.need.secret} gets a successor: {why}"
            return _rotate(link, "begin", _following(seen, link), words)
    return None


def under_way(seen: Observation) -> dict[LinkName, str]:
    """How far each rotation is, for a message."""
    return {link.name: words for link in _links(seen) if (words := _in_words(seen, link))}


def is_pinned(authority: Certificate) -> bool:
    """Whether pods mount a bundle with a digest in its file name, as they do once an authority was
    rotated."""
    return authority.generation > 1 or bool(authority.stage)


def _links(seen: Observation) -> Iterator[_Link]:
    if seen.certificates is None:
        return
    needs = [one for one in managed(seen.cluster) if not seen.is_taken("Secret", one.secret)]
    for need in needs:
        found = usable(seen.certificate_for(need))
        if need.role != "authority" or found is None:
            continue
        signed = [one for one in needs if one.signed_by == need.secret]
        leaves = tuple(map(seen.certificate_for, signed))
        yield _Link(need, found, leaves)


def is_at_rest(seen: Observation) -> bool:
    """Whether every member serves and nothing else is to be done, because everything else comes
    first."""
    if not is_latched(seen) or seen.etcd is None or seen.stateful_set is None or seen.alarms:
        return False
    if version_first.is_held_up(seen):
        return False  # no pod would be created from the next template
    if version_of(seen.stateful_set) != bootstrap.running_version(seen) or recorded(seen).before:
        return False
    as_declared = all(_is_as_declared(seen, seat) for seat in roster.seats(seen))
    return as_declared and roll.is_complete(seen) and upgrade.advance(seen) is None


def _is_as_declared(seen: Observation, seat: Seat) -> bool:
    if seat.ordinal >= seen.cluster.size:
        return seat.member is None and seat.pod is None
    return bool(seat.serves and seat.pod and seat.pod.ready and not seat.pod.deleting)


def _has_followed(seen: Observation, link: _Link) -> bool:
    """Whether every Secret and every pod has followed the authority's Secret, for long enough."""
    return (
        all(_is_as_said(one, link.authority) for one in link.leaves)
        and all(pod.trust.of(link.name) == trust_of(link.authority.trusts) for pod in seen.pods)
        and _waited(seen, link)
    )


def _is_as_said(leaf: Certificate | None, authority: Certificate) -> bool:
    found = usable(leaf)
    if found is None or found.authority != authority.authority:
        return False
    return set(found.trusts) == set(authority.trusts)


def _waited(seen: Observation, link: _Link) -> bool:
    """Whether enough time has passed since the last certificate was written. Until then, members
    may still use older ones."""
    made = max((issued_at(one.begins) for one in link.leaves if one), default=0.0)
    shown = KUBELET_SECONDS if link.authority.stage == "swapped" else 0.0
    return seen.read_at >= made + max(seen.cluster.rotation.overlap, shown)


def _go_on(seen: Observation, link: _Link) -> RotateAuthority:
    secret, now = link.need.secret, link.authority.generation
    if link.authority.stage == "swapped":
        words = "is no longer trusted: its successor has signed all certificates"
        return _rotate(link, "end", now, f"the previous authority of Secret {secret} {words}")
    if why := link.authority.successors_problem:  # it was made while a clock was wrong
        words = f"the authority in Secret {secret} gets another successor: {why}"
        return _rotate(link, "begin", _following(seen, link), words)
    words = f"the successor in Secret {secret} signs from now on: every member trusts it"
    return _rotate(link, "take over", _following(seen, link), words)


def _following(seen: Observation, link: _Link) -> int:
    return max(link.authority.generation + 1, seen.cluster.rotation.of(link.name))


def _rotate(link: _Link, kind: RotationStep, generation: int, reason: str) -> RotateAuthority:
    return RotateAuthority(link.need, link.authority.resource_version, kind, generation, reason)


def _why_due(seen: Observation, link: _Link, links: list[_Link]) -> str:
    """Why the link's authority has to be rotated; empty if it need not be, or already is."""
    if link.authority.stage or not _signs(link):
        return ""
    asked = seen.cluster.rotation.of(link.name)
    if asked > link.authority.generation:
        return f"spec.TLS.rotation.{link.name} asks for generation {asked}"
    if _is_old(seen, link.authority):
        return "two thirds of its lifetime are over"
    others = [one.authority for one in links if one.name != link.name]
    goes = any(one.stage == "overlap" or _is_old(seen, one) for one in others)
    if goes and _is_old(seen, link.authority, ahead=TOGETHER_SECONDS):
        return "it is nearly as old as the other link's, and is rotated with it"
    return ""


def _signs(link: _Link) -> bool:
    """Whether the authority has signed all certificates in use. It has not if somebody replaced
    it."""
    made = filter(None, map(usable, link.leaves))
    return all(one.authority == link.authority.authority for one in made)


def _is_old(seen: Observation, authority: Certificate, ahead: float = 0.0) -> bool:
    return seen.read_at + ahead >= renewed_at(authority.begins, authority.ends)


_WORDS: Final[dict[Stage, str]] = {
    "overlap": "is being replaced: its successor is being distributed, and signs nothing until "
    "every member has restarted with both and spec.TLS.rotation.overlapSeconds have passed for "
    "clients",
    "swapped": "was replaced: its successor signs, and the old one is trusted until members and "
    "clients have new certificates, for spec.TLS.rotation.overlapSeconds",
    "": "was replaced: members are restarted without the old one",
}


def _in_words(seen: Observation, link: _Link) -> str:
    stage = link.authority.stage
    wanted = trust_of(link.authority.trusts)
    behind = link.authority.generation > 1 and any(
        pod.trust.of(link.name) != wanted for pod in seen.pods
    )
    return f"the authority in Secret {link.need.secret} {_WORDS[stage]}" if stage or behind else ""
