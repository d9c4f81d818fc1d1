"""What TLS adds to a pod: volumes with the members' certificates, and etcd's configuration.

All certificates are in Secrets of the same format, coreos's, so nothing here depends on who issued
them. etcd reloads its certificate and key for each handshake, but reads its trusted CAs (the
`-ca.crt` files) only at start. So once an authority is rotated, that file is mounted from a key of
the Secret that contains a digest of the CAs: a change of CAs then changes the template.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.api.tls import Trust
from etcd_stateful.certificates import (
    PEER_FILES,
    SERVER_FILES,
    Files,
    peer_secret,
    pinned_file,
    pinned_in,
    server_secret,
)
from etcd_stateful.manifests.common import Manifest

_PEER: Final = "peer-tls"
_SERVER: Final = "server-tls"
_MODE = 0o440
"""Readable by the group, which `fsGroup` sets on files of a Secret volume, and not by others."""


def volumes(cluster: EtcdCluster) -> list[Manifest]:
    """The certificates' volumes. They are not optional: without them etcd could not start, and the
    kubelet's message says which Secret is missing."""
    return [
        {
            "name": name,
            "secret": {
                "secretName": secret,
                "items": [{"key": _key(key, files, trust), "path": key} for key in files],
                "defaultMode": _MODE,
            },
        }
        for name, secret, files, _, trust in _mounted(cluster)
    ]


def _key(file: str, files: Files, trust: str) -> str:
    return pinned_file(file, trust) if trust and file == files.authority else file


def trust_in(pod: Mapping[str, Any]) -> Trust:
    """The trust bundles that pods of this spec are started with."""
    keys = {
        (volume.get("name"), item.get("key", ""))
        for volume in pod.get("volumes") or ()
        for item in (volume.get("secret") or {}).get("items") or ()
    }
    return Trust(
        _pinned_among(keys, _PEER, PEER_FILES.authority),
        _pinned_among(keys, _SERVER, SERVER_FILES.authority),
    )


def _pinned_among(keys: set[tuple[str, str]], volume: str, bundle: str) -> str:
    found = (pinned_in(bundle, key) for name, key in keys if name == volume)
    return next((trust for trust in found if trust), "")


def mounts(cluster: EtcdCluster) -> list[Manifest]:
    return [
        {"name": name, "mountPath": directory, "readOnly": True}
        for name, _, _, directory, _ in _mounted(cluster)
    ]


def options(cluster: EtcdCluster) -> dict[str, object]:
    """etcd's TLS options: on both links, both sides have to present a certificate."""
    found: dict[str, object] = {}
    if cluster.links.peer.is_encrypted:
        found["peer-transport-security"] = _security(naming.PEER_TLS, PEER_FILES)
    if cluster.links.client.is_encrypted:
        found["client-transport-security"] = _security(naming.SERVER_TLS, SERVER_FILES)
    return found


def environment(cluster: EtcdCluster) -> dict[str, str]:
    """Variables with which `kubectl exec <pod> -- etcdctl get key` works.

    ETCDCTL_ENDPOINTS is not set: etcdctl connects to this member by default, and refuses to run if
    `--endpoints` is given in addition. With user-provided certificates nothing is set: those need
    not be valid for loopback or as client certificates, and the variables would keep users from
    giving other ones as flags.
    """
    if cluster.links.client.mode not in ("Managed", "Issued"):
        return {}
    return {
        "ETCDCTL_CACERT": f"{naming.SERVER_TLS}/{SERVER_FILES.authority}",
        "ETCDCTL_CERT": f"{naming.SERVER_TLS}/{SERVER_FILES.certificate}",
        "ETCDCTL_KEY": f"{naming.SERVER_TLS}/{SERVER_FILES.key}",
    }


def _security(directory: str, files: Files) -> Manifest:
    return {
        "cert-file": f"{directory}/{files.certificate}",
        "key-file": f"{directory}/{files.key}",
        "trusted-ca-file": f"{directory}/{files.authority}",
        "client-cert-auth": True,
    }


def _mounted(cluster: EtcdCluster) -> list[tuple[str, str, Files, str, str]]:
    found, trust = [], cluster.trust
    if cluster.links.peer.is_encrypted:
        found.append((_PEER, peer_secret(cluster), PEER_FILES, naming.PEER_TLS, trust.peer))
    if cluster.links.client.is_encrypted:
        secret = server_secret(cluster)
        found.append((_SERVER, secret, SERVER_FILES, naming.SERVER_TLS, trust.client))
    return found
