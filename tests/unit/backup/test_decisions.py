"""Decisions about a backup's bytes, names, credentials and errors."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import AzureStore

from etcd_stateful.api.backup import parse_backup
from etcd_stateful.api.stores import Store
from etcd_stateful.backup import deletion, manifest, names, order, outcome, trouble
from etcd_stateful.backup.choice import EndpointStatus, NoUsableMember, candidates
from etcd_stateful.backup.credentials import BadSecret, access, authorities
from etcd_stateful.backup.integrity import Damaged, SnapshotCheck
from etcd_stateful.backup.manifest import BadManifest, Manifest
from etcd_stateful.backup.observed import Job
from etcd_stateful.backup.order import BadOrder, Order
from etcd_stateful.backup.outcome import Failure, JobReport, Progress, Stored

S3 = Store("S3", "mybucket", "etcd.backup", secret="aws")
GOOD = {"credentials": "[default]\naws_access_key_id = AK\naws_secret_access_key = SK%x\n"}


def snapshot(sectors: int = 3) -> bytes:
    data = bytes(range(256)) * 2 * sectors
    return data + hashlib.sha256(data).digest()


def check(data: bytes, sizes: list[int]) -> str:
    checked = SnapshotCheck()
    while data:
        size = sizes.pop() if sizes else len(data)
        checked.update(data[:size])
        data = data[size:]
    return checked.finish()


UID, OTHER_UID = "0123abcd-5678", "89abcdef-5678"


class TestIntegrity:
    @given(st.lists(st.integers(1, 700)), st.integers(1, 4))
    def test_a_whole_snapshot_passes_however_it_is_cut_into_pieces(
        self, sizes: list[int], n: int
    ) -> None:
        data = snapshot(n)

        assert check(data, sizes) == hashlib.sha256(data).hexdigest()

    @given(st.integers(0, 8 * len(snapshot()) - 1), st.lists(st.integers(1, 99)))
    def test_one_flipped_bit_is_found_wherever_it_is(self, bit: int, sizes: list[int]) -> None:
        data = bytearray(snapshot())
        data[bit // 8] ^= 1 << bit % 8

        with pytest.raises(Damaged):
            check(bytes(data), sizes)

    @pytest.mark.parametrize("left", [0, 1, 31, 32, 33, 511, 512, 544, 1567])
    def test_a_truncated_snapshot_is_found(self, left: int) -> None:
        with pytest.raises(Damaged):
            check(snapshot()[:left], [])

    def test_a_copy_of_a_members_database_was_said_to_be_a_snapshot_cut_short(self) -> None:
        """It is a whole file, and has no hash at its end."""
        with pytest.raises(Damaged, match="or the database of a member, copied"):
            check(snapshot()[:-32], [])
        with pytest.raises(Damaged, match=r"cut short$"):
            check(snapshot()[:-33], [])


def answer(number: int, **changes: object) -> EndpointStatus:
    whole = EndpointStatus(
        f"e{number}", 7, number, 1, learner=False, revision=100, version="3.7.3", db_size=9
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


class TestChoice:
    def test_a_follower_is_preferred_to_the_leader_and_the_furthest_to_others(self) -> None:
        found = [answer(1), answer(2, revision=90), answer(3, revision=95)]

        assert [one.member_id for one in candidates(found)] == [3, 2, 1]

    def test_the_leader_is_taken_if_it_is_alone(self) -> None:
        assert [one.member_id for one in candidates([answer(1)])] == [1]

    def test_a_learner_is_never_taken(self) -> None:
        found = [answer(1), answer(2, learner=True, revision=999)]

        assert [one.member_id for one in candidates(found)] == [1]
        with pytest.raises(NoUsableMember, match="learner"):
            candidates(found[1:])

    @pytest.mark.parametrize("behind", [[], [answer(1)]])
    def test_a_member_that_had_yet_to_hear_of_the_alarm_was_taken_under_it(
        self, behind: list[EndpointStatus]
    ) -> None:
        """Every member reports each alarm, once it has applied it (3.7.3, `maintenanceServer`)."""
        with pytest.raises(NoUsableMember, match="CORRUPT: the data of some member differs"):
            candidates([*behind, answer(2, errors=("memberID:3 alarm:CORRUPT ",))])

    def test_a_member_that_is_out_of_space_can_be_backed_up(self) -> None:
        assert candidates([answer(2, errors=("memberID:2 alarm:NOSPACE ",))])

    def test_without_a_leader_no_backup_is_taken(self) -> None:
        with pytest.raises(NoUsableMember, match="quorum"):
            candidates([answer(2, leader_id=0)])

    def test_endpoints_of_two_clusters_are_refused(self) -> None:
        with pytest.raises(NoUsableMember, match=r"different clusters: .*7, .*8"):
            candidates([answer(1), answer(2, cluster_id=8)])

    def test_members_of_another_cluster_are_left_out(self) -> None:
        found = [answer(1), answer(2, cluster_id=8, revision=999)]

        assert [one.member_id for one in candidates(found, 7)] == [1]
        with pytest.raises(NoUsableMember, match="0000000000000009 is to be backed up"):
            candidates(found, 9)


class TestNames:
    def test_a_hundredth_revision_is_newer_than_the_ninety_ninth(self) -> None:
        """Here coreos sorted the names as text, and deleted the newest backup."""
        keys = [names.stamped("a/b", r, "2026-01-01-00:00:00") for r in (9, 99, 100)]

        assert names.newest_first("a/b", keys) == keys[::-1]

    def test_the_time_counts_before_the_revision(self) -> None:
        """A cluster that was created again begins at revision 1."""
        old = names.stamped("a", 5000, "2026-01-01-00:00:00")
        new = names.stamped("a", 3, "2026-01-02-00:00:00")

        assert names.newest_first("a", [new, old]) == [new, old]

    def test_files_with_similar_names_are_ignored(self) -> None:
        own = [names.stamped("etcd", n, "2026-01-01-00:00:00") for n in (1, 2)]
        others = [
            "etcd",
            "etcd_v1",
            "etcd_v1_2026-01-01",
            "etcd_v1_2026-01-01-00:00:00.manifest.json",
            "etcd_v1_2026-01-01-00:00:00/x",
            names.stamped("etcd-2", 1, "2026-01-01-00:00:00"),
            names.stamped("etcd_v1_2026-01-01-00:00:00", 1, "2026-01-01-00:00:00"),
            "x" + own[0],
        ]

        assert names.newest_first("etcd", own + others) == own[::-1]

    def test_its_name_says_when_it_began(self) -> None:
        assert names.moment_of("a", names.stamped("a", 9, "2026-03-01-12:00:00")) == (
            "2026-03-01-12:00:00"
        )
        assert names.moment_of("a", "of another path") == ""

    @pytest.mark.parametrize("path", ["a/etcd", "a/etcd_2026-11-21-03:00_0123abcd", "a/"])
    @pytest.mark.parametrize("suffix", ["", "#1", "#23"])
    def test_an_unfinished_file_is_found_by_the_next_attempt(self, path: str, suffix: str) -> None:
        name = names.unfinished(path, UID, "09af") + suffix

        assert names.is_left(path, UID, name)

    def test_an_unfinished_file_of_a_schedule_is_found_by_its_next_run(self) -> None:
        name = names.unfinished("a/etcd_2026-11-21-03:00_0123abcd", UID, "09af")

        assert names.is_left("a/etcd_2026-11-22-03:00_0123abcd", OTHER_UID, name)
        assert not names.is_left("a/etcd_2026-11-22-03:00_ffffffff", UID, name)

    @pytest.mark.parametrize(
        "name",
        [
            names.unfinished("a/etcd", OTHER_UID, "09af"),
            names.unfinished("a/etc", UID, "09af"),
            names.unfinished("a/etcd", UID, "09af") + ".db",
            names.unfinished("a/etcd", UID, "mine"),
            names.unfinished("a/etcd", UID, "09af").replace("/", "/b/"),
            "a/etcd.unfinished",
            "a/etcd",
        ],
    )
    def test_files_of_others_are_left_alone(self, name: str) -> None:
        assert not names.is_left("a/etcd", UID, name)


class TestCredentials:
    def test_the_secret_of_coreos_for_s3(self) -> None:
        given = access(S3, GOOD | {"config": "[default]\nregion = eu-central-1\n"}).config

        assert given["access_key_id"] == "AK"
        assert given["secret_access_key"] == "SK%x"
        assert given["region"] == "eu-central-1"

    def test_without_a_secret_the_identity_of_the_pod_is_used(self) -> None:
        assert "access_key_id" not in access(S3, None).config

    @pytest.mark.parametrize(
        ("host", "region"),
        [
            ("s3.eu-west-1.amazonaws.com", "eu-west-1"),
            ("s3-us-gov-west-1.amazonaws.com:443", "us-gov-west-1"),
            ("s3.dualstack.ap-southeast-2.amazonaws.com/", "ap-southeast-2"),
            ("s3.cn-north-1.amazonaws.com.cn", "cn-north-1"),
            ("s3.amazonaws.com", None),
            ("s3.eu-west-1.amazonaws.com.example", None),
            ("minio:9000", None),
        ],
    )
    def test_without_a_secret_no_region_but_the_first_could_be_used(
        self, host: str, region: str | None
    ) -> None:
        """coreos took it from the endpoint, as its documentation said."""
        store = replace(S3, endpoint=f"https://{host}")

        assert access(store, None).config.get("region") == region
        assert access(store, GOOD).config["region"] == (region or "us-east-1")
        other = GOOD | {"config": "[default]\nregion = eu-central-1\n"}
        assert access(store, other).config["region"] == "eu-central-1"

    def test_no_secret_is_printed(self) -> None:
        assert "SK%x" not in repr(access(S3, GOOD))

    @pytest.mark.parametrize(
        ("files", "words"),
        [
            ({}, "no such Secret"),
            ({"aws": "x"}, "key credentials is missing or empty; its keys are: aws"),
            ({"credentials": ""}, "key credentials is missing"),
            ({"credentials": "AKIASECRET"}, "not in the format"),
            ({"credentials": "[other]\na = b\n"}, r"no profile \[default\]"),
            ({"credentials": "[default]\naws_access_key_id = AK\n"}, "lacks aws_secret_access_key"),
            (GOOD | {"config": "[default]\nrole_arn = arn\n"}, "role_arn, which is not supported"),
        ],
    )
    def test_a_wrong_secret_for_s3_is_reported_with_its_key(
        self, files: dict[str, str], words: str
    ) -> None:
        with pytest.raises(BadSecret, match=words) as caught:
            access(S3, files)
        assert "AKIASECRET" not in str(caught.value)

    def test_the_bucket_is_in_the_path_or_in_the_host(self) -> None:
        own = replace(S3, endpoint="http://minio:9000/")

        assert access(own, GOOD).config["endpoint"] == "http://mybucket.minio:9000"
        styled = access(replace(own, path_style=True), GOOD).config
        assert styled["endpoint"] == "http://minio:9000"
        assert styled["virtual_hosted_style_request"] is False

    @pytest.mark.parametrize("bucket", ["backups.example.com", "Backups", "my_backups"])
    def test_no_certificate_was_for_the_host_of_a_bucket_with_dots(self, bucket: str) -> None:
        """A wildcard stands for one part of a name. coreos's client put such buckets into the
        path, and so did manifests without `forcePathStyle`."""
        at_aws = replace(S3, bucket=bucket)
        own = replace(at_aws, endpoint="https://minio.example:9000")

        assert access(at_aws, GOOD).config["virtual_hosted_style_request"] is False
        assert access(own, GOOD).config["endpoint"] == "https://minio.example:9000"
        assert access(own, GOOD).config["virtual_hosted_style_request"] is False

    def test_without_tls_a_bucket_with_dots_may_be_in_the_host(self) -> None:
        own = replace(S3, bucket="my.bucket", endpoint="http://minio.example:9000")

        assert access(own, GOOD).config["endpoint"] == "http://my.bucket.minio.example:9000"

    @pytest.mark.parametrize("host", ["10.0.0.5:9000", "10.0.0.5", "[fd00::5]:9000", "10.0.0.5/s3"])
    def test_a_store_at_an_ip_address_made_jobs_die_silently(self, host: str) -> None:
        """The client can make no request to `http://mybucket.10.0.0.5:9000`, and panics."""
        found = access(replace(S3, endpoint=f"http://{host}"), GOOD).config

        assert found["endpoint"] == f"http://{host}"
        assert found["virtual_hosted_style_request"] is False

    @pytest.mark.parametrize("host", ["minio:9000", "s3.10th.example", "10.0.0.5.nip.io"])
    def test_a_name_with_digits_is_no_address(self, host: str) -> None:
        found = access(replace(S3, endpoint=f"http://{host}"), GOOD).config

        assert found["endpoint"] == f"http://mybucket.{host}"

    def test_only_the_certificates_of_a_secret_with_authorities_are_used(self) -> None:
        one = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"
        key = "-----BEGIN PRIVATE KEY-----\nMIIC\n-----END PRIVATE KEY-----"
        bundle = f"# Müller's\n{one}\r\n{key}\n{one}"

        assert authorities({"ca.crt": bundle}) == f"{one}\n{one}\n"

    @pytest.mark.parametrize(
        ("files", "words"),
        [({}, "no key ca.crt, or there is no such Secret"), ({"ca.crt": " "}, "no key ca.crt"),
         ({"ca.crt": "hidden"}, "key ca.crt holds no certificate in PEM")],
    )  # fmt: skip
    def test_a_secret_without_authorities_is_reported_with_its_key(
        self, files: dict[str, str], words: str
    ) -> None:
        with pytest.raises(BadSecret, match=words) as caught:
            authorities(files)
        assert "hidden" not in str(caught.value)

    def test_azures_account_and_cloud(self) -> None:
        store = Store("ABS", "c", "k", secret="azure")
        files = {"storage-account": "acc\n", "storage-key": "a2V5"}

        assert access(store, files).config == {"account_name": "acc", "account_key": "a2V5"}
        china = access(store, files | {"cloud": "AzureChinaCloud"}).config
        assert china["endpoint"] == "https://acc.blob.core.chinacloudapi.cn"
        assert access(store, files | {"cloud": "AZURECHINACLOUD"}).config == china  # as with coreos
        with pytest.raises(BadSecret, match="key cloud"):
            access(store, files | {"cloud": "Sky"})
        with pytest.raises(BadSecret, match="key storage-key"):
            access(store, {"storage-account": "acc"})

    def test_azures_account_by_the_pods_own_identity(self) -> None:
        """Without an account there was no client at all: "Account must be specified"."""
        store = Store("ABS", "c", "k", storage_account="acc")

        given = access(store, None).config

        assert given == {"account_name": "acc"}
        assert AzureStore("c", config=given)

    def test_googles_token_is_preferred_to_its_file(self) -> None:
        store = Store("GCS", "b", "k", secret="gcp")

        assert access(store, {"access-token": "t\n", "credentials.json": "{}"}).token == "t"
        key = json.dumps({"type": "service_account"})
        assert access(store, {"credentials.json": key}).config == {"service_account_key": key}
        with pytest.raises(BadSecret, match="authorized_user"):
            access(store, {"credentials.json": '{"type": "authorized_user"}'})
        with pytest.raises(BadSecret, match="is not JSON"):
            access(store, {"credentials.json": "hidden"})

    @pytest.mark.parametrize(
        ("host", "region"),
        [
            ("oss-cn-hangzhou.aliyuncs.com", "cn-hangzhou"),
            ("s3.oss-cn-hangzhou.aliyuncs.com", "cn-hangzhou"),
            ("oss-eu-central-1-internal.aliyuncs.com", "eu-central-1"),
            ("backups.example.com", "oss"),
        ],
    )
    def test_oss_through_its_s3_interface(self, host: str, region: str) -> None:
        store = Store("OSS", "b", "k", secret="o", endpoint=f"http://{host}")

        given = access(store, {"accessKeyID": "i", "accessKeySecret": "s"}).config

        assert given["endpoint"] == f"http://b.{host}"
        assert given["region"] == region


UNTRUSTED = """HTTP error: error sending request

