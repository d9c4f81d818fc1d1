"""If an edit changes both the version and the pod template, the version is changed first: the old
version must not get an option that only the new one knows, and one restart is then enough for both.

Until the record names the new version, the StatefulSet keeps its template, and only its replicas
are changed. Members that join meanwhile run what the others run.
"""

from __future__ import annotations

from typing import Any, Final

from etcd_stateful import naming
from etcd_stateful.manifests.start_settings import epoch_in
from etcd_stateful.membership import roster
from etcd_stateful.membership.beginning.bootstrap import at_running_version, running_version
from etcd_stateful.membership.observation import Observation, is_latched, recorded
from etcd_stateful.membership.rolling import upgrade
from etcd_stateful.observed.objects import Live
from etcd_stateful.observed.pods import Pod
from etcd_stateful.versions import made_for

SILENCE_SECONDS: Final = 60.0
"""If there has been no quorum for this long, the edit may be the cure, and is not put off."""

PATIENCE_SECONDS: Final = 600.0
"""If a member's pod is in trouble and older than this, the edit may be the cure, even if etcd does
not fail in it. A younger pod may just be waiting for a node or a volume. The same holds for a
member that has been without a pod for this long: a quota or a policy may refuse the pod as it
is."""


def keeps_template(seen: Observation) -> bool:
    """Whether the StatefulSet keeps its live template for now, although the spec asks for another.

    Only if the two differ in nothing but the spec: a template that a recovery, a change of TLS or
    of an authority needs is not put off.
    """
    live = seen.stateful_set
    if live is None or not is_latched(seen) or not upgrade.is_due(seen):
        return False
    spec, _, besides = spec_hash(live).partition("-")
    wanted, _, besides_wanted = at_running_version(seen).template_hash.partition("-")
    if spec == wanted or besides != besides_wanted:
        return False
    of_epoch = epoch_in(live["spec"]["template"]["spec"]) == recorded(seen).epoch
    return of_epoch and not (_names_another_version(seen, live) or _may_be_a_cure(seen))


def advice(seen: Observation) -> str:
    """What to do if a pod that cannot start needs the edit that waits; empty if none waits."""
    if not keeps_template(seen):
        return ""
    now = running_version(seen)
    return (
        ". The rest of the edit waits for spec.version, which waits for this pod: if the pod "
        f"needs that edit, set spec.version back to {now} until it runs"
    )


def template_hash(seen: Observation) -> str:
    """The hash of what pods are created from now, as in their annotation."""
    if seen.stateful_set is not None and keeps_template(seen):
        return spec_hash(seen.stateful_set)
    return at_running_version(seen).template_hash


def is_held_up(seen: Observation) -> bool:
    """Whether the template that pods are to be created from does not get into the StatefulSet:
    writing it has failed, or others have undone it.

    Not if they only change what pods are not told apart by, such as the registry of an image.
    """
    off, live = seen.put_off.get(("StatefulSet", seen.cluster.name)), seen.stateful_set
    if off is None or live is None or not off.undone:
        return off is not None
    return spec_hash(live) != template_hash(seen) or _names_another_version(seen, live)


def spec_hash(live: Live | None) -> str:
    """The hash of what pods are created from, by the annotation in the StatefulSet's template."""
    metadata: dict[str, Any] = live["spec"]["template"].get("metadata") or {} if live else {}
    return str((metadata.get("annotations") or {}).get(naming.SPEC_HASH, ""))


def _names_another_version(seen: Observation, live: Live) -> bool:
    """Whether somebody has put an image of another version into the template: pods would run it
    without any of the checks (I9). An image that is named by its digest does not count, as its
    version is unknown."""
    containers = live["spec"]["template"]["spec"]["containers"]
    images = [one.get("image", "") for one in containers if one["name"] == naming.ETCD_CONTAINER]
    return any(made_for("", one) not in (None, running_version(seen)) for one in images)


def _may_be_a_cure(seen: Observation) -> bool:
    """Whether members fail that the edit may be meant to fix. An ordinal that has no member yet, or
    that is about to be removed, does not count."""
    if _is_without_quorum(seen) or any(pod.start_missing for pod in seen.pods):
        return True
    stays = (seat for seat in roster.seats(seen) if seat.ordinal < seen.cluster.size)
    members = (seat for seat in stays if seat.is_voter or seen.etcd is None)
    return any(
        _fails(seat.pod) or roster.lacks_pod_for(seen, seat, PATIENCE_SECONDS) for seat in members
    )


def _is_without_quorum(seen: Observation) -> bool:
    """Whether there has been no quorum for longer than electing a leader takes. A pod that is Ready
    proves a quorum, even if the operator cannot reach it."""
    silent = seen.etcd is None and not any(pod.ready for pod in seen.pods)
    return silent and seen.true_for.get("Degraded", 0.0) > SILENCE_SECONDS


def _fails(pod: Pod | None) -> bool:
    if pod is None or not pod.trouble or pod.tried_again:
        return False
    return pod.crashing or pod.image_missing or pod.age > PATIENCE_SECONDS
