"""One pass over an EtcdCluster: observe, decide, apply, report."""
