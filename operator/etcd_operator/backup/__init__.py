"""The container of a backup's Job: the I/O around `etcd_stateful.backup`.

It has the credentials of one store, and no access to Kubernetes: how it went is in its termination
message, and how far it is can be asked on a port of its own.
"""
