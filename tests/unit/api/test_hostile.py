"""Hostile custom resources: none reaches a setting that the operator owns, and none crashes it."""

from __future__ import annotations

import copy
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import World, drive, labels

from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster, RefusedCluster, parse_cluster
from etcd_stateful.api.options import _READERS
from etcd_stateful.certificates import issued, peer_secret, server_secret
from etcd_stateful.manifests.certificate import certificate
from etcd_stateful.manifests.disruption_budget import disruption_budget
from etcd_stateful.manifests.network_policy import OperatorPods, network_policy
from etcd_stateful.manifests.recovery_job import recovery_job
from etcd_stateful.manifests.services import client_service, headless_service
from etcd_stateful.manifests.statefulset import stateful_set
from etcd_stateful.membership.steps import EtcdChange, PushTicket, Settled
from etcd_stateful.records import bootstrap as records
from etcd_stateful.start.configuration import own_entry, parse_settings, run_config, ticket_config
from etcd_stateful.start.ticket import Ticket
from unit.api.hostile import UID, Json, corpus

IMAGE = "operator:1"
OPERATOR = OperatorPods("operators", {"app": "etcd-operator"})
CASES = sorted(corpus())
OWNED = frozenset(
    {
        "name",
        "data-dir",
        "listen-client-urls",
        "listen-peer-urls",
        "listen-metrics-urls",
        "advertise-client-urls",
        "initial-advertise-peer-urls",
        "initial-cluster",
        "initial-cluster-state",
        "initial-cluster-token",
        "strict-reconfig-check",
        "peer-transport-security",
        "client-transport-security",
    }
)
"""Keys of etcd's configuration that only the operator may set."""

FREE = {name for known in _READERS for name in (known, f"experimental-{known}")} | {
    "quota-backend-bytes",
    "auto-compaction-mode",
    "auto-compaction-retention",
    "heartbeat-interval",
    "election-timeout",
    "log-level",
    "tls-min-version",
    "cipher-suites",
    "logger",
    "snapshot-count",
    "feature-gates",
    "experimental-compact-hash-check-enabled",
    "experimental-snapshot-catch-up-entries",
}
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
LONGEST_WORDS = 2000


def test_the_corpus_is_as_large_as_promised() -> None:
    assert len(CASES) > 1000
    assert sum(": " not in case for case in CASES) > 120


@pytest.mark.parametrize("chunk", range(16))
def test_no_hostile_spec_reaches_an_owned_setting_or_crashes_the_operator(chunk: int) -> None:
    """In chunks, because a thousand separate tests would take longer to count than to run."""
    taken = 0
    for case in CASES[chunk::16]:
        cluster = accepted(corpus()[case])
        if cluster is not None:
            taken += 1
            check(case, cluster)

    assert taken > 0


def accepted(body: Json) -> EtcdCluster | None:
    try:
        return parse_cluster(body)
    except RefusedCluster as refused:
        for problem in refused.problems:
            assert problem.path.startswith(("spec.", "metadata.")), problem
            assert len(str(problem)) < LONGEST_WORDS, "a condition would be cut, or be a flood"
        return None


def certificates(cluster: EtcdCluster) -> list[Json]:
    links = (cluster.links.peer, cluster.links.client)
    issuers = {link.issuer for link in links if link.issuer}
    return [certificate(cluster, need, one) for one in issuers for need in issued(cluster)]


def check(case: str, cluster: EtcdCluster) -> None:
    made = stateful_set(cluster, replicas=cluster.size, operator_image=IMAGE)
    record = records.first_attempt(
        cluster.uid,
        {naming.pod(cluster.name, one): cluster.peer_url(one) for one in range(cluster.size)},
        str(cluster.version),
    )
    others = [
        headless_service(cluster),
        client_service(cluster),
        disruption_budget(cluster, least=2),
        network_policy(cluster, OPERATOR),
        *certificates(cluster),
        recovery_job(cluster, record, 1, operator_image=IMAGE),
    ]
    for one in (made, *others):
        check_object(cluster, one)
        json.dumps(one, allow_nan=False)
    for template in (made["spec"]["template"], others[-1]["spec"]["template"]):
        check_pod(cluster, template["spec"])
    assert (
        made["spec"]["template"]["metadata"]["labels"].items()
        >= naming.labels(cluster.name).items()
    ), case
    check_configuration(cluster, made["spec"]["template"]["spec"]["initContainers"][0])
    check_policy(cluster)


