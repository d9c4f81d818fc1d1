"""The model's API server, StatefulSet controller and kubelet compared with real ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compared import Line, Together, compare, told
from kube_modelled import OUTDATED, KubeModelled
from kube_real import Cluster

from localkube import providers

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

SECRET, SET, STATUS = "Secret", "StatefulSet", "status"

TRACES: dict[str, tuple[int, tuple[Line, ...]]] = {
    "up and down from the top": (
        3,
        (("scale to 5", ""), ("scale to 3", ""), ("scale to 4", ""), ("scale to 1", "")),
    ),
    "down while the highest stops slowly": (
        3,
        (
            ("silence the node of 2", ""),
            ("kubectl delete pod 2", ""),
            ("scale to 1", ""),
            ("scale to 3", ""),
            ("heed the node of 2", ""),
        ),
    ),
    "all at once, though one has no room": (
        1,
        (
            ("nodes have no room for 1", ""),
            ("scale to 4", ""),
            ("nodes have room for 1", ""),
        ),
    ),
    "a new template waits for its pods to be deleted": (
        3,
        (
            ("relabel blue", ""),
            ("delete pod 1", ""),
            ("kubectl delete pod 0", ""),
            ("scale to 4", ""),
        ),
    ),
    "a claim goes when its pod does": (
        3,
        (
            ("delete claim 1", ""),
            ("delete pod 1", ""),
            ("kubectl delete claim 2", ""),
            ("scale to 2", ""),
        ),
    ),
    "a claim goes when no pod of it has a node": (
        3,
        (
            ("nodes have no room for 1", ""),
            ("delete pod 1", ""),
            ("delete claim 1", ""),
            ("nodes have room for 1", ""),
        ),
    ),
    "a claim that no pod uses goes at once": (
        3,
        (("scale to 2", ""), ("delete claim 2", ""), ("scale to 3", "")),
    ),
    "no pod onto a claim that goes": (
        3,
        (
            ("silence the node of 1", ""),
            ("kubectl delete claim 1", ""),
            ("kubectl delete pod 1", ""),
            ("bind, on a claim that goes, 1", ""),
            ("heed the node of 1", ""),
            ("delete pod 1", ""),
        ),
    ),
    "the StatefulSet goes, pods and all": (
        3,
        (
            (f"kubectl delete the {SET}", ""),
            (f"make the {SET} of 3", ""),
            (f"make the {SET} of 3", OUTDATED),
        ),
    ),
    "the StatefulSet goes, and its pods stay": (
        3,
        (
            ("hold scale to 5", ""),
            (f"orphan the pods of the {SET}", ""),
            ("late", OUTDATED),
            ("kubectl delete pod 1", ""),
            (f"make the {SET} of 3", ""),
            ("delete pod 0", ""),
        ),
    ),
    "late with the replicas": (
        3,
        (("hold scale to 2", ""), ("scale to 4", ""), ("late", OUTDATED)),
    ),
    "late with a pod": (
        3,
        (
            ("hold delete pod 1", ""),
            ("kubectl delete pod 1", ""),
            ("late", OUTDATED),
            ("hold delete pod 2", ""),
            ("late", ""),
            ("silence the node of 0", ""),
            ("hold delete pod 0", ""),
            ("kubectl delete pod 0", ""),
            ("late", OUTDATED),
            ("delete pod 0", ""),
            ("heed the node of 0", ""),
        ),
    ),
    "late with a claim": (
        3,
        (
            ("hold delete claim 1", ""),
            ("record 1", ""),
            ("late", OUTDATED),
            ("hold record 1", ""),
            ("kubectl delete claim 1", ""),
            ("late", OUTDATED),
            ("hold delete claim 2", ""),
            ("kubectl delete claim 2", ""),
            ("kubectl delete pod 2", ""),
            ("late", OUTDATED),
            ("record 2", ""),
            ("hold record 2", ""),
            ("late", ""),
        ),
    ),
    "late with the Secret": (
        1,
        (
            (f"create the {SECRET}", OUTDATED),
            ("hold write that there are 5", ""),
            ("write that there are 3", ""),
            ("late", OUTDATED),
            ("hold write that there are 5", ""),
            (f"lose the {SECRET}", ""),
            ("late", OUTDATED),
            (f"hold create the {SECRET}", ""),
            (f"create the {SECRET}", ""),
            ("late", OUTDATED),
        ),
    ),
    "the status is apart": (
        1,
        (
            (f"write the {STATUS}", ""),
            ("declare 3", ""),
            (f"wipe the {STATUS}", ""),
            ("declare 5", ""),
            (f"write the {STATUS}", ""),
        ),
    ),
}


def kubeconfig() -> str:
    """Of the local cluster unless another is asked for."""
    path = str(providers.kubeconfig())
    if not Path(path).exists():
        pytest.fail(f"no cluster: {path} is not there (make cluster)")
    return path


@pytest.fixture(scope="module")
def together(request: pytest.FixtureRequest) -> Any:
    """Every trace that is asked for, each in a namespace of its own."""
    here = [one for one in request.session.items if one.module.__name__ == __name__]
    asked = [one.callspec.params["name"] for one in here]
    traces = {name: told(KubeModelled(TRACES[name][0]), TRACES[name][1]) for name in asked}
    path = kubeconfig()

    def live(name: str) -> None:
        with Cluster(path, TRACES[name][0]) as real:
            compare(traces[name], real)

    together = Together(live, asked)
    yield together
    together.close()


@pytest.mark.parametrize("name", TRACES)
def test_the_model_matches_kubernetes(together: Together, name: str) -> None:
    together.end_of(name)
