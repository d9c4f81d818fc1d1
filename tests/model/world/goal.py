"""Where the world may come to rest once faults are over: as declared, or held for a good reason.

Whether a reason is good is judged by the true state of the world, not by what the planner observes.
"""

from __future__ import annotations

from etcd_stateful.membership.steps import DeletePod, Hold, Settled, Step, Wait
from etcd_stateful.versions import parse_version
from model.world import goal_recovery, tables
from model.world.state import (
    CRASH,
    DATABASE,
    DIFFERENT,
    ETCD,
    IMAGE,
    LOG,
    NONE,
    START,
    UNREADABLE,
    UNSTARTED,
    Member,
    State,
    content_of,
    has_quorum,
    quorum,
    up_voters,
    voters,
)


def rests_well(state: State, step: Step) -> str:
    """Why the world must not rest in this state; empty if it may."""
    if isinstance(step, Settled):
        return _unlike_declared(state)
    if isinstance(step, Hold):
        return _pods_kept_away(state, step) or _not_held(state, step)
    if isinstance(step, Wait):
        return _pods_kept_away(state, step) or _not_waited(state, step)
    return f"a write that is refused for ever: {step}"


def _is_anothers(number: int) -> bool:
    return number != NONE and tables.objects[number].anothers


def _beside_anothers(state: State) -> bool:
    return any(map(_is_anothers, (state.headless, state.client, state.budget)))


def _unlike_declared(state: State) -> str:
    cluster = tables.specs[state.spec].cluster
    if state.etcd is None or not has_quorum(state):
        return "settled without a quorum"
    ordinals = [one.ordinal for one in state.etcd.members]
    if ordinals != list(range(cluster.size)) or len(up_voters(state)) != cluster.size:
        return f"settled with members {ordinals}"
    replicas_now = tables.objects[state.sts].replicas
    if replicas_now != cluster.size or state.client == NONE or _beside_anothers(state):
        return "settled with other children"
    if state.budget == NONE or tables.objects[state.budget].least != quorum(cluster.size):
        return "settled with another disruption budget"
    if state.etcd.alarms or state.etcd.down or goal_recovery.is_under_way(state):
        return "settled with an alarm, or amid a downgrade or a recovery"
    return _unlike_pods(state)


def _unlike_pods(state: State) -> str:
    cluster = tables.specs[state.spec].cluster
    for ordinal, pod in enumerate(state.pods):
        if ordinal >= cluster.size:
            claim = state.claims[ordinal]
            if pod is not None or (claim is not None and claim.record is not None):
                return f"settled with a pod or claim at {ordinal}"
            continue  # A claim without a record is left alone (I6).
        assert pod is not None
        made = tables.templates[pod.template]
        if cluster.version_declared and made.version != cluster.version:
            return f"settled with {made.version} at {ordinal}"
        if not made.spec_hash.startswith(cluster.spec_hash):
            return f"settled with an older spec at {ordinal}"
        claim = state.claims[ordinal]
        if claim and claim.deleting:
            return f"settled with a claim that is being deleted at {ordinal}"
    return ""


def _is_good(state: State, member: Member) -> bool:
    """Whether the data of the member is there, so that it serves or could serve."""
    content, claim = content_of(state, member.ordinal), state.claims[member.ordinal]
    if content is None or content.member != member.member:
        return False  # A first member without a ticket needs a quorum to get one.
    pod = state.pods[member.ordinal]
    if not content.log and (pod is None or pod.where in (*UNSTARTED, START)):
        return False  # Its ticket was for a run that is over.
    return content.harm not in (LOG, DATABASE, UNREADABLE) and not (claim and claim.deleting)


def is_lost_for_good(state: State) -> bool:
    """Whether too few voters have their data, so that only a human can help."""
    every = voters(state)
    return bool(every) and sum(_is_good(state, one) for one in every) < quorum(len(every))


def _pods_kept_away(state: State, step: Hold | Wait) -> str:
    """Why pods are missing: the StatefulSet has too few replicas, though no recovery needs that."""
    if not is_formed(state) or state.sts == NONE or tables.specs[state.spec].cluster.paused:
        return ""
    if _is_anothers(state.headless):
        return ""  # Without it no pod is found.
    record = tables.bootstraps[state.secret]
    if record.survivor or (isinstance(step, Wait) and " to stop" in step.reason):
        return ""
    kept = tables.objects[state.sts].replicas < record.ordinals
    return f"pods are kept away for ever: {step}" if kept else ""


def _not_held(state: State, hold: Hold) -> str:
    cluster = tables.specs[state.spec].cluster
    excused = {
        "Paused": cluster.paused,
        "QuorumLost": is_lost_for_good(state) or _never_formed(state),
        "LastMember": len(voters(state)) == 1,
        "VersionJump": _is_jump(state),
        "VersionFails": _fails(state) or is_lost_for_good(state) or _never_formed(state),
        "BegunOtherwise": _never_formed(state) and _cannot_begin_anew(state),
        "DowngradeNeedsVolumes": not cluster.durable and _is_downgrade(state),
        "NameTaken": _beside_anothers(state),
        "RestartNeedsMembers": not cluster.durable and len(voters(state)) < 3,
        "RecordsLost": not state.told,
        "ClaimUnrecorded": _unrecorded(state),
        "DataDiffers": _contradict(state),
        "DataDamaged": not is_formed(state) and _damaged(state),
        "ClaimDeleted": not is_formed(state),
        "SplitBrain": _never_formed(state) or state.told != state.etcd.cluster,
        "ForeignData": goal_recovery.is_kept_back(state),
        "RecoveryRefused": goal_recovery.is_wrong(state),
        "RecoveryFailed": goal_recovery.has_failed(state),
        "RecoveryNotNeeded": has_quorum(state) and cluster.recovery is not None,
    }
    if excused.get(hold.reason):
        return ""
    return f"held for no good reason: {hold}"


