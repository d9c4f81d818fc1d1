"""Which unit tests are asked of a mutant, and in which order."""

from __future__ import annotations

from typing import Final

# Quick and telling ones first: the run of a mutant ends with the third test that fails.
TESTS: Final = (
    "test_membership_birth.py",
    "test_membership_rules.py",
    "test_membership_retained.py",
    "test_membership_records.py",
    "test_membership_identity.py",
    "test_membership_versions.py",
    "test_membership_[!w]*.py",
    "test_manifests_*.py",
    "test_api_*.py",
    "test_conditions.py",
    "test_changing.py",
    "test_status.py",
    "test_member_status.py",
    "test_start.py",
    "test_start_config.py",
    "test_start_marker.py",
    "test_ticket.py",
    "test_wal.py",
    "test_recover*.py",
    "test_apply.py",
    "test_backup*.py",
    "test_restore*.py",
    "test_inplace*.py",
    "test_schedule*.py",
    "test_cron.py",
    "test_reconcile*.py",
    "test_observe*.py",
    "test_certificates.py",
    "test_tls_passes.py",
    "test_auth_passes.py",
    "test_rotation_passes.py",
    "test_membership_walk.py",
)

_GROW = "test_membership_grow.py"
_REPLACE = "test_membership_replace.py"
_ROLL = "test_membership_roll.py"
_SHRINK = "test_membership_shrink.py"
_UPGRADE = "test_membership_upgrade.py"
_CONFIRM = "test_reconcile_confirm.py"
_MANIFESTS = ("test_manifests_golden.py",)
_ROTATION = ("test_membership_rotation.py", "test_rotation_passes.py")
_TLS = (
    "test_membership_certificates.py",
    "test_membership_links.py",
    "test_certificates.py",
    "test_tls_passes.py",
)

_BACKUPS = ("test_backup.py", "test_backups.py", "test_backup_job.py", "test_backup_trial.py")
_SCHEDULES = (
    "test_schedules.py",
    "test_schedule_passes.py",
    "test_api_schedule.py",
    "test_cron.py",
)
_BY_NAME = ("test_restore_by_name*.py", "test_restore_named.py")
_IN_PLACE = ("test_inplace_plan.py", "test_inplace_passes.py")
_RESTORES = ("test_restore_plan.py", "test_restores.py", *_BY_NAME)

_AUTH = ("test_membership_authentication.py", "test_auth_passes.py")

