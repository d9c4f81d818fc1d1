"""A status that another controller undoes each time is written more slowly."""

from __future__ import annotations

from contextlib import suppress

from fakes import FakeClock, FakeKube, cluster_body

from etcd_operator.backup_controllers.bounded import BoundedStatusWriter
from etcd_operator.kube.api import ETCD_BACKUPS, KubeError
from etcd_operator.kube.events import Events
from etcd_operator.kube.store import Store


async def test_a_fight_over_a_status_was_as_fast_as_the_api_server_answered() -> None:
    """Another controller wrote its own status at each of ours, which brought the next pass."""
    kube = FakeKube()
    metadata = cluster_body()["metadata"]
    kube.put(ETCD_BACKUPS, {"metadata": metadata, "spec": {}, "status": {}})
    now = 0.0
    events = Events(kube, instance="o")
    writer = BoundedStatusWriter(kube, Store(), events, ETCD_BACKUPS, clock=lambda: now)
    written, refusals = 0, []
    while now < 100.0:
        live = kube.live(ETCD_BACKUPS, "a")
        try:
            written += await writer.write(live, {"phase": "Creating"})
        except KubeError as error:
            refusals.append(str(error))
        now += 0.1
        kube.put(ETCD_BACKUPS, {**kube.live(ETCD_BACKUPS, "a"), "status": {"phase": "Running"}})

    assert 5 < written < 16
    assert "another controller keeps changing the status of EtcdBackup a" in refusals[0]
    assert await writer.write(kube.live(ETCD_BACKUPS, "a"), {"phase": "Failed"}), "that is news"


async def test_a_new_time_alone_is_no_news() -> None:
    """Each undone write of a condition takes another time of its transition."""
    kube, clock, written = FakeKube(), FakeClock(), 0
    kube.put(ETCD_BACKUPS, {"metadata": cluster_body()["metadata"], "spec": {}, "status": {}})
    events = Events(kube, instance="o")
    writer = BoundedStatusWriter(kube, Store(), events, ETCD_BACKUPS, clock=clock)
    for _ in range(100):
        live = kube.live(ETCD_BACKUPS, "a")
        condition = {"type": "Complete", "status": "False", "lastTransitionTime": clock.rfc3339()}
        with suppress(KubeError):
            written += await writer.write(live, {"conditions": [condition]})
        clock.now += 1.0
        kube.put(ETCD_BACKUPS, {**kube.live(ETCD_BACKUPS, "a"), "status": {}})

    assert 5 < written < 16
