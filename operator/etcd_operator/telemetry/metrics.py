"""The Prometheus metrics: of queues, passes, API calls, clusters and backups.

The metrics of the queues have client-go's names, so that existing dashboards and alerts for
controllers work. There is no global registry: nothing is registered at import, and two operators
can run in one test process.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)

from etcd_operator.kube.api import Key, Resource
from etcd_operator.tasks import loop_time

asked_at: ContextVar[float | None] = ContextVar("asked_at", default=None)
"""When the current pass was asked for, in the event loop's time: the work queue sets it, and the
operator's own delay is measured from there to a step's write. All else is up to the platform."""

FAST = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


def asked_or_now() -> float:
    """When the current pass was asked for; without a queue, now."""
    asked = asked_at.get()
    return loop_time() if asked is None else asked


class QueueMetrics:
    """The metrics of one queue, named as in client-go."""

    def __init__(self, families: _QueueFamilies, name: str) -> None:
        self.depth = families.depth.labels(name)
        self.adds = families.adds.labels(name)
        self.retries = families.retries.labels(name)
        self.queue_duration = families.queue_duration.labels(name)
        self.work_duration = families.work_duration.labels(name)
        self.unfinished = families.unfinished.labels(name)
        self.longest = families.longest.labels(name)


class _QueueFamilies:
    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"workqueue_{name}", text, ["name"], registry=registry)

        def histogram(name: str, text: str) -> Histogram:
            return Histogram(f"workqueue_{name}", text, ["name"], buckets=FAST, registry=registry)

        self.depth = gauge("depth", "Keys that wait for a worker")
        self.adds = Counter("workqueue_adds", "Keys added", ["name"], registry=registry)
        self.retries = Counter("workqueue_retries", "Passes repeated", ["name"], registry=registry)
        self.queue_duration = histogram(
            "queue_duration_seconds", "From the event that asks for a pass to its start"
        )
        self.work_duration = histogram("work_duration_seconds", "Duration of a pass")
        self.unfinished = gauge(
            "unfinished_work_seconds", "Age of all passes in progress, added up"
        )
        self.longest = gauge("longest_running_processor_seconds", "Age of the oldest pass")


class Metrics:
    def __init__(self) -> None:
        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        self.registry = registry
        self._queues = _QueueFamilies(registry)
        self._operator(registry)
        self._informer(registry)
        self._clusters(registry)
        self._schedules(registry)
        self._intervals(registry)

    def _operator(self, registry: CollectorRegistry) -> None:
        self.passes = Counter(
            "etcd_operator_reconciles",
            "Passes over an object, by result: ok, error, timeout",
            ["queue", "result"],
            registry=registry,
        )
        self.steps = Counter(
            "etcd_operator_steps", "Steps taken, by kind", ["step"], registry=registry
        )
        self.step_delays = Histogram(
            "etcd_operator_step_delay_seconds",
            "From the event that made a step possible to the answer to its write",
            ["step"],
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
            registry=registry,
        )
        self.requests = Histogram(
            "etcd_operator_kubernetes_request_seconds",
            "Kubernetes API calls, by verb, resource and status (0: no answer)",
            ["verb", "resource", "status"],
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
            registry=registry,
        )
        self.leader = Gauge(
            "etcd_operator_leader", "1 while this process holds the Lease", registry=registry
        )
        self.loop_lag = Histogram(
            "etcd_operator_event_loop_lag_seconds",
            "How late the event loop woke a sleeping task",
            buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5),
            registry=registry,
        )

    def _informer(self, registry: CollectorRegistry) -> None:
        self.events = Counter(
            "etcd_operator_watch_events", "Watch events", ["resource", "type"], registry=registry
        )
        self.watch_restarts = Counter(
            "etcd_operator_informer_restarts",
            "Times that silent watches were restarted",
            registry=registry,
        )
        self.resync_time = Gauge(
            "etcd_operator_last_resync_timestamp_seconds",
            "When every watched resource had last been listed",
            registry=registry,
        )
        self.ahead = Counter(
            "etcd_operator_resync_changes",
            "Owners of objects whose change a LIST showed before a watch did, if one ever would",
            ["resource"],
            registry=registry,
        )

    def _clusters(self, registry: CollectorRegistry) -> None:
        gauge, self._of_clusters = _gauges(registry, "etcd_cluster", "namespace", "etcd_cluster")
        self.cluster_observed = gauge(
            "observed", "1 while the operator can see the cluster; 0: whether it serves is unknown"
        )
        self.cluster_size = gauge("size", "Members that spec.size asks for")
        self.cluster_members = gauge("members", "Members on etcd's list")
        self.cluster_ready = gauge("members_ready", "Members that serve")
        self.cluster_available = gauge("available", "1 while a quorum serves")
        self.certificate_ends = gauge(
            "certificate_expiry_timestamp_seconds",
            "When the first certificate of a cluster with TLS expires",
        )
        self.authority_ends = gauge(
            "authority_expiry_timestamp_seconds",
            "When the first authority that the operator made for a cluster expires",
        )

    def _schedules(self, registry: CollectorRegistry) -> None:
        gauge, self._of_schedules = _gauges(registry, "etcd_backup_schedule", "namespace", "name")
        self.schedule_on = gauge(
            "scheduled",
            "1 while runs are started; 0: suspended, not accepted, or EtcdBackups cannot be "
            "created",
        )
        self.schedule_last_run = gauge(
            "last_run_succeeded",
            "1 if the last finished run stored a backup; 0: it failed, or was missed",
        )
        self.schedule_succeeded = gauge(
            "last_success_timestamp_seconds", "When a backup of the schedule last succeeded"
        )
        self.schedule_verified = gauge(
            "last_verified_timestamp_seconds",
            "When the newest verified backup that still exists succeeded",
        )
        self.schedule_missed = gauge(
            "missed_runs", "Runs that were missed since the schedule was created"
        )

    def _intervals(self, registry: CollectorRegistry) -> None:
        gauge, self._of_intervals = _gauges(registry, "etcd_backup_interval", "namespace", "name")
        self.interval_last_run = gauge(
            "last_run_succeeded", "1 if the last finished run stored a backup; 0: it failed"
        )
        self.interval_succeeded = gauge(
            "last_success_timestamp_seconds", "When a backup at the interval last succeeded"
        )

    def queue(self, name: str) -> QueueMetrics:
        return QueueMetrics(self._queues, name)

    def request(self, verb: str, resource: Resource, status: int, seconds: float) -> None:
        self.requests.labels(verb, resource.plural, str(status)).observe(seconds)

    def certificates(self, key: Key, *, certificate: float | None, authority: float | None) -> None:
        """Sets when the first certificate and the first authority expire. Without one, its series
        is removed."""
        _put(self.certificate_ends, key, certificate)
        _put(self.authority_ends, key, authority)

    def cluster(
        self, key: Key, *, size: int | None, members: int | None, ready: int, available: bool
    ) -> None:
        """Sets the metrics of a cluster. None keeps the last value: for `size` while the spec of a
        cluster that has not formed is refused, for `members` while there is no member list."""
        self.cluster_observed.labels(*key).set(1)
        if size is not None:
            self.cluster_size.labels(*key).set(size)
        if members is not None:
            self.cluster_members.labels(*key).set(members)
        self.cluster_ready.labels(*key).set(ready)
        self.cluster_available.labels(*key).set(available)

    def cluster_unobserved(self, key: Key) -> None:
        """Removes the series that say whether a cluster serves: nobody knows, and old values would
        keep alerts quiet."""
        self.cluster_observed.labels(*key).set(0)
        for gauge in (self.cluster_ready, self.cluster_available):
            gauge.remove(*key)

    def schedule(
        self,
        key: Key,
        *,
        on: bool,
        last_run: bool | None,
        succeeded: float | None,
        verified: float | None,
        missed: int,
    ) -> None:
        """Sets the metrics of a schedule. A value of None has no series, because nothing has
        happened yet that it could report."""
        _put(self.schedule_on, key, on)
        _put(self.schedule_last_run, key, last_run)
        _put(self.schedule_succeeded, key, succeeded)
        _put(self.schedule_verified, key, verified)
        _put(self.schedule_missed, key, missed)

    def schedule_stopped(self, key: Key, succeeded: float | None) -> None:
        """Reports that no runs are started, and when the last one succeeded: its age grows. Other
        metrics of earlier runs keep their values, as far as this process knows them."""
        _put(self.schedule_on, key, value=False)
        _put(self.schedule_succeeded, key, succeeded)

    def forget_schedule(self, key: Key) -> None:
        """Removes the series of a schedule that is gone."""
        for gauge in self._of_schedules:
            gauge.remove(*key)

    def interval(self, key: Key, *, last_run: bool | None, succeeded: float | None) -> None:
        """Sets the metrics of an EtcdBackup with an interval. None is as for a schedule."""
        _put(self.interval_last_run, key, last_run)
        _put(self.interval_succeeded, key, succeeded)

    def forget_interval(self, key: Key) -> None:
        """Removes the series of an EtcdBackup that is gone, or that has no interval."""
        for gauge in self._of_intervals:
            gauge.remove(*key)

    def forget(self, key: Key) -> None:
        """Removes the series of a cluster that is gone."""
        for gauge in self._of_clusters:
            gauge.remove(*key)


def _gauges(
    registry: CollectorRegistry, prefix: str, *labels: str
) -> tuple[Callable[[str, str], Gauge], list[Gauge]]:
    """A function that creates the gauges of one kind of object, and the list of all that it has
    created, by which the series of an object can be removed."""
    made: list[Gauge] = []

    def gauge(name: str, text: str) -> Gauge:
        made.append(Gauge(f"{prefix}_{name}", text, labels, registry=registry))
        return made[-1]

    return gauge, made


def _put(gauge: Gauge, key: Key, value: float | None) -> None:
    if value is None:
        gauge.remove(*key)
    else:
        gauge.labels(*key).set(value)
