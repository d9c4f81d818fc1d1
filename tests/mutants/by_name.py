"""Faults in restores from an EtcdBackup by name."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

_BOOTSTRAP_SOURCE = "membership/beginning/bootstrap_source.py"
_NAMED = "backup/reference.py"
_RESTORES = "backup/restores.py"
_SOURCE = "api/source.py"
_STORES = "api/stores.py"

MUTANTS: Final = [
    # What a spec says.
    Mutant(
        _SOURCE,
        "        if spec.has(key):\n",
        "        if False:\n",
        "of a backup and a place one is taken, and nobody says which",
    ),
    Mutant(
        _SOURCE,
        'if pod.has("serviceAccountName"):',
        "if False:",
        "a service account that is named is not the one that is used",
    ),
    Mutant(
        _SOURCE,
        'if ref.has("namespace"):',
        "if False:",
        "who names another namespace gets the backup of this one",
    ),
    Mutant(
        _SOURCE,
        "if not is_object_name(name):",
        "if not name:",
        "a name leads to another path of the API server",
    ),
    # Where it lies.
    Mutant(
        _NAMED,
        'if "deletionTimestamp" in body["metadata"]:',
        "if False:",
        "a backup is taken whose file is being deleted",
    ),
    Mutant(
        _NAMED,
        "if backup.periodic and status",
        "if status",
        "a backup that has failed is restored",
    ),
    Mutant(
        _STORES,
        'location.removeprefix(root) if location.startswith(root) else ""',
        "location.removeprefix(root)",
        "a place of another form is taken for a key",
    ),
    Mutant(
        _STORES,
        'return "" if key_problem(key) else key',
        "return key",
        "who may write a status chooses where the Secret is used",
    ),
    Mutant(
        _NAMED,
        "return replace(store, key=key)",
        "return store",
        "the path of an interval is restored, where nothing lies",
    ),
    # Once.
    Mutant(
        _BOOTSTRAP_SOURCE,
        "return found, Chosen(source.name, found)",
        "return found, None",
        "what it was is not written down: another backup is taken in the middle",
    ),
    Mutant(
        _BOOTSTRAP_SOURCE,
        "return chosen is not None and chosen.backup == asked.name",
        "return chosen is not None",
        "a spec that names another backup is not heard",
    ),
    Mutant(
        _BOOTSTRAP_SOURCE,
        "if record is None or record.latched or _is_chosen(record.chosen, asked):",
        "if record is None or _is_chosen(record.chosen, asked):",
        "a cluster that was born looks its backup up for ever",
    ),
    Mutant(
        _BOOTSTRAP_SOURCE,
        "if record is None or record.latched or _is_chosen(record.chosen, asked):",
        "if record is None or record.latched:",
        "what is on record is asked for again",
    ),
    Mutant(
        _BOOTSTRAP_SOURCE,
        "if not found.stuck:",
        "if False:",
        "a human is called to a backup that is being made",
    ),
    Mutant(
        "records/bootstrap_json.py",
        'chosen=load_chosen(raw["chosen"]) if "chosen" in raw else None,',
        "chosen=None,",
        "an operator that restarts takes another backup",
    ),
    Mutant(
        _RESTORES,
        "store = job.store if isinstance(source, BackupRef) else source",
        "store = seen.backup if isinstance(source, BackupRef) else source",
        "the cluster is made from another backup than was looked into",
    ),
    Mutant(
        _RESTORES,
        'return Run(f"d{restore.generation}", 0.0)',
        'return Run("d1", 0.0)',
        "after an edit the Job of before is believed",
    ),
    Mutant(
        "operator/etcd_operator/backup_controllers/jobs.py",
        "            order=_ordered(raw),\n",
        "",
        "nobody knows which backup was looked into",
    ),
    Mutant(
        "operator/etcd_operator/cluster/observe.py",
        "bootstrap_source.wanted_backup(base) or in_place_request",
        "in_place_request",
        "the EtcdBackup is never looked up",
    ),
]
