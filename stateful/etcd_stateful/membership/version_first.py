"""Of an edit of the version and of what pods are made from, the version comes first: an option that
only the new one knows must not be given to the old, and one restart is enough for both.

Until the record names the new version, the StatefulSet keeps the template that it has, and follows
the number of members alone. Those that join meanwhile run what the others run.
"""

from __future__ import annotations

from typing import Any, Final

from etcd_stateful import naming
from etcd_stateful.manifests.start_settings import epoch_in
from etcd_stateful.membership import roster, upgrade
from etcd_stateful.membership.bootstrap import as_running, running_version
from etcd_stateful.membership.observation import Observation, is_latched, recorded
from etcd_stateful.observed.objects import Live
from etcd_stateful.observed.pods import Pod
from etcd_stateful.versions import made_for

SILENCE_SECONDS: Final = 60.0
"""How long no quorum has served that an edit may bring back."""

PATIENCE_SECONDS: Final = 600.0
"""How old a member's pod is that may be in trouble for want of the edit, if etcd does not fail in
it. Until then it may wait for a node, or for a volume that is on its way."""


def keeps_template(seen: Observation) -> bool:
    """Whether pods are made from the template that is there, although the spec asks for another.

    In nothing but the spec may the two differ: what a recovery, a change of TLS or of an authority
    asks of pods is not put off.
    """
    live = seen.stateful_set
    if live is None or not is_latched(seen) or not upgrade.is_due(seen):
        return False
    spec, _, besides = spec_hash(live).partition("-")
    wanted, _, besides_wanted = as_running(seen).template_hash.partition("-")
    if spec == wanted or besides != besides_wanted:
        return False
    of_epoch = epoch_in(live["spec"]["template"]["spec"]) == recorded(seen).epoch
    return of_epoch and not (_names_another_version(seen, live) or _may_be_a_cure(seen))


def template_hash(seen: Observation) -> str:
    """Of what pods are to be made from now, as they carry it."""
    if seen.stateful_set is not None and keeps_template(seen):
        return spec_hash(seen.stateful_set)
    return as_running(seen).template_hash


def spec_hash(live: Live | None) -> str:
    """Of the spec that a StatefulSet's pods are made from, and of what goes along with it."""
    metadata: dict[str, Any] = live["spec"]["template"].get("metadata") or {} if live else {}
    return str((metadata.get("annotations") or {}).get(naming.SPEC_HASH, ""))


def _names_another_version(seen: Observation, live: Live) -> bool:
    """Whether somebody has put another image into the template, which pods would run past every
    gate (I9). One by its digest does not say."""
    containers = live["spec"]["template"]["spec"]["containers"]
    images = [one.get("image", "") for one in containers if one["name"] == naming.ETCD_CONTAINER]
    return any(made_for("", one) not in (None, running_version(seen)) for one in images)


def _may_be_a_cure(seen: Observation) -> bool:
    """Whether pods fail that the edit may be for. An ordinal that has yet to become a member, or is
    to go, needs no cure."""
    if _is_without_quorum(seen) or any(pod.start_missing for pod in seen.pods):
        return True
    stays = (seat for seat in roster.seats(seen) if seat.ordinal < seen.cluster.size)
    members = (seat for seat in stays if seat.is_voter or seen.etcd is None)
    return any(_fails(seat.pod) for seat in members)


def _is_without_quorum(seen: Observation) -> bool:
    """For longer than another leader takes to be elected. One that is Ready proves a quorum,
    whatever the operator hears."""
    silent = seen.etcd is None and not any(pod.ready for pod in seen.pods)
    return silent and seen.true_for.get("Degraded", 0.0) > SILENCE_SECONDS


def _fails(pod: Pod | None) -> bool:
    if pod is None or not pod.is_stuck:
        return False
    return pod.crashing or pod.image_missing or pod.age > PATIENCE_SECONDS
