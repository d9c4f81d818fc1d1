"""Parsing of EtcdBackupSchedules, and the EtcdBackup of each run."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etcd_stateful.api.backup import parse_backup
from etcd_stateful.api.schedule import RefusedSchedule, Retention, parse_schedule
from etcd_stateful.manifests.scheduled_backup import scheduled_backup

UID = "0a1b2c3d-0000-4000-8000-000000000000"
TEMPLATE: dict[str, Any] = {
    "clusterRef": {"name": "c"},
    "storageType": "S3",
    "s3": {"path": "mybucket/c/etcd", "awsSecret": "aws"},
}
WRITTEN = "2026-11-21T03:00:00Z"


def body(name: str = "nightly", template: Any = None, **changes: Any) -> dict[str, Any]:
    spec = {"schedule": "0 3 * * *", "template": TEMPLATE if template is None else template}
    metadata = {"namespace": "ns", "name": name, "uid": UID, "generation": 1}
    return {"metadata": metadata, "spec": {k: v for k, v in (spec | changes).items() if v != ""}}


def refusal(**changes: Any) -> str:
    with pytest.raises(RefusedSchedule) as caught:
        parse_schedule(body(**changes))
    return str(caught.value)


def test_an_absent_field_has_its_default() -> None:
    schedule = parse_schedule(body())

    assert (schedule.cron, schedule.time_zone, schedule.times) == (
        "0 3 * * *",
        "UTC",
        "0 3 * * * UTC",
    )
    assert (schedule.deadline, schedule.jitter, schedule.suspend) == (None, None, False)
    assert schedule.retention == Retention()
    assert not schedule.retention.limited


def test_a_jitter_of_zero_is_not_the_default() -> None:
    assert parse_schedule(body(jitterSeconds=0)).jitter == 0


def test_every_field_is_read() -> None:
    schedule = parse_schedule(
        body(
            schedule="0   3 * * MON",
            timeZone="America/Argentina/Buenos_Aires",
            startingDeadlineSeconds=600,
            jitterSeconds=300,
            suspend=True,
            retention={"count": 7, "maxAgeDays": 30},
        )
    )

    assert schedule.cron == "0 3 * * MON"
    assert (schedule.deadline, schedule.jitter, schedule.suspend) == (600, 300, True)
    assert schedule.retention == Retention(7, 30)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("mybucket/c/etcd", "mybucket/c/etcd_2026-11-21-03:00_0a1b2c3d"),
        ("mybucket/c/", "mybucket/c/2026-11-21-03:00_0a1b2c3d"),
    ],
)
def test_each_run_has_its_own_etcdbackup(path: str, expected: str) -> None:
    template = TEMPLATE | {"s3": TEMPLATE["s3"] | {"path": path}}
    schedule = parse_schedule(body(template=template))
    made = scheduled_backup(schedule, 1795230000, WRITTEN)

    backup = parse_backup(made)
    assert made["metadata"]["name"] == backup.name == "nightly-29920500"
    assert "ownerReferences" not in made["metadata"], "who deletes a schedule keeps its backups"
    assert backup.store.place == f"s3://{expected}"
    assert backup.verify == "Restore", "retention goes by what was verified"
    assert not backup.periodic
    assert template["s3"]["path"] == path, "the template stays as it is"


def test_no_trial_restore_if_the_template_says_so() -> None:
    schedule = parse_schedule(body(template=TEMPLATE | {"verify": "None"}))

    assert schedule.spec_of(WRITTEN)["verify"] == "None"


def test_copies_of_a_schedule_do_not_write_over_each_others_backups() -> None:
    """They have the same name, path and bucket, in another namespace or cluster."""
    other = body()
    other["metadata"] = other["metadata"] | {"uid": "ffffffff-0000-4000-8000-000000000000"}
    paths = {parse_schedule(one).spec_of(WRITTEN)["s3"]["path"] for one in (body(), other)}

    assert len(paths) == 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schedule": ""}, "spec.schedule: must be five fields"),
        ({"schedule": "@daily"}, "spec.schedule: must be five fields"),
        ({"schedule": "0 0 3 * * *"}, "spec.schedule: must be five fields"),
        ({"schedule": 5}, "spec.schedule: must be text"),
        ({"timeZone": "../../etc/passwd"}, "spec.timeZone: must be a name"),
        ({"timeZone": "+02:00"}, "spec.timeZone: must be a name"),
        ({"startingDeadlineSeconds": 1}, "spec.startingDeadlineSeconds: must be a number from 10"),
        ({"jitterSeconds": -1}, "spec.jitterSeconds: must be a number"),
        ({"suspend": "yes"}, "spec.suspend: must be true or false"),
        ({"retention": {"count": -1}}, "spec.retention.count: must be a number"),
        ({"retention": {"maxAgeDays": "7d"}}, "spec.retention.maxAgeDays: must be a number"),
        ({"template": {}}, "spec.template.storageType: must be one of"),
        ({"template": {"storageType": "FTP"}}, "spec.template.storageType: must be one of S3, "),
        ({"template": {"storageType": "S3"}}, "spec.template.s3.path: is missing"),
        ({"template": []}, "spec.template: must be an object"),
        (
            {"template": TEMPLATE | {"clusterRef": None}},
            "spec.template.etcdEndpoints: or clusterRef",
        ),
        (
            {"template": TEMPLATE | {"s3": {"path": "mybucket/../other"}}},
            "spec.template.s3.path: must not have an empty part",
        ),
        (
            {"template": TEMPLATE | {"s3": {"path": "mybucket/" + "a" * 890}}},
            "spec.template.s3.path: has",
        ),
        (
            {"template": TEMPLATE | {"backupPolicy": {"maxBackups": 3}}},
            "spec.template.backupPolicy.maxBackups: cannot be set in the template",
        ),
        (
            {"template": TEMPLATE | {"backupPolicy": {"backupIntervalInSecond": 3}}},
            "spec.template.backupPolicy.backupIntervalInSecond: cannot be set",
        ),
        ({"name": "n" * 53}, "metadata.name: is longer than 52"),
    ],
)
def test_each_mistake_is_reported_with_its_field(changes: Any, words: str) -> None:
    assert words in refusal(**changes)


@pytest.mark.parametrize("spec", [None, [], "a", {"template": None}, {"schedule": None}])
def test_an_invalid_spec_raises_no_other_exception(spec: Any) -> None:
    with pytest.raises(RefusedSchedule):
        parse_schedule({"metadata": {"name": "a"}, "spec": spec})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=4,
)
PLACES = [
    *(["schedule"], ["timeZone"], ["startingDeadlineSeconds"], ["jitterSeconds"], ["suspend"]),
    *(["retention"], ["retention", "count"], ["template"], ["template", "storageType"]),
    *(["template", "s3"], ["template", "s3", "path"], ["template", "backupPolicy"]),
    *(["template", "clusterRef"], ["template", "verify"], ["template", "pod"]),
]


@given(st.sampled_from(PLACES), JSON)
def test_any_json_is_accepted_or_refused_with_a_message(place: list[str], value: Any) -> None:
    given_ = copy.deepcopy(body(retention={}))
    inner = given_["spec"]
    for part in place[:-1]:
        inner = inner[part]
    inner[place[-1]] = value

    assert all(path.startswith("spec.") for path in refused_fields(given_))


def refused_fields(given_: dict[str, Any]) -> list[str]:
    try:
        parse_backup(scheduled_backup(parse_schedule(given_), 60, WRITTEN))
    except RefusedSchedule as refused:
        return [one.path for one in refused.problems]
    return []
