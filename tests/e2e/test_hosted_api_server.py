"""A Kubernetes API server stores its objects in an EtcdCluster, whatever is done to it."""

from __future__ import annotations

import base64
import threading
from pathlib import Path

import pytest
from harness import backups, restores
from harness.api import SECRETS
from harness.clusters import Cluster
from harness.hosted import Follower, Hosted, in_use
from harness.losses import empty_volume, kill_pod
from harness.membership import settles
from harness.place import Place
from harness.waiting import eventually

from localkube.s3 import S3Server

pytestmark = [pytest.mark.usefixtures("local_node"), pytest.mark.verify]

SETTLES_SECONDS = 150


@pytest.mark.timeout(780)
def test_an_api_server_survives_every_operation_on_its_store(place: Place, tmp_path: Path):
    """No object lost, no client sent back to a list, and never restarted."""
    place.may_lose |= {f"data-etcd-{ordinal}" for ordinal in range(5)}
    cluster = place.declare(size=3, version="3.6.16").comes_up()
    hosted = Hosted(place, cluster, tmp_path)

    with in_use(hosted):
        cluster.change(version="3.7.3")
        settles(cluster, 3, SETTLES_SECONDS)
        cluster.scale(5)
        settles(cluster, 5, SETTLES_SECONDS)
        lost = cluster.client.members().ids["etcd-1"]
        empty_volume(cluster, 1)
        eventually(
            "the lost member is replaced",
            lambda: cluster.client.members().ids.get("etcd-1"),
            lambda now: now not in (None, "", lost),
            SETTLES_SECONDS,
        )
        settles(cluster, 5, SETTLES_SECONDS)
        cluster.scale(3)
        settles(cluster, 3, SETTLES_SECONDS)
        for ordinal in range(3):
            kill_pod(cluster, ordinal)
        settles(cluster, 3, SETTLES_SECONDS)

    hosted.has_stayed_up()


@pytest.mark.timeout(780)
def test_an_api_server_sees_a_restore_in_place_as_newer_revisions(
    place: Place, s3: S3Server, tmp_path: Path
):
    """It remembers what it read, and has clients that watch: no revision may come twice."""
    place.may_lose |= {f"data-etcd-{ordinal}" for ordinal in range(4)}
    cluster = place.declare(size=3).comes_up()
    hosted = Hosted(place, cluster, tmp_path)
    backups.secret(place, s3)
    hosted.write("before", 1)
    at = backups.s3_place(s3, "mybucket/hosted")
    backups.declare(place, "b", clusterRef={"name": "etcd"}, storageType="S3", s3=at).succeeds()
    last = [hosted.write("before", 2), hosted.write("after", 1)][-1]
    follower = Follower(hosted)
    following = threading.Thread(target=follower.run, daemon=True)
    following.start()
    eventually("it follows", lambda: follower.seen, lambda seen: seen == {"before": 2, "after": 1})

    replaced = {"clusterID": cluster.client.members().cluster_id}
    restores.ask(place, replace=replaced, backupRef={"name": "b"})
    restores.succeeds(place)
    settles(cluster, 3, SETTLES_SECONDS)

    eventually(
        "the API server has what the backup has",
        hosted.listed,
        lambda now: now[0] == {"before": 1} and now[1] > last + 1_000_000_000,
        seconds=60,
    )
    eventually("so has who follows", lambda: follower.seen, lambda seen: seen == {"before": 1})
    assert follower.relists > 0
    assert not follower.went_back, follower.went_back
    assert hosted.write("later", 1) > last + 1_000_000_000
    eventually(
        "he is told of it", lambda: follower.seen, lambda seen: seen == {"before": 1, "later": 1}
    )
    follower.stop()
    hosted.has_stayed_up()


@pytest.mark.timeout(780)
def test_an_api_server_needs_two_restarts_for_a_ca_rotation(place: Place, tmp_path: Path):
    """It reads the file with its authorities only when it starts: once in each overlap."""
    cluster = place.declare(size=3).comes_up()
    hosted = Hosted(place, cluster, tmp_path)

    with in_use(hosted):
        cluster.change(TLS={"rotation": {"client": 2, "overlapSeconds": 60}})
        knows_both(cluster, "is being replaced")
        hosted.begin_anew()
        knows_both(cluster, "was replaced")
        hosted.begin_anew()
        eventually("it is over", lambda: not cluster.condition("Rotating"), seconds=400)
        settles(cluster, 3, SETTLES_SECONDS)

    hosted.has_stayed_up()


def knows_both(cluster: Cluster, words: str) -> None:
    """What is mounted names both authorities, and the condition says this of the first."""

    def seen() -> tuple[str, int]:
        secret = cluster.get(SECRETS, "etcd-client-tls") or {"data": {}}
        names = base64.b64decode(secret["data"].get("ca.crt", "")).count(b"BEGIN CERTIFICATE")
        return cluster.condition("Rotating").get("message", ""), names

    eventually(
        f"the authority {words}",
        seen,
        lambda now: words in now[0] and now[1] == 2,
        SETTLES_SECONDS,
    )
