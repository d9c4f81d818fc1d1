"""In-memory fakes of what the operator talks to: the API server, `start`, etcd and the clock.

They refuse what the real ones refuse (resourceVersion and UID preconditions, names that are taken),
and count requests, because most bugs of an operator are one call too many.
"""

from __future__ import annotations

import base64
import itertools
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from copied import copied
from fake_accounts import FakeAccounts
from fixed import applied_containers, applied_ports, excluded, fixed

from etcd_operator.cluster import tickets
from etcd_operator.cluster.apply import Applier
from etcd_operator.etcd import api as etcd
from etcd_operator.etcd.api import Endpoint
from etcd_operator.kube.api import (
    CERTIFICATES,
    CLAIMS,
    ETCD_CLUSTERS,
    PODS,
    SERVICES,
    STATEFUL_SETS,
    Conflict,
    Json,
    Key,
    Listing,
    Propagation,
    Rejected,
    Resource,
)
from etcd_operator.kube.finder import Finder
from etcd_operator.kube.store import Store
from etcd_stateful import identity, naming, stored_conditions
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.manifests.start_settings import levels_in
from etcd_stateful.membership.observation import Observation
from etcd_stateful.observed.members import Alarm, EtcdView, Member, MemberStatus
from etcd_stateful.start.ticket import Answer, Finding, Receipt, Ticket

Name = tuple[Resource, str, str]

PLAINTEXT = {"peer": "Plaintext", "client": "Plaintext"}

NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
"""Stands for every kind without a namespace. The operator reads no such object."""


