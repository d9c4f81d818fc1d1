"""Any input from outside is parsed or refused with the parser's own exception.

Custom resources: api/test_hostile.py. The messages of `start`, the WAL's records and the records on
claims have further such tests in their own modules.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import json
import math
import pkgutil
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from google.protobuf.empty_pb2 import Empty
from hypothesis import example, given
from hypothesis import strategies as st
from start_helpers import FIRST_SEGMENT

import etcd_stateful
from etcd_operator import timestamps
from etcd_operator.etcd import fields as etcd_fields
from etcd_operator.kube import tables
from etcd_operator.kube.api import KubeError
from etcd_operator.objects import termination_message, trouble
from etcd_stateful import identity, naming
from etcd_stateful.api.backup import RefusedBackup, parse_backup
from etcd_stateful.api.issuer import Issuer
from etcd_stateful.api.quantity import parse_quantity
from etcd_stateful.api.restore import RefusedRestore, parse_restore
from etcd_stateful.api.schedule import RefusedSchedule, parse_schedule
from etcd_stateful.api.stores import Store
from etcd_stateful.api.tls import Link, Links, Trust
from etcd_stateful.backup import credentials, manifest, order, outcome
from etcd_stateful.backup.foreign_files import ForeignFile, ForeignFiles
from etcd_stateful.backup.measurement import NEVER, Hash, Measured
from etcd_stateful.backup.reference import Chosen
from etcd_stateful.jobs import restore
from etcd_stateful.jobs.recover import parse_order
from etcd_stateful.records import bootstrap as records
from etcd_stateful.records.accounts import Accounts
from etcd_stateful.records.bootstrap_json import dump_bootstrap, load_bootstrap
from etcd_stateful.records.errors import BadRecord
from etcd_stateful.records.member import load_member
from etcd_stateful.records.successor import Successor
from etcd_stateful.start import configuration, marker, ticket, wal
from etcd_stateful.start.ticket import NotGenuine
from etcd_stateful.versions import parse_version

KEY = b"k" * 32
DEEP = "[" * 3_000
TEXTS = st.text() | st.sampled_from([DEEP, '{"a":' * 3_000, "null", "NaN", '"\\ud800"', "1e999"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=6,
)
OPEN = {
    "answer": ticket.open_answer,
    "ticket": ticket.open_ticket,
    "receipt": ticket.open_receipt,
}
TICKET = {
    "challenge": "c",
    "cluster_uid": "u",
    "epoch": 1,
    "member": "a-0",
    "member_id": 1,
    "cluster_id": 2,
    "state": "new",
    "initial_cluster": "a-0=http://a-0:2380",
    "token": "t",
}


GREETINGS = st.text(max_size=140).map(lambda nonce: json.dumps({"nonce": nonce}))


@given(TEXTS | st.binary() | GREETINGS)
@example(ticket.greeting("0123456789abcdef").decode())
def test_a_line_without_a_valid_signature_is_not_genuine(text: str | bytes) -> None:
    line = text if isinstance(text, bytes) else text.encode(errors="surrogatepass")
    for opens in OPEN.values():
        with pytest.raises(NotGenuine):
            opens(KEY, line)
    try:
        nonce = ticket.read_greeting(line)
    except NotGenuine:
        return
    assert 16 <= len(nonce) <= 128


@given(st.sampled_from(sorted(OPEN)), st.dictionaries(st.sampled_from(sorted(TICKET)), JSON))
def test_a_signed_line_of_another_version_is_read_or_refused(
    domain: str, altered: dict[str, Any]
) -> None:
    """The key proves that the message is one of ours, not that it can be understood."""
    body = TICKET | altered
    line = json.dumps({"body": body, "mac": ticket._mac(KEY, domain, body)}).encode()
    try:
        opened = OPEN[domain](KEY, line)
    except NotGenuine:
        return
    assert domain == "ticket"
    assert all(type(getattr(opened, name)) is type(TICKET[name]) for name in TICKET)


@given(TEXTS | st.binary())
def test_any_marker_is_read_or_malformed(text: str | bytes) -> None:
    found = marker.parse(text if isinstance(text, bytes) else text.encode(errors="surrogatepass"))

    assert isinstance(found, marker.Marker | marker.Malformed)


MARKER = json.loads(marker.serialise(marker.Marker("u", 1, "a-0", 2, 3)))


@given(st.dictionaries(st.sampled_from(sorted(MARKER)), JSON, max_size=2))
def test_a_marker_with_other_values_is_read_or_malformed(altered: dict[str, Any]) -> None:
    found = marker.parse(json.dumps(MARKER | altered).encode())

    assert altered or isinstance(found, marker.Marker)
    if isinstance(found, marker.Marker):
        assert found.member.isprintable()
        assert 0 < found.member_id < 1 << 64


@given(st.lists(st.binary(max_size=128), max_size=4).map(tuple))
@example((FIRST_SEGMENT,))
def test_any_heads_of_a_wal_are_read_or_garbled(heads: tuple[bytes, ...]) -> None:
    try:
        found = wal.identity(heads)
    except wal.Garbled:
        return
    assert 0 <= found.member_id < 1 << 64


@given(TEXTS)
def test_any_termination_message_is_read(text: str) -> None:
    ended = {"terminated": {"exitCode": 2, "message": text}}
    container = {"name": "etcd", "restartCount": 3, "lastState": ended, "state": {"waiting": {}}}
    metadata = {"name": "a-0", "creationTimestamp": "1970-01-01T00:00:00Z"}
    pod = {"metadata": metadata, "status": {"containerStatuses": [container]}}

    assert isinstance(termination_message.recognise(text), str)
    assert isinstance(termination_message.of_damage(container), str)
    assert len(trouble.trouble(pod, None, 600.0)) < 2000


@given(st.binary(max_size=64))
def test_unknown_fields_of_a_member_status_do_no_harm(data: bytes) -> None:
    """Fields that the client's stubs do not know are read from the bytes of the message."""

    class Status:
        def SerializeToString(self) -> bytes:  # noqa: N802 - protobuf's name
            return data

    assert isinstance(etcd_fields.storage_version(Status()), str)
    assert isinstance(etcd_fields.downgrade_target(Status()), str)


