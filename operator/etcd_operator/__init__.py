"""The shell: observes Kubernetes and etcd, asks the core for the next step, and carries it out.

`start`, `recover`, `backup` and `restore` are separate programs that run in members' pods and in
Jobs. All other packages belong to the operator, or are shared.
"""
