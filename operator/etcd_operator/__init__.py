"""The shell: observes Kubernetes and etcd, asks the core what to do, and does that one thing."""
