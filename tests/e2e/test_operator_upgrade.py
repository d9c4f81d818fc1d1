"""An upgrade from an older version of the operator, and a rollback, with running clusters.

The older version is a commit (`harness/older.py`): its chart, its CRDs, the image of its code. What
one operator has created and begun, the other one continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from harness import machines, older
from harness.api import CRDS, ETCD_GROUP, ROOT, Json, Kube
from harness.backups import Backup
from harness.clusters import Cluster
from harness.fleet import CHANGE_SECONDS, Begun, Fleet, Stored
from harness.gate import Gate
from harness.load import under_load
from harness.losses import delete_claim
from harness.membership import settles
from harness.older import COMMIT, Version
from harness.place import Place
from harness.release import Release
from harness.story import story_of
from harness.waiting import eventually

from localkube.s3 import S3Server

pytestmark = [pytest.mark.verify, pytest.mark.alone, pytest.mark.usefixtures("local_node")]

RATE = 8
"""Operations per second and client: two clusters are under load, for minutes."""


@pytest.fixture(scope="module")
def earlier(local_node: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Version]:
    folder = tmp_path_factory.mktemp("older") / "checkout"
    found = older.bring_in(older.check_out(ROOT, COMMIT, folder))
    yield found
    machines.forget_image(found.image)


@pytest.fixture
def gate(kube: Kube) -> Iterator[Gate]:
    gate = Gate(kube)
    gate.open()
    yield gate
    gate.shut()


@pytest.mark.timeout(1200)
def test_an_upgrade_restarts_no_member_and_continues_unfinished_changes(
    place: Place, release: Release, earlier: Version, gate: Gate, s3: S3Server
):
    present = Version(ROOT, place.operator.image)
    release.install_instead(earlier)

    up = partial(release.upgrade_as_documented, present.image)
    passes(place, gate, s3, earlier, present, up).opens()


@pytest.mark.timeout(1200)
def test_a_rollback_restarts_no_member_and_allows_another_upgrade(
    place: Place, release: Release, earlier: Version, gate: Gate, s3: S3Server
):
    present = Version(ROOT, place.operator.image)
    release.install_instead(earlier)
    release.upgrade_as_documented(present.image)

    fleet = passes(place, gate, s3, present, earlier, release.roll_back)

    before = fleet.seen()
    release.upgrade_as_documented(present.image)
    fleet.is_taken_on(present.image, before)
    fleet.has_its_data()
    fleet.opens()


def passes(
    place: Place,
    gate: Gate,
    s3: S3Server,
    one: Version,
    other: Version,
    change: Callable[[], None],
) -> Fleet:
    """From one version, which is installed, to the other."""
    assert served(place) == one.schemas()
    paused, begun = place.declare(size=1, name="paused"), Begun.declared(place, gate)
    fleet = Fleet.declared(place).comes_up()
    stored = Stored.declared(place, s3)
    begun.comes_up()
    pause_before_it_grows(paused.comes_up())
    often = stored.is_made().made_often(frozenset())
    before, once, declared = fleet.seen(), as_told(stored.once), as_written(paused)
    of_before = begun.pod_uids()

    with (
        story_of(begun.turning) as story,
        under_load(fleet.etcd, RATE) as load,
        under_load(begun.growing, RATE),
    ):
        begun.begin()
        stored.begin(gate)
        halfway = begun.pod_uids()

        change()

        assert served(place) == other.schemas()
        fleet.is_taken_on(other.image, before)
        assert begun.pod_uids() == halfway
        gate.open()
        begun.end()
        stored.end()
        load.was_served()

    assert fleet.seen() == before
    fleet.has_its_data()
    assert of_before["growing"].items() <= begun.growing.pod_uids().items()
    assert sorted(story.stopped) == sorted(of_before["turning"]), "each restarts once"
    assert as_written(paused) == declared
    changes_as_ever(place, fleet.etcd, begun.growing, paused)
    assert as_told(stored.once) == once
    stored.is_restored_again()
    stored.goes_with_its_object()
    stored.made_often(often)
    return fleet


def served(place: Place) -> Json:
    """What the API server knows of our kinds."""
    found = place.kube.list(CRDS)
    return older.schemas_of([one for one in found if one["spec"]["group"] == ETCD_GROUP])


def pause_before_it_grows(cluster: Cluster) -> None:
    cluster.change(paused=True)
    cluster.holds("SpecPaused", kind="Paused")
    cluster.scale(3)


def as_written(cluster: Cluster) -> tuple[int, dict[str, str]]:
    """What no operator may touch while it is paused."""
    stateful_set = cluster.stateful_set()
    assert stateful_set is not None
    return stateful_set["metadata"]["generation"], cluster.pod_uids()


def as_told(backup: Backup) -> Json:
    """Its status without the condition Ready, which the older version does not know."""
    status = backup.status()
    return status | {"conditions": [one for one in status["conditions"] if one["type"] != "Ready"]}


def changes_as_ever(place: Place, etcd: Cluster, growing: Cluster, paused: Cluster) -> None:
    """A member is replaced, two are removed, a pause ends."""
    place.may_lose |= {"data-etcd-1", "data-growing-3", "data-growing-4"}
    lost = etcd.client.members().ids["etcd-1"]
    with under_load(etcd, RATE):
        delete_claim(etcd, 1)
        growing.scale(3)
        paused.change(paused=False)
        eventually(
            "etcd-1 is another member",
            lambda: etcd.client.members().ids.get("etcd-1"),
            lambda found: found not in (None, lost),
            seconds=CHANGE_SECONDS,
        )
        for cluster in (etcd, growing, paused):
            settles(cluster, 3, CHANGE_SECONDS)