Debug source:
Generic {{
    error: InvalidCertificate(
        {},
    ),
}}"""


ECHOED = "<AWSAccessKeyId>AKIA4711</AWSAccessKeyId><StringToSign>AWS4 4711</StringToSign>"


class TestTrouble:
    @pytest.mark.parametrize(
        ("raw", "words"),
        [
            ("Client error with status 404 Not Found: <Code>NoSuchBucket</Code>",
             "spec.s3.path: there is no bucket 'mybucket'"),
            ("status 403 Forbidden: <Code>InvalidAccessKeyId</Code>",
             "spec.s3.awsSecret: the credentials in Secret aws"),
            ("status 403 Forbidden: <Code>SignatureDoesNotMatch</Code>", "spec.s3.awsSecret"),
            ("403 Forbidden AuthorizationFailure Server failed to authenticate the request",
             "spec.s3.awsSecret: the credentials in Secret aws"),
            ("403 Forbidden <Code>AuthorizationFailure</Code> This request is not authorized to",
             "'mybucket' refuses access (AuthorizationFailure)"),
            ("status 403 Forbidden: <Code>AccessDenied</Code>",
             "spec.s3.path: 'mybucket' refuses access"),
            ("HTTP error: error sending request",
             "spec.s3.path: the store of 'mybucket' cannot be reached"),
            ("status 503 Service Unavailable: <Code>SlowDown</Code>", "the store failed"),
            ("No space left on device (os error 28)", "the store is full"),
            ("status 403 Forbidden: <Code>RequestTimeTooSkewed</Code>",
             "spec.s3.path: the store of 'mybucket' does not accept the time of the node's clock"),
        ],
    )  # fmt: skip
    def test_an_error_of_the_store_is_reported_with_the_field(self, raw: str, words: str) -> None:
        assert words in trouble.store_failure(S3, f"{raw}\n\nDebug source:\nGeneric").message

    def test_a_file_of_others_that_no_list_can_show_was_reported_as_a_failing_store(self) -> None:
        """It kept all old backups, and nothing said that it has to be moved."""
        raw = 'Encountered object with invalid path: Path "ex/o//x" contained empty path segment'

        told = trouble.store_failure(S3, raw)

        assert told.reason == "StoreRefused"
        assert told.message.startswith("spec.s3.path: the folder has a file of another tool")
        assert "ex/o//x" in told.message
        assert "a folder of their own" in told.message

    @pytest.mark.parametrize("what", ["Object", "Part"])
    def test_a_bucket_with_object_lock_was_reported_as_a_failing_store(self, what: str) -> None:
        """It accepts nothing without a checksum, and the field for that was not named."""
        raw = "status 400 Bad Request: <Code>InvalidRequest</Code><Message>Content-MD5 OR "
        raw += f"x-amz-checksum- HTTP header is required for Put {what} requests with Object Lock "

        told = trouble.store_failure(S3, f"{raw}parameters</Message>")

        assert told.reason == "StoreRefused"
        assert told.message.startswith("spec.s3.checksum: bucket 'mybucket' has Object Lock")

    def test_nothing_said_where_to_name_the_region_without_a_secret(self) -> None:
        raw = "status 400 Bad Request: <Code>AuthorizationHeaderMalformed</Code>"

        told = trouble.store_failure(replace(S3, secret=""), raw)

        assert "name that in spec.s3.endpoint, as s3.<region>.amazonaws.com" in told.message
        assert "spec.s3.endpoint" not in trouble.store_failure(S3, raw).message

    def test_an_endpoint_that_cannot_be_reached_is_named(self) -> None:
        store = replace(S3, endpoint="http://minio:9000")

        told = trouble.store_failure(store, "dns error: failed to lookup")

        assert told.reason == "StoreUnreachable"
        assert "spec.s3.endpoint: http://minio:9000 cannot be reached" in told.message

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            (
                {},
                "the certificate of the store is not signed by a public authority; name a Secret",
            ),
            ({"endpoint": "https://minio:9000"}, "the certificate of https://minio:9000 is not"),
            ({"ca_secret": "ca"}, "is signed neither by Secret ca nor by a public authority"),
        ],
    )
    def test_an_unknown_authority_is_reported_with_the_field_for_it(
        self, changes: dict[str, str], words: str
    ) -> None:
        """It was reported as an address that cannot be reached."""
        told = trouble.store_failure(replace(S3, **changes), UNTRUSTED.format("UnknownIssuer"))

        assert told.reason == "StoreUnreachable"
        assert told.message.startswith("spec.s3.caSecret: the certificate of ")
        assert words in told.message

    @pytest.mark.parametrize(
        ("said", "why"),
        [
            ("NotValidForNameContext {\n expected: DnsName(\n", "NotValidForName"),
            ("ExpiredContext {\n time: UnixTime(", "Expired"),
            ("Other(\n OtherError(\n CaUsedAsEndEntity,", "CaUsedAsEndEntity"),
        ],
    )
    def test_any_other_problem_of_its_certificate_is_reported_with_its_endpoint(
        self, said: str, why: str
    ) -> None:
        told = trouble.store_failure(
            replace(S3, endpoint="https://minio:9000"), UNTRUSTED.format(said)
        )

        wanted = f"spec.s3.endpoint: https://minio:9000: its certificate is not accepted ({why})"
        assert told.message == wanted

    def test_a_store_without_that_field_does_not_mention_it(self) -> None:
        told = trouble.store_failure(Store("GCS", "b", "a"), UNTRUSTED.format("UnknownIssuer"))

        assert "caSecret" not in told.message
        assert "its certificate is not accepted (UnknownIssuer)" in told.message

    def test_structures_of_the_client_are_not_in_the_message(self) -> None:
        assert "Debug" not in trouble.store_failure(S3, "a\n\nDebug source:\nGeneric").message

    @pytest.mark.parametrize(
        ("reply", "told"),
        [
            (f"<Error><Code>SlowDown</Code><Message>Wait. Or not</Message>{ECHOED}</Error>",
             ": SlowDown: Wait."),
            ('{"error": {"code": "Slow", "message": "Wait."}, "a": "AKIA4711"}', ": Slow: Wait."),
            (f"<html><h1>503</h1>{ECHOED}", ""),
            ("\0\x1b[31m AKIA4711", ""),
            ("", ""),
        ],
    )  # fmt: skip
    @pytest.mark.parametrize(
        "status", ["non-2xx status code: 503 Service Unavailable", "error response"]
    )
    def test_a_message_repeated_what_the_store_had_been_sent(
        self, status: str, reply: str, told: str
    ) -> None:
        """Also markup and control characters: what answers at an endpoint may write anything."""
        ours = f"Error performing PUT http://s/b in 1 ms - Server returned {status}"

        assert trouble.first_line(f"{ours}: {reply}") == ours + told

    def test_denied_reads_are_distinguished_from_wrong_credentials(self) -> None:
        assert trouble.is_forbidden("403 Forbidden: <Code>AccessDenied</Code>")
        assert not trouble.is_forbidden("403 Forbidden: <Code>InvalidAccessKeyId</Code>")
        assert not trouble.is_forbidden("404 Not Found: <Code>NoSuchBucket</Code>")


class TestMessages:
    ORDER = Order(
        "ns/b", "uid", ("http://a:1",), "f", S3, 7, "tls", stamped=True, keep=3, timeout=90
    )
    STORED = Stored("s3://b/k", "0a", 5, "3.7.3", 1056, "ff", "k", verified=True, notes=("note",))

    def test_an_order_can_be_read_back_in_the_pod(self) -> None:
        assert order.parse(order.serialise(self.ORDER)) == self.ORDER
        spares = replace(self.ORDER, spare=("etcd_v1_2026-01-01-00:00:00",))
        assert order.parse(order.serialise(spares)) == spares

    @pytest.mark.parametrize("text", ["", "{}", "[]", '{"owner": 1}'])
    def test_anything_else_is_not_carried_out(self, text: str) -> None:
        with pytest.raises(BadOrder):
            order.parse(text)

    def test_an_outcome_can_be_read_back(self) -> None:
        failure = Failure("TimedOut", "too long", final=True)

        assert outcome.parse(outcome.serialise(self.STORED)) == JobReport(stored=self.STORED)
        assert outcome.parse(outcome.serialise(failure)) == JobReport(failure=failure)

    def test_an_outcome_fits_into_what_the_kubelet_keeps(self) -> None:
        ends = (
            Failure("StoreRefused", "ü" * 9000),
            replace(self.STORED, notes=("ü" * 900,) * 9, location="k" * 1000),
        )

        assert all(len(outcome.serialise(end).encode()) < 4096 for end in ends)
        assert all(outcome.parse(outcome.serialise(end)) != JobReport() for end in ends)

    @pytest.mark.parametrize("text", ["", "Killed", "{}", '{"stored": {}}', '{"failure": 1}'])
    def test_any_other_message_is_ignored(self, text: str) -> None:
        assert outcome.parse(text) == JobReport()

    def test_progress(self) -> None:
        assert outcome.parse_progress(outcome.serialise_progress(Progress(1, 2, 3))) == Progress(
            1, 2, 3
        )
        assert outcome.parse_progress("HTTP/1.1 400") is None

    def test_a_manifest_is_read_back(self) -> None:
        given = Manifest("0a", 5, "3.7.3", 1056, "ff", "2026-01-01T00:00:00Z", "ns/b", "uid")

        assert manifest.parse(manifest.serialise(given)) == given
        other = manifest.serialise(given).replace(b'"none"', b'"zstd"')
        with pytest.raises(BadManifest, match="was interrupted"):
            manifest.parse(manifest.undecided())
        with pytest.raises(BadManifest, match="zstd"):
            manifest.parse(other)
        for text in (b"", b"[]", b"{}", b"\xff"):
            with pytest.raises(BadManifest):
                manifest.parse(text)


def test_what_answers_at_an_endpoint_writes_nothing_but_text() -> None:
    assert trouble.first_line("no\x1b[2J answer\x00") == "no [2J answer "


def test_a_region_that_leads_to_another_host_is_refused() -> None:
    with pytest.raises(BadSecret, match="region must be letters"):
        access(S3, GOOD | {"config": "[default]\nregion = example.com/#\n"})


class TestWhatAJobHasLeft:
    BACKUP = parse_backup(
        {
            "metadata": {"namespace": "ns", "name": "b", "uid": UID, "generation": 2},
            "spec": {
                "etcdEndpoints": ["http://c:2379"],
                "storageType": "S3",
                "s3": {"path": "mybucket/etcd.backup", "awsSecret": "aws"},
            },
        }
    )
    ELSEWHERE = "s3://mybucket/of-an-older-spec"

    def left(self, where: str, other_owner: str = "") -> str:
        said = JobReport(failure=Failure("TimedOut", "60 s have passed", left=where))
        job = Job("j", "uid-j", "1", 0.0, "failed", said=said, other_owner=other_owner)
        return deletion.left_elsewhere(self.BACKUP, {"location": "s3://mybucket/told"}, job)

    def test_at_a_place_that_nothing_else_leads_to(self) -> None:
        assert self.left(self.ELSEWHERE) == self.ELSEWHERE

    @pytest.mark.parametrize("where", ["", "s3://mybucket/told", "s3://mybucket/etcd.backup"])
    def test_where_the_status_or_the_spec_leads(self, where: str) -> None:
        assert self.left(where) == ""

    def test_what_another_object_has_stored_would_be_deleted_with_this_one(self) -> None:
        assert self.left(self.ELSEWHERE, other_owner="EtcdBackup other") == ""
