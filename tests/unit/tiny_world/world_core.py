"""The tiny world: its objects, the effects of steps, and the moves of controllers and members."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import world_rules as rules
import world_view
from copied import copied
from fixed import fixed
from world_api import UID, Json, PodState, Volume, body, with_defaults
from world_etcd import Conflict, Data, Etcd, minor, refuse
from world_rules import RuleBroken, rule

from etcd_stateful import identity, naming
from etcd_stateful.api.cluster import EtcdCluster, parse_cluster
from etcd_stateful.manifests.network_policy import OperatorPods
from etcd_stateful.manifests.start_settings import epoch_in, levels_in, quota_in
from etcd_stateful.manifests.tls import trust_in
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.steps import (
    ApplyChild,
    CancelDowngrade,
    CreateJob,
    CreateSecret,
    Defragment,
    DeleteClaim,
    DeleteJob,
    DeletePod,
    DisarmAlarm,
    EnableDowngrade,
    EtcdChange,
    Hold,
    MemberAddLearner,
    MemberPromote,
    MemberRemove,
    MemberUpdate,
    MoveLeader,
    PushTicket,
    RecordMember,
    Settled,
    Step,
    Wait,
    WriteBootstrap,
)
from etcd_stateful.observed.members import Member
from etcd_stateful.observed.objects import Foreign
from etcd_stateful.records.bootstrap import FIRST_EPOCH, Bootstrap
from etcd_stateful.records.bootstrap_json import dump_bootstrap, load_bootstrap
from etcd_stateful.records.member import MemberRecord, load_member, member_annotations


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
        self.stuck_claims: set[int] = set()
        """Ordinals whose claims are not gone although they were deleted."""
        self.bad_images: set[str] = set()
        """Versions whose image cannot be pulled; their pods never start."""
        self.late_images: set[str] = set()
        """Versions whose image can no longer be pulled once `start` has ended."""
        self.operator_image = world_view.IMAGE
        """The image of the operator that looks. A pod's `start` runs the image of the operator that
        rendered it."""
        self.bad_starts: set[str] = set()
        """Images of the operator that cannot be pulled."""
        self.failing: set[str] = set()
        """Versions whose etcd fails whenever it starts."""
        self.cut_off = False
        """Nobody can reach etcd, which may still run."""
        self.mirror = ""
        """The registry that admission writes into the image of each new pod."""
        self.hasty = False
        """A pod is recreated before its old claim is gone, and is bound to that claim."""
        self.foreign: tuple[Foreign, ...] = ()
        self.snapshots: tuple[str, ...] = ()
        """Pods that read a snapshot from a member."""
        self.operator: OperatorPods | None = None
        self.etcds: dict[int, Etcd] = {}
        """By etcd cluster ID."""
        self.history: list[Step] = []
        self.ticketed: dict[int, str] = {}
        """Every member ID that ever had a ticket, and the run that had it."""
        self.begun: set[tuple[str, str]] = set()
        """Token and member name of every `new` ticket."""
        self.version = ""
        """The version that was last recorded."""
        self._count = 0
        self._parsed: tuple[Json, EtcdCluster] | None = None

    # The true state.

    @property
    def cluster(self) -> EtcdCluster:
        if self._parsed is None or self._parsed[0] != self.body:
            self._parsed = (copied(self.body), parse_cluster(self.body))
        return self._parsed[1]

    @property
    def record(self) -> Bootstrap:
        assert self.secret is not None
        return self.secret[1]

    @property
    def members(self) -> dict[int, dict[int, Member]]:
        """The member lists, by etcd cluster ID; of several epochs, that of the one on record."""
        found = {known: self.etcd_in(known, self._epoch()) for known in self.etcds}
        return {known: etcd.members for known, etcd in found.items() if etcd}

    @property
    def etcd(self) -> Etcd | None:
        """The etcd cluster that is on record."""
        return self.etcd_in(self.record.cluster_id, self._epoch()) if self.secret else None

    def _epoch(self) -> int:
        return self.record.epoch if self.secret else 0

    def etcd_in(self, cluster_id: int, epoch: int) -> Etcd | None:
        """The etcd cluster with this ID that volumes of this epoch have in their logs."""
        del epoch
        return self.etcds.get(cluster_id)

    def etcd_at(self, ordinal: int) -> Etcd | None:
        """The etcd cluster that the ordinal's volume has in its log."""
        data = self.data(ordinal)
        return self.etcd_in(data.cluster_id, self.epoch_on(ordinal)) if data else None

    def every_etcd(self) -> list[Etcd]:
        return [*self.etcds.values()]

    def data(self, ordinal: int) -> Data | None:
        holder = self._holder(ordinal)
        return holder.data if holder else None

    def _holder(self, ordinal: int) -> Any:
        """The object that keeps the ordinal's data and its record: the claim, or the pod with an
        emptyDir."""
        return (self.claims if self.cluster.durable else self.pods).get(ordinal)  # type: ignore[attr-defined]

    def volumes(self) -> Iterator[tuple[int, Data]]:
        for ordinal in sorted({*self.claims, *self.pods}):
            if data := self.data(ordinal):
                yield ordinal, data

    def is_listed(self, data: Data) -> bool:
        """Whether the member is on its cluster's list, even if no member is left to say so."""
        listed = self.members.get(data.cluster_id)
        return listed is None or data.member_id in listed

    def running(self) -> Iterator[tuple[int, Data]]:
        for ordinal, pod in sorted(self.pods.items()):
            data = self.data(ordinal)
            if pod.where == "etcd" and data is not None:
                yield ordinal, data

    def alive(self, etcd: Etcd | None = None) -> dict[int, str]:
        """Versions of the running members that can be reached, by member ID, of one etcd cluster
        (default: the one on record)."""
        etcd = etcd or self.etcd
        return {
            data.member_id: self.pods[ordinal].version
            for ordinal, data in self.running()
            if etcd is not None and self.etcd_at(ordinal) is etcd
            if data.member_id in etcd.members and self._is_up(ordinal)
        }

    def _is_up(self, ordinal: int) -> bool:
        pod = self.pods[ordinal]
        return not (pod.silent or pod.crashing or pod.damage or pod.hangs)

    def epoch_on(self, ordinal: int) -> int:
        """The epoch in the marker on a volume."""
        del ordinal
        return FIRST_EPOCH

    def serving(self) -> set[int]:
        """Ordinals of the voters that have a leader."""
        etcd, alive = self.etcd, self.alive()
        if etcd is None or not etcd.leader:
            return set()
        return {one for one in map(self.seat, set(etcd.voters) & alive.keys()) if one is not None}

    def seat(self, member_id: int) -> int | None:
        etcd = self.etcd
        return rules.seat_of(etcd.members[member_id]) if etcd else None

    def is_stopping(self, member_id: int) -> bool:
        ordinal = self.seat(member_id)
        return ordinal in self.pods and self.pods[ordinal].deleting

    def member_at(self, ordinal: int) -> Member | None:
        listed = self.etcd.members.values() if self.etcd else ()
        return next((member for member in listed if rules.seat_of(member) == ordinal), None)

    def member_record(self, ordinal: int) -> MemberRecord | None:
        return load_member(self._holder(ordinal).annotations)

    def data_of(self, uid: str) -> bool:
        return any(data.cluster_uid == uid for _, data in self.volumes())

    def observe(self) -> Observation:
        """What the planner sees of the state."""
        return world_view.observe(self)

    # The effects of steps.

    def apply(self, step: Step) -> None:
        """Carries out the write of a step, or raises Conflict."""
        rule(not self.cluster.paused, "paused", "nothing is written while spec.paused is true")
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
            case DeletePod():
                self._delete_pod(step)
            case Wait() | Hold() | Settled():
                raise RuleBroken(f"{step} is no write")
            case CreateJob() | DeleteJob():
                raise NotImplementedError("the tiny world recovers nothing; tests/model does")
            case _:
                self._change(step)
        self.history.append(step)

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _change(self, step: EtcdChange) -> None:
        """Sends the change to the leader, or a defragmentation to its member. If another member has
        the address by now, nothing happens."""
        asked = step.member if isinstance(step, Defragment) else step.leader
        refuse(self.etcd is None or self.cut_off, "nobody answers")
        at, there = {f"10.0.0.{at}": (at, data) for at, data in self.running()}.get(
            asked.address, (0, None)
        )
        refuse(there is None or there.member_id != asked.member_id, "another member is there")
        etcd = self.etcd_at(at)
        assert etcd is not None
        etcd.elect(self.alive(etcd))
        if not etcd.downgrade:  # it ends one only later, or the operator could never cancel it
            etcd.agree(self.alive(etcd))
        refuse(self.record.cluster_id != asked.cluster_id, "another cluster")
        if isinstance(step, Defragment):
            rules.defragmentation(self, etcd, asked.member_id)
            etcd.defragment(asked.member_id)
            return
        refuse(etcd.leader != asked.member_id, "it does not lead")
        self._change_of(etcd, step)

    def _change_of(self, etcd: Etcd, step: EtcdChange) -> None:
        match step:
            case MemberAddLearner(peer_url=url, other_peer_urls=others):
                etcd.add_learner(url, self.alive(), others)
            case MemberUpdate(member_id=member, peer_urls=urls):
                etcd.update(member, urls)
            case MemberPromote(member_id=member):
                rules.promotion(self, etcd, member)
                rules.budget_before_promotion(self, etcd)
                etcd.promote(member)
            case MemberRemove(member_id=member):
                rules.removal(self, etcd, member)
                etcd.remove(member)
            case MoveLeader(member_id=member):
                rule(member in self.alive(), "I1", "leadership to one that does not run")
                etcd.move_leader(member)
            case DisarmAlarm(alarm=alarm):
                refuse(alarm not in etcd.alarms, "no such alarm")
                rules.disarming(self, etcd, alarm)
                etcd.alarms.remove(alarm)
            case EnableDowngrade(minor=to):
                etcd.enable_downgrade(to)
            case CancelDowngrade():
                etcd.cancel_downgrade()

    def _apply_child(self, step: ApplyChild) -> None:
        manifest = copied(step.manifest)
        owner = manifest["metadata"]["ownerReferences"][0]
        rule(owner["uid"] == self.cluster.uid, "I10", "a child without its owner")
        taken = {(one.kind, one.name) for one in self.foreign}
        live = self.objects.get((step.kind, step.name))
        of = manifest["metadata"].pop("resourceVersion", None)
        refuse(of is not None and (step.kind, step.name) in taken, "another UID")
        rule((step.kind, step.name) not in taken, "I10", f"{step.name} is another owner's")
        if of != (live["metadata"]["resourceVersion"] if live else None):
            raise Conflict("another resourceVersion, or there is one by now")
        if step.kind == "StatefulSet":
            rules.stateful_set(self, manifest)
        if step.kind == "PodDisruptionBudget":
            rules.disruption_budget(self, manifest)
        stored = with_defaults(manifest)
        if live:
            is_kept = step.kind != "StatefulSet" or fixed(stored) == fixed(live)
            rule(is_kept, "API", f"nobody may change this: {fixed(stored)}")
            changed = stored["spec"] != live["spec"]
            stored["metadata"]["generation"] = live["metadata"]["generation"] + changed
            stored["status"] = live.get("status", {})
        stored["metadata"]["uid"] = live["metadata"]["uid"] if live else f"u{self._next()}"
        stored["metadata"]["resourceVersion"] = str(self._next())
        self.objects[step.kind, step.name] = stored

    def _create_secret(self, step: CreateSecret) -> None:
        if self.secret is not None:
            raise Conflict("there is a Secret")
        if not step.record.latched:
            owners = {data.cluster_uid for one in self.claims.values() if (data := one.data)}
            held = {uid for uid in (self.cluster.uid, *owners) if self.data_of(uid)}
            rule(not held, "I11", f"a new cluster beside the data of {held}")
            # No data of earlier members is left, so their IDs may be used again, and any version.
            self.ticketed.clear()
            self.begun.clear()
            self.version = ""
        live = self.objects.get(("StatefulSet", self.cluster.name))
        noted = live["metadata"]["annotations"][naming.VERSION_ANNOTATION] if live else ""
        ran = (pod.version for pod in self.pods.values() if pod.where == "etcd")
        known = (self.version or step.record.version, noted, *ran)
        guessed = step.record.untried
        rule(guessed or step.record.version in known, "I9", f"{step.record.version}, not {known}")
        self._store(step.record)

    def _write_bootstrap(self, step: WriteBootstrap) -> None:
        if self.secret is None or str(self.secret[0]) != step.resource_version:
            raise Conflict("another resourceVersion")
        rules.bootstrap(self, self.record, step.record)
        self._store(step.record)

    def _store(self, record: Bootstrap) -> None:
        """Writes the record as text and parses it again, as the real Secret does."""
        self.secret = (
            self._next(),
            load_bootstrap(dump_bootstrap(record)),
        )
        self.version = record.version or self.version

    def _record_member(self, step: RecordMember) -> None:
        ordinal = naming.ordinal_of(self.cluster.name, step.name.removeprefix("data-"))
        holders: dict[int, Any] = self.pods if step.kind == "Pod" else self.claims
        holder = holders.get(-1 if ordinal is None else ordinal)
        if holder is None or holder.uid != step.uid:
            raise Conflict("another UID")
        if str(holder.resource_version) != step.resource_version:
            raise Conflict("another resourceVersion")
        rule(step.record.claim_uid == step.uid, "record", "of another object than it is on")
        kept = {key: said for key, said in holder.annotations.items() if key != naming.PEER_SCHEME}
        holder.annotations = kept | member_annotations(step.record)
        holder.resource_version = self._next()

    def _push(self, step: PushTicket) -> None:
        ordinal = naming.ordinal_of(self.cluster.name, step.pod)
        pod = self.pods.get(-1 if ordinal is None else ordinal)
        if ordinal is None or pod is None or pod.uid != step.pod_uid or pod.where != "start":
            raise Conflict("no longer in start")
        if pod.challenge != step.ticket.challenge:
            raise Conflict("another run of start")
        if self.secret is None:
            raise Conflict("there is no key to sign the ticket with")
        adopts = step.ticket.state == "adopt"
        refuse(adopts and not self._has_log(ordinal), "start looks again, and finds no log")
        rules.ticket(self, step, ordinal)
        pod.where = self._after_start(pod)
        pod.crashing = pod.version in self.failing
        if pod.where == "etcd":
            self._join(step, ordinal)

    def _join(self, step: PushTicket, ordinal: int) -> None:
        """Starts etcd. A member whose `initial-cluster` differs from the member list cannot
        join."""
        ticket = step.ticket
        etcd = self.etcd_in(ticket.cluster_id, ticket.epoch)
        etcd = etcd or self.etcds.setdefault(ticket.cluster_id, Etcd())
        told = dict(one.split("=")[::-1] for one in ticket.initial_cluster.split(",") if one)
        if ticket.state == "new" and not etcd.members:
            # The first members are listed by name from the beginning, even before they start.
            for url, name in told.items():
                member = identity.member_id([url], ticket.token)
                etcd.members[member] = Member(member, name, (url,), learner=False)
        listed = {url for member in etcd.members.values() for url in member.peer_urls}
        barred = etcd.bars(self.pods[ordinal].version) or told.keys() != listed
        if ticket.state == "existing" and barred:
            self.pods[ordinal].crashing = True
            return
        kept = self.data(ordinal)
        self._holder(ordinal).data = Data(
            ticket.cluster_uid,
            ticket.member,
            ticket.member_id,
            ticket.cluster_id,
            kept.applied if kept else 0 if ticket.state == "existing" else etcd.index,
            kept.storage if kept else "",
        )
        if kept and self.cannot_run(self.pods[ordinal], kept):
            self.pods[ordinal].crashing = True
        if ticket.member_id in etcd.members:
            member = replace(etcd.members[ticket.member_id], name=ticket.member)
            etcd.members[ticket.member_id] = member

    def _delete_claim(self, step: DeleteClaim) -> None:
        named = [one for one in self.claims if naming.claim(self.cluster.name, one) == step.name]
        claim = self.claims[named[0]] if named else None
        if claim is None or claim.uid != step.uid:
            raise Conflict("another UID")
        if str(claim.resource_version) != step.resource_version:
            raise Conflict("another resourceVersion")
        rules.claim_deletion(self, step, named[0])
        claim.deleting = True
        claim.resource_version = self._next()

    def _delete_pod(self, step: DeletePod) -> None:
        ordinal = naming.ordinal_of(self.cluster.name, step.name)
        pod = self.pods.get(-1 if ordinal is None else ordinal)
        if ordinal is None or pod is None or pod.uid != step.uid:
            raise Conflict("another UID")
        if str(pod.resource_version) != step.resource_version:
            raise Conflict("another resourceVersion")
        rules.pod_deletion(self, step, ordinal)
        if step.force:
            del self.pods[ordinal]
        else:
            self.restart_pod(ordinal)

    # What happens without the operator.

    def turn(self) -> None:
        """Lets controllers, kubelets and etcd run for one round; a second passes."""
        for ordinal in [one for one, pod in self.pods.items() if pod.deleting and not pod.overdue]:
            del self.pods[ordinal]
        if self.hasty:
            self._control()
        for ordinal in [one for one, claim in self.claims.items() if claim.deleting]:
            if ordinal not in self.pods and ordinal not in self.stuck_claims:
                del self.claims[ordinal]
        self._control()
        for ordinal, pod in self.pods.items():
            pod.age += 1.0
            claim = self.claims.get(ordinal)
            free = not (claim and claim.deleting) and not self.lacks_image(pod)
            if pod.where == "pending" and ordinal not in self.stuck and free:
                self.run_start(ordinal)
        for etcd in self.every_etcd():
            self._go_on(etcd)

    def lacks_image(self, pod: PodState) -> bool:
        return pod.version in self.bad_images or pod.start_image in self.bad_starts

    def _control(self) -> None:
        """The StatefulSet controller."""
        live = self.objects.get(("StatefulSet", self.cluster.name))
        if live is None:
            return
        template = live["spec"]["template"]
        text = json.dumps(template, sort_keys=True).encode()
        revision = hashlib.sha256(text).hexdigest()[:8]
        status = {"observedGeneration": live["metadata"]["generation"], "updateRevision": revision}
        if live["status"].items() < (live["status"] | status).items():
            live = self.objects["StatefulSet", self.cluster.name] = copied(live)
        live["status"] = live["status"] | status
        for ordinal in range(live["spec"]["replicas"]):
            if self._is_taken(ordinal) or (
                self._is_claim_stuck(ordinal) and ordinal not in self.pods
            ):
                return  # it fails at this pod, backs off, creates none above it, and deletes none
            if self.cluster.durable and ordinal not in self.claims:
                self.claims[ordinal] = Volume(
                    f"v{self._next()}", self._next(), {naming.CLUSTER_UID: self.cluster.uid}
                )
            if ordinal not in self.pods:
                self.pods[ordinal] = PodState(
                    f"p{self._next()}",
                    self._next(),
                    revision=revision,
                    spec_hash=template["metadata"]["annotations"].get(naming.SPEC_HASH, ""),
                    image=self._admitted(template["spec"]["containers"][0]["image"]),
                    start_image=template["spec"]["initContainers"][0]["image"],
                    trust=trust_in(template["spec"]),
                    levels=levels_in(template["spec"]),
                    quota=quota_in(template["spec"]),
                    epoch=epoch_in(template["spec"]) or 0,
                )
        for ordinal, pod in self.pods.items():
            if ordinal >= live["spec"]["replicas"] and not pod.hidden:
                pod.deleting = True

    def _is_taken(self, ordinal: int) -> bool:
        """Whether the pod of this name is not the StatefulSet's."""
        return ordinal in self.pods and self.pods[ordinal].hidden

    def _is_claim_stuck(self, ordinal: int) -> bool:
        claim = self.claims.get(ordinal)
        return ordinal in self.stuck_claims and bool(claim and claim.deleting)

    def _admitted(self, image: str) -> str:
        return f"{self.mirror}/{image.rpartition('/')[2]}" if self.mirror else image

    def run_start(self, ordinal: int) -> None:
        """Runs `start` once, with a new challenge. If the volume has this member's data, etcd
        starts."""
        pod, data = self.pods[ordinal], self.data(ordinal)
        pod.challenge = f"run-{self._next()}"
        name = naming.pod(self.cluster.name, ordinal)
        readable = self._has_log(ordinal)
        own = data and readable and (data.cluster_uid, data.member) == (self.cluster.uid, name)
        pod.where = self._after_start(pod) if own else "start"
        pod.had_data = bool(own)
        pod.crashing = bool(own and data and self.cannot_run(pod, data))

    def cannot_run(self, pod: PodState, data: Data) -> bool:
        """Whether the pod's etcd fails on this data whenever it starts."""
        return minor(data.storage) > minor(pod.version) or pod.version in self.failing

    def _has_log(self, ordinal: int) -> bool:
        """Whether there is a log on the volume, which `start` can read."""
        claim = self.claims.get(ordinal)
        readable = not (claim and (claim.unreadable or claim.damaged))
        return readable and self.data(ordinal) is not None

    def _after_start(self, pod: PodState) -> str:
        return "image" if pod.version in self.late_images else "etcd"

    def _go_on(self, etcd: Etcd) -> None:
        """Members learn each other's versions, convert their storage as agreed, and catch up."""
        alive = self.alive(etcd)
        etcd.elect(alive)
        etcd.agree(alive)
        for ordinal, data in list(self.running()):
            if etcd.leader and data.member_id in alive and self.etcd_at(ordinal) is etcd:
                new = replace(data, applied=etcd.index, storage=etcd.minor)
                self._holder(ordinal).data = new

    # What others do.

    def restart_pod(self, ordinal: int) -> None:
        """Deletes the pod; the StatefulSet controller recreates it on the same claim."""
        self.pods[ordinal].deleting = True

    def empty(self, ordinal: int) -> None:
        """Deletes the claim and its pod, and both are recreated. An emptyDir goes with its pod."""
        self.pods[ordinal].deleting = True
        if ordinal in self.claims:
            self.claims[ordinal].deleting = True

    def lose_secret(self) -> None:
        self.secret = None

    def alter(self, kind: str, name: str) -> Json:
        """Returns a copy of the object for a test to change; earlier observations keep the old
        one."""
        altered = copied(self.objects[kind, name])
        altered["metadata"]["resourceVersion"] = str(self._next())
        altered["metadata"]["generation"] += 1
        self.objects[kind, name] = altered
        return altered

    def delete_stateful_set(self, *, with_pods: bool = False) -> None:
        del self.objects["StatefulSet", self.cluster.name]
        for pod in self.pods.values():
            pod.deleting = pod.deleting or (with_pods and not pod.hidden)

    def remake(self, uid: str = UID, **spec: Any) -> World:
        """Deletes the cluster and creates one with the same name; the claims stay."""
        following = type(self)(body(len(self.claims), uid=uid, **spec))
        following.claims = self.claims
        following.etcds = self.etcds
        following.ticketed = self.ticketed
        following._count = self._count
        return following

    def edit(self, **spec: Any) -> None:
        self.body["spec"] |= spec
        self.body["metadata"]["generation"] += 1
