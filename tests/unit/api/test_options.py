"""etcd's options: which are accepted, in which units, and under which name each minor gets them.

etcd silently ignores an unknown key of its configuration file, so a wrong name has no effect. The
names and types below were read from `embed/config.go` of etcd 3.5.35, 3.6.16 and 3.7.3, and not
from the table under test.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import body

from etcd_stateful.api.cluster import RefusedCluster, parse_cluster
from etcd_stateful.api.options import EtcdOptions, configuration
from etcd_stateful.manifests.statefulset import stateful_set
from etcd_stateful.versions import parse_version

NUMBER, FLAG, TIME = ("7", 7), ("true", True), ("1h30m", 5_400_000_000_000)

SAME_IN_ALL = {
    "auth-token-ttl": NUMBER,
    "backend-batch-interval": TIME,
    "backend-batch-limit": NUMBER,
    "backend-bbolt-freelist-type": ("map", "map"),
    "bcrypt-cost": NUMBER,
    "enable-grpc-gateway": FLAG,
    "enable-pprof": FLAG,
    "grpc-keepalive-interval": TIME,
    "grpc-keepalive-min-time": TIME,
    "grpc-keepalive-timeout": TIME,
    "initial-election-tick-advance": FLAG,
    "max-concurrent-streams": NUMBER,
    "max-request-bytes": ("4096", 4096),
    "max-snapshots": NUMBER,
    "max-txn-ops": NUMBER,
    "max-wals": NUMBER,
    "metrics": ("extensive", "extensive"),
    "pre-vote": FLAG,
}
EXPERIMENTAL_IN_3_5 = {
    "bootstrap-defrag-threshold-megabytes": NUMBER,
    "compact-hash-check-time": TIME,
    "compaction-batch-limit": NUMBER,
    "compaction-sleep-interval": TIME,
    "corrupt-check-time": TIME,
    "downgrade-check-time": TIME,
    "memory-mlock": FLAG,
    "snapshot-catchup-entries": NUMBER,
    "warning-apply-duration": TIME,
    "watch-progress-notify-interval": TIME,
}
SINCE_3_6 = {"warning-unary-request-duration": TIME}

USUAL, STRONG = (
    f"TLS_ECDHE_ECDSA_WITH_{cipher}" for cipher in ("AES_128_GCM_SHA256", "AES_256_GCM_SHA384")
)

CASES = [
    (version, name, name, value)
    for version in ("3.5.33", "3.6.14", "3.7.3")
    for name, value in SAME_IN_ALL.items()
]
CASES += [
    (version, name, name, value)
    for version in ("3.6.14", "3.7.3")
    for name, value in {**EXPERIMENTAL_IN_3_5, **SINCE_3_6}.items()
]
CASES += [
    ("3.5.33", name, f"experimental-{name}".replace("catchup", "catch-up"), value)
    for name, value in EXPERIMENTAL_IN_3_5.items()
]


def configured(version: str = "3.7.3", **spec: Any) -> dict[str, Any]:
    cluster = parse_cluster(body(version=version, **spec))
    return configuration(cluster.etcd, cluster.version)


@pytest.mark.parametrize(("version", "name", "key", "value"), CASES)
def test_every_option_reaches_every_minor_under_the_name_it_knows(
    version: str, name: str, key: str, value: tuple[str, Any]
) -> None:
    text, expected = value

    found = configured(version, etcd={"options": {name: text}})

    assert found[key] == expected
    assert type(found[key]) is type(expected)
    assert found.keys() - configured(version).keys() == {key}


@pytest.mark.parametrize(("version", "name", "key", "value"), CASES)
def test_every_option_can_be_set_as_coreos_manifests_do(
    version: str, name: str, key: str, value: tuple[str, Any]
) -> None:
    variable = {"name": f"ETCD_{name.upper().replace('-', '_')}", "value": value[0]}

    assert configured(version, pod={"etcdEnv": [variable]})[key] == value[1]


def test_no_minor_has_other_options() -> None:
    with pytest.raises(RefusedCluster) as caught:
        configured("3.7.3", etcd={"options": {"unknown": "1"}})
    known = str(caught.value).partition("Known options are: ")[2].split(", ")
    with pytest.raises(RefusedCluster) as older:
        configured("3.5.33", etcd={"options": {"unknown": "1"}})
    known_to_3_5 = str(older.value).partition("Known options are: ")[2].split(", ")

    assert sorted(known) == sorted({**SAME_IN_ALL, **EXPERIMENTAL_IN_3_5, **SINCE_3_6})
    assert sorted(known_to_3_5) == sorted({**SAME_IN_ALL, **EXPERIMENTAL_IN_3_5})


def test_the_third_refused_variable_of_coreos_was_cut_off_behind_the_known_options() -> None:
    names = ("ETCD_DEBUG", "ETCD_ENABLE_V2", "ETCD_LOG_PACKAGE_LEVELS", "ETCD_NAME")
    environment = [{"name": name, "value": "1"} for name in names]
    with pytest.raises(RefusedCluster) as caught:
        configured("3.7.3", pod={"etcdEnv": environment})
    named, _, known = str(caught.value).partition("Known options are: ")

    for name in ("debug", "enable-v2", "log-package-levels", "name"):
        assert f"options[{name}]" in named
    assert "; " not in known


class TestDefaults:
    @pytest.mark.parametrize("version", ["3.6.14", "3.7.3"])
    def test_of_3_6_and_3_7(self, version: str) -> None:
        assert configured(version) == {
            "quota-backend-bytes": 2147483648,
            "auto-compaction-mode": "periodic",
            "auto-compaction-retention": "1h",
            "heartbeat-interval": 100,
            "election-timeout": 1000,
            "log-level": "info",
            "logger": "zap",
            "feature-gates": "CompactHashCheck=true",
        }

    def test_of_3_5_whose_corruption_checks_have_other_names(self) -> None:
        found = configured("3.5.33")

        assert "feature-gates" not in found
        assert "experimental-initial-corrupt-check" not in found
        assert found["experimental-compact-hash-check-enabled"] is True


class TestTypedOptions:
    @pytest.mark.parametrize(
        ("given_", "expected"),
        [
            ({"quotaBackend": "8Gi"}, {"quota-backend-bytes": 8589934592}),
            ({"quotaBackend": 16777216}, {"quota-backend-bytes": 16777216}),
            ({"quotaBackend": "64Gi"}, {"quota-backend-bytes": 68719476736}),
            ({"quotaBackend": "2e9"}, {"quota-backend-bytes": 2000000000}),
            (
                {"autoCompactionMode": "Revision", "autoCompactionRetention": "500"},
                {"auto-compaction-mode": "revision", "auto-compaction-retention": "500"},
            ),
            (
                {"autoCompactionMode": "Revision"},
                {"auto-compaction-mode": "revision", "auto-compaction-retention": "1000"},
            ),
            ({"autoCompactionRetention": "0"}, {"auto-compaction-retention": "0"}),
            ({"autoCompactionRetention": "12"}, {"auto-compaction-retention": "12"}),
            ({"autoCompactionRetention": "90m"}, {"auto-compaction-retention": "90m"}),
            ({"snapshotCount": 10000}, {"snapshot-count": 10000}),
            ({"heartbeatIntervalMilliseconds": 50}, {"heartbeat-interval": 50}),
            ({"electionTimeoutMilliseconds": 500}, {"election-timeout": 500}),
            ({"electionTimeoutMilliseconds": 50000}, {"election-timeout": 50000}),
            ({"logLevel": "debug"}, {"log-level": "debug"}),
            ({"tlsMinVersion": "TLS1.3"}, {"tls-min-version": "TLS1.3"}),
            ({"tlsMinVersion": "TLS1.3", "cipherSuites": []}, {"tls-min-version": "TLS1.3"}),
            ({"cipherSuites": [STRONG, USUAL]}, {"cipher-suites": [STRONG, USUAL]}),
        ],
    )
    def test_becomes_a_configuration_key(
        self, given_: dict[str, Any], expected: dict[str, Any]
    ) -> None:
        assert configured(etcd=given_) == configured() | expected

    @pytest.mark.parametrize(
        ("name", "value", "expected"),
        [
            ("ETCD_QUOTA_BACKEND_BYTES", "8589934592", {"quota-backend-bytes": 8589934592}),
            ("ETCD_AUTO_COMPACTION_RETENTION", "5m", {"auto-compaction-retention": "5m"}),
            ("ETCD_SNAPSHOT_COUNT", "5000", {"snapshot-count": 5000}),
            ("ETCD_HEARTBEAT_INTERVAL", "200", {"heartbeat-interval": 200}),
            ("ETCD_ELECTION_TIMEOUT", "2000", {"election-timeout": 2000}),
            ("ETCD_LOG_LEVEL", "warn", {"log-level": "warn"}),
            ("ETCD_LOG_LEVEL", "", {}),
            ("ETCD_TLS_MIN_VERSION", "TLS1.3", {"tls-min-version": "TLS1.3"}),
            ("ETCD_CIPHER_SUITES", f"{STRONG},{USUAL}", {"cipher-suites": [STRONG, USUAL]}),
            ("ETCD_CIPHER_SUITES", "", {}),
            ("ETCDCTL_API", "3", {}),
            ("GODEBUG", "x=1", {}),
        ],
    )
    def test_may_come_from_the_environment(
        self, name: str, value: str, expected: dict[str, Any]
    ) -> None:
        found = configured(pod={"etcdEnv": [{"name": name, "value": value}]})

        assert found == configured() | expected

    @pytest.mark.parametrize(
        ("field", "value", "name", "beneath"),
        [
            ("quotaBackend", "4Gi", "ETCD_QUOTA_BACKEND_BYTES", "nonsense"),
            ("snapshotCount", 700, "ETCD_SNAPSHOT_COUNT", "nonsense"),
            ("heartbeatIntervalMilliseconds", 90, "ETCD_HEARTBEAT_INTERVAL", "nonsense"),
            ("electionTimeoutMilliseconds", 900, "ETCD_ELECTION_TIMEOUT", "nonsense"),
            ("logLevel", "warn", "ETCD_LOG_LEVEL", "nonsense"),
            ("cipherSuites", ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"], "ETCD_CIPHER_SUITES", "x"),
            ("autoCompactionRetention", "2h", "ETCD_AUTO_COMPACTION_RETENTION", "nonsense"),
        ],
    )
    def test_the_spec_overrides_the_environment(
        self, field: str, value: object, name: str, beneath: str
    ) -> None:
        variable = {"name": name, "value": beneath}

        found = configured(etcd={field: value}, pod={"etcdEnv": [variable]})

        assert found == configured(etcd={field: value})

    def test_the_checked_map_overrides_the_environment(self) -> None:
        variable = {"name": "ETCD_MAX_TXN_OPS", "value": "1"}

        found = configured(etcd={"options": {"max-txn-ops": "2"}}, pod={"etcdEnv": [variable]})

        assert found["max-txn-ops"] == 2

    def test_an_unset_snapshot_count_keeps_etcds_default(self) -> None:
        assert "snapshot-count" not in configured()


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1ns", 1),
        ("1us", 1_000),
        ("1ms", 1_000_000),
        ("1s", 1_000_000_000),
        ("1m", 60_000_000_000),
        ("1h", 3_600_000_000_000),
        ("1h30m", 5_400_000_000_000),
        ("0.5s", 500_000_000),
        ("1.001s", 1_001_000_000),
        ("4.35s", 4_350_000_000),
        ("0s", 0),
        ("1h1m1s1ms1us1ns", 3_661_001_001_001),
        ("2562047h", 9_223_369_200_000_000_000),
    ],
)
def test_a_duration_becomes_the_nanoseconds_that_go_reads(text: str, nanoseconds: int) -> None:
    found = configured(etcd={"options": {"corrupt-check-time": text}})

    assert found["corrupt-check-time"] == nanoseconds


@pytest.mark.parametrize(
    "text", ["", "1", "h", "1 h", "1d", "-1h", "1.h", ".5h", "1h30", "1H", "1µs"]
)
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(RefusedCluster, match="must be a duration"):
        configured(etcd={"options": {"corrupt-check-time": text}})


@pytest.mark.parametrize("name", ["compact-hash-check-time", "downgrade-check-time"])
@pytest.mark.parametrize("text", ["0s", "0h0m"])
def test_etcd_did_not_start_or_no_member_could_join_after_a_downgrade(name: str, text: str) -> None:
    """0 turned off what ends a downgrade."""
    with pytest.raises(
        RefusedCluster, match=rf"options\[{name}\]: must be at least 1s, found '{text}'"
    ):
        configured(etcd={"options": {name: text}})

    assert configured(etcd={"options": {name: "1s"}})[name] == 1_000_000_000


@pytest.mark.parametrize("name", ["compact-hash-check-time", "downgrade-check-time"])
def test_a_member_did_nothing_but_check(name: str) -> None:
    """A fifth of a core and 4000 lines of its log a second (3.7.3)."""
    with pytest.raises(RefusedCluster, match=rf"options\[{name}\]: must be at least 1s"):
        configured(etcd={"options": {name: "999ms"}})


@pytest.mark.parametrize(("name", "least"), [("max-request-bytes", 4096), ("max-txn-ops", 1)])
def test_no_limit_or_one_by_mistake_let_nothing_in_at_all(name: str, least: int) -> None:
    """For other options of etcd 0 is no limit. With these it takes no transaction, or no request
    (3.5.35), its own at the start included, so that a member never serves (3.7.3, also with
    100)."""
    refused = rf"options\[{name}\]: must be at least {least}, found '{least - 1}'"
    with pytest.raises(RefusedCluster, match=refused):
        configured(etcd={"options": {name: str(least - 1)}})

    assert configured(etcd={"options": {name: str(least)}})[name] == least


def test_a_retention_of_nanoseconds_ended_etcd() -> None:
    """It panics below 10 ns (3.7.3)."""
    for text in ("1ns", "999us"):
        with pytest.raises(RefusedCluster, match="autoCompactionRetention: must be a duration"):
            configured(etcd={"autoCompactionRetention": text})

    for text in ("1ms", "0s"):
        found = configured(etcd={"autoCompactionRetention": text})
        assert found["auto-compaction-retention"] == text


PRINTABLE = st.text(max_size=30) | st.sampled_from(
    ["$(POD_NAME)", "$$(X)", "a\nname: evil", "--name=evil", '"}, {"name": "evil', "info\0"]
)


GOOD = {name: text for name, (text, _) in {**SAME_IN_ALL, **EXPERIMENTAL_IN_3_5}.items()}
GOOD_FIELDS = {
    "logLevel": "warn",
    "autoCompactionRetention": "2h",
    "autoCompactionMode": "periodic",
    "quotaBackend": "2Gi",
    "tlsMinVersion": "TLS1.2",
}


@pytest.mark.parametrize("altered", ["nothing", *sorted(GOOD), *sorted(GOOD_FIELDS)])
@given(st.sampled_from(sorted(GOOD)), st.sampled_from(sorted(GOOD_FIELDS)), PRINTABLE)
def test_an_accepted_value_contains_no_free_text(
    altered: str, option: str, field: str, text: str
) -> None:
    """Kubernetes would expand a `$(NAME)` in the settings, and etcd would read the result.
    Everything else in the spec is valid, so only this text decides whether it is refused."""
    etcd: dict[str, Any] = {"options": {option: GOOD[option]}, field: GOOD_FIELDS[field]}
    if altered != "nothing":
        (etcd if altered in GOOD_FIELDS else etcd["options"])[altered] = text
    try:
        cluster = parse_cluster(body(etcd=etcd))
    except RefusedCluster:
        assert altered != "nothing"
        return

    settings = start_settings(cluster)
    assert "$" not in settings
    assert "\\" not in settings
    for one in json.loads(settings)["etcd"].values():
        assert not isinstance(one, str) or re.fullmatch(r"[A-Za-z0-9.,=-]+", one)


def start_settings(cluster: Any) -> str:
    manifest = stateful_set(cluster, replicas=1, operator_image="operator:1")
    (start,) = manifest["spec"]["template"]["spec"]["initContainers"]
    return next(one["value"] for one in start["env"] if one["name"] == "START_SETTINGS")


@pytest.mark.parametrize("edit", [{"tlsMinVersion": "TLS1.3"}, {"cipherSuites": [USUAL]}])
def test_another_version_of_tls_or_other_cipher_suites_restart_the_pods(
    edit: dict[str, Any],
) -> None:
    before, after = parse_cluster(body()), parse_cluster(body(etcd=edit))

    assert before.template_hash != after.template_hash


def test_the_value_of_options_does_not_depend_on_their_order() -> None:
    one = configured(etcd={"options": {"max-txn-ops": "1", "metrics": "basic"}})
    other = configured(etcd={"options": {"metrics": "basic", "max-txn-ops": "1"}})

    assert list(one) == list(other)


def test_an_untouched_spec_is_the_defaults() -> None:
    version = parse_version("3.7.3")

    assert version is not None
    assert configured() == configuration(EtcdOptions(), version)
