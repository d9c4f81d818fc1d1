"""From watch events to keys: what counts as news, for which cluster, and what a LIST corrects."""

import asyncio
import contextlib
import itertools

import pytest
from fakes import FakeKube
from shell_clock import jumping

from etcd_operator.kube.api import (
    CLAIMS,
    DISRUPTION_BUDGETS,
    ETCD_BACKUPS,
    ETCD_CLUSTERS,
    ETCD_RESTORES,
    ETCD_SCHEDULES,
    NETWORK_POLICIES,
    PODS,
    SECRETS,
    STATEFUL_SETS,
    Listing,
    Rejected,
    Unavailable,
)
from etcd_operator.kube.events import Events
from etcd_operator.kube.finder import Finder
from etcd_operator.kube.statuses import StatusWriter
from etcd_operator.kube.store import Store, key_of
from etcd_operator.kube.watches import OURS, SELECTORS, Scope
from etcd_operator.queue import informer as informer_module
from etcd_operator.queue.informer import Informer
from etcd_operator.settings import Settings
from etcd_operator.telemetry.health import Health
from etcd_operator.telemetry.metrics import Metrics
from etcd_stateful import naming


def thing(version, name="a", *, namespace="ns", cluster="a", uid="u1"):
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid,
            "resourceVersion": str(version),
            "labels": {"app.kubernetes.io/instance": cluster} if cluster else {},
        }
    }


class Kube:
    """Lists what a test sets, and records each request."""

    def __init__(self):
        self.objects = {}
        self.version = 100
        self.asked = []
        self.trouble = {}

    async def get(self, resource, namespace, name):
        found = self.objects.get(resource, [])
        return next((one for one in found if key_of(one) == (namespace, name)), None)

    async def list(self, resource, namespace, selector=""):
        self.asked.append((resource, namespace, selector))
        await asyncio.sleep(0.01)
        trouble = self.trouble.get(resource) or self.trouble.get(namespace)
        if trouble is not None:
            raise trouble
        found = self.objects.get(resource, [])
        shown = [one for one in found if namespace in (None, one["metadata"]["namespace"])]
        return Listing(shown, self.version)


class Watches:
    """Takes kopf's place."""

    def __init__(self, *_, **__):
        self.started = 0
        self.stopped = 0
        self.restarted = 0
        self.quiet = []
        self.hopeless = False

    def start(self):
        self.started += 1

    async def stop(self):
        self.stopped += 1

    def restart(self, silent):
        assert silent == self.quiet
        self.restarted += 1
        self.quiet = []

    def stuck(self):
        return self.hopeless

    def missing(self):
        return self.quiet

    def silent(self):
        return self.quiet


@pytest.fixture
def keys():
    return []


@pytest.fixture
def kube():
    return Kube()


@pytest.fixture
def metrics():
    return Metrics()


@pytest.fixture
def make(monkeypatch, kube, keys, metrics):
    monkeypatch.setattr(informer_module, "Watches", Watches)

    async def at_once():
        pass

    def make(first_round=at_once, **settings):
        return Informer(
            kube,
            None,
            Store(lambda owner: keys.append((owner.resource.plural, owner.key))),
            settings=Settings(**settings),
            metrics=metrics,
            health=Health(600, clock=itertools.count().__next__),
            enqueue=lambda resource, key: keys.append((resource.plural, key)),
            first_round=first_round,
        )

    return make


@pytest.fixture
def informer(make):
    return make()


