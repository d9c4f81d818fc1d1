"""What is seen of a cluster, as values: objects of Kubernetes, members of etcd, certificates."""
