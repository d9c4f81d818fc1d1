"""Another authority for a link, while members and clients go on.

    begin       a successor comes into the authority's Secret, and signs nothing yet
                -> every certificate's Secret names both -> the members restart, as etcd reads
                   what it trusts only when it starts; applications read theirs again
    take over   the successor signs -> every certificate is made anew by it; etcd takes that up
    end         the one of before goes -> out of every Secret -> the members restart without it

How far it is is in the authority's Secret; what has followed from that, in the others and in the
pods. The next turn comes when all has, clients have had their time, and nothing else goes on. At
each moment whoever may still show a certificate of one authority is trusted by all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from etcd_stateful import naming
from etcd_stateful.api.tls import LinkName, Trust
from etcd_stateful.certificates import DAY, Need, Role, issued_at, managed, renewed_at, trust_of
from etcd_stateful.manifests.put_off import CERTIFICATE
from etcd_stateful.manifests.statefulset import version_of
from etcd_stateful.manifests.tls import trust_in
from etcd_stateful.membership import bootstrap, roll, roster, upgrade
from etcd_stateful.membership.links import rendered as rendered_links
from etcd_stateful.membership.observation import Observation, is_latched, recorded
from etcd_stateful.membership.roster import Seat
from etcd_stateful.membership.steps import RotateAuthority, Step, Turn
from etcd_stateful.observed.certificates import Certificate, Stage
from etcd_stateful.observed.pods import Pod

KUBELET_SECONDS: Final = 180.0
"""In which every kubelet has brought an altered Secret into its pods; they take up to some 100."""

TOGETHER_SECONDS: Final = 30 * DAY
"""An authority that is due this soon goes along with the other: one restart for both."""


@dataclass(frozen=True, slots=True)
class _Link:
    """An authority, and what it has signed."""

    name: LinkName
    need: Need
    authority: Certificate
    leaves: tuple[Certificate | None, ...]


def settled(seen: Observation) -> Observation:
    """The observation, its cluster with what its pods are to be started to trust.

    That is what the Secret that they mount says. While it cannot be used, nothing changes.
    """
    kept = _kept(seen)
    trust = Trust(
        _mounted(seen, "peer", naming.peer_certificate(seen.cluster.name)) or kept.peer,
        _mounted(seen, "server", naming.server_certificate(seen.cluster.name)) or kept.client,
    )
    return replace(seen, cluster=replace(seen.cluster, trust=trust))


def _kept(seen: Observation) -> Trust:
    """As rendered; but not what an issuer's certificates were pinned to, once a link that has yet
    to begin was edited to have others."""
    live, now = rendered(seen), seen.cluster.links
    before = rendered_links(seen.stateful_set) if seen.stateful_set else None
    if before is None:
        return live
    return Trust(
        live.peer if before.peer.mode == now.peer.mode else "",
        live.client if before.client.mode == now.client.mode else "",
    )


def rendered(seen: Observation) -> Trust:
    """What pods are started to trust that the StatefulSet makes as it is now."""
    if seen.stateful_set is None:
        return Trust()
    return trust_in(seen.stateful_set["spec"]["template"]["spec"])


def _mounted(seen: Observation, role: Role, secret: str) -> str:
    found = find(seen, secret, role)
    return found.pinned if found and not found.problem else ""


def turn(seen: Observation) -> Step | None:
    """The next turn of a rotation. Both links go side by side where they can: each turn of one
    comes before the restart that the other's has led to."""
    step = _due(seen, list(_links(seen)))
    if step and (CERTIFICATE, step.need.secret) in seen.put_off:
        return None
    return step if step and is_at_rest(seen) else None


def _due(seen: Observation, links: list[_Link]) -> RotateAuthority | None:
    for stage in ("swapped", "overlap"):
        same = [link for link in links if link.authority.stage == stage]
        if same and all(_has_followed(seen, link) for link in same):
            return _go_on(seen, same[0])
    old = [link for link in links if _why_due(seen, link, links)]
    return _begin(seen, old[0], links) if old else None


def under_way(seen: Observation) -> dict[LinkName, str]:
    """How far each rotation is, in words."""
    return {link.name: words for link in _links(seen) if (words := _in_words(seen, link))}


def wished(seen: Observation, secret: str) -> int:
    """The least generation that the authority in this Secret is to have."""
    asked = seen.cluster.rotation
    return asked.peer if secret == naming.peer_authority(seen.cluster.name) else asked.client


def is_pinned(authority: Certificate) -> bool:
    """Whether pods mount a file that is named after what it has them trust."""
    return authority.generation > 1 or bool(authority.stage)


def _links(seen: Observation) -> Iterator[_Link]:
    needs = managed(seen.cluster) if seen.certificates else ()
    for need in needs:
        found = find(seen, need.secret, need.role)
        if need.role != "authority" or found is None or found.problem:
            continue
        signed = [one for one in needs if one.signed_by == need.secret]
        leaves = tuple(find(seen, one.secret, one.role) for one in signed)
        yield _Link(link_of(seen, need), need, found, leaves)


def link_of(seen: Observation, above: Need) -> LinkName:
    """Whose certificates this managed authority signs."""
    return "peer" if above.secret == naming.peer_authority(seen.cluster.name) else "client"


