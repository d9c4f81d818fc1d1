"""Certificates: created before the pods that need them, and renewed while they run.

    managed     authority -> certificates that pods mount, each in its own Secret -> StatefulSet
                -> client certificates of the operator and of applications
                each certificate is reissued after two thirds of its lifetime, or when its
                authority is rotated (`rotation`); etcd reloads it by itself
    provided    checked; while one is missing or unusable, no pod is started or restarted

An authority is created only while no running member trusts another one, and it signs only if all
running members trust it (`trusted`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from etcd_stateful import naming
from etcd_stateful.api.tls import Links
from etcd_stateful.certificates import (
    CertificateSpec,
    Role,
    managed,
    provided,
    renewed_at,
    server_secret,
)
from etcd_stateful.membership import roster
from etcd_stateful.membership.beginning import attempts
from etcd_stateful.membership.epochs import in_place_request
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
from etcd_stateful.membership.tls import rotation, trusted
from etcd_stateful.observed.certificates import Certificate, Certificates, usable
from etcd_stateful.observed.put_off import CERTIFICATE, of_secret

UNUSABLE: Final = "CertificatesUnusable"

_MOUNTED: Final[tuple[Role, ...]] = ("authority", "peer", "server")
_SHOWN: Final[tuple[Role, ...]] = ("operator", "application")


def of_members(seen: Observation) -> Step | None:
    """The certificates that pods mount. Asked before the StatefulSet: a pod without its Secret
    would wait for the kubelet's next retry."""
    known = seen.certificates
    if known is None:
        return None
    return _before_the_latch(seen) or _due(seen, known, _MOUNTED)


def of_clients(seen: Observation) -> Step | None:
    """The client certificates. Asked while pods start: nobody needs them before etcd runs."""
    return _due(seen, seen.certificates, _SHOWN) if seen.certificates else None


def provided_needs(seen: Observation) -> tuple[CertificateSpec, ...]:
    """The certificates that the user has to provide. They must cover every ordinal that is
    declared, listed or running, also while the cluster shrinks."""
    used = [*(pod.ordinal for pod in seen.pods), *roster.listed_ordinals(seen)]
    used += in_place_request.successor_ordinals(seen)
    members = max([seen.cluster.size, seen.replicas, *(one + 1 for one in used)])
    return provided(seen.cluster, min(members, naming.MAX_SIZE))


def unusable(seen: Observation) -> Hold | None:
    """Holds for problems of user-provided certificates. A pod that restarts with them might not
    come back, so no pod is started or restarted. Running members go on, and so does everything
    else."""
    said = problems_of_provided(seen)
    if not said:
        return None
    return Hold(UNUSABLE, f"{'; '.join(said)}. No pod is started or restarted until that is fixed")


def problems_of_provided(seen: Observation) -> list[str]:
    """What is wrong with user-provided certificates, one entry for each Secret."""
    if seen.certificates is None or seen.cluster.deleting:
        return []
    said = []
    for need in provided_needs(seen):
        found = seen.certificate_for(need)
        if found is None:
            said.append(f"Secret {need.secret}, which {need.field} names, does not exist")
        elif why := found.problem or (need.role == "peer" and _why_refused(seen)):
            said.append(f"Secret {need.secret}, which {need.field} names: {why}")
    return said


def _why_refused(seen: Observation) -> str:
    """Why members would not find each other if one restarted: the authority of their certificate
    was replaced at once. If that has happened, also what to do about it."""
    refuse, others = trusted.refusing(seen), trusted.pods_with_tls(seen, "peer")
    if not refuse or len(others) < 2:
        return ""
    away = [seat.name for seat in roster.seats(seen) if seat.pod in others and not seat.serves]
    stay = [pod.name for pod in refuse]
    if seen.etcd and set(stay) <= set(away):
        way = f"The others serve with it, so delete these pods: {', '.join(stay)}"
    else:
        begun = [name for name in away if name not in stay]
        then = f", then delete these pods, which reach no other: {', '.join(begun)}" * bool(begun)
        way = f"Put its previous content back{then}. Replace the authority step by step"
    return (
        f"no authority that {', '.join(stay)} trusts has signed peer.crt (etcd reads peer-ca.crt "
        f"only when it starts). {way} (docs/tls.md, Static)"
    )


