"""The objects that a cluster has beside its Secrets: as they should be, and what is done for it.

What members and the safety of their data hang by comes first, and all else waits for it. The rest
is put back as soon as it may be: a write that the API server refuses, or that others undo each
time, is put off for a while, told, and holds nothing else up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from etcd_stateful import naming
from etcd_stateful.manifests.common import Manifest
from etcd_stateful.manifests.drift import drift
from etcd_stateful.manifests.network_policy import network_policy
from etcd_stateful.manifests.put_off import CERTIFICATE
from etcd_stateful.manifests.services import client_service, headless_service
from etcd_stateful.manifests.start_settings import epoch_in, levels_in
from etcd_stateful.manifests.statefulset import stateful_set, version_of
from etcd_stateful.manifests.tls import trust_in
from etcd_stateful.membership import bootstrap, budget, issued, replicas, version_first
from etcd_stateful.membership.observation import Observation, is_latched, recorded
from etcd_stateful.membership.steps import (
    ApplyChild,
    IssueCertificate,
    RotateAuthority,
    Step,
    TakeCertificate,
    TouchStatefulSet,
    Wait,
)
from etcd_stateful.observed.objects import Live

_OfSecret = IssueCertificate | TakeCertificate | RotateAuthority
Postponable = ApplyChild | TouchStatefulSet | _OfSecret

_TOUCH: Final = "a touch of StatefulSet"

_LESSER: Final = frozenset({"PodDisruptionBudget", "NetworkPolicy"})
"""Kinds of children that members form and serve without."""


def vital(seen: Observation) -> Iterator[tuple[Live | None, Manifest]]:
    """What pods cannot start, or find each other, without."""
    yield seen.headless_service, headless_service(seen.cluster)
    yield seen.stateful_set, _stateful_set(seen)


def lesser(seen: Observation) -> Iterator[tuple[Live | None, Manifest]]:
    """What members form and serve without, as far as it is due yet."""
    if seen.operator is not None:
        yield seen.network_policy, network_policy(seen.cluster, seen.operator)
    if is_latched(seen):
        yield seen.client_service, client_service(seen.cluster)
        yield seen.disruption_budget, budget.manifest(seen)


def is_lesser(seen: Observation, kind: str, name: str) -> bool:
    """Also what applications show, once there is a cluster to show it to; and what an issuer of
    cert-manager is asked with, once its first answers are in use."""
    if kind in ("Certificate", "Secret"):
        shown = naming.client_certificate(seen.cluster.name)
        return is_latched(seen) and (name == shown or name in issued.names(seen))
    return kind in _LESSER or name == naming.client_service(seen.cluster.name)


def put_back(live: Live | None, manifest: Manifest) -> ApplyChild | Wait | None:
    kind, name = kind_and_name(manifest)
    if live is None:
        # The replicas may go by an old view of the claims (I5), and the version by one of the
        # record, which edits of a cluster that has not formed yet write anew (I9).
        final = kind == "StatefulSet"
        return ApplyChild(kind, name, manifest, f"{kind} {name} is not there", final)
    if live["metadata"].get("deletionTimestamp"):
        return _to_be_gone(kind, name)
    if where := drift(live, manifest):
        # Of this very version: an old view must not undo what came after it, replicas least of all.
        manifest["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]
        reason = f"{kind} {name} differs at {where}"
        return ApplyChild(kind, name, manifest, reason, _takes_away(live, manifest))
    return None


def going(seen: Observation) -> Wait | None:
    """Asked late: something may keep it from ever being gone, and members do without it."""
    issued_ones = seen.certificates.issued.values() if seen.certificates else ()
    found = (
        ("NetworkPolicy", seen.network_policy),
        ("Service", seen.client_service),
        ("PodDisruptionBudget", seen.disruption_budget),
        *(("Certificate", one.certificate) for one in issued_ones),
    )
    for kind, live in found:
        if live is not None and live["metadata"].get("deletionTimestamp"):
            return _to_be_gone(kind, str(live["metadata"]["name"]))
    return None


def _to_be_gone(kind: str, name: str) -> Wait:
    return Wait(f"{kind} {name}, which is being deleted, to be gone; then it is made again")


def kind_and_name(manifest: Mapping[str, Any]) -> tuple[str, str]:
    return str(manifest["kind"]), str(manifest["metadata"]["name"])


def name_of(step: Postponable) -> tuple[str, str]:
    """By which it is known that it was in vain."""
    if isinstance(step, _OfSecret):
        return CERTIFICATE, step.need.secret
    return step.kind if isinstance(step, ApplyChild) else _TOUCH, step.name


def made_by(step: Postponable) -> Manifest:
    return step.manifest if isinstance(step, ApplyChild) else {"metadata": {}}


def may_wait(seen: Observation, step: Step) -> bool:
    """Whether nothing that members do hangs by this write, so that it holds up nothing else."""
    if isinstance(step, TouchStatefulSet):
        return True  # its controller makes the pods by itself, later
    if isinstance(step, _OfSecret):
        return is_latched(seen) and _can_do_without(seen, step)
    if not isinstance(step, ApplyChild):
        return False
    if step.kind == "StatefulSet":
        return _is_like(seen, step.manifest)
    return is_lesser(seen, step.kind, step.name)


def _can_do_without(seen: Observation, step: _OfSecret) -> bool:
    """Whether what is in the Secret is good as it is, or what members have no part in."""
    known = seen.certificates.secrets if seen.certificates else {}
    found = known.get(step.need.secret, {}).get(step.need.role)
    return step.need.role == "application" or bool(found and not found.problem)


def may_touch(seen: Observation) -> bool:
    return not any(kind == _TOUCH for kind, _ in seen.put_off)


def is_put_off(seen: Observation, step: ApplyChild) -> bool:
    """Whether this very write has just been in vain."""
    before = seen.put_off.get((step.kind, step.name))
    return before is not None and before.is_of(step.manifest) and may_wait(seen, step)


def put_off(seen: Observation) -> list[ApplyChild]:
    """The writes that are due and have just been in vain."""
    if not seen.put_off or seen.bootstrap is None:
        return []  # what is wanted goes by the record, which comes first
    wanted = (*vital(seen), *lesser(seen), *issued.children(seen))
    steps = (put_back(live, manifest) for live, manifest in wanted)
    return [step for step in steps if isinstance(step, ApplyChild) and is_put_off(seen, step)]


def is_template_put_off(seen: Observation) -> bool:
    """Whether pods are made from another template than they should be: none is restarted for the
    sake of one then, and nothing is begun that needs the next."""
    return any(step.kind == "StatefulSet" for step in put_off(seen))


def in_words(seen: Observation) -> str:
    """Why children are not as they should be that nothing else waits for; empty where all are."""
    said = [seen.put_off[step.kind, step.name].why for step in put_off(seen)]
    kinds = {CERTIFICATE, *([_TOUCH] if seen.stalled else [])}
    said += [one.why for (kind, _), one in seen.put_off.items() if kind in kinds]
    return "; ".join(said)


def _is_like(seen: Observation, manifest: Mapping[str, Any]) -> bool:
    """Whether pods of the StatefulSet that is there are to the members what those of this one would
    be: as many at most, of the same version and epoch, found and trusting in the same way."""
    live = seen.stateful_set
    if live is None or not is_latched(seen) or version_of(live) != version_of(manifest):
        return False
    has, to_be = live["spec"]["template"]["spec"], manifest["spec"]["template"]["spec"]
    same = all(tell(has) == tell(to_be) for tell in (epoch_in, levels_in, trust_in))
    return same and 0 < seen.replicas <= manifest["spec"]["replicas"]


def _stateful_set(seen: Observation) -> Manifest:
    manifest = stateful_set(
        bootstrap.as_running(seen),
        replicas=replicas.wanted(seen),
        operator_image=seen.operator_image,
        epoch=recorded(seen).epoch,
    )
    if seen.stateful_set is not None:
        # Kubernetes never lets them change, so what an older operator rendered stays.
        live = seen.stateful_set["spec"]
        manifest["spec"]["volumeClaimTemplates"] = live.get("volumeClaimTemplates", [])
        if version_first.keeps_template(seen):
            manifest["spec"]["template"] = live["template"]
    return manifest


def _takes_away(live: Live, manifest: Manifest) -> bool:
    """Whether it ends pods, lets others end them, or has them come back with another version."""
    match manifest["kind"]:
        case "StatefulSet":
            fewer = manifest["spec"]["replicas"] < live["spec"]["replicas"]
            return bool(fewer or version_of(live) != version_of(manifest))
        case "PodDisruptionBudget":
            return budget.is_lowered(live, manifest)
        case _:
            return False
