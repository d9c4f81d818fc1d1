"""Options of etcd: typed fields for the common ones, and a checked map for the rest.

etcd silently ignores unknown keys of its configuration file, including keys that a newer minor has
dropped (`server/embed/config.go`). So a key that is not in the table below is refused by name. The
keys that the operator sets itself (names, URLs, directories, bootstrap, TLS) are not in the table.
Manifests of the coreos operator set options through `pod.etcdEnv` (`ETCD_MAX_TXN_OPS`). These are
read as options too, because etcd ignores its environment if it has a configuration file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from etcd_stateful.api.quantity import parse_quantity
from etcd_stateful.api.reading import Reader
from etcd_stateful.versions import Version

OptionValue = str | int | bool

MIB: Final = 1024**2
GIB: Final = 1024**3
DEFAULT_QUOTA: Final = 2 * GIB
SMALLEST_QUOTA: Final = 16 * MIB
LARGEST_QUOTA: Final = 64 * GIB
DEFAULT_HEARTBEAT: Final = 100
DEFAULT_ELECTION: Final = 1000
BOUNDS: Final = {
    "snapshotCount": (100, 1_000_000),
    "heartbeatIntervalMilliseconds": (10, 10_000),
    "electionTimeoutMilliseconds": (50, 50_000),
}
"""The least and the most, as in the CRD, which does not see what `pod.etcdEnv` sets."""

LARGEST_NUMBER: Final = 2**32 - 1
"""etcd reads `max-concurrent-streams` into 32 bits. The other numbers never need more."""

LONGEST_DURATION: Final = 2**63 - 1
"""Nanoseconds that fit into Go's time.Duration: 292 years."""

TLS_VERSIONS: Final = ("TLS1.2", "TLS1.3")
FOR_HTTP2: Final = "AES_128_GCM_SHA256"
CIPHER_SUITES: Final = tuple(
    f"TLS_ECDHE_{key}_WITH_{cipher}"
    for key in ("ECDSA", "RSA")
    for cipher in (FOR_HTTP2, "AES_256_GCM_SHA384", "CHACHA20_POLY1305_SHA256")
)
"""Those of TLS 1.2 that HTTP/2 permits. Go lets nobody choose those of TLS 1.3."""

LOG_LEVELS: Final = ("debug", "info", "warn", "error", "dpanic", "panic", "fatal")

_DURATION: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)(ns|us|ms|s|m|h)", re.ASCII)
MILLISECOND: Final = 1_000_000
SECOND: Final = 1000 * MILLISECOND
_NANOSECONDS: Final = {
    "ns": 1,
    "us": 1_000,
    "ms": MILLISECOND,
    "s": SECOND,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}


@dataclass(frozen=True, slots=True)
class EtcdOptions:
    """The options of etcd in a spec, in etcd's units."""

    quota_bytes: int = DEFAULT_QUOTA
    compaction_mode: str = "periodic"
    compaction_retention: str = "1h"
    snapshot_count: int | None = None
    heartbeat_ms: int = DEFAULT_HEARTBEAT
    election_ms: int = DEFAULT_ELECTION
    log_level: str = "info"
    tls_min_version: str = ""
    """The lowest version of TLS; empty for etcd's default, 1.2."""
    cipher_suites: tuple[str, ...] = ()
    """For TLS 1.2; empty for Go's choice."""
    others: tuple[tuple[str, OptionValue], ...] = ()


class _BadValue(ValueError):
    """The value is not valid for the option; the message says what is."""


def _number(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) > LARGEST_NUMBER:
        raise _BadValue(f"must be a whole number up to {LARGEST_NUMBER}")
    return int(text)


def _at_least(least: int) -> Callable[[str], OptionValue]:
    """A limit. Below the least etcd takes every request for too large, or every transaction. Its
    own are among these: they announce a member by its URLs, or a member of 3.7 never serves."""

    def read(text: str) -> OptionValue:
        if (found := _number(text)) < least:
            raise _BadValue(f"must be at least {least}")
        return found

    return read


