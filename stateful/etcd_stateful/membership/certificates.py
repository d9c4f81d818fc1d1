"""Certificates in place before the pods that need them, and renewed while they run.

    managed     authority -> what pods mount, each into a Secret of its own -> StatefulSet
                -> what the operator and applications show
                at two thirds of its life each leaf is made anew; etcd takes it up by itself
    provided    checked; while one is missing or unusable, nothing else is done

An authority is made only where no member runs that trusts another.
"""

from __future__ import annotations

from typing import Final

from etcd_stateful.certificates import Need, Role, managed, provided, renewed_at
from etcd_stateful.membership.observation import Certificate, Certificates, Observation
from etcd_stateful.membership.steps import Hold, IssueCertificate, Step

UNUSABLE: Final = "CertificatesUnusable"

_MOUNTED: Final[tuple[Role, ...]] = ("authority", "peer", "server")
_SHOWN: Final[tuple[Role, ...]] = ("operator", "application")


def of_members(seen: Observation) -> Step | None:
    """Before the StatefulSet: a pod that comes too early waits for the kubelet's next try."""
    known = seen.certificates
    if known is None:
        return None
    return _unusable(seen, known) or _due(seen, known, _MOUNTED)


def of_clients(seen: Observation) -> Step | None:
    """While the pods are on their way: nobody asks etcd before it runs."""
    return _due(seen, seen.certificates, _SHOWN) if seen.certificates else None


def _unusable(seen: Observation, known: Certificates) -> Step | None:
    """A restarted member could not come back with these, so none is restarted."""
    said = []
    for need in provided(seen.cluster):
        found = known.secrets.get(need.secret, {}).get(need.role)
        if found is None:
            said.append(f"Secret {need.secret}, which {need.field} names, is not there")
        elif found.problem:
            said.append(f"Secret {need.secret}, which {need.field} names: {found.problem}")
    if not said:
        return None
    return Hold(UNUSABLE, f"{'; '.join(said)}. Nothing is touched until that is mended")


def _due(seen: Observation, known: Certificates, roles: tuple[Role, ...]) -> Step | None:
    for need in managed(seen.cluster):
        if need.role not in roles:
            continue
        found = known.secrets.get(need.secret, {}).get(need.role)
        if need.role == "authority":
            if found is None or found.problem:
                if _is_trusted(seen):
                    continue
                return _issue(need, found, "is needed")
        elif reason := _why(need, found, known):
            return _issue(need, found, reason)
    return None


def _why(need: Need, found: Certificate | None, known: Certificates) -> str:
    """Why a leaf is made, or made anew; empty for one that is good, and for one whose authority is
    lost: nothing can sign another."""
    authority = known.secrets.get(need.signed_by, {}).get("authority")
    if authority is None or authority.problem:
        return ""
    if found is None:
        return "is needed"
    if found.problem:
        return f"is made anew: {found.problem}"
    if found.authority != authority.authority:
        return "is made anew: another authority has signed it"
    if known.now >= renewed_at(found.begins, found.ends):
        return "is renewed: two thirds of its life are over"
    return ""


def _issue(need: Need, found: Certificate | None, reason: str) -> IssueCertificate:
    version = found.resource_version if found else ""
    return IssueCertificate(need, version, f"certificate in Secret {need.secret} {reason}")


def _is_trusted(seen: Observation) -> bool:
    """Members that run trust the authority of before until they are restarted; a new one would cut
    them off from each other."""
    return any(pod.etcd_started for pod in seen.pods)


def authority_lost(seen: Observation) -> Step | None:
    """Asked last: what it has signed goes on being good."""
    known = seen.certificates
    for need in managed(seen.cluster) if known else ():
        found = known.secrets.get(need.secret, {}).get(need.role) if known else None
        if need.role == "authority" and (found is None or found.problem):
            why = found.problem if found else "it is not there"
            return Hold(
                "AuthorityLost",
                f"Secret {need.secret}, with the authority that the members' certificates are "
                f"signed by, cannot be used: {why}. The cluster goes on until those end, see "
                "status.certificates. Put back what the Secret held",
            )
    return None