@dataclass
class FakeClock:
    """A clock in seconds that moves only when a test moves it."""

    now: float = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now

    def rfc3339(self) -> str:
        return datetime.fromtimestamp(self.now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class FakeKube:
    """Implements `kube.Kubernetes`. One watch, which selects by our label, feeds a store; tests can
    delay its events."""

    def __init__(self, clock: FakeClock | None = None) -> None:
        self.clock = clock or FakeClock()
        self.objects: dict[Name, Json] = {}
        self.calls: Counter[str] = Counter()
        """By verb and kind: `apply Service`, `apply EtcdCluster/status`, `get Pod`."""

        self.log: list[str] = []
        self.store: Store | None = None
        self.watching = True
        self.before: dict[str, Callable[[], None]] = {}
        """Called once, just before such a call is served: what happens in between."""

        self.failures: dict[str, list[Exception]] = {}
        """Raised instead of serving such a call, one after the other."""

        self.unserved: set[Resource] = set()
        """Resources whose CRDs are not installed."""

        self._versions = itertools.count(100)
        self._uids = itertools.count(1)

    def writes(self) -> Counter[str]:
        reads = ("get", "list", "create Event")
        return Counter({k: n for k, n in self.calls.items() if not k.startswith(reads)})

    # For tests: arranging objects and failures.

    def put(self, resource: Resource, obj: Json) -> Json:
        """Creates or changes an object, as somebody other than the operator would."""
        name = (resource, obj["metadata"]["namespace"], obj["metadata"]["name"])
        known = self.objects.get(name)
        made = copied(obj)
        metadata = made["metadata"]
        metadata.setdefault("uid", known["metadata"]["uid"] if known else f"uid-{next(self._uids)}")
        metadata.setdefault("creationTimestamp", self.clock.rfc3339())
        return self._store(name, made)

    def remove(self, resource: Resource, namespace: str, name: str) -> None:
        gone = self.objects.pop((resource, namespace, name))
        if self.store is not None and self.watching and resource != CERTIFICATES:
            self.store.remove(
                resource, namespace, name, gone["metadata"]["uid"], next(self._versions)
            )

    def live(self, resource: Resource, name: str, namespace: str = "default") -> Json:
        return copied(self.objects[resource, namespace, name])

    def find(self, resource: Resource, name: str, namespace: str = "default") -> Json | None:
        return copied(self.objects.get((resource, namespace, name)))

    # The methods of `kube.Kubernetes`.

    async def get(self, resource: Resource, namespace: str, name: str) -> Json | None:
        self._called("get", resource, name)
        return copied(self.objects.get((resource, namespace, name)))

    async def list(self, resource: Resource, namespace: str | None, selector: str = "") -> Listing:
        self._called("list", resource, "")
        found = [
            copied(obj)
            for (kind, where, _), obj in self.objects.items()
            if kind == resource and namespace in (None, where) and _selected(obj, selector)
        ]
        return Listing(found, next(self._versions))

    async def apply(self, resource: Resource, manifest: Json, *, status: bool = False) -> Json:
        metadata = manifest["metadata"]
        name = (resource, metadata["namespace"], metadata["name"])
        self._called("apply", resource, metadata["name"], suffix="/status" if status else "")
        known = self.objects.get(name)
        if known is None and status:
            raise Rejected("not found", status=404)
        if known is None and "uid" in metadata:
            raise Conflict("uid mismatch: the object does not exist", status=409)
        self._check(known, metadata)
        if status:
            types = {one["type"] for one in manifest["status"].get("conditions") or ()}
            assert types <= stored_conditions.OURS
            made = {**(known or {}), "status": copied(manifest["status"])}
        else:
            made = _merged(known or {}, manifest)
            if resource == SERVICES:
                made["spec"]["ports"] = applied_ports(known, manifest)
            if resource == STATEFUL_SETS:
                pod = made["spec"]["template"]["spec"]
                pod["containers"] = applied_containers(known, manifest)
            if words := excluded(made.get("spec") or {}):
                raise Rejected(words, status=422)
            if resource == STATEFUL_SETS and known and fixed(made) != fixed(known):
                raise Rejected("spec: Forbidden: updates to statefulset spec", status=422)
        made["metadata"].setdefault("uid", f"uid-{next(self._uids)}")
        made["metadata"].setdefault("creationTimestamp", self.clock.rfc3339())
        return self._store(name, made)

    async def create(self, resource: Resource, manifest: Json) -> Json:
        metadata = manifest["metadata"]
        name = (resource, metadata["namespace"], metadata["name"])
        self._called("create", resource, metadata["name"])
        if name in self.objects:
            raise Conflict("already exists", status=409, reason="AlreadyExists")
        made = copied(manifest)
        made["metadata"]["uid"] = f"uid-{next(self._uids)}"
        made["metadata"]["creationTimestamp"] = self.clock.rfc3339()
        for key, text in (made.pop("stringData", None) or {}).items():
            made.setdefault("data", {})[key] = base64.b64encode(text.encode()).decode()
        return self._store(name, made)

    async def merge_patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Json,
        *,
        status: bool = False,
        dry_run: bool = False,
    ) -> Json:
        suffix = " as a trial" if dry_run else "/status" if status else ""
        self._called("patch", resource, name, suffix=suffix)
        known = self.objects.get((resource, namespace, name))
        if known is None:
            raise Rejected("not found", status=404)
        self._check(known, patch.get("metadata") or {})
        merged = _merged(known, patch)
        return merged if dry_run else self._store((resource, namespace, name), merged)

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str,
        resource_version: str | None = None,
        propagation: Propagation = "Background",
        grace_seconds: int | None = None,
    ) -> bool:
        assert propagation != "Orphan", "not played here"
        self._called("delete", resource, name, suffix=" by force" if grace_seconds == 0 else "")
        known = self.objects.get((resource, namespace, name))
        if known is None:
            return False
        wanted = {"uid": uid}
        if resource_version is not None:
            wanted["resourceVersion"] = resource_version
        self._check(known, wanted)
        waits = propagation == "Foreground" and self._pods_of(known)
        if known["metadata"].get("finalizers") or waits:
            marked = copied(known)
            marked["metadata"].setdefault("deletionTimestamp", self.clock.rfc3339())
            self._store((resource, namespace, name), marked)
        else:
            self.remove(resource, namespace, name)
        return True

    def _pods_of(self, job: Json) -> bool:
        """Whether the Job still has running pods. Until a test calls `remove` for it, it is then
        only marked as deleted."""
        uid = job["metadata"]["uid"]
        return any(
            kind == PODS
            and any(one["uid"] == uid for one in obj["metadata"].get("ownerReferences", ()))
            and (obj.get("status") or {}).get("phase") == "Running"
            for (kind, *_), obj in self.objects.items()
        )

    def _called(self, verb: str, resource: Resource, name: str, suffix: str = "") -> None:
        call = f"{verb} {resource.kind}{suffix}"
        self.calls[call] += 1
        self.log.append(f"{call} {name}")
        if hook := self.before.pop(call, None):
            hook()
        if self.failures.get(call):
            raise self.failures[call].pop(0)
        if resource in self.unserved and verb != "get":
            raise Rejected("404 page not found", status=404)

    def _check(self, known: Json | None, wanted: Mapping[str, Any]) -> None:
        for key in ("uid", "resourceVersion"):
            if known is not None and key in wanted and known["metadata"][key] != wanted[key]:
                raise Conflict(f"{key} is {known['metadata'][key]}", status=409, reason="Conflict")

    def _store(self, name: Name, obj: Json) -> Json:
        known = self.objects.get(name)
        metadata = obj["metadata"]
        if known is not None and {**known, "metadata": _still(known)} == {
            **obj,
            "metadata": _still(obj),
        }:
            return copied(known)  # like the API server: no change, no new version
        if name[0] == ETCD_CLUSTERS:
            changed = known is None or known.get("spec") != obj.get("spec")
            metadata["generation"] = (known or obj)["metadata"].get("generation", 0) + changed
        metadata["resourceVersion"] = str(next(self._versions))
        self.objects[name] = obj
        self.publish(name)
        return copied(obj)

    def publish(self, name: Name) -> None:
        """Delivers to the store what the watch, which selects by our label, reports about the
        object."""
        resource, namespace, called = name
        if self.store is None or not self.watching or resource == CERTIFICATES:
            return
        obj = self.objects[name]
        labels = obj["metadata"].get("labels") or {}
        if resource.group == naming.GROUP or labels.get(naming.LABEL_MANAGED_BY) == naming.MANAGER:
            self.store.put(resource, copied(obj))
        elif self.store.get(resource, namespace, called):
            uid, version = obj["metadata"]["uid"], int(obj["metadata"]["resourceVersion"])
            self.store.remove(resource, namespace, called, uid, version)


