"""Parsing of valid specs: the coreos operator's fields and ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from worlds import UID, body

from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster, RetainedClaims, parse_cluster
from etcd_stateful.api.options import EtcdOptions
from etcd_stateful.api.pod import PodPolicy
from etcd_stateful.api.reading import Problem
from etcd_stateful.versions import Version

PLAINTEXT = {"peer": "Plaintext", "client": "Plaintext"}
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"

INTRODUCTION = """
apiVersion: "etcd.database.coreos.com/v1beta2"
kind: "EtcdCluster"
metadata:
  name: "example-etcd-cluster"
  namespace: "default"
  uid: "u"
  generation: 4
spec:
  size: 3
  version: "3.7.3"
"""
"""The manifest in introductions to the coreos operator, except for its version."""

EVERY_COREOS_FIELD = """
metadata:
  name: example
  namespace: default
  uid: u
  annotations:
    etcd.database.coreos.com/scope: clusterwide
spec:
  size: 5
  repository: registry.example:5000/team/etcd
  version: v3.6.14
  paused: false
  pod:
    labels: {team: storage}
    nodeSelector: {disk: ssd}
    tolerations:
      - {key: dedicated, operator: Equal, value: etcd, effect: NoSchedule}
    affinity:
      podAntiAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          - labelSelector:
              matchExpressions:
                - {key: etcd_cluster, operator: In, values: [example]}
            topologyKey: kubernetes.io/hostname
    antiAffinity: true
    resources: {limits: {cpu: 300m, memory: 200Mi}, requests: {cpu: 200m, memory: 100Mi}}
    etcdEnv:
      - {name: ETCD_AUTO_COMPACTION_RETENTION, value: "1"}
      - {name: ETCD_MAX_TXN_OPS, value: "512"}
      - {name: GODEBUG, value: "madvdontneed=1"}
    persistentVolumeClaimSpec:
      storageClassName: fast
      accessModes: [ReadWriteOnce]
      resources: {requests: {storage: 1Gi}}
    annotations: {prometheus.io/scrape: "true"}
    busyboxImage: busybox:1.28.0-glibc
    securityContext: {runAsUser: 9000, fsGroup: 9000, runAsNonRoot: true}
    DNSTimeoutInSecond: 30
    ClusterDomain: .cluster.local
  TLS: {}
