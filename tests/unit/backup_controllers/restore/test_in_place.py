"""An EtcdRestore in place of a cluster that exists."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from etcd_operator.kube.api import ETCD_BACKUPS, ETCD_CLUSTERS, ETCD_RESTORES, JOBS, Json, Rejected
from etcd_stateful.backup.restore_requests import GIVE_UP_SECONDS, replacing
from unit.backup_controllers.restore.one_restore import BY_NAME, OLD, S3, SPEC, World, backup


class TestInPlace:
    """A cluster with that name that the restore has not created."""

    ID = "00000000000000ab"
    NEW_ID = "00000000000000cd"
    SSD: ClassVar = {"nodeSelector": {"disk": "ssd"}}

    @pytest.fixture
    def world(self) -> World:
        world = World()
        metadata = {"namespace": "default", "name": "c"}
        world.kube.put(ETCD_CLUSTERS, {"metadata": metadata, "spec": OLD})
        world.serve()
        return world

    def confirm(self, world: World, named: str = ID) -> None:
        world.edit(SPEC | {"replace": {"clusterID": named}})

    def tell(self, world: World, state: str, message: str = "words", **said: Any) -> None:
        """What the cluster reports; without a generation once the restored one has taken over."""
        restore = {"uid": "uid-r", "generation": 2, "state": state, "message": message} | said
        its_id = self.ID if restore["generation"] else self.NEW_ID
        told = {key: one for key, one in restore.items() if one is not None}
        world.serve(restore=told, clusterID=its_id)

    async def test_without_confirmation_it_waits_and_names_the_id_and_the_field(
        self, world: World
    ) -> None:
        assert await world.settle() == 30.0

        told = world.condition()
        assert told["reason"] == "ClusterExists"
        assert f'set spec.replace.clusterID to "{self.ID}"' in told["message"]

    @pytest.mark.parametrize("spec", [SPEC, BY_NAME], ids=["by place", "by name"])
    async def test_the_store_column_is_set(self, world: World, spec: Json) -> None:
        world.kube.put(ETCD_BACKUPS, backup())
        world.edit({**spec, "replace": {"clusterID": self.ID}})
        await world.settle()
        assert world.status["backupStorageType"] == "S3"

    async def test_the_id_of_another_cluster_is_refused(self, world: World) -> None:
        self.confirm(world, "00000000000000cd")
        assert await world.settle() == 30.0

        told = world.condition()
        assert told["reason"] == "ClusterChanged"
        assert "names 00000000000000cd" in told["message"]
        assert self.ID in told["message"]
        assert "succeeded" not in world.status

    async def test_a_confirmed_replacement_does_not_create_a_missing_cluster(
        self, world: World
    ) -> None:
        world.kube.remove(ETCD_CLUSTERS, "default", "c")
        self.confirm(world)
        await world.settle()

        assert world.condition()["reason"] == "ClusterNotFound"
        assert not [name for kind, *_, name in world.kube.objects if kind == JOBS]

    async def test_the_report_of_the_cluster_is_passed_on(self, world: World) -> None:
        self.confirm(world)
        self.tell(world, "Working", "waiting for Job c-restore")
        assert await world.settle() == 2.0

        told = world.condition()
        assert (told["reason"], told["status"]) == ("Restoring", "Unknown")
        assert "Job c-restore" in told["message"]

    @pytest.mark.parametrize("begun", [True, False])
    async def test_a_cluster_whose_spec_had_become_wrong_seemed_to_be_restored(
        self, world: World, begun: bool
    ) -> None:
        """Nothing was done, and its pods may be stopped by then."""
        self.confirm(world)
        if begun:
            self.tell(world, "Working", "waiting for pods c-0 to stop")
        why = "spec.etcd.quotaBackend: must be a size"
        cluster = world.kube.live(ETCD_CLUSTERS, "c")
        refused = {"type": "Accepted", "status": "False", "message": why}
        cluster["status"]["conditions"] = [refused]
        world.kube.put(ETCD_CLUSTERS, cluster)
        assert await world.settle() == 2.0

        told = world.condition()
        assert (told["reason"], told["status"]) == ("Held", "False")
        assert told["message"].endswith(f"its spec is not accepted: {why}")

        world.clock.now += GIVE_UP_SECONDS
        assert await world.settle() is None
        assert world.status["succeeded"] is False

    async def test_the_right_id_is_not_refused_before_the_cluster_was_observed(
        self, world: World
    ) -> None:
        self.confirm(world)
        await world.settle()

        assert world.condition()["reason"] == "Restoring"
        assert world.condition()["message"].startswith(
            "EtcdCluster c has not begun the restore yet"
        )

    async def test_the_reason_for_waiting_is_reported_and_the_restore_is_not_over(
        self, world: World
    ) -> None:
        self.confirm(world)
        self.tell(world, "Held", "all 7 are used")
        assert await world.settle() == 2.0

        assert world.condition()["message"] == "all 7 are used"
        assert "succeeded" not in world.status

    async def test_an_unconfirmed_restore_brought_old_data_back_months_later(
        self, world: World
    ) -> None:
        """The cluster had been deleted for good."""
        await world.settle()
        world.clock.now += GIVE_UP_SECONDS
        assert await world.settle() is None
        assert world.status["succeeded"] is False
        assert "given up" in world.status["reason"]
        world.kube.remove(ETCD_CLUSTERS, "default", "c")

        assert await world.settle() is None
        assert not [name for kind, *_, name in world.kube.objects if kind == JOBS]
        world.edit(SPEC | {"pod": {"nodeSelector": {"disk": "ssd"}}})
        await world.settle()
        assert world.condition()["reason"] == "Reading"

    async def test_an_unconfirmed_restore_brought_old_data_back_when_the_operator_was_back(
        self, world: World
    ) -> None:
        """The cluster had been deleted for good while there was no operator."""
        await world.settle()
        world.clock.now += GIVE_UP_SECONDS
        world.kube.remove(ETCD_CLUSTERS, "default", "c")

        assert await world.settle() is None
        assert world.status["succeeded"] is False
        assert world.status["reason"].startswith("there was an EtcdCluster c, which is gone by now")
        assert not [name for kind, *_, name in world.kube.objects if kind == JOBS]

    @pytest.mark.parametrize("waits", ["unconfirmed", "Held"])
    async def test_a_restore_that_began_to_wait_while_a_clock_was_ahead_waited_until_that_time(
        self, world: World, waits: str
    ) -> None:
        """And for a day more: it replaced newer data a month later."""
        if waits == "Held":
            self.confirm(world)
            self.tell(world, "Held", "all 7 are used")
        real = world.clock.now
        world.clock.now += 30 * GIVE_UP_SECONDS
        await world.settle()
        world.clock.now = real + GIVE_UP_SECONDS

        assert await world.settle() is None
        assert "given up" in world.status["reason"]
        assert replacing(world.kube.live(ETCD_RESTORES, "c")) is None

    async def test_an_unconfirmed_restore_begins_once_the_cluster_is_gone_within_the_day(
        self, world: World
    ) -> None:
        await world.settle()
        world.clock.now += GIVE_UP_SECONDS - 1
        world.kube.remove(ETCD_CLUSTERS, "default", "c")
        await world.settle()
        assert world.condition()["reason"] == "Reading"
        world.clock.now += 2 * GIVE_UP_SECONDS
        await world.settle()

        assert "succeeded" not in world.status

    async def test_a_held_restore_replaced_newer_data_months_later(self, world: World) -> None:
        """A cluster of seven became one of five, and nobody remembered the restore."""
        self.confirm(world)
        self.tell(world, "Held", "all 7 are used")
        await world.settle()
        assert replacing(world.kube.live(ETCD_RESTORES, "c"))
        world.clock.now += GIVE_UP_SECONDS
        assert await world.settle() is None

        assert replacing(world.kube.live(ETCD_RESTORES, "c")) is None
        assert world.status["reason"].startswith("all 7 are used. This has not changed for a day")

    @pytest.mark.parametrize("waits", ["Working", "unseen", "ClusterNotFound", "ClusterChanged"])
    async def test_a_restore_that_waited_in_vain_replaced_newer_data_months_later(
        self, world: World, waits: str
    ) -> None:
        """No node had room for its Job's pod, its EtcdBackup had not succeeded, or the cluster with
        that ID was deleted and then created again with its claims."""
        self.confirm(world, self.ID if waits != "ClusterChanged" else "00000000000000cd")
        if waits == "ClusterNotFound":
            world.kube.remove(ETCD_CLUSTERS, "default", "c")
        if waits == "Working":
            self.tell(world, waits, "waiting for Job c-restore: 0/3 nodes are available")
        await world.settle()
        world.clock.now += GIVE_UP_SECONDS - 1
        await world.settle()
        assert replacing(world.kube.live(ETCD_RESTORES, "c"))
        world.clock.now += 1
        assert await world.settle() is None

        assert replacing(world.kube.live(ETCD_RESTORES, "c")) is None
        assert (
            "This has not changed for a day, so this EtcdRestore is given up"
            in world.status["reason"]
        )

    async def test_a_restore_that_waited_for_a_node_was_never_given_up(self, world: World) -> None:
        """Whenever a node was added or removed the message changed, and the day began again."""
        self.confirm(world)
        for hour in range(25):
            told = f"waiting for Job c-restore: 0/{3 + hour % 2} nodes are available"
            self.tell(world, "Working", told)
            assert await world.settle() == (2.0 if hour < 24 else None)
            world.clock.now += 3600

        assert replacing(world.kube.live(ETCD_RESTORES, "c")) is None

    async def test_a_restore_edited_while_its_cluster_was_not_observed_was_never_given_up(
        self, world: World
    ) -> None:
        """The spec of the EtcdCluster was refused, and its status stays as it was until that
        ends."""
        self.confirm(world)
        self.tell(world, "Working", "waiting for Job c-restore")
        await world.settle()
        world.edit(SPEC | {"pod": self.SSD, "replace": {"clusterID": self.ID}})
        assert await world.settle() == 2.0
        world.clock.now += GIVE_UP_SECONDS - 1
        assert await world.settle() == 2.0
        world.clock.now += 1
        assert await world.settle() is None

        assert replacing(world.kube.live(ETCD_RESTORES, "c")) is None
        assert world.status["reason"].startswith("the cluster has not seen the edited spec")

    @pytest.mark.parametrize("waits", ["Held", "Working"])
    async def test_each_short_outage_of_the_api_server_restarted_the_day_of_waiting(
        self, world: World, waits: str
    ) -> None:
        """Something broke for a minute every night, and the restore was never given up."""
        self.confirm(world)
        self.tell(world, waits, "all 7 are used")
        for _ in range(3):
            assert await world.settle() == 2.0
            world.clock.now += GIVE_UP_SECONDS // 3
            world.kube.failures["get EtcdCluster"] = [Rejected("c is forbidden", status=403)]
            assert await world.settle() == 30.0
            assert world.condition()["reason"] == "Refused"
        assert await world.settle() == 2.0
        assert await world.settle() is None

        assert replacing(world.kube.live(ETCD_RESTORES, "c")) is None
        assert world.status["reason"].startswith("all 7 are used. This has not changed for a day")

    async def test_a_different_reason_to_wait_starts_another_day(self, world: World) -> None:
        self.confirm(world, "00000000000000cd")
        await world.settle()
        world.clock.now += GIVE_UP_SECONDS - 1
        self.tell(world, "Held", "all 7 are used")
        for _ in range(3):
            await world.settle()
            world.clock.now += GIVE_UP_SECONDS // 3 - 1

        assert replacing(world.kube.live(ETCD_RESTORES, "c"))

    async def test_an_edit_after_giving_up_is_tried(self, world: World) -> None:
        self.confirm(world)
        self.tell(world, "Held", "all 7 are used")
        await world.settle()
        world.clock.now += GIVE_UP_SECONDS
        await world.settle()
        world.edit(SPEC | {"pod": self.SSD, "replace": {"clusterID": self.ID}})
        self.tell(world, "Held", "all 7 are used", generation=3)

        for _ in range(3):
            assert await world.settle() == 2.0
        assert replacing(world.kube.live(ETCD_RESTORES, "c"))

    async def test_work_after_the_takeover_is_not_given_up(self, world: World) -> None:
        self.confirm(world)
        self.tell(world, "Working", "c-3 to serve the restored data", generation=None)
        await world.settle()
        world.clock.now += 2 * GIVE_UP_SECONDS

        assert await world.settle() == 2.0
        assert "succeeded" not in world.status

    async def test_an_edit_starts_another_day(self, world: World) -> None:
        await world.settle()
        world.clock.now += GIVE_UP_SECONDS - 1
        world.edit(SPEC | {"pod": {"nodeSelector": {"disk": "ssd"}}})
        await world.settle()
        world.clock.now += GIVE_UP_SECONDS - 1
        assert await world.settle() == 30.0
        assert "succeeded" not in world.status

    async def test_a_restore_held_after_the_takeover_is_not_given_up(self, world: World) -> None:
        self.confirm(world)
        self.tell(world, "Held", "spec.paused is true", generation=None)
        await world.settle()
        world.clock.now += 2 * GIVE_UP_SECONDS

        assert await world.settle() == 2.0
        assert "succeeded" not in world.status

    async def test_a_failure_ends_the_restore_and_reports_what_is_left(self, world: World) -> None:
        self.confirm(world)
        self.tell(world, "Failed", "refused: etcd's hash")
        assert await world.settle() is None

        assert world.status["succeeded"] is False
        assert "keeps the data that it has" in world.status["reason"]

    async def test_a_failure_of_an_earlier_spec_does_not_end_the_restore(
        self, world: World
    ) -> None:
        self.confirm(world)
        self.tell(world, "Failed", generation=1)
        assert await world.settle() == 2.0

        assert "succeeded" not in world.status

    async def test_a_failure_after_the_takeover_is_not_the_end(self, world: World) -> None:
        """There is no way back then, but there may be a way forward."""
        self.confirm(world)
        self.tell(world, "Failed", "lost its volume before it served", generation=None)
        assert await world.settle() == 2.0

        assert "succeeded" not in world.status

    async def test_a_restore_succeeds_once_the_cluster_serves(self, world: World) -> None:
        self.confirm(world)
        source = "s3://mybucket/etcd.backup"
        self.tell(world, "Done", generation=None, source=source)
        cluster = world.kube.live(ETCD_CLUSTERS, "c")
        cluster["status"]["conditions"] = [{"type": "Available", "status": "False"}]
        world.kube.put(ETCD_CLUSTERS, cluster)
        assert await world.settle() == 2.0
        cluster["status"]["conditions"] = [{"type": "Available", "status": "True"}]
        world.kube.put(ETCD_CLUSTERS, cluster)

        assert await world.settle() is None
        assert world.status["succeeded"] is True
        assert "00000000000000cd" in world.condition()["message"]

    @pytest.mark.parametrize("spec", [SPEC | {"s3": S3 | {"path": "mybucket/corrected"}}, BY_NAME])
    async def test_a_backup_that_was_named_only_after_the_takeover_was_reported_as_restored(
        self, world: World, spec: Json
    ) -> None:
        """The first one proved to be the wrong one as soon as its data was there."""
        world.kube.put(ETCD_BACKUPS, backup())
        self.confirm(world)
        await world.settle()
        world.edit(spec | {"replace": {"clusterID": self.ID}})
        source = "s3://mybucket/etcd.backup"
        told: Json = {"generation": None, "source": source}
        self.tell(world, "Working", **told)
        await world.settle()
        assert world.condition()["reason"] == "BegunOtherwise"
        assert source in world.condition()["message"]
        assert "succeeded" not in world.status

        self.tell(world, "Done", **told)
        await world.settle()
        assert world.status["succeeded"] is False

    async def test_the_end_of_one_takeover_does_not_count_for_the_next(self, world: World) -> None:
        """Its ID was named when the first one had just come to its end."""
        self.confirm(world, self.NEW_ID)
        self.tell(world, "Done", generation=None, source="s3://mybucket/another")
        assert await world.settle() == 2.0

        assert world.condition()["reason"] == "Restoring"
        assert "has not begun the restore yet" in world.condition()["message"]

    async def test_the_result_of_another_restore_does_not_count(self, world: World) -> None:
        self.confirm(world)
        self.tell(world, "Done", uid="uid-other", generation=None)
        await world.settle()

        assert "succeeded" not in world.status

    @pytest.mark.parametrize("named", ["", "xyz", "0" * 17, "ab cd"])
    async def test_an_invalid_id_is_refused(self, world: World, named: str) -> None:
        self.confirm(world, named)
        await world.settle()

        assert world.condition()["reason"] == "InvalidSpec"
