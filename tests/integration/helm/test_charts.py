"""What the charts render: rights, security settings, and values."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
CHARTS = ROOT / "charts"
OPERATOR, CLUSTER = CHARTS / "etcd-operator", CHARTS / "etcd-cluster"
HELM = os.environ.get("HELM") or shutil.which(
    "helm", path=f"{ROOT / 'build' / 'bin'}{os.pathsep}{os.environ['PATH']}"
)
GROUP = "etcd.database.coreos.com"
Manifest = dict[str, Any]
Rules = dict[tuple[str, str], set[str]]

SERVED: Rules = {
    (GROUP, "etcdclusters"): {"get", "list", "watch", "create"},
    (GROUP, "etcdbackups"): {"get", "list", "watch", "create", "patch", "delete"},
    (GROUP, "etcdbackupschedules"): {"get", "list", "watch"},
    (GROUP, "etcdrestores"): {"get", "list", "watch"},
    (GROUP, "etcdclusters/status"): {"patch"},
    (GROUP, "etcdbackups/status"): {"patch"},
    (GROUP, "etcdbackupschedules/status"): {"patch"},
    (GROUP, "etcdrestores/status"): {"patch"},
    ("apps", "statefulsets"): {"get", "list", "watch", "create", "patch"},
    ("", "services"): {"get", "list", "watch", "create", "patch"},
    ("policy", "poddisruptionbudgets"): {"get", "list", "watch", "create", "patch"},
    ("networking.k8s.io", "networkpolicies"): {"get", "list", "watch", "create", "patch"},
    ("", "secrets"): {"get", "list", "watch", "create", "patch"},
    ("cert-manager.io", "certificates"): {"get", "list", "watch", "create", "patch"},
    ("", "pods"): {"get", "list", "watch", "patch", "delete"},
    ("", "persistentvolumeclaims"): {"get", "list", "watch", "create", "patch", "delete"},
    ("batch", "jobs"): {"get", "create", "delete"},
    ("", "events"): {"get", "create", "patch"},
}
LEASE: Rules = {("coordination.k8s.io", "leases"): {"get", "create", "patch"}}


@cache
def helm(*words: str | Path) -> subprocess.CompletedProcess[str]:
    if HELM is None:
        pytest.fail("helm is not there: run `make cluster`")
    return subprocess.run([HELM, *words], capture_output=True, text=True, check=False, timeout=60)


def render(
    chart: Path, release: str = "etcd-operator", namespace: str = "home", **values: Any
) -> list[Manifest]:
    if chart == OPERATOR:
        values = {"image__repository": "reg/op"} | values
    sets = [f"--set-json={key.replace('__', '.')}={json.dumps(val)}" for key, val in values.items()]
    done = helm("template", release, chart, f"--namespace={namespace}", *sets)
    assert done.returncode == 0, done.stderr
    return [manifest for manifest in yaml.load_all(done.stdout, yaml.CSafeLoader) if manifest]


def of_kind(manifests: list[Manifest], kind: str) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] == kind]


def rules_of(role: Manifest) -> Rules:
    found: Rules = {}
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                found.setdefault((group, resource), set()).update(rule["verbs"])
    return found


def roles(manifests: list[Manifest]) -> dict[str, list[Rules]]:
    """What is allowed by Roles, by namespace."""
    found: dict[str, list[Rules]] = {}
    for role in of_kind(manifests, "Role"):
        found.setdefault(role["metadata"]["namespace"], []).append(rules_of(role))
    return found


def pod_of(manifests: list[Manifest]) -> dict[str, Any]:
    (deployment,) = of_kind(manifests, "Deployment")
    return deployment["spec"]["template"]["spec"]


def environment(manifests: list[Manifest]) -> dict[str, Any]:
    (container,) = pod_of(manifests)["containers"]
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container["env"]}


@pytest.mark.parametrize("chart", [OPERATOR, CLUSTER], ids=lambda chart: chart.name)
def test_helm_lint_finds_nothing(chart: Path) -> None:
    done = helm("lint", "--strict", chart)

    assert done.returncode == 0, done.stdout
    assert "WARNING" not in done.stdout


def test_by_default_the_chart_has_only_roles_in_its_own_namespace() -> None:
    manifests = render(OPERATOR)

    assert roles(manifests) == {"home": [SERVED, LEASE]}
    assert environment(manifests)["WATCH_NAMESPACES"] == "home"
    assert of_kind(manifests, "ClusterRole") == of_kind(manifests, "ClusterRoleBinding") == []


def test_a_list_of_namespaces_gets_a_role_in_each() -> None:
    manifests = render(OPERATOR, watchNamespaces=["one", "two"])

    assert roles(manifests) == {"one": [SERVED], "two": [SERVED], "home": [LEASE]}
    assert environment(manifests)["WATCH_NAMESPACES"] == "one,two"
    assert of_kind(manifests, "ClusterRole") == of_kind(manifests, "ClusterRoleBinding") == []


def test_watching_all_namespaces_requires_a_cluster_role() -> None:
    manifests = render(OPERATOR, watchNamespaces=["*"])

    assert [rules_of(role) for role in of_kind(manifests, "ClusterRole")] == [SERVED]
    assert roles(manifests) == {"home": [LEASE]}
    assert environment(manifests)["WATCH_NAMESPACES"] == "*"


@pytest.mark.parametrize("namespaces", [[], ["one", "two"], ["*"]])
def test_every_binding_matches_its_role_and_no_rule_has_a_wildcard(namespaces: list[str]) -> None:
    manifests = render(OPERATOR, watchNamespaces=namespaces)
    (account,) = of_kind(manifests, "ServiceAccount")
    made = of_kind(manifests, "Role") + of_kind(manifests, "ClusterRole")
    bound = of_kind(manifests, "RoleBinding") + of_kind(manifests, "ClusterRoleBinding")

    def place(manifest: Manifest, kind: str, name: str) -> tuple[str, str | None, str]:
        return kind, manifest["metadata"].get("namespace"), name

    assert {place(role, role["kind"], role["metadata"]["name"]) for role in made} == {
        place(binding, binding["roleRef"]["kind"], binding["roleRef"]["name"]) for binding in bound
    }
    for binding in bound:
        (subject,) = binding["subjects"]
        assert (subject["kind"], subject["namespace"]) == ("ServiceAccount", "home")
        assert subject["name"] == account["metadata"]["name"]
    assert "*" not in json.dumps([role["rules"] for role in made])


def test_two_releases_had_one_cluster_role() -> None:
    """With --take-ownership, as for CRDs, the second took the rights of the first."""

    def names(release: str, namespace: str) -> set[str]:
        made = render(OPERATOR, release, namespace, watchNamespaces=["*"])
        return {one["metadata"]["name"] for one in made if one["kind"].startswith("ClusterRole")}

    assert names("prod", "etcd").isdisjoint(names("etcd-operator", "etcd-prod"))


def test_the_operator_could_take_the_leases_of_other_controllers_in_its_namespace() -> None:
    made = {one["metadata"]["name"]: one for one in of_kind(render(OPERATOR), "Role")}
    rules = made["etcd-operator-lease"]["rules"]

    any_lease = {verb for one in rules if "resourceNames" not in one for verb in one["verbs"]}
    assert any_lease == {"create"}, "RBAC does not know the name of what is created"
    assert [one["resourceNames"] for one in rules if "resourceNames" in one] == [
        [environment(render(OPERATOR))["LEASE_NAME"]]
    ]


def test_without_rbac_there_is_no_role() -> None:
    manifests = render(OPERATOR, rbac__create=False)

    assert not [one["kind"] for one in manifests if one["kind"].startswith(("Role", "ClusterRole"))]


def test_the_pod_meets_the_restricted_pod_security_level() -> None:
    pod = pod_of(render(OPERATOR))
    (container,) = pod["containers"]

    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "volumes" not in pod
    assert not pod.keys() & {"hostNetwork", "hostPID", "hostIPC"}


def test_why_the_operator_had_ended_was_only_in_the_log_of_its_last_container() -> None:
    """`kubectl describe pod` shows the end of that log, also once there is another container."""
    (container,) = pod_of(render(OPERATOR))["containers"]

    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_the_operator_gets_its_settings_from_the_chart() -> None:
    manifests = render(OPERATOR, image__repository="reg/op", image__tag="abc", log__format="json")
    (container,) = pod_of(manifests)["containers"]

    def field(path: str) -> dict[str, Any]:
        return {"fieldRef": {"fieldPath": path}}

    assert container["image"] == "reg/op:abc"
    assert container["args"] == ["run"]
    assert environment(manifests) == {
        "WATCH_NAMESPACES": "home",
        "POD_NAME": field("metadata.name"),
        "POD_NAMESPACE": field("metadata.namespace"),
        "POD_UID": field("metadata.uid"),
        "OPERATOR_IMAGE": "reg/op:abc",
        "OPERATOR_POD_LABELS": (
            "app.kubernetes.io/instance=etcd-operator,app.kubernetes.io/name=etcd-operator"
        ),
        "LEASE_NAME": "etcd-operator",
        "LOG_LEVEL": "INFO",
        "LOG_FORMAT": "json",
        "RESYNC_SECONDS": "600",
        "METRICS_PORT": "8080",
        "HEALTH_PORT": "8081",
    }


def test_without_an_image_the_chart_fails_and_says_what_to_set() -> None:
    """The default was a name that no registry has, and ended in ImagePullBackOff."""
    done = helm("template", "etcd-operator", OPERATOR)

    assert done.returncode != 0
    assert "image.repository is not set" in done.stderr
    assert "--set image.repository=" in done.stderr


def test_network_policies_admit_the_pods_of_the_release() -> None:
    manifests = render(OPERATOR, release="other", podLabels={"more": "labels"})
    (deployment,) = of_kind(manifests, "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]

    told = dict(
        pair.split("=") for pair in environment(manifests)["OPERATOR_POD_LABELS"].split(",")
    )

    assert told == deployment["spec"]["selector"]["matchLabels"]
    assert told.items() <= labels.items()


def test_without_network_policies_the_operator_gets_no_labels() -> None:
    found = environment(render(OPERATOR, networkPolicies__create=False))

    assert "OPERATOR_POD_LABELS" not in found


def test_a_digest_takes_precedence_over_the_tag() -> None:
    digest = f"sha256:{'0' * 64}"
    manifests = render(OPERATOR, image__repository="reg/op", image__tag="abc", image__digest=digest)

    assert environment(manifests)["OPERATOR_IMAGE"] == f"reg/op@{digest}"


def test_the_services_select_the_pods() -> None:
    manifests = render(OPERATOR, release="other", metrics__serviceMonitor__enabled=True)
    (deployment,) = of_kind(manifests, "Deployment")
    (service,) = of_kind(manifests, "Service")
    (monitor,) = of_kind(manifests, "ServiceMonitor")
    labels = deployment["spec"]["template"]["metadata"]["labels"]

    assert deployment["spec"]["selector"]["matchLabels"] == service["spec"]["selector"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert (
        monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    )
    assert deployment["metadata"]["name"] == "other-etcd-operator"
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["honorLabels"] is True


def deployment_of(manifests: list[Manifest]) -> Manifest:
    (deployment,) = of_kind(manifests, "Deployment")
    return deployment


@pytest.mark.parametrize("replicas", [0, 1])
def test_one_replica_is_recreated_and_blocks_no_drain(replicas: int) -> None:
    manifests = render(OPERATOR, replicas=replicas)

    assert of_kind(manifests, "PodDisruptionBudget") == []
    assert deployment_of(manifests)["spec"]["strategy"] == {"type": "Recreate"}
    assert "topologySpreadConstraints" not in pod_of(manifests)


def test_of_several_replicas_one_is_always_available() -> None:
    manifests = render(OPERATOR, replicas=2)
    deployment = deployment_of(manifests)
    (budget,) = of_kind(manifests, "PodDisruptionBudget")
    (spread,) = pod_of(manifests)["topologySpreadConstraints"]
    selector = deployment["spec"]["selector"]

    assert deployment["spec"]["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
    }
    assert (budget["spec"]["maxUnavailable"], budget["spec"]["selector"]) == (1, selector)
    assert spread["labelSelector"] == selector
    assert spread["whenUnsatisfiable"] == "ScheduleAnyway", "one node is enough for both"


def test_strategy_and_topology_spread_can_be_set() -> None:
    zones = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    manifests = render(
        OPERATOR, replicas=2, strategy={"type": "Recreate"}, topologySpreadConstraints=[zones]
    )

    assert deployment_of(manifests)["spec"]["strategy"] == {"type": "Recreate"}
    assert pod_of(manifests)["topologySpreadConstraints"] == [zones]


def test_after_a_rolling_update_without_details_no_upgrade_or_rollback_was_possible() -> None:
    """The API server had filled the details in, refuses them beside Recreate, and keeps them."""
    manifests = render(OPERATOR, strategy={"type": "RollingUpdate"})

    assert deployment_of(manifests)["spec"]["strategy"]["rollingUpdate"] == {
        "maxSurge": 1,
        "maxUnavailable": 0,
    }


def test_volumes_and_variables_may_be_added() -> None:
    volume = {"name": "ca", "secret": {"secretName": "ca"}}
    mount = {"name": "ca", "mountPath": "/ca"}
    manifests = render(
        OPERATOR,
        extraVolumes=[volume],
        extraVolumeMounts=[mount],
        extraEnv=[{"name": "WORKERS", "value": "4"}],
    )
    (container,) = pod_of(manifests)["containers"]

    assert (pod_of(manifests)["volumes"], container["volumeMounts"]) == ([volume], [mount])
    assert environment(manifests)["WORKERS"] == "4"


@pytest.mark.parametrize("twice", ["LOG_LEVEL", "WORKERS"])
def test_a_variable_that_would_be_there_twice_is_refused(twice: str) -> None:
    extra = [{"name": "WORKERS", "value": "4"}, {"name": twice, "value": "8"}]
    sets = ("--set=image.repository=reg/op", f"--set-json=extraEnv={json.dumps(extra)}")
    done = helm("template", "etcd-operator", OPERATOR, *sets)

    assert done.returncode != 0
    assert f"extraEnv names {twice}, which is set already" in done.stderr


class OnlyOnce(yaml.SafeLoader):
    """Refuses a key that is there twice, as the API server's decoder may."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep) for key, _ in node.value]
        assert len(keys) == len(set(keys)), keys
        return super().construct_mapping(node, deep)