def _selected(obj: Json, selector: str) -> bool:
    wanted = dict(part.split("=", 1) for part in selector.split(",") if part)
    return wanted.items() <= (obj["metadata"].get("labels") or {}).items()


def _still(obj: Json) -> Json:
    return {k: v for k, v in obj["metadata"].items() if k != "resourceVersion"}


def _merged(known: Json, patch: Json) -> Json:
    """A merge patch. An apply is one too, but for fields that it leaves out: here they stay."""
    made = copied(known)
    for key, value in patch.items():
        if value is None:
            made.pop(key, None)
        elif isinstance(value, dict):
            made[key] = _merged(made.get(key) or {}, value)
        else:
            made[key] = copied(value)
    return made


@dataclass
class FakeStart:
    """Implements `tickets.Start`: which pod waits at which address, and which tickets were
    taken."""

    clock: FakeClock
    waiting: dict[str, Answer] = field(default_factory=dict)
    """By address; the nonce is ignored."""

    taken: list[Ticket] = field(default_factory=list)
    asked: int = 0
    refusal: str = ""
    refuses: frozenset[str] = frozenset()
    """The members whose tickets are refused; empty for all."""

    deaf: bool = False
    lose_receipt: bool = False
    on_ticket: Callable[[str, Ticket], None] = lambda *_: None

    def wait(self, address: str, pod_uid: str, challenge: str, finding: Finding | None = None):
        self.waiting[address] = Answer("-", challenge, pod_uid, finding or Finding("no-data"))

    async def ask(self, address: str, pod_uid: str, key: bytes) -> Answer:
        self.asked += 1
        answer = self.waiting.get(address)
        if self.deaf or answer is None or answer.pod_uid != pod_uid or len(key) < 32:
            raise tickets.NoAnswer(f"{address}: nobody")
        return answer

    async def push(self, address: str, pod_uid: str, key: bytes, ticket: Ticket) -> Receipt:
        answer = await self.ask(address, pod_uid, key)
        if answer.challenge != ticket.challenge:
            raise tickets.NoAnswer(f"{address}: another run")
        if self.refusal and (not self.refuses or ticket.member in self.refuses):
            return Receipt(ticket.challenge, self.refusal)
        self.taken.append(ticket)
        del self.waiting[address]
        self.on_ticket(address, ticket)
        if self.lose_receipt:
            raise tickets.NoAnswer(f"{address}: closed before a whole line came")
        return Receipt(ticket.challenge)


