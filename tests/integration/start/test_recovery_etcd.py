"""Recovery from a lost quorum with real processes: the containers of the Job, etcd of each minor.

The quorum is really lost: two of three members are killed, and their volumes wiped or left behind.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from start_pods import PATIENCE, ROOT, NoReply, Pod, World, eventually

from etcd_operator.recover import files, finish, prepare
from etcd_operator.start import volume
from etcd_operator.start.journal import Journal
from etcd_stateful.jobs.recover import CONFIG, CONFIG_PATH, REFUSED_EXIT, Order
from etcd_stateful.start import marker, wal

pytestmark = pytest.mark.integration

WRITES = 60
NEVER = 0
"""The number of no effect."""


class Killed(BaseException):
    """The container is killed at this very point."""


class Job:
    """The Job's pod on a survivor's volume: `prepare`, then etcd beside `finish`."""

    def __init__(self, pod: Pod, ids: wal.Identity, epoch: int) -> None:
        self.pod = pod
        self.ids = ids
        self.settings = replace(pod.settings, epoch=epoch)
        self.order = Order(self.settings, ids.member_id, ids.cluster_id)
        self.etcd: subprocess.Popen[bytes] | None = None

    def container(self, what: str) -> subprocess.Popen[bytes]:
        """`prepare` or `finish` as it runs in the Job."""
        told = self.pod.log.with_name(f"{what}.json")
        settings = asdict(self.settings) | {"options": {}}
        ids = [self.ids.member_id, self.ids.cluster_id]
        root = str(self.pod.volume)
        given = {"settings": settings, "ids": ids, "volume": root, "what": what}
        told.write_text(json.dumps(given))
        script = str(Path(__file__).with_name("run_recover.py"))
        path = f"{ROOT / 'operator'}:{ROOT / 'stateful'}"
        return self.pod._spawn([sys.executable, script, str(told)], {"PYTHONPATH": path})

    def start_etcd(self) -> subprocess.Popen[bytes]:
        """The sidecar, with the words of the Job's manifest."""
        option = f"--config-file={self.pod.volume}/{CONFIG_PATH}"
        self.etcd = self.pod._spawn([self.pod.etcd, option], {})
        return self.etcd

    def run(self) -> None:
        """From its beginning to its end."""
        assert self.container("prepare").wait(PATIENCE) == 0, self.pod.log.read_text()
        self.start_etcd()
        assert self.container("finish").wait(PATIENCE) == 0, self.pod.log.read_text()
        self.pod.stop(signal.SIGTERM)

    def run_until(self, effect: int, *, after: bool) -> bool:
        """One run that is killed at its n-th effect, and its etcd with it. False: it got to its
        end, as there is none."""
        journal, root = Journal("/nowhere", "recover"), str(self.pod.volume)
        counted = Effects(effect, after=after)
        try:
            prepare.prepare(self.order, root, journal)
            self.start_etcd()
            finish.Finish(self.order, root, journal).run()
        except Killed:
            return True
        finally:
            counted.undo()
            self.pod.stop()
        return False


