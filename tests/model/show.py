"""Prints states and steps in a few words, for people who read a trace."""

from __future__ import annotations

from etcd_stateful.membership.steps import Hold, Settled, Step, Wait
from model.world import steps_held, tables
from model.world.state import NONE, Claim, Content, Pod, State

_WHERE = ("pending", "start", "etcd", "crash", "image", "bound")


def told(step: Step) -> str:
    match step:
        case Settled():
            return "Settled"
        case Hold(reason=reason, message=message):
            return f"Hold {reason}: {message}"
        case Wait(reason=reason):
            return f"Wait for {reason}"
        case write:
            return f"{type(write).__name__}: {write.reason}"


def show(state: State) -> str:
    lines = []
    for ordinal in range(len(state.pods)):
        pod, claim = state.pods[ordinal], state.claims[ordinal]
        if pod or claim:
            lines.append(f"    {ordinal}: {_pod(state, ordinal, pod)}; {_claim(claim)}")
    lines.append(f"    {_rest(state)}")
    return "\n".join(lines)


def _rest(state: State) -> str:
    said = [f"sts {tables.objects[state.sts].replicas if state.sts != NONE else '-'}"]
    if state.secret != NONE:
        record = tables.bootstraps[state.secret]
        issued = ", ".join(f"{_id(member)} {run}" for member, run in record.issued)
        said.append(f"record {record.attempt} {'latched' if record.latched else ''} [{issued}]")
    if state.etcd:
        members = " ".join(
            f"{_id(one.member)}@{one.ordinal}{'L' if one.learner else ''}"
            f"{'' if one.started else '?'}{'*' if one.member == state.etcd.leader else ''}"
            for one in state.etcd.members
        )
        said.append(f"members {members} 3.{state.etcd.minor} down {state.etcd.down}")
        if state.etcd.alarms:
            said.append(f"alarms {[_id(one) for one in state.etcd.alarms]}")
    if state.pending != NONE:
        said.append(f"held {told(steps_held.step(state.pending))}")
    masks = {"slow": state.slow, "away": state.away, "ours": state.ours, "cut": int(state.cut)}
    said.extend(f"{name} {mask:b}" for name, mask in masks.items() if mask)
    return ", ".join(said)


def _pod(state: State, ordinal: int, pod: Pod | None) -> str:
    if pod is None:
        return "no pod"
    marks = [_WHERE[pod.where], f"t{pod.template}"]
    marks += [name for name in ("deleting", "aged", "linked") if getattr(pod, name)]
    if pod.record:
        marks.append(f"record {_id(pod.record.member)}")
    if pod.content:
        marks.append(_content(pod.content))
    return " ".join(marks)


def _claim(claim: Claim | None) -> str:
    if claim is None:
        return "no claim"
    record = (
        f"record {_id(claim.record.member)}{'' if claim.record.own else '!'}"
        if claim.record
        else ""
    )
    marks = ["claim", record, _content(claim.content)]
    if claim.hidden:
        marks.append(f"hidden {_content(claim.hidden)}")
    marks += ["deleting"] if claim.deleting else []
    marks += [f"lost {claim.lost}"] if claim.lost else []
    return " ".join(one for one in marks if one)


def _content(content: Content | None) -> str:
    if content is None:
        return "empty"
    words = "log" if content.log else "ticket"
    harm = f" harm {content.harm}" if content.harm else ""
    return f"{words} of {_id(content.member)}{'' if content.has else ' behind'}{harm}"


def _id(member: int) -> str:
    return f"{member:016x}"[:4]