@pytest.mark.parametrize(
    ("chart", "values", "kind"),
    [
        (OPERATOR, "podLabels", "Deployment"),
        (OPERATOR, "metrics.serviceMonitor.labels", "ServiceMonitor"),
        (OPERATOR, "prometheusRule.labels", "PrometheusRule"),
        (CLUSTER, "labels", "EtcdCluster"),
    ],
)
def test_custom_labels_are_added_to_those_of_the_chart(chart: Path, values: str, kind: str) -> None:
    clash = {"app.kubernetes.io/name": "mine", "team": "db"}
    more = ("image.repository=reg/op", "metrics.serviceMonitor.enabled=true",
            "prometheusRule.enabled=true") if chart == OPERATOR else ()  # fmt: skip
    sets = [f"--set={one}" for one in more] + [f"--set-json={values}={json.dumps(clash)}"]
    done = helm("template", "etcd-operator", chart, *sets)
    assert done.returncode == 0, done.stderr
    found = [one for one in yaml.load_all(done.stdout, OnlyOnce) if one]

    (manifest,) = of_kind(found, kind)
    made = manifest["spec"]["template"] if values == "podLabels" else manifest
    labels = made["metadata"]["labels"]
    assert labels["team"] == "db"
    assert labels["app.kubernetes.io/name"] == chart.name.replace("etcd-cluster", "etcd")


