"""Which authorities running members trust.

etcd reads its trusted CAs only at start, but reloads its certificate for each handshake. So a new
certificate in the Secret is in use within a minute or two. It must not be signed by an authority
that some running member does not trust, or members could no longer connect to each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from etcd_stateful.api.tls import Level, LinkName, Trust
from etcd_stateful.certificates import (
    CertificateSpec,
    managed,
    peer_secret,
    server_secret,
    trust_of,
)
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.tls import links
from etcd_stateful.membership.tls.rotation import rendered
from etcd_stateful.observed.certificates import Certificate, usable
from etcd_stateful.observed.pods import Pod

_AND: Final = "."
"""Between the names of a user's authorities in a note: of those, no Secret keeps a digest."""


def pods_with_tls(seen: Observation, link: LinkName) -> list[Pod]:
    """Pods whose etcd runs with TLS on this link.

    Also pods in which it has yet to start, if their certificate is usable: they have mounted it.
    But not if their template has other links than the cluster, because the spec was edited before
    it formed.
    """
    as_linked = links.rendered(seen) in (None, seen.cluster.links)
    can_start = as_linked and usable(mounted(seen, link)) is not None
    return [
        pod
        for pod in seen.pods
        if links.levels_of(seen, pod).of(link) > Level.PLAINTEXT and (pod.etcd_started or can_start)
    ]


def mounted(seen: Observation, link: LinkName) -> Certificate | None:
    """The certificate in the Secret that pods mount."""
    if link == "peer":
        return seen.certificate(peer_secret(seen.cluster), "peer")
    return seen.certificate(server_secret(seen.cluster), "server")


def is_trusted_by_all(
    seen: Observation, link: LinkName, authority: str, sets: Iterable[Iterable[str]]
) -> bool:
    """Whether no running member is known to distrust this authority.

    Args:
        sets: sets of authorities, to find the one whose digest is in a pod's trust.
    """
    found = mounted(seen, link)
    kept = found.kept if found else ()
    known = [frozenset(one) for one in (*sets, *kept) if one]
    by_name = {trust_of(one): one for one in (*known, frozenset({authority}))}
    template = by_name.get(rendered(seen).of(link), frozenset())
    # Without a digest in the file name or on the pod, the bundle is what the Secret held when the
    # pod started, as far as is known.
    unpinned = frozenset(found.trusts) if found and found.trusts else None
    for pod in pods_with_tls(seen, link):
        name = pod.trust.of(link) or pod.noted_trust.of(link)
        # An unknown digest is of the previous template, which also has the authority that signs.
        trusts = by_name.get(name, template) if name else unpinned
        if trusts is not None and authority not in trusts:
            return False
    return True


def may_sign(seen: Observation, above: CertificateSpec, authority: Certificate) -> bool:
    """Whether running members would accept what this managed authority signs, and also the present
    certificates, until all members have the new ones."""
    link = above.link
    signed = [one for one in managed(seen.cluster) if one.signed_by == above.secret]
    leaves = filter(None, map(seen.certificate_for, signed))
    sets = [authority.trusts, *(one.trusts for one in leaves)]
    if not is_trusted_by_all(seen, link, authority.authority, sets):
        return False
    shown = usable(mounted(seen, link))
    if shown is None or shown.authority in authority.trusts:
        return True
    return not pods_with_tls(seen, link) or not is_trusted_by_all(seen, link, shown.authority, sets)


def noted(seen: Observation, pod: Pod) -> Trust:
    """What the etcd of this serving pod was started to trust, where its mounts do not tell.

    Without a note nothing would tell it any more if the pod's certificates were lost or replaced
    together with their authority.
    """
    return Trust(_to_note(seen, pod, "peer"), _to_note(seen, pod, "client"))


def _to_note(seen: Observation, pod: Pod, link: LinkName) -> str:
    if noted := pod.noted_trust.of(link):
        return noted
    found, mode = usable(mounted(seen, link)), seen.cluster.links.of(link).mode
    if pod.trust.of(link) or found is None:
        return ""
    if mode == "Static":
        return _AND.join(sorted(set(found.authorities))) if link == "peer" else ""
    if mode not in ("Managed", "Issued"):
        return ""
    return trust_of(found.trusts) if found.authority in found.trusts else ""


def refusing(seen: Observation) -> list[Pod]:
    """Pods whose etcd refuses the members' certificate, which a user provides: none of the
    authorities that it was started to trust has signed it."""
    found = usable(mounted(seen, "peer"))
    if seen.cluster.links.peer.mode != "Static" or found is None:
        return []
    return [
        pod
        for pod in pods_with_tls(seen, "peer")
        if (known := pod.noted_trust.peer) and not {*found.signers} & {*known.split(_AND)}
    ]
