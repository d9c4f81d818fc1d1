"""Certificates from a cert-manager issuer: requested, checked, and taken into use.

    request    one Certificate each -> cert-manager writes its Secret, and again at each renewal
    take       the issued certificate is copied into the Secret that members or clients use; etcd
               reloads it by itself
    the issuer has a new authority
               it is trusted beside the old one -> the members restart, because etcd reads its
               trusted CAs only at start; applications reload theirs -> certificates that it has
               signed are taken -> the old authority is removed -> the members restart

Nothing is copied unchecked. A certificate that is unusable, or whose authority not everybody trusts
yet, stays in cert-manager's Secret, and members go on with what they have. As in `rotation`, each
step of a change of authorities is made when all Secrets and pods have followed the last one, and
nothing else goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, get_args

from etcd_stateful import certificates as needs
from etcd_stateful import stored_conditions
from etcd_stateful.api.issuer import Issuer
from etcd_stateful.api.tls import LinkName
from etcd_stateful.certificates import CertificateSpec, as_issued, trust_of
from etcd_stateful.manifests.certificate import certificate
from etcd_stateful.manifests.common import Manifest
from etcd_stateful.membership.observation import Observation, is_latched
from etcd_stateful.membership.steps import Hold, Step, TakeCertificate, Wait
from etcd_stateful.membership.tls import trusted
from etcd_stateful.membership.tls.certificates import (
    UNUSABLE,
    is_left_alone,
    trusted_by_pods,
    why_issued,
)
from etcd_stateful.membership.tls.rotation import KUBELET_SECONDS, is_at_rest
from etcd_stateful.observed.certificates import Certificate, Issued, usable
from etcd_stateful.observed.objects import Live

MISSING: Final = "CertManagerMissing"

TOGETHER_SECONDS: Final = 60.0
"""Certificates that were issued together are renewed within this time. Waiting for all of them
means that a new authority costs only one restart."""

LAST_SECONDS: Final = 2 * KUBELET_SECONDS
"""A certificate that expires within this time is replaced even if clients have not had all of their
time yet: with an expired one nobody would be served."""


@dataclass(frozen=True, slots=True)
class _Leaf:
    """One certificate: as cert-manager issued it, and as it is in use."""

    need: CertificateSpec
    issued: Issued
    used: Certificate | None

    @property
    def good(self) -> Certificate | None:
        """The issued certificate, if it is usable."""
        return usable(self.issued.found)

    @property
    def sound(self) -> Certificate | None:
        """The certificate in use, if it is usable."""
        return usable(self.used)


@dataclass(frozen=True, slots=True)
class _Link:
    """The certificates of a link; the first is the one that members mount."""

    name: LinkName
    issuer: Issuer
    leaves: tuple[_Leaf, ...]

    @property
    def trusts(self) -> frozenset[str]:
        """The authorities that members are started to trust; empty if unknown."""
        sound = self.leaves[0].sound
        return frozenset(sound.trusts) if sound else frozenset()

    @property
    def signers(self) -> frozenset[str]:
        """The authorities that signed the certificates in use and those about to replace them."""
        every = [one for leaf in self.leaves for one in (leaf.sound, leaf.good) if one]
        return frozenset(one.authority for one in every)


def children(seen: Observation) -> Iterator[tuple[Live | None, Manifest]]:
    """The Certificates, each as it is and as it should be. None without cert-manager, and none
    whose Secret has another owner: cert-manager would overwrite it."""
    if seen.certificates is None or seen.certificates.why_not_asked:
        return
    for link in _links(seen):
        for leaf in link.leaves:
            if seen.is_taken("Secret", as_issued(leaf.need).secret):
                continue
            yield leaf.issued.certificate, certificate(seen.cluster, leaf.need, link.issuer)


def names(seen: Observation) -> frozenset[str]:
    """The names of the Certificates, which are also those of the Secrets that cert-manager
    writes."""
    return frozenset(as_issued(need).secret for need in needs.issued(seen.cluster))


def take_next(seen: Observation) -> Step | None:
    """Takes the next certificate into use. Asked before the StatefulSet, whose pods mount it."""
    links = list(_links(seen))
    if not is_latched(seen) and (step := _awaited(seen, links)):
        return step
    return next((step for link in links if (step := _of_link(seen, link))), None)


def problems(seen: Observation) -> Step | None:
    """Holds for problems of a cluster that has formed. Asked last: its present certificates remain
    valid."""
    links = list(_links(seen))
    return _untrusted(seen, links) or _lacking(seen, links)


def no_client_certificate(seen: Observation) -> Step | None:
    """Says what keeps the issuer's certificate from being used, if members seem silent only because
    the operator has none, or its own has expired."""
    own = [leaf for leaf in _leaves(seen) if leaf.need.role == "operator"]
    return problems(seen) if any(leaf.sound is None for leaf in own) else None


def under_way(seen: Observation) -> dict[LinkName, str]:
    """Which issuers are changing their authority, for a message."""
    words = (
        "has a new authority: it is distributed to clients, and to members by restarting each, "
        "before certificates that it has signed are used; the old one stays trusted as long after"
    )
    return {
        link.name: f"{link.issuer}, of the {link.name} link, {words}"
        for link in _links(seen)
        if len(link.signers | link.trusts) > 1
    }


def _links(seen: Observation) -> Iterator[_Link]:
    leaves, links = _leaves(seen), seen.cluster.links
    for name in get_args(LinkName):
        of_link = tuple(leaf for leaf in leaves if leaf.need.link == name)
        if of_link and (issuer := links.of(name).issuer):
            yield _without_outdated(seen, _Link(name, issuer, of_link))


def _without_outdated(seen: Observation, link: _Link) -> _Link:
    """The link, with a problem for each certificate whose authority not all running members trust,
    if they trust that of the issued one: its Secret was put back from an old copy."""

    def judged(leaf: _Leaf) -> _Leaf:
        used, good = leaf.sound, leaf.good
        if used is None or good is None or used.authority == good.authority:
            return leaf
        if _is_trusted(seen, link, used) or not _is_trusted(seen, link, good):
            return leaf
        words = "running members do not trust the authority that signed it"
        return replace(leaf, used=replace(used, problem=words))

    return replace(link, leaves=tuple(map(judged, link.leaves)))


def _leaves(seen: Observation) -> list[_Leaf]:
    known = seen.certificates
    if known is None:
        return []
    return [
        _Leaf(need, known.issued.get(as_issued(need).secret, Issued()), seen.certificate_for(need))
        for need in needs.issued(seen.cluster)
        if not seen.is_taken("Secret", need.secret)
    ]


def _awaited(seen: Observation, links: list[_Link]) -> Step | None:
    """Waits for all first certificates: only then is it known which authorities to trust."""
    if all(leaf.sound or leaf.good for link in links for leaf in link.leaves):
        return None
    return _lacking(seen, links)


def _lacking(seen: Observation, links: list[_Link]) -> Step | None:
    if not links or seen.certificates is None:
        return None
    if why := seen.certificates.why_not_asked:
        asked = " and ".join(dict.fromkeys(str(link.issuer) for link in links))
        return Hold(MISSING, f"spec.TLS.issuerRef names {asked}, but {why}")
    every = [leaf for link in links for leaf in link.leaves]
    return _unusable(every) or _unissued(every)


def _unusable(leaves: list[_Leaf]) -> Hold | None:
    said = [
        f"Secret {as_issued(leaf.need).secret}: {leaf.issued.found.problem}"
        for leaf in leaves
        if leaf.issued.found and leaf.issued.found.problem
    ]
    if not said:
        return None
    words = "cannot be used. Fix the issuer or its configuration"
    return Hold(UNUSABLE, f"what cert-manager has issued {words}: {'; '.join(said)}")


def _unissued(leaves: list[_Leaf]) -> Wait | None:
    said: dict[str, list[str]] = {}
    for leaf in leaves:
        if leaf.issued.found is None or _not_ready(leaf):
            said.setdefault(_in_words(leaf), []).append(as_issued(leaf.need).secret)
    if not said:
        return None
    words = (f"Certificate {' and '.join(names)}, which {why}" for why, names in said.items())
    return Wait(f"cert-manager to issue {'; '.join(words)}")


def _in_words(leaf: _Leaf) -> str:
    """cert-manager's own messages, about the Certificate and about the last attempt to issue it."""
    live = leaf.issued.certificate
    if live is None:
        return "is yet to be created"
    said = [_message(live, "Ready"), _message(live, "Issuing")]
    words = "; ".join(dict.fromkeys(one for one in said if one))
    return f"says: {words}" if words else "says nothing yet: does cert-manager run?"


