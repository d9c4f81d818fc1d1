"""`start` and real etcd of each minor: what may run, and above all what cannot."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from minors import MINORS, NEWEST, OLDEST, differing
from start_helpers import KEY
from start_pods import PATIENCE, NoReply, Pod, World, eventually

from etcd_operator.cluster import tickets
from etcd_operator.cluster.tickets import TcpStart
from etcd_stateful.start import ticket, wal

pytestmark = pytest.mark.integration


def log_identity(pod: Pod) -> wal.Identity:
    """What our parser reads from the log that etcd wrote."""
    names = sorted((pod.volume / "data/member/wal").glob("*.wal"), reverse=True)
    return wal.identity(tuple(path.read_bytes()[: wal.HEAD] for path in names))


def logged(pod: Pod, message: str) -> dict[str, Any]:
    """The last line of etcd's log with this message."""
    lines = [line for line in pod.log.read_text().splitlines() if f'"msg":"{message}"' in line]
    entry: dict[str, Any] = json.loads(lines[-1])
    return entry


def join(pods: list[Pod], pod: Pod, **changes: Any) -> wal.Identity:
    """MemberAdd as a learner, then a ticket for the waiting pod; the new member's IDs."""
    answer: dict[str, Any] = {}

    def added() -> bool:
        try:
            answer.update(
                pods[0].call("cluster/member/add", peerURLs=[pod.peer_url], isLearner=True)
            )
        except NoReply:  # unhealthy cluster: five seconds' health interval
            return False
        return True

    eventually(added, PATIENCE)
    ids = wal.Identity(int(answer["member"]["ID"]), int(answer["header"]["cluster_id"]))
    fields = {
        "state": "existing",
        "initial_cluster": ",".join(each.entry for each in [*pods, pod]),
        "member_id": ids.member_id,
        "cluster_id": ids.cluster_id,
    }
    receipt = pod.push(**fields | changes)
    assert receipt.refusal == ""
    return ids


def test_three_members_bootstrap_under_the_predicted_ids_and_restart_alone(world: World) -> None:
    pods = world.bootstrap(3)
    predicted = world.predicted(pods)
    assert pods[0].members() == {name: ids.member_id for name, ids in predicted.items()}
    for pod in pods:
        mine = predicted[pod.settings.member]
        assert pod.ids() == mine
        assert log_identity(pod) == mine
        assert (pod.marker().member_id, pod.marker().cluster_id) == (
            mine.member_id,
            mine.cluster_id,
        )
    pods[0].put("k", "v")
    # All pods are killed, and there is no operator and no key any more.
    for pod in pods:
        pod.stop()
        Path(pod.place.key_file).unlink()
    for pod in pods:
        pod.runs()
        assert pod.config()["initial-cluster"] == pod.entry
        assert pod.config()["initial-cluster-state"] == "existing"
        pod.restart_container()
    eventually(lambda: all(pod._answers() for pod in pods), PATIENCE)
    eventually(lambda: _read(pods[1], "k") == "v", PATIENCE)
    assert pods[2].members() == {name: ids.member_id for name, ids in predicted.items()}


def _read(pod: Pod, key: str) -> str | None:
    try:
        return pod.get(key)
    except NoReply:
        return None


@differing("world", *MINORS)
@pytest.mark.parametrize("restarted", [False, True], ids=["first-run", "later-run"])
def test_a_container_on_an_emptied_volume_cannot_start(world: World, restarted: bool) -> None:
    [pod] = world.bootstrap(1)
    pod.put("k", "v")
    pod.stop()
    if restarted:
        pod.runs()
        pod.serves()
        pod.stop()
    whole = pod.volume.with_name("whole")
    pod.volume.rename(whole)
    for gone in ("data", "data/member", "data/member/wal"):
        shutil.copytree(whole, pod.volume, symlinks=True)
        shutil.rmtree(pod.volume / gone)
        assert "no such file or directory" in pod.dies(), gone
        assert not (pod.volume / gone).exists(), gone
        # Nor does a restart of the pod, which waits, and is not started by the ticket of the first
        # run.
        process = pod.waits()
        assert pod.ask().finding.found == "no-data", gone
        process.terminate()
        assert process.wait(PATIENCE) == 128 + signal.SIGTERM, gone
        shutil.rmtree(pod.volume)


