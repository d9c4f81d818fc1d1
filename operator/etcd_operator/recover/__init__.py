"""What runs in the Job of a recovery: the I/O around `etcd_stateful.jobs.recover`.

The standard library and the core only, as `start`.
"""
