"""Which cluster an EtcdBackup backs up: by name, by endpoints; and where its image is from."""

from __future__ import annotations

from typing import Any

import pytest
from fakes import PLAINTEXT
from worlds import body as cluster_body

from etcd_operator.kube.api import (
    ETCD_BACKUPS,
    ETCD_CLUSTERS,
    JOBS,
    PODS,
    SERVICES,
    STATEFUL_SETS,
    Json,
)
from etcd_stateful import naming
from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.backup import order
from etcd_stateful.manifests.services import client_service, headless_service
from etcd_stateful.manifests.statefulset import stateful_set
from unit.backup_controllers.backup.one_backup import World, made

FORMED: Json = {"clusterID": "00000000000000ab"}


BY_EITHER = pytest.mark.parametrize(
    "of",
    [{"etcdEndpoints": None, "clusterRef": {"name": "c"}},
     {"etcdEndpoints": ["https://c-client:2379"]}],
    ids=["by name", "by endpoints"],
)  # fmt: skip


class TestByTheNameOfACluster:
    async def test_a_missing_cluster_is_reported(self, world: World) -> None:
        world.declare(etcdEndpoints=None, clusterRef={"name": "c"})

        assert await world.settle() == 10.0

        assert world.condition()["reason"] == "ClusterNotFound"
        assert "'c'" in world.condition()["message"]

    async def test_members_and_cluster_id_are_passed_to_the_job(self, world: World) -> None:
        cluster = cluster_body(3)
        cluster["metadata"] |= {"namespace": "default", "name": "c"}
        members = {"ready": ["c-0", "c-3"], "unready": ["c-1"]}
        cluster["status"] = {"clusterID": "00000000000000ab", "members": members}
        world.kube.put(ETCD_CLUSTERS, cluster)
        world.declare(etcdEndpoints=None, clusterRef={"name": "c"})
        await world.settle()

        pod = world.kube.live(JOBS, "b-backup-g1")["spec"]["template"]["spec"]
        told = order.parse(pod["containers"][0]["env"][0]["value"])
        hosts = [f"https://c-{n}.c.default.svc:2379" for n in (0, 1, 3)]
        assert list(told.endpoints) == hosts
        assert told.cluster_id == 0xAB
        assert told.endpoints_field == "spec.clusterRef.name"

    @pytest.mark.parametrize(
        ("tls", "secret"),
        [
            (None, "c-operator-tls"),
            ({"client": "Managed"}, "c-operator-tls"),
            ({"static": {"member": {"serverSecret": "s"}, "operatorSecret": "mine"}}, "mine"),
        ],
        ids=["by default", "managed", "static"],
    )
    async def test_members_with_tls_are_connected_to_with_the_operators_certificate(
        self, world: World, tls: dict[str, Any] | None, secret: str
    ) -> None:
        cluster = cluster_body(3, TLS=tls)
        cluster["metadata"] |= {"namespace": "default", "name": "c"}
        cluster["status"] = {"clusterID": "00000000000000ab", "members": {"ready": ["c-0"]}}
        world.kube.put(ETCD_CLUSTERS, cluster)
        world.declare(etcdEndpoints=None, clusterRef={"name": "c"})
        await world.settle()

        pod = world.kube.live(JOBS, "b-backup-g1")["spec"]["template"]["spec"]
        told = order.parse(pod["containers"][0]["env"][0]["value"])
        assert list(told.endpoints) == ["https://c-0.c.default.svc:2379"]
        assert (told.client_secret, told.client_secret_field) == (secret, "spec.clusterRef.name")
        mounted = {one["name"]: one["secret"]["secretName"] for one in pod["volumes"]}
        assert mounted["client"] == secret

    async def test_while_tls_is_turned_on_each_member_has_the_scheme_of_its_pod(
        self, world: World
    ) -> None:
        cluster = cluster_body(3, TLS={"client": "Managed", "allowPlaintextClients": True})
        cluster["metadata"] |= {"namespace": "default", "name": "c"}
        live = stateful_set(parse_cluster(cluster), replicas=3, operator_image="operator:1")
        off = cluster | {"spec": cluster["spec"] | {"TLS": PLAINTEXT}}
        before = stateful_set(parse_cluster(off), replicas=3, operator_image="operator:1")
        cluster["status"] = FORMED
        world.kube.put(ETCD_CLUSTERS, cluster)
        world.kube.put(STATEFUL_SETS, live)
        for ordinal, made_by in enumerate((before, live, live)):
            metadata = live["metadata"] | {"name": f"c-{ordinal}"}
            pod = {"metadata": metadata, "spec": made_by["spec"]["template"]["spec"]}
            world.kube.put(PODS, pod)
        world.declare(etcdEndpoints=None, clusterRef={"name": "c"})
        await world.settle()

        pod = world.kube.live(JOBS, "b-backup-g1")["spec"]["template"]["spec"]
        told = order.parse(pod["containers"][0]["env"][0]["value"])
        hosts = [f"c-{n}.c.default.svc:2379" for n in range(3)]
        assert list(told.endpoints) == [
            f"http://{hosts[0]}",
            f"https://{hosts[1]}",
            f"https://{hosts[2]}",
        ]
        assert told.client_secret == "c-operator-tls"

    @pytest.mark.parametrize("edit", [{}, {"version": "3.4.0"}], ids=["", "refused edit"])
    async def test_a_cluster_created_without_tls_is_connected_to_without_tls(
        self, world: World, edit: Json
    ) -> None:
        """Its spec has no TLS field, and since then TLS has become the default. While an edit is
        refused, the record beside the backup left that out."""
        cluster = cluster_body(3, TLS=PLAINTEXT)
        cluster["metadata"] |= {"namespace": "default", "name": "c"}
        live = stateful_set(parse_cluster(cluster), replicas=3, operator_image="operator:1")
        del cluster["spec"]["TLS"]
        cluster["spec"] |= edit
        cluster["status"] = FORMED | {"members": {"ready": ["c-0", "c-1", "c-2"]}}
        world.kube.put(ETCD_CLUSTERS, cluster)
        world.kube.put(STATEFUL_SETS, live)
        world.declare(etcdEndpoints=None, clusterRef={"name": "c"})
        await world.settle()

        pod = world.kube.live(JOBS, "b-backup-g1")["spec"]["template"]["spec"]
        told = order.parse(pod["containers"][0]["env"][0]["value"])
        assert list(told.endpoints) == [f"http://c-{n}.c.default.svc:2379" for n in range(3)]
        assert not told.client_secret
        assert told.cluster["spec"]["TLS"] == PLAINTEXT, "made again, its clients find it as it was"


