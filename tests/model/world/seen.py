"""What the planner observes of a state, and what it decides.

`visible` is the part of a state that an operator can observe, in small tuples. States that look the
same get the same `Observation`, for which the planner decides only once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from etcd_stateful import naming
from etcd_stateful.membership import stalled
from etcd_stateful.membership.epochs import survivor
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import Step
from etcd_stateful.observed.members import Alarm, EtcdView, Member, MemberStatus
from etcd_stateful.observed.objects import Claim, Foreign, Secret
from etcd_stateful.observed.pods import Pod, StartAnswer
from etcd_stateful.records.member import MemberRecord
from model.world import again, job, quick, seen_job, tables, volume
from model.world.state import (
    CRASH,
    DATABASE,
    DIFFERENT,
    ETCD,
    IMAGE,
    LACKS,
    NODE,
    NONE,
    PENDING,
    PHASE,
    START,
    UNSTARTED,
    Record,
    State,
    content_of,
    has_quorum,
    is_up,
)

Visible = tuple[Any, ...]

DAMAGE: Final = "panic: freepages: failed to get all reachable pages (page 7: invalid type)"
OLD: Final = 100.0
YOUNG: Final = 0.0


def visible(state: State) -> Visible:
    size = len(state.pods)
    led = state.etcd is not None and state.etcd.leader != 0 and has_quorum(state)
    pods = tuple(_pod(state, ordinal, led=led) for ordinal in range(size))
    claims = tuple(one and (one.record, one.deleting, one.lost == PHASE) for one in state.claims)
    statuses: tuple[Any, ...] = ()
    # Without a record of the expected cluster, etcd is not queried.
    if state.etcd is not None and not state.cut and state.secret != NONE:
        statuses = tuple(_status(state, ordinal, led=led) for ordinal in range(size))
    listed = led and any(statuses)
    etcd = state.etcd if listed else None
    view = etcd and (etcd.cluster, tuple(one[:4] for one in etcd.members))
    alarms = etcd.alarms if etcd else ()
    return (
        state.spec,
        state.told,
        state.secret,
        state.sts,
        state.headless,
        state.client,
        claims,
        pods,
        statuses,
        view,
        alarms,
        _predecessors(state),
        state.budget,
        (state.job, job.trouble(state), job.etcd_started(state)) if state.job else None,
        state.asleep,
        state.unpullable,
    )


def _predecessors(state: State) -> tuple[int, ...]:
    """Pods that are garbage-collected with an earlier StatefulSet."""
    if state.sts != NONE:
        return ()
    return tuple(at for at, pod in enumerate(state.pods) if pod is not None and pod.deleting)


def _pod(state: State, ordinal: int, *, led: bool) -> Visible | None:
    pod = state.pods[ordinal]
    if pod is None or (state.sts == NONE and pod.deleting):
        return None
    away = bool(state.away >> ordinal & 1)
    claim = state.claims[ordinal]
    gone = bool(claim and claim.lost == NODE)
    content = content_of(state, ordinal)
    answers = (
        pod.where == START and not (pod.deleting or away or state.cut) and state.secret != NONE
    )
    epoch = tables.templates[pod.template].epoch
    found = volume.finding(ordinal, content, epoch) if answers else None
    refuses = pod.where == CRASH and content is not None and content.harm == DATABASE
    slow = bool(state.slow >> ordinal & 1)
    runs = pod.where in (ETCD, CRASH) and content is not None
    return (
        ordinal,
        pod.where,
        pod.template,
        pod.deleting,
        pod.aged,
        pod.record,
        away,
        gone,
        found,
        refuses,
        content.member if runs and content else 0,
        _is_ready(state, ordinal, led=led),
        pod.where == PENDING and (slow or bool(claim and claim.lost)),
        pod.where == IMAGE and content is not None and content.log,
    )


def _is_ready(state: State, ordinal: int, *, led: bool) -> bool:
    """As `/readyz`: a linearizable read succeeds, and it is not a learner."""
    if not led or not is_up(state, ordinal) or state.etcd is None:
        return False
    content = content_of(state, ordinal)
    one = next(one for one in state.etcd.members if content and one.member == content.member)
    return not one.learner and one.member not in state.etcd.alarms


def _status(state: State, ordinal: int, *, led: bool) -> Visible | None:
    """The status of the member that the record names, or of any member of this cluster."""
    etcd, pod, content = state.etcd, state.pods[ordinal], content_of(state, ordinal)
    if etcd is None or pod is None or content is None or pod.where != ETCD:
        return None
    if state.away >> ordinal & 1 or not content.log or content.cluster != etcd.cluster:
        return None
    record = _record_of(state, ordinal)
    if record is not None and record.cluster == etcd.cluster and record.member != content.member:
        return None
    member = next((one for one in etcd.members if one.member == content.member), None)
    learner = member is not None and member.learner
    behind = 10 if learner else 99
    version = tables.templates[pod.template].version
    return (
        content.member,
        version,
        etcd.leader if led else 0,
        learner,
        100 if content.has else behind,
        f"3.{etcd.format}" if version.minor >= 6 else "",
        f"3.{etcd.down}" if etcd.down else "",
        bool(etcd.alarms),
        (7 if content.harm == DIFFERENT else 1) if etcd.alarms else 0,
        etcd.cluster,
    )


def _record_of(state: State, ordinal: int) -> Record | None:
    claim, pod = state.claims[ordinal], state.pods[ordinal]
    if claim is not None:
        return claim.record
    return pod.record if pod else None


def observe(key: Visible) -> Observation:
    (
        spec,
        told,
        secret,
        sts,
        headless,
        client,
        claims,
        pods,
        statuses,
        view,
        alarms,
        before,
        budget,
        working,
        asleep,
        unpullable,
    ) = key
    record = tables.bootstraps[secret] if secret != NONE else None
    seen = Observation(
        cluster=tables.specs[spec].cluster,
        secret=Secret("1", record) if record else None,
        stateful_set=_object(sts),
        headless_service=_object(headless),
        client_service=_object(client),
        disruption_budget=_object(budget),
        foreign=tuple(_foreign(one) for one in (headless, client, budget) if _is_anothers(one)),
        claims=tuple(_as_claim(ordinal, one) for ordinal, one in enumerate(claims) if one),
        pods=tuple(_as_pod(*one) for one in pods if one),
        etcd=_as_view(view) if view else None,
        statuses={ordinal: _as_status(*one) for ordinal, one in enumerate(statuses) if one},
        alarms=tuple(Alarm("CORRUPT", member) for member in alarms),
        hashes={ordinal: one[8] for ordinal, one in enumerate(statuses) if one and one[8]},
        predecessors=tuple(naming.pod(tables.NAME, ordinal) for ordinal in before),
        operator_image=tables.UNPULLABLE if unpullable else tables.IMAGE,
        last_cluster_id=told or None,
    )
    seen = replace(seen, stalled=asleep and bool(stalled.missing(seen)))
    return seen_job.onto(seen, *working) if working and survivor.needs_lookup(seen) else seen


def _object(number: int) -> Any:
    if number == NONE or tables.objects[number].anothers:
        return None
    return tables.objects[number].live


def _is_anothers(number: int) -> bool:
    return number != NONE and tables.objects[number].anothers


def _foreign(number: int) -> Foreign:
    made = tables.objects[number]
    return Foreign(made.live["kind"], made.live["metadata"]["name"], "somebody", made.passing)


def _as_record(kind: str, ordinal: int, record: Record | None) -> MemberRecord | None:
    if record is None:
        return None
    uid = f"{kind}-{ordinal}" if record.own else tables.GONE
    return MemberRecord(tables.UID, uid, record.member, record.cluster, record.epoch)


@functools.cache
def _as_claim(ordinal: int, one: Visible) -> Claim:
    record, deleting, lost = one
    return Claim(
        ordinal=ordinal,
        name=naming.claim(tables.NAME, ordinal),
        uid=f"claim-{ordinal}",
        resource_version="1",
        cluster_uid=tables.UID,
        record=_as_record("claim", ordinal, record),
        deleting=deleting,
        phase="Lost" if lost else "Bound",
    )


@functools.cache
def _as_pod(
    ordinal: int,
    where: int,
    template: int,
    deleting: bool,
    aged: bool,
    record: Record | None,
    away: bool,
    gone: bool,
    found: Any,
    refuses: bool,
    ran_as: int,
    ready: bool,
    slow: bool,
    has_data: bool,
) -> Pod:
    made = tables.templates[template]
    return Pod(
        ordinal=ordinal,
        name=naming.pod(tables.NAME, ordinal),
        uid=f"pod-{ordinal}",
        resource_version="1",
        address=f"10.0.0.{ordinal + 1}" if where not in UNSTARTED else "",
        deleting=deleting,
        ready=ready and not away,
        in_start=where == START,
        etcd_started=where in (ETCD, CRASH),
        trouble=_trouble(where, gone=gone, away=away, slow=slow),
        answer=StartAnswer(tables.run_of(ordinal), found) if found else None,
        record=_as_record("pod", ordinal, record),
        revision=tables.revision(template),
        age=OLD if aged else YOUNG,
        spec_hash=made.spec_hash,
        image=made.image,
        crashing=where == CRASH,
        image_missing=where == IMAGE,
        start_missing=where == LACKS,
        damage=DAMAGE if refuses else "",
        node_gone=gone and where == PENDING,
        ran_as=ran_as,
        has_data=has_data,
        overdue=deleting and away,
        epoch=made.epoch,
    )


def _trouble(where: int, *, gone: bool, away: bool, slow: bool) -> str:
    if where == PENDING and (gone or slow):
        return "no node has room for it"
    if where == IMAGE:
        return "the image of container etcd cannot be pulled"
    if where == LACKS:
        return "the image of container start cannot be pulled"
    if where == CRASH:
        return "container etcd keeps failing"
    return "its node does not answer" if away else ""


@functools.cache
def _as_view(view: Visible) -> EtcdView:
    cluster, members = view
    spec = tables.specs[0].cluster  # URLs are the same in every spec
    listed = [
        Member(
            member_id=member,
            name=naming.pod(tables.NAME, ordinal) if started else "",
            peer_urls=(spec.peer_url(ordinal),),
            learner=learner,
        )
        for member, ordinal, learner, started in members
    ]
    return EtcdView(cluster, tuple(sorted(listed, key=lambda one: one.member_id)))


@functools.cache
def _as_status(
    member: int,
    version: Any,
    leader: int,
    learner: bool,
    applied: int,
    storage: str,
    down: str,
    alarmed: bool,
    _hash: int,
    cluster: int,
) -> MemberStatus:
    return MemberStatus(
        member_id=member,
        cluster_id=cluster,
        version=str(version),
        leader_id=leader,
        term=2,
        applied_index=applied,
        learner=learner,
        db_size=4096,
        errors=("alarm:CORRUPT",) if alarmed else (),
        storage_version=storage,
        downgrade_target=down,
    )


class Planner:
    """`decide`, called only once for states that look the same."""

    def __init__(self, ask: Callable[[Observation], Step] = decide) -> None:
        self._ask = ask
        self._said: dict[Visible, Step] = {}
        self.asked = 0

    def __call__(self, state: State) -> Step:
        return self.on(visible(state))

    def on(self, key: Visible) -> Step:
        step = self._said.get(key)
        if step is None:
            self.asked += 1
            seen = observe(key)
            step = self._ask(seen)
            again.check(seen, step, decide)
            self._said[key] = step
        return step


quick.install()
