"""The operator's settings: read once, refused in one line."""

import subprocess
import sys

import pytest

from etcd_operator.settings import BadSettings, Settings, from_environment
from etcd_stateful.manifests.network_policy import OperatorPods

IMAGE = {"OPERATOR_IMAGE": "example.org/operator:1"}


def test_the_image_is_the_only_required_setting():
    assert from_environment(IMAGE) == Settings(operator_image="example.org/operator:1")


@pytest.mark.parametrize("environment", [{}, {"OPERATOR_IMAGE": " "}, {"OPERATOR_IMGE": "x"}])
def test_without_the_image_of_start_the_operator_refuses_to_run(environment):
    with pytest.raises(BadSettings) as refused:
        from_environment(environment)

    assert str(refused.value).startswith("OPERATOR_IMAGE is not set: ")


def test_every_setting_is_read_from_the_environment():
    environment = {
        "WATCH_NAMESPACES": "team-a, team-b,team-a",
        "POD_NAME": "operator-0",
        "POD_NAMESPACE": "etcd-system",
        "POD_UID": "12-34",
        "OPERATOR_IMAGE": "example.org/operator:1",
        "OPERATOR_POD_LABELS": "app.kubernetes.io/name=etcd-operator, app.kubernetes.io/instance=a",
        "LOG_LEVEL": "debug",
        "LOG_FORMAT": "JSON",
        "RESYNC_SECONDS": "90.5",
        "METRICS_PORT": "9000",
        "HEALTH_PORT": "9001",
        "LEASE_NAME": "other",
        "WORKERS": "3",
        "REQUEST_SECONDS": "7",
    }

    assert from_environment(environment) == Settings(
        watch_namespaces=("team-a", "team-b"),
        pod_name="operator-0",
        pod_namespace="etcd-system",
        pod_uid="12-34",
        operator_image="example.org/operator:1",
        operator_pod_labels=(
            ("app.kubernetes.io/name", "etcd-operator"),
            ("app.kubernetes.io/instance", "a"),
        ),
        log_level="DEBUG",
        log_format="json",
        resync_seconds=90.5,
        metrics_port=9000,
        health_port=9001,
        lease_name="other",
        workers=3,
        request_seconds=7.0,
    )


def test_network_policies_select_the_operator_by_namespace_and_labels():
    labels = {"OPERATOR_POD_LABELS": "app=etcd-operator", "POD_NAMESPACE": "etcd-system"}

    assert from_environment(IMAGE).operator_pods is None
    assert from_environment(IMAGE | labels).operator_pods == OperatorPods(
        "etcd-system", {"app": "etcd-operator"}
    )


def test_an_asterisk_means_all_namespaces_and_a_blank_means_unset():
    blanks = {"WATCH_NAMESPACES": " * ", "WORKERS": "  ", "LOG_LEVEL": ""}

    assert from_environment(IMAGE | blanks) == from_environment(IMAGE)
    assert from_environment(IMAGE | blanks).watch_namespaces is None


def test_a_restarted_container_of_the_same_pod_has_the_same_identity():
    assert Settings(pod_name="a", pod_uid="1").identity == "a_1"
    assert (
        Settings(pod_name="a", pod_uid="1").identity != Settings(pod_name="a", pod_uid="2").identity
    )


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("WATCH_NAMESPACES", "a,", "names of namespaces"),
        ("WATCH_NAMESPACES", "a,*", "names of namespaces"),
        ("WATCH_NAMESPACES", "Team", "names of namespaces"),
        ("WATCH_NAMESPACES", "a/../b", "names of namespaces"),
        ("WATCH_NAMESPACES", "a" * 64, "names of namespaces"),
        ("POD_NAMESPACE", "Team_A", "name of a namespace"),
        ("OPERATOR_IMAGE", "two words", "name of an image"),
        ("OPERATOR_IMAGE", "a\nb", "name of an image"),
        ("LEASE_NAME", "a/b", "lower-case letters"),
        ("LEASE_NAME", "-a", "lower-case letters"),
        ("LOG_LEVEL", "verbose", "DEBUG, INFO, WARNING, ERROR"),
        ("LOG_FORMAT", "xml", "text, json"),
        ("RESYNC_SECONDS", "often", "number from 10 to 86400"),
        ("RESYNC_SECONDS", "9", "number from 10 to 86400"),
        ("RESYNC_SECONDS", "nan", "number from 10 to 86400"),
        ("RESYNC_SECONDS", "inf", "number from 10 to 86400"),
        ("METRICS_PORT", "0", "whole number from 1 to 65535"),
        ("METRICS_PORT", "65536", "whole number from 1 to 65535"),
        ("HEALTH_PORT", "80.5", "whole number from 1 to 65535"),
        ("HEALTH_PORT", "\N{FULLWIDTH DIGIT EIGHT}0", "whole number from 1 to 65535"),
        ("WORKERS", "-1", "whole number from 1 to 256"),
        ("WORKERS", "0", "whole number from 1 to 256"),
        ("REQUEST_SECONDS", "0", "number from 1 to 300"),
    ],
)
def test_an_invalid_value_is_refused_in_one_line_that_names_it(variable, value, told):
    with pytest.raises(BadSettings) as refused:
        from_environment(IMAGE | {variable: value})

    message = str(refused.value)
    assert message.startswith(f"{variable}={value!r}: ")
    assert told in message
    assert "\n" not in message


def test_two_servers_cannot_share_a_port():
    with pytest.raises(BadSettings, match="must differ"):
        from_environment(IMAGE | {"METRICS_PORT": "8081"})


def test_the_command_exits_with_2_and_one_line_before_heavy_imports():
    code = (
        "import sys; from etcd_operator.__main__ import main; code = main(['run']);"
        "sys.exit(99 if {'kopf', 'kubernetes', 'aiohttp'} & set(sys.modules) else code)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": ":".join(sys.path), "WORKERS": "many"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == 2, result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("etcd_operator: WORKERS='many': must be a whole number")