@given(st.sampled_from([11, 13]), st.integers(0, 2**64 - 1) | st.binary(max_size=20))
def test_a_status_with_a_known_field_of_the_wrong_type_is_read_or_refused(
    number: int, value: int | bytes
) -> None:
    class Status:
        def SerializeToString(self) -> bytes:  # noqa: N802 - protobuf's name
            return field(number, value)

    assert Empty.FromString(field(number, value)) is not None
    assert isinstance(etcd_fields.storage_version(Status()), str)
    assert isinstance(etcd_fields.downgrade_target(Status()), str)


def field(number: int, value: int | bytes) -> bytes:
    """One field of a protobuf message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


@given(TEXTS)
@example(dump_bootstrap(records.first_attempt("u", {"a-0": "http://a-0:2380"}, "3.7.3")))
def test_any_bootstrap_record_is_read_or_refused(text: str) -> None:
    try:
        found = load_bootstrap(text)
    except BadRecord:
        return
    assert found.cluster_id


@given(st.text(max_size=40) | st.text("0123456789abcdefABCDEF", max_size=18))
@example("8e9e05c52164694d")
def test_any_text_as_an_id_in_the_status_is_read_or_refused(text: str) -> None:
    try:
        found = identity.from_hex(text)
    except ValueError:
        return
    assert 0 <= found < 1 << 64


@given(
    st.dictionaries(
        st.sampled_from(["POD_NAME", "POD_UID", "POD_IP", "START_SETTINGS", "RECOVERY"]),
        TEXTS | JSON.map(json.dumps),
    )
)
def test_any_environment_of_start_and_recover_is_read_or_refused(
    environment: dict[str, str],
) -> None:
    for parse in (configuration.parse_settings, parse_order):
        try:
            parse(environment)
        except configuration.BadSettings:
            continue


STORE = Store(
    "S3", "bucket", "a/b", "aws", "http://minio:9000", path_style=True, storage_account="etcd",
    checksum="SHA256", service_account="backups", ca_secret="ca",
)  # fmt: skip
STORED = outcome.Stored(
    "s3://bucket/a/b", "00ab", 7, "3.7.3", 5, "9f", "a/b", notes=("a note",),
    others=ForeignFiles(2, (ForeignFile("c", 1, "2026-01-01T00:00:00Z", manifest=True),)),
)  # fmt: skip
SPEC = {"size": 3, "pod": {"labels": {"a": "b"}}}
MANIFEST = manifest.Manifest(
    "00ab", 7, "3.7.3", 5, "9f", "2026-01-01T00:00:00Z", "ns/b", "uid",
    Measured(3, (Hash(NEVER, 1), Hash(1, 2))), {"name": "c", "spec": SPEC},
)  # fmt: skip
ORDER = order.Order(
    "ns/b", "uid", ("http://a:2379",), "spec.etcdEndpoints", STORE, 0xAB, "client", keep=3,
    spare=("a/a",), scheduled=True, cluster={"name": "c", "spec": SPEC},
)  # fmt: skip
RECORD = replace(
    records.first_attempt("uid", {"a-0": "http://a-0:2380"}, "3.7.3"),
    issued=((1, "run"),),
    links=Links(Link("Static", "peer", "operator"), Link("Issued", issuer=Issuer("a", "b", "c"))),
    chosen=Chosen("b", STORE),
    successor=Successor("uid-r", STORE, "b", "a-4", "http://a-4:2380", 3, "t", 4, 5, 3, "uid-c"),
    retired=(6,),
    accounts=Accounts(("root",), ("reader",), on=True),
)
PROFILE = "[default]\naws_access_key_id = a\naws_secret_access_key = b\n"
METADATA = {"namespace": "ns", "name": "good", "uid": "uid", "generation": 1}
S3 = {"storageType": "S3", "s3": {"path": "bucket/a", "awsSecret": "aws", "endpoint": "minio:1"}}
JOB_POD = {
    "serviceAccountName": "a", "labels": {"a": "b"}, "annotations": {"a": "b"},
    "nodeSelector": {"a": "b"}, "tolerations": [{"key": "a"}], "resources": {"limits": {}},
    "imagePullSecrets": [{"name": "a"}],
}  # fmt: skip
BACKUP = S3 | {
    "etcdEndpoints": ["http://a:2379"],
    "clientTLSSecret": "client",
    "backupPolicy": {"timeoutInSecond": 5, "backupIntervalInSecond": 60, "maxBackups": 3},
    "deletionPolicy": "Delete",
    "verify": "Hash",
    "pod": JOB_POD,
}
ALONE = S3 | {"clusterRef": {"name": "c"}, "verify": "Restore"}
SETTINGS = {
    "clusterUID": "u", "epoch": 1, "domain": "a.ns.svc", "clientScheme": "http",
    "peerScheme": "http", "dnsTimeoutSeconds": 5, "etcd": {},
}  # fmt: skip
POD = {
    "POD_NAME": "a-0", "POD_UID": "u", "POD_IP": "10.0.0.1",
    "START_SETTINGS": json.dumps(SETTINGS),
}  # fmt: skip
ROW = {"metadata": {"resourceVersion": "7"}, "rows": [{"cells": ["name", 1]}]}
REFUSED = {"kind": "Status", "code": 422, "message": "no", "details": {"causes": [{"field": "a"}]}}


class Document(NamedTuple):
    """A valid document, its reader, and the exception with which that refuses."""

    valid: Any
    read: Any
    refuses: tuple[type[Exception], ...] = ()


def body_of(spec: Any) -> dict[str, Any]:
    return {"metadata": METADATA, "spec": spec}


def of_store(kind: str) -> Any:
    """Reads the keys of a Secret for a store. What is wrong is a BadSecret without its values."""
    store = Store(kind, "bucket", "a", "secret", "https://oss-cn-hangzhou.aliyuncs.com")
    return lambda text: credentials.access(store, texts(json.loads(text))).config


def texts(content: Any) -> dict[str, str]:
    """A Secret's keys as the Job reads them. A Secret can hold nothing but texts."""
    found = content.items() if isinstance(content, dict) else ()
    said = ((key, one if isinstance(one, str) else json.dumps(one)) for key, one in found)
    return {key: one.encode(errors="replace").decode() for key, one in said}


