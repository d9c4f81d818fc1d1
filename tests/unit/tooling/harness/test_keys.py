"""How the end-to-end tests find a private key that is where it must not be."""

from __future__ import annotations

import base64
import json
from typing import Any, cast

import pytest
from harness import keys
from harness.api import ApiError, Kube
from harness.authority import Authority

_, PEM = Authority().sign("an application")
SECRETS = [
    {
        "metadata": {"name": "tls"},
        "data": {"tls.key": base64.b64encode(PEM).decode(), "ca.crt": ""},
    },
    {"metadata": {"name": "broken"}, "data": {"tls.key": "bm8=", "peer.key": "/w==", "a.key": ""}},
    {"metadata": {"name": "empty"}},
]
READY = {"conditions": [{"type": "Ready", "status": "True"}]}


class Cluster:
    """The API server of a namespace with one pod and one Event."""

    def __init__(self, log: str = "", message: str = "", phase: Any = None) -> None:
        self.log, self.message = log, message
        self.status = READY if phase is None else {"phase": phase}

    def list(self, kind: Any, _: str) -> list[Any]:
        metadata = {"name": "one", "namespace": "ns"}
        if kind.kind == "Event":
            return [{"metadata": metadata, "message": self.message}]
        spec = {"initContainers": [{"name": "start"}], "containers": [{"name": "etcd"}]}
        return [{"metadata": metadata, "spec": spec, "status": self.status}] * (kind.kind == "Pod")

    def log_lines(self, namespace: str, pod: str, container: str, **_: str) -> list[str]:
        assert (namespace, pod) == ("ns", "one")
        if container == "start":
            raise ApiError(400, "it has not started")
        return self.log.splitlines()


def told(**given: Any) -> list[str]:
    return keys.told(cast("Kube", Cluster(**given)), "ns", keys.texts_of(SECRETS))


@pytest.mark.parametrize(
    "shown",
    [
        PEM.decode(),
        base64.b64encode(PEM).decode(),
        json.dumps({"key": PEM.decode()}),
        repr(PEM),
        "".join(PEM.decode().splitlines()[1:-1]),
    ],
    ids=["as it is", "as in a Secret", "in JSON", "in Python", "without its frame"],
)
def test_a_key_is_found_in_a_log_and_in_an_event(shown: str) -> None:
    assert told(log=f"before\n{shown}\nafter") == ["the log of one/etcd"]
    assert told(message=f"cannot use {shown}") == ["Event/one"]
    assert told(log=shown, phase="Succeeded") == ["the log of one/etcd"]


def test_what_is_no_key_is_not_found() -> None:
    """Every line contains an empty text, and a Secret that a test has broken holds `no`."""
    assert told(log="no\n/w==\nnot a private key", message="no") == []
    assert len(keys.texts_of(SECRETS)) == 3


def test_the_log_of_a_pod_on_a_dead_node_is_not_waited_for() -> None:
    assert told(log=PEM.decode(), phase="Running") == []
