"""The EtcdBackup of one run of a schedule.

It has no owner reference, so that deleting a schedule does not delete its backups.
"""

from __future__ import annotations

from etcd_stateful import naming
from etcd_stateful.api.schedule import EtcdBackupSchedule
from etcd_stateful.manifests.common import Manifest


def scheduled_backup(schedule: EtcdBackupSchedule, moment: int, written: str) -> Manifest:
    """The EtcdBackup for a scheduled time.

    Args:
        moment: the scheduled time, in seconds since 1970.
        written: the same as RFC 3339, in UTC.
    """
    return {
        "apiVersion": naming.API_VERSION,
        "kind": naming.BACKUP_KIND,
        "metadata": {
            "name": naming.scheduled_backup(schedule.name, moment),
            "namespace": schedule.namespace,
            "labels": {
                naming.LABEL_MANAGED_BY: naming.MANAGER,
                naming.SCHEDULE: schedule.name,
                naming.SCHEDULE_UID: schedule.uid,
            },
            "annotations": {naming.SCHEDULED_TIME: written},
        },
        "spec": schedule.spec_of(written),
    }