def of_resource(parse: Any) -> Any:
    return lambda text: parse(body_of(json.loads(text)))


DOCUMENTS = {
    "stored": Document(json.loads(outcome.serialise(STORED)), outcome.parse),
    "proven": Document(
        json.loads(outcome.serialise(outcome.Verified("3.7.3", ("a",), ("b",)))), outcome.parse
    ),
    "described": Document(
        json.loads(outcome.serialise(outcome.Described(SPEC, "3.7.3", 7))), outcome.parse
    ),
    "described, packed": Document(
        json.loads(outcome.serialise(outcome.Described({"long": "a" * 5000}, "3.7.3", 7))),
        outcome.parse,
    ),
    "failure": Document(
        json.loads(outcome.serialise(outcome.Failure("TimedOut", "words"))), outcome.parse
    ),
    "progress": Document(
        json.loads(outcome.serialise_progress(outcome.Progress(1, 2, 3))), outcome.parse_progress
    ),
    "manifest": Document(
        json.loads(manifest.serialise(MANIFEST)),
        lambda text: manifest.parse(text.encode()),
        (manifest.BadManifest,),
    ),
    "order": Document(json.loads(order.serialise(ORDER)), order.parse, (order.BadOrder,)),
    "restore's order": Document(
        json.loads(restore.serialise(1, 2, STORE, "3.7.3")),
        lambda text: restore.parse_order(POD | {"RESTORE": text}),
        (configuration.BadSettings,),
    ),
    "recovery's order": Document(
        {"memberID": "1", "clusterID": "2"},
        lambda text: parse_order(POD | {"RECOVERY": text}),
        (configuration.BadSettings,),
    ),
    "bootstrap record": Document(
        json.loads(dump_bootstrap(RECORD)), load_bootstrap, (BadRecord,)
    ),
    "row": Document(
        {"type": "ADDED", "object": ROW},
        lambda text: tables.change("watch", text.encode()),
        (KubeError,),
    ),
    "refused watch": Document(
        {"type": "ERROR", "object": REFUSED},
        lambda text: tables.change("watch", text.encode()),
        (KubeError,),
    ),
    "GCS": Document(
        {"credentials.json": {"type": "service_account", "gcs_base_url": "http://a", "b": [1]}},
        of_store("GCS"),
        (credentials.BadSecret,),
    ),
    "S3": Document(
        {"credentials": PROFILE, "config": "[default]\nregion = eu-west-1\n"},
        of_store("S3"),
        (credentials.BadSecret,),
    ),
    "ABS": Document(
        {"storage-account": "etcd", "storage-key": "a2V5", "cloud": "https://a.example/etcd"},
        of_store("ABS"),
        (credentials.BadSecret,),
    ),
    "OSS": Document(
        {"accessKeyID": "a", "accessKeySecret": "b"}, of_store("OSS"), (credentials.BadSecret,)
    ),
    "EtcdBackup": Document(BACKUP, of_resource(parse_backup), (RefusedBackup,)),
    "EtcdRestore": Document(
        S3 | {"backupStorageType": "S3", "etcdCluster": {"name": "good"},
              "replace": {"clusterID": "ab"}},
        of_resource(parse_restore),
        (RefusedRestore,),
    ),
    "EtcdBackupSchedule": Document(
        {"schedule": "0 3 * * *", "timeZone": "UTC", "template": ALONE, "jitterSeconds": 1,
         "retention": {"count": 1, "maxAgeDays": 2}, "startingDeadlineSeconds": 60},
        of_resource(parse_schedule),
        (RefusedSchedule,),
    ),
}  # fmt: skip
HARMS = [float("inf"), float("nan"), -1, 10**400, 1e300, 1.5, True, None, "", "9" * 5000, "\ud800",
         json.loads("[" * 400 + "]" * 400), [], {}, [[]], [{}], {"a": 1}]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    inner = value.items() if isinstance(value, dict) else ()
    for key, one in enumerate(value) if isinstance(value, list) else inner:
        yield from places(one, (*path, key))


