"""A status is written to the object that it belongs to, or not at all, without waiting."""

from __future__ import annotations

import pytest
from fakes import FakeKube, cluster_body

from etcd_operator.kube.api import (
    ETCD_BACKUPS,
    ETCD_CLUSTERS,
    ETCD_RESTORES,
    ETCD_SCHEDULES,
    EVENTS,
    Conflict,
    Rejected,
    Unavailable,
)
from etcd_operator.kube.events import Events
from etcd_operator.kube.statuses import StatusWriter, write_status
from etcd_operator.kube.store import Store
from etcd_stateful.backup import status as backup_status
from etcd_stateful.backup.restore_requests import is_over

WRITE = "apply EtcdCluster/status"
STATUS = {"phase": "Creating"}


class Blind(FakeKube):
    """Like the API server: of a status write, it checks only the resourceVersion."""

    def _check(self, known, wanted):
        super()._check(known, {k: v for k, v in wanted.items() if k != "uid"})


class Merging(FakeKube):
    """Like the API server: what others have written stays in a status that is applied, unless the
    status names it."""

    async def apply(self, resource, manifest, *, status=False):
        before = self.live(resource, manifest["metadata"]["name"])["status"]
        written = await super().apply(resource, manifest, status=status)
        return self.put(resource, {**written, "status": merged(before, written["status"])})


def merged(theirs, ours):
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return {**theirs, **{key: merged(theirs.get(key), one) for key, one in ours.items()}}
    if ours and isinstance(ours, list) and isinstance(ours[0], dict):
        types = {one["type"] for one in ours}
        return [*ours, *(one for one in theirs or () if one["type"] not in types)]
    return ours


@pytest.fixture
def kube():
    return Blind()


@pytest.fixture
def body(kube):
    return kube.put(ETCD_CLUSTERS, cluster_body())


def alter(kube):
    live = kube.live(ETCD_CLUSTERS, "a")
    labels = {"times": str(len(live["metadata"].get("labels", {}).get("times", "")) + 1)}
    kube.put(ETCD_CLUSTERS, {**live, "metadata": {**live["metadata"], "labels": labels}})


def replace(kube):
    kube.remove(ETCD_CLUSTERS, "default", "a")
    kube.put(ETCD_CLUSTERS, cluster_body(size=5))


async def test_is_written_in_one_call(kube, body):
    written = await write_status(kube, ETCD_CLUSTERS, body, STATUS)

    assert written == kube.live(ETCD_CLUSTERS, "a")
    assert written["status"] == STATUS
    assert kube.calls == {WRITE: 1}


async def test_of_a_deleted_cluster_is_dropped(kube, body):
    kube.remove(ETCD_CLUSTERS, "default", "a")

    assert await write_status(kube, ETCD_CLUSTERS, body, STATUS) is None


@pytest.mark.parametrize("when", [WRITE, "get EtcdCluster"])
async def test_is_never_written_to_a_new_cluster_with_the_same_name(kube, body, when):
    """The cluster is replaced before the write, or between the conflict and the fresh read."""
    if when != WRITE:
        alter(kube)
    kube.before[when] = lambda: replace(kube)

    assert await write_status(kube, ETCD_CLUSTERS, body, STATUS) is None
    assert "status" not in kube.live(ETCD_CLUSTERS, "a")


async def test_of_a_cluster_that_is_gone_at_the_fresh_read_is_dropped(kube, body):
    alter(kube)
    kube.before["get EtcdCluster"] = lambda: kube.remove(ETCD_CLUSTERS, "default", "a")

    assert await write_status(kube, ETCD_CLUSTERS, body, STATUS) is None


async def test_based_on_an_older_body_is_written_after_one_fresh_read(kube, body):
    alter(kube)
    written = await write_status(kube, ETCD_CLUSTERS, body, STATUS)

    assert written["status"] == STATUS
    assert written["metadata"]["labels"] == {"times": "1"}
    assert kube.calls == {WRITE: 2, "get EtcdCluster": 1}


async def test_is_tried_again_once(kube, body):
    """A second change has caused an event, and the next pass has a newer status."""
    kube.failures[WRITE] = [Conflict("changed", status=409)] * 9

    assert await write_status(kube, ETCD_CLUSTERS, body, STATUS) is None
    assert kube.calls == {WRITE: 2, "get EtcdCluster": 1}


@pytest.mark.parametrize("error", [Unavailable("late"), Rejected("no", status=422)])
@pytest.mark.parametrize("first", [[], [Conflict("changed", status=409)]])
async def test_other_errors_are_raised_to_the_caller(kube, body, first, error):
    kube.failures[WRITE] = [*first, error]

    with pytest.raises(type(error)):
        await write_status(kube, ETCD_CLUSTERS, body, STATUS)


def said(kind, status="True"):
    return {"type": kind, "status": status, "reason": kind, "message": ""}


THEIRS = {
    "phase": "Running",
    "reason": "",
    "conditions": [said("Available"), said("Scaling"), said("Blocked")],
    "restore": {"uid": "u", "generation": 3},
    "members": {"ready": ["a-mx6k2vbz7p"], "unready": []},
}
OURS = {
    "phase": "Creating",
    "conditions": [said("Available", "False")],
    "restore": {"uid": "u"},
    "members": {"ready": [], "unready": []},
}


