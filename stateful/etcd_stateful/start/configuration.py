"""The settings of a pod's `start`, and the etcd configurations that it writes.

The configurations are on the data volume, beside the data that they are valid for. etcd always gets
the same path, `data/member/wal/../../../etcd.yaml`, which leads to one of two files:

- Before there is a WAL, `data/member/wal` is a symbolic link into `first/`, and the path leads to
  `first/etcd.yaml`, the configuration of the ticket. etcd replaces the link by a directory when it
  creates its WAL (`wal.renameWAL`, the same in 3.5, 3.6 and 3.7).
- From then on the path leads to `etcd.yaml`, with which etcd cannot bootstrap. So a container that
  restarts cannot start an empty member, whatever is missing: the data, the files of the WAL, or its
  directory (without which the path does not exist).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from etcd_stateful import naming
from etcd_stateful.start import ticket
from etcd_stateful.start.marker import Marker

FILE: Final = "etcd.yaml"
FIRST: Final = "first"
"""Folder of the configuration for a first start."""
FIRST_LOG: Final = "first/data/member/wal"
"""Where `data/member/wal` leads before there is a WAL; always empty."""
LINK: Final = "../../first/data/member/wal"
"""Target of the link; relative, so that it is valid wherever the volume is mounted."""
DNS_TIMEOUT: Final = 30
"""Default of the seconds to wait until DNS resolves the pod's own name."""

FORBIDDEN_OPTIONS: Final = frozenset(
    {
        # The WAL would be where neither `start` nor the path of the configuration looks for it.
        "wal-dir",
        # It would remove members, and lose acknowledged writes, at a later restart.
        "force-new-cluster",
        # These bootstrap without a ticket; `proxy` is 3.5's mode without a member.
        "discovery",
        "discovery-config",
        "discovery-fallback",
        "discovery-proxy",
        "discovery-srv",
        "discovery-srv-name",
        "proxy",
    }
)
"""Keys of etcd's configuration that no base option may set."""


class BadSettings(ValueError):
    """The environment does not contain valid settings."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Which member this pod is, and how its etcd listens. Ports and paths differ in tests only.

    `listen_host` is part of URLs, so an IPv6 address has brackets. `dns_timeout` is in seconds.
    """

    cluster_uid: str
    epoch: int
    member: str
    pod_uid: str
    pod_ip: str
    host: str
    client_scheme: str = "http"
    peer_scheme: str = "http"
    plaintext_clients: bool = False
    """Whether clients are also served without TLS, on the same port."""
    dns_timeout: float = DNS_TIMEOUT
    options: Mapping[str, object] = field(default_factory=dict)
    listen_host: str = "0.0.0.0"  # noqa: S104 - a pod serves its whole network
    client_port: int = naming.CLIENT_PORT
    peer_port: int = naming.PEER_PORT
    metrics_port: int = naming.METRICS_PORT
    data_directory: str = naming.DATA_DIRECTORY

    def marker(self, member_id: int, cluster_id: int) -> Marker:
        """The marker for data of this pod with these etcd IDs."""
        return Marker(self.cluster_uid, self.epoch, self.member, member_id, cluster_id)


