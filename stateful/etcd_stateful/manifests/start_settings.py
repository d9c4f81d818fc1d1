"""START_SETTINGS: the settings of `start` in a pod, and what they tell about a live pod.

`start.configuration.parse_settings` reads them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.api.options import configuration
from etcd_stateful.api.tls import Level, Levels
from etcd_stateful.manifests import tls
from etcd_stateful.manifests.common import Manifest

_VARIABLE: Final = "START_SETTINGS"


def variable(cluster: EtcdCluster, epoch: int) -> Manifest:
    """The environment variable for `start`, and for Jobs that prepare a volume for it."""
    return {"name": _VARIABLE, "value": _serialise(cluster, epoch)}


def _serialise(cluster: EtcdCluster, epoch: int) -> str:
    service = naming.headless_service(cluster.name)
    settings = {
        "clusterUID": cluster.uid,
        "epoch": epoch,
        "domain": f"{service}.{cluster.namespace}.svc{cluster.pod.cluster_domain}",
        "clientScheme": "https" if cluster.links.client.is_encrypted else "http",
        "peerScheme": cluster.links.levels.peer_scheme,
        "dnsTimeoutSeconds": cluster.pod.dns_timeout_seconds,
        "etcd": configuration(cluster.etcd, cluster.version) | tls.options(cluster),
    }
    if cluster.links.client.between:
        settings["plaintextClients"] = True
    return json.dumps(settings, sort_keys=True)


def levels_in(pod: Mapping[str, Any]) -> Levels | None:
    """The levels of TLS that pods of this spec have; None if unknown."""
    return _levels(_settings_in(pod))


def epoch_in(pod: Mapping[str, Any]) -> int | None:
    """The epoch that `start` expects in pods of this spec; None if unknown."""
    return _whole(_settings_in(pod), "epoch")


def quota_in(pod: Mapping[str, Any]) -> int:
    """The quota in bytes that etcd is started with in pods of this spec; 0 if none is set."""
    return _whole(_settings_in(pod), "etcd", "quota-backend-bytes") or 0


def _settings_in(pod: Mapping[str, Any]) -> str:
    containers = pod.get("initContainers") or ()
    starts = (one for one in containers if one.get("name") == naming.START_CONTAINER)
    variables = (variable for start in starts for variable in start.get("env") or ())
    told = (one.get("value") for one in variables if one.get("name") == _VARIABLE)
    return next(told, None) or ""


@lru_cache(maxsize=4096)
def _whole(settings: str, *path: str) -> int | None:
    try:
        said = json.loads(settings)
        for key in path:
            said = said[key]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return said if type(said) is int else None


@lru_cache(maxsize=4096)
def _levels(settings: str) -> Levels | None:
    """Cached, because each pass parses this for every pod."""
    try:
        said = json.loads(settings)
        has_certificate = "peer-transport-security" in said.get("etcd", {})
        peer = _level(said["peerScheme"], between=has_certificate and said["peerScheme"] == "http")
        return Levels(peer, _level(said["clientScheme"], between="plaintextClients" in said))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _level(scheme: str, *, between: bool) -> Level:
    if between:
        return Level.BETWEEN
    return Level.TLS if scheme == "https" else Level.PLAINTEXT