def test_annotations_of_the_pod_are_merged_too() -> None:
    clash = {"kubectl.kubernetes.io/default-container": "mine", "more": "words"}
    template = deployment_of(render(OPERATOR, podAnnotations=clash))["spec"]["template"]

    assert template["metadata"]["annotations"] == {
        "kubectl.kubernetes.io/default-container": "operator",
        "more": "words",
    }


def alerts(manifests: list[Manifest]) -> dict[str, Manifest]:
    (rule,) = of_kind(manifests, "PrometheusRule")
    return {one["alert"]: one for group in rule["spec"]["groups"] for one in group["rules"]}


def written() -> dict[str, Manifest]:
    groups = yaml.safe_load((OPERATOR / "files" / "alerts.yaml").read_text())["groups"]
    return {one["alert"]: one for group in groups for one in group["rules"]}


def test_alerts_are_created_on_request() -> None:
    assert of_kind(render(OPERATOR), "PrometheusRule") == []

    made = alerts(
        render(OPERATOR, prometheusRule__enabled=True, metrics__serviceMonitor__enabled=True)
    )

    away = made.pop("EtcdOperatorAway")
    expected = written()
    for_all = expected.pop("EtcdOperatorAway")
    assert away["annotations"] == for_all["annotations"]
    ours = 'etcd_operator_leader{namespace="home",service="etcd-operator-metrics"}'
    assert away["expr"] == for_all["expr"].replace("etcd_operator_leader", ours), (
        "of this release: another one's operator does not mend these clusters"
    )
    assert made == expected


