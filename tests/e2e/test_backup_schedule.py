"""Scheduled backups, every minute, to an S3 server: made, missed, deleted by retention."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import backups
from harness.api import BACKUPS, SCHEDULES, Json
from harness.conditions import condition
from harness.place import Place
from harness.waiting import eventually

from localkube.s3 import S3Server

pytestmark = pytest.mark.usefixtures("local_node")

LABEL = "etcd.database.coreos.com/schedule"


@pytest.mark.timeout(300)
def test_a_backup_is_made_every_minute_and_the_oldest_is_deleted_with_its_files(
    place: Place, s3: S3Server
) -> None:
    place.declare(size=1, version="3.7.3").comes_up()
    backups.secret(place, s3)
    folder: Path = s3.folder / "data" / "mybucket" / "often"
    folder.mkdir()
    before = folder / "etcd_v7_2020-01-01-00:00:00"
    before.write_text("of another time")
    spec = {
        "schedule": "* * * * *",
        "timeZone": "Europe/Berlin",
        "jitterSeconds": 0,
        "retention": {"count": 1},
        "template": {
            "clusterRef": {"name": "etcd"},
            "storageType": "S3",
            "s3": backups.s3_place(s3, "mybucket/often/etcd"),
        },
    }
    manifest = {"metadata": {"name": "often"}, "spec": spec | {"schedule": "* * * * 5-3"}}
    place.kube.create(SCHEDULES, manifest, place.namespace)

    def schedule() -> Json | None:
        return place.kube.get(SCHEDULES, place.namespace, "often")

    def made() -> list[str]:
        found = place.kube.list(BACKUPS, place.namespace, f"{LABEL}=often")
        return sorted(one["metadata"]["name"] for one in found)

    def stored() -> list[str]:
        names = (path.name for path in folder.iterdir() if path != before)
        return sorted(name for name in names if not name.endswith(".json"))

    eventually(
        "what no schema can see is said by its field",
        lambda: condition(schedule(), "Accepted").get("message", ""),
        lambda words: "spec.schedule: bad day-of-week" in words,
        seconds=backups.SAYS_SECONDS,
    )
    place.kube.patch(SCHEDULES, place.namespace, "often", {"spec": {"schedule": "* * * * *"}})

    first = eventually("the first is made", made, seconds=70)
    _, in_store = eventually(
        "it is verified, and alone in the store",
        lambda: (verified(schedule()), stored()),
        lambda seen: seen[0] == [True] and len(seen[1]) == 1,
        seconds=40,
    )
    assert in_store[0].startswith("etcd_20")

    eventually(
        "the next has taken its place",
        lambda: (made(), stored()),
        lambda found: (
            len(found[0]) == len(found[1]) == 1 and found[0] != first and found[1] != in_store
        ),
        seconds=90,
    )
    status = schedule()["status"]
    assert status["missedRuns"] == 0
    assert condition(schedule(), "Retained")["status"] == "True"
    others = status["otherBackups"]
    assert (others["count"], others["partial"]) == (1, False)
    assert others["newest"][0]["location"] == f"s3://mybucket/often/{before.name}"
    assert before.exists(), "what it has not made is not let go"

    place.kube.patch(SCHEDULES, place.namespace, "often", {"spec": {"suspend": True}})
    place.kube.delete(SCHEDULES, place.namespace, "often")
    assert made(), "who deletes a schedule still has its backups"


def verified(schedule: Json | None) -> list[bool | None]:
    """Of each backup that its status names."""
    status = (schedule or {}).get("status") or {}
    return [one.get("verified") for one in status.get("backups", ())]