def starts_pods(seen: Observation, step: Step) -> bool:
    """Whether the step starts or stops pods, or changes the version, so that pods would restart."""
    match step:
        case ApplyChild(kind="StatefulSet", manifest=manifest):
            return not 0 < manifest["spec"]["replicas"] <= seen.replicas
        case WriteBootstrap(final=final, record=record):
            return final and not _turns_back(seen, record.links)
        case _:
            return isinstance(step, CreateJob | DeletePod | MemberAddLearner | PushTicket)


def _turns_back(seen: Observation, following: Links) -> bool:
    """Whether the links change towards plaintext, which needs fewer certificates."""
    has = seen.cluster.links
    return (following.peer.level, following.client.level) < (has.peer.level, has.client.level)


def combine(held: Hold, step: Step) -> Step:
    """The hold for certificates in place of a wait, and before another hold: unusable certificates
    may be the cause. A write goes first."""
    match step:
        case Wait() | Settled():
            return held
        case Hold(reason=reason, message=message) if reason != UNUSABLE:
            return replace(held, message=f"{held.message}. Also, {reason}: {message}")
        case _:
            return step


def _before_the_latch(seen: Observation) -> Hold | None:
    held = None if is_latched(seen) else unusable(seen)
    edited = attempts.describe_late_edits(seen) if held else ""
    return replace(held, message=f"{held.message}. {edited}") if held and edited else held


def _due(seen: Observation, known: Certificates, roles: tuple[Role, ...]) -> Step | None:
    for need in managed(seen.cluster):
        if need.role not in roles or is_left_alone(seen, need):
            continue
        found = seen.certificate_for(need)
        if need.role == "authority":
            if not usable(found):
                if trusted.pods_with_tls(seen, need.link):
                    continue
                return _issue(seen, need, found, why_issued(found))
        elif _why_lost(seen, _authority_of(seen, need)):
            continue  # the authority cannot sign, or not everybody would trust it
        elif reason := _why_due(need, found, known):
            return _issue(seen, need, found, reason)
    return None


def _authority_of(seen: Observation, need: CertificateSpec) -> CertificateSpec:
    """The authority that signs this certificate."""
    return next(one for one in managed(seen.cluster) if one.secret == need.signed_by)


def _why_lost(seen: Observation, above: CertificateSpec) -> str:
    """Why the managed authority cannot sign; empty if it can."""
    found = seen.certificate_for(above)
    if found is None:
        return "cannot be used: it does not exist"
    if found.problem:
        return f"cannot be used: {found.problem}"
    if not trusted.may_sign(seen, above, found):
        return "is not used: running members do not trust what it holds"
    return ""


def is_left_alone(seen: Observation, need: CertificateSpec) -> bool:
    """Whether its Secret is left alone for now: it has another owner, or the same write has just
    failed."""
    failed = seen.put_off.get((CERTIFICATE, need.secret))
    found = seen.certificate_for(need)
    now = of_secret(found.resource_version if found else "")
    return seen.is_taken("Secret", need.secret) or bool(failed and failed.is_of(now))


def _why_due(need: CertificateSpec, found: Certificate | None, known: Certificates) -> str:
    """Why a certificate is issued or reissued; empty if it need not be."""
    authority = known.secrets[need.signed_by]["authority"]
    if found is None or found.problem:
        return why_issued(found)
    if why := _why_outdated(need, found, authority):
        return f"is reissued: {why}"
    if known.now >= renewed_at(found.begins, found.ends):
        return "is renewed: two thirds of its lifetime are over"
    return ""


def why_issued(found: Certificate | None) -> str:
    """Why a certificate is issued: there is none, or it is unusable."""
    return f"is reissued: {found.problem}" if found else "is issued: there was none"


def _why_outdated(need: CertificateSpec, found: Certificate, authority: Certificate) -> str:
    """How the certificate differs from what its authority's Secret asks for; empty if it does
    not."""
    if found.authority != authority.authority:
        return "another authority has signed it"
    if set(found.trusts) != set(authority.trusts):
        return "other authorities are to be trusted"
    if need.is_mounted and rotation.is_pinned(authority) and not found.pinned:
        return "the file that pods mount is missing"
    if need.role == "operator" and found.subject != need.subject:
        return f"its common name must be {need.subject}"
    return ""


