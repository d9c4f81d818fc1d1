"""The containers of a restore's Job: the I/O around `etcd_stateful.jobs.restore`.

`fetch` has the store's credentials and `obstore`; `finish` needs the standard library alone.
"""
