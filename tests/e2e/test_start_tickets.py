"""Start tickets on real volumes: no empty volume runs as a member that has had its ticket."""

from __future__ import annotations

import json
import subprocess
import textwrap
from pathlib import Path

import pytest
from harness.api import CLAIMS, PODS, POLICIES, Json
from harness.clusters import Cluster, is_ready, is_waiting_in_start
from harness.node import empty, kill_container, volume_path
from harness.place import Place
from harness.probes import container
from harness.waiting import eventually, steadily


@pytest.mark.timeout(420)
def test_a_container_restarted_on_an_emptied_volume_cannot_start_etcd(
    place: Place, local_node: None
):
    """Elsewhere it rejoins silently under its old ID, and acknowledged writes are lost."""
    names = {"v35": "3.5.35", "v36": "3.6.16", "v37": "3.7.3"}
    clusters = [place.declare(3, name, version=version) for name, version in names.items()]
    for cluster in clusters:
        cluster.comes_up(seconds=120)
        cluster.client.put("before", "kept")
    before = {cluster.name: cluster.client.members() for cluster in clusters}
    volumes = {
        cluster.name: volume_path(place.kube, place.namespace, f"data-{cluster.name}-1")
        for cluster in clusters
    }

    for cluster in clusters:
        pause(cluster)  # the operator would have it replaced
        empty(volumes[cluster.name])
        kill_container(cluster.pod(1), "etcd")

    for cluster in clusters:
        eventually(
            f"etcd of {cluster.name} fails to start again",
            lambda one=cluster: failed_again(one.pod(1)),
            seconds=40,
        )
        assert not list(volumes[cluster.name].iterdir()), "etcd has written to the emptied volume"
        assert serves_without(cluster, 1)
        place.kube.delete(PODS, place.namespace, f"{cluster.name}-1", gracePeriodSeconds=0)
    for cluster in clusters:
        waits_in_start(cluster, 1)
        stays_out(cluster, 1, seconds=1)
        assert cluster.client.members() == before[cluster.name]
        assert cluster.client.get("before") == "kept"


@pytest.mark.verify
def test_a_member_whose_claim_was_replaced_waits_and_never_rejoins(place: Place):
    """The operator adds another member in its place, once it may act."""
    cluster = place.declare(size=3).comes_up()
    cluster.client.put("before", "kept")
    before = cluster.client.members()
    old = cluster.claim_uids()["data-etcd-2"]
    place.may_lose.add("data-etcd-2")
    pause(cluster)

    place.kube.delete(CLAIMS, place.namespace, "data-etcd-2")
    place.kube.delete(PODS, place.namespace, "etcd-2", gracePeriodSeconds=0)

    waits_in_start(cluster, 2)
    assert cluster.claim_uids()["data-etcd-2"] != old
    stays_out(cluster, 2)
    assert cluster.client.members() == before
    assert cluster.client.get("before") == "kept"
    place.kube.delete(PODS, place.namespace, "etcd-2", gracePeriodSeconds=0)
    waits_in_start(cluster, 2)
    stays_out(cluster, 2)
    cluster.change(paused=False)
    eventually(
        "etcd-2 is another member",
        lambda: cluster.client.members().ids.get("etcd-2"),
        lambda found: found not in (None, before.ids["etcd-2"]),
        seconds=30,
    )
    cluster.comes_up()
    assert cluster.client.get("before") == "kept"


@pytest.mark.verify
def test_a_lost_quorum_is_reported_and_nothing_starts_empty(place: Place, local_node: None):
    """Total loss never leads to an empty cluster unless a human asks for it."""
    cluster = place.declare(size=1).comes_up()
    cluster.client.put("before", "lost")
    claims = cluster.claim_uids()

    empty(volume_path(place.kube, place.namespace, "data-etcd-0"))
    place.kube.delete(PODS, place.namespace, "etcd-0", gracePeriodSeconds=0)

    cluster.holds("QuorumLost", "etcd-0", seconds=30)
    stays_out(cluster, 0)
    assert cluster.claim_uids() == claims
    assert cluster.condition("Available")["status"] == "False"


def test_swapped_volumes_do_not_start(place: Place, local_node: None):
    """Another member's data is not this member's, whatever the claim says."""
    cluster = place.declare(size=3).comes_up()
    cluster.client.put("before", "kept")
    before = cluster.client.members()
    volumes = [volume_path(place.kube, place.namespace, f"data-etcd-{one}") for one in (1, 2)]

    empty(volumes[0])
    copy(volumes[1], volumes[0])
    place.kube.delete(PODS, place.namespace, "etcd-1", gracePeriodSeconds=0)

    cluster.holds("ForeignData", "etcd-1", seconds=30)
    stays_out(cluster, 1)
    assert cluster.client.members() == before
    assert cluster.client.get("before") == "kept"


