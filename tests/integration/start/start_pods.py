"""Pods without Kubernetes: `start` and etcd as real processes, one loopback address per pod.

A pod here is what it is on a node: a volume, the init container `start` run to its end, then etcd
with nothing but the path of its configuration; `restart_container` skips `start`, as a kubelet
does.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from addresses import own_address
from start_helpers import KEY, Operator, listening
from start_tls import Tls

from etcd_operator.start.process import Place
from etcd_stateful import identity, naming
from etcd_stateful.start import marker, ticket, wal
from etcd_stateful.start.configuration import Settings

ROOT = Path(__file__).parents[3]
BINARIES = Path(os.environ.get("ETCD_BIN_DIR", ROOT / "build/bin"))
PATIENCE = 60
"""Seconds for anything to happen on a busy machine; nothing waits that long when all is well."""


def binary(minor: str) -> str:
    """The newest etcd of a minor; fails when there is none."""
    found = {path.name: path for path in BINARIES.glob(f"etcd-{minor}.*")}
    patches = sorted(int(name.rpartition(".")[2]) for name in found if re.search(r"\.\d+$", name))
    if not patches:
        pytest.fail(
            f"no etcd-{minor}.* in {BINARIES}: `make install` builds it, or set ETCD_BIN_DIR"
        )
    return str(found[f"etcd-{minor}.{patches[-1]}"])


def eventually(holds: Callable[[], object], seconds: float = PATIENCE) -> None:
    """That of `start_helpers`, for what processes do: it leaves them the time between questions."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.05)


class NoReply(Exception):
    """etcd did not answer, or answered with an error."""


