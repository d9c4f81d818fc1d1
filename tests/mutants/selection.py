"""Which unit tests run for a mutant, and in which order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

UNIT: Final = Path(__file__).parents[1] / "unit"

# Quick and sensitive tests first: the run of a mutant ends with the third failure.
TESTS: Final = (
    "membership/test_birth.py",
    "membership/rules/test_*.py",
    "membership/test_retained.py",
    "records/test_read_back.py",
    "test_identity.py",
    "test_versions.py",
    "membership/test_[!w]*.py",
    "membership/*/test_*.py",
    "manifests/test_*.py",
    "test_naming.py",
    "api/test_[!h]*.py",
    "status/test_*.py",
    "start/test_[!p]*.py",
    "objects/test_*.py",
    "etcd/test_*.py",
    "test_job_exit.py",
    "test_repeats.py",
    "test_timestamps.py",
    "recover/test_*.py",
    "restore/test_*.py",
    "backup/test_*.py",
    "records/test_*.py",
    "backup_controllers/**/test_*.py",
    "cluster/test_*.py",
    "credentials/**/test_*.py",
    "start/test_process.py",
    "kube/test_*.py",
    "queue/test_*.py",
    "telemetry/test_*.py",
    "test_main.py",
    "test_run.py",
    "test_settings.py",
    "test_fuzz_parsers.py",
    "api/test_hostile*.py",
    "api/test_hosts.py",
    "documents/test_pages.py",
    "documents/test_fields.py",
    "documents/test_numbers.py",
    "documents/test_alerts.py",
    "membership/test_walk.py",
)

NOT_ASKED: Final = (
    "documents/test_reference.py",
    "documents/test_threat_model.py",
    "tooling/**/test_*.py",
)
"""Of the other tests and the repository: these know nothing of what the operator does, and
`tooling/test_mutants.py` fails with every mutant."""

_GROW = "membership/test_grow.py"
_PUT_BACK = "membership/test_put_back.py"
_REPLACE = "membership/test_replace.py"
_ROLL = "membership/rolling/test_*.py"
_SHRINK = "membership/test_shrink.py"
_UPGRADE = "membership/versions/test_*.py"
_VERSION_FIRST = "membership/test_version_first.py"
_CONFIRM = "cluster/test_reconcile_confirm.py"
_MANIFESTS = ("manifests/test_golden.py",)
_ROTATION = ("membership/test_rotation.py", "credentials/test_rotation_passes.py")
_ISSUED = ("credentials/test_issued_passes.py",)
_TLS = (
    "membership/test_certificates.py",
    "membership/test_links.py",
    "credentials/test_certificates.py",
    "credentials/tls_passes/test_*.py",
)

_SWITCH = ("membership/test_tls_switch.py", "cluster/test_switch_passes.py")

_BACKUPS = (
    "backup/test_decisions.py",
    "backup_controllers/backup/test_*.py",
    "manifests/test_backup_job.py",
    "backup/test_trial.py",
)
_SCHEDULES = (
    "backup/test_schedules.py",
    "backup_controllers/schedule/test_*.py",
    "api/test_schedule.py",
    "backup_controllers/test_cron.py",
)
_BY_NAME = (
    "membership/test_restore_by_name.py",
    "cluster/test_restore_by_name_passes.py",
    "backup/test_restore_named.py",
)
_IN_PLACE = ("membership/in_place/test_*.py", "cluster/test_inplace_passes.py")
_RESTORES = (
    "membership/test_restore_plan.py",
    "backup_controllers/restore/test_*.py",
    "restore/test_fetch.py",
    "*/test_restore_*.py",
)

_CRASHES = (
    "objects/test_reading.py",
    "objects/test_trouble.py",
    "cluster/test_reconcile_crash_loop.py",
)

_SPACE = ("membership/test_space.py", "cluster/test_space_passes.py")

_AUTH = ("membership/test_authentication.py", "cluster/test_auth_passes.py")

BESIDE: Final[dict[str, tuple[str, ...]]] = {
    "api/access.py": ("manifests/test_network_policy.py",),
    "api/affinity.py": ("api/test_crds.py",),
    "api/restore.py": _RESTORES,
    "api/schedule.py": _SCHEDULES,
    "api/source.py": (*_BY_NAME, "manifests/test_restore_identity.py"),
    "api/hosts.py": ("api/test_hosts.py",),
    "api/stores.py": (
        "api/test_accepted.py",
        "api/test_backup.py",
        "manifests/test_restore_identity.py",
        "backup/test_removal.py",
    ),
    "backup/begun_otherwise.py": _RESTORES,
    "backup/choice.py": _BACKUPS,
    "backup/outcome.py": (*_BACKUPS, "backup/test_others.py"),
    "backup/credentials.py": ("backup/test_sink.py", *_BACKUPS),
    "backup/deletion.py": _BACKUPS,
    "backup/in_use.py": (*_SCHEDULES, "backup_controllers/backup/test_*.py"),
    "backup/integrity.py": _BACKUPS,
    "backup/scheduled.py": _SCHEDULES,
    "backup/reference.py": _BY_NAME,
    "backup/foreign_files.py": ("backup/test_others.py",),
    "backup/names.py": _BACKUPS,
    "backup/order.py": ("backup/test_large.py",),
    "backup/plan.py": _BACKUPS,
    "backup/own_endpoints.py": ("backup_controllers/backup/test_*.py",),
    "backup/recorded_cluster.py": (
        "backup/test_recorded.py",
        "backup_controllers/backup/test_*.py",
    ),
    "backup/restore_requests.py": (*_RESTORES, "cluster/test_inplace_passes.py"),
    "backup/restores.py": _RESTORES,
    "backup/retention.py": _SCHEDULES,
    "backup/schedules.py": _SCHEDULES,
    "backup/schedule_status.py": _SCHEDULES,
    "backup/status.py": (
        *_BACKUPS,
        "backup/test_others.py",
        "backup_controllers/restore/test_*.py",
    ),
    "backup/trouble.py": _BACKUPS,
    "backup/measurement.py": _BACKUPS,
    "backup/trial.py": _BACKUPS,
    "manifests/backup_job.py": _BACKUPS,
    "manifests/jobs.py": (
        "api/test_hostile_backups.py",
        "membership/test_restore_plan.py",
        *_BACKUPS,
    ),
    "manifests/trial_job.py": _BACKUPS,
    "manifests/restore_job.py": _RESTORES,
    "membership/epochs/in_place_request.py": (
        *_IN_PLACE,
        "membership/test_recovery_disturbed.py",
    ),
    "membership/members/claim_expansion.py": (
        "membership/test_claim_expansion.py",
        "cluster/test_reconcile_put_off.py",
    ),
    "membership/upkeep/space.py": (*_SPACE, "membership/test_certificates.py"),
    "membership/beginning/bootstrap_source.py": (*_BY_NAME, "membership/test_restore_added.py"),
    "membership/epochs/in_place.py": (*_IN_PLACE, "membership/test_rollback.py"),
    "membership/epochs/restore.py": _RESTORES,
    "operator/etcd_operator/cluster/defrag_backoff.py": _SPACE,
    "operator/etcd_operator/objects/jobs.py": _SPACE,
    "operator/etcd_operator/etcd/changes.py": ("etcd/test_changes.py", "cluster/test_apply.py"),
    "operator/etcd_operator/cluster/volume_jobs.py": ("manifests/test_recovery_job.py",),
    "operator/etcd_operator/backup/__main__.py": ("test_job_exit.py",),
    "operator/etcd_operator/backup/read_ahead.py": ("backup/test_stream.py",),
    "operator/etcd_operator/backup/channel.py": (
        "backup/test_measuring.py",
        "backup/test_channel.py",
    ),
    "operator/etcd_operator/backup/measuring.py": ("backup/test_measuring.py",),
    "operator/etcd_operator/backup/overwriting.py": ("backup/test_spared.py",),
    "operator/etcd_operator/backup/idle_timeout.py": ("backup/test_stream.py",),
    "operator/etcd_operator/backup/download.py": ("restore/test_fetch.py",),
    "operator/etcd_operator/backup/process.py": (
        "backup/test_removal.py",
        "backup/test_spared.py",
    ),
    "operator/etcd_operator/backup/pruning.py": ("backup/test_pruning.py",),
    "operator/etcd_operator/backup/removal.py": ("backup/test_removal.py", "backup/test_sink.py"),
    "operator/etcd_operator/backup/clients.py": ("backup/test_sink.py", "backup/test_large.py"),
    "operator/etcd_operator/backup/sink.py": (
        "backup/test_sink.py",
        "backup/test_large.py",
        "backup/test_others.py",
    ),
    "operator/etcd_operator/backup/source.py": (
        "backup/test_stream.py",
        "backup/test_measuring.py",
    ),
    "operator/etcd_operator/backup/trial_restore.py": (
        "backup/test_measuring.py",
        "backup/test_large.py",
    ),
    "operator/etcd_operator/backup_controllers/jobs.py": (
        *_BACKUPS,
        "backup_controllers/test_added_container.py",
        "backup_controllers/restore/test_*.py",
    ),
    "operator/etcd_operator/backup_controllers/being_read.py": _BACKUPS,
    "operator/etcd_operator/backup_controllers/cron.py": _SCHEDULES,
    "operator/etcd_operator/cluster/expansion.py": ("cluster/test_expansion.py",),
    "operator/etcd_operator/objects/reading.py": (*_CRASHES, "cluster/test_labelling.py"),
    "operator/etcd_operator/restore/__main__.py": ("test_job_exit.py",),
    "operator/etcd_operator/cluster/labelling.py": ("cluster/test_labelling.py",),
    "operator/etcd_operator/cluster/since.py": ("cluster/test_labelling.py",),
    "operator/etcd_operator/recover/gateway.py": ("recover/test_containers.py",),
    "operator/etcd_operator/restore/fetch.py": ("restore/test_fetch.py", "backup/test_sink.py"),
    "operator/etcd_operator/restore/finish.py": ("restore/test_fetch.py",),
    "operator/etcd_operator/backup_controllers/restore.py": _RESTORES,
    "operator/etcd_operator/run.py": ("test_run.py",),
    "operator/etcd_operator/backup_controllers/schedule.py": _SCHEDULES,
    "operator/etcd_operator/start/journal.py": ("start/test_process.py",),
    "operator/etcd_operator/start/volume.py": ("start/test_process.py", "start/test_volume.py"),
    "operator/etcd_operator/kube/store.py": ("kube/test_store.py",),
    "operator/etcd_operator/objects/trouble.py": (*_CRASHES, *_BACKUPS),
    "operator/etcd_operator/kube/failed_passes.py": (
        "backup_controllers/backup/test_*.py",
        "backup_controllers/restore/test_*.py",
        *_SCHEDULES,
    ),
    "operator/etcd_operator/queue/workqueue.py": ("queue/test_workqueue.py",),
    "jobs/restore.py": _RESTORES,
    "api/pod.py": ("api/test_[!h]*.py",),
    "api/cluster.py": ("api/test_[!h]*.py", _ROLL),
    "api/tls.py": ("api/test_refused.py", *_TLS),
    "certificates.py": _TLS,
    "membership/upkeep/accounts.py": _AUTH,
    "membership/upkeep/authentication.py": _AUTH,
    "operator/etcd_operator/etcd/auth_look.py": _AUTH,
    "operator/etcd_operator/etcd/client.py": (
        "etcd/test_requests.py",
        "etcd/test_silent.py",
        "etcd/test_nonsense.py",
    ),
    "operator/etcd_operator/cluster/endpoints.py": ("cluster/test_observe_sweep.py",),
    "operator/etcd_operator/cluster/sweep.py": ("cluster/test_observe_sweep.py",),
    "operator/etcd_operator/credentials/passwords.py": _AUTH,
    "operator/etcd_operator/kube/finder.py": ("cluster/test_apply.py",),
    "operator/etcd_operator/cluster/requeue.py": (
        "credentials/tls_passes/test_*.py",
        "cluster/test_requeue.py",
        "cluster/test_stalled.py",
    ),
    "operator/etcd_operator/credentials/provided.py": (*_AUTH, *_TLS),
    "operator/etcd_operator/kube/name_changes.py": ("kube/test_name_changes.py",),
    "operator/etcd_operator/kube/tables.py": ("kube/test_tables.py",),
    "manifests/tls.py": (*_MANIFESTS, *_ROTATION),
    "membership/tls/certificates.py": (*_TLS, *_ROTATION, *_SWITCH),
    "membership/tls/links.py": (*_TLS, *_SWITCH),
    "membership/tls/issued.py": _ISSUED,
    "membership/tls/rotation.py": _ROTATION,
    "operator/etcd_operator/credentials/issued.py": _ISSUED,
    "operator/etcd_operator/credentials/taking.py": _ISSUED,
    "operator/etcd_operator/credentials/authorities.py": _ROTATION,
    "api/options.py": ("api/test_options.py", *_MANIFESTS),
    "status/conditions.py": (
        "status/test_conditions.py",
        "status/test_unasked.py",
        "credentials/tls_passes/test_*.py",
        "cluster/test_switch_passes.py",
    ),
    "status/outcome.py": (
        "status/test_rendering.py",
        "status/test_unasked.py",
        "status/test_transitions.py",
    ),
    "stored_conditions.py": ("status/test_conditions.py",),
    "status/disruptions.py": ("status/test_conditions.py",),
    "manifests/disruption_budget.py": ("membership/test_budget.py",),
    "manifests/exclusive.py": ("manifests/test_exclusive.py",),
    "manifests/drift.py": ("manifests/test_drift.py", "manifests/test_network_policy.py"),
    "manifests/network_policy.py": ("manifests/test_network_policy.py",),
    "manifests/recovery_job.py": ("manifests/test_recovery_job.py",),
    "manifests/volume_job.py": ("manifests/test_recovery_job.py",),
    "manifests/services.py": _MANIFESTS,
    "manifests/pod.py": _MANIFESTS,
    "manifests/statefulset.py": _MANIFESTS,
    "status/member_status.py": ("status/test_member_status.py",),
    "membership/upkeep/alarms.py": ("membership/test_alarms.py",),
    "membership/blocked.py": (
        "membership/test_blocked.py",
        "membership/test_retained.py",
        "membership/test_birth.py",
        "membership/in_place/test_*.py",
        "membership/rules/test_*.py",
        "membership/test_recovery_disturbed.py",
        _REPLACE,
    ),
    "membership/awaited.py": (
        "membership/test_retained.py",
        "membership/test_birth.py",
        "membership/rules/test_*.py",
        _ROLL,
        _UPGRADE,
        "membership/test_quorum.py",
        _GROW,
    ),
    "membership/beginning/attempts.py": (
        "membership/test_beginning.py",
        "membership/test_claim_expansion.py",
        "membership/rules/test_*.py",
        "membership/test_restore_added.py",
    ),
    "membership/beginning/bootstrap.py": (
        _PUT_BACK,
        "membership/test_recovery_disturbed.py",
        "membership/test_restore_plan.py",
        "membership/test_birth.py",
        "membership/rules/test_*.py",
        "membership/test_learner.py",
        "membership/recovery/test_*.py",
        _SHRINK,
        _REPLACE,
        _UPGRADE,
        "membership/in_place/test_*.py",
        "membership/test_retained.py",
    ),
    "membership/beginning/tickets.py": (
        _VERSION_FIRST,
        "membership/test_recovery_disturbed.py",
        "membership/test_restore_plan.py",
        "membership/test_birth.py",
        "membership/rules/test_*.py",
        "membership/test_learner.py",
        "membership/recovery/test_*.py",
        _SHRINK,
        _REPLACE,
        _UPGRADE,
        "membership/in_place/test_*.py",
        "membership/test_retained.py",
    ),
    "membership/beginning/remembered.py": (
        _PUT_BACK,
        "membership/test_remembered.py",
        _UPGRADE,
        "membership/test_retained.py",
        "membership/rules/test_*.py",
        "membership/recovery/test_*.py",
        "membership/in_place/test_*.py",
    ),
    "membership/members/budget.py": (
        "membership/test_budget.py",
        "status/test_conditions.py",
        "membership/test_recovery_disturbed.py",
    ),
    "membership/children.py": (
        _VERSION_FIRST,
        "cluster/test_altered.py",
        "membership/test_claim_expansion.py",
        "membership/test_put_off.py",
        "membership/test_budget.py",
        "membership/rules/test_*.py",
        "membership/test_birth.py",
        "membership/test_certificates.py",
        _SHRINK,
        _UPGRADE,
    ),
    "membership/members/changes.py": (_GROW, _SHRINK, _ROLL, _REPLACE, *_SWITCH),
    "membership/epochs/filling.py": (*_RESTORES, *_IN_PLACE),
    "membership/epochs/volume_jobs.py": (
        *_RESTORES,
        *_IN_PLACE,
        "membership/recovery/test_*.py",
        "membership/test_recovery_*.py",
    ),
    "membership/members/grow.py": (
        _GROW,
        "membership/test_claim_expansion.py",
        *_SWITCH,
        "membership/in_place/test_*.py",
    ),
    "membership/members/learner.py": ("membership/test_learner.py", "membership/test_put_off.py"),
    "membership/beginning/ledger.py": ("membership/test_ledger.py",),
    "membership/beginning/leftovers.py": (_REPLACE, "membership/test_retained.py", _SHRINK, _GROW),
    "membership/members/loss.py": ("membership/test_loss.py", _REPLACE),
    "membership/observation.py": (
        "membership/test_beginning.py",
        "membership/rules/test_*.py",
        _ROLL,
    ),
    "observed/pods.py": (_ROLL, "membership/test_learner.py", "membership/test_roster.py"),
    "membership/planner.py": (
        _PUT_BACK,
        "membership/in_place/test_*.py",
        "membership/recovery/test_*.py",
        "membership/test_alarms.py",
        "membership/test_authentication.py",
        "membership/test_budget.py",
        "membership/test_claim_expansion.py",
        "membership/test_learner.py",
        "membership/test_put_off.py",
        "membership/test_roster.py",
        "membership/rules/test_*.py",
        *_SPACE,
        *_SWITCH,
        "cluster/test_stalled.py",
        "membership/test_birth.py",
        "membership/test_certificates.py",
        _SHRINK,
        _ROLL,
        _UPGRADE,
        _VERSION_FIRST,
        _REPLACE,
        "membership/test_restore_added.py",
    ),
    "membership/epochs/quorum.py": (
        "membership/test_quorum.py",
        "membership/recovery/test_*.py",
        "membership/test_recovery_disturbed.py",
        _SHRINK,
    ),
    "records/bootstrap.py": (
        *_BY_NAME,
        "membership/test_remembered.py",
        "membership/test_restore_plan.py",
        "records/test_read_back.py",
        "membership/rules/test_*.py",
        "membership/recovery/test_*.py",
    ),
    "records/bootstrap_json.py": (
        *_BY_NAME,
        "membership/test_restore_plan.py",
        "records/test_read_back.py",
        "membership/rules/test_*.py",
        "membership/recovery/test_*.py",
    ),
    "records/member.py": (
        *_BY_NAME,
        "membership/test_restore_plan.py",
        "records/test_read_back.py",
        "membership/rules/test_*.py",
        "membership/recovery/test_*.py",
    ),
    "membership/epochs/recovery.py": (
        _PUT_BACK,
        "membership/recovery/test_*.py",
        "membership/in_place/test_*.py",
        "membership/test_recovery_walk.py",
    ),
    "membership/members/replace.py": (
        _REPLACE,
        "membership/test_loss.py",
        "membership/test_recovery_disturbed.py",
    ),
    "membership/members/replicas.py": (
        _GROW,
        _PUT_BACK,
        "membership/rules/test_*.py",
        _SHRINK,
        "membership/recovery/test_*.py",
        "membership/test_restore_plan.py",
        *_IN_PLACE,
    ),
    "membership/put_off.py": (
        "membership/test_put_off.py",
        _VERSION_FIRST,
        "membership/rules/test_*.py",
        "membership/test_birth.py",
        "membership/test_certificates.py",
        "cluster/test_stalled.py",
        _UPGRADE,
    ),
    "membership/rolling/roll.py": (
        _ROLL,
        _UPGRADE,
        _VERSION_FIRST,
        "membership/test_recovery_disturbed.py",
    ),
    "membership/roster.py": ("membership/test_roster.py",),
    "membership/members/shrink.py": (_SHRINK, *_IN_PLACE),
    "membership/stalled.py": ("cluster/test_stalled.py",),
    "membership/irreversible.py": (
        _CONFIRM,
        "cluster/test_apply.py",
        _SHRINK,
        "cluster/test_auth_passes.py",
    ),
    "membership/tls/tls_switch.py": (*_SWITCH, "cluster/test_auth_passes.py"),
    "records/successor.py": _IN_PLACE,
    "records/takeover.py": (*_IN_PLACE, *_AUTH),
    "membership/epochs/survivor.py": (
        _PUT_BACK,
        "membership/test_recovery_disturbed.py",
        "membership/test_restore_plan.py",
        "membership/recovery/test_*.py",
        "membership/test_recovery_walk.py",
        "membership/test_quorum.py",
    ),
    "membership/rolling/upgrade.py": (_UPGRADE, "membership/test_remembered.py", _VERSION_FIRST),
    "membership/rolling/version_first.py": (_VERSION_FIRST, _UPGRADE),
    "membership/rolling/rollback.py": (_UPGRADE, "membership/test_rollback.py"),
    "versions.py": ("test_versions.py",),
    "operator/etcd_operator/cluster/apply.py": (
        "cluster/test_apply.py",
        "cluster/test_switch_passes.py",
        "cluster/test_stalled.py",
    ),
    "operator/etcd_operator/backup_controllers/backup.py": _BACKUPS,
    "operator/etcd_operator/backup_controllers/bounded.py": ("backup_controllers/test_bounded.py",),
    "operator/etcd_operator/backup_controllers/observe.py": _BACKUPS,
    "operator/etcd_operator/backup_controllers/target.py": _BACKUPS,
    "operator/etcd_operator/cluster/observe.py": (
        _CONFIRM,
        "cluster/test_observe.py",
        *_BY_NAME,
        "cluster/test_inplace_passes.py",
    ),
    "operator/etcd_operator/cluster/reconcile.py": (_CONFIRM, "status/test_unasked.py", *_SPACE),
    "operator/etcd_operator/cluster/report.py": ("credentials/tls_passes/test_*.py",),
    "operator/etcd_operator/cluster/missing_pods.py": ("cluster/test_stalled.py",),
    "jobs/recover.py": ("recover/test_containers.py",),
    "status/serving.py": ("status/test_conditions.py",),
    "start/rules.py": ("start/test_rules.py", "start/test_marker.py"),
    "start/configuration.py": ("start/test_config.py",),
    "untrusted.py": ("test_fuzz_parsers.py", "records/test_read_back.py"),
    "manifests/start_settings.py": ("start/test_config.py", *_MANIFESTS),
    "membership/tls/trusted.py": (*_ROTATION, "membership/test_certificates.py"),
    "status/rendering.py": (
        "status/test_rendering.py",
        "status/test_unasked.py",
    ),
}
"""The tests beside a file. They run first, and mostly catch its mutants."""


def beside(file: str) -> tuple[str, ...]:
    """The tests in `BESIDE`; for a file that is not in it, the tests that import it."""
    if file in BESIDE:
        return BESIDE[file]
    root = "" if file.startswith("operator/") else "etcd_stateful."
    module = root + file.removeprefix("operator/").removesuffix(".py").replace("/", ".")
    package, _, name = module.rpartition(".")
    names = rf"(?:\([^)]*|[^(\n]*)\b{name}\b"
    imports = re.compile(rf"^from (?:{module} import|{package} import {names})", re.MULTILINE)
    asked = sorted({path for one in TESTS for path in UNIT.glob(one)})
    return tuple(str(path.relative_to(UNIT)) for path in asked if imports.search(path.read_text()))