def altered(value: Any, path: tuple[Any, ...], harm: Any) -> Any:
    if not path:
        return harm
    copy = value.copy()
    copy[path[0]] = altered(value[path[0]], path[1:], harm)
    return copy


def read(name: str, content: Any) -> Any:
    """The value that was read, in a form that can be written again; None if it was refused."""
    _, parse, refuses = DOCUMENTS[name]
    try:
        return parse(json.dumps(content).replace("Infinity", "1e999"))
    except refuses:
        return None


PROFILES = st.text("[]=:#;%\n\r\t default_aws") | st.lists(
    st.sampled_from(
        ["[default]", "[DEFAULT]", "[default", "aws_access_key_id", " = ", "\n", "\n ", "a",
         "%(a)s", "region", "=x/", "\0", "\ufeff", "#", "aws_secret_access_key = b"]
    )
).map("".join)  # fmt: skip
"""Like a file of the AWS command line, or almost."""

VALUE = "of-a-secret"


@given(
    st.sampled_from(["S3", "ABS", "GCS", "OSS"]),
    st.dictionaries(
        st.sampled_from(
            ["credentials", "config", "storage-account", "storage-key", "cloud", "accessKeyID",
             "accessKeySecret", "access-token", "credentials.json", "other"]
        ),
        TEXTS | PROFILES | JSON.map(json.dumps) | st.sampled_from([VALUE, f"[default]\n{VALUE}"]),
    ),
)  # fmt: skip
@example("S3", {"credentials": PROFILE, "config": f"[default]\nregion = {VALUE}/"})
@example("ABS", {"storage-account": f"{VALUE}/", "storage-key": VALUE})
def test_any_secret_of_a_store_is_read_or_refused_without_its_values(
    kind: str, files: dict[str, str]
) -> None:
    store = Store(kind, "bucket", "a", "secret", "https://oss-x.example")
    try:
        found = credentials.access(store, files)
    except credentials.BadSecret as refused:
        message = str(refused)
        assert 0 < len(message) < 500
        assert VALUE not in message or files.get("cloud") == VALUE, "a cloud's name is no secret"
    else:
        assert all(isinstance(one, str | bool) for one in found.config.values())
        assert VALUE not in repr(found)


