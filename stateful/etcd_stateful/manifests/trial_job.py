"""The Job of a trial restore: a pod in which a backup is restored, started and read.

    fetch (init)    the operator's image, with the store's credentials: downloads the backup and its
                    manifest
    etcdutl (init)  the image of the etcd that it was taken from: creates a data directory
    etcd (sidecar)  the same image, listening on loopback only
    backup          the operator's image: compares the data, and ends the pod

Everything is in an emptyDir, which is deleted with the pod.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from etcd_stateful import naming
from etcd_stateful.api.backup import EtcdBackup
from etcd_stateful.backup import order as orders
from etcd_stateful.backup import trial
from etcd_stateful.backup.observed import Run
from etcd_stateful.backup.order import Order
from etcd_stateful.backup.outcome import FINAL_EXIT, Stored
from etcd_stateful.backup.plan import trial_run
from etcd_stateful.manifests.backup_job import CONTAINER, job, order
from etcd_stateful.manifests.common import Manifest
from etcd_stateful.manifests.jobs import (
    ETCDUTL,
    MALLOC_ENVIRONMENT,
    NO_STACK_TRACE,
    pod_failure_policy,
    unexpanded,
)
from etcd_stateful.manifests.pod import RESTRICTED_CONTAINER

FETCH: Final = "fetch"

_VOLUME: Final = "trial"
_ETCD: Final = {"requests": {"cpu": "100m", "memory": "128Mi"}}
"""There is no limit: how much memory etcd needs depends on the number of keys."""


def trial_job(
    backup: EtcdBackup,
    run: Run,
    stored: Stored,
    *,
    etcd_image: str,
    operator_image: str,
    pull_secrets: Sequence[Manifest] = (),
) -> Manifest:
    """Restores what was stored and compares it with what the cluster held.

    Args:
        pull_secrets: those of the cluster, for its etcd image.
    """
    told = replace(
        order(backup, None),
        endpoints=(),
        client_secret="",
        store=replace(backup.store, key=stored.key),
        stamped=False,
        keep=0,
        measure=False,
        action="prove",
        expected=stored.sha256,
        size=stored.size,
    )
    made = job(backup, trial_run(run), told, operator_image, pull_secrets)
    pod: dict[str, Any] = made["spec"]["template"]["spec"]
    made["spec"]["podFailurePolicy"] = pod_failure_policy(FINAL_EXIT, FETCH, CONTAINER)
    [ours] = pod["containers"]
    ours.pop("ports", None)
    pod["initContainers"] = _before(backup, told, ours, etcd_image)
    pod["containers"] = [ours | {"volumeMounts": [_mount()]}]
    pod["volumes"] = [*pod.get("volumes", ()), {"name": _VOLUME, "emptyDir": {}}]
    return made


def _before(backup: EtcdBackup, told: Order, ours: Manifest, image: str) -> list[Manifest]:
    bring = unexpanded(orders.serialise(replace(told, action="bring")))
    fetch = ours | {
        "name": FETCH,
        "env": [{"name": orders.VARIABLE, "value": bring}, *MALLOC_ENVIRONMENT],
        "volumeMounts": [*(_read_only(one) for one in ours["volumeMounts"]), _mount()],
    }
    of_etcd = {
        "image": image,
        "env": [NO_STACK_TRACE],
        "volumeMounts": [_mount()],
        "securityContext": RESTRICTED_CONTAINER,
        "resources": dict(backup.pod.resources or _ETCD),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    etcdutl = {"name": ETCDUTL, "command": trial.etcdutl()} | of_etcd
    etcd = {
        "name": naming.ETCD_CONTAINER,
        "command": trial.etcd(),
        "restartPolicy": "Always",
    }
    return [fetch, etcdutl, etcd | of_etcd]


def _mount() -> Manifest:
    return {"name": _VOLUME, "mountPath": trial.FOLDER}


def _read_only(mount: Manifest) -> Manifest:
    return {**mount, "readOnly": True}