def check_object(cluster: EtcdCluster, manifest: Json) -> None:
    metadata = manifest["metadata"]
    assert metadata["namespace"] == "ns"
    assert DNS_LABEL.fullmatch(metadata["name"])
    assert [owner["uid"] for owner in metadata["ownerReferences"]] == [UID]
    assert metadata["labels"][naming.LABEL_INSTANCE] == cluster.name
    for claim in manifest["spec"].get("volumeClaimTemplates", ()):
        assert not claim["spec"].keys() & {"dataSource", "dataSourceRef", "volumeName"}


def check_pod(cluster: EtcdCluster, pod: Json) -> None:
    assert not pod.keys() & {"hostNetwork", "hostPID", "hostIPC", "hostUsers", "nodeName"}
    assert not pod.keys() & {"serviceAccountName", "hostAliases", "dnsConfig", "runtimeClassName"}
    assert pod["automountServiceAccountToken"] is False
    # A member never has a password. The Job of a recovery has root's.
    recovers = cluster.auth is not None and "shareProcessNamespace" in pod
    assert {one["name"] for one in pod["volumes"]} <= {
        *(["root"] if recovers else []),
        "data",
        "start-key",
        "peer-tls",
        "server-tls",
    }
    named = {one["secret"]["secretName"] for one in pod["volumes"] if "secret" in one}
    assert named <= {
        *([cluster.auth.users[0].secret.name] if recovers and cluster.auth else []),
        naming.start_secret(cluster.name),
        peer_secret(cluster),
        server_secret(cluster),
    }
    assert all(DNS_SUBDOMAIN.fullmatch(name) for name in named)
    assert not any("hostPath" in one for one in pod["volumes"])
    for container in (*pod["initContainers"], *pod["containers"]):
        assert container["name"] in ("start", "etcd", "prepare", "finish")
        assert container["image"] in (IMAGE, cluster.image)
        assert "args" not in container
        assert container["command"][0] in ("python3", "/usr/local/bin/etcd")
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        if container["image"] == IMAGE:
            check_environment(container)
    assert re.fullmatch(r"[a-zA-Z0-9.:/_\[\]-]+:v[0-9]+\.[0-9]+\.[0-9]+", cluster.image)


def check_environment(container: Json) -> None:
    """Our own containers get what we set, and it contains nothing that the kubelet would expand."""
    for variable in container["env"]:
        assert variable["name"] in ("POD_NAME", "POD_UID", "POD_IP", "START_SETTINGS", "RECOVERY")
        assert "$(" not in variable.get("value", "")


def check_configuration(cluster: EtcdCluster, start: Json) -> None:
    """Checks the configuration that `start` writes for etcd, with its own code."""
    given = {one["name"]: one["value"] for one in start["env"] if "value" in one}
    pod = naming.pod(cluster.name, 0)
    settings = parse_settings(given | {"POD_NAME": pod, "POD_UID": "u", "POD_IP": "10.0.0.1"})
    ticket = Ticket("run", UID, 1, pod, 1, 2, "new", own_entry(settings), "token")
    host = f"{pod}.{cluster.name}.ns.svc{cluster.pod.cluster_domain}"
    for written in (run_config(settings), ticket_config(settings, ticket)):
        found = json.loads(written)
        assert found.keys() <= OWNED | FREE
        assert found["name"] == pod
        assert found["data-dir"] == naming.DATA_DIRECTORY
        peer, client = cluster.links.peer, cluster.links.client
        by, served = (("https" if one.is_encrypted else "http") for one in (peer, client))
        assert found["initial-cluster"] == f"{pod}={by}://{host}:2380"
        assert found["advertise-client-urls"] == f"{served}://{host}:2379"
        assert found["initial-advertise-peer-urls"] == f"{by}://{host}:2380"
        assert found["listen-peer-urls"] == f"{by}://0.0.0.0:2380"
        for link, key in ((peer, "peer"), (client, "client")):
            asked = found.get(f"{key}-transport-security", {}).get("client-cert-auth", False)
            assert asked is link.is_encrypted
        assert found["strict-reconfig-check"] is True
        assert re.fullmatch(r"[a-z0-9.-]+", host)


