"""Certificates in place before the pods that need them, and renewed while they run.

    managed     authority -> what pods mount, each into a Secret of its own -> StatefulSet
                -> what the operator and applications show
                at two thirds of its life each leaf is made anew; etcd takes it up by itself
                what an authority's rotation (`rotation`) has changed comes the same way
    provided    checked; while one is missing or unusable, no pod is started or restarted

An authority is made only where no member runs that trusts another, and signs only where all trust
it (`trusted`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from etcd_stateful import naming
from etcd_stateful.api.tls import Links
from etcd_stateful.certificates import Need, Role, managed, provided, renewed_at
from etcd_stateful.manifests.put_off import CERTIFICATE
from etcd_stateful.membership import attempts, in_place_request, roster, rotation, trusted
from etcd_stateful.membership.observation import Observation, is_latched
from etcd_stateful.membership.steps import (
    ApplyChild,
    CreateJob,
    DeletePod,
    Hold,
    IssueCertificate,
    MemberAddLearner,
    PushTicket,
    Settled,
    Step,
    Wait,
    WriteBootstrap,
)
from etcd_stateful.observed.certificates import Certificate, Certificates

UNUSABLE: Final = "CertificatesUnusable"

_MOUNTED: Final[tuple[Role, ...]] = ("authority", "peer", "server")
_SHOWN: Final[tuple[Role, ...]] = ("operator", "application")


def of_members(seen: Observation) -> Step | None:
    """Before the StatefulSet: a pod that comes too early waits for the kubelet's next try."""
    known = seen.certificates
    if known is None:
        return None
    return _before_the_latch(seen) or _due(seen, known, _MOUNTED)


def of_clients(seen: Observation) -> Step | None:
    """While the pods are on their way: nobody asks etcd before it runs."""
    return _due(seen, seen.certificates, _SHOWN) if seen.certificates else None


def needed_of_users(seen: Observation) -> tuple[Need, ...]:
    """Good for every ordinal that is declared, listed or running: on its way to fewer members, a
    cluster is still all of them."""
    listed = (roster.ordinal_of(seen, one) for one in (seen.etcd.members if seen.etcd else ()))
    used = [*(pod.ordinal for pod in seen.pods), *(one for one in listed if one is not None)]
    used += in_place_request.ordinals(seen)
    members = max([seen.cluster.size, seen.replicas, *(one + 1 for one in used)])
    return provided(seen.cluster, min(members, naming.MAX_SIZE))


def unusable(seen: Observation) -> Hold | None:
    """What is wrong with a user's certificates. A pod that starts with them might not come back, so
    none is started or restarted; but members that run go on, and so does what needs no new one."""
    said = problems_of_users(seen)
    if not said:
        return None
    return Hold(UNUSABLE, f"{'; '.join(said)}. No pod is started or restarted until that is mended")


def problems_of_users(seen: Observation) -> list[str]:
    """By Secret, for all that the cluster's links need."""
    known = seen.certificates
    if known is None or seen.cluster.deleting:
        return []
    said = []
    for need in needed_of_users(seen):
        found = known.secrets.get(need.secret, {}).get(need.role)
        if found is None:
            said.append(f"Secret {need.secret}, which {need.field} names, is not there")
        elif found.problem:
            said.append(f"Secret {need.secret}, which {need.field} names: {found.problem}")
    return said


def starts_pods(seen: Observation, step: Step) -> bool:
    """Whether pods start by it, stop, or come to wait for each other with another version."""
    match step:
        case ApplyChild(kind="StatefulSet", manifest=manifest):
            spec: dict[str, int] = manifest["spec"]  # type: ignore[assignment]
            return not 0 < spec["replicas"] <= seen.replicas
        case WriteBootstrap(final=final, record=record):
            return final and not _turns_back(seen, record.links)
        case _:
            return isinstance(step, CreateJob | DeletePod | MemberAddLearner | PushTicket)


def _turns_back(seen: Observation, following: Links) -> bool:
    """Towards plaintext, where certificates are needed the less."""
    has = seen.cluster.links
    return (following.peer.level, following.client.level) < (has.peer.level, has.client.level)


def besides(held: Hold, step: Step) -> Step:
    """What is said where nothing is left to do: the certificates first, they may be the cause."""
    match step:
        case Wait() | Settled():
            return held
        case Hold(reason=reason, message=message) if reason != UNUSABLE:
            return replace(held, message=f"{held.message}. Besides, {reason}: {message}")
        case _:
            return step


def _before_the_latch(seen: Observation) -> Hold | None:
    held = None if is_latched(seen) else unusable(seen)
    edited = attempts.in_words(seen) if held else ""
    return replace(held, message=f"{held.message}. {edited}") if held and edited else held


