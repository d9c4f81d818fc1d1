"""Hostile EtcdBackups, EtcdBackupSchedules, EtcdRestores: refused, or made into harmless Jobs."""

from __future__ import annotations

import ipaddress
import json
import re
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from etcd_operator.backup_controllers.cron import calendar_of
from etcd_operator.kube.api import PODS
from etcd_operator.kube.store import Owner, owners_of
from etcd_stateful.api.backup import EtcdBackup, parse_backup, split_endpoint
from etcd_stateful.api.reading import RefusedObject
from etcd_stateful.api.restore import parse_restore
from etcd_stateful.api.schedule import parse_schedule
from etcd_stateful.api.stores import Store
from etcd_stateful.backup import order as orders
from etcd_stateful.backup.observed import Run, Target
from etcd_stateful.backup.outcome import Stored
from etcd_stateful.manifests.backup_job import backup_job, deletion_job, description_job, order
from etcd_stateful.manifests.scheduled_backup import scheduled_backup
from etcd_stateful.manifests.trial_job import trial_job
from unit.api.hostile import UID, Json, kinds

IMAGE, ETCD = "operator:1", "quay.io/coreos/etcd:v3.7.3"
RUN, TARGET = Run("g1", 0.0), Target(("http://c-0.c.ns.svc:2379",), 0xAB)
STORED = Stored("", "", 1, "3.7.3", 1, "9f", "a")
NOON = 1_800_000_000
LONGEST_WORDS = 2000
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
STORE_ADDRESS = re.compile(r"https?://[^/?#@\s]+(/[^?#@\s]*)?")
LOCAL_NAME = re.compile(
    r"(?i)(.*\.)?localhost|kubernetes(\.default(\.svc(\..*)?)?)?|metadata\.google\.internal"
)
MOUNTS = {
    orders.STORE_FOLDER, orders.CA_FOLDER, orders.CLIENT_FOLDER, orders.VOLUME, "/var/etcd-trial",
}  # fmt: skip


def jobs_of_backup(body: Json) -> list[Json]:
    backup = parse_backup(body)
    target = TARGET if backup.cluster else None
    check_order(order(backup, target), backup)
    return [
        backup_job(backup, RUN, target, operator_image=IMAGE),
        deletion_job(backup, {}, operator_image=IMAGE),
        trial_job(backup, RUN, STORED, etcd_image=ETCD, operator_image=IMAGE),
    ]


def jobs_of_schedule(body: Json) -> list[Json]:
    schedule = parse_schedule(body)
    assert calendar_of(schedule).upcoming(NOON) > NOON
    made = scheduled_backup(schedule, NOON, "2027-01-15T08:00:00Z")
    assert DNS_SUBDOMAIN.fullmatch(made["metadata"]["name"])
    assert made["metadata"]["namespace"] == "ns"
    return jobs_of_backup({**made, "metadata": {**made["metadata"], "uid": UID}})


def jobs_of_restore(body: Json) -> list[Json]:
    restore = parse_restore(body)
    assert restore.name == "good"
    if not isinstance(restore.source, Store):
        assert DNS_SUBDOMAIN.fullmatch(restore.source.name)
        return []
    return [description_job(restore, restore.source, operator_image=IMAGE)]


RENDER: dict[str, Callable[[Json], list[Json]]] = {
    "EtcdBackup": jobs_of_backup,
    "EtcdBackupSchedule": jobs_of_schedule,
    "EtcdRestore": jobs_of_restore,
}


def jobs(kind: str, body: Json) -> list[Json] | None:
    """None if it is refused; the refusal must name a field and fit into a status."""
    try:
        made = RENDER[kind](body)
    except RefusedObject as refused:
        check_refusal(refused)
        return None
    for one in made:
        check_job(one)
    return made


def check_refusal(refused: RefusedObject) -> None:
    assert refused.problems
    for problem in refused.problems:
        assert problem.path.startswith("spec"), problem
        assert len(str(problem)) < LONGEST_WORDS


def test_the_corpus_is_as_large_as_promised() -> None:
    assert kinds().keys() == RENDER.keys()
    assert sum(len(kind.texts) for kind in kinds().values()) > 1000
    assert sum(len(kind.rows) for kind in kinds().values()) > 60


@pytest.mark.parametrize("kind", RENDER)
def test_a_valid_object_is_accepted(kind: str) -> None:
    """Otherwise the tests below would prove nothing."""
    assert jobs(kind, kinds()[kind].good)


@pytest.mark.parametrize("kind", RENDER)
def test_each_hostile_spec_is_refused_by_a_field_or_rendered_without_harm(kind: str) -> None:
    taken = {case for case, body in kinds()[kind].rows.items() if jobs(kind, body)}

    assert len(taken) < len(kinds()[kind].rows) / 3, taken


