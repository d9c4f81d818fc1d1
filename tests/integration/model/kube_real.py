"""A real API server with its controllers, and a kubelet where pods run, driven as the traces say.

The operator's own code writes; what others do goes by plain calls. The pods are made by the
project's StatefulSet, with an etcd of their own in place of `start` and etcd: who is a member is no
matter here. A gate on each pod says when there is room for it, a finalizer that its node is silent.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import threading
import time
import uuid
from collections.abc import Callable, Coroutine
from typing import Any, Final, Self

import kube_words
from compared import PATIENCE, Looks
from kube_modelled import MEMBER, NAME, OUTDATED, VERSION, changed, record

from etcd_operator.cluster.apply import Applier
from etcd_operator.kube.api import (
    CLAIMS,
    ETCD_CLUSTERS,
    PODS,
    SECRETS,
    STATEFUL_SETS,
    Conflict,
    Json,
    Propagation,
    Resource,
)
from etcd_operator.kube.client import Client
from etcd_operator.kube.finder import Finder
from etcd_operator.kube.store import Store
from etcd_operator.step_result import Done, Outdated
from etcd_stateful import naming
from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.manifests.statefulset import stateful_set
from etcd_stateful.membership import steps
from etcd_stateful.records.bootstrap import first_attempt
from etcd_stateful.records.member import MemberRecord
from model.world import tables

NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
BINDINGS: Final = Resource("", "v1", "bindings", "Binding")
GATE: Final = "example.com/room"
SILENT: Final = "example.com/silent-node"
HELD: Final = "example.com/held"
"""As `kubernetes.io/pvc-protection`, on claims that it would let go too soon for a trace."""
RUNS_ALONE: Final = [
    "/usr/local/bin/etcd",
    f"--data-dir={naming.VOLUME_PATH}/alone",
    "--listen-client-urls=http://127.0.0.1:2379",
    "--advertise-client-urls=http://127.0.0.1:2379",
    "--listen-peer-urls=http://127.0.0.1:2380",
]

OBSERVED_SECONDS: Final = 60.0
"""Within which the installed operator writes the status of an edited cluster, on a busy machine."""

_CONNECTING = threading.Lock()
"""The client's library writes certificates to files that threads share, and reads a file that
another thread has not written yet."""


class Cluster:
    def __init__(self, kubeconfig: str, size: int) -> None:
        self._kubeconfig = kubeconfig
        self._size = size
        self._namespace = f"model-{uuid.uuid4().hex[:8]}"
        self._runner = asyncio.Runner()
        self._slow: set[int] = set()
        self._held: tuple[Applier, steps.Write] | None = None
        self._kept: Json = {}

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as unless_it_begins:
            unless_it_begins.callback(self._runner.close)
            self._run(self._connect())
            unless_it_begins.callback(lambda: self._run(self._end()))
            self._run(self._begin())
            unless_it_begins.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._end())
        self._runner.close()

    def _run(self, what: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(what)

    async def _connect(self) -> None:
        with _CONNECTING:
            self._client = await Client.connect(kubeconfig=self._kubeconfig)

    async def _begin(self) -> None:
        await self._client.create(NAMESPACES, {"metadata": {"name": self._namespace}})
        # Paused, so that an operator that is installed lets everything be; without certificates,
        # which it would make.
        spec = {"size": self._size, "version": VERSION, "paused": True, **tables.PLAINTEXT}
        metadata = {"name": NAME, "namespace": self._namespace}
        body = await self._client.create(ETCD_CLUSTERS, {"metadata": metadata, "spec": spec})
        self._cluster = parse_cluster(body)
        urls = {naming.pod(NAME, n): self._cluster.peer_url(n) for n in range(self._size)}
        self._first = first_attempt(self._cluster.uid, urls, VERSION)
        await self._create("Secret")
        await self._make(self._size)
        await self._until_running()
        for at in range(self._size):
            await self._apply(await self._record(str(at)))

    async def _until_running(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            await self._nodes()
            pods = await self._all(PODS)
            if sum(kube_words.runs(one) for one in pods.values()) == self._size:
                return
            assert time.monotonic() < deadline, pods
            await asyncio.sleep(0.2)

    async def _end(self) -> None:
        for resource in (PODS, CLAIMS):
            for one in (await self._all(resource)).values():
                await self._finalizers(resource, one, SILENT, present=False)
                await self._finalizers(resource, one, HELD, present=False)
        found = await self._client.get(NAMESPACES, "", self._namespace)
        if found is not None:
            await self._client.delete(NAMESPACES, "", self._namespace, uid=found["metadata"]["uid"])
        await self._client.close()

    # What a trace may say.

    def do(self, action: str) -> str:
        return str(self._run(self._do(action)))

    async def _do(self, action: str) -> str:
        if action == "late":
            assert self._held is not None
            applier, step = self._held
            return await self._carry_out(applier, step)
        if action.startswith("hold "):
            # Another operator, that has seen what there is now and will hear of nothing more.
            self._held = self._operator(), await self._step(action.removeprefix("hold "))
            return ""
        verb, _, rest = action.rpartition(" ")
        if verb in _BY_OTHERS:
            await _BY_OTHERS[verb](self, rest)
            return ""
        return await self._as_seen(action)

    def _operator(self) -> Applier:
        unused: Any = None
        return Applier(
            self._client,
            Finder(self._client, Store()),
            unused,
            unused,
            time.time,
            identity=unused,
            accounts=unused,
            passwords=unused,
        )

    async def _apply(self, step: steps.Write) -> str:
        return await self._carry_out(self._operator(), step)

    async def _carry_out(self, applier: Applier, step: steps.Write) -> str:
        outcome = await applier.apply(self._cluster, step)
        if isinstance(outcome, Outdated):
            return OUTDATED
        assert isinstance(outcome, Done), outcome
        return ""

    async def _as_seen(self, action: str) -> str:
        """A controller may write its status between the look and the write: who then looks again,
        as an operator does, is refused no more, unless what it asks for is refused."""
        step = await self._step(action)
        while said := await self._apply(step):
            seen, step = step, await self._step(action)
            if step == seen:
                break
        return said

    async def _step(self, action: str) -> steps.Write:
        verb, _, rest = action.rpartition(" ")
        return await _STEPS[verb](self, rest)

    # Steps, with the preconditions of this moment.

    async def _scale(self, replicas: str) -> steps.Write:
        live = await self._live(STATEFUL_SETS, NAME)
        return self._child(changed(self._manifest(live), replicas=int(replicas)))

    async def _relabel(self, colour: str) -> steps.Write:
        live = await self._live(STATEFUL_SETS, NAME)
        return self._child(changed(self._manifest(live), colour=colour))

    async def _make_step(self, replicas: str) -> steps.Write:
        manifest = copy.deepcopy(self._kept) or self._rendered(int(replicas))
        manifest["metadata"].pop("resourceVersion", None)
        return self._child(changed(manifest, replicas=int(replicas)))

    async def _make(self, replicas: int) -> None:
        assert await self._apply(await self._make_step(str(replicas))) == ""

    def _child(self, manifest: Json) -> steps.Write:
        self._kept = manifest
        return steps.ApplyChild("StatefulSet", NAME, copy.deepcopy(manifest), "")

    def _manifest(self, live: Json) -> Json:
        """What was applied last, at the version that is live."""
        manifest = copy.deepcopy(self._kept)
        manifest["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]
        manifest["spec"]["replicas"] = live["spec"]["replicas"]
        return manifest

    def _rendered(self, replicas: int) -> Json:
        manifest = stateful_set(self._cluster, replicas=replicas, operator_image="none")
        pod = manifest["spec"]["template"]["spec"]
        del pod["initContainers"]
        pod["schedulingGates"] = [{"name": GATE}]
        pod["terminationGracePeriodSeconds"] = 3
        etcd = pod["containers"][0]
        etcd["command"] = RUNS_ALONE
        for probe in ("livenessProbe", "readinessProbe"):
            del etcd[probe]
        return manifest

    async def _delete_pod(self, ordinal: str) -> steps.Write:
        live = await self._live(PODS, naming.pod(NAME, int(ordinal)))
        return steps.DeletePod(*kube_words.identity(live), "")

    async def _delete_claim(self, ordinal: str) -> steps.Write:
        live = await self._live(CLAIMS, naming.claim(NAME, int(ordinal)))
        return steps.DeleteClaim(*kube_words.identity(live), "")

    async def _record(self, ordinal: str) -> steps.Write:
        live = await self._live(CLAIMS, naming.claim(NAME, int(ordinal)))
        name, uid, version = kube_words.identity(live)
        again = len(live["metadata"].get("annotations") or {})
        given = MemberRecord(self._cluster.uid, uid, MEMBER + again, self._first.cluster_id)
        return steps.RecordMember("PersistentVolumeClaim", name, uid, version, given, "")

    async def _write(self, size: str) -> steps.Write:
        live = await self._live(SECRETS, naming.start_secret(NAME))
        version = live["metadata"]["resourceVersion"]
        text = record(int(size), self._first)
        return steps.WriteBootstrap(naming.start_secret(NAME), version, text, "")

    async def _create_step(self, _: str) -> steps.Write:
        return steps.CreateSecret(naming.start_secret(NAME), self._first, "")

    async def _create(self, _: str) -> None:
        assert await self._apply(await self._create_step("")) == ""

    # What others do.

    async def _pod_deleted(self, ordinal: str) -> None:
        await self._delete(PODS, naming.pod(NAME, int(ordinal)))

    async def _claim_deleted(self, ordinal: str) -> None:
        await self._delete(CLAIMS, naming.claim(NAME, int(ordinal)))

    async def _no_room(self, ordinal: str) -> None:
        self._slow.add(int(ordinal))

    async def _room(self, ordinal: str) -> None:
        self._slow.discard(int(ordinal))

    async def _silenced(self, ordinal: str) -> None:
        """Its claim is held as well: what is being deleted already takes no more finalizers."""
        live = await self._live(PODS, naming.pod(NAME, int(ordinal)))
        await self._finalizers(PODS, live, SILENT, present=True)
        claim = await self._live(CLAIMS, naming.claim(NAME, int(ordinal)))
        await self._finalizers(CLAIMS, claim, HELD, present=True)

    async def _heeded(self, ordinal: str) -> None:
        live = await self._live(PODS, naming.pod(NAME, int(ordinal)))
        await self._finalizers(PODS, live, SILENT, present=False)

    async def _bound(self, ordinal: str) -> None:
        """A pod that stops is made again by hand and bound to its node while its claim goes.

        The controller and the scheduler would not do so once they have heard of the claim's end;
        they may hear late.
        """
        name = naming.pod(NAME, int(ordinal))
        pod = await self._live(PODS, name)
        await self._finalizers(PODS, pod, SILENT, present=False)
        async with asyncio.timeout(PATIENCE):
            while await self._client.get(PODS, self._namespace, name) is not None:
                await asyncio.sleep(0.1)
        await asyncio.sleep(1)
        again = await self._client.get(PODS, self._namespace, name)
        assert again is None, "the controller makes no pod onto a claim that goes"
        node = pod["spec"].pop("nodeName")
        kept = ("name", "namespace", "labels", "annotations", "ownerReferences")
        pod["metadata"] = {key: pod["metadata"][key] for key in kept}
        await self._client.create(PODS, pod)
        binding = {
            "metadata": {"name": name, "namespace": self._namespace},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self._client.create(BINDINGS, binding)

    async def _set_deleted(self, _: str) -> None:
        await self._delete(STATEFUL_SETS, NAME)

    async def _set_orphaned(self, _: str) -> None:
        await self._delete(STATEFUL_SETS, NAME, propagation="Orphan")

    async def _secret_lost(self, _: str) -> None:
        await self._delete(SECRETS, naming.start_secret(NAME))

    async def _told(self, _: str) -> None:
        await self._write_cluster_id(f"{self._first.cluster_id:016x}")

    async def _forgotten(self, _: str) -> None:
        await self._write_cluster_id(None)

    async def _write_cluster_id(self, cluster_id: str | None) -> None:
        """The installed operator writes what it has read of the status of a paused cluster back
        after each edit of its spec. A write still under way would undo this one."""
        async with asyncio.timeout(OBSERVED_SECONDS):
            while not await self._is_observed():
                await asyncio.sleep(0.1)
        status = {"status": {"clusterID": cluster_id}}
        await self._client.merge_patch(ETCD_CLUSTERS, self._namespace, NAME, status, status=True)

    async def _is_observed(self) -> bool:
        live = await self._live(ETCD_CLUSTERS, NAME)
        seen = (live.get("status") or {}).get("observedGeneration")
        return bool(seen == live["metadata"]["generation"])

    async def _declared(self, size: str) -> None:
        """A status that comes along is not heeded."""
        patch = {"spec": {"size": int(size)}, "status": {"clusterID": "0" * 16}}
        await self._client.merge_patch(ETCD_CLUSTERS, self._namespace, NAME, patch)

    # How.

    async def _live(self, resource: Resource, name: str) -> Json:
        found = await self._client.get(resource, self._namespace, name)
        assert found is not None, name
        return found

    async def _all(self, resource: Resource) -> dict[int, Json]:
        found = {}
        for one in (await self._client.list(resource, self._namespace)).items:
            name = one["metadata"]["name"].removeprefix(f"{naming.DATA_VOLUME}-")
            ordinal = naming.ordinal_of(NAME, name)
            if ordinal is not None:
                found[ordinal] = one
        return found

    async def _delete(
        self, resource: Resource, name: str, *, propagation: Propagation = "Background"
    ) -> None:
        uid = (await self._live(resource, name))["metadata"]["uid"]
        await self._client.delete(resource, self._namespace, name, uid=uid, propagation=propagation)

    async def _finalizers(
        self, resource: Resource, live: Json, finalizer: str, *, present: bool
    ) -> None:
        """As read just now, since others have finalizers there too."""
        name = live["metadata"]["name"]
        for _ in range(20):
            now = await self._client.get(resource, self._namespace, name)
            known = (now or {"metadata": {}})["metadata"].get("finalizers") or []
            wanted = [one for one in known if one != finalizer] + [finalizer] * present
            if now is None or wanted == known:
                return
            version = now["metadata"]["resourceVersion"]
            patch = {"metadata": {"resourceVersion": version, "finalizers": wanted}}
            with contextlib.suppress(Conflict):
                await self._client.merge_patch(resource, self._namespace, name, patch)
                return
        raise AssertionError(f"{name} keeps changing")

    async def _nodes(self) -> None:
        """Room for pods, but for some. What the scheduler would say of those is said here, as its
        words in the status of a pod are what wakes the controller to a claim that is gone."""
        claims, pods = await self._all(CLAIMS), await self._all(PODS)
        for ordinal, claim in claims.items():
            user = pods.get(ordinal)
            if "deletionTimestamp" in claim["metadata"] and not kube_words.has_node(user):
                await self._finalizers(CLAIMS, claim, HELD, present=False)
        for ordinal, pod in pods.items():
            if ordinal in self._slow and ordinal not in claims:
                await self._say_that_the_claim_is_gone(pod["metadata"]["name"])
            if pod["spec"].get("schedulingGates") and ordinal not in self._slow:
                patch = {"spec": {"schedulingGates": None}}
                name = pod["metadata"]["name"]
                if "deletionTimestamp" not in pod["metadata"]:
                    await self._client.merge_patch(PODS, self._namespace, name, patch)

    async def _say_that_the_claim_is_gone(self, name: str) -> None:
        said = {"type": "PodScheduled", "status": "False", "message": str(time.monotonic())}
        patch = {"status": {"conditions": [said]}}
        await self._client.merge_patch(PODS, self._namespace, name, patch, status=True)

    # What it looks like.

    def follow(self, _: Looks) -> None:
        self._run(self._nodes())

    def is_late(self) -> bool:
        """Kubernetes refuses nothing for a time."""
        return False

    def look(self) -> Looks:
        found: Looks = self._run(self._look())
        return found

    async def _look(self) -> Looks:
        live = await self._client.get(STATEFUL_SETS, self._namespace, NAME)
        secret = await self._client.get(SECRETS, self._namespace, naming.start_secret(NAME))
        cluster = await self._live(ETCD_CLUSTERS, NAME)
        pods, claims = await self._all(PODS), await self._all(CLAIMS)
        return {
            "replicas": live["spec"]["replicas"] if live else None,
            "pods": {at: kube_words.of_pod(one, live) for at, one in sorted(pods.items())},
            "claims": {at: kube_words.of_claim(one) for at, one in sorted(claims.items())},
            "secret": kube_words.of_secret(secret),
            "declared": cluster["spec"]["size"],
            "told": bool((cluster.get("status") or {}).get("clusterID")),
        }


Act = Callable[[Cluster, str], Coroutine[Any, Any, None]]
_BY_OTHERS: Final[dict[str, Act]] = {
    "kubectl delete pod": Cluster._pod_deleted,
    "kubectl delete claim": Cluster._claim_deleted,
    "nodes have no room for": Cluster._no_room,
    "nodes have room for": Cluster._room,
    "silence the node of": Cluster._silenced,
    "heed the node of": Cluster._heeded,
    "bind, on a claim that goes,": Cluster._bound,
    "kubectl delete the": Cluster._set_deleted,
    "orphan the pods of the": Cluster._set_orphaned,
    "lose the": Cluster._secret_lost,
    "write the": Cluster._told,
    "wipe the": Cluster._forgotten,
    "declare": Cluster._declared,
}
_STEPS: Final[dict[str, Callable[[Cluster, str], Coroutine[Any, Any, steps.Write]]]] = {
    "scale to": Cluster._scale,
    "relabel": Cluster._relabel,
    "make the StatefulSet of": Cluster._make_step,
    "delete pod": Cluster._delete_pod,
    "delete claim": Cluster._delete_claim,
    "record": Cluster._record,
    "write that there are": Cluster._write,
    "create the": Cluster._create_step,
}
