"""The API server's audit log, as tests read it to show that the operator did not ask."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from harness.audit import Audit, in_words

OPERATOR = "system:serviceaccount:operators:etcd-operator"


def line(user: str, verb: str = "patch", stage: str = "ResponseComplete") -> bytes:
    about = {"resource": "leases", "namespace": "operators"}
    entry = {"user": {"username": user}, "verb": verb, "stage": stage, "objectRef": about}
    return json.dumps(entry).encode() + b"\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "audit.log"
    path.write_bytes(line(OPERATOR, "create"))
    return path


def add(log: Path, *lines: bytes) -> None:
    with log.open("ab") as file:
        file.write(b"".join(lines))


def test_only_requests_of_the_user_from_now_on_are_told(log: Path):
    audit = Audit(log)
    begun = line(OPERATOR, "watch", "ResponseStarted")
    add(log, line("kubernetes-admin"), begun, line(OPERATOR), line(f"{OPERATOR}-2"))
    add(log, line(OPERATOR)[:-9])

    assert [in_words(one) for one in audit.entries(OPERATOR)] == ["patch leases"]


def test_a_log_that_tells_nothing_proves_nothing(log: Path):
    """That a settled cluster costs no request was taken for shown if the log had no request at all,
    as that of another user, or of an API server that writes elsewhere."""
    audit = Audit(log)
    add(log, line("kubernetes-admin"))

    with pytest.raises(AssertionError, match=f"has no request of {OPERATOR}"):
        audit.entries(OPERATOR)


def test_a_log_that_has_begun_anew_is_not_taken_for_quiet(log: Path):
    """The API server begins another file when one is full."""
    audit = Audit(log)
    log.write_bytes(b"")

    with pytest.raises(AssertionError, match="has begun anew"):
        audit.entries(OPERATOR)
