"""The safety rules, checked at every write in the tiny world.

They look at the true state of the world, not at the planner's view, so a decision made from a stale
view can break them. Nothing here knows how the planner decides.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from world_api import PodState
from world_etcd import Data, Etcd, minor

from etcd_stateful import naming
from etcd_stateful.membership.steps import DeleteClaim, DeletePod, PushTicket
from etcd_stateful.observed.members import Alarm, Member
from etcd_stateful.records.bootstrap import Bootstrap
from etcd_stateful.records.errors import BadRecord

if TYPE_CHECKING:
    from worlds import World

_BUDGET = ("PodDisruptionBudget", "c")
_SEAT = re.compile(r"https?://c-(\d)\.c\.ns\.svc:2380")


class RuleBroken(AssertionError):
    """A write broke a safety rule. The message starts with the rule."""


def rule(holds: bool, name: str, words: str) -> None:
    if not holds:
        raise RuleBroken(f"{name}: {words}")


def seat_of(member: Member) -> int | None:
    """The ordinal in a member's URL."""
    found = _SEAT.fullmatch(member.peer_urls[0])
    return int(found[1]) if found else None


def stateful_set(world: World, manifest: dict[str, Any]) -> None:
    spec, live = manifest["spec"], world.objects.get(("StatefulSet", world.cluster.name))
    etcd = world.etcd
    listed = [seat_of(member) for member in etcd.members.values()] if etcd else []
    # Those of another cluster were given up by a human's word, and are nobody's members.
    ours = ((one, data) for one, data in world.volumes() if _is_of_recorded(world, data))
    needed = [ordinal for ordinal, data in ours if world.is_listed(data)]
    if live and spec["replicas"] < min(live["spec"]["replicas"], naming.MAX_SIZE):
        rule(etcd is not None and bool(etcd.leader), "I5", "nobody knows the members")
        needed += [one for one in listed if one is not None]
    least = max(needed, default=-1) + 1
    rule(spec["replicas"] >= least, "I5", f"{spec['replicas']} replicas of at least {least}")
    noted = manifest["metadata"]["annotations"][naming.VERSION_ANNOTATION]
    image = spec["template"]["spec"]["containers"][0]["image"]
    recorded = world.record.version if world.secret else world.version
    rule(noted in (world.version, recorded), "I9", f"{noted}, not {world.version}")
    rule(image.endswith(f":v{noted}"), "I9", f"{image} instead of {noted}")


def _is_of_recorded(world: World, data: Data) -> bool:
    return world.secret is None or data.cluster_id == world.record.cluster_id


def bootstrap(world: World, old: Bootstrap, new: Bootstrap) -> None:
    rule(new.cluster_uid == old.cluster_uid, "I7", "another owner")
    rule(not old.latched or new.latched, "I4", "the latch was taken off")
    if new.attempt == old.attempt:
        rule(new.cluster_id == old.cluster_id, "I7", "another cluster ID")
        rule(new.members == old.members, "I7", "other first members")
        rule(not _forgotten(world, old, new), "I3", "the ledger forgot a ticket")
    else:
        rule(not old.latched, "I7", "another attempt after the latch")
        rule(new.attempt == old.attempt + 1, "I4", "not the next attempt")
        rule(not world.data_of(new.cluster_uid), "I11", "another attempt beside data")
        rule(not new.issued, "I3", "another attempt with tickets of the one before")
    if new.version not in (world.version, old.version):
        _version(world, old, new)


def _forgotten(world: World, old: Bootstrap, new: Bootstrap) -> set[int]:
    """Members dropped from the ledger that could then get a second ticket. Before the latch that is
    every member. Later it is those on the list, and first members: only the ledger says whether
    they had a ticket."""
    gone = {member for member, _ in set(old.issued) - set(new.issued)}
    listed = world.etcd.members.keys() if world.etcd else set[int]()
    return gone & {*listed, *(one.member_id for one in old.members)} if old.latched else gone


def _version(world: World, old: Bootstrap, new: Bootstrap) -> None:
    """Allows one minor at a time, and no version too old to read the data of a member.

    In place of a version that was only assumed, any other may be tried while no etcd runs: etcd
    itself refuses data that it cannot read.
    """
    wanted, begins = minor(new.version), new.attempt != old.attempt
    rule(new.latched or begins, "I9", "another version amid an attempt to form a cluster")
    if old.untried:
        up = [ordinal for ordinal, _ in world.running() if not world.pods[ordinal].crashing]
        rule(not up, "I9", f"{new.version} is tried while {up} run")
        return
    for ordinal, data in world.volumes():
        if world.is_listed(data):
            rule(minor(data.storage) <= wanted, "I9", f"c-{ordinal} could not read its data")
    for ordinal, _ in world.running():
        now = minor(world.pods[ordinal].version)
        rule(abs(now[1] - wanted[1]) <= 1, "I9", f"c-{ordinal} runs {now}, and then {wanted}")


