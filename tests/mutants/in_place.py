"""Bugs in restores in place, and in what is kept of backups."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

_IN_PLACE = "membership/epochs/in_place.py"
_REQUEST = "membership/epochs/in_place_request.py"
_SUCCESSOR = "records/successor.py"
_TAKEOVER = "records/takeover.py"

MUTANTS: Final = [
    Mutant(
        _REQUEST,
        "return restore if restore.replaces == recorded(seen).cluster_id else None",
        "return restore",
        "a cluster is replaced by a word that names another",
    ),
    Mutant(
        _REQUEST,
        "return bool(claim and taking.claim == claim.uid and is_successors_claim(seen, claim))",
        "return bool(claim and is_successors_claim(seen, claim))",
        "members are stopped while the volume of their successor is still empty",
    ),
    Mutant(
        _REQUEST,
        "if not begun and (others := _to_be_adopted(seen)):",
        "if not begun and (others := {}):",
        "claims of a cluster that was yet to be adopted are left over once it is replaced",
    ),
    Mutant(
        _REQUEST,
        "if claim.damage or (claim.record and ",
        "if (claim.record and ",
        "a claim to be adopted whose record is damaged is left over once its cluster is replaced",
    ),
    Mutant(
        _REQUEST,
        "    if not seen.cluster.durable:\n",
        "    if False:\n",
        "pods that alone hold the data are stopped for what is to replace it",
    ),
    Mutant(
        _IN_PLACE,
        "    if stopping or seen.occupants:\n",
        "    if False:\n",
        "a cluster is replaced while its members still run",
    ),
    Mutant(
        _IN_PLACE,
        "    if stopping or seen.occupants:\n",
        "    if stopping:\n",
        "a cluster is replaced while a pod without its labels still runs",
    ),
    Mutant(
        _IN_PLACE,
        "seen, record, words, final=True)",
        "seen, record, words)",
        "a cluster is replaced on the word of an old view",
    ),
    Mutant(
        "membership/beginning/bootstrap.py",
        "if others := remembered.pods_of_others(seen, cluster_id):",
        "if others := list[str]():",
        "the record of a restored cluster is rebuilt beside pods of the other one (I11)",
    ),
    Mutant(
        _TAKEOVER,
        '        before="",\n',
        "",
        "an unfinished upgrade of the cluster before is gone back from on restored data (I9)",
    ),
    Mutant(
        _IN_PLACE,
        "        return authentication.denied(seen) or _until_it_serves(seen)\n",
        "        pass\n",
        "the volumes of before are deleted before what replaces them serves",
    ),
    Mutant(
        _IN_PLACE,
        "        and held.cluster_id in record.retired\n",
        "",
        "a claim of a cluster that nobody replaced is deleted",
    ),
    Mutant(
        _IN_PLACE,
        "    if restore is None or (taking and taking.restore != restore.uid):\n",
        "    if restore is None and taking is None:\n",
        "a restore that was deleted in the middle goes on",
    ),
    Mutant(
        _SUCCESSOR,
        "return (live if live >= last else max(0, 2 * last - BUMP)) + BUMP",
        "return BUMP",
        "watchers see time go back after an old backup was restored twice",
    ),
    Mutant(
        _IN_PLACE,
        "bump=max(record.bump, _revision(seen))",
        "bump=record.bump",
        "watchers see time go back after a backup of another cluster was restored",
    ),
    Mutant(
        _TAKEOVER,
        "        accounts=replace(accounts, users=users),\n",
        "",
        "a root that came with a backup never gets a password",
    ),
    Mutant(
        _TAKEOVER,
        "        epoch=record.next_epoch,\n        token=",
        "        epoch=record.epoch,\n        token=",
        "volumes of before are not kept out by their epoch",
    ),
    Mutant(
        "membership/members/replicas.py",
        "return min(size, record.successor.ordinal) if record.successor else size",
        "return size",
        "a member is grown onto the volume that a backup is being restored to",
    ),
    Mutant(
        "membership/members/shrink.py",
        "if len(voters) == 1 or (len(voters) <= size and grow.is_possible(seen)):",
        "if len(voters) == 1:",
        "the only member that has what was restored goes when one other has it",
    ),
    Mutant(
        "operator/etcd_operator/cluster/observe.py",
        "            await self._finder.read(ETCD_RESTORES, where, cluster.name)\n",
        "            pass\n",
        "members are stopped for a restore that is gone by now",
    ),
    Mutant(
        "backup/restores.py",
        'edited = told.get("generation", restore.generation) != restore.generation',
        "edited = False",
        "an edited restore fails by what was said of it before",
    ),
    Mutant(
        "operator/etcd_operator/backup/pruning.py",
        "key in (*order.spare, made))",
        "key == made)",
        "the last proven backup is deleted after some that were not",
    ),
    Mutant(
        "membership/planner.py",
        "    volume_jobs.delete_unneeded_job,\n",
        "",
        "a restore's Job that comes late fills the claim of a member that was added since",
    ),
    Mutant(
        "operator/etcd_operator/cluster/volume_jobs.py",
        "return await self._unneeded(base)",
        "return base",
        "a restore's Job that comes late is not seen, whatever its pod waits for",
    ),
    Mutant(
        "membership/planner.py",
        'return step.manifest["spec"]["replicas"] != 0 and has != to_be',
        "return has != to_be",
        "pods are not stopped for what has been restored, as a version waits for them",
    ),
    Mutant(
        "membership/epochs/recovery.py",
        "return _restore_stopped(seen) or _strangers_stopped(seen)",
        "return _strangers_stopped(seen)",
        "a recovery waits for ever for the Job of a restore that cannot end",
    ),
    Mutant(
        "membership/epochs/in_place.py",
        "if not recovers and (step := ",
        "if (step := ",
        "a restore that is cancelled deletes the Job of a recovery, again and again",
    ),
    Mutant(
        "membership/epochs/in_place_request.py",
        "    if left := off_record(seen):\n",
        "    if left := '':\n",
        "a restore begins the epoch of a claim off the record, whose pod then runs beside it",
    ),
    Mutant(
        "membership/epochs/survivor.py",
        " or in_place_request.off_record(seen, asked.survivor):",
        ":",
        "a recovery begins the epoch of a restore that is off the record",
    ),
    Mutant(
        "membership/epochs/in_place_request.py",
        " or pod.name == survivor:",
        ":",
        "a recovery whose record was lost cannot be requested again",
    ),
    Mutant(
        "membership/epochs/in_place_request.py",
        " or _of_lost_recovery(seen, survivor)",
        "",
        "a recovery or a restore begins the epoch of a volume of one that is off the record",
    ),
    Mutant(
        "membership/epochs/recovery.py",
        "restored.ordinal if restored else None",
        "None",
        "a recovery starts a pod on the volume of a restore",
    ),
    Mutant(
        "membership/blocked.py",
        " and finding.cluster_id in (None, record.cluster_id)\n    if ours and",
        "\n    if ours and",
        "a recovery is offered for a claim that a restore has left",
    ),
    Mutant(
        "membership/epochs/in_place.py",
        "(seat for seat in roster.seats(seen) if not quorum.is_lost(seat))",
        "roster.seats(seen)",
        "a first volume that is empty is said for ever to be about to serve",
    ),
    Mutant(
        _IN_PLACE,
        "if pod is None and (step := _claim_in_the_way(seen, first[0].ordinal)):",
        "if step := None:",
        "a pod that a deleted claim keeps away is said for ever to be about to serve",
    ),
    Mutant(
        "membership/epochs/in_place.py",
        "    if (recovery := survivor.accepted(seen)) is not None:",
        "    if (recovery := survivor.accepted(seen)) is not None and False:",
        "a restore in place wins over a recovery that was asked for after it",
    ),
    Mutant(
        "membership/epochs/in_place.py",
        "    waits = isinstance(step, Wait) and not in_place_request.halted(seen)",
        "    waits = isinstance(step, Wait) and seen.etcd is not None"
        " and not in_place_request.halted(seen)",
        "a restore's Job that cannot run keeps all else from a cluster without a quorum",
    ),
    Mutant(
        "membership/epochs/in_place.py",
        "    if claim.record is None and in_place_request.is_foreign(seen, claim):",
        "    if False:",
        "a claim of somebody else is filled with a backup",
    ),
    Mutant(
        "membership/epochs/in_place_request.py",
        " or is_foreign(seen, claim))",
        ")",
        "a restore in place is to fill a claim that is not the cluster's, for ever",
    ),
    Mutant(
        "operator/etcd_operator/cluster/observe.py",
        "most = naming.MAX_SIZE if self._restore(cluster) else cluster.size",
        "most = cluster.size",
        "a claim without our labels is asked for again and again",
    ),
    Mutant(
        "membership/beginning/tickets.py",
        "        and held.epoch == finding.epoch == recorded(seen).epoch",
        "        and held.epoch == recorded(seen).epoch",
        "data of a recovery that was not recorded is adopted beside the others'",
    ),
    Mutant(
        "membership/tls/tls_switch.py",
        "(_needs_names(seen) or _may_need_names(seen))",
        "_needs_names(seen)",
        "TLS of clients goes before anybody has asked whether etcd wants a name",
    ),
    Mutant(
        "membership/upkeep/authentication.py",
        "    return is_looked_at(seen) or (is_latched(seen) and links.turns_client_tls_off(seen))",
        "    return is_looked_at(seen)",
        "nobody asks etcd for users made by hand before TLS of clients goes",
    ),
]
