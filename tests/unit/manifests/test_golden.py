"""Rendered manifests, byte by byte.

A change in a golden file is a change in every running cluster: a new revision of its StatefulSet,
or a write to its Services. `make golden` rewrites the files. Each line of the diff should be
explained in the changelog.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from worlds import body, with_defaults

from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster, parse_cluster
from etcd_stateful.certificates import issued
from etcd_stateful.manifests.certificate import certificate
from etcd_stateful.manifests.drift import drift
from etcd_stateful.manifests.secret import start_secret
from etcd_stateful.manifests.services import client_service, headless_service
from etcd_stateful.manifests.statefulset import stateful_set, version_of
from etcd_stateful.records import bootstrap as records
from etcd_stateful.records.bootstrap_json import load_bootstrap
from etcd_stateful.start.configuration import own_entry, parse_settings
from etcd_stateful.versions import Version

GOLDEN = Path(__file__).parent / "golden"
IMAGE = "registry.example/etcd-operator:0.1.0"

EVERYTHING: dict[str, Any] = {
    "repository": "registry.example:5000/team/etcd",
    "version": "v3.6.14",
    "paused": False,
    "pod": {
        "labels": {"team": "storage", "a-first": "label"},
        "annotations": {"prometheus.io/scrape": "true"},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [
            {"key": "dedicated", "operator": "Equal", "value": "etcd", "effect": "NoSchedule"},
            {"key": "dedicated", "operator": "Exists", "effect": "NoExecute"},
        ],
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "labelSelector": {
                            "matchExpressions": [
                                {"key": "etcd_cluster", "operator": "In", "values": ["c"]},
                                {"key": "etcd_cluster", "operator": "Exists"},
                            ]
                        },
                        "topologyKey": "kubernetes.io/hostname",
                    }
                ]
            }
        },
        "antiAffinity": True,
        "resources": {
            "requests": {"cpu": "0.5", "memory": "256Mi"},
            "limits": {"memory": "512Mi"},
        },
        "etcdEnv": [
            {"name": "ETCD_MAX_TXN_OPS", "value": "512"},
            {"name": "GODEBUG", "value": "madvdontneed=1"},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "EMPTY", "value": ""},
        ],
        "persistentVolumeClaimSpec": {
            "storageClassName": "fast",
            "accessModes": ["ReadWriteOncePod"],
            "resources": {"requests": {"storage": "20480Mi"}},
        },
        "busyboxImage": "busybox:1.28.0-glibc",
        "securityContext": {"runAsUser": 9000, "fsGroup": 9000},
        "imagePullSecrets": [{"name": "registry"}],
        "priorityClassName": "system-cluster-critical",
        "DNSTimeoutInSecond": 45,
        "ClusterDomain": ".cluster.local",
    },
    "etcd": {
        "quotaBackend": "8Gi",
        "autoCompactionMode": "Revision",
        "autoCompactionRetention": "10000",
        "snapshotCount": 10000,
        "heartbeatIntervalMilliseconds": 50,
        "electionTimeoutMilliseconds": 500,
        "logLevel": "warn",
        "tlsMinVersion": "TLS1.2",
        "cipherSuites": [
            "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
            "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        ],
        "options": {"max-request-bytes": "3145728", "corrupt-check-time": "4h"},
    },
    "retainedClaims": {"adopt": "0ld00000-0000-4000-8000-000000000001"},
}
PLAINTEXT = {"peer": "Plaintext", "client": "Plaintext"}
STATIC = {
    "static": {
        "member": {"peerSecret": "peers", "serverSecret": "servers"},
        "operatorSecret": "operators",
    }
}
OPTIONS = {"etcd": {"options": {"watch-progress-notify-interval": "5s", "memory-mlock": "true"}}}

CASES: dict[str, dict[str, Any]] = {
    "default": body(3),
    "everything": body(5, **EVERYTHING),
    "empty-dir": body(3, pod={"emptyDir": {}}),
    "empty-dir-limited": body(3, pod={"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}),
    "options-3.5": body(3, version="3.5.33", **OPTIONS),
    "options-3.6": body(3, version="3.6.14", **OPTIONS),
    "options-3.7": body(3, version="3.7.3", **OPTIONS),
    "anti-affinity": body(3, pod={"antiAffinity": True}),
    "root": body(3, pod={"securityContext": {"runAsUser": 0, "fsGroup": 0}}),
    "size-1": body(1),
    "size-7": body(7),
    "plaintext": body(3, TLS=PLAINTEXT),
    "tls-static": body(3, TLS=STATIC),
    "tls-issued": body(3, TLS={"issuerRef": {"name": "etcd-ca", "kind": "ClusterIssuer"}}),
    "tls-of-peers": body(3, TLS={"client": "Plaintext"}, pod={"emptyDir": {}}),
}


def rendered(cluster: EtcdCluster) -> list[dict[str, Any]]:
    record = records.first_attempt(
        cluster.uid,
        {naming.pod(cluster.name, one): cluster.peer_url(one) for one in range(cluster.size)},
        str(cluster.version),
        links=cluster.links,
    )
    return [
        start_secret(cluster, record, "c2VjcmV0"),
        headless_service(cluster),
        stateful_set(cluster, replicas=cluster.size, operator_image=IMAGE),
        client_service(cluster),
    ]


def certificates(cluster: EtcdCluster) -> list[dict[str, Any]]:
    issuers = {one.issuer for one in (cluster.links.peer, cluster.links.client) if one.issuer}
    return [certificate(cluster, need, one) for one in issuers for need in issued(cluster)]


class _Plain(yaml.SafeDumper):
    """Without anchors, so that each object can be read by itself."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def text_of(manifests: list[dict[str, Any]]) -> str:
    return yaml.dump_all(manifests, Dumper=_Plain, sort_keys=False, width=100)


