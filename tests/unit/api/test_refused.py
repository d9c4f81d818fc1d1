"""What the parser refuses, and with which messages.

The CRD's schema refuses most of it already. The parser must also work without it, for objects that
were stored under an older schema. It raises RefusedCluster, and no other exception.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from worlds import body

from etcd_stateful.api.cluster import EtcdCluster, RefusedCluster, is_paused, parse_cluster

HUGE = 10**30


class Bad(NamedTuple):
    """A spec (added to `size: 3`), the field that must be named, and text that must be in the
    message."""

    spec: dict[str, Any]
    path: str
    words: str
    reason: str = "InvalidSpec"


def pod(**fields: Any) -> dict[str, Any]:
    return {"pod": fields}


def etcd(**fields: Any) -> dict[str, Any]:
    return {"etcd": fields}


def option(name: str, value: Any) -> dict[str, Any]:
    return etcd(options={name: value})


def variable(name: Any, value: Any) -> dict[str, Any]:
    return pod(etcdEnv=[{"name": name, "value": value}])


NUMBER = "must be a number from 1 to 7"
TEXT = "must be text"
GCM = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
OBJECT = "must be an object"
LIST = "must be a list"
FLAG = "must be true or false"
OWNED = "is not an option that can be set here"
SIZE = "must be a size from 16Mi to 64Gi"
TIME = 'must be a duration such as "500ms" or "1h30m"'

REFUSED = [
    # size
    Bad({"size": None}, "spec.size", "is missing: set the number of members, 1 to 7"),
    Bad({"size": 0}, "spec.size", NUMBER),
    Bad({"size": -1}, "spec.size", NUMBER),
    Bad({"size": 8}, "spec.size", NUMBER),
    Bad({"size": HUGE}, "spec.size", NUMBER),
    Bad({"size": 3.0}, "spec.size", NUMBER),
    Bad({"size": "3"}, "spec.size", "found '3'"),
    Bad({"size": True}, "spec.size", "found True"),
    Bad({"size": [3]}, "spec.size", NUMBER),
    Bad({"size": {"value": 3}}, "spec.size", NUMBER),
    # version
    Bad({"version": "latest"}, "spec.version", "must be like 3.7.3, found 'latest'"),
    Bad({"version": "3.7"}, "spec.version", "must be like 3.7.3"),
    Bad({"version": "3.7.3.1"}, "spec.version", "must be like 3.7.3"),
    Bad({"version": "3.7.3-rc.1"}, "spec.version", "must be like 3.7.3"),
    Bad({"version": "3.7.3\n"}, "spec.version", r"found '3.7.3\n'"),
    Bad({"version": "vv3.7.3"}, "spec.version", "must be like 3.7.3"),
    Bad({"version": "\u0663.\u0667.\u0663"}, "spec.version", "must be like 3.7.3"),
    Bad({"version": "3.7.3 --force-new-cluster"}, "spec.version", "must be like 3.7.3"),
    Bad({"version": 3.7}, "spec.version", TEXT),
    Bad({"version": ["3.7.3"]}, "spec.version", TEXT),
    Bad({"version": "3.2.13"}, "spec.version", "3.5.32+, 3.6.12+, 3.7.1+", "UnsupportedVersion"),
    Bad({"version": "v3.1.8"}, "spec.version", "etcd 3.1.8 is not", "UnsupportedVersion"),
    Bad({"version": "3.4.45"}, "spec.version", "is not supported", "UnsupportedVersion"),
    Bad({"version": "3.5.31"}, "spec.version", "is not supported", "UnsupportedVersion"),
    Bad({"version": "3.6.11"}, "spec.version", "is not supported", "UnsupportedVersion"),
    Bad({"version": "3.7.0"}, "spec.version", "is not supported", "UnsupportedVersion"),
    Bad({"version": "3.8.0"}, "spec.version", "is not supported", "UnsupportedVersion"),
    Bad({"version": "4.7.3"}, "spec.version", "is not supported", "UnsupportedVersion"),
    # repository
    Bad({"repository": 5}, "spec.repository", TEXT),
    Bad({"repository": "quay.io/coreos/etcd:v3.7.3"}, "spec.repository", "without tag or digest"),
    Bad({"repository": "quay.io/x@sha256:00"}, "spec.repository", "without tag or digest"),
    Bad({"repository": "Quay.IO/CoreOS/etcd"}, "spec.repository", "in lower case"),
    Bad({"repository": "quay.io/coreos/etcd\n"}, "spec.repository", "such as quay.io/coreos/etcd"),
    Bad({"repository": "a b"}, "spec.repository", "found 'a b'"),
    Bad({"repository": "$(POD_NAME)"}, "spec.repository", "found '$(POD_NAME)'"),
    Bad({"repository": "/etcd"}, "spec.repository", "must be a repository"),
    Bad({"repository": "https://quay.io/etcd"}, "spec.repository", "must be a repository"),
    # defragmentation
    Bad({"defragmentation": "Always"}, "spec.defragmentation", "one of Automatic, Never"),
    Bad({"defragmentation": True}, "spec.defragmentation", "must be text"),
    # paused, TLS
    Bad({"paused": "yes"}, "spec.paused", FLAG),
    Bad({"paused": 1}, "spec.paused", FLAG),
    Bad({"paused": {}}, "spec.paused", FLAG),
    Bad({"TLS": True}, "spec.TLS", OBJECT),
    Bad({"TLS": "static"}, "spec.TLS", OBJECT),
    Bad({"TLS": ["static"]}, "spec.TLS", OBJECT),
    Bad({"TLS": {"rotation": "now"}}, "spec.TLS.rotation", OBJECT),
    Bad({"TLS": {"rotation": {"peer": "2"}}}, "spec.TLS.rotation.peer", "number"),
    Bad({"TLS": {"rotation": {"client": -1}}}, "spec.TLS.rotation.client", "0"),
    Bad({"TLS": {"rotation": {"overlapSeconds": 10**8}}}, "spec.TLS.rotation.overlap", "2592000"),
    Bad({"TLS": {"issuerRef": "a"}}, "spec.TLS.issuerRef", OBJECT),
    Bad({"TLS": {"issuerRef": {}}}, "spec.TLS.issuerRef.name", "name of an issuer"),
    Bad({"TLS": {"issuerRef": {"name": "a/b"}}}, "spec.TLS.issuerRef.name", "name of an issuer"),
    Bad({"TLS": {"issuerRef": {"name": "a", "kind": "B"}}}, "spec.TLS.issuerRef.kind", "Issuer or"),
    Bad(
        {"TLS": {"issuerRef": {"name": "a", "kind": "B\n", "group": "g"}}},
        "spec.TLS.issuerRef.kind",
        "Issuer or",
    ),
    Bad({"TLS": {"issuerRef": {"name": "a", "group": "../b"}}}, "spec.TLS.issuerRef.group", "API"),
    Bad(
        {"TLS": {"issuerRef": {"name": "a"}, "peer": "Managed", "client": "Plaintext"}},
        "spec.TLS.issuerRef",
        "sets both links in other ways",
    ),
    Bad({"TLS": {"static": {}}}, "spec.TLS.static", "names no Secret"),
    Bad({"TLS": {"static": {"operatorSecret": "s"}}}, "spec.TLS.static", "must set both"),
    Bad({"TLS": {"static": {"member": {"serverSecret": "s"}}}}, "spec.TLS.static", "must set both"),
    Bad({"TLS": {"static": "s"}}, "spec.TLS.static", OBJECT),
    Bad({"TLS": {"static": {"member": "s"}}}, "spec.TLS.static.member", OBJECT),
    Bad(
        {"TLS": {"static": {"member": {"peerSecret": "other/s"}}}},
        "spec.TLS.static.member.peerSecret",
        "must be the name of a Secret in this namespace",
    ),
    Bad({"TLS": {"peer": "Auto"}}, "spec.TLS.peer", "must be one of Managed, Plaintext"),
    Bad({"TLS": {"client": "managed"}}, "spec.TLS.client", "must be one of Managed, Plaintext"),
    Bad({"TLS": {"client": True}}, "spec.TLS.client", TEXT),
    Bad({"TLS": {"allowPlaintextClients": True}}, "spec.TLS.allowPlain", "TLS.client to Managed"),
    Bad(
        {"TLS": {"client": "Plaintext", "allowPlaintextClients": True}},
        "spec.TLS.allowPlaintextClients",
        "TLS.client to Managed",
    ),
    Bad(
        {"TLS": {"client": "Managed", "allowPlaintextClients": "yes"}},
        "spec.TLS.allowPlaintextClients",
        "must be true or false",
    ),
    Bad(
        {"TLS": {"peer": "Plaintext", "static": {"member": {"peerSecret": "s"}}}},
        "spec.TLS.peer",
        "is also set by TLS.static, with Secret s",
    ),
    # pod
    Bad({"pod": "big"}, "spec.pod", OBJECT),
    Bad({"pod": []}, "spec.pod", OBJECT),
    Bad({"pod": 0}, "spec.pod", OBJECT),
    Bad(pod(labels=["a"]), "spec.pod.labels", OBJECT),
    Bad(pod(labels={"a": 1}), "spec.pod.labels.a", TEXT),
    Bad(pod(labels={"app": "mine"}), "spec.pod.labels[app]", "that the operator sets"),
    Bad(pod(labels={"etcd_cluster": "x"}), "spec.pod.labels[etcd_cluster]", "choose another"),
    Bad(pod(labels={"etcd_node": "x"}), "spec.pod.labels[etcd_node]", "choose another"),
    Bad(
        pod(labels={"app.kubernetes.io/name": "x"}),
        "spec.pod.labels[app.kubernetes.io/name]",
        "that the operator sets",
    ),
    Bad(
        pod(labels={"etcd.database.coreos.com/x": "x"}),
        "spec.pod.labels[etcd.database.coreos.com/x]",
        "that the operator sets",
    ),
    Bad(
        pod(annotations={"etcd.version": "3"}),
        "spec.pod.annotations[etcd.version]",
        "the operator sets",
    ),
    Bad(
        pod(annotations={"etcd.database.coreos.com/member-id": "1"}),
        "spec.pod.annotations[etcd.database.coreos.com/member-id]",
        "that the operator sets",
    ),
    Bad(pod(annotations={"a": {"b": "c"}}), "spec.pod.annotations.a", TEXT),
    Bad(pod(nodeSelector="ssd"), "spec.pod.nodeSelector", OBJECT),
    Bad(pod(nodeSelector={"ssd": True}), "spec.pod.nodeSelector.ssd", TEXT),
    Bad(pod(tolerations={"key": "a"}), "spec.pod.tolerations", LIST),
    Bad(pod(tolerations="all"), "spec.pod.tolerations", LIST),
    Bad(pod(tolerations=[{"key": "a"}, "b"]), "spec.pod.tolerations[1]", OBJECT),
    Bad(pod(affinity="near"), "spec.pod.affinity", OBJECT),
    Bad(pod(antiAffinity="true"), "spec.pod.antiAffinity", FLAG),
    Bad(pod(resources=5), "spec.pod.resources", OBJECT),
    Bad(pod(persistentVolumeClaimSpec="8Gi"), "spec.pod.persistentVolumeClaimSpec", OBJECT),
    Bad(pod(emptyDir=True), "spec.pod.emptyDir", OBJECT),
    Bad(
        pod(emptyDir={}, persistentVolumeClaimSpec={}),
        "spec.pod.emptyDir",
        "cannot be combined with persistentVolumeClaimSpec",
    ),
    Bad(pod(securityContext=[]), "spec.pod.securityContext", OBJECT),
    Bad(pod(imagePullSecrets=["s"]), "spec.pod.imagePullSecrets[0]", OBJECT),
    Bad(pod(imagePullSecrets={"name": "s"}), "spec.pod.imagePullSecrets", LIST),
    Bad(pod(priorityClassName=1), "spec.pod.priorityClassName", TEXT),
    Bad(pod(DNSTimeoutInSecond=-1), "spec.pod.DNSTimeoutInSecond", "a number from 0 to 3600"),
    Bad(pod(DNSTimeoutInSecond=3601), "spec.pod.DNSTimeoutInSecond", "a number from 0 to 3600"),
    Bad(pod(DNSTimeoutInSecond="10s"), "spec.pod.DNSTimeoutInSecond", "found '10s'"),
    Bad(pod(ClusterDomain="cluster.local"), "spec.pod.ClusterDomain", "like .cluster.local"),
    Bad(pod(ClusterDomain="."), "spec.pod.ClusterDomain", "like .cluster.local"),
    Bad(pod(ClusterDomain="..local"), "spec.pod.ClusterDomain", "like .cluster.local"),
    Bad(pod(ClusterDomain=".Cluster.Local"), "spec.pod.ClusterDomain", "like .cluster.local"),
    Bad(pod(ClusterDomain=".local\n"), "spec.pod.ClusterDomain", r"found '.local\n'"),
    Bad(pod(ClusterDomain=".x:2380,evil=http://y"), "spec.pod.ClusterDomain", "like .cluster"),
    Bad(pod(ClusterDomain=".$(POD_IP)"), "spec.pod.ClusterDomain", "like .cluster.local"),
    Bad(pod(ClusterDomain=5), "spec.pod.ClusterDomain", TEXT),
    # pod.etcdEnv: variables, and options of etcd among them
    Bad(pod(etcdEnv={"A": "b"}), "spec.pod.etcdEnv", LIST),
    Bad(pod(etcdEnv=["A=b"]), "spec.pod.etcdEnv[0]", OBJECT),
    Bad(pod(etcdEnv=[{"value": "b"}]), "spec.pod.etcdEnv[0].name", "is missing"),
    Bad(variable(5, "b"), "spec.pod.etcdEnv[0].name", TEXT),
    Bad(variable("A", 5), "spec.pod.etcdEnv[0].value", TEXT),
    # Stored by the coreos operator. It was accepted, and its StatefulSet could never be applied.
    Bad(pod(etcdEnv=[{"name": "A"}, {"name": "A"}]), "spec.pod.etcdEnv[1].name", "A is set twice"),
    Bad(variable("ETCD_MAX_TXN_OPS", 5), "spec.pod.etcdEnv[0].value", TEXT),
    Bad(
        pod(etcdEnv=[{"name": "ETCD_MAX_TXN_OPS", "valueFrom": {"fieldRef": {}}}]),
        "spec.pod.etcdEnv[0].valueFrom",
        "cannot be used for ETCD_MAX_TXN_OPS, an option of etcd",
    ),
    Bad(variable("ETCD_NAME", "x"), "spec.etcd.options[name] (from pod.etcdEnv)", OWNED),
    Bad(
        variable("ETCD_INITIAL_CLUSTER_STATE", "new"),
        "spec.etcd.options[initial-cluster-state] (from pod.etcdEnv)",
        OWNED,
    ),
    Bad(
        variable("ETCD_FORCE_NEW_CLUSTER", "true"),
        "spec.etcd.options[force-new-cluster] (from pod.etcdEnv)",
        OWNED,
    ),
    Bad(variable("ETCD_MAX_TXN_OPS", "many"), "spec.etcd.options[max-txn-ops]", "whole number"),
    Bad(variable("ETCD_HEARTBEAT_INTERVAL", "soon"), "spec.etcd.heartbeat", "found 'soon'"),
    Bad(variable("ETCD_HEARTBEAT_INTERVAL", "0"), "spec.etcd.heartbeat", "from 10 to 10000"),
    Bad(variable("ETCD_ELECTION_TIMEOUT", "50001"), "spec.etcd.election", "from 50 to 50000"),
    Bad(variable("ETCD_SNAPSHOT_COUNT", "9" * 5000), "spec.etcd.snapshotCount", "to 1000000"),
    Bad(variable("ETCD_SNAPSHOT_COUNT", "-5"), "spec.etcd.snapshotCount", "in etcdEnv"),
    Bad(variable("ETCD_QUOTA_BACKEND_BYTES", "lots"), "spec.etcd.quotaBackend", SIZE),
    Bad(variable("ETCD_QUOTA_BACKEND_BYTES", "0"), "spec.etcd.quotaBackend", "'0' in etcdEnv"),
    Bad(variable("ETCD_LOG_LEVEL", "$(POD_NAME)"), "spec.etcd.logLevel", "must be one of debug"),
    Bad(variable("ETCD_AUTO_COMPACTION_MODE", "x"), "spec.etcd.autoCompactionMode", "Periodic or"),
    Bad(
        variable("ETCD_AUTO_COMPACTION_RETENTION", "often"),
        "spec.etcd.autoCompactionRetention",
        'must be a duration such as "1h"',
    ),
    # etcd: the typed options
    Bad({"etcd": "fast"}, "spec.etcd", OBJECT),
    Bad(etcd(quotaBackend="8 GB"), "spec.etcd.quotaBackend", SIZE),
    Bad(etcd(quotaBackend="1023Ki"), "spec.etcd.quotaBackend", SIZE),
    Bad(etcd(quotaBackend="65Gi"), "spec.etcd.quotaBackend", SIZE),
    Bad(etcd(quotaBackend=-1), "spec.etcd.quotaBackend", SIZE),
    Bad(etcd(quotaBackend=True), "spec.etcd.quotaBackend", SIZE),
    Bad(etcd(quotaBackend=[1]), "spec.etcd.quotaBackend", SIZE),
    Bad(etcd(quotaBackend=HUGE), "spec.etcd.quotaBackend", SIZE),
    Bad(etcd(quotaBackend="2Gi\n"), "spec.etcd.quotaBackend", SIZE),
    Bad(etcd(autoCompactionMode="Never"), "spec.etcd.autoCompactionMode", "Periodic or Revision"),
    Bad(etcd(autoCompactionMode=1), "spec.etcd.autoCompactionMode", TEXT),
    Bad(etcd(autoCompactionRetention="-1h"), "spec.etcd.autoCompactionRetention", "a duration"),
    Bad(etcd(autoCompactionRetention="1h\n"), "spec.etcd.autoCompactionRetention", "a duration"),
    Bad(etcd(autoCompactionRetention="9" * 7), "spec.etcd.autoCompactionRetention", "a duration"),
    Bad(
        etcd(autoCompactionRetention="9" * 9 + "h"),
        "spec.etcd.autoCompactionRetention",
        "a duration",
    ),
    Bad(
        etcd(autoCompactionMode="Revision", autoCompactionRetention="1h"),
        "spec.etcd.autoCompactionRetention",
        "must be a number of revisions",
    ),
    Bad(etcd(snapshotCount=0), "spec.etcd.snapshotCount", "a number from 100 to 1000000"),
    Bad(etcd(snapshotCount="10000"), "spec.etcd.snapshotCount", "found '10000'"),
    Bad(etcd(heartbeatIntervalMilliseconds=0), "spec.etcd.heartbeat", "from 10 to 10000"),
    Bad(etcd(heartbeatIntervalMilliseconds="100ms"), "spec.etcd.heartbeat", "found '100ms'"),
    Bad(etcd(electionTimeoutMilliseconds=50001), "spec.etcd.election", "from 50 to 50000"),
    Bad(
        etcd(electionTimeoutMilliseconds=400),
        "spec.etcd.electionTimeoutMilliseconds",
        "must be at least five times the heartbeat interval (100), found 400",
    ),
    Bad(
        etcd(heartbeatIntervalMilliseconds=201),
        "spec.etcd.electionTimeoutMilliseconds",
        "five times the heartbeat interval (201)",
    ),
    Bad(etcd(logLevel="loud"), "spec.etcd.logLevel", "must be one of debug, info, warn, error"),
    Bad(etcd(logLevel="$(POD_NAME)"), "spec.etcd.logLevel", "must be one of"),
    Bad(etcd(logLevel='info", "force-new-cluster": true'), "spec.etcd.logLevel", "must be one of"),
    Bad(etcd(logLevel=5), "spec.etcd.logLevel", TEXT),
    Bad(etcd(tlsMinVersion="TLS1.1"), "spec.etcd.tlsMinVersion", "must be one of TLS1.2, TLS1.3"),
    Bad(variable("ETCD_TLS_MIN_VERSION", "TLS1.0"), "spec.etcd.tlsMinVersion", "must be one of"),
    Bad(etcd(cipherSuites=GCM), "spec.etcd.cipherSuites", "must be a list of cipher suites"),
    Bad(etcd(cipherSuites=[GCM, "$(X)"]), "spec.etcd.cipherSuites", "must be among TLS_ECDHE"),
    Bad(variable("ETCD_CIPHER_SUITES", f"{GCM},x"), "spec.etcd.cipherSuites", "found 'x'"),
    # With the following two etcd ends at once (seen on 3.5.35 and 3.7.3).
    Bad(
        etcd(cipherSuites=[GCM], tlsMinVersion="TLS1.3"),
        "spec.etcd.cipherSuites",
        "cannot be chosen for TLS 1.3",
    ),
    Bad(
        etcd(cipherSuites=["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"]),
        "spec.etcd.cipherSuites",
        "must have one that ends in AES_128_GCM_SHA256",
    ),
    # etcd.options: the checked map
    Bad(etcd(options=["max-txn-ops"]), "spec.etcd.options", OBJECT),
    Bad(option("max-txn-ops", 128), "spec.etcd.options.max-txn-ops", TEXT),
    Bad(option("max-txn-ops", None), "spec.etcd.options[max-txn-ops]", "whole number"),
    Bad(option("max-txn-ops", ""), "spec.etcd.options[max-txn-ops]", "whole number"),
    Bad(option("max-txn-ops", "-1"), "spec.etcd.options[max-txn-ops]", "whole number"),
    Bad(option("max-txn-ops", "1e3"), "spec.etcd.options[max-txn-ops]", "whole number"),
    Bad(option("max-txn-ops", "\u0663"), "spec.etcd.options[max-txn-ops]", "whole number"),
    Bad(option("max-txn-ops", "9" * 18), "spec.etcd.options[max-txn-ops]", "up to 4294967295"),
    Bad(option("pre-vote", "True"), "spec.etcd.options[pre-vote]", '"true" or "false"'),
    Bad(option("metrics", "all"), "spec.etcd.options[metrics]", "one of basic, extensive"),
    Bad(option("corrupt-check-time", "4"), "spec.etcd.options[corrupt-check-time]", TIME),
    Bad(option("corrupt-check-time", "4h\n"), "spec.etcd.options[corrupt-check-time]", TIME),
    Bad(option("corrupt-check-time", "4h --"), "spec.etcd.options[corrupt-check-time]", TIME),
    Bad(option("corrupt-check-time", "9" * 9 + "h"), "spec.etcd.options[corrupt", "292 years"),
    Bad(option("Max-Txn-Ops", "1"), "spec.etcd.options[Max-Txn-Ops]", OWNED),
    Bad(option("--max-txn-ops", "1"), "spec.etcd.options[--max-txn-ops]", OWNED),
    Bad(option("max-txn-ops\nname", "1"), "spec.etcd.options[max-txn-ops", OWNED),
    Bad(option("max-txn-ops: 1\nname", "1"), "spec.etcd.options[max-txn-ops: 1", OWNED),
    Bad(
        option("log-level", "info"),
        "spec.etcd.options[log-level]",
        "set spec.etcd.logLevel instead",
    ),
    Bad(
        option("quota-backend-bytes", "1"), "spec.etcd.options[quota", "set spec.etcd.quotaBackend"
    ),
    Bad(option("unknown", "1"), "spec.etcd.options[unknown]", "Known options are: backend-batch"),
    Bad(
        {"version": "3.5.33"} | option("warning-unary-request-duration", "1s"),
        "spec.etcd.options[warning-unary-request-duration]",
        OWNED,
    ),
    # retainedClaims
    Bad({"retainedClaims": "adopt"}, "spec.retainedClaims", OBJECT),
    Bad({"retainedClaims": {"adopt": 5}}, "spec.retainedClaims.adopt", TEXT),
    Bad({"retainedClaims": {"adopt": "a b"}}, "spec.retainedClaims.adopt", "must be the UID"),
    Bad({"retainedClaims": {"discard": "all\n"}}, "spec.retainedClaims.discard", "must be the UID"),
    Bad({"retainedClaims": {"discard": "*"}}, "spec.retainedClaims.discard", "must be the UID"),
    Bad({"retainedClaims": {"discard": "x" * 65}}, "spec.retainedClaims.discard", "must be"),
    Bad(
        {"retainedClaims": {"adopt": "a", "discard": "b"}},
        "spec.retainedClaims",
        "set either adopt or discard, not both",
    ),
    Bad(
        {"retainedClaims": {"adopt": "a"}} | pod(emptyDir={}),
        "spec.retainedClaims.adopt",
        "such a cluster has no claims",
    ),
]

OWNED_OPTIONS = [
    "name",
    "data-dir",
    "wal-dir",
    "config-file",
    "listen-peer-urls",
    "listen-client-urls",
    "listen-metrics-urls",
    "advertise-client-urls",
    "initial-advertise-peer-urls",
    "initial-cluster",
    "initial-cluster-state",
    "initial-cluster-token",
    "force-new-cluster",
    "strict-reconfig-check",
    "discovery",
    "discovery-srv",
    "proxy",
    "cert-file",
    "key-file",
    "client-cert-auth",
    "trusted-ca-file",
    "auto-tls",
    "peer-cert-file",
    "peer-auto-tls",
    "logger",
    "log-outputs",
    "feature-gates",
    "max-learners",
    "experimental-initial-corrupt-check",
    "experimental-compact-hash-check-enabled",
    "unsafe-no-fsync",
    "enable-v2",
]


def names(bad: Bad) -> str:
    return f"{bad.path}: {bad.words}"[:90]


@pytest.mark.parametrize("bad", REFUSED, ids=names)
def test_is_refused_with_its_field_and_a_reason(bad: Bad) -> None:
    resource = body(**bad.spec)

    with pytest.raises(RefusedCluster) as caught:
        parse_cluster(resource)

    said = [str(problem) for problem in caught.value.problems]
    matching = [one for one in said if one.startswith(bad.path)]
    assert any(bad.words in one for one in matching), said
    assert caught.value.reason == bad.reason


def test_the_table_is_long_enough() -> None:
    assert len(REFUSED) >= 100
    assert len({repr(bad.spec) for bad in REFUSED}) == len(REFUSED)


@pytest.mark.parametrize("name", OWNED_OPTIONS)
def test_what_the_operator_owns_cannot_be_set_in_either_place(name: str) -> None:
    by_variable = f"ETCD_{name.upper().replace('-', '_')}"
    for spec in (option(name, "true"), variable(by_variable, "true")):
        with pytest.raises(RefusedCluster, match=r"spec\.etcd\.options\[" + name):
            parse_cluster(body(**spec))


@pytest.mark.parametrize("spec", ["etcd", 5, [], True, [{"size": 3}]])
def test_a_spec_that_is_not_an_object_is_refused(spec: object) -> None:
    with pytest.raises(RefusedCluster, match=r"^spec: must be an object"):
        parse_cluster(body() | {"spec": spec})


@pytest.mark.parametrize("spec", [None, {}])
def test_an_empty_spec_lacks_its_size(spec: object) -> None:
    with pytest.raises(RefusedCluster, match=r"^spec\.size: is missing"):
        parse_cluster(body() | {"spec": spec})


def test_without_a_spec_the_size_is_missing() -> None:
    resource = body()
    del resource["spec"]

    with pytest.raises(RefusedCluster, match=r"spec\.size: is missing"):
        parse_cluster(resource)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "C",
        "1c",
        "-c",
        "c-",
        "c.d",
        "c_d",
        "c d",
        "c\n",
        "ü",
        "c" * 53,
        "../c",
        "c/d",
        "$(X)",
        "c" * 10_000,
    ],
)
def test_a_name_that_no_service_can_have_is_refused(name: str) -> None:
    with pytest.raises(RefusedCluster, match=r"metadata\.name: must have at most 52") as caught:
        parse_cluster(body(name=name))

    assert len(str(caught.value)) < 300


def test_the_longest_name_is_accepted() -> None:
    assert parse_cluster(body(name="c" * 52)).name == "c" * 52


def test_a_name_whose_client_service_is_another_clusters_is_refused() -> None:
    with pytest.raises(RefusedCluster, match="the client Service of a cluster named 'a'"):
        parse_cluster(body(name="a-client"))


def test_every_problem_is_named_at_once() -> None:
    spec = {"version": "x", "pod": {"labels": {"app": "x"}}, "paused": "no", "TLS": 5}
    resource = body(name="C", **spec)
    del resource["spec"]["size"]

    with pytest.raises(RefusedCluster) as caught:
        parse_cluster(resource)

    assert {problem.path for problem in caught.value.problems} == {
        "metadata.name",
        "spec.TLS",
        "spec.paused",
        "spec.pod.labels[app]",
        "spec.size",
        "spec.version",
    }


def test_one_problem_is_named_once() -> None:
    with pytest.raises(RefusedCluster) as caught:
        parse_cluster(
            body(etcd={"options": 5}, pod={"etcdEnv": [{"name": "ETCD_METRICS", "value": "basic"}]})
        )

    assert [problem.path for problem in caught.value.problems] == ["spec.etcd.options"]


@pytest.mark.parametrize("bad", REFUSED, ids=names)
def test_the_message_is_short(bad: Bad) -> None:
    """It is used in a condition, a log line and an Event."""
    with pytest.raises(RefusedCluster) as caught:
        parse_cluster(body(**bad.spec))

    assert all(len(problem.path) < 120 for problem in caught.value.problems)
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize("spec", [{"paused": True}, {"paused": True, "size": "x"}])
def test_a_pause_is_recognised_in_a_spec_that_is_otherwise_wrong(spec: dict[str, Any]) -> None:
    assert is_paused({"spec": spec})


@pytest.mark.parametrize(
    "resource",
    [{}, {"spec": None}, {"spec": 5}, {"spec": {"paused": "true"}}, {"spec": {"paused": 1}}],
)
def test_any_other_value_is_not_a_pause(resource: dict[str, Any]) -> None:
    assert not is_paused(resource)


# Arbitrary JSON, and JSON that has the right keys with arbitrary values.

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=20),
    st.sampled_from(["3.7.3", "1h", "2Gi", "true", "$(X)", "a\nb", "--x", ".local", "new-uid"]),
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3)
    ),
    max_leaves=12,
)
FIELDS = {
    "spec": ["size", "version", "repository", "paused", "pod", "TLS", "etcd", "retainedClaims"],
    "pod": [
        "labels",
        "annotations",
        "nodeSelector",
        "tolerations",
        "affinity",
        "antiAffinity",
        "resources",
        "etcdEnv",
        "persistentVolumeClaimSpec",
        "emptyDir",
        "securityContext",
        "imagePullSecrets",
        "priorityClassName",
        "DNSTimeoutInSecond",
        "ClusterDomain",
        "busyboxImage",
    ],
    "etcd": [
        "quotaBackend",
        "autoCompactionMode",
        "autoCompactionRetention",
        "snapshotCount",
        "heartbeatIntervalMilliseconds",
        "electionTimeoutMilliseconds",
        "logLevel",
        "tlsMinVersion",
        "cipherSuites",
        "options",
    ],
    "retainedClaims": ["adopt", "discard"],
}


def _with_keys(of: str, values: Any) -> Any:
    return st.dictionaries(st.sampled_from(FIELDS[of]), values, max_size=5)


SPECS = st.fixed_dictionaries(
    {"size": st.integers(1, 7) | JSON},
    optional={
        "version": SCALARS,
        "repository": SCALARS,
        "paused": SCALARS,
        "TLS": JSON,
        "pod": _with_keys("pod", JSON) | JSON,
        "etcd": _with_keys("etcd", JSON) | JSON,
        "retainedClaims": _with_keys("retainedClaims", SCALARS) | JSON,
    },
)


@given(JSON)
@example({"size": {"size": {"size": 3}}})
def test_any_json_is_a_cluster_or_is_refused(spec: Any) -> None:
    _parse_or_refuse(spec)


@given(SPECS)
def test_any_json_under_the_right_keys_is_a_cluster_or_is_refused(spec: Any) -> None:
    _parse_or_refuse(spec)


def _parse_or_refuse(spec: Any) -> None:
    resource = body() | {"spec": spec}
    before = copy.deepcopy(resource)
    refused: RefusedCluster | None = None
    try:
        assert isinstance(parse_cluster(resource), EtcdCluster)
    except RefusedCluster as error:
        refused = error

    assert refused is None or refused.problems
    for problem in refused.problems if refused else ():
        assert problem.path.startswith(("spec", "metadata"))
    assert resource == before


def test_tls_that_is_not_an_object_was_refused_twice_in_one_message() -> None:
    with pytest.raises(RefusedCluster) as caught:
        parse_cluster({"metadata": {"name": "c"}, "spec": {"size": 3, "TLS": "on"}})

    assert [str(one) for one in caught.value.problems] == [
        "spec.TLS: must be an object, found 'on'"
    ]