def find(seen: Observation, secret: str, role: Role) -> Certificate | None:
    """What is in a Secret that the cluster's links need; None where it is not there."""
    return seen.certificates.secrets.get(secret, {}).get(role) if seen.certificates else None


def is_at_rest(seen: Observation) -> bool:
    """Whether every member serves, and nothing else is to be done: all else comes first."""
    if not is_latched(seen) or seen.etcd is None or seen.stateful_set is None or seen.alarms:
        return False
    if any(kind == "StatefulSet" for kind, _ in seen.put_off):
        return False  # no pod would be made from what comes next
    if version_of(seen.stateful_set) != bootstrap.running_version(seen) or recorded(seen).before:
        return False
    as_declared = all(_is_as_declared(seen, seat) for seat in roster.seats(seen))
    return as_declared and roll.is_over(seen) and upgrade.go_on(seen) is None


def _is_as_declared(seen: Observation, seat: Seat) -> bool:
    if seat.ordinal >= seen.cluster.size:
        return seat.member is None and seat.pod is None
    return bool(seat.serves and seat.pod and seat.pod.ready and not seat.pod.deleting)


def _has_followed(seen: Observation, link: _Link) -> bool:
    """Whether every Secret and every pod is as the authority's Secret says, and was for long
    enough."""
    return (
        all(_is_as_said(one, link.authority) for one in link.leaves)
        and all(_trust(pod, link.name) == trust_of(link.authority.trusts) for pod in seen.pods)
        and _waited(seen, link)
    )


def _is_as_said(leaf: Certificate | None, authority: Certificate) -> bool:
    return bool(
        leaf
        and not leaf.problem
        and leaf.authority == authority.authority
        and set(leaf.trusts) == set(authority.trusts)
    )


def _waited(seen: Observation, link: _Link) -> bool:
    """Whether time enough has passed since the last of them was written. Until then members may
    show the certificates of before."""
    made = max((issued_at(one.begins) for one in link.leaves if one), default=0.0)
    now = seen.certificates.now if seen.certificates else 0.0
    shown = KUBELET_SECONDS if link.authority.stage == "swapped" else 0.0
    return now >= made + max(seen.cluster.rotation.overlap, shown)


def _trust(pod: Pod, link: LinkName) -> str:
    return pod.trust.peer if link == "peer" else pod.trust.client


def _go_on(seen: Observation, link: _Link) -> RotateAuthority:
    secret, now = link.need.secret, link.authority.generation
    if link.authority.stage == "swapped":
        words = "is trusted no longer: all have certificates of its successor"
        return _turn(link, "end", now, f"the authority before the one in Secret {secret} {words}")
    words = f"the successor in Secret {secret} signs from now on: all trust it"
    return _turn(link, "take over", _following(seen, link), words)


def _begin(seen: Observation, link: _Link, links: list[_Link]) -> RotateAuthority:
    why = _why_due(seen, link, links)
    words = f"the authority in Secret {link.need.secret} gets a successor: {why}"
    return _turn(link, "begin", _following(seen, link), words)


def _following(seen: Observation, link: _Link) -> int:
    return max(link.authority.generation + 1, wished(seen, link.need.secret))


def _turn(link: _Link, kind: Turn, generation: int, reason: str) -> RotateAuthority:
    return RotateAuthority(link.need, link.authority.resource_version, kind, generation, reason)


def _why_due(seen: Observation, link: _Link, links: list[_Link]) -> str:
    """Why its authority is to be replaced; empty where it is not, or is being replaced."""
    if link.authority.stage or not _signs(link):
        return ""
    asked = wished(seen, link.need.secret)
    if asked > link.authority.generation:
        return f"spec.TLS.rotation.{link.name} asks for generation {asked}"
    if _is_old(seen, link.authority):
        return "two thirds of its authority's life are over"
    others = [one.authority for one in links if one.name != link.name]
    goes = any(one.stage == "overlap" or _is_old(seen, one) for one in others)
    if goes and _is_old(seen, link.authority, ahead=TOGETHER_SECONDS):
        return "it is nearly as old as the other, and goes along"
    return ""


def _signs(link: _Link) -> bool:
    """Whether it is in use: not so one that was put in the place of another."""
    made = (one.authority for one in link.leaves if one and not one.problem)
    return all(one == link.authority.authority for one in made)


def _is_old(seen: Observation, authority: Certificate, ahead: float = 0.0) -> bool:
    now = seen.certificates.now if seen.certificates else 0.0
    return now + ahead >= renewed_at(authority.begins, authority.ends)


_WORDS: Final[dict[Stage, str]] = {
    "overlap": "is to be replaced: its successor is being made known, and signs nothing before "
    "every member has restarted with both and clients had spec.TLS.rotation.overlapSeconds",
    "swapped": "was replaced: its successor signs, and the one before is trusted until members and "
    "clients have new certificates, for spec.TLS.rotation.overlapSeconds",
    "": "was replaced: members are restarted without the one before",
}


def _in_words(seen: Observation, link: _Link) -> str:
    stage = link.authority.stage
    wanted = trust_of(link.authority.trusts)
    behind = link.authority.generation > 1 and any(
        _trust(pod, link.name) != wanted for pod in seen.pods
    )
    return f"the authority in Secret {link.need.secret} {_WORDS[stage]}" if stage or behind else ""
