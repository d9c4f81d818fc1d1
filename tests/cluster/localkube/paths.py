"""Paths: the checkout, the cache of all checkouts, and the cluster's state."""

import os
from pathlib import Path

HERE = Path(__file__).parents[1]
CONFIG = HERE / "config"
GO = HERE / "go"
NPM = HERE / "npm"
REPOSITORY = HERE.parents[1]
BUILD = REPOSITORY / "build"

_XDG_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
CACHE = Path(os.environ.get("ETCD_OPERATOR_CACHE") or _XDG_CACHE / "etcd-operator")

# One machine has one cluster, whichever checkout started it, so its state is in one place;
# `build/cluster` is a link to it. Not below /var/lib or /var/log: each node has its own of those.
STATE = Path("/srv/etcd-operator")
LOGS = STATE / "logs"
PKI = STATE / "pki"
KUBECONFIG = STATE / "kubeconfig"
LINK = BUILD / "cluster"
