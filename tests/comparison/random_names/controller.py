"""The control loop: it observes, does one thing, and looks again eight seconds later.

As in the coreos operator, an edit of the spec restarts the eight seconds, members are kept in
memory, and after a failure they are listed again before the next decision.

It is better than the coreos operator in three points. The member list is linearizable, so that no
pod is deleted because of a stale list. The seed's member ID is known, so that it can be removed
like any other; the coreos operator kept a zero for it, and took etcd's "not found" for success. If
a member does not answer, it asks another one.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from harness.api import PODS, SERVICES, ApiError, Json, Kind
from urllib3.exceptions import HTTPError

from etcd_operator.etcd.api import Endpoint, NoAnswer, Refused
from etcd_stateful.observed.members import EtcdView
from random_names import manifests
from random_names.decide import (
    AddMember,
    LostQuorum,
    Nothing,
    Pod,
    RemoveMember,
    Skip,
    Spec,
    Upgrade,
    decide,
    running,
)

LOOP_SECONDS = 8.0
GRACE_SECONDS = 5


class Kubernetes(Protocol):
    def list(self, kind: Kind, namespace: str | None = None, selector: str = "") -> list[Json]: ...

    def create(self, kind: Kind, manifest: Json, namespace: str | None = None) -> Json: ...

    def patch(self, kind: Kind, namespace: str | None, name: str, patch: Any) -> Json: ...

    def delete(self, kind: Kind, namespace: str | None, name: str, **options: Any) -> None: ...


class Members(Protocol):
    async def member_list(self, at: Endpoint) -> EtcdView: ...

    async def member_add(self, at: Endpoint, peer_url: str) -> int: ...

    async def member_remove(self, at: Endpoint, member_id: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Line:
    at: float
    words: str


class Controller:
    def __init__(
        self,
        kube: Kubernetes,
        etcd: Members,
        home: manifests.Home,
        spec: Spec,
        interval: float = LOOP_SECONDS,
    ) -> None:
        self.log: list[Line] = []
        self._kube = kube
        self._etcd = etcd
        self._home = home
        self._spec = spec
        self._interval = interval
        self._members: dict[str, int] | None = None
        self._pods: dict[str, Json] = {}
        self._changed = threading.Condition()
        self._stopping = False
        self._edits = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join(30)

    def edit(self, **changes: Any) -> None:
        """As if the informer had delivered an edit: the wait for the next pass restarts."""
        with self._changed:
            self._spec = replace(self._spec, **changes)
            self._edits += 1
            self._changed.notify()

    def seed(self) -> None:
        """Creates the seed member of a new cluster, and then the Services."""
        name = manifests.new_name(self._home.name)
        token = str(uuid.uuid4())
        seed = manifests.pod(self._home, self._spec.version, name, [name], token)
        self._kube.create(PODS, seed, self._home.namespace)
        for service in manifests.services(self._home):
            self._kube.create(SERVICES, service, self._home.namespace)
        self._say(f"seed {name}")

    def tick(self) -> None:
        """One pass. What fails is tried again in the next pass, after listing the members again."""
        try:
            self._pass()
        except (ApiError, HTTPError, OSError, NoAnswer, Refused) as error:
            self._members = None
            self._say(f"failed: {error}")

    # Inside.

    def _run(self) -> None:
        self.seed()
        while self._wait():
            self.tick()

    def _wait(self) -> bool:
        """Waits for the next pass; returns False once the controller is stopped."""
        with self._changed:
            while not self._stopping:
                edits = self._edits
                self._changed.wait_for(
                    lambda seen=edits: self._stopping or self._edits != seen, self._interval
                )
                if self._edits == edits:
                    break
            return not self._stopping

    def _pass(self) -> None:
        spec = self._spec
        found = self._kube.list(PODS, self._home.namespace, _selector(self._home.labels))
        self._pods = {pod["metadata"]["name"]: pod for pod in found}
        alive = running(spec, [_pod(one) for one in found], self._home.owner["uid"])
        if isinstance(alive, Skip):
            self._say(alive.why)
            return
        reachable = [pod.name for pod in alive]
        if self._members is None:
            self._members = self._listed(reachable)
        found_out = decide(spec, self._members, alive, random.choice)
        for name in found_out.strangers:
            self._say(f"delete {name}, which is no member")
            self._delete(name)
        self._move(found_out.move, reachable)

    def _move(self, move: Any, reachable: list[str]) -> None:
        if not isinstance(move, Nothing):
            self._say(str(move))
        match move:
            case AddMember():
                self._add(reachable)
            case RemoveMember(name):
                self._remove(name, reachable)
            case Upgrade(name):
                self._upgrade(name)
            case LostQuorum():
                self._members = None

    def _add(self, reachable: list[str]) -> None:
        assert self._members is not None
        name = manifests.new_name(self._home.name)
        url = self._home.peer_url(name)
        self._members[name] = self._ask(reachable, lambda at: self._etcd.member_add(at, url))
        version = self._spec.version
        pod = manifests.pod(self._home, version, name, list(self._members))
        self._kube.create(PODS, pod, self._home.namespace)

    def _remove(self, name: str, reachable: list[str]) -> None:
        assert self._members is not None
        member = self._members[name]
        others = [one for one in reachable if one != name]
        self._ask(others or reachable, lambda at: self._etcd.member_remove(at, member))
        del self._members[name]
        self._delete(name)

    def _upgrade(self, name: str) -> None:
        patch = manifests.image_patch(self._home, self._spec.version)
        self._kube.patch(PODS, self._home.namespace, name, patch)

    def _delete(self, name: str) -> None:
        try:
            self._kube.delete(PODS, self._home.namespace, name, gracePeriodSeconds=GRACE_SECONDS)
        except ApiError as error:
            if error.status != 404:
                raise

    def _listed(self, reachable: list[str]) -> dict[str, int]:
        """IDs by the name in the peer URL, as a member that never started has not published its
        name."""
        view: EtcdView = self._ask(reachable, self._etcd.member_list)
        return {_named(member.peer_urls[0]): member.member_id for member in view.members}

    def _ask(self, names: list[str], question: Callable[[Endpoint], Any]) -> Any:
        """The answer of the first member that answers, in random order."""
        last: NoAnswer | None = None
        for name in random.sample(names, len(names)):
            address = self._pods[name].get("status", {}).get("podIP")
            if not address:
                continue
            try:
                return asyncio.run(question(Endpoint(address)))
            except NoAnswer as error:
                last = error
        raise last or NoAnswer("no member has an address")

    def _say(self, words: str) -> None:
        self.log.append(Line(time.monotonic(), words))


def _pod(body: Json) -> Pod:
    metadata = body["metadata"]
    owners = metadata.get("ownerReferences") or [{"uid": ""}]
    return Pod(
        name=metadata["name"],
        phase=(body.get("status") or {}).get("phase", ""),
        version=(metadata.get("annotations") or {}).get(manifests.VERSION_ANNOTATION, ""),
        owner=owners[0]["uid"],
        deleting="deletionTimestamp" in metadata,
    )


def _named(peer_url: str) -> str:
    return peer_url.partition("//")[2].partition(".")[0]


def _selector(labels: dict[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in labels.items())
