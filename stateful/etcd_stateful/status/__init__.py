"""The status of an EtcdCluster: what one pass came to, in conditions and in fields."""