def test_the_link_of_an_alert_led_nowhere() -> None:
    where = "https://git.example.com/etcd-operator/blob/main/"
    made = alerts(render(OPERATOR, prometheusRule__enabled=True, prometheusRule__runbooks=where))

    for name, alert in made.items():
        page = f"docs/alerts.md#{name.lower()}"
        assert alert["annotations"]["runbook_url"] == f"{where}{page}"


def test_without_scraping_there_is_no_alert_for_an_absent_operator() -> None:
    made = alerts(render(OPERATOR, prometheusRule__enabled=True))

    assert written().keys() - made.keys() == {"EtcdOperatorAway"}


def test_crds_are_templates_that_outlive_the_release() -> None:
    rendered = {crd["metadata"]["name"]: crd for crd in of_kind(
        render(OPERATOR), "CustomResourceDefinition")}  # fmt: skip
    source = [yaml.safe_load(path.read_text()) for path in (ROOT / "crds").glob("*.yaml")]

    assert {name: crd["spec"] for name, crd in rendered.items()} == {
        crd["metadata"]["name"]: crd["spec"] for crd in source
    }
    for crd in rendered.values():
        assert crd["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_crds_may_come_from_elsewhere() -> None:
    assert of_kind(render(OPERATOR, crds__install=False), "CustomResourceDefinition") == []


def commented(text: str) -> set[str]:
    """Paths of the values with a comment above them, and of all that is under those."""
    found: set[str] = set()
    path: list[str] = []
    lines = text.splitlines()
    for before, line in pairwise(["", *lines]):
        if match := re.match(r"( *)([A-Za-z]+):", line):
            path = [*path[: len(match[1]) // 2], match[2]]
            parent = ".".join(path[:-1])
            if before.strip().startswith("#") or parent in found:
                found.add(".".join(path))
    return found


def fields(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """Paths of all values that the schema knows and that are no mere group of others."""
    for name, inner in schema["properties"].items():
        if "properties" in inner:
            yield from fields(inner, f"{path}{name}.")
        elif name != "global":
            yield f"{path}{name}"


@pytest.mark.parametrize("chart", [OPERATOR, CLUSTER], ids=lambda chart: chart.name)
def test_every_value_has_a_comment_and_a_schema(chart: Path) -> None:
    text = (chart / "values.yaml").read_text()
    schema = json.loads((chart / "values.schema.json").read_text())

    assert set(fields(schema)) - commented(text) == set()
    assert yaml.safe_load(text).keys() <= schema["properties"].keys()
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"imagee": {}}, "imagee"),
        ({"image__pullPolicy": "Sometimes"}, "pullPolicy"),
        ({"image__digest": "sha256:1"}, "digest"),
        ({"image__repository": "reg:5000/op:0.1.0"}, "repository"),
        ({"watchNamespaces": "all"}, "watchNamespaces"),
        ({"watchNamespaces": ["*", "one"]}, "watchNamespaces"),
        ({"watchNamespaces": ["One"]}, "watchNamespaces"),
        ({"log__level": "LOUD"}, "level"),
        ({"replicas": -1}, "replicas"),
        ({"resyncSeconds": 1}, "resyncSeconds"),
        ({"metrics__port": 0}, "port"),
        ({"podLabels": {"a": 1}}, "podLabels"),
        ({"strategy": {"rollingUpdate": {}}}, "strategy"),
        ({"strategy": {"type": "Slowly"}}, "strategy"),
        ({"extraVolumes": [{"secret": {}}]}, "extraVolumes"),
        ({"extraEnv": [{"name": "WORKERS", "value": 16}]}, "value"),
        ({"fullnameOverride": "my.op"}, "fullnameOverride"),
        ({"fullnameOverride": "1op"}, "fullnameOverride"),
        ({"fullnameOverride": "123"}, "fullnameOverride"),
        ({"serviceAccount__name": "a..b"}, "serviceAccount"),
        ({"priorityClassName": "a.-b"}, "priorityClassName"),
        ({"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}}, "rollingUpdate"),
        ({"metrics__serviceMonitor__interval": "1s1m"}, "interval"),
        ({"prometheusRule__runbooks": "git.example.com"}, "runbooks"),
        (
            {"image__repository": "reg/op", "nameOverride": "etcd"},
            "nameOverride is etcd: by that label the members of clusters are found",
        ),
        (
            {"image__repository": "reg/op", "metrics__port": 8081},
            "metrics.port and health.port are both 8081: each needs one of its own",
        ),
    ],
)
def test_a_wrong_value_is_refused(values: dict[str, Any], words: str) -> None:
    sets = [f"--set-json={key.replace('__', '.')}={json.dumps(val)}" for key, val in values.items()]
    done = helm("template", "etcd-operator", OPERATOR, *sets)

    assert done.returncode != 0
    assert words in done.stderr


@pytest.mark.parametrize(
    "field",
    [
        "image",
        "networkPolicies",
        "networkPolicies.create",
        "crds",
        "crds.install",
        "rbac",
        "rbac.create",
        "serviceAccount",
        "serviceAccount.create",
        "log",
        "metrics",
        "metrics.port",
        "metrics.serviceMonitor",
        "prometheusRule",
        "health",
        "health.port",
    ],
)
def test_a_value_that_is_missing_is_named_instead_of_a_nil_pointer(field: str) -> None:
    """It is missing if it is null, or new in a chart that is installed with --reuse-values."""
    done = helm("template", "etcd-operator", OPERATOR, f"--set={field}=null")

    assert done.returncode != 0
    name = field.rpartition(".")[2]
    words = (f"missing property '{name}'", f"{name} is required")  # of Helm 4, and of Helm 3
    assert any(one in done.stderr for one in words), done.stderr


@pytest.mark.parametrize("chart", [OPERATOR, CLUSTER], ids=lambda chart: chart.name)
def test_every_other_value_may_be_missing(chart: Path) -> None:
    given = yaml.safe_load((chart / "values.yaml").read_text())
    required = json.loads((chart / "values.schema.json").read_text()).get("required", [])
    render(chart, **dict.fromkeys(given.keys() - set(required)))


LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
SERVICE_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
TEXTS = ("name", "namespace", "serviceAccountName", "priorityClassName", "value", "interval")


def texts(node: Any, key: str = "") -> Iterator[Any]:
    """What has to be a string wherever it stands in a manifest."""
    if isinstance(node, dict):
        for name, inner in node.items():
            yield from texts(inner, name)
        if key in ("labels", "matchLabels", "selector"):
            yield from (value for value in node.values() if not isinstance(value, dict))
    elif isinstance(node, list):
        for inner in node:
            yield from texts(inner)
    elif key in TEXTS:
        yield node


def check_names(manifest: Manifest) -> None:
    metadata, kind = manifest["metadata"], manifest["kind"]
    said = metadata if kind == "CustomResourceDefinition" else manifest
    assert all(isinstance(one, str) for one in texts(said)), manifest
    parts = metadata["name"].split(":") if kind.startswith("ClusterRole") else [metadata["name"]]
    form = SERVICE_NAME if kind == "Service" else SUBDOMAIN
    assert all(form.fullmatch(one) for one in parts), metadata
    assert all(LABEL_VALUE.fullmatch(one) for one in metadata["labels"].values()), metadata


@pytest.mark.parametrize(
    ("release", "namespace", "values"),
    [
        ("123", "home", {}),
        ("1e5", "home", {}),
        ("0x1f", "home", {}),
        ("my.rel", "home", {}),
        ("1.2", "home", {}),
        ("null", "home", {}),
        ("r" * 53, "home", {}),
        ("r" * 51 + ".1", "home", {}),
        ("no", "on", {}),
        *(("rel", namespace, {}) for namespace in ("123", "1e5", "no", "on", "null", "true")),
        ("rel", "home", {"watchNamespaces": ["123", "no"]}),
        ("rel", "home", {"nameOverride": "123"}),
        ("rel", "home", {"nameOverride": "my.op"}),
        ("rel", "home", {"nameOverride": "a" * 62 + ".b"}),
        ("rel", "home", {"nameOverride": "a" * 47 + ".-b"}),
        ("rel", "home", {"fullnameOverride": "a" * 51 + "--b"}),
        ("rel", "home", {"fullnameOverride": "null"}),
        ("rel", "home", {"priorityClassName": "1000"}),
        ("rel", "home", {"serviceAccount__name": "007"}),
        ("rel", "home", {"extraEnv": [{"name": "WORKERS", "value": "16"}]}),
        ("rel", "home", {"metrics__serviceMonitor__interval": "1m30s"}),
    ],
)
def test_names_that_yaml_reads_as_other_types_stay_strings(
    release: str, namespace: str, values: dict[str, Any]
) -> None:
    values = {"metrics__serviceMonitor__enabled": True, "prometheusRule__enabled": True} | values
    for served in ([], ["*"]):
        manifests = render(
            OPERATOR, release, namespace, **{"watchNamespaces": served, "replicas": 2} | values
        )
        for manifest in manifests:
            check_names(manifest)
        (deployment,) = of_kind(manifests, "Deployment")
        pod, chosen = deployment["spec"]["template"], deployment["spec"]["selector"]["matchLabels"]
        assert chosen.items() <= pod["metadata"]["labels"].items()
        labels = environment(manifests)["OPERATOR_POD_LABELS"]
        assert dict(one.split("=") for one in labels.split(",")) == chosen


@pytest.mark.parametrize(
    ("release", "values", "name"),
    [
        ("etcd-operator", {}, "etcd-operator"),
        ("rel", {}, "rel-etcd-operator"),
        ("my-etcd-operator-2", {}, "my-etcd-operator-2"),
        ("rel", {"nameOverride": "op"}, "rel-op"),
        ("rel", {"fullnameOverride": "op-1"}, "op-1"),
        ("r" * 53, {}, "r" * 52),
        ("r" * 51, {}, "r" * 51),
        ("rel", {"fullnameOverride": "a" * 51 + "-b"}, "a" * 51),
        ("my.rel", {}, "my-rel-etcd-operator"),
        ("1e5", {}, "op-1e5-etcd-operator"),
    ],
)
def test_the_names_of_the_objects_of_a_release_are_stable(
    release: str, values: dict[str, Any], name: str
) -> None:
    """Those that could be installed ever; a Service takes neither a dot nor a digit in front."""
    manifests = render(OPERATOR, release, **values)

    assert [one["metadata"]["name"] for one in of_kind(manifests, "Deployment")] == [name]
    assert environment(manifests)["LEASE_NAME"] == name


@pytest.mark.parametrize(("release", "namespace"), [("123", "home"), ("no", "on"), ("1e5", "123")])
def test_a_cluster_may_be_named_by_any_word_or_number(release: str, namespace: str) -> None:
    (cluster,) = render(CLUSTER, release, namespace)

    assert cluster["metadata"]["name"] == release
    assert cluster["metadata"]["namespace"] == namespace
    check_names(cluster)


def test_the_cluster_chart_is_one_etcd_cluster() -> None:
    (cluster,) = render(CLUSTER, release="db", size=5, pod__emptyDir={}, TLS={})
    (bare,) = render(CLUSTER, release="db")

    assert (cluster["kind"], cluster["metadata"]["name"]) == ("EtcdCluster", "db")
    assert cluster["spec"] == {"size": 5, "paused": False, "pod": {"emptyDir": {}}}
    assert bare["spec"] == {"size": 3, "paused": False}


@pytest.mark.parametrize(
    "value", ["TLS=null", "TLS.static=null", "TLS.static.member=null", "TLS.client=null"]
)
def test_a_null_tls_value_counts_as_omitted(value: str) -> None:
    """Nothing could be installed: the notes asked null for what is in it."""
    done = helm("template", "db", CLUSTER, f"--set={value}")

    assert done.returncode == 0, done.stderr


def test_the_cluster_chart_has_every_field_of_the_spec() -> None:
    schema = json.loads((CLUSTER / "values.schema.json").read_text())
    crd = yaml.safe_load((ROOT / "crds" / "etcdclusters.yaml").read_text())
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]

    chart_only = {"global", "nameOverride", "labels", "annotations"}
    assert schema["properties"].keys() - chart_only == spec["properties"].keys()
