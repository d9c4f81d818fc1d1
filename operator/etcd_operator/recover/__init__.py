"""What runs in the Job of a recovery: the I/O around `etcd_stateful.recover`.

Standard library only, as `start`.
"""
