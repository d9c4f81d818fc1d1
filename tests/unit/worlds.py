"""A tiny world for the planner: API server, StatefulSet controller, kubelet, `start` and etcd.

`World.apply` carries out a step as the shell would, behind every precondition that the step names
(`Conflict`), and holds it against the safety rules of the design (`RuleBroken`): whatever sequence
of events a test makes up, no write may break one. `World.turn` lets everything else go on: pods
are made, `start` runs, members find each other.

Nothing here knows how the planner decides.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster, parse_cluster
from etcd_stateful.membership import identity, records
from etcd_stateful.membership.observation import (
    Claim,
    EtcdView,
    Foreign,
    Member,
    MemberStatus,
    Observation,
    Pod,
    Secret,
    StartAnswer,
)
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.records import Bootstrap, MemberRecord
from etcd_stateful.membership.steps import (
    ApplyChild,
    CreateSecret,
    DeleteClaim,
    Hold,
    PushTicket,
    RecordMember,
    Settled,
    Step,
    Wait,
    WriteBootstrap,
)
from etcd_stateful.ticket import Finding

UID = "4be0f3a2-0b0e-4d8c-9a55-2f6f0a1c7d11"
OLD = "0ld00000-0000-4000-8000-000000000001"
OLDER = "0ld00000-0000-4000-8000-000000000002"
IMAGE = "operator:1"

Json = dict[str, Any]


def body(
    size: int = 3, *, name: str = "c", uid: str = UID, status: Json | None = None, **spec: Any
) -> Json:
    """An EtcdCluster as the API server stores it."""
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": uid, "generation": 1},
        "spec": {"size": size} | spec,
        "status": status or {},
    }


def cluster(size: int = 3, **given: Any) -> EtcdCluster:
    return parse_cluster(body(size, **given))


class Conflict(Exception):
    """A precondition of the step did not hold, or `start` no longer waits: nothing happened."""


class RuleBroken(AssertionError):
    """A write that the design forbids. The message starts with the rule."""


@dataclass(frozen=True, slots=True)
class Data:
    """What marker and log on a volume say."""

    cluster_uid: str
    member: str
    member_id: int
    cluster_id: int


@dataclass(slots=True)
class Volume:
    """A claim and what is on its volume."""

    uid: str
    resource_version: int
    annotations: dict[str, str]
    data: Data | None = None
    deleting: bool = False
    unreadable: str = ""


@dataclass(slots=True)
class PodState:
    """A pod. `where` is `pending`, `start` or `etcd`; `data` is that of an emptyDir."""

    uid: str
    resource_version: int
    where: str = "pending"
    challenge: str = ""
    deleting: bool = False
    trouble: str = ""
    silent: bool = False
    age: float = 0.0
    annotations: dict[str, str] = field(default_factory=dict)
    data: Data | None = None


class World:
    """One cluster and its surroundings."""

    def __init__(self, resource: Json | None = None) -> None:
        self.body = resource or body()
        self.secret: tuple[int, Bootstrap] | None = None
        self.damage = ""
        self.objects: dict[tuple[str, str], Json] = {}
        self.claims: dict[int, Volume] = {}
        self.pods: dict[int, PodState] = {}
        self.stuck: set[int] = set()
        """Ordinals whose pods stay pending."""
        self.cut_off = False
        """Nobody reaches etcd; it may be there all the same."""
        self.foreign: tuple[Foreign, ...] = ()
        self.members: dict[int, dict[int, Member]] = {}
        """The member list by etcd cluster ID."""
        self.history: list[Step] = []
        self.ticketed: dict[int, str] = {}
        """Every member ID that ever had a ticket, and the run that had it."""
        self.begun: set[tuple[str, str]] = set()
        """Token and pod of every `new` ticket."""
        self.version = ""
        """What the first StatefulSet was made to run."""
        self._count = 0
        self._parsed: tuple[str, EtcdCluster] | None = None

    # What the planner sees.

    @property
    def cluster(self) -> EtcdCluster:
        key = repr(self.body)
        if self._parsed is None or self._parsed[0] != key:
            self._parsed = (key, parse_cluster(self.body))
        return self._parsed[1]

    @property
    def record(self) -> Bootstrap:
        assert self.secret is not None
        return self.secret[1]

    def observe(self) -> Observation:
        found = self.cluster
        status = self.body["status"].get("clusterID")
        view, statuses = self._answers()
        return Observation(
            cluster=found,
            secret=self._seen_secret(),
            stateful_set=self._live("StatefulSet", found.name),
            headless_service=self._live("Service", found.name),
            client_service=self._live("Service", f"{found.name}-client"),
            claims=tuple(self._claim(ordinal) for ordinal in sorted(self.claims)),
            pods=tuple(self._pod(ordinal) for ordinal in sorted(self.pods)),
            etcd=view,
            statuses=statuses,
            foreign=self.foreign,
            operator_image=IMAGE,
            last_cluster_id=identity.from_hex(status) if status else None,
        )

    def _live(self, kind: str, name: str) -> Json | None:
        return self.objects.get((kind, name))

    def _seen_secret(self) -> Secret | None:
        if self.secret is None:
            return None
        if self.damage:
            return Secret(str(self.secret[0]), None, self.damage)
        return Secret(str(self.secret[0]), self.record)

    def _claim(self, ordinal: int) -> Claim:
        claim = self.claims[ordinal]
        record, damage = None, ""
        try:
            record = records.load_member(claim.annotations)
        except records.BadRecord as error:
            damage = str(error)
        return Claim(
            ordinal=ordinal,
            name=naming.claim(self.cluster.name, ordinal),
            uid=claim.uid,
            resource_version=str(claim.resource_version),
            cluster_uid=claim.annotations.get(naming.CLUSTER_UID, ""),
            record=record,
            damage=damage,
            deleting=claim.deleting,
        )

    def _pod(self, ordinal: int) -> Pod:
        pod = self.pods[ordinal]
        waits = pod.where == "start"
        answers = waits and not pod.silent and self.secret is not None
        return Pod(
            ordinal=ordinal,
            name=naming.pod(self.cluster.name, ordinal),
            uid=pod.uid,
            resource_version=str(pod.resource_version),
            address=f"10.0.0.{ordinal}",
            deleting=pod.deleting,
            ready=pod.where == "etcd" and self._has_quorum(ordinal),
            in_start=waits,
            etcd_started=pod.where == "etcd",
            trouble=pod.trouble,
            answer=StartAnswer(pod.challenge, self._finding(ordinal)) if answers else None,
            record=records.load_member(pod.annotations) if pod.annotations else None,
            age=pod.age,
        )

    def data(self, ordinal: int) -> Data | None:
        durable = self.cluster.durable
        holder: Any = self.claims.get(ordinal) if durable else self.pods.get(ordinal)
        return holder.data if holder else None

    def _finding(self, ordinal: int) -> Finding:
        claim = self.claims.get(ordinal)
        if claim and claim.unreadable:
            return Finding("unreadable", claim.unreadable)
        data = self.data(ordinal)
        if data is None:
            return Finding("no-data")
        ids = (data.cluster_uid, 1, data.member, data.member_id, data.cluster_id)
        return Finding("foreign-data", "the marker is not this pod's", *ids)

    def _answers(self) -> tuple[EtcdView | None, dict[int, MemberStatus]]:
        running = {one: data for one, data in self._running() if not self.cut_off}
        statuses = {
            ordinal: MemberStatus(
                member_id=data.member_id,
                cluster_id=data.cluster_id,
                version=str(self.cluster.version),
                leader_id=min(self.members.get(data.cluster_id, {0: None})),
                term=2,
                applied_index=8,
                learner=False,
                db_size=4096,
            )
            for ordinal, data in running.items()
        }
        able = [data.cluster_id for one, data in running.items() if self._has_quorum(one)]
        if not able:
            return None, statuses
        return EtcdView(able[0], tuple(self.members[able[0]].values())), statuses

    def _running(self) -> Iterator[tuple[int, Data]]:
        for ordinal, pod in sorted(self.pods.items()):
            data = self.data(ordinal)
            if pod.where == "etcd" and data is not None:
                yield ordinal, data

    def _has_quorum(self, ordinal: int) -> bool:
        data = self.data(ordinal)
        if data is None:
            return False
        listed = self.members.get(data.cluster_id, {})
        alive = {one.member_id for _, one in self._running() if one.cluster_id == data.cluster_id}
        return data.member_id in listed and len(alive & listed.keys()) > len(listed) // 2

    # What a step does.

    def apply(self, step: Step) -> None:
        """The write of a step, or Conflict."""
        match step:
            case ApplyChild():
                self._apply_child(step)
            case CreateSecret():
                self._create_secret(step)
            case WriteBootstrap():
                self._write_bootstrap(step)
            case RecordMember():
                self._record_member(step)
            case PushTicket():
                self._push(step)
            case DeleteClaim():
                self._delete_claim(step)
            case _:
                raise RuleBroken(f"{step} is no write")
        self.history.append(step)

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _writes(self) -> None:
        _rule(not self.cluster.paused, "paused", "nothing is written while spec.paused is true")

    def _apply_child(self, step: ApplyChild) -> None:
        self._writes()
        manifest = copy.deepcopy(step.manifest)
        owner = manifest["metadata"]["ownerReferences"][0]
        _rule(owner["uid"] == self.cluster.uid, "I10", "a child without its owner")
        taken = {(one.kind, one.name) for one in self.foreign}
        _rule((step.kind, step.name) not in taken, "I10", f"{step.name} is another owner's")
        live = self.objects.get((step.kind, step.name))
        of = manifest["metadata"].pop("resourceVersion", None)
        if of != (live["metadata"]["resourceVersion"] if live else None):
            raise Conflict("another resourceVersion, or there is one by now")
        if step.kind == "StatefulSet":
            self._check_stateful_set(manifest)
        stored = with_defaults(manifest)
        stored["metadata"]["uid"] = live["metadata"]["uid"] if live else f"u{self._next()}"
        stored["metadata"]["resourceVersion"] = str(self._next())
        self.objects[step.kind, step.name] = stored

    def _check_stateful_set(self, manifest: Json) -> None:
        spec, live = manifest["spec"], self.objects.get(("StatefulSet", self.cluster.name))
        held = [one + 1 for one in self.claims if self.claims[one].data] + [0]
        held += [one + 1 for one, _ in self._running()]
        _rule(spec["replicas"] >= max(held), "I5", "fewer replicas than volumes with data")
        if live and spec["replicas"] < live["spec"]["replicas"]:
            known = self.record.cluster_id if self.secret else 0
            listed = self.members.get(known, {})
            names = {member.name for member in listed.values()}
            gone = naming.pod(self.cluster.name, spec["replicas"])
            _rule(bool(listed) and gone not in names, "I5", f"{gone} is still a member")
        noted = manifest["metadata"]["annotations"][naming.VERSION_ANNOTATION]
        image = spec["template"]["spec"]["containers"][0]["image"]
        self.version = self.version or noted
        _rule(noted == self.version, "I9", f"{noted} instead of {self.version}")
        _rule(image.endswith(f":v{noted}"), "I9", f"{image} instead of {noted}")

    def _create_secret(self, step: CreateSecret) -> None:
        self._writes()
        if self.secret is not None:
            raise Conflict("there is a Secret")
        if not step.record.latched:
            held = {uid for uid in (self.cluster.uid, *self._data_owners()) if self._data_of(uid)}
            _rule(not held, "I11", f"a new cluster beside the data of {held}")
            # Nothing is left of the members there may have been, so their IDs are free again.
            self.ticketed.clear()
            self.begun.clear()
        self._store(step.record)

    def _data_owners(self) -> set[str]:
        return {data.cluster_uid for one in self.claims if (data := self.claims[one].data)}

    def _data_of(self, uid: str) -> bool:
        return any(data.cluster_uid == uid for data in map(self.data, self._ordinals()) if data)

    def _ordinals(self) -> set[int]:
        return set(self.claims) | set(self.pods)

    def _write_bootstrap(self, step: WriteBootstrap) -> None:
        self._writes()
        if self.secret is None or str(self.secret[0]) != step.resource_version:
            raise Conflict("another resourceVersion")
        old, new = self.record, step.record
        _rule(new.cluster_uid == old.cluster_uid, "I7", "another owner")
        _rule(not old.latched or new.latched, "I4", "the latch was taken off")
        if new.attempt == old.attempt:
            _rule(new.cluster_id == old.cluster_id, "I7", "another cluster ID")
            _rule(new.members == old.members, "I7", "other first members")
            _rule(set(old.issued) <= set(new.issued), "I3", "the ledger forgot a ticket")
        else:
            _rule(not old.latched, "I7", "another attempt after the latch")
            _rule(new.attempt == old.attempt + 1, "I4", "not the next attempt")
            _rule(not self._data_of(new.cluster_uid), "I11", "another attempt beside data")
            _rule(not new.issued, "I3", "another attempt with tickets of the one before")
        self._store(new)

    def _store(self, record: Bootstrap) -> None:
        """By way of the text in the Secret, as in the real world."""
        self.secret = (self._next(), records.load_bootstrap(records.dump_bootstrap(record)))

    def _record_member(self, step: RecordMember) -> None:
        self._writes()
        ordinal = naming.ordinal_of(self.cluster.name, step.name.removeprefix("data-"))
        holders: dict[int, Any] = self.pods if step.kind == "Pod" else self.claims
        holder = holders.get(-1 if ordinal is None else ordinal)
        if holder is None or holder.uid != step.uid:
            raise Conflict("another UID")
        if str(holder.resource_version) != step.resource_version:
            raise Conflict("another resourceVersion")
        _rule(step.record.claim_uid == step.uid, "record", "of another object than it is on")
        holder.annotations = holder.annotations | records.member_annotations(step.record)
        holder.resource_version = self._next()

    def _push(self, step: PushTicket) -> None:
        self._writes()
        ordinal = naming.ordinal_of(self.cluster.name, step.pod)
        pod = self.pods.get(-1 if ordinal is None else ordinal)
        if ordinal is None or pod is None or pod.uid != step.pod_uid or pod.where != "start":
            raise Conflict("no longer in start")
        if pod.challenge != step.ticket.challenge:
            raise Conflict("another run of start")
        if self.secret is None:
            raise Conflict("there is no key to sign the ticket with")
        self._check_ticket(step, ordinal)
        holder: Any = self.claims[ordinal] if self.cluster.durable else pod
        ticket = step.ticket
        holder.data = Data(ticket.cluster_uid, ticket.member, ticket.member_id, ticket.cluster_id)
        pod.where = "etcd"
        self._join(step)

    def _check_ticket(self, step: PushTicket, ordinal: int) -> None:
        ticket, data = step.ticket, self.data(ordinal)
        record, written = self.record, self._member_record(ordinal)
        _rule(ticket.cluster_uid == self.cluster.uid, "ticket", "of another cluster")
        _rule(ticket.member == step.pod, "ticket", "of another member")
        _rule(ticket.cluster_id == record.cluster_id, "I7", "of another etcd cluster")
        ids = (written.member_id, written.cluster_id) if written else None
        _rule(ids == (ticket.member_id, ticket.cluster_id), "record", "a ticket without its record")
        if ticket.state == "adopt":
            same = data and (data.member_id, data.cluster_id) == (
                ticket.member_id,
                record.cluster_id,
            )
            _rule(bool(same), "adopt", "the log is of another member")
            named = self.cluster.retained_claims.adopt
            _rule(bool(data and data.cluster_uid == named), "I10", "adopted without a word")
            return
        _rule(data is None, "I3", f"{ticket.state} onto data")
        run = ticket.challenge
        _rule(record.challenge(ticket.member_id) == run, "I3", "a ticket that is not in the ledger")
        had = self.ticketed.setdefault(ticket.member_id, run)
        _rule(had == run, "I3", f"member {ticket.member_id:x} had its ticket in another run")
        if ticket.state == "new":
            _rule(not record.latched, "I4", "new after the latch")
            _rule(ticket.initial_cluster == record.initial_cluster, "I4", "not what is recorded")
            key = (ticket.token, ticket.member)
            _rule(key not in self.begun, "I4", f"new twice: {key}")
            self.begun.add(key)
        else:
            listed = self.members.get(ticket.cluster_id, {})
            _rule(ticket.member_id in listed, "I4", "existing without being listed")

    def _member_record(self, ordinal: int) -> MemberRecord | None:
        holder: Any = self.claims[ordinal] if self.cluster.durable else self.pods[ordinal]
        return records.load_member(holder.annotations)

    def _join(self, step: PushTicket) -> None:
        ticket = step.ticket
        listed = self.members.setdefault(ticket.cluster_id, {})
        if ticket.state == "new" and not listed:
            for entry in ticket.initial_cluster.split(","):
                _, url = entry.split("=")
                member = identity.member_id([url], ticket.token)
                listed[member] = Member(member, "", (url,), learner=False)
        if ticket.member_id in listed:
            listed[ticket.member_id] = replace(listed[ticket.member_id], name=ticket.member)

    def _delete_claim(self, step: DeleteClaim) -> None:
        self._writes()
        named = [one for one in self.claims if naming.claim(self.cluster.name, one) == step.name]
        claim = self.claims[named[0]] if named else None
        if claim is None or claim.uid != step.uid:
            raise Conflict("another UID")
        if str(claim.resource_version) != step.resource_version:
            raise Conflict("another resourceVersion")
        record, discard = self._member_record(named[0]), self.cluster.retained_claims.discard
        word = record is not None and discard != "" and record.cluster_uid == discard
        _rule(word, "I6", f"{step.name} was deleted without a human's word")
        claim.deleting = True
        claim.resource_version = self._next()

    # What goes on by itself.

    def turn(self) -> None:
        """Controllers and kubelet, one round; a second passes."""
        for ordinal in [one for one, pod in self.pods.items() if pod.deleting]:
            del self.pods[ordinal]
        bound = set(self.pods)
        for ordinal in [one for one, claim in self.claims.items() if claim.deleting]:
            if ordinal not in bound:
                del self.claims[ordinal]
        self._control()
        for ordinal, pod in self.pods.items():
            pod.age += 1.0
            if pod.where == "pending" and ordinal not in self.stuck:
                self.run_start(ordinal)

    def _control(self) -> None:
        """The StatefulSet controller."""
        live = self.objects.get(("StatefulSet", self.cluster.name))
        if live is None:
            return
        for ordinal in range(live["spec"]["replicas"]):
            if self.cluster.durable and ordinal not in self.claims:
                self.claims[ordinal] = Volume(
                    f"v{self._next()}", self._next(), {naming.CLUSTER_UID: self.cluster.uid}
                )
            if ordinal not in self.pods:
                self.pods[ordinal] = PodState(f"p{self._next()}", self._next())
        for ordinal, pod in self.pods.items():
            if ordinal >= live["spec"]["replicas"]:
                pod.deleting = True

    def run_start(self, ordinal: int) -> None:
        """One run of `start`, with a challenge of its own: data of this member just runs."""
        pod, data = self.pods[ordinal], self.data(ordinal)
        pod.challenge = f"run-{self._next()}"
        name = naming.pod(self.cluster.name, ordinal)
        claim = self.claims.get(ordinal)
        readable = not (claim and claim.unreadable)
        own = data and readable and (data.cluster_uid, data.member) == (self.cluster.uid, name)
        pod.where = "etcd" if own else "start"

    # What others do.

    def restart_pod(self, ordinal: int) -> None:
        """The pod is deleted and made anew, on the same claim."""
        self.pods[ordinal].deleting = True

    def empty(self, ordinal: int) -> None:
        """The claim is deleted and made anew along with its pod; an emptyDir goes with its pod."""
        self.pods[ordinal].deleting = True
        if ordinal in self.claims:
            self.claims[ordinal].deleting = True

    def lose_secret(self) -> None:
        self.secret = None

    def alter(self, kind: str, name: str) -> Json:
        """The object, for someone to alter; views from before keep what they saw."""
        altered = copy.deepcopy(self.objects[kind, name])
        altered["metadata"]["resourceVersion"] = str(self._next())
        self.objects[kind, name] = altered
        return altered

    def delete_stateful_set(self, *, with_pods: bool = False) -> None:
        del self.objects["StatefulSet", self.cluster.name]
        for pod in self.pods.values():
            pod.deleting = with_pods

    def remake(self, uid: str = UID, **spec: Any) -> World:
        """The cluster is deleted and declared again under its name; its claims stay."""
        following = World(body(len(self.claims), uid=uid, **spec))
        following.claims = self.claims
        following.members = self.members
        following.ticketed = self.ticketed
        following._count = self._count
        return following

    def edit(self, **spec: Any) -> None:
        self.body["spec"] |= spec
        self.body["metadata"]["generation"] += 1


def _rule(holds: bool, rule: str, words: str) -> None:
    if not holds:
        raise RuleBroken(f"{rule}: {words}")


def is_write(step: Step) -> bool:
    return not isinstance(step, Wait | Hold | Settled)


def labels(steps: list[Step]) -> list[str]:
    """Short names of steps, for comparing whole chains."""
    return [_label(step) for step in steps]


def _label(step: Step) -> str:
    match step:
        case ApplyChild(kind=kind, name=name):
            return f"{kind} {name}"
        case WriteBootstrap(record=record):
            return "latch" if record.latched else f"ledger {len(record.issued)}"
        case RecordMember(name=name):
            return f"record {name}"
        case PushTicket(pod=pod, ticket=ticket):
            return f"push {pod} {ticket.state}"
        case DeleteClaim(name=name):
            return f"delete {name}"
        case _:
            return type(step).__name__


def drive(
    world: World, *, idle: int = 15, limit: int = 300, each: Callable[[Step], None] | None = None
) -> Step:
    """Lets operator and surroundings go on until nothing has been written for `idle` seconds.

    The operator is restarted before every step: there is nothing that it could have kept. Returns
    the step it rests at.
    """
    rest = 0
    for _ in range(limit):
        step = decide(world.observe())
        if each:
            each(step)
        if is_write(step):
            world.apply(step)
            rest = 0
            continue
        world.turn()
        rest += 1
        if rest > idle:
            return step
    raise AssertionError(f"never comes to rest; at last {labels(world.history[-6:])}")


def formed(size: int = 3, **spec: Any) -> World:
    """A settled cluster."""
    world = World(body(size, **spec))
    step = drive(world, idle=2)
    assert step == Settled(), step
    return world


_POD_DEFAULTS = {
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "terminationGracePeriodSeconds": 30,
}
_CONTAINER_DEFAULTS = {
    "imagePullPolicy": "IfNotPresent",
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "resources": {},
}


def with_defaults(manifest: Json) -> Json:
    """The object as an API server (1.36) stores it."""
    live = _without_empty(copy.deepcopy(manifest))
    live["metadata"] |= {"creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1}
    if live["kind"] == "StatefulSet":
        _default_stateful_set(live)
    if live["kind"] == "Service":
        _default_service(live)
    return live


def _without_empty(value: Any) -> Any:
    """Empty text, lists and maps are not stored; zero and false are, where a pointer holds them."""
    if isinstance(value, dict):
        kept = {key: _without_empty(one) for key, one in value.items()}
        meant = ("emptyDir", "labelSelector", "namespaceSelector")
        return {
            key: one for key, one in kept.items() if key in meant or one not in ("", [], {}, None)
        }
    return [_without_empty(one) for one in value] if isinstance(value, list) else value


def _default_stateful_set(live: Json) -> None:
    spec = live["spec"]
    spec["revisionHistoryLimit"] = 10
    pod = spec["template"]["spec"]
    spec["template"]["metadata"]["creationTimestamp"] = None
    spec["template"]["spec"] = _POD_DEFAULTS | pod
    for container in pod["initContainers"] + pod["containers"]:
        container.update(_CONTAINER_DEFAULTS | container)
        for port in container.get("ports", []):
            port["protocol"] = "TCP"
        for variable in container.get("env", []):
            if "fieldRef" in variable.get("valueFrom", {}):
                variable["valueFrom"]["fieldRef"]["apiVersion"] = "v1"
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            if probe in container:
                container[probe]["successThreshold"] = 1
    for claim in spec.get("volumeClaimTemplates", []):
        claim |= {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        claim["metadata"]["creationTimestamp"] = None
        claim["spec"] = {"volumeMode": "Filesystem"} | claim["spec"]
        claim["status"] = {"phase": "Pending"}
    live["status"] = {"replicas": 0, "availableReplicas": 0}


def _default_service(live: Json) -> None:
    defaults = {
        "type": "ClusterIP",
        "clusterIP": "10.96.0.7",
        "clusterIPs": ["10.96.0.7"],
        "internalTrafficPolicy": "Cluster",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "sessionAffinity": "None",
    }
    live["spec"] = defaults | live["spec"]
    for port in live["spec"]["ports"]:
        port["protocol"] = "TCP"
    live["status"] = {"loadBalancer": {}}