@dataclass
class FakeEtcd:
    """Implements `etcd.Etcd`, with members by address. A member list needs a quorum of `listed`."""

    cluster_id: int = 0
    members: dict[str, Member] = field(default_factory=dict)
    """By address; only members that run."""

    listed: dict[int, Member] = field(default_factory=dict)
    """The member list, by member ID: members that run, and members that do not."""

    leader: int | None = None
    learners: set[int] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)
    """Addresses that answer a status request, but not a member list request."""

    served: dict[str, frozenset[str]] = field(default_factory=dict)
    """By address: the schemes that clients are served with, where that matters."""

    calls: list[str] = field(default_factory=list)
    patience: dict[str, float] = field(default_factory=dict)
    """By address: the timeout of the last status request."""

    changes: list[str] = field(default_factory=list)
    """Each change that was requested, with the address it was requested from."""

    answers: list[Exception] = field(default_factory=list)
    """Raised in order, instead of making a change."""

    strays: dict[str, int] = field(default_factory=dict)
    """By address: the ID of another cluster that answers there."""
    denies: str = ""
    """What etcd answers a user that it does not know; empty if nobody is denied."""

    denies_list: str = ""
    raised: tuple[Alarm, ...] = ()
    files: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By address: the size of the member's file, and how much of it is in use, in bytes."""
    uncounted: dict[str, int] = field(default_factory=dict)
    """By address: how much is really in use; a member reports it only after it has counted
    again."""
    revisions: dict[str, int] = field(default_factory=dict)
    hashes: dict[str, etcd.Hash] = field(default_factory=dict)

    async def status(self, at: Endpoint, seconds: float = 1.0) -> MemberStatus:
        self.calls.append(f"status {at.address}")
        self.patience[at.address] = seconds
        member = self._member(at)
        return MemberStatus(
            member_id=member.member_id,
            cluster_id=self.cluster_id,
            version="3.7.3",
            leader_id=self._leader(),
            term=2,
            applied_index=10,
            learner=member.member_id in self.learners,
            db_size=self.files.get(at.address, (20480, 20480))[0],
            db_size_in_use=self.files.get(at.address, (20480, 20480))[1],
            errors=tuple(f"memberID:{one.member_id} alarm:{one.kind} " for one in self.raised),
            revision=self.revisions.get(at.address, 10),
        )

    async def member_list(self, at: Endpoint) -> EtcdView:
        self.calls.append(f"list {at.address}")
        self._member(at)
        if self.denies_list:
            raise etcd.Denied(self.denies_list)
        if not self._leader() or at.address in self.silent:
            raise etcd.NoAnswer("no quorum")
        return EtcdView(self.cluster_id, tuple(self.listed.values()))

    async def member_add_learner(self, at: Endpoint, *peer_urls: str) -> int:
        self._changed("add", at, " ".join(peer_urls))
        taken = {url for one in self.listed.values() for url in one.peer_urls}
        _refuse(bool(self.learners), "too many learner members in cluster")
        _refuse(not taken.isdisjoint(peer_urls), "Peer URLs already exists")
        member_id = max(self.listed, default=0) + 1
        self.listed[member_id] = Member(member_id, "", peer_urls, learner=True)
        self.learners.add(member_id)
        return member_id

    async def member_update(self, at: Endpoint, member_id: int, *peer_urls: str) -> None:
        self._changed("update", at, f"{member_id} {' '.join(peer_urls)}")
        _refuse(member_id not in self.listed, "member not found")
        self.listed[member_id] = replace(self.listed[member_id], peer_urls=peer_urls)

    async def member_promote(self, at: Endpoint, member_id: int) -> None:
        self._changed("promote", at, member_id)
        _refuse(member_id not in self.learners, "can only promote a learner member")
        self.learners.discard(member_id)
        self.listed[member_id] = replace(self.listed[member_id], learner=False)

    async def member_remove(self, at: Endpoint, member_id: int) -> None:
        self._changed("remove", at, member_id)
        _refuse(member_id not in self.listed, "member not found")
        del self.listed[member_id]

    async def move_leader(self, at: Endpoint, member_id: int) -> None:
        self._changed("move leader", at, member_id)
        is_voter = member_id in self.listed and member_id not in self.learners
        _refuse(not is_voter, "bad leader transferee")
        self.leader = member_id

    async def alarms(self, at: Endpoint) -> tuple[Alarm, ...]:
        self.calls.append(f"alarms {at.address}")
        self._member(at)
        return self.raised

    async def hash_kv(self, at: Endpoint, revision: int) -> etcd.Hash:
        self.calls.append(f"hash {at.address} {revision}")
        self._member(at)
        return self.hashes.get(at.address, etcd.Hash(1, 5))

    async def disarm(self, at: Endpoint, alarm: Alarm) -> None:
        self._changed("disarm", at, f"{alarm.kind} {alarm.member_id}")
        self.raised = tuple(one for one in self.raised if one != alarm)

    async def defragment(self, at: Endpoint) -> None:
        self._changed("defragment", at)
        self.files[at.address] = (self.files[at.address][1],) * 2

    async def recount(self, at: Endpoint) -> None:
        self.calls.append(f"recount {at.address}")
        self._member(at)
        if at.address in self.uncounted:
            self.files[at.address] = (self.files[at.address][0], self.uncounted.pop(at.address))

    async def enable_downgrade(self, at: Endpoint, minor: str) -> None:
        self._changed("downgrade", at, minor)

    async def cancel_downgrade(self, at: Endpoint) -> None:
        self._changed("cancel", at)

    def _changed(self, what: str, at: Endpoint, about: object = "") -> None:
        """Records a change, or raises the next of `answers`. Any member adds and removes members;
        most other changes only the leader accepts."""
        self.changes.append(f"{what} {at.address} {about}".rstrip())
        member = self._member(at)
        if self.answers:
            raise self.answers.pop(0)
        by_any = ("add", "remove", "update", "defragment")
        _refuse(what not in by_any and member.member_id != self._leader(), "not leader")

    def _member(self, at: Endpoint) -> Member:
        member = self.members.get(at.address)
        if member is None:
            raise etcd.NoAnswer(f"{at.address}: connection refused")
        spoken = "https" if at.tls else "http"
        if spoken not in self.served.get(at.address, (spoken,)):
            raise etcd.NoAnswer(f"{at.address}: does not speak {spoken}")
        if self.denies:
            raise etcd.Denied(self.denies)
        if stray := self.strays.get(at.address):
            raise etcd.Stranger(f"{at.address}: another cluster", stray)
        if at.cluster_id not in (None, self.cluster_id):
            raise etcd.Stranger(f"{at.address}: another cluster", self.cluster_id)
        if at.member_id not in (None, member.member_id):
            raise etcd.Stranger(f"{at.address}: another member")
        return member

    def _leader(self) -> int:
        if len(self.members) <= len(self.listed) // 2:
            return 0
        ids = [member.member_id for member in self.members.values()]
        return self.leader if self.leader in ids else ids[0]