"""


def parse(text: str) -> EtcdCluster:
    return parse_cluster(yaml.safe_load(text))


def test_the_manifest_of_the_introductions() -> None:
    cluster = parse(INTRODUCTION)

    assert cluster == EtcdCluster(
        namespace="default",
        name="example-etcd-cluster",
        uid="u",
        generation=4,
        size=3,
        repository="quay.io/coreos/etcd",
        version=Version(3, 7, 3),
        paused=False,
        pod=PodPolicy(
            labels={},
            annotations={},
            node_selector={},
            tolerations=(),
            affinity=None,
            anti_affinity=False,
            resources=None,
            environment=(),
            claim=None,
            empty_dir=None,
            security_context=None,
            image_pull_secrets=(),
            priority_class="",
            dns_timeout_seconds=0,
            cluster_domain="",
        ),
        etcd=EtcdOptions(),
        retained_claims=RetainedClaims(),
        version_declared=True,
        spec_hash=cluster.spec_hash,
    )
    assert cluster.image == "quay.io/coreos/etcd:v3.7.3"
    assert cluster.durable


def test_the_examples_are_clusters() -> None:
    declared = [
        one
        for path in EXAMPLES.glob("*.yaml")
        for one in yaml.safe_load_all(path.read_text())
        if one["kind"] == "EtcdCluster"
    ]

    assert declared
    for one in declared:
        assert not parse_cluster(one).ignored


def test_every_field_of_coreos_is_accepted() -> None:
    cluster = parse(EVERY_COREOS_FIELD)
    spec = yaml.safe_load(EVERY_COREOS_FIELD)["spec"]

    assert cluster.size == 5
    assert cluster.image == "registry.example:5000/team/etcd:v3.6.14"
    assert not cluster.paused
    pod = spec["pod"]
    assert cluster.pod == PodPolicy(
        labels=pod["labels"],
        annotations=pod["annotations"],
        node_selector=pod["nodeSelector"],
        tolerations=tuple(pod["tolerations"]),
        affinity=pod["affinity"],
        anti_affinity=True,
        resources=pod["resources"],
        environment=tuple(pod["etcdEnv"]),
        claim=pod["persistentVolumeClaimSpec"],
        empty_dir=None,
        security_context=pod["securityContext"],
        image_pull_secrets=(),
        priority_class="",
        dns_timeout_seconds=30,
        cluster_domain=".cluster.local",
    )
    assert cluster.etcd.compaction_retention == "1"
    assert cluster.etcd.others == (("max-txn-ops", 512),)


def test_a_field_of_coreos_without_effect_is_reported() -> None:
    box, _ = parse(EVERY_COREOS_FIELD).ignored

    assert str(box) == "spec.pod.busyboxImage: has no effect: names are checked without busybox"


def test_members_on_one_node_were_asked_for_otherwise_in_a_field_that_nothing_reads() -> None:
    """As coreos has it, `antiAffinity` counts only without `affinity`."""

    def of(pod: dict[str, object]) -> tuple[Problem, ...]:
        return parse_cluster(body(3, pod=pod)).ignored

    (ignored,) = of({"antiAffinity": True, "affinity": {}})

    assert str(ignored).startswith("spec.pod.antiAffinity: has no effect beside affinity")
    for pod in ({"antiAffinity": True}, {"antiAffinity": False, "affinity": {}}):
        assert of(pod) == ()


def test_peer_urls_carry_the_cluster_domain() -> None:
    assert parse(EVERY_COREOS_FIELD).peer_url(4) == (
        "https://example-4.example.default.svc.cluster.local:2380"
    )


@pytest.mark.parametrize(("domain", "kept"), [(".a.b.", ".a.b"), (".a", ".a"), ("", "")])
def test_a_trailing_dot_of_the_domain_is_dropped(domain: str, kept: str) -> None:
    """With the dot, the names in URLs would be others to etcd and in certificates."""
    assert parse_cluster(body(pod={"ClusterDomain": domain})).pod.cluster_domain == kept


@pytest.mark.parametrize(
    "version", ["3.5.32", "3.5.33", "3.6.12", "3.6.14", "3.7.1", "3.7.3", "3.7.99", "v3.7.3"]
)
def test_supported_versions_are_accepted_with_and_without_a_v(version: str) -> None:
    assert str(parse_cluster(body(version=version)).version) == version.removeprefix("v")


@pytest.mark.parametrize("absent", [None, ""])
def test_an_empty_field_has_its_default(absent: object) -> None:
    cluster = parse_cluster(
        body(version=absent, repository=absent, paused=None, pod=None, TLS=None)
    )

    assert str(cluster.version) == "3.7.3"
    assert cluster.repository == "quay.io/coreos/etcd"


@pytest.mark.parametrize(
    "repository",
    ["etcd", "quay.io/coreos/etcd", "localhost:5000/etcd", "[::1]:5000/a/b", "a/b_c/d-e.f__g"],
)
def test_repositories_of_every_form_are_accepted(repository: str) -> None:
    assert parse_cluster(body(repository=repository)).image == f"{repository}:v3.7.3"


@pytest.mark.parametrize(
    ("pod", "durable"),
    [
        ({}, True),
        ({"emptyDir": None}, True),
        ({"persistentVolumeClaimSpec": {}}, True),
        ({"persistentVolumeClaimSpec": None, "emptyDir": {}}, False),
        ({"emptyDir": {"sizeLimit": "1Gi"}}, False),
    ],
)
def test_data_is_on_a_claim_unless_the_spec_has_an_empty_dir(pod: dict, durable: bool) -> None:
    assert parse_cluster(body(pod=pod)).durable is durable


def test_unknown_fields_are_ignored() -> None:
    assert parse_cluster(body(colour="blue", pod={"hostNetwork": True})).pod == (
        parse_cluster(body()).pod
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"adopt": UID}, RetainedClaims(adopt=UID)),
        ({"discard": UID}, RetainedClaims(discard=UID)),
        ({"adopt": None, "discard": ""}, RetainedClaims()),
    ],
)
def test_what_is_declared_about_retained_claims(
    given: dict[str, Any], expected: RetainedClaims
) -> None:
    assert parse_cluster(body(retainedClaims=given)).retained_claims == expected


@pytest.mark.parametrize(("stamp", "deleting"), [(None, False), ("2026-01-01T00:00:00Z", True)])
def test_a_cluster_that_is_being_deleted_says_so(stamp: str | None, deleting: bool) -> None:
    resource = body()
    resource["metadata"]["deletionTimestamp"] = stamp

    assert parse_cluster(resource).deleting is deleting


def test_labels_that_only_resemble_the_operators_are_allowed() -> None:
    labels = {"application": "x", "etcd": "y", "my.app.kubernetes.io.example/x": "z"}

    assert parse_cluster(body(pod={"labels": labels})).pod.labels == labels


class TestSpecHash:
    """Pods are restarted for a change of this hash, and for nothing else."""

    @staticmethod
    def of(**spec: object) -> str:
        return parse_cluster(body(3, **spec)).spec_hash

    @pytest.mark.parametrize(
        "spec",
        [
            {"size": 5},
            {"paused": True},
            {"version": "3.6.14"},
            {"retainedClaims": {"discard": "u"}},
            {"pod": {}},
            {"pod": {"busyboxImage": "busybox:1"}},
            {"pod": {"persistentVolumeClaimSpec": {"storageClassName": "fast"}}},
            {"etcd": {}},
        ],
    )
    def test_stays_if_no_pod_contains_the_change(self, spec: dict) -> None:
        assert parse_cluster(body(**({"size": 3} | spec))).spec_hash == self.of()

    @pytest.mark.parametrize(
        "spec",
        [
            {"repository": "registry.example/etcd"},
            {"pod": {"labels": {"a": "b"}}},
            {"pod": {"annotations": {"a": "b"}}},
            {"pod": {"resources": {"requests": {"cpu": "1"}}}},
            {"pod": {"nodeSelector": {"a": "b"}}},
            {"etcd": {"heartbeatIntervalMilliseconds": 200}},
        ],
    )
    def test_changes_if_pods_contain_the_change(self, spec: dict) -> None:
        assert self.of(**spec) != self.of()

    @pytest.mark.parametrize("field", ["labels", "annotations", "nodeSelector"])
    def test_a_label_with_an_empty_value_was_no_change(self, field: str) -> None:
        """As in `node-role.kubernetes.io/etcd: ""`: no member was moved to such a node."""
        chosen = {field: {"node-role.kubernetes.io/etcd": ""}}

        assert self.of(pod=chosen) != self.of()
        assert self.of(pod={field: {}}) == self.of()

    def test_an_empty_affinity_was_no_change(self) -> None:
        """It replaces the rules that apply without one, such as those of `antiAffinity`."""
        apart = {"antiAffinity": True}
        free = apart | {"affinity": {}}

        assert self.of(pod=free) != self.of(pod=apart)
        assert self.of(pod=apart | {"affinity": {"podAffinity": {}}}) == self.of(pod=free)
        assert self.of(pod=apart | {"affinity": None}) == self.of(pod=apart)

    def test_the_order_of_keys_does_not_matter(self) -> None:
        one, other = {"a": "1", "b": "2"}, {"b": "2", "a": "1"}

        assert self.of(pod={"labels": one}) == self.of(pod={"labels": other})

    def test_pods_have_it_with_the_version_that_they_run(self) -> None:
        first, other = (parse_cluster(body(3, version=one)) for one in ("3.7.2", "3.7.3"))

        assert first.template_hash == f"{first.spec_hash}-3.7.2-{first.links.digest}"
        assert other.template_hash != first.template_hash

    def test_without_tls_it_is_the_same_as_before_tls_existed(self) -> None:
        plain = parse_cluster(body(3, version="3.7.2", TLS=PLAINTEXT))

        assert plain.template_hash == f"{plain.spec_hash}-3.7.2"


def test_an_edit_of_the_place_to_restore_from_was_refused_for_the_backup_named_before() -> None:
    """An EtcdRestore has noted which file is meant, at the place that it has named."""
    store = {"storageType": "S3", "s3": {"path": "b/key", "awsSecret": "aws"}}
    noted = body(3, bootstrap={"restore": store})
    noted["metadata"]["annotations"] = {naming.RESTORED_SHA256: "ff s3://b/key"}

    assert getattr(parse_cluster(noted).restore, "sha256", None) == "ff"
    store["s3"] = {"path": "b/another", "awsSecret": "aws"}
    assert getattr(parse_cluster(noted).restore, "sha256", None) == ""


def test_whether_a_version_is_declared_is_known() -> None:
    assert parse_cluster(body(3, version="3.7.3")).version_declared
    assert not parse_cluster(body(3)).version_declared