class TestWhatOthersHaveWritten:
    """As the coreos operator, or a tool that restored the object together with its status. An apply
    leaves it as it is, so the cluster was Scaling, and Blocked, for ever."""

    @pytest.fixture
    def kube(self):
        return Merging()

    async def test_stayed_for_ever(self, kube):
        body = kube.put(ETCD_CLUSTERS, cluster_body() | {"status": THEIRS})

        written = await write_status(kube, ETCD_CLUSTERS, body, OURS)

        assert written["status"] == OURS
        assert kube.live(ETCD_CLUSTERS, "a") == written
        assert kube.calls == {WRITE: 1, "patch EtcdCluster/status": 1}

    async def test_a_condition_of_another_controller_was_removed_each_time(self, kube):
        theirs = THEIRS | {"conditions": [*THEIRS["conditions"], said("example.com/Audited")]}
        body = kube.put(ETCD_CLUSTERS, cluster_body() | {"status": theirs})

        written = await write_status(kube, ETCD_CLUSTERS, body, OURS)
        again = await StatusWriter(kube, Store(), Events(kube, instance="o"), ETCD_CLUSTERS).write(
            written, OURS
        )

        stays = {"conditions": [*OURS["conditions"], said("example.com/Audited")]}
        assert written["status"] == OURS | stays
        assert not again

    def test_a_condition_of_another_controller_became_ours_in_the_next_apply(self):
        """It stayed after the other controller had taken it back."""
        body = {"metadata": {}, "status": {"conditions": [said("example.com/Audited")]}}

        told = backup_status.failing(body, "Refused", "no", "2026-01-01T00:00:00Z")

        assert {one["type"] for one in told["conditions"]} == {"Accepted", "Complete", "Ready"}

    async def test_a_restore_that_had_once_failed_was_over_before_it_began(self, kube):
        metadata = cluster_body()["metadata"] | {"generation": 1}
        body = kube.put(ETCD_RESTORES, {"metadata": metadata, "status": {"succeeded": False}})

        written = await write_status(kube, ETCD_RESTORES, body, {"observedGeneration": 1})

        assert not is_over(written)

    async def test_is_not_removed_from_another_cluster_with_the_same_name(self, kube):
        body = kube.put(ETCD_CLUSTERS, cluster_body() | {"status": THEIRS})
        anew = cluster_body() | {"status": THEIRS}
        anew["metadata"]["uid"] = "uid-new"
        kube.before["patch EtcdCluster/status"] = lambda: (
            kube.remove(ETCD_CLUSTERS, "default", "a"),
            kube.put(ETCD_CLUSTERS, anew),
        )

        assert await write_status(kube, ETCD_CLUSTERS, body, OURS) is None
        assert kube.live(ETCD_CLUSTERS, "a")["status"] == THEIRS


@pytest.mark.parametrize("resource", [ETCD_BACKUPS, ETCD_RESTORES, ETCD_SCHEDULES])
async def test_with_a_field_that_an_older_crd_drops_was_written_at_each_pass(kube, resource):
    real = kube.apply

    async def apply(resource, manifest, *, status=False):
        return await real(resource, {**manifest, "status": {}}, status=status)

    kube.apply, store = apply, Store()
    body = kube.put(resource, {"metadata": cluster_body()["metadata"], "spec": {}})
    writer = StatusWriter(kube, store, Events(kube, instance="o"), resource)

    assert await writer.write(body, STATUS)
    assert not await writer.write(store.get(resource, "default", "a"), STATUS)
    assert await writer.write(store.get(resource, "default", "a"), {"phase": "Running"})


class TestARefusal:
    """As on Kubernetes 1.30, for a spec that was stored before a rule of the CRD. Only the log told
    of it, unless the object was an EtcdCluster."""

    async def messages(self, kube, resource, error):
        body = kube.put(resource, {"metadata": cluster_body()["metadata"], "spec": {}})
        kube.failures[f"apply {resource.kind}/status"] = [error] * 3
        writer = StatusWriter(kube, Store(), Events(kube, instance="o"), resource)
        for _ in range(3):
            with pytest.raises(Rejected):
                await writer.write(body, STATUS)
        found = [one for (kind, *_), one in kube.objects.items() if kind == EVENTS]
        assert all(one["involvedObject"]["kind"] == resource.kind for one in found)
        return [f"{one['reason']}: {one['message']}" for one in found]

    @pytest.mark.parametrize("resource", [ETCD_BACKUPS, ETCD_RESTORES, ETCD_SCHEDULES])
    async def test_was_told_to_nobody_who_looks_at_the_object(self, kube, resource):
        [message] = await self.messages(kube, resource, Rejected("spec.s3: required", status=422))

        assert message.startswith("StatusRefused: The status is out of date")
        assert "spec.s3" in message

    async def test_in_a_namespace_that_ends_is_no_event(self, kube):
        error = Rejected("forbidden: namespace n is being terminated", status=403)

        assert await self.messages(kube, ETCD_BACKUPS, error) == []