def _refuse(wrong: bool, words: str) -> None:
    if wrong:
        raise etcd.Refused(words)


class Nodes:
    """The StatefulSet controller, the volume binder, the kubelets and etcd itself, on demand.

    `turn` does what they would do with the objects that exist now. A volume keeps its data as long
    as its claim, and `start` runs etcd or waits accordingly.
    """

    def __init__(self, kube: FakeKube, start: FakeStart, etcd_: FakeEtcd) -> None:
        self.kube = kube
        self.start = start
        self.etcd = etcd_
        self.disks: dict[str, Ticket] = {}
        """By claim UID: the ticket that the data began with."""

        self.readiness = True
        self._numbers = itertools.count(1)
        start.on_ticket = self._take

    def turn(self) -> None:
        for (resource, namespace, _), obj in list(self.kube.objects.items()):
            if resource == STATEFUL_SETS and "deletionTimestamp" not in obj["metadata"]:
                for ordinal in range(obj["spec"]["replicas"]):
                    self._pod(namespace, obj, ordinal)
        if self.readiness:
            self._make_ready()

    def kill(self, name: str, namespace: str = "default") -> None:
        pod = self.kube.live(PODS, name, namespace)
        self.etcd.members.pop(pod["status"]["podIP"], None)
        self.start.waiting.pop(pod["status"]["podIP"], None)
        self.kube.remove(PODS, namespace, name)

    def _pod(self, namespace: str, stateful_set: Json, ordinal: int) -> None:
        name = f"{stateful_set['metadata']['name']}-{ordinal}"
        if (PODS, namespace, name) in self.kube.objects:
            return
        claim = self._claim(namespace, stateful_set, name)
        number = next(self._numbers)
        template = copied(stateful_set["spec"]["template"])
        owner = {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "name": stateful_set["metadata"]["name"],
            "uid": stateful_set["metadata"]["uid"],
            "controller": True,
        }
        pod = {
            "metadata": {
                **template["metadata"],
                "name": name,
                "namespace": namespace,
                "ownerReferences": [owner],
            },
            "spec": template["spec"],
            "status": running(naming.START_CONTAINER, f"10.0.0.{number}"),
        }
        made = self.kube.put(PODS, pod)
        disk = self.disks.get(claim["metadata"]["uid"] if claim else "")
        if disk is None:
            self.start.wait(f"10.0.0.{number}", made["metadata"]["uid"], f"run-{number}")
        else:
            self._run(made, disk)

    def _claim(self, namespace: str, stateful_set: Json, pod: str) -> Json | None:
        templates = stateful_set["spec"].get("volumeClaimTemplates") or []
        if not templates:
            return None
        name = f"{naming.DATA_VOLUME}-{pod}"
        if known := self.kube.find(CLAIMS, name, namespace):
            return known
        template = copied(templates[0])
        template["metadata"] |= {"name": name, "namespace": namespace}
        return self.kube.put(CLAIMS, {**template, "status": {"phase": "Bound"}})

    def _take(self, address: str, ticket: Ticket) -> None:
        pod = next(
            obj
            for (resource, *_), obj in self.kube.objects.items()
            if resource == PODS and obj["status"].get("podIP") == address
        )
        claim = f"{naming.DATA_VOLUME}-{pod['metadata']['name']}"
        if known := self.kube.find(CLAIMS, claim, pod["metadata"]["namespace"]):
            self.disks[known["metadata"]["uid"]] = ticket
        self._run(copied(pod), ticket)

    def _run(self, pod: Json, ticket: Ticket) -> None:
        address = pod["status"]["podIP"]
        urls = dict(entry.split("=", 1) for entry in ticket.initial_cluster.split(",") if entry)
        name = pod["metadata"]["name"]
        self.etcd.cluster_id = ticket.cluster_id
        if not self.etcd.listed:
            for first, url in urls.items():
                member_id = identity.member_id([url], ticket.token)
                self.etcd.listed[member_id] = Member(member_id, first, (url,), learner=False)
        if levels := levels_in(pod["spec"]):
            self.etcd.served[address] = levels.client_schemes
        self.etcd.members[address] = Member(
            ticket.member_id, name, (urls.get(name, ""),), learner=False
        )
        self.kube.put(PODS, {**pod, "status": running(naming.ETCD_CONTAINER, address)})

    def _make_ready(self) -> None:
        for (resource, *_), obj in list(self.kube.objects.items()):
            if resource == PODS and obj["status"].get("podIP") in self.etcd.members:
                ready = [{"type": "Ready", "status": "True"}]
                if obj["status"].get("conditions") != ready:
                    self.kube.put(PODS, {**obj, "status": {**obj["status"], "conditions": ready}})


