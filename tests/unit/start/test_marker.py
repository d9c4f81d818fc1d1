"""The marker: what was written is read back, and nothing else passes for a marker."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from start_helpers import MARKER

from etcd_stateful.start import marker

CONTENT: dict[str, Any] = json.loads(marker.serialise(MARKER))
PRINTABLE = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=253)
IDS = st.integers(min_value=1, max_value=marker.MAX_ID)


def test_the_marker_file_has_this_content() -> None:
    assert CONTENT == {
        "clusterUID": "4be0f3a2-uid",
        "epoch": 3,
        "member": "c-1",
        "memberID": "2e8b1c8fe697a4a8",
        "clusterID": "f49d818343c3e3d1",
    }
    assert marker.parse(marker.serialise(MARKER)) == MARKER


@given(PRINTABLE, st.integers(0, marker.MAX_ID), PRINTABLE, IDS, IDS)
def test_a_written_marker_is_read_back(
    uid: str, epoch: int, member: str, member_id: int, cluster_id: int
) -> None:
    written = marker.Marker(uid, epoch, member, member_id, cluster_id)
    text = marker.serialise(written)
    assert marker.parse(text) == written
    assert len(text) <= marker.MAX_BYTES


@given(
    st.binary()
    | st.text().map(str.encode)
    | st.dictionaries(st.sampled_from(sorted(CONTENT)), st.none() | st.integers() | st.text()).map(
        lambda content: json.dumps(content).encode()
    )
)
def test_arbitrary_bytes_never_raise(noise: bytes) -> None:
    assert isinstance(marker.parse(noise), marker.Marker | marker.Malformed)


@pytest.mark.parametrize("name", CONTENT)
def test_every_field_is_required(name: str) -> None:
    content = {key: value for key, value in CONTENT.items() if key != name}
    assert isinstance(marker.parse(json.dumps(content).encode()), marker.Malformed)


@pytest.mark.parametrize("name", CONTENT)
@pytest.mark.parametrize(
    "value", [None, True, -1, 1.5, "", [], {}, "x" * 254, "a\nb", "\x1b[31m", "\u00e9", 1 << 64]
)
def test_a_field_of_the_wrong_form_is_malformed(name: str, value: object) -> None:
    text = json.dumps(CONTENT | {name: value}).encode()
    assert isinstance(marker.parse(text), marker.Malformed)


@pytest.mark.parametrize("name", ["memberID", "clusterID"])
@pytest.mark.parametrize("value", ["0", "g", "0x1", "-1", " 1", "1_0", "A", "1" * 17, "\u0661"])
def test_an_id_has_only_one_spelling(name: str, value: str) -> None:
    text = json.dumps(CONTENT | {name: value}).encode()
    assert isinstance(marker.parse(text), marker.Malformed)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 3000, "not JSON"),
        (b"[]", "not a JSON object"),
        (b" " * 4097, "too long"),
    ],
)
def test_the_mistake_in_a_marker_is_named(text: bytes, why: str) -> None:
    malformed = marker.parse(text)
    assert isinstance(malformed, marker.Malformed)
    assert why in malformed.why


def test_fields_of_a_later_version_do_no_harm() -> None:
    assert marker.parse(json.dumps(CONTENT | {"more": 1}).encode()) == MARKER
