"""Decisions of the recovery Job about the survivor's volume (`manifests/recovery_job.py`).

The marker records the progress, so the Job's pod may die at any point:

    marker of an earlier epoch           not begun
    marker set aside, none in its place  begun: `start` does not run this volume
    marker of the new epoch              finished; it is written last

The Job needs neither the operator nor the cluster's key: its order names member, cluster and epoch,
and the volume must be exactly that member's. Nothing here does I/O.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from etcd_stateful import identity
from etcd_stateful.start import marker, wal
from etcd_stateful.start.configuration import BadSettings, Settings, parse_settings, run_config
from etcd_stateful.start.rules import VolumeFacts
from etcd_stateful.untrusted import loads

ASIDE: Final = "recovery.json"
"""The marker of the earlier epoch, after it was set aside."""

CONFIG: Final = "recovery.yaml"

CONFIG_PATH: Final = "data/member/wal/../../../recovery.yaml"
"""Path of that configuration from the root of the volume. Without a WAL it cannot be opened."""

REFUSED_EXIT: Final = 3
"""Exit code if the volume is not the survivor's, so that another try would see the same."""

QUOTA: Final = "quota-backend-bytes"

LOOPBACK: Final = "127.0.0.1"

PASSWORD_FOLDER: Final = "/etc/etcd-root"  # noqa: S105 - a path, not a password
PASSWORD_FILE: Final = "password"  # noqa: S105
"""Path of the password of etcd's user root, if the spec names its Secret."""


@dataclass(frozen=True, slots=True)
class Order:
    """The member whose volume becomes a cluster of one. The settings have the new epoch."""

    settings: Settings
    member_id: int
    cluster_id: int

    @property
    def marker(self) -> marker.Marker:
        return self.settings.marker(self.member_id, self.cluster_id)


@dataclass(frozen=True, slots=True)
class Begin:
    """Set the marker aside, then go on as with Continue."""


@dataclass(frozen=True, slots=True)
class Continue:
    """The marker is set aside: write the configuration with `force-new-cluster`."""


@dataclass(frozen=True, slots=True)
class Finished:
    """Nothing is left to do."""


@dataclass(frozen=True, slots=True)
class WrongVolume:
    """The volume is not the survivor's, and is left as it is."""

    why: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The volume cannot be read now; the next try may succeed."""

    why: str


Verdict = Begin | Continue | Finished | WrongVolume | Unreadable


def parse_order(environment: Mapping[str, str]) -> Order:
    """The order in RECOVERY and in the settings of `start`; raises BadSettings."""
    settings = parse_settings(environment)
    try:
        given = loads(environment.get("RECOVERY", ""))
        ids = [identity.from_hex(given[key]) for key in ("memberID", "clusterID")]
    except (ValueError, KeyError, TypeError) as error:
        raise BadSettings(f"RECOVERY does not name a member and its cluster: {error}") from error
    return Order(settings, *ids)


def inspect(order: Order, facts: VolumeFacts, aside: bytes | None) -> Verdict:
    """How far the recovery of this volume has come.

    Args:
        aside: content of the marker that was set aside; None if there is none.
    """
    if facts.problem:
        return Unreadable(facts.problem)
    if not facts.heads:
        return WrongVolume("there is no log on the volume")
    try:
        log = wal.identity(facts.heads)
    except wal.Garbled as error:
        return WrongVolume(f"the log cannot be parsed: {error}")
    if (log.member_id, log.cluster_id) != (order.member_id, order.cluster_id):
        found = f"member {log.member_id:016x} of etcd cluster {log.cluster_id:016x}"
        return WrongVolume(f"the log is of {found}")
    if facts.marker is None:
        return _inspect_aside(order, aside)
    return _inspect_marker(order, facts.marker)


def _inspect_aside(order: Order, aside: bytes | None) -> Verdict:
    if aside is None:
        return WrongVolume("a log without a marker")
    why = _not_of_before(order, aside)
    return WrongVolume(f"the marker that was set aside: {why}") if why else Continue()


def _inspect_marker(order: Order, text: bytes) -> Verdict:
    if marker.parse(text) == order.marker:
        return Finished()
    why = _not_of_before(order, text)
    return WrongVolume(why) if why else Begin()


def _not_of_before(order: Order, text: bytes) -> str:
    """Why a marker is not this member's marker of an earlier epoch; empty if it is."""
    named = marker.parse(text)
    if isinstance(named, marker.Malformed):
        return named.why
    if replace(named, epoch=order.settings.epoch) != order.marker:
        return f"the marker names {named.member} of cluster {named.cluster_uid}, or other IDs"
    if named.epoch >= order.settings.epoch:
        return f"the marker is of epoch {named.epoch}, not earlier than {order.settings.epoch}"
    return ""


def config(order: Order, *, force: bool) -> bytes:
    """etcd's configuration in the Job: that of `start`, which cannot bootstrap, on loopback only.

    Of the spec's options only the quota is kept: etcd may have to apply the last writes in the log
    again, and if the file is above the quota meanwhile, it raises an alarm that outlasts the Job.

    Args:
        force: sets `force-new-cluster`; False for a volume that is finished, which it must not
            change.
    """
    kept = {key: value for key, value in order.settings.options.items() if key == QUOTA}
    settings = replace(order.settings, options=kept, listen_host=LOOPBACK, plaintext_clients=False)
    content: dict[str, Any] = json.loads(run_config(settings))
    # Loopback needs no TLS, whatever the scheme of the members' URLs is.
    for key in ("listen-client-urls", "listen-peer-urls"):
        content[key] = content[key].replace("https://", "http://")
    content |= {"force-new-cluster": force, "strict-reconfig-check": False}
    return json.dumps(content, indent=2, sort_keys=True).encode() + b"\n"


def left_over(order: Order, members: Iterable[Mapping[str, Any]]) -> list[int]:
    """Members that etcd left on the member list besides the survivor (before 3.5.22 and 3.6.1).

    Raises ValueError if the survivor is not on the list, or is not a voter.
    """
    listed = {int(member["ID"]): bool(member.get("isLearner")) for member in members}
    if listed.get(order.member_id) is not False:
        raise ValueError(f"member {order.member_id:016x} is not a voter of its own cluster")
    return sorted(listed.keys() - {order.member_id})
