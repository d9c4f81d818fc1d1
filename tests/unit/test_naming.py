"""Names, and what is parsed back from them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etcd_stateful import naming

NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)


@given(NAMES, st.integers(0, 999_999_999))
def test_an_ordinal_is_parsed_from_the_pods_name(cluster: str, ordinal: int) -> None:
    assert naming.ordinal_of(cluster, naming.pod(cluster, ordinal)) == ordinal


@given(NAMES, NAMES, st.integers(0, 9))
def test_a_pod_belongs_to_one_cluster_only(cluster: str, other: str, ordinal: int) -> None:
    found = naming.ordinal_of(cluster, naming.pod(other, ordinal))

    assert (found is None) == (cluster != other)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "c",
        "c-",
        "-0",
        "0",
        "c-00",
        "c-01",
        "c--1",
        "c-+1",
        "c-1 ",
        " c-1",
        "c-1\n",
        "c-1_0",
        "c-0x1",
        "c-1.0",
        "c-\u0663",
        "c-\u00b2",
        "c-a",
        "C-1",
        "d-1",
        "c-1-1",
        "cc-1",
        "data-c-1",
        "c-" + "9" * 10,
        "c-" + "9" * 5000,
    ],
)
def test_a_hostile_name_has_no_ordinal(name: str) -> None:
    """Members of etcd can have any name."""
    assert naming.ordinal_of("c", name) is None


@given(st.text(max_size=40) | st.from_regex(r"c-\d{1,10}", fullmatch=True))
def test_any_pod_name_has_an_ordinal_or_none(name: str) -> None:
    ordinal = naming.ordinal_of("c", name)

    assert ordinal is None or naming.pod("c", ordinal) == name


def test_the_names_of_the_objects_of_a_cluster() -> None:
    assert naming.pod("c", 2) == "c-2"
    assert naming.claim("c", 2) == "data-c-2"
    assert naming.headless_service("c") == "c"
    assert naming.client_service("c") == "c-client"
    assert naming.start_secret("c") == "c-start"
    assert naming.host("c", "ns", 2) == "c-2.c.ns.svc"
    assert naming.host("c", "ns", 2, ".cluster.local") == "c-2.c.ns.svc.cluster.local"


def test_the_longest_cluster_name_leaves_room_for_the_names_derived_from_it() -> None:
    longest = "c" * 52

    assert len(naming.client_service(longest)) <= 63
    assert len(naming.pod(longest, 6)) <= 63
    assert len(f"{longest}-0123456789") <= 63
    assert all(len(value) <= 63 for value in naming.labels(longest).values())


def test_coreos_labels_are_on_everything() -> None:
    labels = naming.labels("c")

    assert labels["app"] == "etcd"
    assert labels["etcd_cluster"] == "c"
    assert naming.selector("c").items() <= labels.items()
