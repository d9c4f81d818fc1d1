"""What the Job of a recovery decides about the survivor's volume (`manifests/recovery_job.py`).

The marker says how far it has come, so that the Job's pod may die at any point:

    marker of an earlier epoch           nothing has happened yet
    marker set aside, none in its place  begun: `start` lets nobody run this volume
    marker of the new epoch              done; written last

No operator and no key are needed: whoever makes the Job names member, cluster and epoch, and the
volume has to be exactly that member's. Nothing here does I/O.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from etcd_stateful.start import marker, wal
from etcd_stateful.start.configuration import BadSettings, Settings, parse_settings, run_config
from etcd_stateful.start.rules import VolumeFacts
from etcd_stateful.untrusted import loads

ASIDE: Final = "recovery.json"
"""The marker of the epoch before, set aside."""

CONFIG: Final = "recovery.yaml"

CONFIG_PATH: Final = "data/member/wal/../../../recovery.yaml"
"""How etcd is told of it, from the volume's root: with the log gone, it cannot be opened either."""

REFUSED_EXIT: Final = 3
"""Exit code when the volume is not the survivor's: another try would see the same."""

LOOPBACK: Final = "127.0.0.1"

PASSWORD_FOLDER: Final = "/etc/etcd-root"  # noqa: S105 - where it is, not what
PASSWORD_FILE: Final = "password"  # noqa: S105
"""Where the Job finds the password of etcd's user root, where the spec names its Secret."""


@dataclass(frozen=True, slots=True)
class Order:
    """Which member's volume is to become a cluster of one. The settings' epoch is the new one."""

    settings: Settings
    member_id: int
    cluster_id: int

    @property
    def marker(self) -> marker.Marker:
        return self.settings.marker(self.member_id, self.cluster_id)


@dataclass(frozen=True, slots=True)
class Begin:
    """Set the marker aside, then go on as if that had been done before."""


@dataclass(frozen=True, slots=True)
class GoOn:
    """The marker is aside: write the configuration with `force-new-cluster`."""


@dataclass(frozen=True, slots=True)
class Finished:
    """Nothing is left to do."""


@dataclass(frozen=True, slots=True)
class NotThis:
    """Not the volume that was ordered; it is left as it is."""

    why: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """It cannot be told what the volume is; it may be readable at the next try."""

    why: str


Verdict = Begin | GoOn | Finished | NotThis | Unreadable


def parse_order(environment: Mapping[str, str]) -> Order:
    """The order in RECOVERY and what `start` also reads; raises BadSettings."""
    settings = parse_settings(environment)
    try:
        given = loads(environment.get("RECOVERY", ""))
        ids = [int(given[key], 16) for key in ("memberID", "clusterID")]
    except (ValueError, KeyError, TypeError) as error:
        raise BadSettings(f"RECOVERY does not name a member and its cluster: {error}") from error
    if not all(0 < one <= marker.MAX_ID for one in ids):
        raise BadSettings("RECOVERY names IDs that none has")
    return Order(settings, *ids)


def inspect(order: Order, facts: VolumeFacts, aside: bytes | None) -> Verdict:
    """How far this volume has come.

    Args:
        aside: content of the marker that was set aside, None where there is none.
    """
    if facts.problem:
        return Unreadable(facts.problem)
    if not facts.heads:
        return NotThis("there is no log on the volume")
    try:
        log = wal.identity(facts.heads)
    except wal.Garbled as error:
        return NotThis(f"the log cannot be understood: {error}")
    if (log.member_id, log.cluster_id) != (order.member_id, order.cluster_id):
        found = f"member {log.member_id:016x} of etcd cluster {log.cluster_id:016x}"
        return NotThis(f"the log is of {found}")
    if facts.marker is None:
        return _inspect_aside(order, aside)
    return _inspect_marker(order, facts.marker)


def _inspect_aside(order: Order, aside: bytes | None) -> Verdict:
    if aside is None:
        return NotThis("a log without a marker")
    why = _not_of_before(order, aside)
    return NotThis(f"the marker that was set aside: {why}") if why else GoOn()


def _inspect_marker(order: Order, text: bytes) -> Verdict:
    if marker.parse(text) == order.marker:
        return Finished()
    why = _not_of_before(order, text)
    return NotThis(why) if why else Begin()


def _not_of_before(order: Order, text: bytes) -> str:
    """Why a marker is not this member's of an earlier epoch; empty when it is."""
    named = marker.parse(text)
    if isinstance(named, marker.Malformed):
        return named.why
    if replace(named, epoch=order.settings.epoch) != order.marker:
        return f"the marker names {named.member} of cluster {named.cluster_uid}, or other IDs"
    if named.epoch >= order.settings.epoch:
        return f"the marker is of epoch {named.epoch}, and {order.settings.epoch} is to begin"
    return ""


def config(order: Order, *, force: bool) -> bytes:
    """etcd's configuration in the Job: `start`'s, which cannot bootstrap, on loopback alone.

    Without `force` for a volume that is finished: etcd runs on it, and nothing comes of it.
    """
    settings = replace(order.settings, options={}, listen_host=LOOPBACK, plaintext_clients=False)
    content: dict[str, Any] = json.loads(run_config(settings))
    # Loopback needs no TLS, whatever the URLs say that the members know each other by.
    for key in ("listen-client-urls", "listen-peer-urls"):
        content[key] = content[key].replace("https://", "http://")
    content |= {"force-new-cluster": force, "strict-reconfig-check": False}
    return json.dumps(content, indent=2, sort_keys=True).encode() + b"\n"


def left_over(order: Order, members: Iterable[Mapping[str, Any]]) -> list[int]:
    """Members that etcd left on the list beside the survivor (before 3.5.22, 3.6.1).

    Raises ValueError when the survivor is not on it, or is no voter.
    """
    listed = {int(member["ID"]): bool(member.get("isLearner")) for member in members}
    if listed.get(order.member_id) is not False:
        raise ValueError(f"member {order.member_id:016x} is not a voter of its own cluster")
    return sorted(listed.keys() - {order.member_id})