@contextlib.asynccontextmanager
async def running(informer):
    task = asyncio.create_task(informer.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", None])
def test_a_change_of_a_child_queues_its_cluster(informer, keys, kind):
    informer.on_event(PODS, kind, thing(5, "a-0"))

    assert keys == [("etcdclusters", ("ns", "a"))]


def test_the_event_of_an_own_write_queues_nothing(informer, keys):
    informer._store.put(PODS, thing(5, "a-0"))
    informer.on_event(PODS, "MODIFIED", thing(5, "a-0"))
    informer.on_event(PODS, "MODIFIED", thing(4, "a-0"))

    assert keys == []


def test_events_are_counted(informer, metrics):
    for kind in ("ADDED", "MODIFIED", None):
        informer.on_event(PODS, kind, thing(5, "a-0"))

    name = "etcd_operator_watch_events_total"
    for kind in ("ADDED", "MODIFIED", "LISTED"):
        labels = {"resource": "pods", "type": kind}
        assert metrics.registry.get_sample_value(name, labels) == 1


def test_a_deleted_child_queues_its_cluster_once(informer, keys):
    informer.on_event(PODS, "ADDED", thing(5, "a-0"))
    keys.clear()
    informer.on_event(PODS, "DELETED", thing(6, "a-0"))
    informer.on_event(PODS, "DELETED", thing(6, "a-0"))

    assert keys == [("etcdclusters", ("ns", "a"))]
    assert informer._store.get(PODS, "ns", "a-0") is None


def test_a_child_whose_instance_label_changes_queues_both_clusters(informer, keys):
    informer.on_event(PODS, "ADDED", thing(5, "a-0"))
    keys.clear()
    informer.on_event(PODS, "MODIFIED", thing(6, "a-0", cluster="b"))

    assert set(keys) == {("etcdclusters", ("ns", "a")), ("etcdclusters", ("ns", "b"))}


def test_a_child_that_loses_its_instance_label_queues_its_former_cluster(informer, keys):
    informer.on_event(PODS, "ADDED", thing(5, "a-0"))
    keys.clear()
    informer.on_event(PODS, "MODIFIED", thing(6, "a-0", cluster=""))

    assert keys == [("etcdclusters", ("ns", "a"))]


def test_a_custom_resource_queues_itself(informer, keys):
    informer.on_event(ETCD_CLUSTERS, "ADDED", thing(5, "mine", cluster=""))
    informer.on_event(ETCD_BACKUPS, "ADDED", thing(6, "b", cluster="mine"))
    informer.on_event(ETCD_CLUSTERS, "DELETED", thing(7, "mine", cluster=""))

    assert keys == [
        ("etcdclusters", ("ns", "mine")),
        ("etcdbackups", ("ns", "b")),
        ("etcdclusters", ("ns", "mine")),
    ]


def test_a_backup_also_queues_its_schedule(informer, keys):
    made = thing(5, "s-100", cluster="")
    made["metadata"]["labels"] = {naming.SCHEDULE: "s"}
    informer.on_event(ETCD_BACKUPS, "ADDED", made)

    assert sorted(keys) == [("etcdbackups", ("ns", "s-100")), ("etcdbackupschedules", ("ns", "s"))]


@pytest.mark.parametrize(
    ("resource", "labels", "other"),
    [
        (ETCD_RESTORES, {}, (ETCD_CLUSTERS.plural, ("ns", "r"))),
        (ETCD_BACKUPS, {naming.SCHEDULE: "s"}, (ETCD_SCHEDULES.plural, ("ns", "s"))),
    ],
    ids=["restore", "backup"],
)
def test_a_status_written_here_queues_the_object_that_waits_for_it(
    informer, keys, resource, labels, other
):
    """The answer to the write may arrive before the event. A cluster that waited for the end of its
    restore then slept for up to a minute."""
    written = thing(7, "r", cluster=None)
    written["metadata"]["labels"] = labels
    informer._store.put(resource, written)

    informer.on_event(resource, "MODIFIED", written)

    assert keys == [other]


@pytest.mark.parametrize("kind", ["ADDED", "DELETED"])
async def test_a_backup_that_a_restore_read_before_its_event_was_never_started(
    informer, kube, keys, kind
):
    """Both were applied at once. For the store, the event was no news."""
    finder = Finder(kube, informer._store)
    backup = thing(7, "b", cluster=None)
    if kind == "DELETED":
        informer._store.put(ETCD_BACKUPS, backup)
    else:
        kube.objects[ETCD_BACKUPS] = [backup]
    await finder.read(ETCD_BACKUPS, "ns", "b")
    informer.on_event(ETCD_BACKUPS, kind, thing(8 if kind == "DELETED" else 7, "b", cluster=None))

    assert keys == [("etcdbackups", ("ns", "b"))]


@pytest.mark.parametrize("kind", ["ADDED", "DELETED"])
async def test_a_pod_of_a_backup_that_its_cluster_read_first_did_not_queue_the_backup(
    informer, kube, keys, kind
):
    pod = thing(7, "b-1")
    pod["metadata"]["labels"][naming.LABEL_MANAGED_BY] = naming.MANAGER
    pod["metadata"]["annotations"] = {naming.BACKUP: "b"}
    if kind == "DELETED":
        informer._store.put(PODS, pod)
    else:
        kube.objects[PODS] = [pod]
    await Finder(kube, informer._store).read_all(PODS, "ns", "a")
    informer.on_event(PODS, kind, pod)

    assert keys == [("etcdbackups", ("ns", "b"))]


@pytest.mark.parametrize("edited", [False, True])
async def test_an_edit_followed_by_a_status_write_was_not_reconciled(informer, keys, edited):
    """The event of the edit was no news to the store either, which had the answer to the write."""
    kube = FakeKube()
    body = kube.put(ETCD_BACKUPS, thing(1, "b", cluster=None) | {"spec": {"s3": {}}})
    informer._store.put(ETCD_BACKUPS, body)
    if edited:
        kube.put(ETCD_BACKUPS, body | {"spec": {"s3": {"path": "a/b"}}})
    events = Events(kube, instance="test")
    statuses = StatusWriter(kube, informer._store, events, ETCD_BACKUPS)
    assert await statuses.write(body, {"phase": "x"})
    informer.on_event(ETCD_BACKUPS, "MODIFIED", kube.live(ETCD_BACKUPS, "b", "ns"))

    assert keys == [("etcdbackups", ("ns", "b"))] * edited


def test_an_object_without_an_owner_queues_nothing(informer, keys):
    informer.on_event(SECRETS, "ADDED", thing(5, "s", cluster=""))

    assert keys == []


@jumping
async def test_everything_is_listed_with_its_selector_before_the_watches_start(informer, kube):
    kube.objects = {PODS: [thing(5, "a-0")], ETCD_CLUSTERS: [thing(6, "a")]}
    async with running(informer):
        await asyncio.sleep(0.05)
        assert not informer.synced.is_set()
        assert informer._watches.started == 0
        assert informer.not_ready()
        await asyncio.sleep(0.1)
        assert informer.synced.is_set()
        assert informer._watches.started == 1
        assert informer.not_ready() == []

    assert kube.asked == [(resource, None, selector) for resource, selector in SELECTORS.items()]
    assert SELECTORS[PODS] == OURS == "app.kubernetes.io/managed-by=etcd-operator"
    assert SELECTORS[ETCD_CLUSTERS] == ""
    assert informer._watches.stopped == 1


@jumping
async def test_only_served_namespaces_are_listed(make, kube):
    informer = make(watch_namespaces=("x", "y"))
    async with running(informer):
        await asyncio.sleep(1)

    assert {(resource, namespace) for resource, namespace, _ in kube.asked} == {
        (resource, namespace) for resource in SELECTORS for namespace in ("x", "y")
    }


@jumping
async def test_the_informer_waits_for_the_api_server_and_the_crds(informer, kube, caplog):
    kube.trouble[ETCD_CLUSTERS] = Rejected("the server could not find it", status=404)
    async with running(informer):
        await asyncio.sleep(100)
        assert not informer.synced.is_set()
        assert informer._watches.started == 0
        assert len(caplog.records) < 10
        kube.trouble.clear()
        await asyncio.sleep(31)
        assert informer.synced.is_set()


@jumping
async def test_a_missing_crd_was_only_a_404(informer, kube, caplog):
    """As with `crds.install: false` beside the CRDs of the coreos operator, which had no
    schedules."""
    kube.trouble[ETCD_SCHEDULES] = Rejected(
        "list /apis/x/etcdbackupschedules: HTTP 404", status=404
    )
    async with running(informer):
        await asyncio.sleep(5)
        said = caplog.records[-1].getMessage()
        assert "etcdbackupschedules: HTTP 404. The custom resource definition" in said
        assert "crds.install" in said


@jumping
async def test_the_initial_list_queues_nothing(informer, kube, keys):
    kube.objects = {ETCD_CLUSTERS: [thing(5, "a")], ETCD_BACKUPS: [thing(6, "b")]}
    async with running(informer):
        await informer.synced.wait()

    assert keys == []
    assert informer._store.keys(ETCD_BACKUPS) == [("ns", "b")]


@jumping
async def test_the_watches_start_after_the_first_passes(make):
    """They list a whole fleet once more, and need more of the processor than all its passes."""
    begun = asyncio.Event()
    informer = make(begun.wait)
    async with running(informer):
        await informer.synced.wait()
        await asyncio.sleep(0.5)
        assert informer._watches.started == 0
        begun.set()
        await asyncio.sleep(0.1)
        assert informer._watches.started == 1


@jumping
async def test_the_watches_of_a_standby_do_not_wait_for_passes(make):
    """A standby's queue is not worked on, but it has to be up to date."""
    informer = make(asyncio.Event().wait)
    async with running(informer):
        await informer.synced.wait()
        await asyncio.sleep(informer_module.FIRST_ROUND_SECONDS + 0.1)
        assert informer._watches.started == 1


@jumping
async def test_a_resync_queues_every_cluster_once_per_interval(make, kube, keys):
    informer = make(resync_seconds=600)
    kube.objects = {ETCD_CLUSTERS: [thing(5, "a"), thing(6, "b")]}
    async with running(informer):
        await asyncio.sleep(1)
        keys.clear()
        kube.asked.clear()
        await asyncio.sleep(600 * 3)

    assert len(kube.asked) == 3 * len(SELECTORS)
    assert keys == 3 * [("etcdclusters", ("ns", "a")), ("etcdclusters", ("ns", "b"))]


@jumping
async def test_a_resync_finds_a_change_that_no_watch_reported(make, kube, keys, metrics):
    informer = make(resync_seconds=600)
    kube.objects = {PODS: [thing(5, "a-0")]}
    async with running(informer):
        await asyncio.sleep(1)
        keys.clear()
        kube.objects = {}
        kube.version = 200
        await asyncio.sleep(601)

    assert keys == [("etcdclusters", ("ns", "a"))]
    assert informer._store.get(PODS, "ns", "a-0") is None
    name = "etcd_operator_resync_changes_total"
    assert metrics.registry.get_sample_value(name, {"resource": "pods"}) == 1


@jumping
async def test_a_failed_resync_is_retried_soon_and_does_not_count(make, kube, keys):
    informer = make(resync_seconds=600)
    async with running(informer):
        await asyncio.sleep(1)
        before = informer._health.resynced
        kube.trouble[PODS] = Unavailable("away")
        await asyncio.sleep(640)
        assert informer._health.resynced == before
        kube.trouble.clear()
        await asyncio.sleep(31)
        assert informer._health.resynced > before


@jumping
async def test_a_list_by_kopf_is_followed_by_our_own(informer, kube, keys):
    kube.objects = {PODS: [thing(5, "a-0")]}
    async with running(informer):
        await asyncio.sleep(1)
        kube.asked.clear()
        keys.clear()
        kube.objects = {}
        kube.version = 200
        for _ in range(3):
            informer.on_listed(Scope(PODS, None))
        await asyncio.sleep(2)

    assert kube.asked == [(PODS, None, OURS)]
    assert keys == [("etcdclusters", ("ns", "a"))]


@jumping
async def test_a_failed_list_after_one_by_kopf_is_retried(informer, kube):
    async with running(informer):
        await asyncio.sleep(1)
        kube.asked.clear()
        kube.trouble[PODS] = Unavailable("away")
        informer.on_listed(Scope(PODS, None))
        await asyncio.sleep(60)
        assert 10 <= len(kube.asked) <= 15
        kube.trouble.clear()
        await asyncio.sleep(6)
        tries = len(kube.asked)
        await asyncio.sleep(100)

    assert tries == len(kube.asked) <= 16


@jumping
async def test_silent_watches_are_restarted_once_the_api_server_answers(informer, kube, metrics):
    async with running(informer):
        await asyncio.sleep(1)
        informer._watches.quiet = [Scope(PODS, None)]
        kube.trouble[PODS] = Unavailable("away")
        await asyncio.sleep(100)
        assert informer._watches.restarted == 0
        assert informer.not_ready() == ["no watch yet: /api/v1/pods"]
        kube.trouble.clear()
        await asyncio.sleep(60)
        assert informer._watches.restarted == 1

    name = "etcd_operator_informer_restarts_total"
    assert metrics.registry.get_sample_value(name) == 1


@jumping
async def test_watches_that_cannot_be_restarted_end_the_process(informer):
    async with running(informer) as task:
        await asyncio.sleep(1)
        informer._watches.hopeless = True
        await asyncio.wait([task], timeout=60)

        assert task.done()
        assert task.exception() is not None


@jumping
async def test_an_api_server_restored_from_an_older_snapshot_ends_the_process(
    informer, kube, caplog
):
    """Otherwise the store would reject everything as too old, until the versions have caught up."""
    kube.objects = {ETCD_CLUSTERS: [thing(95)]}
    async with running(informer) as task:
        await asyncio.sleep(1)
        kube.version = 50
        informer.on_listed(Scope(ETCD_CLUSTERS, None))
        await asyncio.sleep(20)
        assert not task.done(), "it may be of a moment"
        assert informer._store.get(ETCD_CLUSTERS, "ns", "a")
        await asyncio.wait([task], timeout=60)

        assert task.done()
        assert "was of 100" in repr(task.exception())
        assert len([r for r in caplog.records if "was of 100" in r.getMessage()]) == 1


@jumping
async def test_a_list_that_is_briefly_behind_does_not_end_the_process(informer, kube):
    async with running(informer) as task:
        await asyncio.sleep(1)
        for _ in range(5):
            kube.version = 50
            informer.on_listed(Scope(PODS, None))
            await asyncio.sleep(20)
            kube.version = 100
            await asyncio.sleep(20)
        assert not task.done()
        assert not informer._fallen


@jumping
async def test_a_list_that_finishes_after_a_later_one_is_not_a_step_back(informer, kube):
    """It shows the state at its beginning, which is earlier, and right."""
    async with running(informer):
        await asyncio.sleep(1)
        slow = asyncio.create_task(informer._list(Scope(PODS, None)))
        await asyncio.sleep(0)
        real, kube.list = kube.list, None

        async def later(*_):
            return Listing([], 200)

        kube.list = later
        await informer._list(Scope(PODS, None))
        kube.list = real
        await slow
        assert not informer._fallen
        assert informer._newest[Scope(PODS, None)] == 200


FORBIDDEN = Rejected("pods is forbidden", status=403)


@jumping
async def test_clusters_in_a_namespace_without_its_role_are_no_longer_reconciled(make, kube, keys):
    informer = make(watch_namespaces=("x", "ns"), resync_seconds=200)
    kube.objects = {ETCD_CLUSTERS: [thing(5)], PODS: [thing(6, "a-0")]}
    async with running(informer):
        await asyncio.sleep(5)
        kube.trouble["ns"] = FORBIDDEN
        await asyncio.sleep(400)
        assert informer._store.get(ETCD_CLUSTERS, "ns", "a"), "it may be of a moment"
        await asyncio.sleep(200)
        keys.clear()
        await asyncio.sleep(10)
        assert informer._store.get(ETCD_CLUSTERS, "ns", "a") is None

        await asyncio.sleep(600)
        assert keys == []
        kube.trouble.clear()
        await asyncio.sleep(200)
        assert informer._store.get(ETCD_CLUSTERS, "ns", "a")
        assert ("etcdclusters", ("ns", "a")) in keys


@jumping
async def test_a_forbidden_namespace_does_not_block_the_others(make, kube, caplog):
    informer = make(watch_namespaces=("x", "gone"), resync_seconds=600)
    kube.trouble["gone"] = FORBIDDEN
    async with running(informer):
        await asyncio.sleep(5)
        assert informer.synced.is_set()
        refused = [scope for scope in informer._scopes if scope.namespace == "gone"]
        informer._watches.quiet = refused[:]
        assert informer.not_ready() == []
        before = informer._health.resynced
        await asyncio.sleep(1200)
        assert informer._health.resynced > before
        assert informer._watches.restarted == 0
        left_out = [r for r in caplog.records if "not watched until" in r.getMessage()]
        assert len(left_out) == len(refused)

        del kube.trouble["gone"]
        informer.on_listed(Scope(PODS, "gone"))
        await asyncio.sleep(2)
        # It is readable again, so its watch is waited for again.
        assert informer.not_ready() == [f"no watch yet: {PODS.path('gone')}"]


@jumping
async def test_what_may_not_be_listed_is_not_taken_for_absent(make, kube):
    informer = make(watch_namespaces=("x", "ns"), resync_seconds=200)
    kube.trouble[PODS] = FORBIDDEN
    async with running(informer):
        await asyncio.sleep(5)
        assert informer.synced.is_set()
        informer._store.check_listed(CLAIMS, "ns")
        with pytest.raises(Rejected, match="pods is forbidden"):
            informer._store.check_listed(PODS, "ns")
        kube.trouble.clear()
        await asyncio.sleep(200)
        informer._store.check_listed(PODS, "ns")

        kube.trouble[PODS] = FORBIDDEN  # as for a moment during upgrades of the API server
        await asyncio.sleep(200)
        informer._store.check_listed(PODS, "ns")


@jumping
async def test_a_role_that_lost_a_rule_left_a_cluster_as_it_was_last_seen(make, kube, keys):
    """A StatefulSet that was deleted then was never put back, and the status said Ready."""
    informer = make(watch_namespaces=("x", "ns"), resync_seconds=200)
    kube.objects = {
        ETCD_CLUSTERS: [thing(5)],
        PODS: [thing(6, "a-0")],
        STATEFUL_SETS: [thing(7)],
    }
    async with running(informer):
        await asyncio.sleep(5)
        kube.trouble |= {PODS: FORBIDDEN, STATEFUL_SETS: FORBIDDEN}
        await asyncio.sleep(400)
        informer._store.check_listed(PODS, "ns")
        keys.clear()
        await asyncio.sleep(200)

        assert informer._store.get(STATEFUL_SETS, "ns", "a") is None, "it is read by its name"
        with pytest.raises(Rejected, match="pods is forbidden"):
            informer._store.check_listed(PODS, "ns")
        assert ("etcdclusters", ("ns", "a")) in keys


@jumping
async def test_a_namespace_that_lost_its_role_was_listed_and_logged_for_ever(make, kube, caplog):
    informer = make(watch_namespaces=("x", "gone"), resync_seconds=600)
    async with running(informer):
        await asyncio.sleep(5)
        kube.trouble["gone"] = FORBIDDEN
        informer.on_listed(Scope(PODS, "gone"))
        kube.asked.clear()
        await asyncio.sleep(500)
        assert len(kube.asked) == 1
        [said] = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
        assert "not watched until the operator" in said


UNREADABLE = Unavailable("list secrets: unable to transform key: no matching key", status=500)
"""As of Secrets that were encrypted with a key that is lost."""


@jumping
async def test_a_namespace_that_cannot_be_listed_for_good_kept_the_others_from_being_served(
    make, kube, caplog
):
    informer = make(watch_namespaces=("x", "bad"), resync_seconds=200)
    kube.objects = {ETCD_CLUSTERS: [thing(5, namespace="x")]}
    kube.trouble["bad"] = UNREADABLE
    async with running(informer):
        await asyncio.sleep(10)
        assert not informer.synced.is_set(), "it may be of a moment"
        await asyncio.sleep(60)
        assert informer.synced.is_set()
        assert informer._store.get(ETCD_CLUSTERS, "x", "a")
        with pytest.raises(Rejected, match="unable to transform key"):
            informer._store.check_listed(PODS, "bad")
        informer._store.check_listed(PODS, "x")
        informer._watches.quiet = [Scope(PODS, "bad")]
        before = informer._health.resynced
        await asyncio.sleep(1000)
        assert informer._health.resynced > before
        assert informer._watches.restarted == 0
        assert informer.not_ready() == []
        told = [record.getMessage() for record in caplog.records]
        said = [words for words in told if "namespace bad is left out" in words]
        assert len(said) == len(SELECTORS)

        kube.trouble.clear()
        kube.objects[ETCD_CLUSTERS].append(thing(6, namespace="bad"))
        informer.on_listed(Scope(PODS, "bad"))
        informer.on_listed(Scope(ETCD_CLUSTERS, "bad"))
        await asyncio.sleep(2)
        informer._store.check_listed(PODS, "bad")
        assert informer._store.get(ETCD_CLUSTERS, "bad", "a")


@jumping
async def test_what_was_listed_in_a_namespace_stays_known_while_it_cannot_be_listed(make, kube):
    informer = make(watch_namespaces=("x", "bad"), resync_seconds=200)
    kube.objects = {ETCD_CLUSTERS: [thing(5, namespace="bad")]}
    async with running(informer):
        await asyncio.sleep(5)
        kube.trouble["bad"] = UNREADABLE
        await asyncio.sleep(2000)
        assert informer._store.get(ETCD_CLUSTERS, "bad", "a")
        informer._store.check_listed(PODS, "bad")


@jumping
@pytest.mark.parametrize("namespaces", [("x", "y"), ("x",), None])
async def test_the_informer_waits_for_a_resource_that_is_listed_nowhere(make, kube, namespaces):
    informer = make(watch_namespaces=namespaces)
    kube.trouble[PODS] = UNREADABLE
    async with running(informer):
        await asyncio.sleep(300)
        assert not informer.synced.is_set()


@jumping
async def test_the_informer_waits_if_it_may_read_nothing_at_all(make, kube):
    informer = make(watch_namespaces=("x", "y"))
    kube.trouble["x"] = kube.trouble["y"] = FORBIDDEN
    async with running(informer):
        await asyncio.sleep(100)
        assert not informer.synced.is_set()
        kube.trouble.clear()
        await asyncio.sleep(31)
        assert informer.synced.is_set()


@jumping
@pytest.mark.parametrize("resource", [NETWORK_POLICIES, DISRUPTION_BUDGETS])
async def test_a_rule_missing_from_the_cluster_role_stopped_all_reconciling(make, kube, resource):
    informer = make(resync_seconds=200)
    kube.objects = {resource: [thing(6, "a")]}
    async with running(informer):
        await asyncio.sleep(5)
        kube.trouble[resource] = FORBIDDEN
        await asyncio.sleep(400)
        assert informer._store.get(resource, "ns", "a"), "it may be of a moment"
        before = informer._health.resynced
        await asyncio.sleep(400)
        assert informer._health.resynced > before
        assert informer._store.get(resource, "ns", "a") is None

    again = make(resync_seconds=200)
    async with running(again):
        await asyncio.sleep(5)
        assert again.synced.is_set()


@jumping
async def test_with_all_namespaces_a_forbidden_list_blocks_the_sync(informer, kube):
    kube.trouble[PODS] = FORBIDDEN
    async with running(informer):
        await asyncio.sleep(100)
        assert not informer.synced.is_set()