@given(TEXTS | st.datetimes(timezones=st.timezones()).map(datetime.isoformat) | JSON)
@example("0001-01-01T00:00:00")
@example("9999-12-31T23:59:59-23:59")
@example("2026-01-01T24:00:00Z")
def test_any_timestamp_is_read_or_none(timestamp: object) -> None:
    for found in (timestamps.seconds(timestamp), timestamps.seconds_since(timestamp, 1.8e9)):
        assert found is None or math.isfinite(found)


@given(TEXTS)
@example("a-b-c")
@example("-")
def test_any_annotation_of_trusted_authorities_is_read(text: str) -> None:
    """Anyone who may write the pod may write it. It is only ever compared."""
    found = Trust.read(text)

    assert str(found) == (text if "-" in text else f"{text}-")
    assert Trust.read(str(found)) == found


@given(TEXTS)
@example("1e999999999")
@example("9" * 5000)
@example("3.7." + "9" * 5000)
def test_any_quantity_and_any_version_is_read_or_none(text: str) -> None:
    for found in (parse_quantity(text), parse_version(text)):
        assert found is None or found == found  # noqa: PLR0124 - NaN is not


@given(
    st.dictionaries(
        st.sampled_from(
            [naming.CLAIM_UID, naming.CLUSTER_UID, naming.MEMBER_ID, naming.CLUSTER_ID,
             naming.EPOCH, naming.PEER_SCHEME]
        ),
        TEXTS | st.sampled_from(["ab", "1", "https"]),
    )
)  # fmt: skip
def test_any_record_on_a_claim_is_read_or_refused(annotations: dict[str, str]) -> None:
    with contextlib.suppress(BadRecord):
        load_member(annotations)


