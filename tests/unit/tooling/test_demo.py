"""What `make demo` prints, with a fake kubectl."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

DEMO = Path(__file__).parents[2] / "demo.py"


def imported() -> ModuleType:
    spec = importlib.util.spec_from_file_location("demo", DEMO)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Imported again for each test, and without waiting."""
    module = imported()
    clock = iter(range(10_000))
    time = SimpleNamespace(monotonic=lambda: float(next(clock)), sleep=lambda _: None)
    monkeypatch.setattr(module, "time", time)
    return module


def answers(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch, *statuses: dict[str, Any] | None
) -> None:
    """Answers with one status after the other, and keeps the last. None: the operator has not
    written any."""
    left = list(statuses)

    def kubectl(*words: str) -> str:
        status = left.pop(0) if len(left) > 1 else left[0]
        return json.dumps({"spec": {"size": 3}} | ({"status": status} if status else {}))

    monkeypatch.setattr(demo, "kubectl", kubectl)


def test_each_plan_is_shown_once_until_all_are_ready(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    forming = {"phase": "Creating", "readyMembers": 0, "plan": "a cluster of 3 begins"}
    ready = {"phase": "Running", "readyMembers": 3, "plan": "nothing to do"}
    answers(demo, monkeypatch, None, forming, forming, ready)

    demo.wait_until_running(0.0)

    shown = [line.partition(" s  ")[2] for line in capsys.readouterr().out.splitlines()]
    assert shown == [
        "0/3 ready; the operator has not seen it yet",
        "0/3 ready; a cluster of 3 begins",
        "3/3 ready; nothing to do",
    ]


def test_ready_pods_are_not_enough_before_the_cluster_has_formed(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(demo, monkeypatch, {"phase": "Creating", "readyMembers": 3})

    with pytest.raises(demo.DemoError, match="not ready after 180 s: kubectl describe etcd"):
        demo.wait_until_running(0.0)


def test_what_a_human_has_to_do_is_printed_at_once(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = {"type": "Blocked", "status": "True", "message": "volumes of another cluster"}
    answers(demo, monkeypatch, {"phase": "Creating", "conditions": [blocked]})

    with pytest.raises(demo.DemoError, match="volumes of another cluster"):
        demo.wait_until_running(0.0)


def test_a_kubectl_that_never_ends_ended_it_in_a_traceback(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`kubectl exec` heeds no --request-timeout."""

    def run(words: list[str], *, timeout: float, **_: object) -> None:
        raise demo.subprocess.TimeoutExpired(words, timeout)

    monkeypatch.setattr(demo.subprocess, "run", run)

    assert demo.main() == 1
    assert "the demo stopped: kubectl apply" in capsys.readouterr().err


def test_an_error_of_kubectl_ends_it_in_one_line(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def kubectl(*words: str) -> str:
        raise demo.DemoError("kubectl apply: connection refused")

    monkeypatch.setattr(demo, "kubectl", kubectl)

    assert demo.main() == 1
    assert capsys.readouterr().err == "\nthe demo stopped: kubectl apply: connection refused\n"


def test_members_are_shown_with_their_own_report(demo: ModuleType) -> None:
    leads = {"header": {"member_id": 10}, "leader": 10, "version": "3.7.3", "dbSize": 20480}
    follows = {**leads, "header": {"member_id": 11}}
    statuses = [{"Status": leads}, {"Status": follows}]
    row = demo._row

    assert row({"ID": 10, "name": "a-0"}, statuses, {"data-a-0": "pv-1"}) == (
        *("a-0", "000000000000000a", "leader", "3.7.3", "20 KiB", "pv-1"),
    )
    assert row({"ID": 11, "name": "a-1"}, statuses, {})[2:] == ("follower", "3.7.3", "20 KiB", "")
    assert row({"ID": 12, "name": "a-2"}, statuses, {})[2:] == ("follower", "?", "0 KiB", "")


@pytest.mark.parametrize("provider", ["", "existing"])
def test_somebody_elses_cluster_was_to_be_looked_at_with_the_local_kubeconfig_and_taken_down(
    provider: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PROVIDER", provider)
    monkeypatch.setenv("KUBECONFIG", "/home/me/theirs")
    demo = imported()
    for part in ("kubectl", "wait_until_running", "write_and_read", "print_members"):
        monkeypatch.setattr(demo, part, lambda *_: "")

    demo.main()

    is_theirs = provider == "existing"
    said = capsys.readouterr().out
    assert ("export KUBECONFIG=/home/me/theirs " in said) == is_theirs
    assert ("make cluster-down" in said) != is_theirs
