"""Does what the message of a Hold offers, as a user would who reads it."""

from __future__ import annotations

import re
from collections.abc import Callable

from day_world import DayWorld

from etcd_stateful import naming
from etcd_stateful.membership.steps import Hold
from model.world.told import recovery_in


def follow(world: DayWorld, rest: Hold) -> bool:
    """Returns whether the message offers anything that can be done here."""
    way = _WAYS.get(rest.reason)
    return way is not None and way(world, rest.message)


def _recover(world: DayWorld, message: str) -> bool:
    if told := recovery_in(message):
        world.edit(recovery=told)
    return told is not None


def _take_back(world: DayWorld, _: str) -> bool:
    world.take_back()
    return True


def _adopt(world: DayWorld, message: str) -> bool:
    if "Only one can be adopted" in message and (named := re.search(r"UIDs ([^,)]+)", message)):
        world.edit(retainedClaims={"discard": named[1]})
        return True
    offered = re.search(r'adopt to "([^"]+)"', message) or re.search(r"UIDs ([^,)]+)", message)
    if offered:
        world.edit(retainedClaims={"adopt": offered[1]})
    return offered is not None


def _adopt_nothing(world: DayWorld, _: str) -> bool:
    world.edit(retainedClaims={})
    return True


def _adopt_or_delete(world: DayWorld, message: str) -> bool:
    return _recover(world, message) or _adopt(world, message) or _delete_claim(world, message)


def _delete_claim(world: DayWorld, message: str) -> bool:
    named = re.search(r"claim data-c-(\d)", message)
    if "delete" not in message or named is None:
        return False
    ordinal = int(named[1])
    world.stuck_claims = set()
    world.claims[ordinal].deleting = True
    if ordinal in world.pods:
        world.restart_pod(ordinal)
    return True


def _delete_secret(world: DayWorld, _: str) -> bool:
    world.lose_secret()
    world.damage = ""
    return True


def _name_cluster(world: DayWorld, message: str) -> bool:
    """Names the one that the message names, or else that on the highest ordinal: it is that of a
    restore in place, if there was one. A Secret that was put back is deleted instead."""
    said = re.findall(r"says ([0-9a-f]{16})", message)
    said += re.findall(r"put ([0-9a-f]{16}) into", message)
    if "delete the Secret" in message:
        return _delete_secret(world, message)
    if "status.clusterID" in message and said:
        world.body["status"] = {**world.body["status"], "clusterID": said[-1]}
        return True
    return False


def name_another_survivor(world: DayWorld, message: str) -> bool:
    asked = re.search(r"name another survivor in spec.recovery, with epoch (\d+)", message)
    if asked is None:
        return False
    record, usable = world.record, (one for one in sorted(world.claims) if _has_data(world, one))
    named = {record.survivor, world.body["spec"].get("recovery", {}).get("survivor")}
    others = [one for one in usable if naming.pod("c", one) not in named]
    if others:
        world.ask_for_recovery(others[0], epoch=int(asked[1]))
    return bool(others)


def _has_data(world: DayWorld, ordinal: int) -> bool:
    claim = world.claims[ordinal]
    of = claim.data.cluster_id if claim.data else None
    return of == world.record.cluster_id and not (claim.deleting or claim.damaged)


_WAYS: dict[str, Callable[[DayWorld, str], bool]] = {
    "QuorumLost": _recover,
    "RecoveryRefused": _take_back,
    "RecoveryFailed": name_another_survivor,
    "RecoveryNotNeeded": _take_back,
    "RetainedClaims": _adopt,
    "NothingToAdopt": _adopt_nothing,
    "ForeignData": _adopt_or_delete,
    "ClaimRestored": _delete_claim,
    "ClaimRecordDamaged": _delete_claim,
    "ClaimUnrecorded": _delete_claim,
    "SecretDamaged": _delete_secret,
    "SplitBrain": _name_cluster,
}
