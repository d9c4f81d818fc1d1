"""What runs in the Jobs of backups and of their trial restores: the I/O around
`etcd_stateful.backup`.

Their pods have the credentials of one store and no access to Kubernetes. They report the outcome in
the termination message, and the pod of a backup serves its progress on a port. The operator's own
part is in `etcd_operator.backup_controllers`.
"""
