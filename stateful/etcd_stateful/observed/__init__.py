"""Observed state as plain values: Kubernetes objects, etcd members, certificates, failed writes."""