@dataclass
class Pod:
    """One pod and its volume. `etcd` is a path; the processes are ended by the fixture."""

    world: World
    etcd: str
    settings: Settings
    place: Place
    log: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    patience: float = 10.0
    """Seconds for one answer."""

    @property
    def volume(self) -> Path:
        return Path(self.place.volume)

    @property
    def peer_url(self) -> str:
        return f"{self.settings.peer_scheme}://{self.settings.host}:{self.settings.peer_port}"

    @property
    def client_url(self) -> str:
        return f"{self.settings.client_scheme}://{self.settings.host}:{self.settings.client_port}"

    @property
    def entry(self) -> str:
        return f"{self.settings.member}={self.peer_url}"

    # start

    def start(self, **changes: Any) -> subprocess.Popen[bytes]:
        """Run the init container; the caller waits for its end, or for it to listen."""
        self.settings = replace(self.settings, **changes)
        told = self.log.with_suffix(".json")
        settings = asdict(self.settings) | {"options": dict(self.settings.options)}
        told.write_text(json.dumps({"settings": settings, "place": asdict(self.place)}))
        path = os.pathsep.join((str(ROOT / "operator"), str(ROOT / "stateful")))
        script = str(Path(__file__).with_name("run_start.py"))
        return self._spawn([sys.executable, script, str(told)], {"PYTHONPATH": path})

    def waits(self, **changes: Any) -> subprocess.Popen[bytes]:
        process = self.start(**changes)
        host = self.place.addresses[0]
        eventually(lambda: process.poll() is not None or listening(self.place.port, host), PATIENCE)
        assert process.poll() is None, self.log.read_text()
        return process

    def runs(self, **changes: Any) -> None:
        """`start` lets the pod run without anybody's leave."""
        assert self.start(**changes).wait(PATIENCE) == 0, self.log.read_text()

    def operator(self) -> Operator:
        return Operator(self.place.port, KEY, self.place.addresses[0])

    def ask(self) -> ticket.Answer:
        with self.operator() as operator:
            return operator.greet()

    def push(self, **fields: Any) -> ticket.Receipt:
        """Greet, and send a ticket for this pod with these fields for the challenge drawn."""
        with self.operator() as operator:
            given: dict[str, Any] = {
                "challenge": operator.greet().challenge,
                "cluster_uid": self.settings.cluster_uid,
                "epoch": self.settings.epoch,
                "member": self.settings.member,
                "initial_cluster": self.entry,
                "token": self.world.token,
            }
            return operator.push(ticket.Ticket(**given | fields))

    # etcd

    @property
    def config_path(self) -> str:
        """The path of naming.py, for this volume."""
        assert naming.CONFIG_PATH.startswith(f"{naming.VOLUME_PATH}/")
        return naming.CONFIG_PATH.replace(naming.VOLUME_PATH, self.place.volume, 1)

    def restart_container(
        self, config: str = "", environment: dict[str, str] | None = None, *flags: str
    ) -> subprocess.Popen[bytes]:
        command = [self.etcd, "--config-file", config or self.config_path, *flags]
        return self._spawn(command, environment or {})

    def serves(self) -> subprocess.Popen[bytes]:
        """Run etcd until its client URL answers."""
        process = self.restart_container()
        eventually(lambda: process.poll() is not None or self._answers(), PATIENCE)
        assert process.poll() is None, self.log.read_text()
        return process

    def dies(self, config: str = "") -> str:
        """Run etcd, which must end on its own; what it wrote."""
        before = self.log.stat().st_size
        assert self.restart_container(config).wait(PATIENCE) != 0
        return self.log.read_text()[before:]

    def _answers(self) -> bool:
        try:
            self.status()
        except NoReply:
            return False
        return True

    def takes(self, path: str, **body: Any) -> bool:
        """Whether etcd takes the request now. It refuses changes of the member list for a while."""
        try:
            self.call(path, **body)
        except NoReply:
            return False
        return True

    def call(self, path: str, **body: Any) -> dict[str, Any]:
        """One request to etcd's JSON gateway; raises NoReply."""
        url = f"{self.client_url}/v3/{path}"
        request = urllib.request.Request(url, json.dumps(body).encode())  # noqa: S310
        context = self.world.tls.context if self.world.tls else None
        try:
            with urllib.request.urlopen(request, timeout=self.patience, context=context) as reply:  # noqa: S310
                answer: dict[str, Any] = json.load(reply)
                return answer
        except urllib.error.HTTPError as error:
            with error:
                raise NoReply(error.read().decode()) from error
        except OSError as error:
            raise NoReply(str(error)) from error

    def probe(self, path: str) -> int:
        """What the kubelet gets at this path: the HTTP status, or 0 without an answer."""
        url = f"http://{self.settings.host}:{self.settings.metrics_port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=self.patience) as reply:
                return int(reply.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        except OSError:
            return 0

    def status(self) -> dict[str, Any]:
        return self.call("maintenance/status")

    def ids(self) -> wal.Identity:
        header = self.status()["header"]
        return wal.Identity(int(header["member_id"]), int(header["cluster_id"]))

    def members(self) -> dict[str, int]:
        listed = self.call("cluster/member/list", linearizable=True)["members"]
        return {member.get("name", ""): int(member["ID"]) for member in listed}

    def put(self, key: str, value: str) -> None:
        self.call("kv/put", key=_encode(key), value=_encode(value))

    def get(self, key: str) -> str | None:
        found = self.call("kv/range", key=_encode(key)).get("kvs")
        return b64decode(found[0]["value"]).decode() if found else None

    def marker(self) -> marker.Marker:
        named = marker.parse((self.volume / marker.FILE).read_bytes())
        assert isinstance(named, marker.Marker)
        return named

    def config(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(Path(self.config_path).read_bytes())
        return content

    # processes

    def _spawn(self, command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        self.processes.append(process)
        return process

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End whatever of the pod runs."""
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(how)
        for process in self.processes:
            process.wait(PATIENCE)
        self.processes.clear()


@dataclass
class World:
    """The pods of a test. `token` is that of the tickets."""

    root: Path
    etcd: str
    token: str = "uid-1/1"
    pods: list[Pod] = field(default_factory=list)
    tls: Tls | None = None

    def secure(self) -> World:
        """From here on members talk to each other and to clients over TLS."""
        self.tls = Tls(self.root)
        return self

    def pod(self, member: str, **changes: Any) -> Pod:
        """A pod that has not started yet, on a new volume."""
        host = own_address()
        folder = self.root / f"{host}-{member}"
        (folder / "volume").mkdir(parents=True)
        (folder / "key").write_bytes(KEY)
        (folder / "message").touch()
        settings = Settings(
            cluster_uid="uid-1",
            epoch=1,
            member=member,
            pod_uid=f"pod-{host}",
            pod_ip=host,
            host=host,
            listen_host=host,
            client_port=naming.CLIENT_PORT,
            peer_port=naming.PEER_PORT,
            metrics_port=naming.METRICS_PORT,
            data_directory=str(folder / "volume/data"),
            options={"log-level": "info", "quota-backend-bytes": 8589934592},
        )
        if self.tls:
            self.tls.mount(folder, host)
            options = settings.options | self.tls.options(folder)  # type: ignore[operator]
            schemes = {"client_scheme": "https", "peer_scheme": "https"}
            settings = replace(settings, options=options, **schemes)
        place = Place(
            volume=str(folder / "volume"),
            key_file=str(folder / "key"),
            termination_log=str(folder / "message"),
            addresses=(host,),
            port=naming.START_PORT,
        )
        made = Pod(self, self.etcd, replace(settings, **changes), place, folder / "log")
        made.log.touch()
        self.pods.append(made)
        return made

    def predicted(self, pods: list[Pod]) -> dict[str, wal.Identity]:
        """The IDs of a cluster of these pods, before any etcd has run."""
        members = {
            pod.settings.member: identity.member_id([pod.peer_url], self.token) for pod in pods
        }
        cluster = identity.cluster_id(members.values())
        return {name: wal.Identity(number, cluster) for name, number in members.items()}

    def bootstrap(self, size: int) -> list[Pod]:
        """A cluster of new pods: every one takes its ticket, then etcd runs everywhere."""
        pods = [self.pod(f"c-{ordinal}") for ordinal in range(size)]
        waiting = [pod.waits() for pod in pods]
        ids = self.predicted(pods)
        everybody = ",".join(pod.entry for pod in pods)
        for pod in pods:
            mine = ids[pod.settings.member]
            receipt = pod.push(
                state="new",
                initial_cluster=everybody,
                member_id=mine.member_id,
                cluster_id=mine.cluster_id,
            )
            assert receipt.refusal == ""
        for process in waiting:
            assert process.wait(PATIENCE) == 0
        for pod in pods:
            pod.restart_container()
        try:
            for pod in pods:
                eventually(pod._answers, PATIENCE)
            eventually(lambda: settled(pods), PATIENCE)
        except AssertionError as error:
            words = "\n".join(f"{pod.entry}:\n{pod.log.read_text()[-6000:]}" for pod in pods)
            raise AssertionError(f"the members do not serve: {error}\n{words}") from error
        return pods

    def copy(self, source: Pod, target: Pod) -> None:
        """A clone of one pod's volume in place of the other's."""
        shutil.rmtree(target.volume)
        shutil.copytree(source.volume, target.volume, symlinks=True)


def settled(pods: list[Pod]) -> bool:
    """All of them have a leader and read the same list."""
    try:
        return all(set(pod.members()) == {each.settings.member for each in pods} for pod in pods)
    except NoReply:
        return False


def _encode(text: str) -> str:
    return b64encode(text.encode()).decode()
