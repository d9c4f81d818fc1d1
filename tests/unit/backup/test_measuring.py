"""Measuring the keys of etcd for a trial restore, with retries until it answers."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from aetcd import rpc
from grpc import StatusCode

from etcd_operator.backup import measuring, trial_restore
from etcd_operator.backup import source as sources
from etcd_operator.backup.channel import NoReply, open_channels
from etcd_operator.backup.idle_timeout import SILENT_SECONDS
from etcd_operator.backup.measuring import hashed, measure, patience
from etcd_operator.backup.source import Member, Source, Unusable
from etcd_operator.backup.trial_restore import prove
from etcd_stateful.api.stores import Store
from etcd_stateful.backup import manifest, trial
from etcd_stateful.backup.choice import EndpointStatus
from etcd_stateful.backup.manifest import Manifest
from etcd_stateful.backup.measurement import Hash, Measured
from etcd_stateful.backup.order import Order
from etcd_stateful.backup.outcome import Failure, Verified
from etcd_stateful.certificates import OPERATOR_FILES

ORDER = Order("ns/b", "uid-b", (), "spec.etcdEndpoints", Store("S3", "bucket", "key"))
ANSWER = EndpointStatus(
    "etcd:2379", 1, 2, 2, learner=False, revision=42, version="3.7.3", db_size=0
)
HELD = Measured(12, (Hash(5, 0xAB),))
MANIFEST = Manifest("0a", 42, "3.7.3", 1056, "ff", "2026-01-01T00:00:00Z", "ns/b", "uid-b", HELD)

PLENTY = 60.0

GONE = (StatusCode.OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted")
DOWN = (StatusCode.UNAVAILABLE, "connection refused")

Fault = tuple[StatusCode, str]


class Etcd:
    """A member with twelve keys, which fails as often as a test says. It always has all writes."""

    def __init__(self) -> None:
        self.faults: dict[str, list[Fault]] = {}
        self.revision = 42
        self.hangs = ""
        """The request that it never answers."""
        self.over = threading.Event()
        self.server = grpc.server(futures.ThreadPoolExecutor(2))
        for service, names in (
            ("Maintenance", ("Status", "HashKV")),
            ("KV", ("Range",)),
        ):
            methods = {name: self._method(name) for name in names}
            self.server.add_generic_rpc_handlers(
                (grpc.method_handlers_generic_handler(f"etcdserverpb.{service}", methods),)
            )
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def _method(self, name: str) -> Any:
        def answer(request: bytes, context: Any) -> bytes:
            reads = name == "Range" and not rpc.RangeRequest.FromString(request).serializable
            if name == self.hangs and not reads:
                self.over.wait(30)
            if not reads and (faults := self.faults.get(name)):
                context.abort(*faults.pop(0))
            return self._reply(name).SerializeToString()

        return grpc.unary_unary_rpc_method_handler(answer)

    def _reply(self, name: str) -> Any:
        header = rpc.ResponseHeader(cluster_id=1, member_id=2, revision=self.revision)
        match name:
            case "Status":
                return rpc.StatusResponse(header=header, leader=2, version="3.7.3")
            case "HashKV":
                return rpc.HashKVResponse(header=header, hash=0xAB, compact_revision=5)
            case _:
                return rpc.RangeResponse(header=header, count=12)


@pytest.fixture
def etcd() -> Iterator[Etcd]:
    found = Etcd()
    yield found
    found.over.set()
    found.server.stop(None)


@pytest.fixture
def channel(etcd: Etcd) -> Iterator[Any]:
    with contextlib.closing(next(open_channels(ORDER, f"http://127.0.0.1:{etcd.port}"))) as found:
        yield found


class TestPatience:
    def test_a_small_database_gets_the_time_that_a_snapshot_may_be_silent(self) -> None:
        assert patience(0, 600) == SILENT_SECONDS == sources.SILENT_SECONDS

    def test_a_large_database_gets_more_by_its_size(self) -> None:
        """Of several GiB, neither the hash nor the count came within the fixed half minute."""
        assert patience(4 * 2**30, 3600) == SILENT_SECONDS + 400

    def test_time_is_left_for_another_member_however_large_the_database(self) -> None:
        assert patience(8 * 2**30, 600) == 200

    def test_with_little_time_the_minimum_stays(self) -> None:
        assert patience(2**30, 10) == SILENT_SECONDS


HANGS = [
    ("HashKV", 0.2, "it has not hashed its keys within 0.2 s"),
    # Here the hash, which comes first, has to arrive within that time.
    ("Range", 3.0, "it has not counted its keys within 3 s"),
]
hanging = pytest.mark.parametrize(("question", "seconds", "words"), HANGS)


@hanging
async def test_an_etcd_that_hangs_over_its_keys_is_not_waited_for_longer(
    etcd: Etcd, channel: Any, question: str, seconds: float, words: str
) -> None:
    """It would use up all the time that is left."""
    etcd.hangs = question
    began = time.monotonic()

    with pytest.raises(NoReply) as caught:
        await measure(channel, 42, seconds)

    assert caught.value.details() == words
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("question", ["HashKV", "Range"])
async def test_an_error_of_etcd_is_not_an_answer(etcd: Etcd, channel: Any, question: str) -> None:
    etcd.faults = {question: [DOWN]}

    with pytest.raises(rpc.RpcError):
        await measure(channel, 42, PLENTY)


async def test_a_compacted_revision_is_recognised(etcd: Etcd, channel: Any) -> None:
    etcd.faults = {"HashKV": [GONE, GONE], "Range": [GONE]}

    assert await measure(channel, 42, PLENTY) == Measured()
    assert await hashed(channel, 42, PLENTY) is None


class TestAMember:
    async def test_that_does_not_answer_is_not_used(self, etcd: Etcd, channel: Any) -> None:
        etcd.faults = {"Range": [DOWN]}

        with pytest.raises(Unusable, match="connection refused"):
            await Source(ORDER).measured(Member(ANSWER, channel))

    @hanging
    async def test_that_hangs_is_named_with_what_it_did_not_do(
        self, etcd: Etcd, channel: Any, question: str, seconds: float, words: str,
        monkeypatch: pytest.MonkeyPatch
    ) -> None:  # fmt: skip
        monkeypatch.setattr(measuring, "SILENT_SECONDS", seconds)
        etcd.hangs = question

        with pytest.raises(Unusable) as caught:
            await Source(ORDER).measured(Member(ANSWER, channel))

        failure = caught.value.failure
        assert (failure.reason, failure.final) == ("EtcdUnreachable", False)
        assert failure.message == f"spec.etcdEndpoints: etcd:2379: DEADLINE_EXCEEDED: {words}"

    async def test_that_hangs_after_its_snapshot_does_not_fail_the_backup(
        self, etcd: Etcd, channel: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(measuring, "SILENT_SECONDS", 0.2)
        etcd.hangs = "HashKV"

        assert await Source(ORDER).measure_again(Member(ANSWER, channel), HELD) == HELD

    async def test_that_was_compacted_before_it_is_measured_is_measured_again(
        self, etcd: Etcd, channel: Any
    ) -> None:
        etcd.faults, etcd.revision = {"Range": [GONE]}, 50

        member, found = await Source(ORDER).measured(Member(ANSWER, channel))

        assert (member.answer.revision, found) == (50, HELD)

    async def test_that_is_compacted_again_and_again_is_reported(
        self, etcd: Etcd, channel: Any
    ) -> None:
        etcd.faults = {"Range": [GONE] * 9}

        with pytest.raises(Unusable) as caught:
            await Source(ORDER).measured(Member(ANSWER, channel))
        assert "compacted faster than its keys are counted" in caught.value.failure.message

    async def test_that_is_gone_after_its_snapshot_keeps_its_earlier_hash(
        self, etcd: Etcd, channel: Any
    ) -> None:
        etcd.faults = {"HashKV": [DOWN]}

        assert await Source(ORDER).measure_again(Member(ANSWER, channel), HELD) == HELD


class TestTheTrial:
    @pytest.fixture(autouse=True)
    def _without_tls(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(trial_restore, "PAUSE", 0.01)
        monkeypatch.setattr(trial_restore, "ssl_channel_credentials", lambda *_: None)
        monkeypatch.setattr(
            trial_restore, "secured", lambda target, _: grpc.insecure_channel(target)
        )

    async def proven(
        self, etcd: Etcd, root: Path, seconds: int = 1, **changes: Any
    ) -> Verified | Failure:
        (root / trial.MANIFEST).write_bytes(manifest.serialise(replace(MANIFEST, **changes)))
        (root / trial.TLS).mkdir()
        for name in OPERATOR_FILES:
            (root / trial.TLS / name).touch()
        return await prove(replace(ORDER, timeout=seconds), root, port=etcd.port)

    async def test_all_three_are_compared(self, etcd: Etcd, tmp_path: Path) -> None:
        found = await self.proven(etcd, tmp_path)

        assert found == Verified("3.7.3", ("revision 42", "12 keys", "etcd's hash"))

    @pytest.mark.parametrize("question", ["Status", "HashKV", "Range"])
    async def test_a_request_that_fails_is_repeated(
        self, etcd: Etcd, tmp_path: Path, question: str
    ) -> None:
        etcd.faults = {question: [DOWN, DOWN]}

        assert isinstance(await self.proven(etcd, tmp_path), Verified)

    @pytest.mark.parametrize("question", ["HashKV", "Range"])
    async def test_an_etcd_that_never_counts_its_keys_proves_nothing(
        self, etcd: Etcd, tmp_path: Path, question: str
    ) -> None:
        etcd.faults = {question: [DOWN] * 1000}

        failure = await self.proven(etcd, tmp_path)

        assert isinstance(failure, Failure)
        assert failure.reason == "TimedOut"
        assert "has not counted and hashed its keys (connection refused)" in failure.message

    @hanging
    async def test_an_etcd_that_hangs_over_its_keys_is_reported_before_the_time_is_over(
        self, etcd: Etcd, tmp_path: Path, question: str, seconds: float, words: str,
        monkeypatch: pytest.MonkeyPatch
    ) -> None:  # fmt: skip
        monkeypatch.setattr(measuring, "SILENT_SECONDS", seconds)
        etcd.hangs = question

        failure = await self.proven(etcd, tmp_path, seconds=60)

        assert isinstance(failure, Failure)
        assert failure.reason == "TimedOut"
        assert f"trial restore hangs: {words};" in failure.message

    async def test_an_etcd_that_does_not_start_is_reported_as_such(
        self, etcd: Etcd, tmp_path: Path
    ) -> None:
        """It was only reported as too little time."""
        etcd.faults = {"Status": [DOWN] * 1000}

        failure = await self.proven(etcd, tmp_path)

        assert isinstance(failure, Failure)
        assert "the etcd of the trial restore has not come up (connection" in failure.message

    async def test_a_backup_that_was_never_measured_is_not_proven(
        self, etcd: Etcd, tmp_path: Path
    ) -> None:
        failure = await self.proven(etcd, tmp_path, measured=None)

        assert isinstance(failure, Failure)
        assert (failure.reason, failure.final) == ("VerificationFailed", True)
        assert "key was restored, and its manifest does not say" in failure.message


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("spec.etcdEndpoints", ". Unless it is a Service or a pod of an EtcdCluster of this names"),
        ("spec.clusterRef.name", "e-client:2379 instead, and spec.clientTLSSecret must name a Sec"),
    ],
)
def test_a_certificate_was_asked_for_that_a_cluster_of_the_namespace_needs_not(
    field: str, words: str
) -> None:
    """As for the manifests of the coreos operator, of which only http:// has to be changed."""
    order = replace(ORDER, endpoints_field=field)

    found = Source(order)._needs_tls("http://e-client:2379")

    assert words in found.message
    assert found.message.endswith("name a Secret with a certificate for it")