@differing("world", *MINORS)
def test_a_container_on_an_empty_wal_folder_cannot_start(world: World) -> None:
    """The folder is there, so the path leads somewhere: to what cannot bootstrap."""
    [pod] = world.bootstrap(1)
    pod.put("k", "v")
    pod.stop()
    for path in (pod.volume / "data/member/wal").iterdir():
        path.unlink()
    assert "cannot fetch cluster info" in pod.dies()
    shutil.rmtree(pod.volume / "data/member/snap")
    assert "cannot fetch cluster info" in pod.dies()
    pod.waits()
    assert pod.ask().finding.found == "no-data"


def test_with_its_configuration_elsewhere_etcd_starts_on_an_emptied_volume(world: World) -> None:
    """The control: with the same configuration in another place, etcd serves an empty store under
    the same IDs as if nothing had happened."""
    [pod] = world.bootstrap(1)
    pod.put("k", "v")
    before = pod.ids()
    pod.stop()
    shutil.copy(pod.volume / "first/etcd.yaml", pod.log.parent / "elsewhere.yaml")
    shutil.rmtree(pod.volume / "data")
    pod.restart_container(str(pod.log.parent / "elsewhere.yaml"))
    eventually(pod._answers, PATIENCE)
    assert pod.ids() == before
    assert pod.get("k") is None


def test_an_emptied_member_of_three_cannot_rejoin(world: World) -> None:
    """The former leader: with its configuration elsewhere it rejoins silently."""
    pods = world.bootstrap(3)
    pods[0].put("k", "v")
    leader = int(pods[0].status()["leader"])
    [lost] = [pod for pod in pods if pod.ids().member_id == leader]
    lost.stop()
    shutil.rmtree(lost.volume / "data/member/wal")
    (lost.volume / "data/member/wal").mkdir()
    lost.dies()
    lost.waits()
    assert lost.ask().finding.found == "no-data"
    rest = [pod for pod in pods if pod is not lost]
    eventually(lambda: _read(rest[0], "k") == "v", PATIENCE)


def test_a_restarted_container_runs_on_its_data(world: World) -> None:
    """Without `start`, which a kubelet skips: after the first run, and after a later one."""
    [pod] = world.bootstrap(1)
    pod.put("k", "v")
    before = pod.ids()
    for how in (signal.SIGKILL, signal.SIGTERM):
        pod.stop(how)
        pod.serves()
        assert (pod.ids(), pod.get("k")) == (before, "v")
    pod.stop()
    pod.runs()
    for _ in range(2):
        pod.serves()
        assert (pod.ids(), pod.get("k")) == (before, "v")
        pod.stop()


def test_a_failed_first_start_is_retried_with_the_same_ticket(world: World) -> None:
    """Its peer URL cannot be listened on: the container restarts until it can."""
    pod = world.pod("c-0")
    process = pod.waits()
    ids = world.predicted([pod])["c-0"]
    pod.push(state="new", member_id=ids.member_id, cluster_id=ids.cluster_id)
    assert process.wait(PATIENCE) == 0
    config = json.loads((pod.volume / "first/etcd.yaml").read_text())
    broken = config | {"listen-peer-urls": "http://203.0.113.1:2380"}
    (pod.volume / "first/etcd.yaml").write_text(json.dumps(broken))
    assert "cannot assign requested address" in pod.dies()
    (pod.volume / "first/etcd.yaml").write_text(json.dumps(config))
    pod.serves()
    assert pod.ids() == ids


def test_the_configuration_for_a_restart_cannot_bootstrap(world: World) -> None:
    [pod] = world.bootstrap(1)
    pod.stop()
    pod.runs()
    shutil.copy(pod.volume / "etcd.yaml", pod.log.parent / "elsewhere.yaml")
    shutil.rmtree(pod.volume / "data")
    assert "cannot fetch cluster info" in pod.dies(str(pod.log.parent / "elsewhere.yaml"))