def parse_settings(environment: Mapping[str, str]) -> Settings:
    """The settings in POD_NAME, POD_UID, POD_IP and START_SETTINGS; raises BadSettings."""
    try:
        given = json.loads(_required(environment, "START_SETTINGS"))
    except (ValueError, RecursionError) as error:
        raise BadSettings(f"START_SETTINGS is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise BadSettings("START_SETTINGS is not a JSON object")
    member = _required(environment, "POD_NAME")
    pod_ip = _required(environment, "POD_IP")
    return Settings(
        cluster_uid=_text(given, "clusterUID"),
        epoch=_count(given, "epoch"),
        member=member,
        pod_uid=_required(environment, "POD_UID"),
        pod_ip=pod_ip,
        host=f"{member}.{_text(given, 'domain')}",
        client_scheme=_text(given, "clientScheme"),
        peer_scheme=_text(given, "peerScheme"),
        plaintext_clients=given.get("plaintextClients") is True,
        dns_timeout=_count(given, "dnsTimeoutSeconds") or DNS_TIMEOUT,
        options=_options(given.get("etcd", {})),
        listen_host="[::]" if ":" in pod_ip else "0.0.0.0",  # noqa: S104
    )


def run_config(settings: Settings) -> bytes:
    """A configuration that cannot bootstrap: state `existing`, with this member alone.

    With a WAL etcd ignores both. Without one it finds no peer to ask for the members, and exits.
    """
    return _config(
        settings,
        {
            "initial-cluster": own_entry(settings),
            "initial-cluster-state": "existing",
            "initial-cluster-token": settings.cluster_uid,
        },
    )


def ticket_config(settings: Settings, taken: ticket.Ticket) -> bytes:
    """The configuration for the first start of a member, from its ticket."""
    return _config(
        settings,
        {
            "initial-cluster": taken.initial_cluster,
            "initial-cluster-state": taken.state,
            "initial-cluster-token": taken.token,
            "initial-advertise-peer-urls": _own_urls(settings, taken.initial_cluster),
        },
    )


def _own_urls(settings: Settings, initial_cluster: str) -> str:
    """The peer URLs that etcd compares with the member list. While TLS is turned on, there are more
    than the one that it listens on."""
    entries = (entry.partition("=") for entry in initial_cluster.split(","))
    return ",".join(url for name, _, url in entries if name == settings.member)


def own_entry(settings: Settings) -> str:
    """This member's entry in an `initial-cluster`."""
    return f"{settings.member}={_peer_url(settings)}"


def ignored_options(settings: Settings) -> tuple[str, ...]:
    """Options in the settings that `start` does not pass on to etcd, sorted."""
    owned = set(_own_options(settings)) | FORBIDDEN_OPTIONS
    owned |= {"initial-cluster", "initial-cluster-state", "initial-cluster-token"}
    return tuple(sorted(key for key in settings.options if key in owned or not _is_plain(key)))


def _is_plain(key: str) -> bool:
    """Go matches JSON keys regardless of case, with Unicode folding (a long s is an s). So only a
    plain lower-case key can be compared with the forbidden ones."""
    return key.isascii() and key == key.lower() and key.replace("-", "").isalnum()


def _config(settings: Settings, bootstrap: dict[str, object]) -> bytes:
    dropped = ignored_options(settings)
    options = {key: value for key, value in settings.options.items() if key not in dropped}
    content = options | _own_options(settings) | bootstrap
    # JSON is YAML; etcd reads it with --config-file.
    return json.dumps(content, indent=2, sort_keys=True).encode() + b"\n"


def _own_options(settings: Settings) -> dict[str, object]:
    peer, host = settings.peer_scheme, settings.listen_host
    return {
        "name": settings.member,
        "data-dir": settings.data_directory,
        "listen-client-urls": _client_urls(settings, host),
        "listen-peer-urls": f"{peer}://{host}:{settings.peer_port}",
        # In plaintext, because the kubelet's probes have no certificate.
        "listen-metrics-urls": f"http://{host}:{settings.metrics_port}",
        "advertise-client-urls": _client_urls(settings, settings.host),
        "initial-advertise-peer-urls": _peer_url(settings),
        "strict-reconfig-check": True,
    }


def _client_urls(settings: Settings, host: str) -> str:
    schemes = ["http"] if settings.plaintext_clients and settings.client_scheme != "http" else []
    every = (*schemes, settings.client_scheme)
    return ",".join(f"{scheme}://{host}:{settings.client_port}" for scheme in every)


def _peer_url(settings: Settings) -> str:
    return f"{settings.peer_scheme}://{settings.host}:{settings.peer_port}"


def _required(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name, "")
    if not value:
        raise BadSettings(f"{name} is not set")
    return value


def _text(given: dict[str, object], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value:
        raise BadSettings(f"START_SETTINGS: {name} is not a text")
    return value


def _count(given: dict[str, object], name: str) -> int:
    value = given.get(name)
    if type(value) is not int or value < 0:
        raise BadSettings(f"START_SETTINGS: {name} is not a whole number")
    return value


def _options(given: object) -> dict[str, object]:
    if not isinstance(given, dict):
        raise BadSettings("START_SETTINGS: etcd is not an object")
    return given
