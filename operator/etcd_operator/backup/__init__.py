"""What runs in the Jobs of backups, and of their trial restores: the I/O around
`etcd_stateful.backup`.

Such a pod has the credentials of one store, and no access to Kubernetes: how it went is in its
termination message, and how far it is can be asked on a port of its own. The operator's own part is
in `etcd_operator.backup_controllers`.
"""