def _has_record(world: World, step: PushTicket, ordinal: int) -> None:
    try:
        written = world.member_record(ordinal)
    except BadRecord:
        return  # somebody has damaged it since
    ids = (written.member_id, written.cluster_id) if written else None
    asked = (step.ticket.member_id, step.ticket.cluster_id)
    rule(ids == asked, "record", "a ticket without its record")


def _may_be_forgotten(world: World, cluster_id: int, member_id: int) -> bool:
    """Whether the Secret and the claim that told of its ticket are both lost, and the member is a
    learner that has never announced itself. It never voted, and fails if it had entries before."""
    member = world.members.get(cluster_id, {}).get(member_id)
    return bool(not world.record.members and member and member.learner and not member.name)


def ticket(world: World, step: PushTicket, ordinal: int) -> None:
    given, data = step.ticket, world.data(ordinal)
    record = world.record
    rule(given.cluster_uid == world.cluster.uid, "ticket", "of another cluster")
    rule(given.member == step.pod, "ticket", "of another member")
    rule(given.cluster_id == record.cluster_id, "I7", "of another etcd cluster")
    _has_record(world, step, ordinal)
    if given.state == "adopt":
        named = world.cluster.retained_claims.adopt
        same = data and (data.member_id, data.cluster_id) == (given.member_id, record.cluster_id)
        rule(bool(same), "adopt", "the log is of another member")
        rule(bool(data and data.cluster_uid == named), "I10", "adopted without a word")
        return
    rule(data is None, "I3", f"{given.state} onto data")
    run = given.challenge
    rule(record.challenge(given.member_id) == run, "I3", "a ticket that is not in the ledger")
    had = world.ticketed.setdefault(given.member_id, run)
    if _may_be_forgotten(world, given.cluster_id, given.member_id):
        had = world.ticketed[given.member_id] = run
    rule(had == run, "I3", f"member {given.member_id:x} had its ticket in another run")
    if given.state == "new":
        rule(not record.latched, "I4", "new after the latch")
        made_for = world.pods[ordinal].version
        rule(made_for == record.version, "I9", f"begun with {made_for}, not {record.version}")
        rule(given.initial_cluster == record.initial_cluster, "I4", "not what is recorded")
        key = (given.token, given.member)
        rule(key not in world.begun, "I4", f"new twice: {key}")
        world.begun.add(key)
    else:
        listed = world.members.get(given.cluster_id, {})
        rule(given.member_id in listed, "I4", "existing without being listed")


def claim_deletion(world: World, step: DeleteClaim, ordinal: int) -> None:
    record = world.member_record(ordinal)
    discard, adopt = world.cluster.retained_claims.discard, world.cluster.retained_claims.adopt
    rule(record is not None, "I6", f"{step.name} has no record")
    if record is None or (discard and record.cluster_uid == discard != world.cluster.uid):
        return
    etcd = world.etcd
    rule(record.cluster_uid in (world.cluster.uid, adopt), "I6", "of another cluster")
    rule(record.claim_uid == step.uid, "I6", f"{step.name} was restored or cloned")
    rule(etcd is not None and world.record.latched, "I6", "nobody knows the members")
    rule(record.cluster_id == world.record.cluster_id, "I6", "of another etcd cluster")
    rule(etcd is not None and bool(etcd.leader), "I6", "no quorum tells who is a member")
    listed = etcd.members if etcd else {}
    rule(record.member_id not in listed, "I6", f"{step.name} is a member's")


def disarming(world: World, etcd: Etcd, alarm: Alarm) -> None:
    if alarm.kind == "NOSPACE":
        quota = world.cluster.etcd.quota_bytes
        # One that is away raises the alarm again itself.
        up = [data.member_id for at, data in world.running() if not _is_away(world.pods[at])]
        sizes = [etcd.sizes.get(one, (0, 0))[0] for one in etcd.voters if one in up]
        rule(max(sizes, default=quota) < quota, "alarm", "still without space")
        return
    gone = alarm.member_id not in etcd.members
    data = {etcd.differing.get(one) for one in etcd.members}
    rule(gone or len(data) == 1, "alarm", "still corrupt")


def _is_away(pod: PodState) -> bool:
    return pod.crashing or pod.deleting or pod.hidden


def defragmentation(world: World, etcd: Etcd, member: int) -> None:
    """A member answers nobody while it defragments."""
    alive = world.alive()
    rule(all(one in alive for one in etcd.voters), "I8", "another member is away")
    rule(not world.snapshots, "I8", "a backup would be waited for")
    others = [one for one in etcd.voters if one != member and not is_lost(world, etcd, one)]
    rule(not others or member != etcd.leader, "I8", "the leader, who could hand over")


def _is_copied_by_others(world: World, etcd: Etcd | None, ordinal: int) -> bool:
    """Whether the etcd at this ordinal fails, while all other voters serve, two or more."""
    others = {world.seat(one) for one in etcd.voters} - {ordinal} if etcd else set[int | None]()
    return world.pods[ordinal].crashing and len(others) > 1 and others <= world.serving()


