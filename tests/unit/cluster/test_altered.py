"""Objects that somebody has given a field that the API server refuses beside one of ours."""

from __future__ import annotations

import pytest
from reconcile_bench import Bench

from etcd_operator.kube.api import DISRUPTION_BUDGETS, SERVICES, STATEFUL_SETS, Conflict

CANARY = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}}
EXTERNAL = {"type": "ExternalName", "externalName": "elsewhere.example.com", "clusterIP": None}
EXPOSED = {"type": "LoadBalancer", "loadBalancerSourceRanges": ["192.0.2.0/24"]}


@pytest.fixture
async def settled():
    return await Bench.settled()


@pytest.mark.parametrize(
    ("resource", "name", "altered"),
    [
        pytest.param(STATEFUL_SETS, "a", CANARY, id="update-strategy"),
        pytest.param(
            DISRUPTION_BUDGETS, "a", {"minAvailable": None, "maxUnavailable": 1}, id="budget"
        ),
        pytest.param(SERVICES, "a-client", {"ports": [{"name": "client", "port": 443}]}, id="port"),
        pytest.param(SERVICES, "a-client", {"ports": [{"port": 443}]}, id="unnamed"),
        pytest.param(SERVICES, "a", EXTERNAL, id="headless"),
        pytest.param(SERVICES, "a-client", EXPOSED, id="load-balancer"),
    ],
)
async def test_a_field_that_excludes_one_of_ours_could_never_be_taken_back(
    settled, resource, name, altered
):
    before = settled.kube.live(resource, name)["spec"]
    await settled.kube.merge_patch(resource, "default", name, {"spec": altered})

    await settled.run()

    assert before.items() <= settled.kube.live(resource, name)["spec"].items()
    assert "StepFailed" not in settled.events.reasons()


@pytest.mark.parametrize("beside", [True, False], ids=["beside-ours", "in-its-place"])
async def test_a_probe_of_another_kind_could_never_be_taken_back(settled, beside):
    """As somebody sets one who wants pods Ready at any price. Up to Kubernetes 1.33 the API server
    took it beside ours, and then refused each pod: a member that lost its own never came back."""
    before = settled.kube.live(STATEFUL_SETS, "a")["spec"]["template"]
    [etcd] = before["spec"]["containers"]
    ours = etcd["readinessProbe"] if beside else {"periodSeconds": 1}
    altered = etcd | {"readinessProbe": ours | {"tcpSocket": {"port": 2379}}}
    pod = {"spec": {"containers": [altered], "hostNetwork": True}}
    await settled.kube.merge_patch(STATEFUL_SETS, "default", "a", {"spec": {"template": pod}})
    settled.forget()

    await settled.run()

    assert settled.kube.live(STATEFUL_SETS, "a")["spec"]["template"] == before
    # Only an apply takes away annotations of an older manifest.
    writes = [call for call in settled.kube.log if "StatefulSet" in call and "get" not in call]
    assert writes == ["patch StatefulSet a", "apply StatefulSet a"]
    assert "StepFailed" not in settled.events.reasons()


async def test_an_apply_that_came_too_late_after_the_replacement_was_not_made_up_for(settled):
    """The controller writes the status in between. Then what an older manifest had set stayed, and
    so did later what the next one leaves out: no field of it was the apply's."""
    before = settled.kube.live(STATEFUL_SETS, "a")
    [etcd] = before["spec"]["template"]["spec"]["containers"]
    altered = etcd | {"readinessProbe": {"tcpSocket": {"port": 2379}}}
    pod = {"spec": {"containers": [altered]}}
    await settled.kube.merge_patch(STATEFUL_SETS, "default", "a", {"spec": {"template": pod}})
    settled.kube.failures["apply StatefulSet"] = [Conflict("the object has been modified")]
    settled.forget()

    await settled.run()

    writes = [call for call in settled.kube.log if "StatefulSet" in call and "get" not in call]
    assert writes == ["patch StatefulSet a", "apply StatefulSet a", "apply StatefulSet a"]
    after = settled.kube.live(STATEFUL_SETS, "a")
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert after["spec"] == before["spec"]


async def test_a_port_that_was_added_beside_ours_stays(settled):
    ports = settled.kube.live(SERVICES, "a-client")["spec"]["ports"]
    added = {"name": "other", "port": 8443}
    taken = [{"name": "client", "port": 443}, added]
    await settled.kube.merge_patch(SERVICES, "default", "a-client", {"spec": {"ports": taken}})

    await settled.run()

    assert settled.kube.live(SERVICES, "a-client")["spec"]["ports"] == [added, *ports]