@pytest.mark.parametrize("kind", RENDER)
def test_text_of_a_spec_appears_only_in_the_fields_it_is_for(kind: str) -> None:
    """A path with `$$` reached the pod as another path, because the kubelet halves them."""
    before = [dict(leaves(one)) for one in jobs(kind, kinds()[kind].good) or ()]
    for case, (body, allowed) in kinds()[kind].texts.items():
        for good, made in zip(before, jobs(kind, body) or (), strict=False):
            now = dict(leaves(made))
            changed = {path for path in good.keys() | now.keys() if good.get(path) != now.get(path)}
            astray = [path for path in changed if not any(one in path for one in allowed)]
            assert not astray, f"{case}: {astray}"


@pytest.mark.parametrize("kind", ["EtcdBackup", "EtcdRestore"])
def test_no_endpoint_leads_a_job_to_itself_the_node_or_the_api_server(kind: str) -> None:
    words = ("metadata service", "loopback", "unspecified", "link-local", "api server")
    hostile = {
        case: body
        for case, (body, _) in kinds()[kind].texts.items()
        if "ndpoint" in case and case.partition(": ")[2].startswith(words)
    }

    assert len(hostile) >= 10
    assert not [case for case, body in hostile.items() if jobs(kind, body)]


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of a Job. Those of an order have the same path, whichever container it is for."""
    if isinstance(value, dict) and value.get("name") == orders.VARIABLE:
        yield f"{path}.order", value["value"]
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from leaves(one, f"{path}.{key}")
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from leaves(one, f"{path}.{index}")
    else:
        yield path, value


def check_order(told: orders.Order, backup: EtcdBackup) -> None:
    for one in told.endpoints:
        scheme, address = split_endpoint(one)
        check_host(address.rpartition(":")[0])
        assert scheme in ("", "http", "https")
        assert re.fullmatch(r"([a-zA-Z0-9._-]+|\[[0-9a-fA-F:]+\]):[0-9]{1,5}", address)
    if told.store.endpoint:
        assert STORE_ADDRESS.fullmatch(told.store.endpoint)
        host = re.sub(r"(:[0-9]+)?(/.*)?$", "", told.store.endpoint.partition("://")[2])
        check_host(host)
        check_host(f"{told.store.bucket}.{host}")
    assert not {"", ".", ".."} & set(told.store.key.removesuffix("/").split("/"))
    assert told.owner == f"ns/{backup.name}"


def check_host(host: str) -> None:
    """Reads it as the C library does, in all the forms of an address that it knows."""
    assert not LOCAL_NAME.fullmatch(host.rstrip(".")), host
    try:
        found = ipaddress.ip_address(host.strip("[]") if ":" in host else socket.inet_aton(host))
    except (OSError, ValueError):
        return
    found = getattr(found, "ipv4_mapped", None) or found
    assert not any((found.is_loopback, found.is_link_local, found.is_unspecified)), host


def check_job(job: Json) -> None:
    json.dumps(job, allow_nan=False).encode()
    metadata, pod = job["metadata"], job["spec"]["template"]["spec"]
    assert metadata["namespace"] == "ns"
    assert DNS_LABEL.fullmatch(metadata["name"])
    assert [owner["uid"] for owner in metadata["ownerReferences"]] == [UID]
    assert metadata["labels"]["app.kubernetes.io/name"] == "etcd-backup"
    assert metadata["labels"].items() <= job["spec"]["template"]["metadata"]["labels"].items()
    assert pod["automountServiceAccountToken"] is False
    assert not pod.keys() & {"hostNetwork", "hostPID", "hostIPC", "nodeName", "hostAliases"}
    assert owners(job["spec"]["template"]["metadata"]) == owners(metadata), "it hides its pods"
    for volume in pod.get("volumes", ()):
        check_volume(volume)
    for container in (*pod.get("initContainers", ()), *pod["containers"]):
        check_container(container)


def owners(metadata: Json) -> tuple[Owner, ...]:
    """Who is told of an object with these labels and annotations, and finds it in the store."""
    return owners_of(PODS, {"metadata": metadata | {"namespace": "ns"}})


def check_volume(volume: Json) -> None:
    assert volume.keys() - {"name"} <= {"secret", "persistentVolumeClaim", "emptyDir"}
    names = {
        volume.get("secret", {}).get("secretName"),
        volume.get("persistentVolumeClaim", {}).get("claimName"),
    }
    assert all(DNS_SUBDOMAIN.fullmatch(name) for name in names - {None})


def check_container(container: Json) -> None:
    assert container["image"] in (IMAGE, ETCD)
    assert container["command"][0] in ("python3", "etcdutl", "etcd", "/usr/local/bin/etcd",
                                       "/usr/local/bin/etcdutl")  # fmt: skip
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert {mount["mountPath"] for mount in container.get("volumeMounts", ())} <= MOUNTS
    for variable in container.get("env", ()):
        assert "$" not in variable["value"], "the kubelet would expand it"
        if variable["name"] == orders.VARIABLE:
            orders.parse(variable["value"])