def _not_ready(leaf: _Leaf) -> bool:
    certificate = leaf.issued.certificate or {}
    return stored_conditions.find(certificate.get("status"), "Ready").get("status") == "False"


def _message(live: Live, kind: str) -> str:
    return str(stored_conditions.find(live.get("status"), kind).get("message") or "")


def _of_link(seen: Observation, link: _Link) -> TakeCertificate | None:
    trusts, final = _trusts_next(seen, link)
    for leaf in link.leaves:
        if is_left_alone(seen, leaf.need):
            continue
        if step := _take(seen, link, leaf, trusts, final=final):
            return step
    return None


def _trusts_next(seen: Observation, link: _Link) -> tuple[frozenset[str], bool]:
    """The authorities to trust from now on, and whether one that was trusted is removed."""
    now, wanted = link.trusts, link.signers
    if not now:
        known = (leaf.sound.trusts for leaf in link.leaves if leaf.sound)
        return wanted.union(*known), False
    if not wanted <= now:
        free = not any(pod.etcd_started for pod in seen.pods)
        due = free or (_are_all_renewed(seen) and is_at_rest(seen))
        return (now | wanted, False) if due else (now, False)
    settled = _has_followed(seen, link) and _waited(seen, least=KUBELET_SECONDS)
    if wanted < now and settled and is_at_rest(seen):
        return wanted, True
    return now, False