def _issue(
    seen: Observation, need: CertificateSpec, found: Certificate | None, reason: str
) -> IssueCertificate:
    version = found.resource_version if found else ""
    words = f"certificate in Secret {need.secret} {reason}"
    if need.role == "authority":
        return IssueCertificate(need, version, words, generation=_first_generation(seen, need))
    above = _authority_of(seen, need)
    authority = seen.certificate_for(above)
    digest = authority.authority if authority else ""
    return IssueCertificate(need, version, words, trusted_by_pods(seen, need), authority=digest)


def _first_generation(seen: Observation, need: CertificateSpec) -> int:
    """The generation of an authority that has none before it in its Secret. It is not the first of
    its link if the template mounts a file that only a rotation introduces: such a file has to come
    with its certificates too."""
    rotated = rotation.rendered(seen).of(need.link)
    return max(2 if rotated else 1, seen.cluster.rotation.of(need.link))


def trusted_by_pods(seen: Observation, need: CertificateSpec) -> frozenset[str]:
    """The trust bundles that pods were started with, and that of the present template."""
    every = [rotation.rendered(seen), *(pod.trust for pod in seen.pods)]
    said = {one.of(need.link) for one in every}
    return frozenset(said - {""}) if need.is_mounted else frozenset()


def no_client_certificate(seen: Observation) -> Step | None:
    """Holds if members seem silent only because the operator has no usable client certificate, and
    cannot issue one because its authority is lost."""
    if seen.certificates is None:
        return None
    return authority_lost(seen) if _lacks_own(seen) else None


def _lacks_own(seen: Observation) -> bool:
    """Whether the operator has no usable managed certificate."""
    own = (need for need in managed(seen.cluster) if need.role == "operator")
    return any(usable(seen.certificate_for(need)) is None for need in own)


def authority_lost(seen: Observation) -> Step | None:
    """Holds if a managed authority is lost. Asked last: certificates that it has signed stay
    valid."""
    for need in managed(seen.cluster) if seen.certificates else ():
        if need.role == "authority" and (why := _why_lost(seen, need)):
            return Hold(
                "AuthorityLost",
                f"Secret {need.secret}, with the authority that signed the members' certificates, "
                f"{why}. {_without(seen, need)}. {_way_back(seen, need)}",
            )
    return None


def _way_back(seen: Observation, above: CertificateSpec) -> str:
    """What to do about an authority that cannot sign."""
    pods = "all pods of the cluster: it is down until they are back, with a new authority"
    way = f"delete {pods}"
    if not seen.cluster.durable:
        way = (
            "restore a backup into a new cluster. Do not delete the pods: their data is in "
            "emptyDir volumes, and would go with them"
        )
    found = seen.certificate_for(above)
    if found and found.ends and not found.begins <= seen.read_at < found.ends:
        return f"No copy of the Secret helps. Unless the operator's clock is wrong, {way}"
    # To turn TLS off and on, pods restart with the members' certificate. That of clients is not
    # turned off before users are given up, nor if etcd cannot be asked whether there are any.
    can_restart = usable(trusted.mounted(seen, above.link)) is not None
    has_users = seen.cluster.auth is not None and seen.cluster.durable
    stays = above.link == "client" and (has_users or _lacks_own(seen))
    if can_restart and not stays:
        return (
            "Restore the Secret's content; if no copy is left, turn TLS of that link off and on "
            "again (docs/tls.md)"
        )
    if can_restart and seen.cluster.durable:  # new pods would keep the lost authority in use
        way = f"delete Secret {server_secret(seen.cluster)} and then {pods}"
    return f"Restore the Secret's content; or, if there is no copy, {way}"


def _without(seen: Observation, above: CertificateSpec) -> str:
    """What follows while this authority cannot sign."""
    lacking = [
        f"Secret {need.secret} ({found.problem if found else 'it does not exist'})"
        for need in managed(seen.cluster)
        if need.signed_by == above.secret and not usable(found := seen.certificate_for(need))
    ]
    if lacking:
        return f"Until then these cannot be replaced: {', '.join(lacking)}"
    return "The cluster works until those expire, see status.certificates"
