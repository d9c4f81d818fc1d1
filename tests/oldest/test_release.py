"""Releases of the charts. They do not run where another operator works."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

from release import (
    CLUSTER,
    IDLE,
    NAME,
    OPERATOR,
    THERE,
    environment,
    helm,
    install,
    kubectl,
    served,
)

KINDS = ["etcdbackups", "etcdbackupschedules", "etcdclusters", "etcdrestores"]


def test_what_two_copies_are_made_of_is_known_in_every_field() -> None:
    values = ("--set=image.repository=reg/op", "--set=replicas=2", "--set=crds.install=false")
    rendered = helm("template", "two", OPERATOR, "--namespace=default", *values)

    strictly = ("--dry-run=server", "--validate=strict", "--output=yaml", "--filename=-")
    taken = kubectl("create", *strictly, stdin=rendered)

    assert "unhealthyPodEvictionPolicy: AlwaysAllow" in taken
    assert "matchLabelKeys:" in taken


def test_it_is_upgraded_and_rolled_back_by_the_commands_of_the_documentation() -> None:
    before = environment()
    helm("upgrade", NAME, OPERATOR, THERE, "--reset-then-reuse-values", "--set=image.tag=NEW")
    upgraded = environment()
    helm("rollback", NAME, THERE, "--wait")

    assert upgraded["image"] == "reg/op:NEW"
    assert upgraded["WATCH_NAMESPACES"] == "*"
    assert environment() == before


def test_uninstalled_it_leaves_definitions_and_clusters_and_takes_them_up_again() -> None:
    helm("install", "db", CLUSTER, "--namespace=default", "--set=size=1")
    before = kubectl("get", "etcd", "db", "--output=yaml")
    helm("uninstall", NAME, THERE, "--wait")
    left, kinds = kubectl("get", "etcd", "db", "--output=yaml"), served()
    install()
    again = kubectl("get", "etcd", "db", "--output=yaml")
    helm("uninstall", "db", "--namespace=default")

    assert kinds == KINDS
    assert before == left == again


def test_a_second_release_leaves_the_definitions_to_the_first() -> None:
    words = ("--namespace=second", "--create-namespace", "--set=crds.install=false")
    helm("install", "second", OPERATOR, *words, *IDLE)
    helm("uninstall", "second", "--namespace=second", "--wait")

    assert served() == KINDS