BESIDE: Final[dict[str, tuple[str, ...]]] = {
    "api/access.py": ("test_manifests_network_policy.py",),
    "api/schedule.py": _SCHEDULES,
    "api/source.py": _BY_NAME,
    "api/stores.py": ("test_api_backup.py",),
    "backup/choice.py": _BACKUPS,
    "backup/credentials.py": _BACKUPS,
    "backup/deletion.py": _BACKUPS,
    "backup/integrity.py": _BACKUPS,
    "backup/made.py": _SCHEDULES,
    "backup/named.py": _BY_NAME,
    "backup/names.py": _BACKUPS,
    "backup/plan.py": _BACKUPS,
    "backup/recorded.py": ("test_backup_recorded.py", "test_backups.py"),
    "backup/restores.py": _RESTORES,
    "backup/retention.py": _SCHEDULES,
    "backup/schedules.py": _SCHEDULES,
    "backup/status.py": _BACKUPS,
    "backup/trial.py": _BACKUPS,
    "manifests/backup_job.py": _BACKUPS,
    "manifests/trial_job.py": _BACKUPS,
    "manifests/restore_job.py": _RESTORES,
    "membership/inplace.py": _IN_PLACE,
    "membership/origin.py": _BY_NAME,
    "membership/replacement.py": _IN_PLACE,
    "membership/restore.py": _RESTORES,
    "operator/etcd_operator/backup_jobs.py": (*_BACKUPS, "test_restores.py"),
    "operator/etcd_operator/cron.py": _SCHEDULES,
    "operator/etcd_operator/restores.py": _RESTORES,
    "operator/etcd_operator/schedules.py": _SCHEDULES,
    "operator/etcd_operator/store.py": ("test_shell_store.py",),
    "restore.py": _RESTORES,
    "api/cluster.py": ("test_api_*.py", _ROLL),
    "api/tls.py": ("test_api_refused.py", *_TLS),
    "certificates.py": _TLS,
    "membership/authentication.py": _AUTH,
    "operator/etcd_operator/auth_look.py": _AUTH,
    "operator/etcd_operator/sweep.py": ("test_observe_sweep.py",),
    "operator/etcd_operator/passwords.py": _AUTH,
    "manifests/tls.py": (*_MANIFESTS, *_ROTATION),
    "membership/certificates.py": (*_TLS, *_ROTATION),
    "membership/links.py": _TLS,
    "membership/rotation.py": _ROTATION,
    "operator/etcd_operator/authorities.py": _ROTATION,
    "api/options.py": ("test_api_options.py", *_MANIFESTS),
    "conditions.py": ("test_conditions.py", "test_tls_passes.py"),
    "disruptions.py": ("test_conditions.py",),
    "manifests/disruption_budget.py": ("test_membership_budget.py",),
    "manifests/drift.py": ("test_manifests_drift.py", "test_manifests_network_policy.py"),
    "manifests/network_policy.py": ("test_manifests_network_policy.py",),
    "manifests/recovery_job.py": ("test_recovery_job.py",),
    "manifests/services.py": _MANIFESTS,
    "manifests/statefulset.py": _MANIFESTS,
    "member_status.py": ("test_member_status.py",),
    "membership/alarms.py": ("test_membership_alarms.py",),
    "membership/blocked.py": (
        "test_membership_birth.py",
        "test_membership_rules.py",
        _REPLACE,
    ),
    "membership/bootstrap.py": (
        "test_restore_plan.py",
        "test_membership_birth.py",
        "test_membership_rules.py",
        "test_membership_learner.py",
        "test_recovery_plan.py",
        _SHRINK,
        _REPLACE,
        _UPGRADE,
        "test_inplace_plan.py",
    ),
    "membership/budget.py": ("test_membership_budget.py",),
    "membership/changes.py": (_GROW, _SHRINK, _ROLL, _REPLACE),
    "membership/grow.py": (_GROW,),
    "membership/learner.py": ("test_membership_learner.py",),
    "membership/leftovers.py": (_REPLACE, "test_membership_retained.py", _SHRINK, _GROW),
    "membership/loss.py": ("test_membership_loss.py", _REPLACE),
    "membership/planner.py": (
        "test_membership_alarms.py",
        "test_membership_authentication.py",
        "test_membership_budget.py",
        "test_membership_learner.py",
        "test_membership_roster.py",
        "test_membership_rules.py",
        "test_membership_birth.py",
        "test_membership_certificates.py",
        _SHRINK,
        _ROLL,
        _UPGRADE,
        _REPLACE,
    ),
    "membership/quorum.py": ("test_membership_quorum.py", "test_recovery_plan.py", _SHRINK),
    "membership/records.py": (
        *_BY_NAME,
        "test_restore_plan.py",
        "test_membership_records.py",
        "test_membership_rules.py",
        "test_recovery_plan.py",
    ),
    "membership/recovery.py": ("test_recovery_plan.py", "test_recovery_walk.py"),
    "membership/replace.py": (_REPLACE,),
    "membership/roll.py": (_ROLL,),
    "membership/roster.py": ("test_membership_roster.py",),
    "membership/shrink.py": (_SHRINK, *_IN_PLACE),
    "membership/steps.py": (_CONFIRM, _SHRINK, "test_auth_passes.py"),
    "membership/successor.py": _IN_PLACE,
    "membership/survivor.py": (
        "test_restore_plan.py",
        "test_recovery_plan.py",
        "test_recovery_walk.py",
    ),
    "membership/takeover.py": _IN_PLACE,
    "membership/upgrade.py": (_UPGRADE,),
    "membership/versions.py": ("test_membership_versions.py",),
    "operator/etcd_operator/apply.py": ("test_apply.py",),
    "operator/etcd_operator/observe.py": (
        _CONFIRM,
        "test_observe.py",
        *_BY_NAME,
        "test_inplace_passes.py",
    ),
    "operator/etcd_operator/reconcile.py": (_CONFIRM,),
    "operator/etcd_operator/report.py": ("test_tls_passes.py",),
    "recover.py": ("test_recover.py",),
    "serving.py": ("test_conditions.py",),
    "start.py": ("test_start.py", "test_start_marker.py"),
    "start_config.py": ("test_start_config.py",),
}
"""The tests beside a file. They are asked first, and mostly know."""
