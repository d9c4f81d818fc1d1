"""The containers of a recovery's Job: the I/O around `etcd_stateful.jobs.recover`.

Standard library only, as `start`: they run in pods of a cluster, not in the operator's.
"""
