"""What runs in the Job of a recovery: the I/O around `etcd_stateful.jobs.recover`.

Standard library only, as `start`.
"""