def test_a_foreign_volume_is_held(world: World) -> None:
    [pod] = world.bootstrap(1)
    pod.put("k", "v")
    ids = pod.ids()
    pod.stop()
    content = sorted(str(path) for path in pod.volume.rglob("*"))
    pod.waits(cluster_uid="uid-2")
    finding = pod.ask().finding
    assert finding == ticket.Finding(
        "foreign-data",
        "the marker names cluster uid-1",
        "uid-1",
        1,
        "c-0",
        ids.member_id,
        ids.cluster_id,
    )
    for state in ("new", "existing"):
        receipt = pod.push(state=state, member_id=ids.member_id, cluster_id=ids.cluster_id)
        assert "holds a log" in receipt.refusal
    assert sorted(str(path) for path in pod.volume.rglob("*")) == content


@pytest.mark.parametrize("noise", [b"noise" * 200, bytes(1000)], ids=["garbage", "zeros"])
def test_a_wal_with_an_overwritten_head_is_damaged_and_gets_no_ticket(
    world: World, noise: bytes
) -> None:
    [pod] = world.bootstrap(1)
    pod.put("k", "v")
    ids = pod.ids()
    pod.stop()
    [segment] = (pod.volume / "data/member/wal").glob("*.wal")
    with segment.open("r+b") as log:
        log.write(noise)
    # etcd itself cannot do anything with it either.
    pod.dies()
    content = sorted(str(path) for path in pod.volume.rglob("*"))
    pod.waits()
    finding = pod.ask().finding
    assert finding == ticket.Finding(
        "damaged", finding.detail, "uid-1", 1, "c-0", ids.member_id, ids.cluster_id
    )
    assert finding.detail.startswith("log: ")
    for state in ("new", "existing", "adopt"):
        receipt = pod.push(state=state, member_id=ids.member_id, cluster_id=ids.cluster_id)
        assert receipt.refusal
    assert sorted(str(path) for path in pod.volume.rglob("*")) == content
    # Whoever's it is, is only known by the marker.
    (pod.volume / "member.json").unlink()
    assert pod.ask().finding == ticket.Finding("unreadable", finding.detail)


def test_a_clone_of_another_member_s_volume_is_held(world: World) -> None:
    pods = world.bootstrap(3)
    clone = world.pod("c-3")
    world.copy(pods[0], clone)
    clone.waits()
    finding = clone.ask().finding
    assert finding.found == "foreign-data"
    assert finding.detail == "the marker names pod c-0"
    # Also when the marker is made to fit: the log says whose it is.
    clone.stop()
    other = pods[1].ids()
    text = (pods[1].volume / "member.json").read_text()
    assert f"{other.member_id:016x}" in text
    (clone.volume / "member.json").write_text(text.replace("c-1", "c-3"))
    clone.waits()
    assert clone.ask().finding.found == "foreign-data"


def test_a_volume_of_an_earlier_epoch_is_held(world: World) -> None:
    [pod] = world.bootstrap(1)
    pod.stop()
    pod.waits(epoch=2)
    finding = pod.ask().finding
    assert (finding.found, finding.epoch) == ("foreign-data", 1)


def test_a_whole_cluster_is_adopted(world: World) -> None:
    """Deleted and created again under the same name: the volumes are the old cluster's."""
    pods = world.bootstrap(3)
    pods[0].put("k", "v")
    ids = [pod.ids() for pod in pods]
    for pod in pods:
        pod.stop()
    for pod, mine in zip(pods, ids, strict=True):
        process = pod.waits(cluster_uid="uid-2")
        other = ids[0] if pod is not pods[0] else ids[1]
        refused = pod.push(state="adopt", member_id=other.member_id, cluster_id=other.cluster_id)
        assert "the log is of member" in refused.refusal
        receipt = pod.push(state="adopt", member_id=mine.member_id, cluster_id=mine.cluster_id)
        assert receipt.refusal == ""
        assert process.wait(PATIENCE) == 0
        assert pod.marker().cluster_uid == "uid-2"
        pod.restart_container()
    eventually(lambda: _read(pods[2], "k") == "v", PATIENCE)
    assert [pod.ids() for pod in pods] == ids
    # From now on they just run.
    pods[0].stop()
    pods[0].runs()


