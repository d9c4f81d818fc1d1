"""The safety rules of docs/invariants.md, each a function with its number.

`STATE_RULES` are checked in every state, `STEP_RULES` for every write at the moment that it is
applied, against the true state before it, and not against what the operator observed. An empty text
means that the rule holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from etcd_stateful import versions
from etcd_stateful.membership import steps
from etcd_stateful.membership.steps import Step
from model.world import rules_recovery, tables
from model.world.moves import Broken
from model.world.state import (
    CRASH,
    IMAGE,
    LACKS,
    NONE,
    Etcd,
    State,
    content_of,
    has_quorum,
    listed,
    member_at,
    quorum,
    up_voters,
    voters,
)
from model.world.world import lost_write
from model.world.writes import field_of

StateRule = Callable[[State], str]
StepRule = Callable[[State, Any], str]

FEW: Final = 3
"""In clusters with fewer voters a restart is an announced outage."""


def check_state(state: State) -> None:
    """Raises Broken."""
    for rule in STATE_RULES:
        if words := rule(state):
            raise Broken(f"{rule.__name__}: {words}")


def check_step(state: State, step: Step) -> None:
    """Raises Broken."""
    for rule in STEP_RULES.get(type(step), ()):
        if words := rule(state, step):
            raise Broken(f"{rule.__name__}: {words} ({_short(step)})")
    if words := paused(state, step):
        raise Broken(f"paused: {words}")


def _short(step: Step) -> str:
    reason = getattr(step, "reason", "")
    return f"{type(step).__name__}: {reason}"


# Of every state.


def i0_no_acknowledged_write_is_lost(state: State) -> str:
    return "voters that lack acknowledged writes are a quorum" if lost_write(state) else ""


def i1_no_drain_takes_the_quorum(state: State) -> str:
    """The disruption budget counts Ready pods, which only serving voters are. So its minAvailable
    must be a quorum."""
    if state.budget == NONE or tables.objects[state.budget].anothers:
        return ""
    kept, needed = tables.objects[state.budget].least, quorum(len(voters(state)))
    return f"the budget keeps {kept} of {len(voters(state))} voters" if kept < needed else ""


def i2_one_learner(state: State) -> str:
    learners = sum(one.learner for one in state.etcd.members) if state.etcd else 0
    return f"{learners} learners" if learners > 1 else ""


def i3_no_two_volumes_of_one_member(state: State) -> str:
    found = [
        content.member
        for ordinal in range(len(state.pods))
        if (content := content_of(state, ordinal)) and content.log
    ]
    return "two volumes under one member ID" if len(found) != len(set(found)) else ""


def i7_one_cluster(state: State) -> str:
    """The record names the cluster that has formed. One that never formed may be bootstrapped
    again."""
    if state.etcd is None or state.secret == NONE:
        return ""
    record = tables.bootstraps[state.secret]
    formed = state.told == state.etcd.cluster
    if formed and record.latched and record.cluster_id != state.etcd.cluster:
        return "the record names another etcd cluster than has formed"
    return ""


STATE_RULES: Final[tuple[StateRule, ...]] = (
    i0_no_acknowledged_write_is_lost,
    i1_no_drain_takes_the_quorum,
    i2_one_learner,
    i3_no_two_volumes_of_one_member,
    rules_recovery.i3_no_volume_of_before_runs,
    i7_one_cluster,
    rules_recovery.i7_epoch_is_kept,
)


# Of every step.


def i1_pod_of_the_quorum(state: State, step: steps.DeletePod) -> str:
    ordinal, up = tables.ordinal_of(step.name), up_voters(state)
    member = member_at(state, ordinal)
    few = tables.specs[state.spec].cluster.size < FEW and len(voters(state)) < FEW
    if member is None or member not in up or few:
        return ""
    if len(up) - 1 < quorum(len(voters(state))):
        return f"{len(up) - 1} of {len(voters(state))} voters would be left"
    return ""


def i1_member_of_the_quorum(state: State, step: steps.MemberRemove) -> str:
    rest = [one for one in voters(state) if one.member != step.member_id]
    up = [one for one in up_voters(state) if one.member != step.member_id]
    if rest and len(up) < quorum(len(rest)):
        return f"{len(up)} of the other {len(rest)} voters are up"
    return ""


def i1_promoted_into_the_quorum(state: State, step: steps.MemberPromote) -> str:
    after = len(voters(state)) + 1
    etcd = state.etcd
    learner = (
        next((one for one in etcd.members if one.member == step.member_id), None) if etcd else None
    )
    if learner is None:
        return ""
    content = content_of(state, learner.ordinal)
    runs = content is not None and content.member == learner.member and content.log
    pod = state.pods[learner.ordinal]
    runs = runs and pod is not None and not pod.deleting and not state.away >> learner.ordinal & 1
    if len(up_voters(state)) + bool(runs) < quorum(after):
        return f"{len(up_voters(state))} voters and the learner are no quorum of {after}"
    if not runs:
        return "the learner does not run"
    return ""


def i2_one_change(state: State, step: steps.MemberAddLearner) -> str:
    assert state.etcd is not None
    if any(one.learner for one in state.etcd.members):
        return "there is a learner already"
    return ""


def i3_one_ticket(state: State, step: steps.PushTicket) -> str:
    """Each member ID has had at most one ticket, for one run, whatever the ledger says."""
    given = dict(state.given)
    member = step.ticket.member_id
    if member in given and not given[member]:
        return f"member {member:x} had its ticket in another run"
    content = content_of(state, tables.ordinal_of(step.pod))
    return "onto a volume with a log" if content and content.log else ""


def i3_recorded_first(state: State, step: steps.PushTicket) -> str:
    ordinal, ticket = tables.ordinal_of(step.pod), step.ticket
    claim, pod = state.claims[ordinal], state.pods[ordinal]
    held = claim.record if claim else pod.record if pod else None
    if held is None or (held.member, held.cluster) != (ticket.member_id, ticket.cluster_id):
        return "a ticket that the claim does not record"
    return ""


def i4_new_before_it_formed(state: State, step: steps.PushTicket) -> str:
    if step.ticket.state == "existing":
        known = listed(state)
        return "" if step.ticket.member_id in known else "existing without being listed"
    record = tables.bootstraps[state.secret]
    if record.latched:
        return "new after the latch"
    if step.ticket.initial_cluster != record.initial_cluster:
        return "another initial cluster than recorded"
    return ""


def i4_attempts(state: State, step: steps.WriteBootstrap) -> str:
    if state.secret == NONE:
        return ""
    old, new = tables.bootstraps[state.secret], step.record
    if old.latched and not new.latched:
        return "the latch was taken off"
    if new.attempt == old.attempt:
        over = bool(old.survivor) and not new.members
        return "other first members" if new.members != old.members and not over else ""
    if old.latched or new.attempt != old.attempt + 1:
        return "another attempt out of turn"
    return "tickets of the attempt before" if new.issued else ""


def i3_ledger_remembers(state: State, step: steps.WriteBootstrap) -> str:
    if state.secret == NONE:
        return ""
    old, new = tables.bootstraps[state.secret], step.record
    known = {member for member, _ in new.issued}
    needed = {first for first, _ in tables.first_members.get(new.cluster_id, ())} | listed(state)
    for member, run in old.issued:
        if new.attempt == old.attempt and member in needed and new.challenge(member) != run:
            return f"it forgets the ticket of member {member:x}"
    return "" if len(known) == len(new.issued) else "two tickets for one member"


def i5_replicas(state: State, step: steps.ApplyChild) -> str:
    """Replicas are lowered only once the removed ordinals are on no list, and never before the
    cluster has formed."""
    if step.kind != "StatefulSet" or rules_recovery.excused(state, step):
        return ""
    spec: Any = step.manifest["spec"]
    wanted = spec["replicas"]
    before = tables.objects[state.sts].replicas if state.sts != NONE else 0
    if wanted == before:
        return ""
    members = rules_recovery.members(state)
    if state.sts == NONE:
        # The StatefulSet is recreated, maybe without a member list: only members with data matter.
        members = tuple(one for one in members if content_of(state, one.ordinal))
    if beyond := [one.ordinal for one in members if one.ordinal >= wanted]:
        return f"{wanted} replicas, and ordinals {beyond} are members"
    if wanted < before and not has_quorum(state):
        return f"from {before} to {wanted} without a quorum"
    return ""


def i6_claim_of_a_removed_member(state: State, step: steps.DeleteClaim) -> str:
    ordinal = tables.ordinal_of(step.name.removeprefix("data-"))
    claim = state.claims[ordinal]
    if claim is None or rules_recovery.excused(state, step):
        return ""
    if claim.record is None or not claim.record.own:
        return "no record says whose it is"
    if not has_quorum(state):
        return "no quorum says who is a member"
    assert state.etcd is not None
    if claim.record.cluster != state.etcd.cluster:
        return "it is of another cluster"
    content = claim.content
    for member in (claim.record.member, content.member if content else 0):
        if member in listed(state):
            return f"{member:x} is a member"
    return ""


def i7_cluster_id(state: State, step: steps.WriteBootstrap) -> str:
    if state.secret == NONE:
        return ""
    old, new = tables.bootstraps[state.secret], step.record
    if old.latched and new.cluster_id != old.cluster_id:
        return "the cluster ID of a formed cluster changes"
    return ""


def i8_one_pod_down(state: State, step: steps.DeletePod) -> str:
    """A serving pod is deleted only if no other pod is down by our choice."""
    ordinal = tables.ordinal_of(step.name)
    member, up = member_at(state, ordinal), up_voters(state)
    if member is None or member not in up:
        return ""
    if state.ours & ~(1 << ordinal):
        return f"others are down by our choice ({state.ours:b})"
    behind = [one for one in voters(state) if one not in up and one is not member]
    if behind and len(voters(state)) >= FEW:
        return f"ordinal {behind[0].ordinal} does not serve, and this one does"
    return ""


def i8_leader_last(state: State, step: steps.DeletePod) -> str:
    member = member_at(state, tables.ordinal_of(step.name))
    etcd = state.etcd
    if member is None or etcd is None or etcd.leader != member.member:
        return ""
    if not has_quorum(state) or len(voters(state)) == 1:
        return ""
    return "it leads, and others could"


def i9_version(state: State, step: steps.ApplyChild) -> str:
    """The template moves by one minor, and only if all members run a patch from which they may."""
    if step.kind != "StatefulSet" or state.etcd is None:
        return ""
    template = tables.objects[tables.stored(step.manifest)].template
    new = tables.templates[template].version
    untried = state.secret != NONE and tables.bootstraps[state.secret].untried
    if new.minor < state.etcd.minor and _is_left(state, state.etcd) and not untried:
        return f"to {new}, and the data is in the format of 3.{state.etcd.minor}"
    for one in state.etcd.members:
        pod = state.pods[one.ordinal]
        if pod is None or one not in up_voters(state):
            continue
        old = tables.templates[pod.template].version
        if words := _jump(old, new):
            return words
    return ""


def _is_left(state: State, etcd: Etcd) -> bool:
    """Whether a volume has data of this etcd cluster. A cluster that never formed may have none."""
    found = (content_of(state, ordinal) for ordinal in range(len(state.pods)))
    return any(one is not None and one.log and one.cluster == etcd.cluster for one in found)


def _jump(old: versions.Version, new: versions.Version) -> str:
    if abs(new.minor - old.minor) > 1:
        return f"from {old} to {new}"
    floors = {6: versions.Version(3, 5, 32), 7: versions.Version(3, 6, 11)}
    if new.minor > old.minor and old < floors[new.minor]:
        return f"from {old} to {new}"
    return ""


def i9_first_version(state: State, step: steps.PushTicket) -> str:
    """A first member runs the recorded version, as its data is assumed to have that format."""
    pod, record = state.pods[tables.ordinal_of(step.pod)], tables.bootstraps[state.secret]
    made_for = tables.templates[pod.template].version if pod else None
    if step.ticket.state == "new" and str(made_for) != record.version:
        return f"the first start of etcd {made_for}, and {record.version} is on record"
    return ""


def i9_version_of_an_attempt(state: State, step: steps.WriteBootstrap) -> str:
    """Before the cluster has formed, the version changes only with the attempt, and only without
    data of the earlier one."""
    if state.secret == NONE:
        return ""
    old, new = tables.bootstraps[state.secret], step.record
    if old.latched or old.version == new.version:
        return ""
    return "another version amid an attempt" if old.attempt == new.attempt else ""


def version_first(state: State, step: steps.ApplyChild) -> str:
    """Of an edit of the version and more, nothing reaches pods of the version of before. But it may
    be the cure where there is no quorum, or where a pod fails."""
    if step.kind != "StatefulSet" or NONE in (state.sts, state.secret) or not has_quorum(state):
        return ""
    wanted, formed = tables.specs[state.spec].cluster, tables.bootstraps[state.secret].latched
    has = tables.templates[tables.objects[state.sts].template]
    new = tables.templates[tables.objects[tables.stored(step.manifest)].template]
    alike = (has.version, has.epoch) == (new.version, new.epoch)
    due = new.version != wanted.version and not _jump(new.version, wanted.version)
    if not (formed and alike and due) or has.spec_hash == new.spec_hash:
        return ""
    if any(pod and pod.where in (CRASH, IMAGE, LACKS) for pod in state.pods):
        return ""
    return f"an edit that asks for etcd {wanted.version} as well reaches pods of {new.version}"


def i10_owner(state: State, step: steps.ApplyChild) -> str:
    """What is written is owned by this cluster alone, and never in the place of another's."""
    there = getattr(state, field_of(step))
    if there != NONE and tables.objects[there].anothers:
        return "it belongs to another"
    metadata: Any = step.manifest["metadata"]
    uids = [one["uid"] for one in metadata["ownerReferences"]]
    return "" if uids == [tables.UID] else f"owned by {uids}"


