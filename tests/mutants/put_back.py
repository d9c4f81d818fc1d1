"""Faults in what corrects or refuses a Secret that was put back from an old copy."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

_BOOTSTRAP = "membership/beginning/bootstrap.py"
_IN_PLACE_REQUEST = "membership/epochs/in_place_request.py"
_PLANNER = "membership/planner.py"
_RECOVERY = "membership/epochs/recovery.py"
_REMEMBERED = "membership/beginning/remembered.py"
_SURVIVOR = "membership/epochs/survivor.py"

MUTANTS: Final = [
    Mutant(
        _PLANNER,
        "    bootstrap.latch_again,\n",
        "",
        "a formed cluster whose record is of before begins empty (I11)",
    ),
    Mutant(
        _BOOTSTRAP,
        "if (known := remembered.cluster_ids(seen)) and record.cluster_id not in known:",
        "if False:",
        "the record of an earlier attempt is latched in place of the one that formed",
    ),
    Mutant(
        _REMEMBERED,
        "if seen.client_service or seen.disruption_budget:",
        "if seen.client_service:",
        "without status and volumes a disruption budget does not tell that the cluster had formed",
    ),
    Mutant(
        _REMEMBERED,
        "if one.own_record and one.own_record.epoch > FIRST_EPOCH",
        "if False",
        "without status and volumes a claim of a later epoch does not tell that it had formed",
    ),
    Mutant(
        _PLANNER,
        "    recovery.correct_record,\n",
        "",
        "after a recovery no member starts again once its record is of before",
    ),
    Mutant(
        _RECOVERY,
        "if epoch and epoch == _epoch_on_claim(seen, pod):",
        "if epoch:",
        "a pod alone raises the epoch of the record",
    ),
    Mutant(
        _PLANNER,
        "    bootstrap.older_record,\n",
        "",
        "a restore in place begins again on the volume that its etcd runs on",
    ),
    Mutant(
        _BOOTSTRAP,
        "if remembered.is_begun_alone(seen):",
        "if False:",
        "a late write of the StatefulSet alone makes the user delete the Secret",
    ),
    Mutant(
        _REMEMBERED,
        "return not (later or runs)",
        "return not runs",
        "a recovery that has recorded the survivor's claim is forgotten",
    ),
    Mutant(
        _RECOVERY,
        "    if alone and survivor.before_may_have_served(seen, epoch):",
        "    if False:",
        "a late record of the survivor gives up a quorum that serves again (I3)",
    ),
    Mutant(
        _RECOVERY,
        "return len(names) > 1 or any(",
        "return len(names) > 1 and any(",
        "a survivor that has served alone is not believed",
    ),
    Mutant(
        _SURVIVOR,
        "return epoch <= recorded(seen).begun or len(before) >= _least_quorum(seen)",
        "return epoch <= recorded(seen).begun",
        "without a note, the claims do not show that members of before may have served",
    ),
    Mutant(
        _SURVIVOR,
        "return epoch <= recorded(seen).begun or len(before) >= _least_quorum(seen)",
        "return len(before) >= _least_quorum(seen)",
        "members that served again are given up once one of their claims is lost",
    ),
    Mutant(
        _SURVIVOR,
        "if one > recorded(seen).begun), default=0)",
        "), default=0)",
        "the data of members that served again cannot be chosen",
    ),
    Mutant(
        _IN_PLACE_REQUEST,
        "if finding.epoch > record.latest_epoch:",
        "if finding.epoch > record.epoch:",
        "the volume of a lost recovery stands in the way of another survivor",
    ),
    Mutant(
        _REMEMBERED,
        "if not expected < one <= noted]",
        "if one]",
        "members that served again are given up once the Secret is lost again",
    ),
    Mutant(
        _BOOTSTRAP,
        "if taking and taking.cluster_id == seen.last_cluster_id:",
        "if False:",
        "a restore in place begins again although the status names the cluster that it started",
    ),
    Mutant(
        _BOOTSTRAP,
        " or not remembered.cluster_ids(seen):\n        return None",
        ":\n        return None",
        "the advice is to delete a Secret that could not be rebuilt",
    ),
    Mutant(
        _SURVIVOR,
        " or _why_over(seen, seat)",
        "",
        "a recovery that is over is carried out once more",
    ),
    Mutant(
        "membership/members/replicas.py",
        "return max([seen.replicas, begun, *_stopped(seen, record)])",
        "return max(seen.replicas, begun)",
        "members that the record does not know yet get no pods once all were stopped (I5)",
    ),
]