def test_a_member_joins_as_a_learner(world: World) -> None:
    pods = world.bootstrap(1)
    pods[0].put("k", "v")
    pod = world.pod("c-1")
    process = pod.waits()
    ids = join(pods, pod)
    assert process.wait(PATIENCE) == 0
    pod.restart_container()
    eventually(lambda: pods[0].members().get("c-1") == ids.member_id, PATIENCE)
    assert pod.ids() == log_identity(pod) == ids
    assert pod.status()["isLearner"] is True
    # It restarts as what it is, and is promoted.
    pod.stop()
    pod.runs()
    pod.serves()
    # All that it lacks is the vote, and no Service leads to it before it has that.
    eventually(lambda: _has_what_the_leader_has(pod, pods[0]), PATIENCE)
    assert (pod.probe("/livez"), pod.probe("/readyz")) == (200, 503)
    eventually(lambda: _promoted(pods[0], ids.member_id), PATIENCE)
    eventually(lambda: _read(pod, "k") == "v", PATIENCE)
    eventually(lambda: pod.probe("/readyz") == 200, PATIENCE)


def _has_what_the_leader_has(pod: Pod, leader: Pod) -> bool:
    return int(pod.status()["raftAppliedIndex"]) >= int(leader.status()["raftAppliedIndex"])


def _promoted(pod: Pod, member: int) -> bool:
    return pod.takes("cluster/member/promote", ID=str(member))


@differing("world", "3.5")
def test_a_foreign_database_without_a_wal_is_not_served(world: World) -> None:
    """Brought along, 3.5 serves it once the member is promoted."""
    pods = world.bootstrap(1)
    world.token = "another"
    [foreign] = [world.pod("c-1")]
    process = foreign.waits()
    ids = world.predicted([foreign])["c-1"]
    foreign.push(state="new", member_id=ids.member_id, cluster_id=ids.cluster_id)
    assert process.wait(PATIENCE) == 0
    foreign.serves()
    foreign.put("foreign", "v")
    foreign.stop()
    shutil.rmtree(foreign.volume / "data/member/wal")
    foreign.waits()
    joined = join(pods, foreign)
    eventually(lambda: foreign.processes[0].poll() == 0, PATIENCE)
    assert (foreign.volume / "aside-1/member/snap/db").exists()
    foreign.serves()
    eventually(lambda: _promoted(pods[0], joined.member_id), PATIENCE)
    pods[0].put("k", "v")
    eventually(lambda: _read(foreign, "k") == "v", PATIENCE)
    assert foreign.get("foreign") is None


def test_remains_of_a_refused_join_are_moved_aside(world: World) -> None:
    pods = world.bootstrap(1)
    pod = world.pod("c-1")
    process = pod.waits()
    strange = f"c-5=http://{pod.settings.host}:1,{pod.entry}"
    first = join(pods, pod, initial_cluster=f"{pods[0].entry},{strange}")
    assert process.wait(PATIENCE) == 0
    assert "unequal" in pod.dies()
    assert (pod.volume / "data/member/snap/db").exists()
    # The container may try as often as it likes; a restarted pod waits.
    assert "unequal" in pod.dies()
    process = pod.waits()
    finding = pod.ask().finding
    assert finding.found == "no-data"
    assert "left-overs" in finding.detail
    pods[0].call("cluster/member/remove", ID=str(first.member_id))
    second = join(pods, pod)
    assert second.member_id != first.member_id
    assert process.wait(PATIENCE) == 0
    assert (pod.volume / "aside-1/member/snap/db").exists()
    pod.serves()
    eventually(lambda: pods[0].members().get("c-1") == second.member_id, PATIENCE)
    assert log_identity(pod) == second