def i11_no_empty_cluster(state: State, step: steps.CreateSecret | steps.WriteBootstrap) -> str:
    """No cluster ID other than that of the existing data is recorded."""
    known = tables.bootstraps[state.secret].cluster_id if state.secret != NONE else 0
    if step.record.latched or step.record.cluster_id == known:
        return ""
    for ordinal in range(len(state.pods)):
        content = content_of(state, ordinal)
        if content and content.log and content.cluster != step.record.cluster_id:
            return f"another cluster beside the data of ordinal {ordinal}"
    return ""


def i11_formed_is_formed(state: State, step: steps.CreateSecret) -> str:
    if state.told and not step.record.latched:
        return "the status knows a cluster, and another begins"
    return ""


def paused(state: State, step: Step) -> str:
    cluster = tables.specs[state.spec].cluster
    return "a write" if cluster.paused else ""


STEP_RULES: Final[dict[type, tuple[StepRule, ...]]] = {
    steps.ApplyChild: (
        rules_recovery.i1_stopped_by_word,
        i5_replicas,
        i9_version,
        version_first,
        i10_owner,
    ),
    steps.CreateSecret: (i11_no_empty_cluster, i11_formed_is_formed),
    steps.WriteBootstrap: (
        i3_ledger_remembers,
        i4_attempts,
        i7_cluster_id,
        i9_version_of_an_attempt,
        rules_recovery.i7_epoch,
        rules_recovery.i7_recovered,
        i11_no_empty_cluster,
    ),
    steps.PushTicket: (
        i3_one_ticket,
        i3_recorded_first,
        i4_new_before_it_formed,
        i9_first_version,
    ),
    steps.DeleteClaim: (i6_claim_of_a_removed_member, rules_recovery.i6_claim_of_before),
    steps.DeletePod: (
        i1_pod_of_the_quorum,
        i8_one_pod_down,
        i8_leader_last,
        rules_recovery.i8_given_up,
    ),
    steps.CreateJob: (rules_recovery.i8_one_etcd_on_the_volume,),
    steps.MemberAddLearner: (i2_one_change,),
    steps.MemberPromote: (i1_promoted_into_the_quorum,),
    steps.MemberRemove: (i1_member_of_the_quorum,),
}
