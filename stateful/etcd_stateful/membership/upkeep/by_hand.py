"""Commands of etcdctl that messages tell the user to run.

While authentication is on, etcd lets only root run them, and in a member's pod etcdctl is the user
of the member's certificate.
"""

from __future__ import annotations

from etcd_stateful.certificates import operator_secret
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.upkeep import authentication


def etcdctl(seen: Observation, command: str) -> str:
    return f"etcdctl --user root {command}" if _has_users(seen) else f"etcdctl {command}"


def save(seen: Observation, where: str) -> str:
    """How to save a member's data. In its pod the file would end with the member's volume, and
    cannot be copied from there: etcd's image has no `tar`, which `kubectl cp` needs.

    Without a quorum etcd accepts no password, but it does accept root's certificate.

    Args:
        where: the pod to connect to, for the sentence.
    """
    words = f"etcdctl snapshot save by kubectl port-forward to {where}"
    if not _has_users(seen):
        return words
    return f"{words} with the certificate in Secret {operator_secret(seen.cluster)}"


def _has_users(seen: Observation) -> bool:
    """Whether authentication is, or may be, on."""
    return authentication.is_looked_at(seen) and seen.cluster.links.client.is_encrypted