@pytest.mark.parametrize("case", CASES)
def test_what_is_rendered_is_what_it_was(case: str, update_golden: bool) -> None:
    path = GOLDEN / f"{case}.yaml"
    cluster = parse_cluster(CASES[case])
    text = text_of([*rendered(cluster), *certificates(cluster)])
    if update_golden:
        path.write_text(text)

    assert path.exists(), f"no golden file for {case}: run `make golden` and look at it"
    assert text == path.read_text(), f"{case} is rendered otherwise: every cluster would roll"


def test_every_golden_file_is_rendered_by_a_case() -> None:
    assert {path.stem for path in GOLDEN.glob("*.yaml")} == set(CASES)


@pytest.mark.parametrize("case", CASES)
def test_rendering_twice_gives_the_same_bytes(case: str) -> None:
    first, second = (text_of(rendered(parse_cluster(CASES[case]))) for _ in range(2))

    assert first == second


@pytest.mark.parametrize("case", CASES)
def test_the_order_of_keys_in_the_spec_changes_nothing_that_kubernetes_sees(case: str) -> None:
    plain = rendered(parse_cluster(CASES[case]))
    shuffled = rendered(parse_cluster(_shuffled(CASES[case], random.Random(7))))

    assert plain == shuffled
    settings = [_start_settings(one[2]) for one in (plain, shuffled)]
    assert settings[0] == settings[1]


def _shuffled(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict):
        keys = list(value)
        chance.shuffle(keys)
        return {key: _shuffled(value[key], chance) for key in keys}
    return [_shuffled(one, chance) for one in value] if isinstance(value, list) else value


def _start_settings(manifest: dict[str, Any]) -> str:
    (start,) = manifest["spec"]["template"]["spec"]["initContainers"]
    return next(one["value"] for one in start["env"] if one["name"] == "START_SETTINGS")


