"""Faults in trial restores."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

MUTANTS: Final = [
    Mutant(
        "operator/etcd_operator/backup/trial_restore.py",
        "if order.size and size not in (None, order.size):",
        "if False:",
        "a trial fills the node's disk with what has taken the place of the backup",
    ),
    Mutant(
        "operator/etcd_operator/backup/download.py",
        "checked.size + len(piece) > size",
        "False",
        "a store that sends more than it has said fills the volume",
    ),
    Mutant(
        "backup/measurement.py",
        "    if now < revision:\n",
        "    if False:\n",
        "an older snapshot is called the backup",
    ),
    Mutant(
        "backup/measurement.py",
        "    if cluster.keys != restored.keys:\n",
        "    if False:\n",
        "keys are missing and nobody says so",
    ),
    Mutant(
        "backup/measurement.py",
        "    if any(had[one] != found[one] for one in both):\n",
        "    if False:\n",
        "other values are called the same",
    ),
    Mutant(
        "backup/measurement.py",
        "if cluster is None or not cluster.whole:",
        "if cluster is None:",
        "a backup of which nobody has counted the keys is called proven",
    ),
    Mutant(
        "operator/etcd_operator/backup/measuring.py",
        " + SECONDS_PER_GIB * size / 2**30",
        "",
        "a member that hashes a large database is taken for one that hangs",
    ),
    Mutant(
        "operator/etcd_operator/backup/measuring.py",
        "min(by_size, timeout / 3)",
        "by_size",
        "a large member that hangs over its keys leaves no time for another",
    ),
    Mutant(
        "operator/etcd_operator/backup/trial_restore.py",
        "            except NoReply:\n                raise\n            except rpc",
        "            except rpc",
        "an etcd that hangs over its keys is asked again until the time of its trial is over",
    ),
    Mutant(
        "operator/etcd_operator/backup/measuring.py",
        'error.code() == StatusCode.OUT_OF_RANGE and "compacted" in str(error.details())',
        "True",
        "an etcd that fails over its keys is taken for one that has none to count",
    ),
    Mutant(
        "operator/etcd_operator/backup/trial_restore.py",
        "        self.has_served = True\n",
        "",
        "an etcd that cannot hash its keys is told as one that does not come up",
    ),
    Mutant(
        "manifests/trial_job.py",
        'ours | {"volumeMounts": [_mount()]}',
        'ours | {"volumeMounts": [*ours["volumeMounts"], _mount()]}',
        "a container that needs no credentials has them",
    ),
]