def test_only_the_operator_can_make_start_run_etcd(place: Place):
    """From another pod, with everything but the key, and where no policy shuts the port."""
    everybody = {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{}]}
    place.kube.create(POLICIES, {"metadata": {"name": "open"}, "spec": everybody}, place.namespace)
    cluster = place.declare(size=3).comes_up()
    before = cluster.client.members()
    place.may_lose.add("data-etcd-0")
    pause(cluster)
    place.kube.delete(CLAIMS, place.namespace, "data-etcd-0")
    place.kube.delete(PODS, place.namespace, "etcd-0", gracePeriodSeconds=0)
    waits_in_start(cluster, 0)
    pod = cluster.pod(0)

    told = forge(place, cluster, pod)

    assert told["answered"], "start answers a greeting, which proves nothing"
    assert told["tickets"] == dict.fromkeys(told["tickets"], "closed")
    assert len(told["tickets"]) == 5
    assert told["noise"] == "closed"
    assert cluster.pod(0)["metadata"]["uid"] == pod["metadata"]["uid"]
    stays_out(cluster, 0)
    assert cluster.client.members() == before


def serves_without(cluster: Cluster, ordinal: int) -> bool:
    cluster.client.put("after", "written")
    return cluster.client.get("after") == "written" and not is_ready(cluster.pod(ordinal))


def pause(cluster: Cluster) -> None:
    cluster.change(paused=True)
    cluster.holds("SpecPaused", kind="Paused", seconds=10)


def waits_in_start(cluster: Cluster, ordinal: int) -> None:
    name = f"{cluster.name}-{ordinal}"
    eventually(
        f"{name} waits in start", lambda: is_waiting_in_start(cluster.pod(ordinal)), seconds=40
    )


def stays_out(cluster: Cluster, ordinal: int, seconds: float = 3) -> None:
    steadily(
        f"{cluster.name}-{ordinal} waits in start",
        lambda: cluster.pod(ordinal),
        is_waiting_in_start,
        seconds,
    )


def failed_again(pod: Json | None) -> bool:
    """A restart that ended by itself; 137 is how we have ended the run before it."""
    found = (pod or {}).get("status", {}).get("containerStatuses", ())
    status = next((one for one in found if one["name"] == "etcd"), {})
    states = (status.get("state") or {}, status.get("lastState") or {})
    codes = [state["terminated"]["exitCode"] for state in states if "terminated" in state]
    return bool(status.get("restartCount")) and any(code not in (0, 137) for code in codes)


def copy(source: Path, target: Path) -> None:
    """With owners and modes, as a restored or cloned volume has them."""
    subprocess.run(["cp", "-a", f"{source}/.", f"{target}/"], check=True)


FORGER = textwrap.dedent(
    """
    import dataclasses, json, os, socket, sys
    from etcd_stateful.start import ticket

    known = json.loads(sys.argv[1])

    def talk(*lines):
        with socket.create_connection((known["address"], 2378), timeout=5) as peer:
            file = peer.makefile("rb")
            said = []
            for line in lines:
                try:
                    peer.sendall(line)
                    said.append(file.readline())
                except OSError:
                    said.append(b"")
            return said

    hello = ticket.greeting("0123456789abcdef0123456789abcdef")
    answer = json.loads(talk(hello)[0])["body"]
    made = ticket.Ticket(
        challenge=answer["challenge"], cluster_uid=known["uid"], epoch=1, member=known["member"],
        member_id=int(known["memberID"], 16), cluster_id=int(known["clusterID"], 16),
        state="existing", initial_cluster=known["initial"], token=known["uid"] + "-1",
    )
    good = json.loads(ticket.seal(b"k" * 32, "ticket", made))
    def line(message):
        return json.dumps(message).encode() + bytes([10])
    tickets = {
        "another key": line(good),
        "no signature": line({"body": good["body"]}),
        "an empty signature": line({**good, "mac": ""}),
        "the answer's own signature": line({**good, "mac": json.loads(talk(hello)[0])["mac"]}),
        "the answer sent back": talk(hello)[0],
    }
    told = {name: talk(hello, text)[1] for name, text in tickets.items()}
    noise = talk(os.urandom(2000).replace(bytes([10]), b"x") + bytes([10]))[0]
    print(json.dumps({
        "answered": bool(answer["challenge"]),
        "tickets": {name: said.decode() or "closed" for name, said in told.items()},
        "noise": noise.decode() or "closed",
    }))
    """
)


def forge(place: Place, cluster: Cluster, pod: Json) -> Json:
    """Runs the forger in a pod of its own, with what anyone may know of the cluster."""
    listed = cluster.client.members()
    known = {
        "address": pod["status"]["podIP"],
        "uid": cluster.uid,
        "member": "etcd-0",
        "memberID": listed.ids["etcd-0"],
        "clusterID": listed.cluster_id,
        "initial": cluster_line(cluster),
    }
    forger = container("forger", place.operator.image, "python3", "-c", FORGER, json.dumps(known))
    manifest = {
        "metadata": {"name": "forger"},
        "spec": {"restartPolicy": "Never", "containers": [forger]},
    }
    place.kube.create(PODS, manifest, place.namespace)
    phase = eventually(
        "the forger is through",
        lambda: place.kube.get(PODS, place.namespace, "forger")["status"]["phase"],
        lambda phase: phase in ("Succeeded", "Failed"),
        seconds=60,
    )
    said = list(place.kube.log_lines(place.namespace, "forger"))
    assert phase == "Succeeded", said
    return dict(json.loads(said[-1]))


def cluster_line(cluster: Cluster) -> str:
    return ",".join(f"{name}={url}" for name, url, _ in cluster.record()["members"])
