"""The whole process as the image runs it: start, HTTP pages, signals, memory."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from pathlib import Path

import aiohttp
import pytest
import yaml
from harness.slow import SLOW

from etcd_operator.kube.api import ETCD_BACKUPS, LEASES
from localkube.server import free_port

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[3]
LEADS = "\netcd_operator_leader 1.0\n"
BUDGET_KIB = 128 * 1024
"""Only against a leap; what it really takes is printed, and reported by `make bench`."""


class Process:
    def __init__(self, namespace, kubeconfig):
        self.health, self.metrics = free_port(), free_port()
        self.environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{ROOT / 'operator'}:{ROOT / 'stateful'}",
            "KUBECONFIG": kubeconfig,
            "WATCH_NAMESPACES": namespace,
            "POD_NAMESPACE": namespace,
            "POD_NAME": "operator",
            "POD_UID": "0-1",
            "OPERATOR_IMAGE": "none.invalid/none",
            "LOG_FORMAT": "json",
            "HEALTH_PORT": str(self.health),
            "METRICS_PORT": str(self.metrics),
        }

    async def __aenter__(self):
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "etcd_operator", "run",
            env=self.environment, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        return self

    async def __aexit__(self, *_):
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()

    async def get(self, port, path):
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"http://127.0.0.1:{port}{path}") as response,
            ):
                return response.status, await response.text()
        except aiohttp.ClientConnectionError:
            return 0, ""

    async def until(self, port, path, told, seconds=30):
        async with asyncio.timeout(SLOW * seconds):
            while told not in (await self.get(port, path))[1]:
                await asyncio.sleep(0.1)

    async def ready(self):
        await self.until(self.health, "/readyz", "ok")

    async def leads(self):
        await self.until(self.metrics, "/metrics", LEADS)

    async def ended(self, number, seconds=20):
        """Exit code and log lines after the signal."""
        if number is not None:
            self.process.send_signal(number)
        _, err = await asyncio.wait_for(self.process.communicate(), SLOW * seconds)
        return self.process.returncode, [json.loads(line) for line in err.decode().splitlines()]

    def memory(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if "VmRSS" in line)


async def holder(client, namespace):
    lease = await client.get(LEASES, namespace, "etcd-operator")
    return lease["spec"]["holderIdentity"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_the_operator_starts_and_serves_its_endpoints_and_stops_on_request(
    client, namespace, kubeconfig, number
):
    async with Process(namespace, kubeconfig) as operator:
        await operator.ready()
        await operator.leads()
        assert await operator.get(operator.health, "/healthz") == (200, "ok\n")
        status, page = await operator.get(operator.metrics, "/metrics")
        assert status == 200
        assert 'workqueue_depth{name="clusters"} 0.0' in page
        assert await holder(client, namespace) == "operator_0-1"
        await asyncio.sleep(3)
        memory = operator.memory()
        code, lines = await operator.ended(number)

    assert code == 0, lines
    assert await holder(client, namespace) == ""
    assert {line["level"] for line in lines} == {"INFO"}, lines
    assert [line["message"] for line in lines][-1] == "stopping"
    assert memory < BUDGET_KIB
    print(f"resident: {memory / 1024:.1f} MiB with no cluster")


async def test_a_restarted_operator_takes_over_the_lease_and_the_queue_at_once(
    client, namespace, kubeconfig
):
    async with Process(namespace, kubeconfig) as operator:
        await operator.leads()
        operator.process.kill()
    place = {"namespace": namespace, "name": "b"}
    spec = {
        "etcdEndpoints": ["http://a:2379"],
        "storageType": "S3",
        "s3": {"path": "mybucket/etcd.backup", "awsSecret": "s"},
        "backupPolicy": {"backupIntervalInSecond": 3600},
    }
    await client.apply(ETCD_BACKUPS, {"metadata": place, "spec": spec})

    async with Process(namespace, kubeconfig) as operator:
        told = 'etcd_operator_reconciles_total{queue="backups",result="ok"}'
        await operator.until(operator.metrics, "/metrics", told)
        code, lines = await operator.ended(signal.SIGTERM)
    assert code == 0
    assert not any("is held by" in line["message"] for line in lines), "it waited for the Lease"


async def test_a_lost_lease_ends_the_operator_with_1(client, namespace, kubeconfig):
    async with Process(namespace, kubeconfig) as operator:
        await operator.ready()
        await operator.leads()
        theft = {"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 3600}}
        await client.merge_patch(LEASES, namespace, "etcd-operator", theft)
        code, lines = await operator.ended(None, seconds=30)

    assert code == 1
    assert any("is lost" in line["message"] for line in lines)
    assert await holder(client, namespace) == "thief"


@pytest.fixture
def away(kubeconfig, tmp_path):
    """A kubeconfig of a server that nobody is."""
    config = yaml.safe_load(Path(kubeconfig).read_text())
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{free_port()}"
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return str(path)


async def test_without_an_api_server_the_operator_waits_and_can_be_stopped(namespace, away):
    async with Process(namespace, away) as operator:
        await operator.until(operator.health, "/healthz", "ok")
        assert (await operator.get(operator.health, "/readyz"))[0] == 503
        await asyncio.sleep(4)
        code, lines = await operator.ended(signal.SIGTERM)

    assert code == 0
    assert not any("exc_info" in line for line in lines)
    assert len(lines) < 10


async def test_a_port_in_use_is_logged_in_one_line(namespace, kubeconfig):
    with socket.socket() as other:
        other.bind(("0.0.0.0", 0))  # noqa: S104 - as the operator would
        other.listen()
        operator = Process(namespace, kubeconfig)
        port = operator.metrics = other.getsockname()[1]
        operator.environment["METRICS_PORT"] = str(port)
        async with operator:
            code, lines = await operator.ended(None, seconds=30)

    assert code == 2
    [line] = lines
    assert line["message"] == (
        f"cannot listen on port {port}: address already in use. "
        "Set METRICS_PORT to a port that is free"
    )
    assert "exc_info" not in line


@pytest.mark.parametrize(
    "noise",
    [b"a: [b", b"", b"- a", b"\xff\xfe", b"current-context: a\ncontexts: 7"],
    ids=["not yaml", "empty", "list", "binary", "other types"],
)
async def test_a_malformed_kubeconfig_is_logged_in_one_line(namespace, tmp_path, noise):
    path = tmp_path / "kubeconfig"
    path.write_bytes(noise)
    async with Process(namespace, str(path)) as operator:
        code, lines = await operator.ended(None, seconds=30)

    assert code == 2
    [line] = lines
    assert line["message"].startswith("cannot connect to Kubernetes: ")
    assert "exc_info" not in line


async def test_missing_credentials_are_logged_in_one_line(namespace, tmp_path):
    async with Process(namespace, str(tmp_path / "nothing")) as operator:
        code, lines = await operator.ended(None, seconds=30)

    assert code == 2
    assert lines[-1]["message"].startswith("cannot connect to Kubernetes: ")
    assert not any("exc_info" in line for line in lines)