@BY_EITHER
async def test_an_edit_that_is_refused_stopped_the_backups_of_a_cluster_that_serves(
    world: World, of: Json
) -> None:
    """Those of a schedule failed with `ClusterNotFound`; by its endpoints, a cluster with TLS was
    asked without a certificate."""
    cluster = cluster_body(3)
    cluster["metadata"] |= {"namespace": "default", "name": "c"}
    cluster["status"] = FORMED | {"members": {"ready": ["c-0", "c-1", "c-2"]}}
    parsed = parse_cluster(cluster)
    world.kube.put(STATEFUL_SETS, stateful_set(parsed, replicas=3, operator_image="operator:1"))
    world.kube.put(SERVICES, client_service(parsed))
    cluster["spec"]["version"] = "3.4.0"
    world.kube.put(ETCD_CLUSTERS, cluster)
    world.declare(**of)
    await world.settle()

    pod = world.kube.live(JOBS, "b-backup-g1")["spec"]["template"]["spec"]
    told = order.parse(pod["containers"][0]["env"][0]["value"])
    assert list(told.endpoints) == [f"https://c-{n}.c.default.svc:2379" for n in range(3)]
    assert told.client_secret == "c-operator-tls"
    assert told.cluster_id == 0xAB


@BY_EITHER
@pytest.mark.parametrize("told", ["status", "Service"])
async def test_a_backup_that_was_applied_together_with_its_cluster_failed_for_good(
    world: World, of: Json, told: str
) -> None:
    """Its four attempts were over before nodes had pulled etcd's image."""
    cluster = cluster_body(3)
    cluster["metadata"] |= {"namespace": "default", "name": "c"}
    world.kube.put(ETCD_CLUSTERS, cluster)
    world.declare(**of)

    assert await world.settle() == 10.0
    assert world.jobs() == []
    assert world.condition()["reason"] == "ClusterNotFormed"
    assert "status.plan" in world.condition()["message"]

    if told == "status":
        world.kube.put(ETCD_CLUSTERS, cluster | {"status": FORMED})
    else:  # as where its status cannot be written
        world.kube.put(SERVICES, client_service(parse_cluster(cluster)))
    await world.settle()
    assert world.jobs() == ["b-backup-g1"]


