"""The IDs that etcd computes: known vectors, and conversion to and from text.

The vectors were computed from the documented formula (first 8 bytes of a SHA-1 over the sorted peer
URLs and the token; over the sorted member IDs) with other tools. The integration tests compare the
same function with real etcd.
"""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etcd_stateful import identity

URLS = [f"http://c-{ordinal}.c.ns.svc:2380" for ordinal in range(3)]
TOKEN = "4be0f3a2-0b0e-4d8c-9a55-2f6f0a1c7d11-1"
MEMBERS = [0xEC378C7D5236CAEE, 0x58B1EDA29AE902CA, 0x58B4E833C8DE0BC1]


@pytest.mark.parametrize(("url", "member"), list(zip(URLS, MEMBERS, strict=True)))
def test_a_members_id_is_the_hash_of_its_url_and_the_token(url: str, member: int) -> None:
    assert identity.member_id([url], TOKEN) == member


def test_the_clusters_id_is_the_hash_of_its_members_ids() -> None:
    assert identity.cluster_id(MEMBERS) == 0xD367BD65464E02E1


def test_the_ids_match_an_example_of_etcd() -> None:
    """A single member named `default` with etcd's defaults, as every quick start of etcd prints
    it."""
    member = identity.member_id(["http://localhost:2380"], "etcd-cluster")

    assert identity.to_hex(member) == "8e9e05c52164694d"
    assert identity.to_hex(identity.cluster_id([member])) == "cdf818194e3a8c32"


def test_order_does_not_matter() -> None:
    urls = ["http://b:2380", "http://a:2380"]

    assert identity.member_id(urls, "t") == identity.member_id(urls[::-1], "t")
    assert identity.cluster_id(MEMBERS) == identity.cluster_id(MEMBERS[::-1])


def test_token_and_url_both_change_the_id() -> None:
    ids = {
        identity.member_id([url], token)
        for url in ("http://a:2380", "http://b:2380")
        for token in ("t-1", "t-2")
    }

    assert len(ids) == 4


@given(st.integers(1, 2**64 - 1))
def test_an_id_is_parsed_from_its_text(member: int) -> None:
    text = identity.to_hex(member)

    assert len(text) == 16
    assert identity.from_hex(text) == member


@pytest.mark.parametrize(
    "text",
    [
        "",
        "g",
        "0x1",
        "-1",
        "+1",
        " 1",
        "1 ",
        "1\n",
        "1_0",
        "\u0661",
        "\uff11",
        "0",
        "0" * 16,
        "0" * 17,
        "f" * 5000,
    ],
)
def test_other_text_is_no_id(text: str) -> None:
    with pytest.raises(ValueError, match="not an etcd ID"):
        identity.from_hex(text)


@given(st.text(max_size=20))
def test_any_text_is_parsed_as_an_id_or_refused(text: str) -> None:
    value = 0
    with contextlib.suppress(ValueError):
        value = identity.from_hex(text)

    assert 0 <= value < 2**64