def _flag(text: str) -> OptionValue:
    if text not in ("true", "false"):
        raise _BadValue('must be "true" or "false"')
    return text == "true"


def _duration(text: str) -> int:
    """Nanoseconds, as Go's time.Duration is written in JSON."""
    parts = _DURATION.findall(text[:100])
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise _BadValue('must be a duration such as "500ms" or "1h30m"')
    nanoseconds = int(sum(Decimal(number) * _NANOSECONDS[unit] for number, unit in parts))
    if nanoseconds > LONGEST_DURATION:
        raise _BadValue("must be a duration of at most 292 years")
    return nanoseconds


def _interval(text: str) -> OptionValue:
    """A duration between two checks. Without a pause etcd does little else. With 0 for
    `compact-hash-check-time` it does not start. With 0 for `downgrade-check-time` it never ends a
    downgrade, during which no member can join, and etcd 3.5 does not tell that one is enabled."""
    if (found := _duration(text)) < SECOND:
        raise _BadValue("must be at least 1s")
    return found


def _one_of(*allowed: str) -> Callable[[str], OptionValue]:
    def read(text: str) -> OptionValue:
        if text not in allowed:
            raise _BadValue(f"must be one of {', '.join(allowed)}")
        return text

    return read


_READERS: Final[Mapping[str, Callable[[str], OptionValue]]] = {
    "backend-batch-interval": _duration,
    "backend-batch-limit": _number,
    "backend-bbolt-freelist-type": _one_of("array", "map"),
    "bcrypt-cost": _number,
    "auth-token-ttl": _number,
    "bootstrap-defrag-threshold-megabytes": _number,
    "compact-hash-check-time": _interval,
    "compaction-batch-limit": _number,
    "compaction-sleep-interval": _duration,
    "corrupt-check-time": _duration,
    "downgrade-check-time": _interval,
    "enable-grpc-gateway": _flag,
    "enable-pprof": _flag,
    "grpc-keepalive-interval": _duration,
    "grpc-keepalive-min-time": _duration,
    "grpc-keepalive-timeout": _duration,
    "initial-election-tick-advance": _flag,
    "max-concurrent-streams": _number,
    "max-request-bytes": _at_least(4096),
    "max-snapshots": _number,
    "max-txn-ops": _at_least(1),
    "max-wals": _number,
    "memory-mlock": _flag,
    "metrics": _one_of("basic", "extensive"),
    "pre-vote": _flag,
    "snapshot-catchup-entries": _number,
    "warning-apply-duration": _duration,
    "warning-unary-request-duration": _duration,
    "watch-progress-notify-interval": _duration,
}

_EXPERIMENTAL_IN_3_5: Final = {
    "bootstrap-defrag-threshold-megabytes": "experimental-bootstrap-defrag-threshold-megabytes",
    "compact-hash-check-time": "experimental-compact-hash-check-time",
    "compaction-batch-limit": "experimental-compaction-batch-limit",
    "compaction-sleep-interval": "experimental-compaction-sleep-interval",
    "corrupt-check-time": "experimental-corrupt-check-time",
    "downgrade-check-time": "experimental-downgrade-check-time",
    "memory-mlock": "experimental-memory-mlock",
    "snapshot-catchup-entries": "experimental-snapshot-catch-up-entries",
    "warning-apply-duration": "experimental-warning-apply-duration",
    "watch-progress-notify-interval": "experimental-watch-progress-notify-interval",
}
"""Names in 3.5 of options that have no `experimental-` prefix in 3.6 and 3.7."""

_UNKNOWN_TO_3_5: Final = frozenset({"warning-unary-request-duration"})

_TYPED: Final = {
    "quota-backend-bytes": "quotaBackend",
    "auto-compaction-mode": "autoCompactionMode",
    "auto-compaction-retention": "autoCompactionRetention",
    "snapshot-count": "snapshotCount",
    "heartbeat-interval": "heartbeatIntervalMilliseconds",
    "election-timeout": "electionTimeoutMilliseconds",
    "log-level": "logLevel",
    "tls-min-version": "tlsMinVersion",
    "cipher-suites": "cipherSuites",
}