def _is_jump(state: State) -> bool:
    wanted, record = tables.specs[state.spec].cluster.version, tables.bootstraps[state.secret]
    now = parse_version(record.version)
    return now is not None and abs(wanted.minor - now.minor) > 1


def _is_downgrade(state: State) -> bool:
    wanted, now = tables.specs[state.spec].cluster.version, tables.bootstraps[state.secret].version
    record = parse_version(now)
    return record is not None and wanted.minor < record.minor


def _fails(state: State) -> bool:
    """Some pod cannot run the version it was made for; and either no member runs the requested
    minor, or the recorded version is too old for the data."""
    if state.secret == NONE or state.etcd is None:
        return False
    made = [(pod.where, tables.templates[pod.template].version) for pod in state.pods if pod]
    if not any(where in (IMAGE, CRASH) for where, _ in made):
        return False
    wanted = tables.specs[state.spec].cluster.version
    now = parse_version(tables.bootstraps[state.secret].version)
    if now is None or wanted.minor == now.minor:
        return now is not None and now.minor < state.etcd.minor
    return not any(where == ETCD and one.minor == wanted.minor for where, one in made)


def is_formed(state: State) -> bool:
    return state.secret != NONE and tables.bootstraps[state.secret].latched


def _cannot_begin_anew(state: State) -> bool:
    """Some etcd has already run, with an earlier spec; or something else is wrong as well."""
    found = (content_of(state, ordinal) for ordinal in range(len(state.pods)))
    has_run = any(one is not None and one.log for one in found)
    return has_run or not _pullable(state) or _unrecorded_loss(state)


def _unrecorded(state: State) -> bool:
    """A claim has no record that it belonged to this etcd cluster."""
    formed = state.etcd.cluster if state.etcd else 0
    return any(
        claim and (claim.record is None or not claim.record.own or claim.record.cluster != formed)
        for claim in state.claims
    )


def _damaged(state: State) -> bool:
    found = (content_of(state, ordinal) for ordinal in range(len(state.pods)))
    return any(one is not None and one.harm in (LOG, DATABASE) for one in found)


def _contradict(state: State) -> bool:
    """The alarm is raised, and no majority of the voters has the same data."""
    every = voters(state)
    found = [content_of(state, one.ordinal) for one in every]
    differ = sum(one is not None and one.harm == DIFFERENT for one in found)
    most = max(differ, len(every) - differ)
    return state.etcd is not None and bool(state.etcd.alarms) and most < quorum(len(every))


def _unrecorded_loss(state: State) -> bool:
    """A claim that no member has used is lost: only a human may delete it (I6)."""
    return any(
        claim and claim.lost and (claim.record is None or not is_formed(state))
        for claim in state.claims
    )


def goes_round_well(states: list[State], steps: list[Step]) -> str:
    """Why this cycle is not acceptable. A pod may be recreated for ever only if its etcd cannot
    run."""
    writes = [one for one in steps if not isinstance(one, Settled | Hold | Wait)]
    looks = all(isinstance(one, DeletePod) and "keeps failing" in one.reason for one in writes)
    if looks and (not is_formed(states[0]) or is_lost_for_good(states[0])):
        return ""
    return f"goes round for ever: {[getattr(one, 'reason', one) for one in writes]}"


def _never_formed(state: State) -> bool:
    """Volumes were emptied before the latch, and others may have the same data."""
    return state.etcd is None or not is_formed(state)


def _not_waited(state: State, wait: Wait) -> str:
    """Why it must not wait: it may only wait for something that the message names."""
    if _has_no_image(state):
        return ""  # It waits for that pod, or for something that waits for the pod.
    names = {
        "no node has room": _unrecorded_loss(state),
        "a quorum to answer: ": is_lost_for_good(state) or _never_formed(state),
        "to reach a quorum": _never_formed(state),
        "keeps failing": _never_formed(state),
        "set spec.version to the version that they ran": _fails(state),
        "to make a cluster of one": goal_recovery.cannot_run(state),
    }
    if any(true for words, true in names.items() if words in wait.reason):
        return ""
    return f"waits for ever: {wait.reason}"


def _has_no_image(state: State) -> bool:
    """The image cannot be pulled, and any other requested version would be too large a step."""
    waits = any(pod and pod.where == IMAGE for pod in state.pods)
    return waits and (not _pullable(state) or (is_formed(state) and _is_jump(state)))


def _pullable(state: State) -> bool:
    cluster = tables.specs[state.spec].cluster
    return "broken" not in cluster.image and cluster.version.patch < tables.BROKEN_PATCH