class NoLook:
    """Stands in for the part that looks at volume Jobs, certificates or passwords: adds nothing."""

    async def onto(self, base: Observation) -> Observation:
        return base

    def identity(self, _cluster: EtcdCluster) -> None:
        """Nothing to show."""

    def of(self, _cluster: EtcdCluster) -> Mapping[str, str]:
        return {}

    def since(self, _cluster: EtcdCluster) -> float:
        return float("-inf")

    def forget(self, _key: Key) -> None:
        """Nothing to forget."""


def no_looks() -> dict[str, Any]:
    """The arguments of an Observer that only looks at objects, `start` and etcd."""
    names = ("volume_jobs", "certificates", "passwords", "expansion")
    return {name: NoLook() for name in names}


def an_applier(
    kube: FakeKube, finder: Finder, start: FakeStart, etcd: FakeEtcd, clock: FakeClock
) -> Applier:
    """Without certificates and passwords, and with users and roles of its own."""
    return Applier(
        kube,
        finder,
        start,
        etcd,
        clock,
        identity=lambda _: None,
        accounts=FakeAccounts(),
        passwords=NoLook(),
    )


def running(container: str, address: str) -> Json:
    """The status of a pod in which this container is running."""
    begun = {"state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}, "restartCount": 0}
    done = {"state": {"terminated": {"exitCode": 0}}, "restartCount": 0}
    waits = {"state": {"waiting": {"reason": "PodInitializing"}}, "restartCount": 0}
    in_start = container == naming.START_CONTAINER
    return {
        "phase": "Pending" if in_start else "Running",
        "podIP": address,
        "initContainerStatuses": [
            {"name": naming.START_CONTAINER, **(begun if in_start else done)}
        ],
        "containerStatuses": [{"name": naming.ETCD_CONTAINER, **(waits if in_start else begun)}],
    }


def cluster_body(name: str = "a", **spec: Any) -> Json:
    """The body of an EtcdCluster. It is in plaintext unless a test says otherwise, which saves six
    Secrets to create and to count. With `TLS=None` the spec has no TLS field."""
    return {
        "apiVersion": naming.API_VERSION,
        "kind": naming.CLUSTER_KIND,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"size": 3, "TLS": PLAINTEXT, **spec},
    }
