"""The settings of an installation. `main` reads them once from the environment and passes them on.

Nothing else in the package reads the environment. So a test, or a second operator in the same
process, only needs other `Settings`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from etcd_stateful.manifests.network_policy import OperatorPods

NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
LEASE = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
LABEL = re.compile(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?")
VALUE = re.compile(r"([A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?)?")
IMAGE = re.compile(r"[!-~]+")


class BadSettings(ValueError):
    """An environment variable is wrong. The message says in one line which, and what is allowed."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The defaults are for a process outside a cluster. Inside one, the chart sets the values."""

    watch_namespaces: tuple[str, ...] | None = None
    """Namespaces whose clusters are managed; None means all (`WATCH_NAMESPACES=*`)."""

    pod_name: str = "etcd-operator"
    pod_namespace: str = "default"
    """The namespace of the Lease."""

    pod_uid: str = ""
    operator_image: str = ""
    """This operator's own image, also that of the init container `start`. The only setting that is
    required."""

    operator_pod_labels: tuple[tuple[str, str], ...] = ()
    """Labels by which network policies select the operator's pods. Without them no network policy
    is created."""

    log_level: str = "INFO"
    log_format: str = "text"
    resync_seconds: float = 600.0
    """How often each watched resource is listed, to find changes that a broken watch missed."""

    metrics_port: int = 8080
    health_port: int = 8081
    lease_name: str = "etcd-operator"
    workers: int = 8
    """How many clusters are reconciled at the same time."""

    request_seconds: float = 10.0
    """Deadline of one Kubernetes API call."""

    @property
    def identity(self) -> str:
        """The holder in the Lease. It is the same after a container restart in the same pod, which
        therefore takes the Lease again at once."""
        return f"{self.pod_name}_{self.pod_uid}" if self.pod_uid else self.pod_name

    @property
    def operator_pods(self) -> OperatorPods | None:
        if not self.operator_pod_labels:
            return None
        return OperatorPods(self.pod_namespace, dict(self.operator_pod_labels))


def from_environment(environment: Mapping[str, str]) -> Settings:
    """Raises `BadSettings`. For a variable that is missing or empty, the default applies."""
    values: dict[str, Any] = {}
    for variable, (name, read) in _READERS.items():
        text = environment.get(variable, "").strip()
        if not text:
            continue
        try:
            values[name] = read(text)
        except ValueError as error:
            raise BadSettings(f"{variable}={text!r}: {error}") from None
    settings = Settings(**values)
    if not settings.operator_image:
        # Without an image, the API server would refuse the StatefulSet of every cluster.
        raise BadSettings("OPERATOR_IMAGE is not set: it must name the image of this operator")
    if settings.metrics_port == settings.health_port:
        raise BadSettings("METRICS_PORT and HEALTH_PORT must differ")
    return settings


def _namespaces(text: str) -> tuple[str, ...] | None:
    names = [name.strip() for name in text.split(",")]
    if names == ["*"]:
        return None
    for name in names:
        if not NAMESPACE.fullmatch(name):
            raise ValueError("must be names of namespaces, separated by commas, or *")
    return tuple(dict.fromkeys(names))


def _labels(text: str) -> tuple[tuple[str, str], ...]:
    pairs = [part.strip().partition("=") for part in text.split(",")]
    if not all(LABEL.fullmatch(key) and VALUE.fullmatch(value) for key, _, value in pairs):
        raise ValueError("must be labels like app=etcd-operator, separated by commas")
    return tuple((key, value) for key, _, value in pairs)


def _like(pattern: re.Pattern[str], what: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError(f"must be {what}")
        return text

    return read


def _one_of(*allowed: str, fold: Callable[[str], str]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if fold(text) not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return fold(text)

    return read


def _between(least: float, most: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not least <= number <= most:
            raise ValueError(f"must be a number from {least:g} to {most:g}")
        return number

    return read


def _whole(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise ValueError(f"must be a whole number from {least} to {most}")
        return int(text)

    return read


_port = _whole(1, 65535)

_READERS: Final[Mapping[str, tuple[str, Callable[[str], object]]]] = {
    "WATCH_NAMESPACES": ("watch_namespaces", _namespaces),
    "POD_NAME": ("pod_name", str),
    "POD_NAMESPACE": ("pod_namespace", _like(NAMESPACE, "the name of a namespace")),
    "POD_UID": ("pod_uid", str),
    "OPERATOR_IMAGE": ("operator_image", _like(IMAGE, "the name of an image")),
    "OPERATOR_POD_LABELS": ("operator_pod_labels", _labels),
    "LOG_LEVEL": ("log_level", _one_of("DEBUG", "INFO", "WARNING", "ERROR", fold=str.upper)),
    "LOG_FORMAT": ("log_format", _one_of("text", "json", fold=str.lower)),
    "RESYNC_SECONDS": ("resync_seconds", _between(10, 86400)),
    "METRICS_PORT": ("metrics_port", _port),
    "HEALTH_PORT": ("health_port", _port),
    "LEASE_NAME": ("lease_name", _like(LEASE, "a name of lower-case letters, digits, - and .")),
    "WORKERS": ("workers", _whole(1, 256)),
    "REQUEST_SECONDS": ("request_seconds", _between(1, 300)),
}
"""For each variable: the setting, and the function that parses its text."""
