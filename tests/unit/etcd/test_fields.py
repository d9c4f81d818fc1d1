"""Fields that aetcd's stubs do not know, as etcd encodes them."""

from __future__ import annotations

import pytest
from aetcd import rpc

from etcd_operator.etcd import fields as etcd_fields

STORAGE = b"\x5a\x053.6.0"
"""Field 11, five bytes."""

QUOTA = b"\x60\x80\x80\x80\x80\x08"
"""Field 12, a number."""


def status(extra: bytes) -> object:
    known = rpc.StatusResponse(version="3.6.16", dbSize=20480, raftTerm=2)
    return rpc.StatusResponse.FromString(known.SerializeToString() + extra)


def downgrade(*, enabled: bool, target: bytes) -> bytes:
    """Field 13, a message with a flag and a version."""
    info = (b"\x08\x01" if enabled else b"") + bytes((0x12, len(target))) + target
    return bytes((0x6A, len(info))) + info


def test_the_version_of_the_format():
    said = status(STORAGE + QUOTA)
    assert etcd_fields.storage_version(said) == "3.6"
    assert etcd_fields.downgrade_target(said) == ""


def test_the_target_of_a_downgrade():
    said = status(STORAGE + QUOTA + downgrade(enabled=True, target=b"3.5.0"))
    assert etcd_fields.downgrade_target(said) == "3.5"
    assert etcd_fields.storage_version(said) == "3.6"


@pytest.mark.parametrize(
    "extra", [b"", downgrade(enabled=False, target=b""), downgrade(enabled=False, target=b"3.5.0")]
)
def test_no_downgrade_is_on(extra):
    assert etcd_fields.downgrade_target(status(extra)) == ""


def test_of_an_etcd_that_has_neither():
    assert etcd_fields.storage_version(status(b"")) == ""


@pytest.mark.parametrize(("text", "minor"), [(b"3.7.0", "3.7"), (b"3.6", "3.6"), (b"", "")])
def test_only_the_minor_counts(text, minor):
    assert etcd_fields.storage_version(status(bytes((0x5A, len(text))) + text)) == minor