ENVIRONMENT_PREFIX: Final = "ETCD_"


def read_options(
    etcd: Reader, environment: Mapping[str, str], version: Version | None
) -> EtcdOptions:
    """Reads the options of `spec.etcd`; those in `spec.pod.etcdEnv` apply where it sets none.

    Problems are added to the reader. If the version is not known (None), names are not checked
    against it.
    """
    from_environment = {
        name.removeprefix(ENVIRONMENT_PREFIX).lower().replace("_", "-"): value
        for name, value in environment.items()
    }
    typed = {key: from_environment.pop(key) for key in _TYPED if key in from_environment}
    mode = etcd.text("autoCompactionMode", typed.get("auto-compaction-mode", "periodic")).lower()
    if mode not in ("periodic", "revision"):
        etcd.problem("autoCompactionMode", "must be Periodic or Revision")
    heartbeat = (
        _count(etcd, "heartbeatIntervalMilliseconds", typed.get("heartbeat-interval"))
        or DEFAULT_HEARTBEAT
    )
    election = (
        _count(etcd, "electionTimeoutMilliseconds", typed.get("election-timeout"))
        or DEFAULT_ELECTION
    )
    if election < 5 * heartbeat:
        etcd.problem(
            "electionTimeoutMilliseconds",
            f"must be at least five times the heartbeat interval ({heartbeat}), found {election}",
        )
    least = etcd.choice("tlsMinVersion", TLS_VERSIONS, typed.get("tls-min-version", ""))
    return EtcdOptions(
        quota_bytes=_quota(etcd, typed.get("quota-backend-bytes")),
        compaction_mode=mode,
        compaction_retention=_retention(etcd, mode, typed.get("auto-compaction-retention")),
        snapshot_count=_count(etcd, "snapshotCount", typed.get("snapshot-count")),
        heartbeat_ms=heartbeat,
        election_ms=election,
        log_level=etcd.choice("logLevel", LOG_LEVELS, typed.get("log-level", "info")),
        tls_min_version=least,
        cipher_suites=_cipher_suites(etcd, typed.get("cipher-suites", ""), least),
        others=_others(etcd, from_environment, version),
    )


def _count(etcd: Reader, key: str, fallback: str | None) -> int | None:
    """The number at `key`, else the one in the environment; None if neither is set."""
    least, most = BOUNDS[key]
    if etcd.has(key) or not fallback:
        return etcd.number(key, 0, least, most) or None
    try:
        found = _number(fallback)
    except _BadValue:
        found = 0
    if not least <= found <= most:
        words = f"must be a number from {least} to {most}, found {fallback[:60]!r} in etcdEnv"
        etcd.problem(key, words)
    return found


def _cipher_suites(etcd: Reader, fallback: str, least: str) -> tuple[str, ...]:
    """The cipher suites; those in the environment are separated by commas, as in etcd's flag."""
    found = etcd.listed("cipherSuites", "cipher suites") or tuple(filter(None, fallback.split(",")))
    unknown = [one for one in found if one not in CIPHER_SUITES]
    problem = ""
    if unknown:
        problem = f"must be among {', '.join(CIPHER_SUITES)}, found {unknown[0][:60]!r}"
    elif found and least == TLS_VERSIONS[-1]:
        problem = "cannot be chosen for TLS 1.3: remove them, or set tlsMinVersion to TLS1.2"
    elif found and not any(one.endswith(FOR_HTTP2) for one in found):
        problem = f"must have one that ends in {FOR_HTTP2}, without which etcd cannot serve HTTP/2"
    if problem:
        etcd.problem("cipherSuites", problem)
    return found


def _quota(etcd: Reader, fallback: str | None) -> int:
    raw = etcd.raw.get("quotaBackend", fallback)
    if raw is None:
        return DEFAULT_QUOTA
    value = parse_quantity(str(raw))
    if value is None or not SMALLEST_QUOTA <= value <= LARGEST_QUOTA:
        where = "" if "quotaBackend" in etcd.raw else " in etcdEnv"
        words = f"must be a size from 16Mi to 64Gi, found {str(raw)[:40]!r}{where}"
        etcd.problem("quotaBackend", words)
        return DEFAULT_QUOTA
    return int(value)


