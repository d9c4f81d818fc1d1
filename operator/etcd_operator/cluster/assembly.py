"""Builds the reconciler of clusters and connects its parts.

Tests pass fakes of what is not the API server: `start`, etcd, Events and the two clocks.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from etcd_operator.cluster.apply import Applier
from etcd_operator.cluster.expansion import Expansion
from etcd_operator.cluster.labelling import Labels
from etcd_operator.cluster.observe import Observer
from etcd_operator.cluster.reconcile import Reconciler
from etcd_operator.cluster.report import Reporter
from etcd_operator.cluster.sweep import Network
from etcd_operator.cluster.tickets import Start, TcpStart
from etcd_operator.cluster.volume_jobs import VolumeJobs
from etcd_operator.credentials.certificates import CertificateLook
from etcd_operator.credentials.passwords import PasswordLook
from etcd_operator.etcd.accounts import Accounts, GrpcAccounts
from etcd_operator.etcd.api import Etcd
from etcd_operator.etcd.client import GrpcEtcd
from etcd_operator.kube.api import Kubernetes
from etcd_operator.kube.events import Events
from etcd_operator.kube.failed_passes import FailedPasses
from etcd_operator.kube.finder import Finder
from etcd_operator.kube.name_changes import Mark
from etcd_operator.kube.store import Store
from etcd_operator.settings import Settings
from etcd_operator.telemetry.metrics import Metrics


def make_reconciler(
    kube: Kubernetes,
    store: Store,
    metrics: Metrics,
    settings: Settings,
    *,
    mark: Mark,
    start: Start | None = None,
    etcd: Etcd | None = None,
    accounts: Accounts | None = None,
    events: Events | None = None,
    clock: Callable[[], float] = time.monotonic,
    wall_clock: Callable[[], float] = time.time,
) -> Reconciler:
    """A reconciler with all its parts. Parts that are not given use the network."""
    calls = GrpcEtcd()
    start, etcd, accounts = start or TcpStart(), etcd or calls, accounts or GrpcAccounts(calls)
    events = events or Events(kube, instance=settings.identity)
    finder, failed_passes = Finder(kube, store, clock), FailedPasses()
    certificates = CertificateLook(kube, finder, wall_clock=wall_clock, clock=clock, mark=mark)
    passwords = PasswordLook(kube, clock=clock, mark=mark)
    observer = Observer(
        store,
        finder,
        network=Network(start, etcd, accounts, clock),
        operator_image=settings.operator_image,
        operator=settings.operator_pods,
        volume_jobs=VolumeJobs(kube, store, wall_clock, operator_image=settings.operator_image),
        certificates=certificates,
        passwords=passwords,
        expansion=Expansion(kube, failed_passes, clock),
        wall_clock=wall_clock,
        clock=clock,
    )
    applier = Applier(
        kube,
        finder,
        start,
        etcd,
        wall_clock,
        identity=certificates.identity,
        accounts=accounts,
        passwords=passwords,
    )
    reporter = Reporter(kube, store, events, metrics, wall_clock=wall_clock, clock=clock)
    labels = Labels(kube, finder, clock)
    return Reconciler(store, metrics, observer, applier, reporter, labels, failed_passes, clock)