def _due(seen: Observation, known: Certificates, roles: tuple[Role, ...]) -> Step | None:
    for need in managed(seen.cluster):
        if need.role not in roles or is_left(seen, need):
            continue
        found = known.secrets.get(need.secret, {}).get(need.role)
        if need.role == "authority":
            if found is None or found.problem:
                if trusted.running(seen, rotation.link_of(seen, need)):
                    continue
                return _issue(seen, need, found, lacking(found))
        elif _why_lost(seen, _above(seen, need)):
            continue  # nothing can sign another, or not everybody would trust it
        elif reason := _why(need, found, known):
            return _issue(seen, need, found, reason)
    return None


def _above(seen: Observation, need: Need) -> Need:
    """The authority that signs it."""
    return next(one for one in managed(seen.cluster) if one.secret == need.signed_by)


def _why_lost(seen: Observation, above: Need) -> str:
    """Why nothing is signed by the managed authority; empty where it is sound."""
    found = rotation.find(seen, above.secret, above.role)
    if found is None:
        return "cannot be used: it is not there"
    if found.problem:
        return f"cannot be used: {found.problem}"
    if not trusted.may_sign(seen, above, found):
        return "signs nothing: what it holds is not what members were started to trust"
    return ""


def is_left(seen: Observation, need: Need) -> bool:
    """Whether nothing is written into its Secret for now: it is another's, or has just been in
    vain."""
    taken = any((one.kind, one.name) == ("Secret", need.secret) for one in seen.foreign)
    return taken or (CERTIFICATE, need.secret) in seen.put_off


def _why(need: Need, found: Certificate | None, known: Certificates) -> str:
    """Why a leaf is made, or made anew; empty for one that is good."""
    authority = known.secrets[need.signed_by]["authority"]
    if found is None or found.problem:
        return lacking(found)
    if why := _why_other(need, found, authority):
        return f"is made anew: {why}"
    if known.now >= renewed_at(found.begins, found.ends):
        return "is renewed: two thirds of its life are over"
    return ""


def lacking(found: Certificate | None) -> str:
    """Why one is made: there is none, or it cannot be used."""
    return f"is made anew: {found.problem}" if found else "is made: there was none"


def _why_other(need: Need, found: Certificate, authority: Certificate) -> str:
    """In what it differs from what its authority's Secret says; empty where it does not."""
    if found.authority != authority.authority:
        return "another authority has signed it"
    if set(found.trusts) != set(authority.trusts):
        return "other authorities are to be trusted"
    if need.role in _MOUNTED and rotation.is_pinned(authority) and not found.pinned:
        return "the file that pods mount is missing"
    if need.role == "operator" and found.subject != need.subject:
        return f"its common name must be {need.subject}"
    return ""


def _issue(
    seen: Observation, need: Need, found: Certificate | None, reason: str
) -> IssueCertificate:
    version = found.resource_version if found else ""
    words = f"certificate in Secret {need.secret} {reason}"
    if need.role == "authority":
        first = max(1, rotation.wished(seen, need.secret))
        return IssueCertificate(need, version, words, generation=first)
    above = _above(seen, need)
    authority = rotation.find(seen, above.secret, above.role)
    digest = authority.authority if authority else ""
    return IssueCertificate(need, version, words, trusted_by_pods(seen, need), authority=digest)


def trusted_by_pods(seen: Observation, need: Need) -> frozenset[str]:
    """What pods were started to trust; one that is being made from the present template, too."""
    every = [rotation.rendered(seen), *(pod.trust for pod in seen.pods)]
    said = {one.peer if need.role == "peer" else one.client for one in every}
    return frozenset(said - {""}) if need.role in _MOUNTED else frozenset()


def cannot_ask(seen: Observation) -> Step | None:
    """Members are not silent: the operator has no certificate to ask them with, nor gets one."""
    known = seen.certificates
    if known is None:
        return None
    own = [need for need in managed(seen.cluster) if need.role == "operator"]
    lacks = any(need.role not in known.secrets.get(need.secret, {}) for need in own)
    return authority_lost(seen) if lacks else None


def authority_lost(seen: Observation) -> Step | None:
    """Asked last: what it has signed goes on being good."""
    for need in managed(seen.cluster) if seen.certificates else ():
        if need.role == "authority" and (why := _why_lost(seen, need)):
            return Hold(
                "AuthorityLost",
                f"Secret {need.secret}, with the authority that the members' certificates are "
                f"signed by, {why}. The cluster goes on until those end, see status.certificates. "
                "Put back what the Secret held",
            )
    return None
