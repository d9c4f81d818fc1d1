"""The shell: observes Kubernetes and etcd, asks the core what to do, and does that one thing.

`start`, `recover`, `backup` and `restore` are programs of their own, which run in the pods of
clusters and Jobs. All other packages are the operator's, or shared.
"""
