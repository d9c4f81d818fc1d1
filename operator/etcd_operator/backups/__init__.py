"""One pass over an EtcdBackup, EtcdBackupSchedule or EtcdRestore. Their Jobs are elsewhere."""