@differing("world", OLDEST, NEWEST)
def test_etcd_knows_every_key_of_the_configuration(world: World) -> None:
    """By effect: unknown keys would be ignored silently."""
    [pod] = world.bootstrap(1)
    started = logged(pod, "starting an etcd server")
    settings = pod.settings
    client = f"http://{settings.host}:{settings.client_port}"
    expected = {
        "name": "c-0",
        "data-dir": settings.data_directory,
        "listen-client-urls": [client],
        "advertise-client-urls": [client],
        "listen-peer-urls": [pod.peer_url],
        "initial-advertise-peer-urls": [pod.peer_url],
        "listen-metrics-urls": [f"http://{settings.host}:{settings.metrics_port}"],
        "initial-cluster": pod.entry,
        "initial-cluster-state": "new",
        "initial-cluster-token": world.token,
        "quota-backend-bytes": 8589934592,
        "force-new-cluster": False,
    }
    assert {key: started.get(key) for key in expected} == expected
    pod.stop()
    pod.runs()
    pod.serves()
    # Beside a log etcd does not even look at these.
    assert logged(pod, "starting an etcd server")["initial-cluster"] == ""
    # A value of another type is only refused for a key that is known.
    pod.stop()
    config = pod.config()
    elsewhere = pod.log.parent / "elsewhere.yaml"
    for key in config:
        elsewhere.write_text(json.dumps(config | {key: []}))
        assert "cannot unmarshal array" in pod.dies(str(elsewhere)), key


DANGEROUS = [
    "force-new-cluster",
    "Force-New-Cluster",
    "FORCE-NEW-CLUSTER",
    "force-new-clu\u017fter",
]


def test_an_option_that_would_remove_members_is_not_passed_on(world: World) -> None:
    [pod] = world.bootstrap(1)
    for key in DANGEROUS:
        pod.stop()
        pod.runs(options={key: True})
        pod.serves()
        assert logged(pod, "starting an etcd server")["force-new-cluster"] is False
        # The control: etcd would have taken it, however it is spelled.
        pod.stop()
        config = pod.config() | {key: True}
        (pod.volume / "etcd.yaml").write_text(json.dumps(config, ensure_ascii=False))
        pod.serves()
        assert logged(pod, "starting an etcd server")["force-new-cluster"] is True


def test_etcd_ignores_flags_and_environment_beside_the_configuration_file(world: World) -> None:
    [pod] = world.bootstrap(1)
    pod.put("k", "v")
    pod.stop()
    pod.restart_container(
        "",
        {"ETCD_FORCE_NEW_CLUSTER": "true", "ETCD_DATA_DIR": "/nowhere", "ETCD_NAME": "other"},
        "--force-new-cluster",
        "--data-dir=/nowhere",
    )
    eventually(lambda: _read(pod, "k") == "v", PATIENCE)
    assert logged(pod, "starting an etcd server")["force-new-cluster"] is False


async def test_the_operator_s_client_and_start_interoperate(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for deadline in ("CONNECT_SECONDS", "TOTAL_SECONDS"):
        monkeypatch.setattr(tickets, deadline, PATIENCE)
    pod = world.pod("c-0")
    process = pod.waits()
    ids = world.predicted([pod])["c-0"]
    client = TcpStart(pod.place.port)
    address, uid = pod.settings.host, pod.settings.pod_uid
    answer = await client.ask(address, uid, KEY)
    assert answer.finding == ticket.Finding("no-data")
    offered = ticket.Ticket(
        answer.challenge,
        "uid-1",
        1,
        "c-0",
        ids.member_id,
        ids.cluster_id,
        "new",
        pod.entry,
        world.token,
    )
    receipt = await client.push(address, uid, KEY, offered)
    assert receipt == ticket.Receipt(answer.challenge)
    assert process.wait(PATIENCE) == 0
    pod.serves()
    assert pod.ids() == ids