WITHIN_OTHERS = {
    "etcd_stateful.api.tls.load_links": "load_bootstrap",
    "etcd_stateful.backup.reference.load_chosen": "load_bootstrap",
    "etcd_stateful.api.cluster.parse_cluster": "api/test_hostile.py",
}
"""Parsers of a part of a document, and those whose tests are elsewhere."""


def test_every_parser_of_the_core_is_fuzzed() -> None:
    """A parser is a public function named `parse...`, `load...` or `open_...`."""
    used = {
        f"{one.__module__}.{one.__name__}"
        for node in ast.walk(ast.parse(Path(__file__).read_text()))
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
        and inspect.isfunction(one := inspect.unwrap(named(node)))
    }  # fmt: skip
    parsers = {
        f"{module.name}.{function.name}"
        for module in pkgutil.walk_packages(etcd_stateful.__path__, "etcd_stateful.")
        for function in ast.parse(inspect.getsource(importlib.import_module(module.name))).body
        if isinstance(function, ast.FunctionDef)
        and re.match("parse(_|$)|loads?(_|$)|open_", function.name)
    }

    assert parsers - used == WITHIN_OTHERS.keys() | {"etcd_stateful.untrusted.loads"}
    assert len(parsers) > 20


def named(node: ast.Name | ast.Attribute) -> Any:
    """What a name of this module stands for; None if it is one of a function."""
    if isinstance(node, ast.Name):
        return globals().get(node.id)
    inner = named(node.value) if isinstance(node.value, ast.Name | ast.Attribute) else None
    return getattr(inner, node.attr, None)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_valid_document_is_read(name: str) -> None:
    """Otherwise the tests below would prove nothing."""
    found = read(name, DOCUMENTS[name].valid)

    assert (found is None) == (name == "refused watch")
    assert found != outcome.JobReport()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_field_of_a_document_makes_its_reader_raise(name: str) -> None:
    """`1e999` in a termination message ended the pass with an OverflowError, and each after it."""
    valid = DOCUMENTS[name].valid
    for path in places(valid):
        for harm in HARMS:
            is_usable(name, read(name, altered(valid, path, harm)))


@given(st.data())
def test_any_value_of_any_field_is_read_or_refused(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(DOCUMENTS)))
    valid = DOCUMENTS[name].valid
    path = data.draw(st.sampled_from(sorted(places(valid), key=str)))

    is_usable(name, read(name, altered(valid, path, data.draw(JSON))))


def is_usable(name: str, found: Any) -> None:
    """What was read goes into a status or an object that the API server has to accept."""
    if found is None or name.startswith("Etcd"):
        return
    if isinstance(found, outcome.JobReport) and found.described:
        found = {"spec": found.described.spec, "version": found.described.version}
    counts_are_counts(found)
    as_json = found if isinstance(found, Mapping | tuple) else asdict(found)
    json.dumps(as_json, allow_nan=False, ensure_ascii=False, default=dict).encode()


def counts_are_counts(found: Any) -> None:
    """The CRD says `integer`. The API server refuses half a key, together with the rest of the
    status."""
    if isinstance(found, tuple):
        for one in found:
            counts_are_counts(one)
    elif is_dataclass(found):
        for one in fields(found):
            value = getattr(found, one.name)
            least = NEVER if one.name == "compacted" else 0
            assert one.type != "int" or (type(value) is int and value >= least), (one.name, value)
            counts_are_counts(value)
