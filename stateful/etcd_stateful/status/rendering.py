"""The status of an EtcdCluster: coreos's fields with their original meaning, and our own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from etcd_stateful import identity, naming, stored_conditions
from etcd_stateful.backup.restores import WORKING
from etcd_stateful.membership.members import claim_expansion
from etcd_stateful.membership.observation import Observation, is_latched
from etcd_stateful.membership.rolling import upgrade
from etcd_stateful.membership.steps import Hold
from etcd_stateful.membership.upkeep import authentication
from etcd_stateful.status.conditions import all_conditions, as_stored
from etcd_stateful.status.member_status import member_status
from etcd_stateful.status.outcome import LONGEST_MESSAGE, Outcome
from etcd_stateful.status.restore_progress import restoring
from etcd_stateful.versions import reported_version

_KEPT: Final = (
    "size",
    "storage",
    "readyMembers",
    "selector",
    "serviceName",
    "clientPort",
    "members",
    "memberStatus",
    "certificates",
    "auth",
)


def render(body: Mapping[str, Any], outcome: Outcome, now: str) -> dict[str, Any]:
    """The whole status after one pass.

    Args:
        body: the custom resource as stored; values that this pass could not learn are kept from it.
        now: RFC 3339, for conditions that have changed.
    """
    stored: Mapping[str, Any] = body.get("status") or {}
    outcome = replace(outcome, stored=stored)
    generation = int(body["metadata"].get("generation", 0))
    before = {str(one["type"]): one for one in stored_conditions.ours(stored)}
    status: dict[str, Any] = {
        "observedGeneration": generation,
        "phase": _phase(outcome),
        "reason": outcome.refused.reason if outcome.refused else "",
        "plan": _plan(outcome),
        "controlPaused": (body.get("spec") or {}).get("paused") is True,
        "conditions": as_stored(all_conditions(outcome), before, now, generation),
    }
    seen = outcome.observation if outcome.has_formed or not outcome.refused else None
    told = _of_cluster(seen, stored) if seen else {}
    status |= {key: stored[key] for key in _KEPT if key in stored} | told
    asked = None if outcome.refused else seen
    if asked and not authentication.is_looked_at(asked):
        status.pop("auth", None)
    if asked and asked.certificates and asked.cluster.links.are_plaintext:
        status.pop("certificates", None)
    status |= _of_etcd(seen, stored, status.get("memberStatus") or ())
    return status | _of_restore(asked, outcome)


def _of_restore(seen: Observation | None, outcome: Outcome) -> dict[str, Any]:
    before: Mapping[str, Any] = outcome.stored.get("restore") or {}
    told = restoring(seen) if seen and seen.bootstrap else before
    if told and outcome.failure and told.get("state") == WORKING and _is_same(before, told):
        told = before  # neither its Job nor its EtcdBackup may have been looked up
    return {"restore": told} if told else {}


def _is_same(restore: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(restore.get(key) == other.get(key) for key in ("uid", "generation"))


def _phase(outcome: Outcome) -> str:
    """coreos's phase. Unlike there, Failed is not final: it ends when the spec is fixed."""
    if outcome.has_formed:
        return "Running"
    return "Failed" if outcome.refused else "Creating"


def _plan(outcome: Outcome) -> str:
    if outcome.refused:
        return f"nothing until the spec is fixed: {outcome.refused}"[:LONGEST_MESSAGE]
    if outcome.failure:
        return f"retry: {outcome.failure}"[:LONGEST_MESSAGE]
    if isinstance(outcome.step, Hold):
        why, _, _ = outcome.step.message.partition(". ")
        return f"nothing until a human acts ({outcome.step.reason}): {why}"[:LONGEST_MESSAGE]
    return (outcome.words or "nothing to do")[:LONGEST_MESSAGE]


def _of_cluster(seen: Observation, stored: Mapping[str, Any]) -> dict[str, Any]:
    # No member is beyond these, and the API server would refuse the status for too long a list.
    pods = [pod for pod in seen.pods if pod.ordinal < naming.MAX_SIZE]
    ready = sorted(pod.name for pod in pods if pod.takes_traffic)
    selector = naming.selector(seen.cluster.name)
    return {
        "size": _size(seen, stored),
        "readyMembers": len(ready),
        "selector": ",".join(f"{key}={value}" for key, value in sorted(selector.items())),
        "serviceName": naming.client_service(seen.cluster.name),
        "clientPort": naming.CLIENT_PORT,
        "members": {
            "ready": ready,
            "unready": sorted(pod.name for pod in pods if pod.name not in ready),
        },
        "memberStatus": member_status(seen, stored.get("memberStatus") or ()),
        **({"storage": storage} if (storage := claim_expansion.smallest_volume(seen)) else {}),
        **_certificates(seen),
        **_auth(seen),
    }


def _certificates(seen: Observation) -> dict[str, Any]:
    """When each certificate expires; empty if there are none, or they were not read."""
    if seen.certificates is None or seen.cluster.links.are_plaintext:
        return {}
    told = []
    for name, found in sorted(seen.certificates.secrets.items()):
        if ends := [one.until for one in found.values() if one.until]:
            own = found.get("authority")
            number = {"generation": own.generation} if own else {}
            told.append({"secret": name, "ends": min(ends), **number})
    return {"certificates": told}


def _auth(seen: Observation) -> dict[str, Any]:
    """Whether authentication is on, and the users and roles created for `spec.auth`."""
    if seen.auth is None or seen.bootstrap is None:
        return {}
    made = seen.bootstrap.accounts
    return {
        "auth": {
            "enabled": seen.auth.enabled,
            "users": list(made.users),
            "roles": list(made.roles),
        }
    }


def _size(seen: Observation, stored: Mapping[str, Any]) -> int:
    """How many members are on the list; while etcd is silent, the last number, and before the
    cluster has formed, the replicas of the StatefulSet."""
    if seen.etcd:
        return len(seen.members)
    last = stored.get("size") if is_latched(seen) else None
    return int(last or seen.replicas)


def _of_etcd(
    seen: Observation | None, stored: Mapping[str, Any], members: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """Values that only etcd or the record can tell; without them, the last ones are kept.

    Args:
        members: `memberStatus`, with the last known version of those that do not answer.
    """
    told: dict[str, Any] = {
        "currentVersion": stored.get("currentVersion", ""),
        "targetVersion": stored.get("targetVersion", ""),
        "clusterID": stored.get("clusterID", ""),
    }
    told |= {"epoch": stored["epoch"]} if "epoch" in stored else {}
    if seen is None:
        return told
    record = seen.bootstrap
    if record and record.latched:
        told["clusterID"] = identity.to_hex(record.cluster_id)
        told["epoch"] = record.epoch
    said = [status.version for status in seen.statuses.values()]
    said += [str(one.get("version", "")) for one in members] if said else []
    if versions := [version for text in said if (version := reported_version(text))]:
        lowest = min(versions)
        told["currentVersion"] = str(lowest)
        wanted = upgrade.target(seen)
        told["targetVersion"] = "" if wanted == lowest else str(wanted)
    return told
