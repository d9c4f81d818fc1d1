"""One pass over an EtcdBackup, EtcdBackupSchedule or EtcdRestore, in the operator.

What their Jobs run is in `etcd_operator.backup`.
"""
