"""The model's API server, StatefulSet controller and kubelet, driven as the traces say."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from compared import Looks
from etcd_modelled import at_rest

from etcd_stateful import naming
from etcd_stateful.membership import steps
from etcd_stateful.records.bootstrap import Bootstrap
from etcd_stateful.records.member import MemberRecord
from model.world import faults, steps_held, tables
from model.world.actions import beginning, edit, to_rest
from model.world.etcd import Refused
from model.world.seen import Planner
from model.world.state import BOUND, NONE, PENDING, State
from model.world.writes import apply

WIDTH: Final = 5
VERSION: Final = "3.7.3"
MEMBER: Final = 0xABC
NAME: Final = tables.NAME
OUTDATED: Final = "outdated"

FAULTS: Final = {
    "kubectl delete pod": "pod_deleted",
    "kubectl delete claim": "claim_deleted",
    "nodes have no room for": "unscheduled",
    "nodes have room for": "scheduled",
    "silence the node of": "node_silent",
    "heed the node of": "node_answers",
    "bind, on a claim that goes,": "onto_terminating_claim",
    "kubectl delete the": "stateful_set_deleted",
    "orphan the pods of the": "stateful_set_orphaned",
    "lose the": "secret_lost",
}


def record(size: int, cluster: Bootstrap) -> Bootstrap:
    return replace(cluster, size=size)


class KubeModelled:
    def __init__(self, size: int) -> None:
        state = to_rest(beginning(WIDTH, size=size, version=VERSION), Planner())
        self._kept = state.sts
        self.state: State = state._replace(told=0)
        # A latched one is told of in the status after the write, which is for `told` to say here.
        self._first = replace(tables.bootstraps[state.secret], latched=False)

    def do(self, action: str) -> str:
        if action == "late":
            return self._late()
        if action.startswith("hold "):
            held = self._step(action.removeprefix("hold "))
            self.state = self.state._replace(pending=steps_held.hold(held))
            return ""
        verb, _, rest = action.rpartition(" ")
        if verb in FAULTS:
            ordinal = int(rest) if rest.isdigit() else 0
            after = faults.happen(self.state, FAULTS[verb], ordinal)
            assert after is not None, f"in the model {action} cannot happen"
        elif verb in _BY_OTHERS:
            after = _BY_OTHERS[verb](self.state, rest)
        else:
            return self._apply(self._step(action))
        self.state = at_rest(after)
        return ""

    def _apply(self, step: steps.Write) -> str:
        try:
            self.state = at_rest(apply(self.state, step))
        except Refused:
            return OUTDATED
        return ""

    def _late(self) -> str:
        held, self.state = self.state.pending, self.state._replace(pending=NONE)
        return OUTDATED if held == NONE else self._apply(steps_held.step(held))

    def _step(self, action: str) -> steps.Write:
        verb, _, rest = action.rpartition(" ")
        return _STEPS[verb](self, rest)

    def manifest(self, number: int, *, anew: bool = False, **changes: Any) -> steps.ApplyChild:
        manifest = copy.deepcopy(tables.objects[number].live)
        if anew:
            del manifest["metadata"]["resourceVersion"]
        return steps.ApplyChild("StatefulSet", tables.NAME, changed(manifest, **changes), "")

    def scale(self, replicas: str) -> steps.Write:
        return self.manifest(self._live(), replicas=int(replicas))

    def relabel(self, colour: str) -> steps.Write:
        return self.manifest(self._live(), colour=colour)

    def make(self, replicas: str) -> steps.Write:
        return self.manifest(self._live(), anew=True, replicas=int(replicas))

    def _live(self) -> int:
        """The StatefulSet, or what was the last one."""
        if self.state.sts != NONE:
            self._kept = self.state.sts
        return self._kept

    def delete_pod(self, ordinal: str) -> steps.Write:
        name = naming.pod(tables.NAME, int(ordinal))
        return steps.DeletePod(name, f"pod-{ordinal}", "1", "")

    def delete_claim(self, ordinal: str) -> steps.Write:
        name = naming.claim(tables.NAME, int(ordinal))
        return steps.DeleteClaim(name, f"claim-{ordinal}", "1", "")

    def record(self, ordinal: str) -> steps.Write:
        name, uid = naming.claim(tables.NAME, int(ordinal)), f"claim-{ordinal}"
        given = MemberRecord(tables.UID, uid, MEMBER, self._first.cluster_id)
        return steps.RecordMember("PersistentVolumeClaim", name, uid, "1", given, "")

    def write(self, size: str) -> steps.Write:
        name = naming.start_secret(tables.NAME)
        return steps.WriteBootstrap(name, "1", record(int(size), self._first), "")

    def create_secret(self, _: str) -> steps.Write:
        return steps.CreateSecret(naming.start_secret(tables.NAME), self._first, "")

    def look(self) -> Looks:
        state = self.state
        pods = {at: words for at in range(WIDTH) if (words := self._pod(at))}
        claims = {at: words for at in range(WIDTH) if (words := self._claim(at))}
        secret = tables.bootstraps[state.secret].size if state.secret != NONE else None
        return {
            "replicas": tables.objects[state.sts].replicas if state.sts != NONE else None,
            "pods": pods,
            "claims": claims,
            "secret": secret,
            "declared": tables.specs[state.spec].cluster.size,
            "told": bool(state.told),
        }

    def _pod(self, ordinal: int) -> str:
        state, pod = self.state, self.state.pods[ordinal]
        if pod is None:
            return ""
        where = {PENDING: "pending", BOUND: "bound"}.get(pod.where, "runs")
        old = state.sts != NONE and pod.template != tables.objects[state.sts].template
        words = ["stops" if pod.deleting else where, *(["old"] if old else [])]
        return " ".join(words)

    def _claim(self, ordinal: int) -> str:
        claim = self.state.claims[ordinal]
        if claim is None:
            return ""
        words = ["recorded" if claim.record else "blank", *(["goes"] if claim.deleting else [])]
        return " ".join(words)


def changed(
    manifest: dict[str, Any], replicas: int | None = None, colour: str = ""
) -> dict[str, Any]:
    """A live manifest as it is to be applied."""
    if replicas is not None:
        manifest["spec"]["replicas"] = replicas
    if colour:
        manifest["spec"]["template"]["metadata"]["labels"]["colour"] = colour
    return manifest


def _tell(state: State, _: str) -> State:
    return state._replace(told=tables.bootstraps[state.secret].cluster_id)


def _forget(state: State, _: str) -> State:
    return state._replace(told=0)


def _declare(state: State, size: str) -> State:
    after = edit(state, f'{{"size": {size}}}')
    assert after is not None
    return after


_BY_OTHERS: Final[dict[str, Callable[[State, str], State]]] = {
    "write the": _tell,
    "wipe the": _forget,
    "declare": _declare,
}
_STEPS: Final[dict[str, Callable[[KubeModelled, str], steps.Write]]] = {
    "scale to": KubeModelled.scale,
    "relabel": KubeModelled.relabel,
    "make the StatefulSet of": KubeModelled.make,
    "delete pod": KubeModelled.delete_pod,
    "delete claim": KubeModelled.delete_claim,
    "record": KubeModelled.record,
    "write that there are": KubeModelled.write,
    "create the": KubeModelled.create_secret,
}
