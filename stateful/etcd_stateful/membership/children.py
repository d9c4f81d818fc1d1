"""The objects that a cluster owns besides its Secrets: how they should be, and what restores them.

Objects that members or the safety of their data depend on come first, and everything else waits for
them. The others hold nothing up: if the API server refuses a write, or somebody undoes it each
time, it is reported and retried after a while.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from etcd_stateful import naming
from etcd_stateful.manifests.common import Manifest
from etcd_stateful.manifests.drift import drift
from etcd_stateful.manifests.exclusive import excluded
from etcd_stateful.manifests.network_policy import network_policy
from etcd_stateful.manifests.services import client_service, headless_service
from etcd_stateful.manifests.statefulset import is_assumed, stateful_set, version_of
from etcd_stateful.membership import wording
from etcd_stateful.membership.beginning import bootstrap
from etcd_stateful.membership.members import budget, replicas
from etcd_stateful.membership.observation import Observation, is_latched, recorded
from etcd_stateful.membership.rolling import version_first
from etcd_stateful.membership.steps import ApplyChild, Wait
from etcd_stateful.membership.tls import issued
from etcd_stateful.observed.objects import Live, finalizers_of_others

_OPTIONAL: Final = frozenset({"PodDisruptionBudget", "NetworkPolicy"})
"""Kinds of children that members form and serve without."""


def required(seen: Observation) -> tuple[tuple[Live | None, Manifest], ...]:
    """The objects that pods need to start and to find each other."""
    return (
        (seen.headless_service, headless_service(seen.cluster)),
        (seen.stateful_set, _stateful_set(seen)),
    )


def optional(seen: Observation) -> Iterator[tuple[Live | None, Manifest]]:
    """The objects that members can form a cluster and serve without, as far as they are due."""
    if seen.operator is not None:
        yield seen.network_policy, network_policy(seen.cluster, seen.operator)
    if is_latched(seen):
        yield seen.client_service, client_service(seen.cluster)
        yield seen.disruption_budget, budget.manifest(seen)


def is_optional(seen: Observation, kind: str, name: str) -> bool:
    """Whether members can do without this object. Once the cluster has formed, that is also true of
    the applications' client certificate, and of the cert-manager Certificates: their first results
    are in use by then."""
    if kind in ("Certificate", "Secret"):
        shown = naming.client_certificate(seen.cluster.name)
        return is_latched(seen) and (name == shown or name in issued.names(seen))
    return kind in _OPTIONAL or name == naming.client_service(seen.cluster.name)


def put_back(live: Live | None, manifest: Manifest) -> ApplyChild | Wait | None:
    kind, name = kind_and_name(manifest)
    if live is None:
        # Final, so that it is decided again from a fresh read. A stale cache may have old claims,
        # and so the wrong replicas (I5), or an old record, and so the wrong version: the record may
        # be rewritten until the cluster has formed (I9).
        final = kind == "StatefulSet"
        return ApplyChild(kind, name, manifest, f"{kind} {name} does not exist", final)
    if live["metadata"].get("deletionTimestamp"):
        return _to_be_gone(kind, live)
    if where := drift(live, manifest) or excluded(live, manifest):
        # A decision from a stale cache must not undo later changes, above all of the replicas.
        manifest["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]
        reason = f"{kind} {name} differs at {where}"
        return ApplyChild(kind, name, manifest, reason, _takes_away(live, manifest))
    return None


def being_deleted(seen: Observation) -> Wait | None:
    """Waits for an object that is being deleted. Asked late, because a finalizer may keep it for
    ever, and members do without it, or with it as it is: names resolve until the headless Service
    is gone."""
    issued_ones = seen.certificates.issued.values() if seen.certificates else ()
    found = (
        ("Service", seen.headless_service),
        ("NetworkPolicy", seen.network_policy),
        ("Service", seen.client_service),
        ("PodDisruptionBudget", seen.disruption_budget),
        *(("Certificate", one.certificate) for one in issued_ones),
    )
    for kind, live in found:
        if live is not None and live["metadata"].get("deletionTimestamp"):
            return _to_be_gone(kind, live)
    return None


def _to_be_gone(kind: str, live: Live) -> Wait:
    metadata = live["metadata"]
    words = f"{kind} {metadata['name']}, which is being deleted, to be gone; then it is recreated"
    kept = finalizers_of_others(metadata)
    return Wait(f"{words} ({wording.kept_by(kept)})" if kept else words)


def kind_and_name(manifest: Mapping[str, Any]) -> tuple[str, str]:
    return str(manifest["kind"]), str(manifest["metadata"]["name"])


def _stateful_set(seen: Observation) -> Manifest:
    record = recorded(seen)
    manifest = stateful_set(
        bootstrap.at_running_version(seen),
        replicas=replicas.wanted(seen),
        operator_image=seen.operator_image,
        epoch=record.epoch,
        begun=record.begun,
        assumed=record.untried,
    )
    if seen.stateful_set is not None:
        # Kubernetes lets nobody change them, so they stay as an older operator rendered them.
        live = seen.stateful_set["spec"]
        manifest["spec"]["volumeClaimTemplates"] = live.get("volumeClaimTemplates", [])
        if is_assumed(seen.stateful_set) and not record.untried:
            # What a manifest leaves out is no drift; but this note must not outlive the guess.
            manifest["metadata"]["annotations"][naming.ASSUMED_ANNOTATION] = ""
        if (live.get("ordinals") or {}).get("start"):
            # Left out as well, and the controller stops the pods below it.
            manifest["spec"]["ordinals"] = {"start": 0}
        if version_first.keeps_template(seen):
            manifest["spec"]["template"] = live["template"]
    return manifest


def _takes_away(live: Live, manifest: Manifest) -> bool:
    """Whether the write stops pods, lets others evict them, or makes them come back with another
    version."""
    match manifest["kind"]:
        case "StatefulSet":
            fewer = manifest["spec"]["replicas"] < live["spec"]["replicas"]
            return bool(fewer or version_of(live) != version_of(manifest))
        case "PodDisruptionBudget":
            return budget.allows_more_evictions(live, manifest)
        case _:
            return False