@pytest.mark.parametrize("case", CASES)
def test_rendering_leaves_the_spec_alone(case: str) -> None:
    resource = CASES[case]
    before = repr(resource)
    cluster = parse_cluster(resource)
    for one in rendered(cluster):
        with_defaults(one)
        one["metadata"]["labels"]["touched"] = "yes"

    assert repr(resource) == before
    assert rendered(cluster) == rendered(parse_cluster(resource))


@pytest.mark.parametrize("case", CASES)
def test_an_object_as_the_api_server_stores_it_shows_no_drift(case: str) -> None:
    for manifest in rendered(parse_cluster(CASES[case])):
        assert drift(with_defaults(manifest), manifest) is None


@pytest.mark.parametrize("case", CASES)
def test_start_in_every_pod_understands_its_settings_and_knows_its_place_in_the_record(
    case: str,
) -> None:
    """etcd refuses an initial cluster in which the member has another URL than it advertises."""
    cluster = parse_cluster(CASES[case])
    secret, _, manifest, _ = rendered(cluster)
    record = load_bootstrap(secret["stringData"]["bootstrap"])
    for ordinal in range(cluster.size):
        settings = parse_settings(
            {
                "POD_NAME": naming.pod(cluster.name, ordinal),
                "POD_UID": "p",
                "POD_IP": "10.0.0.1",
                "START_SETTINGS": _start_settings(manifest),
            }
        )
        assert settings.cluster_uid == cluster.uid
        assert own_entry(settings) in record.initial_cluster.split(",")


