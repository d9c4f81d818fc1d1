"""What runs in the Job of a restore: the I/O around `etcd_stateful.jobs.restore`.

`fetch` has the store's credentials and uses `obstore`; `finish` needs only the core.
"""