def _are_all_renewed(seen: Observation) -> bool:
    """Whether the last renewal is long enough ago that no other is likely to follow at once."""
    made = (leaf.good.begins for leaf in _leaves(seen) if leaf.good)
    return seen.read_at >= max(made, default=0.0) + TOGETHER_SECONDS


def _take(
    seen: Observation, link: _Link, leaf: _Leaf, trusts: frozenset[str], *, final: bool
) -> TakeCertificate | None:
    used = leaf.sound
    chosen = _chosen(seen, link, leaf)
    if chosen is None:
        return None
    if used is None:
        reason = why_issued(leaf.used)
    elif chosen.leaf != used.leaf:
        reason = f"was renewed by {link.issuer}"
    elif set(used.trusts) != trusts:
        reason = "gets other authorities beside it"
    elif leaf.need.is_mounted and not used.pinned:
        reason = "gets the file that pods mount"
    elif not 0.0 < used.written <= seen.read_at:  # a clock may have been ahead
        reason = "gets the time when it was written"
    else:
        return None
    return TakeCertificate(
        leaf.need,
        leaf.used.resource_version if leaf.used else "",
        chosen.leaf,
        tuple(sorted(trusts)),
        tuple(_known_in(link)),
        f"certificate in Secret {leaf.need.secret} {reason}",
        trusted_by_pods(seen, leaf.need),
        final,
    )


def _chosen(seen: Observation, link: _Link, leaf: _Leaf) -> Certificate | None:
    """The issued certificate, if everybody trusts its authority; otherwise the one in use."""
    used, good = leaf.sound, leaf.good
    if used is None:
        return good if good and _is_trusted(seen, link, good) else None
    if good is None:
        return used
    if good.authority == used.authority:
        return good
    known = good.authority in link.trusts and _has_followed(seen, link) and is_at_rest(seen)
    begun = any(one.sound and one.sound.authority == good.authority for one in link.leaves)
    due = begun or _waited(seen, beside=good.authority) or seen.read_at + LAST_SECONDS >= used.ends
    return good if known and due else used


def _is_trusted(seen: Observation, link: _Link, one: Certificate) -> bool:
    """Whether running members trust the authority of this certificate. What is beside an expired
    one still tells what they were started to trust."""
    sets = [link.signers, *(leaf.used.trusts for leaf in link.leaves if leaf.used)]
    return trusted.is_trusted_by_all(seen, link.name, one.authority, sets)


def _untrusted(seen: Observation, links: list[_Link]) -> Hold | None:
    """Holds if a certificate was lost and members do not trust the authority of its replacement."""
    lost = [
        (link.leaves[0], leaf)
        for link in links
        for leaf in link.leaves
        if leaf.good and not leaf.sound and not _is_trusted(seen, link, leaf.good)
    ]
    if not lost:
        return None
    said = [f"Secret {leaf.need.secret}" for _, leaf in lost]
    # New pods that find a usable certificate are started to trust its authority, as before.
    found = (f"Secret {mounted.need.secret} and then " for mounted, _ in lost if mounted.sound)
    words = "cannot be used, and running members do not trust the authority that signed what"
    pods = f"{next(found, '')}all pods of the cluster"
    way = f"; or delete {pods}, which takes it down until they are back"
    if not seen.cluster.durable:
        way = ". Do not delete the pods: their data is in emptyDir volumes, and would go with them"
    return Hold(
        UNUSABLE,
        f"{' and '.join(said)} {words} cert-manager has issued. Restore the Secret's content{way}",
    )


def _has_followed(seen: Observation, link: _Link) -> bool:
    """Whether all Secrets and all pods have the authorities that members are to trust."""
    used = [leaf.sound for leaf in link.leaves]
    if any(one is None or set(one.trusts) != link.trusts for one in used):
        return False
    pinned = trust_of(link.trusts)
    return all(pod.trust.of(link.name) == pinned for pod in seen.pods)


def _waited(seen: Observation, *, beside: str = "", least: float = 0.0) -> bool:
    """Whether clients have had their time since the last Secret with several authorities was
    written. The Secrets of both links count, so that the links change together.

    Args:
        beside: Secrets with a certificate of this authority do not count.
    """
    used = [leaf.used for leaf in _leaves(seen) if leaf.used and len(leaf.used.trusts) > 1]
    written = max((one.written for one in used if one.authority != beside), default=0.0)
    return seen.read_at >= written + max(seen.cluster.rotation.overlap, least)


def _known_in(link: _Link) -> Iterable[CertificateSpec]:
    """All Secrets of the link: an authority may be in only one of them."""
    for leaf in link.leaves:
        yield leaf.need
        yield as_issued(leaf.need)