class TestByTheEndpointsOfACluster:
    """The manifest of the coreos operator asked for a Secret that it does not name, and behind the
    Service no follower could be chosen."""

    def cluster(self, world: World, uid: str = "", **spec: Any) -> None:
        cluster = cluster_body(3, **spec)
        cluster["metadata"] |= {"namespace": "default", "name": "c"}
        members = {"ready": ["c-0", "c-1"], "unready": ["c-2"]}
        cluster["status"] = {"clusterID": "00000000000000ab", "members": members}
        world.kube.put(ETCD_CLUSTERS, cluster)
        owner = cluster if not uid else cluster | {"metadata": cluster["metadata"] | {"uid": uid}}
        for service in (client_service, headless_service):
            world.kube.put(SERVICES, service(parse_cluster(owner)))

    async def told(self, world: World, *endpoints: str, **changes: Any) -> order.Order:
        world.declare(etcdEndpoints=list(endpoints), **changes)
        await world.settle()
        pod = world.kube.live(JOBS, "b-backup-g1")["spec"]["template"]["spec"]
        return order.parse(pod["containers"][0]["env"][0]["value"])

    @pytest.mark.parametrize(
        ("endpoints", "members"),
        [
            (["https://c-client:2379"], (0, 1, 2)),
            (["https://c-client"], (0, 1, 2)),
            (["https://c-client.default.svc.cluster.local:2379"], (0, 1, 2)),
            (["https://c.default.svc:2379", "https://c-1.c.default.svc:2379"], (0, 1, 2)),
            (["https://c-1.c.default.svc:2379", "https://c-0.c:2379"], (0, 1)),
        ],
    )
    async def test_the_operators_certificate_is_shown_to_the_members(
        self, world: World, endpoints: list[str], members: tuple[int, ...]
    ) -> None:
        self.cluster(world)
        found = await self.told(world, *endpoints)

        hosts = tuple(f"https://c-{n}.c.default.svc:2379" for n in members)
        assert (found.endpoints, found.cluster_id) == (hosts, 0xAB)
        assert found.client_secret == "c-operator-tls"
        assert found.endpoints_field == found.client_secret_field == "spec.etcdEndpoints"
        job = world.kube.live(JOBS, "b-backup-g1")
        assert job["metadata"]["labels"][naming.LABEL_INSTANCE] == "c"

    @pytest.mark.parametrize("endpoint", ["http://c-client:2379", "c-client:2379"])
    async def test_without_tls_the_members_are_asked_too(self, world: World, endpoint: str) -> None:
        self.cluster(world, TLS=PLAINTEXT)
        found = await self.told(world, endpoint)

        assert found.endpoints == tuple(f"http://c-{n}.c.default.svc:2379" for n in range(3))
        assert (found.client_secret, found.cluster_id) == ("", 0xAB)

    @pytest.mark.parametrize(
        "endpoints",
        [
            ["http://c-client:2379"],
            ["c-client:2379"],
            ["https://c-client:2379", "http://c-0.c.default.svc:2379"],
            ["https://c-client:2380"],
            ["https://c-client:2379", "https://etcd.example.com:2379"],
            ["https://c-client.default.example.com:2379"],
            ["https://c-client.default.svc.example.com:2379"],
            ["https://c-client.other.svc:2379"],
            ["https://c-7.c.default.svc:2379"],
            ["https://c-00.c.default.svc:2379"],
            ["https://d-client:2379"],
        ],
    )
    async def test_what_is_not_known_to_be_of_the_cluster_is_left_as_it_is(
        self, world: World, endpoints: list[str]
    ) -> None:
        self.cluster(world)
        found = await self.told(world, *endpoints)

        assert found.endpoints == tuple(endpoints)
        assert (found.client_secret, found.cluster_id) == ("", 0)

    async def test_a_certificate_of_the_users_own_is_left_as_it_is(self, world: World) -> None:
        self.cluster(world)
        found = await self.told(world, "https://c-client:2379", clientTLSSecret="mine")

        assert found.endpoints == ("https://c-client:2379",)
        assert (found.client_secret, found.client_secret_field) == ("mine", "spec.clientTLSSecret")

    async def test_an_etcd_whose_services_have_taken_the_names_is_backed_up(
        self, world: World
    ) -> None:
        """A new cluster of its name cannot begin beside it, and has nothing to back up."""
        self.cluster(world, uid="of another")
        found = await self.told(world, "https://c-client:2379")

        assert (found.endpoints, found.client_secret) == (("https://c-client:2379",), "")


class TestAPrivateRegistry:
    """The README only named the cluster's own credentials, and no backup's pod could pull its
    image."""

    def cluster(self, world: World) -> None:
        spec = {"size": 1, "pod": {"imagePullSecrets": [{"name": "mirror"}, {"name": "both"}]}}
        metadata = {"namespace": "default", "name": "c"}
        body = {"metadata": metadata, "spec": spec, "status": FORMED}
        world.kube.put(ETCD_CLUSTERS, body)

    def pulled(self, world: World, job: str) -> list[str]:
        pod = world.kube.live(JOBS, job)["spec"]["template"]["spec"]
        return [one["name"] for one in pod.get("imagePullSecrets", ())]

    @BY_EITHER
    async def test_the_pod_of_a_backup_also_has_the_credentials_of_the_cluster(
        self, world: World, of: Json
    ) -> None:
        self.cluster(world)
        world.declare(**of, pod={"imagePullSecrets": [{"name": "own"}, {"name": "both"}]})
        await world.settle()

        assert self.pulled(world, "b-backup-g1") == ["own", "both", "mirror"]

    async def test_the_pod_that_deletes_stored_files_has_them_too(self, world: World) -> None:
        self.cluster(world)
        world.declare(clusterRef={"name": "c"}, etcdEndpoints=None, deletionPolicy="Delete")
        await made(world)
        body = world.kube.live(ETCD_BACKUPS, "b")
        body["metadata"]["deletionTimestamp"] = world.clock.rfc3339()
        body["metadata"]["generation"] += 1
        world.kube.put(ETCD_BACKUPS, body)
        await world.settle()

        assert self.pulled(world, "b-backup-delete-g2") == ["mirror", "both"]

    async def test_without_the_cluster_the_pod_has_only_its_own_credentials(
        self, world: World
    ) -> None:
        world.declare(pod={"imagePullSecrets": [{"name": "own"}]})
        await world.settle()

        assert self.pulled(world, "b-backup-g1") == ["own"]
