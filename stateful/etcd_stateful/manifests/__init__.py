"""Pure functions from an EtcdCluster to the objects it owns, one module per object."""
