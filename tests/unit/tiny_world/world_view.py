"""The planner's view of the tiny world: an Observation like the one that the shell makes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from world_api import Json, record_in
from world_etcd import Data, Etcd, minor

from etcd_stateful import identity, naming
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.tls import links
from etcd_stateful.membership.upkeep import authentication
from etcd_stateful.membership.upkeep.accounts import AuthView
from etcd_stateful.observed.members import EtcdView, MemberStatus
from etcd_stateful.observed.objects import Claim, Foreign, Secret
from etcd_stateful.observed.pods import Pod, StartAnswer
from etcd_stateful.records.member import load_member
from etcd_stateful.start.ticket import Finding
from etcd_stateful.versions import parse_version

if TYPE_CHECKING:
    from world_core import World

IMAGE = "operator:1"


def observe(world: World) -> Observation:
    found = world.cluster
    for one in world.every_etcd():
        one.elect(world.alive(one))
    status = world.body["status"].get("clusterID")
    etcd, said = _answers(world)
    ours = world.record.cluster_id if world.secret and not world.damage else 0
    statuses = {one: status for one, status in said.items() if status.cluster_id == ours}
    strange = {one: status.cluster_id for one, status in said.items() if one not in statuses}
    view = EtcdView(ours, tuple(etcd.members.values())) if etcd else None
    etcd = etcd or Etcd()
    stored = {one: said for one, said in statuses.items() if not world.pods[one].hangs}
    voters = {one: said.member_id for one, said in stored.items() if not said.learner}
    hashed = {one: etcd.differing.get(member, 1) for one, member in voters.items()}
    seen = Observation(
        cluster=found,
        secret=_seen_secret(world),
        stateful_set=_live(world, "StatefulSet", found.name),
        headless_service=_live(world, "Service", found.name),
        client_service=_live(world, "Service", f"{found.name}-client"),
        network_policy=_live(world, "NetworkPolicy", found.name),
        operator=world.operator,
        disruption_budget=_live(world, "PodDisruptionBudget", found.name),
        claims=tuple(_claim(world, ordinal) for ordinal in sorted(world.claims)),
        pods=tuple(_pod(world, one) for one, pod in sorted(world.pods.items()) if not pod.hidden),
        etcd=view,
        statuses=statuses,
        strangers=strange,
        alarms=tuple(etcd.alarms),
        hashes=hashed if any(one.kind == "CORRUPT" for one in etcd.alarms) else {},
        snapshots=world.snapshots,
        foreign=world.foreign,
        namesakes=_namesakes(world),
        operator_image=world.operator_image,
        last_cluster_id=identity.from_hex(status) if status else None,
        last_version=parse_version(world.body["status"].get("currentVersion", "")),
    )
    seen = links.with_recorded_links(seen)
    asked = view is not None and authentication.is_asked_about(seen)
    return replace(seen, auth=AuthView(enabled=False, users={}, roles={})) if asked else seen


def _live(world: World, kind: str, name: str) -> Json | None:
    return world.objects.get((kind, name))


def _seen_secret(world: World) -> Secret | None:
    if world.secret is None:
        return None
    if world.damage:
        return Secret(str(world.secret[0]), None, world.damage)
    return Secret(str(world.secret[0]), world.record)


def _claim(world: World, ordinal: int) -> Claim:
    claim = world.claims[ordinal]
    record, damage = record_in(claim.annotations)
    return Claim(
        ordinal=ordinal,
        name=naming.claim(world.cluster.name, ordinal),
        uid=claim.uid,
        resource_version=str(claim.resource_version),
        cluster_uid=claim.annotations.get(naming.CLUSTER_UID, ""),
        record=record,
        damage=damage,
        deleting=claim.deleting,
        phase=claim.phase,
    )


def _pod(world: World, ordinal: int) -> Pod:
    pod = world.pods[ordinal]
    waits = pod.where == "start"
    lacks = pod.where == "pending" and pod.start_image in world.bad_starts
    answers = waits and not pod.silent and world.secret is not None
    return Pod(
        ordinal=ordinal,
        name=naming.pod(world.cluster.name, ordinal),
        uid=pod.uid,
        resource_version=str(pod.resource_version),
        address=f"10.0.0.{ordinal}",
        deleting=pod.deleting,
        ready=_is_ready(world, ordinal),
        in_start=waits,
        etcd_started=pod.where == "etcd",
        trouble=pod.trouble or _trouble(world, ordinal, lacks=lacks),
        answer=StartAnswer(pod.challenge, _finding(world, ordinal)) if answers else None,
        record=load_member(pod.annotations) if pod.annotations else None,
        revision=pod.revision,
        age=pod.age,
        spec_hash=pod.spec_hash,
        image=pod.image,
        crashing=pod.crashing,
        image_missing=pod.version in world.bad_images or pod.where == "image",
        start_missing=lacks,
        has_data=pod.had_data,
        damage=pod.damage,
        node_gone=pod.node_gone,
        overdue=pod.overdue,
        trust=pod.trust,
        levels=pod.levels,
        quota=pod.quota,
        epoch=pod.epoch or None,
    )


def _trouble(world: World, ordinal: int, *, lacks: bool) -> str:
    pod, claim = world.pods[ordinal], world.claims.get(ordinal)
    if pod.where == "image" or lacks:
        return "its image cannot be pulled"
    lost = claim is not None and claim.phase == "Lost" and pod.where == "pending"
    return f"claim data-c-{ordinal} has lost its volume" if lost else ""


def _namesakes(world: World) -> tuple[Foreign, ...]:
    return tuple(
        Foreign("Pod", naming.pod(world.cluster.name, one), "nobody", pod.deleting, orphan=True)
        for one, pod in sorted(world.pods.items())
        if pod.hidden
    )


def _is_ready(world: World, ordinal: int) -> bool:
    """Whether /readyz says so: a voter with a leader, in a cluster without a CORRUPT alarm."""
    data, etcd = world.data(ordinal), world.etcd_at(ordinal)
    if data is None or etcd is None or world.pods[ordinal].where != "etcd":
        return False
    alive = world.alive(etcd)
    etcd.elect(alive)
    votes = data.member_id in etcd.voters and data.member_id in alive
    corrupt = any(one.kind == "CORRUPT" for one in etcd.alarms)
    return bool(votes and etcd.leader and not corrupt)


def _finding(world: World, ordinal: int) -> Finding:
    claim = world.claims.get(ordinal)
    if claim and claim.unreadable:
        return Finding("unreadable", claim.unreadable)
    if claim and claim.damaged:
        return Finding("damaged", claim.damaged)
    data = world.data(ordinal)
    if data is None:
        return Finding("no-data")
    ids = (data.cluster_uid, world.epoch_on(ordinal), data.member, data.member_id, data.cluster_id)
    return Finding("foreign-data", "the marker is not this pod's", *ids)


def _answers(world: World) -> tuple[Etcd | None, dict[int, MemberStatus]]:
    """The cluster on record that answers, and what members say. Without a record, nobody is asked:
    it says which cluster should answer."""
    statuses: dict[int, MemberStatus] = {}
    unasked = world.cut_off or world.secret is None or world.damage
    for ordinal, data in [] if unasked else world.running():
        etcd = world.etcd_at(ordinal)
        answers = etcd is not None and _answers_at(world, ordinal, data, etcd)
        if etcd is not None and answers and not world.pods[ordinal].hidden:
            statuses[ordinal] = _status(world, ordinal, data, etcd)
    ours = world.record.cluster_id if world.secret else 0
    well = ((at, said) for at, said in statuses.items() if not world.pods[at].hangs)
    able = (at for at, said in well if said.leader_id and not said.learner)
    at = next((at for at in able if statuses[at].cluster_id == ours), None)
    return world.etcd_at(at) if at is not None else None, statuses


def _answers_at(world: World, ordinal: int, data: Data, etcd: Etcd) -> bool:
    """Whether the member answers; if its disk hangs, from memory."""
    if data.member_id in world.alive(etcd):
        return True
    pod = world.pods[ordinal]
    return bool(pod.hangs) and not pod.silent and data.member_id in etcd.members


def _status(world: World, ordinal: int, data: Data, etcd: Etcd) -> MemberStatus:
    version = world.pods[ordinal].version
    leader, term = world.pods[ordinal].hangs or (etcd.leader, etcd.term)
    tells = minor(version) >= (3, 6)
    return MemberStatus(
        member_id=data.member_id,
        cluster_id=data.cluster_id,
        version=version,
        leader_id=leader,
        term=term,
        applied_index=data.applied,
        learner=etcd.members[data.member_id].learner,
        db_size=etcd.sizes.get(data.member_id, (4096, 4096))[0],
        db_size_in_use=etcd.sizes.get(data.member_id, (4096, 4096))[1],
        storage_version=data.storage if tells else "",
        downgrade_target=etcd.downgrade if tells else "",
    )