def pod_deletion(world: World, step: DeletePod, ordinal: int) -> None:
    member, claim = world.member_at(ordinal), world.claims.get(ordinal)
    rule(not step.force or member is None, "I6", "given up while it is a member")
    if member is None:
        return
    waits = world.pods[ordinal].where != "etcd"
    kept = claim is None or not claim.deleting or waits
    rule(kept, "I8", "it would come back on a Terminating claim")
    etcd = world.etcd
    corrupt = etcd is not None and any(one.kind == "CORRUPT" for one in etcd.alarms)
    unknown = corrupt and world.cut_off  # no pod is Ready, and nobody can be asked
    if etcd is None or ordinal not in world.serving() or member.learner or unknown:
        copied = world.cluster.durable or world.data(ordinal) is None
        copied = copied or _is_copied_by_others(world, etcd, ordinal)
        rule(copied, "I11", f"{step.name} has the only copy of its data")
        runs = world.pods[ordinal].where == "etcd" and not world.pods[ordinal].crashing
        stop = [one for one, pod in world.pods.items() if pod.deleting and not pod.overdue]
        rule(not (runs and stop), "I8", f"{step.name} while {stop} stop")
        return
    others = [world.seat(one) for one in etcd.voters if one != member.member_id]
    rule(set(others) <= world.serving(), "I8", f"{step.name} while {others} do not all serve")
    rule(not any(world.pods[one].deleting for one in others if one is not None), "I8", "two down")
    rule(world.cluster.durable or len(others) > 1, "I11", "data that nobody else could elect with")
    rule(not others or etcd.leader != member.member_id, "I8", "a leader that did not hand over")


def promotion(world: World, etcd: Etcd, member_id: int) -> None:
    alive = world.alive()
    rule(member_id in alive, "I1", "a learner that does not run would be a voter")
    up = sum(one in alive for one in etcd.voters) + 1
    rule(up >= (len(etcd.voters) + 1) // 2 + 1, "I1", "the voters would have no quorum")
    ordinal = world.seat(member_id)
    data = world.data(ordinal) if ordinal is not None else None
    rule(bool(data and data.applied >= 0.9 * etcd.index), "promote", "far behind")


def disruption_budget(world: World, manifest: dict[str, Any]) -> None:
    """Evicting as many pods as the budget allows must leave a quorum of the present voters. Without
    a quorum and a budget, their number may be forgotten."""
    if world.etcd and not world.etcd.leader and not world.objects.get(_BUDGET):
        return
    least, voters = manifest["spec"]["minAvailable"], len(world.etcd.voters) if world.etcd else 0
    rule(least >= voters // 2 + 1, "I1", f"a budget of {least} for {voters} voters")


def budget_before_promotion(world: World, etcd: Etcd) -> None:
    live = world.objects.get(("PodDisruptionBudget", world.cluster.name))
    least, voters = live["spec"]["minAvailable"] if live else 0, len(etcd.voters) + 1
    taken = any(one.kind == "PodDisruptionBudget" for one in world.foreign)
    rule(taken or least >= voters // 2 + 1, "I1", f"{voters} voters before a budget of {least}")


def removal(world: World, etcd: Etcd, member_id: int) -> None:
    member = etcd.members.get(member_id)
    if member is None or member.learner:
        return
    rest = [one for one in etcd.voters if one != member_id]
    staying = {one for one in world.alive() if not world.is_stopping(one)}
    alive = [one for one in rest if one in staying]
    rule(bool(rest), "I11", "the last member")
    rule(len(alive) >= len(rest) // 2 + 1, "I1", f"{len(alive)} of {len(rest)} would be left")
    sound = [one for one in alive if not is_lost(world, etcd, one)]
    rule(etcd.leader != member_id or not sound, "F10", "the leader, before it has handed over")
    if is_lost(world, etcd, member_id):
        return
    seats = [one for one in map(world.seat, etcd.voters) if one is not None]
    rule(not etcd.learners, "I2", "another change is in flight")
    ordinal = world.seat(member_id)
    rule(ordinal is not None and ordinal >= world.cluster.size, "loss", "a sound member")
    rule(ordinal == max(seats), "F10", f"c-{ordinal} is not the highest")


def is_lost(world: World, etcd: Etcd, member_id: int) -> bool:
    """Whether the member's data is gone, is about to go, or is unusable."""
    ordinal = world.seat(member_id)
    if ordinal is None:
        return False
    pod, claim, data = world.pods.get(ordinal), world.claims.get(ordinal), world.data(ordinal)
    if world.cluster.durable and (claim is None or claim.deleting or claim.phase == "Lost"):
        return True
    if (pod and (pod.damage or pod.node_gone)) or (claim and claim.damaged):
        return True
    if data is None or data.member_id != member_id:
        spent = world.record.challenge(member_id)
        run = pod.challenge if pod and pod.where == "start" else ""
        # A record rebuilt from claims does not say which members never had a ticket.
        unknown = not world.record.members
        return unknown or member_id in world.ticketed or (spent is not None and spent != run)
    agreeing = [one for one in etcd.members if one not in etcd.differing]
    return member_id in etcd.differing and len(agreeing) > len(etcd.members) // 2