@pytest.mark.parametrize("case", CASES)
def test_pods_are_selected_by_both_services_and_by_no_other_cluster(case: str) -> None:
    _, headless, manifest, client = rendered(parse_cluster(CASES[case]))
    labels = manifest["spec"]["template"]["metadata"]["labels"]

    for selector in (
        headless["spec"]["selector"],
        client["spec"]["selector"],
        manifest["spec"]["selector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()
        assert selector["app.kubernetes.io/instance"] == "c"


class TestStatefulSet:
    def spec(self, **spec: Any) -> dict[str, Any]:
        cluster = parse_cluster(body(3, **spec))
        return stateful_set(cluster, replicas=3, operator_image=IMAGE)["spec"]

    def pod(self, **fields: Any) -> dict[str, Any]:
        return self.spec(pod=fields)["template"]["spec"]

    def test_all_pods_start_at_once_and_only_the_operator_takes_one_down(self) -> None:
        spec = self.spec()

        assert spec["podManagementPolicy"] == "Parallel"
        assert spec["updateStrategy"] == {"type": "OnDelete"}

    def test_claims_outlive_the_stateful_set_and_the_cluster(self) -> None:
        spec = self.spec()

        assert spec["persistentVolumeClaimRetentionPolicy"] == {
            "whenDeleted": "Retain",
            "whenScaled": "Retain",
        }
        (claim,) = spec["volumeClaimTemplates"]
        assert "ownerReferences" not in claim["metadata"]

    def test_the_configuration_is_opened_by_a_path_that_goes_through_the_log(self) -> None:
        (etcd,) = self.pod()["containers"]

        assert etcd["command"] == [
            "/usr/local/bin/etcd",
            "--config-file=/var/etcd/data/member/wal/../../../etcd.yaml",
        ]
        assert "args" not in etcd

    def test_no_pod_waits_for_the_key(self) -> None:
        """Pods with data start even while the operator and its Secret are gone."""
        (key,) = [one for one in self.pod()["volumes"] if one["name"] == naming.KEY_VOLUME]

        assert key["secret"]["optional"] is True

    def environment(self, **spec: Any) -> dict[str, str]:
        (etcd,) = self.spec(**spec)["template"]["spec"]["containers"]
        names = [one["name"] for one in etcd["env"]]
        assert len(set(names)) == len(names)
        return {one["name"]: one["value"] for one in etcd["env"]}

    def test_etcdctl_in_the_pod_needs_no_flags(self) -> None:
        found = self.environment()

        assert {name: path for name, path in found.items() if name.startswith("ETCDCTL_")} == {
            "ETCDCTL_CACERT": "/etc/etcdtls/member/server-tls/server-ca.crt",
            "ETCDCTL_CERT": "/etc/etcdtls/member/server-tls/server.crt",
            "ETCDCTL_KEY": "/etc/etcdtls/member/server-tls/server.key",
        }

    def test_no_variable_stands_for_a_flag_that_people_give_to_etcdctl(self) -> None:
        """etcdctl refuses to run with both."""
        assert "ETCDCTL_ENDPOINTS" not in self.environment()
        for tls in (PLAINTEXT, STATIC):
            assert set(self.environment(TLS=tls)) == {"GOTRACEBACK"}

    def test_etcdctl_is_let_in_with_certificates_of_an_issuer_too(self) -> None:
        assert "ETCDCTL_CERT" in self.environment(TLS={"issuerRef": {"name": "ca"}})

    def test_what_the_spec_gives_etcdctl_and_go_stays(self) -> None:
        given = {"ETCDCTL_CERT": "/mine.crt", "ETCDCTL_KEY": "/mine.key", "GOTRACEBACK": "all"}
        environment = [{"name": name, "value": value} for name, value in given.items()]

        found = self.environment(pod={"etcdEnv": environment})

        assert found.items() >= given.items()
        assert found["ETCDCTL_CACERT"] == "/etc/etcdtls/member/server-tls/server-ca.crt"

    def test_only_start_sees_the_key(self) -> None:
        pod = self.pod()
        (start,), (etcd,) = pod["initContainers"], pod["containers"]

        assert naming.KEY_VOLUME in {one["name"] for one in start["volumeMounts"]}
        assert naming.KEY_VOLUME not in {one["name"] for one in etcd["volumeMounts"]}

    def test_liveness_never_depends_on_a_quorum(self) -> None:
        (etcd,) = self.pod()["containers"]

        assert etcd["livenessProbe"]["httpGet"]["path"] == "/livez"
        assert etcd["readinessProbe"]["httpGet"]["path"] == "/readyz"

    def test_a_database_that_takes_long_to_open_is_not_killed_at_it(self) -> None:
        (etcd,) = self.pod()["containers"]

        assert etcd["livenessProbe"]["initialDelaySeconds"] >= 1800

    def test_no_container_can_gain_privileges(self) -> None:
        pod = self.pod()

        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["initContainers"] + pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }

    def test_running_as_root_is_possible_when_asked_for(self) -> None:
        context = self.pod(securityContext={"runAsUser": 0})["securityContext"]

        assert context["runAsUser"] == 0
        assert context["runAsNonRoot"] is False

    @pytest.mark.parametrize("user", [None, 1000])
    def test_any_other_user_is_not_root(self, user: int | None) -> None:
        context = self.pod(securityContext={"runAsUser": user})["securityContext"]

        assert context["runAsNonRoot"] is True

    def test_anti_affinity_gives_way_to_an_affinity(self) -> None:
        given = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}

        assert self.pod(antiAffinity=True, affinity=given)["affinity"] == given
        assert "affinity" not in self.pod(antiAffinity=True, affinity={})
        assert "required" not in str(self.pod(antiAffinity=False)["affinity"])

    def test_anti_affinity_keeps_members_of_this_cluster_alone_apart(self) -> None:
        (term,) = self.pod(antiAffinity=True)["affinity"]["podAntiAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]

        assert term == {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"etcd_cluster": "c"}},
        }

    @pytest.mark.parametrize("apart", [True, False])
    def test_other_zones_are_wished_for_and_never_waited_for(self, *, apart: bool) -> None:
        (wish,) = self.pod(antiAffinity=apart)["affinity"]["podAntiAffinity"][
            "preferredDuringSchedulingIgnoredDuringExecution"
        ]

        assert wish["podAffinityTerm"] == {
            "topologyKey": "topology.kubernetes.io/zone",
            "labelSelector": {"matchLabels": {"etcd_cluster": "c"}},
        }

    def test_the_users_labels_give_way_to_ours(self) -> None:
        spec = self.spec(pod={"labels": {"team": "x"}})

        assert spec["template"]["metadata"]["labels"] == {"team": "x"} | naming.labels("c")
        assert "team" not in spec["selector"]["matchLabels"]

    def test_resources_are_those_of_every_container(self) -> None:
        resources = {"limits": {"memory": "1Gi"}}
        pod = self.pod(resources=resources)

        assert [one["resources"] for one in pod["initContainers"] + pod["containers"]] == [
            resources,
            resources,
        ]

    @pytest.mark.parametrize(
        ("claim", "expected"),
        [
            ({}, {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "8Gi"}}}),
            (
                {"storageClassName": ""},
                {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "8Gi"}},
                    "storageClassName": "",
                },
            ),
            (
                {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteMany"]},
                {
                    "accessModes": ["ReadWriteMany"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            ),
        ],
    )
    def test_a_claim_is_what_the_spec_says_over_a_default(
        self, claim: dict[str, Any], expected: dict[str, Any]
    ) -> None:
        (template,) = self.spec(pod={"persistentVolumeClaimSpec": claim})["volumeClaimTemplates"]

        assert template["spec"] == expected

    def test_claims_say_from_birth_which_cluster_they_were_made_for(self) -> None:
        (template,) = self.spec()["volumeClaimTemplates"]

        told = template["metadata"]["annotations"]
        assert told[naming.CLUSTER_UID] == body()["metadata"]["uid"]

    def test_claims_with_the_label_that_argo_cd_tracks_objects_by_are_not_its_to_delete(
        self,
    ) -> None:
        """An Application with the cluster's name took those of a deleted cluster for its own."""
        (template,) = self.spec()["volumeClaimTemplates"]
        labels, notes = template["metadata"]["labels"], template["metadata"]["annotations"]

        assert "app.kubernetes.io/instance" in labels
        assert notes["argocd.argoproj.io/sync-options"].split(",") == [
            "Prune=false",
            "Delete=false",
        ]

    @pytest.mark.parametrize(
        ("notes", "version"),
        [
            ({naming.VERSION_ANNOTATION: "3.6.14"}, Version(3, 6, 14)),
            ({naming.VERSION_ANNOTATION: "x"}, None),
            ({naming.VERSION_ANNOTATION: ""}, None),
            ({}, None),
            (None, None),
        ],
    )
    def test_the_version_is_read_back_from_its_note(
        self, notes: dict[str, str] | None, version: Version | None
    ) -> None:
        assert version_of({"metadata": {"annotations": notes}}) == version
        assert version_of({"metadata": {}}) is None


class TestServices:
    def test_members_find_each_other_before_they_are_ready(self) -> None:
        spec = headless_service(parse_cluster(body(3)))["spec"]

        assert spec["publishNotReadyAddresses"] is True
        assert spec["clusterIP"] == "None"
        assert [port["port"] for port in spec["ports"]] == [2379, 2380]

    def test_clients_reach_ready_members_only(self) -> None:
        spec = client_service(parse_cluster(body(3)))["spec"]

        assert "publishNotReadyAddresses" not in spec
        assert [port["port"] for port in spec["ports"]] == [2379]


def test_everything_that_is_made_is_owned_by_the_cluster() -> None:
    for manifest in rendered(parse_cluster(CASES["everything"])):
        (owner,) = manifest["metadata"]["ownerReferences"]
        assert owner == {
            "apiVersion": "etcd.database.coreos.com/v1beta2",
            "kind": "EtcdCluster",
            "name": "c",
            "uid": body()["metadata"]["uid"],
            "controller": True,
        }