class Effects:
    """Counts what a run does to volume and processes, and ends it at one of these."""

    def __init__(self, last: int, *, after: bool) -> None:
        self._patches = pytest.MonkeyPatch()
        self._left, self._after = last, after
        for place, name in (
            (files, "set_aside"),
            (files, "remove_config"),
            (volume, "write"),
            (finish.os, "kill"),
        ):
            self._patches.setattr(place, name, self._wrapped(getattr(place, name)))

    def _wrapped(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def effect(*arguments: Any) -> Any:
            self._left -= 1
            if self._left == 0 and not self._after:
                raise Killed
            result = real(*arguments)
            if self._left == 0:
                raise Killed
            return result

        return effect

    def undo(self) -> None:
        self._patches.undo()


@pytest.fixture
def lost(world: World) -> Iterator[tuple[list[Pod], wal.Identity]]:
    """Three members with acknowledged writes; two of them die, and the third is told to stop."""
    pods = world.bootstrap(3)
    for number in range(WRITES):
        pods[0].put(f"k{number}", str(number))
    # What the survivor has is what counts: it applies the last write a moment after the leader.
    eventually(lambda: _serializable(pods[1], f"k{WRITES - 1}") is not None, PATIENCE)
    ids = pods[1].ids()
    for pod in (pods[0], pods[2]):
        pod.stop()
    pods[1].stop(signal.SIGTERM)
    return pods, ids


def _serializable(pod: Pod, key: str) -> str | None:
    from start_pods import _encode

    return pod.call("kv/range", key=_encode(key), serializable=True).get("kvs")


def has_every_write(pod: Pod) -> bool:
    return all(pod.get(f"k{number}") == str(number) for number in range(WRITES))


def runs_as(pod: Pod, epoch: int) -> None:
    """The pod of the StatefulSet starts without anybody's leave."""
    pod.runs(epoch=epoch)
    pod.serves()
    eventually(lambda: listed(pod) is not None, PATIENCE)


def listed(pod: Pod) -> dict[str, int] | None:
    try:
        return pod.members()
    except NoReply:
        return None


def test_a_survivor_with_tls_continues_alone_and_keeps_its_urls(world: World) -> None:
    """The Job mounts no certificate: its etcd listens to nobody but its own pod."""
    pods = world.secure().bootstrap(3)
    pods[0].put("k", "v")
    eventually(lambda: _serializable(pods[1], "k") is not None, PATIENCE)
    ids, survivor = pods[1].ids(), pods[1]
    for pod in pods:
        pod.stop(signal.SIGTERM)

    Job(survivor, ids, epoch=2).run()

    runs_as(survivor, 2)
    assert survivor.get("k") == "v"
    [member] = survivor.call("cluster/member/list", linearizable=True)["members"]
    assert member["peerURLs"] == [survivor.peer_url]
    assert member["clientURLs"] == [survivor.client_url]
    assert survivor.peer_url.startswith("https://")
    other = world.pod("c-0", epoch=2)
    joins(survivor, other)
    assert other.get("k") == "v"


def test_a_survivor_continues_alone_with_all_its_writes_and_members_rejoin(
    world: World, lost: tuple[list[Pod], wal.Identity]
) -> None:
    pods, ids = lost
    survivor = pods[1]

    Job(survivor, ids, epoch=2).run()

    assert survivor.marker() == marker.Marker("uid-1", 2, "c-1", ids.member_id, ids.cluster_id)
    assert not (survivor.volume / CONFIG).exists()
    runs_as(survivor, 2)
    assert survivor.ids() == ids
    assert survivor.members() == {"c-1": ids.member_id}
    [member] = survivor.call("cluster/member/list", linearizable=True)["members"]
    assert member["peerURLs"] == [survivor.peer_url]
    assert member["clientURLs"] == [survivor.client_url]
    assert has_every_write(survivor)

    others = [world.pod("c-0", epoch=2), world.pod("c-2", epoch=2)]
    for pod in others:
        joins(survivor, pod)
    survivor.put("after", "v")
    for pod in others:
        assert has_every_write(pod)
        assert pod.get("after") == "v"
    assert len(survivor.members()) == 3

    # The control for `never in a pod's configuration`: they stay through restarts of the survivor.
    survivor.stop()
    runs_as(survivor, 2)
    assert len(survivor.members()) == 3
    assert survivor.get("after") == "v"


def joins(first: Pod, pod: Pod) -> None:
    """Added as a learner, started with its ticket, promoted."""
    process = pod.waits()
    added: dict[str, Any] = {}

    def is_added() -> bool:
        try:
            added.update(first.call("cluster/member/add", peerURLs=[pod.peer_url], isLearner=True))
        except NoReply:
            return False
        return True

    eventually(is_added, PATIENCE)
    entries = [
        f"{one.get('name') or pod.settings.member}={one['peerURLs'][0]}" for one in added["members"]
    ]
    receipt = pod.push(
        state="existing",
        initial_cluster=",".join(entries),
        member_id=int(added["member"]["ID"]),
        cluster_id=int(added["header"]["cluster_id"]),
    )
    assert receipt.refusal == ""
    assert process.wait(PATIENCE) == 0
    pod.serves()

    promoted = added["member"]["ID"]
    eventually(lambda: first.takes("cluster/member/promote", ID=promoted), PATIENCE)
    eventually(lambda: listed(pod) is not None, PATIENCE)


def test_volumes_from_before_the_recovery_are_not_started(
    lost: tuple[list[Pod], wal.Identity],
) -> None:
    """Neither those of the other members nor, until it is recovered, the survivor's own."""
    pods, ids = lost
    survivor = pods[1]
    for pod in pods:
        pod.waits(epoch=2)
        assert (pod.ask().finding.found, pod.ask().finding.epoch) == ("foreign-data", 1)
        pod.stop()
    job = Job(survivor, ids, epoch=2)
    assert job.container("prepare").wait(PATIENCE) == 0
    survivor.stop()
    for epoch in (1, 2):  # half-way it is of no epoch at all
        survivor.waits(epoch=epoch)
        assert survivor.ask().finding.detail == "a log without a marker"
        survivor.stop()
    job.run()
    runs_as(survivor, 2)
    # Were they to run all the same, they would not get in: the survivor knows them as removed.
    pods[0].runs(epoch=1)
    pods[0].restart_container()
    eventually(lambda: pods[0].processes[-1].poll() is not None, PATIENCE)
    assert survivor.members() == {"c-1": ids.member_id}


def test_a_second_run_of_the_recovery_changes_nothing(lost: tuple[list[Pod], wal.Identity]) -> None:
    """The Job's pod may be made again after it had done all its work."""
    pods, ids = lost
    survivor = pods[1]
    Job(survivor, ids, epoch=2).run()
    marked = survivor.marker()

    Job(survivor, ids, epoch=2).run()

    assert survivor.marker() == marked
    started = [line for line in survivor.log.read_text().splitlines() if "starting an etcd" in line]
    assert '"force-new-cluster":false' in started[-1]
    runs_as(survivor, 2)
    assert has_every_write(survivor)


def test_a_recovery_killed_anywhere_is_finished_by_the_next_run(
    lost: tuple[list[Pod], wal.Identity],
) -> None:
    """Each point is one more recovery, of the next epoch, of the same volume."""
    pods, ids = lost
    survivor, epoch = pods[1], 1
    points = [(effect, after) for effect in range(1, 6) for after in (False, True)]
    for effect, after in points:
        epoch += 1
        assert Job(survivor, ids, epoch).run_until(effect, after=after), effect
        assert not Job(survivor, ids, epoch).run_until(NEVER, after=False)
        assert survivor.marker().epoch == epoch
    epoch += 1
    assert not Job(survivor, ids, epoch).run_until(6, after=False), "there is no other point"
    assert survivor.marker().epoch == epoch
    runs_as(survivor, epoch)
    assert survivor.ids() == ids
    assert survivor.members() == {"c-1": ids.member_id}
    assert has_every_write(survivor)


@pytest.mark.parametrize("gone", ["data", "data/member", "data/member/wal"])
def test_an_emptied_volume_does_not_start_a_new_cluster(
    lost: tuple[list[Pod], wal.Identity], gone: str
) -> None:
    """Neither by the Job nor by a sidecar that is restarted on it."""
    pods, ids = lost
    survivor = pods[1]
    job = Job(survivor, ids, epoch=2)
    assert job.container("prepare").wait(PATIENCE) == 0
    config = survivor.volume / CONFIG
    shutil.rmtree(survivor.volume / gone)

    assert job.start_etcd().wait(PATIENCE) != 0
    assert job.container("prepare").wait(PATIENCE) == REFUSED_EXIT
    assert job.container("finish").wait(PATIENCE) == 1
    # Nor is it the path alone that keeps it from starting.
    elsewhere = survivor.log.parent / "elsewhere.yaml"
    shutil.copy(config, elsewhere)
    assert "cannot fetch cluster info" in survivor.dies(str(elsewhere))


def test_another_member_s_volume_is_refused_and_left_alone(
    lost: tuple[list[Pod], wal.Identity],
) -> None:
    pods, ids = lost
    content = sorted(str(path) for path in pods[0].volume.rglob("*"))

    assert Job(pods[0], ids, epoch=2).container("prepare").wait(PATIENCE) == REFUSED_EXIT

    assert sorted(str(path) for path in pods[0].volume.rglob("*")) == content
    assert pods[0].marker().epoch == 1


def test_a_learner_on_the_member_list_is_removed_too(world: World) -> None:
    pods = world.bootstrap(3)
    pods[1].put("k", "v")
    learner = world.pod("c-3")
    asked = {"peerURLs": [learner.peer_url], "isLearner": True}
    eventually(lambda: pods[1].takes("cluster/member/add", **asked), PATIENCE)
    eventually(lambda: len(pods[1].members()) == 4, PATIENCE)
    ids = pods[1].ids()
    for pod in (pods[0], pods[2]):
        pod.stop()
    pods[1].stop(signal.SIGTERM)

    Job(pods[1], ids, epoch=2).run()

    runs_as(pods[1], 2)
    assert pods[1].members() == {"c-1": ids.member_id}
    assert pods[1].get("k") == "v"


def test_a_learner_cannot_be_the_survivor(world: World) -> None:
    """etcd panics as it removes the last voter: why one that says it is a learner is refused."""
    pods = world.bootstrap(1)
    learner = world.pod("c-1")
    process = learner.waits()
    added = pods[0].call("cluster/member/add", peerURLs=[learner.peer_url], isLearner=True)
    ids = wal.Identity(int(added["member"]["ID"]), int(added["header"]["cluster_id"]))
    learner.push(
        state="existing",
        initial_cluster=f"{pods[0].entry},{learner.entry}",
        member_id=ids.member_id,
        cluster_id=ids.cluster_id,
    )
    assert process.wait(PATIENCE) == 0
    learner.serves()
    eventually(lambda: learner.status().get("isLearner"), PATIENCE)
    pods[0].stop()
    learner.stop(signal.SIGTERM)
    job = Job(learner, ids, epoch=2)

    assert job.container("prepare").wait(PATIENCE) == 0

    assert job.start_etcd().wait(PATIENCE) != 0
    assert not (learner.volume / marker.FILE).exists()


def test_a_removed_member_cannot_be_the_survivor(world: World, tmp_path: Path) -> None:
    """etcd panics here too. What docs/recovery.md says to do with the data works all the same."""
    pods = world.bootstrap(3)
    pods[0].put("k", "the last copy")
    ids = pods[1].ids()
    # The leader writes down that its removal is committed. To a follower the others may say that it
    # is gone before it has heard so, and etcd runs on what that one has on its disk.
    becomes_leader(pods[1], pods)
    process = pods[1].processes[-1]
    eventually(lambda: pods[0].takes("cluster/member/remove", ID=str(ids.member_id)), PATIENCE)
    assert process.wait(PATIENCE) == 0
    for pod in (pods[0], pods[2]):
        pod.stop()
    job = Job(pods[1], ids, epoch=2)

    assert job.container("prepare").wait(PATIENCE) == 0

    assert job.start_etcd().wait(PATIENCE) != 0
    assert "removed all voters" in pods[1].log.read_text()
    assert not (pods[1].volume / marker.FILE).exists()
    database = pods[1].volume / "data/member/snap/db"
    restored = tmp_path / "restored"
    etcdutl = str(Path(world.etcd).parent / Path(world.etcd).name.replace("etcd-", "etcdutl-"))
    arguments = ["snapshot", "restore", str(database), "--skip-hash-check", "--data-dir"]
    subprocess.run([etcdutl, *arguments, str(restored)], check=True, timeout=PATIENCE)
    assert b"the last copy" in (restored / "member/snap/db").read_bytes()


def becomes_leader(pod: Pod, pods: list[Pod]) -> None:
    mine = str(pod.ids().member_id)

    def leads() -> bool:
        leader = pod.status()["leader"]
        if leader != mine:
            [other] = [each for each in pods if str(each.ids().member_id) == leader]
            other.takes("maintenance/transfer-leadership", targetID=mine)
        return bool(leader == mine)

    eventually(leads, PATIENCE)


def test_a_killed_survivor_loses_at_most_its_last_write(world: World) -> None:
    """What etcd has not written down as committed, `force-new-cluster` drops: documented, and the
    reason why the recovery lets the survivor stop gracefully first."""
    pods = world.bootstrap(3)
    for number in range(WRITES):
        pods[1].put(f"k{number}", str(number))
    ids = pods[1].ids()
    for pod in pods:
        pod.stop()

    Job(pods[1], ids, epoch=2).run()

    runs_as(pods[1], 2)
    missing = [number for number in range(WRITES) if pods[1].get(f"k{number}") is None]
    assert missing in ([], [WRITES - 1])