def check_policy(cluster: EtcdCluster) -> None:
    rules = {
        rule["ports"][0]["port"]: rule
        for rule in network_policy(cluster, OPERATOR)["spec"]["ingress"]
    }
    assert rules[2380]["from"] == [{"podSelector": {"matchLabels": naming.selector(cluster.name)}}]
    assert len(rules[2378]["from"]) == 1
    assert all(len(rule["ports"]) == 1 for rule in rules.values())


def watched(case: str) -> Json | None:
    """The cluster of the name that the tiny world has; None if it is refused."""
    body = copy.deepcopy(corpus()[case]) | {"status": {}}
    if ": " in case or body["metadata"]["name"] != "good":
        return None
    body["metadata"]["name"] = "c"
    return body if accepted(body) else None


TAKEN = {case: body for case in CASES if (body := watched(case))}


def test_clusters_of_many_hostile_specs_are_watched_to_their_rest() -> None:
    assert len(TAKEN) > 20


@pytest.mark.parametrize("case", TAKEN)
def test_the_operator_connects_only_to_the_clusters_pods(case: str) -> None:
    """From creation to rest, tickets and etcd requests go only to the addresses of its pods."""
    body = copy.deepcopy(TAKEN[case])
    world = World(body)

    rest = drive(world)

    addresses = [one.address for one in world.history if isinstance(one, PushTicket)]
    addresses += [one.leader.address for one in world.history if isinstance(one, EtcdChange)]
    assert addresses
    assert set(addresses) <= {f"10.0.0.{ordinal}" for ordinal in range(7)}
    assert isinstance(rest, Settled), f"{rest} after {labels(world.history)}"


def test_whoever_may_write_a_cluster_may_run_any_image_with_any_secret_of_the_namespace() -> None:
    """Documented, as it cannot be otherwise: clusters need images of mirrors, and their Secrets."""
    source = {"secretKeyRef": {"name": "of-somebody-else", "key": "password"}}
    pod = {"etcdEnv": [{"name": "A", "valueFrom": source}]}
    metadata = {"name": "c", "namespace": "ns", "uid": UID, "generation": 1}
    spec = {"size": 1, "repository": "registry.example.com/any", "pod": pod}
    cluster = parse_cluster({"metadata": metadata, "spec": spec})

    rendered = stateful_set(cluster, replicas=1, operator_image=IMAGE)

    [etcd] = rendered["spec"]["template"]["spec"]["containers"]
    assert etcd["image"].startswith("registry.example.com/any:v")
    assert {"name": "A", "valueFrom": source} in etcd["env"]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3)
    ),
    max_leaves=8,
)
_FIELDS = st.sampled_from(
    ["size", "version", "repository", "paused", "TLS", "pod", "etcd", "retainedClaims", "recovery",
     "networkPolicy"]
)  # fmt: skip
_POD = st.sampled_from(
    ["labels", "annotations", "nodeSelector", "tolerations", "affinity", "antiAffinity",
     "resources", "etcdEnv", "persistentVolumeClaimSpec", "emptyDir", "securityContext",
     "imagePullSecrets", "priorityClassName", "DNSTimeoutInSecond", "ClusterDomain"]
)  # fmt: skip


@given(
    st.dictionaries(_FIELDS, _JSON),
    st.dictionaries(_POD, _JSON),
    st.dictionaries(st.sampled_from(["clients", "metrics"]), _JSON),
)
def test_any_json_is_accepted_or_refused_with_a_message(
    spec: Json, pod: Json, policy: Json
) -> None:
    body = {
        "metadata": {"name": "good", "namespace": "ns", "uid": UID, "generation": 1},
        "spec": {"size": 3, **spec}
        | ({"pod": pod} if pod else {})
        | ({"networkPolicy": policy} if policy else {}),
    }
    cluster = accepted(body)

    if cluster is not None:
        stateful_set(cluster, replicas=cluster.size, operator_image=IMAGE)
        network_policy(cluster, OPERATOR)