def _retention(etcd: Reader, mode: str, fallback: str | None) -> str:
    text = etcd.text("autoCompactionRetention", fallback or "")
    if not text:
        return "1h" if mode == "periodic" else "1000"
    # In mode periodic etcd reads a bare number as hours.
    counts = re.fullmatch(r"[0-9]{1,12}" if mode == "revision" else r"[0-9]{1,6}", text)
    if counts or (mode == "periodic" and _is_age(text)):
        return text
    wanted = "a number of revisions" if mode == "revision" else 'a duration such as "1h"'
    etcd.problem(
        "autoCompactionRetention", f'must be {wanted}, or "0" for none, found {text[:60]!r}'
    )
    return "1h"


def _is_age(text: str) -> bool:
    """Whether it is a duration that etcd can compact by: it divides it, and panics below 10 ns."""
    try:
        return not 0 < _duration(text) < MILLISECOND
    except _BadValue:
        return False


def _others(
    etcd: Reader, environment: Mapping[str, str], version: Version | None
) -> tuple[tuple[str, OptionValue], ...]:
    options = etcd.texts("options")
    read: dict[str, OptionValue] = {}
    given, known = sorted({**environment, **options}.items()), _known_to(version)
    unknown = [name for name, _ in given if name not in _TYPED and name not in known]
    for name, text in given:
        where = f"options[{name[:60]}]"
        if name not in options:
            where = f"options[{name[:60]}] (from pod.etcdEnv)"
        if name in _TYPED:
            etcd.problem(where, f"has a field of its own: set spec.etcd.{_TYPED[name]} instead")
        elif name in unknown:
            words = (
                "is not an option that can be set here: the operator sets it itself, or etcd does "
                "not know it"
            )
            if name == unknown[-1]:  # behind them all: long messages are cut off
                words += f". Known options are: {', '.join(known)}"
            etcd.problem(where, words)
        else:
            try:
                read[name] = _READERS[name](text)
            except _BadValue as error:
                etcd.problem(where, f"{error}, found {text[:60]!r}")
    return tuple(sorted(read.items()))


def _known_to(version: Version | None) -> list[str]:
    return [name for name in _READERS if not _is_unknown_to(version, name)]


def _is_unknown_to(version: Version | None, name: str) -> bool:
    return version is not None and version.minor == 5 and name in _UNKNOWN_TO_3_5


def configuration(options: EtcdOptions, version: Version) -> dict[str, OptionValue | list[str]]:
    """The part of etcd's configuration file that the spec decides, with the names of `version`."""
    chosen: dict[str, OptionValue | list[str]] = {
        "quota-backend-bytes": options.quota_bytes,
        "auto-compaction-mode": options.compaction_mode,
        "auto-compaction-retention": options.compaction_retention,
        "heartbeat-interval": options.heartbeat_ms,
        "election-timeout": options.election_ms,
        "log-level": options.log_level,
        "logger": "zap",
    }
    if options.snapshot_count is not None:
        chosen["snapshot-count"] = options.snapshot_count
    if options.tls_min_version:
        chosen["tls-min-version"] = options.tls_min_version
    if options.cipher_suites:
        chosen["cipher-suites"] = list(options.cipher_suites)
    renamed = _EXPERIMENTAL_IN_3_5 if version.minor == 5 else {}
    chosen |= {renamed.get(name, name): value for name, value in options.others}
    return chosen | _corruption_checks(version)


def _corruption_checks(version: Version) -> dict[str, OptionValue]:
    """Turns on CompactHashCheck, which is off by default, cheap, and the only way to find silent
    corruption.

    InitialCorruptCheck stays off: a member asks its peers, for 7 seconds each, before it serves. So
    members that start together wait for each other: 14 s after all three pods had died.
    """
    if version.minor == 5:
        return {"experimental-compact-hash-check-enabled": True}
    return {"feature-gates": "CompactHashCheck=true"}
