"""The EtcdBackup of one run of a schedule.

It has no owner that garbage collection follows: who deletes a schedule still has its backups.
"""

from __future__ import annotations

from etcd_stateful import naming
from etcd_stateful.api.schedule import EtcdBackupSchedule
from etcd_stateful.manifests.common import Manifest


def scheduled_backup(schedule: EtcdBackupSchedule, moment: int, written: str) -> Manifest:
    """The EtcdBackup of a moment.

    Args:
        written: the moment as RFC 3339, in UTC.
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
