"""What `tests/oldest` may reach."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from localkube.shell import ClusterError

RELEASE = Path(__file__).parents[2] / "oldest" / "release.py"


@pytest.fixture
def release() -> ModuleType:
    spec = importlib.util.spec_from_file_location("oldest_release", RELEASE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def ran(release: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The commands that were run."""
    ran: list[tuple[str, ...]] = []

    def run(*words: str, **_: object) -> str:
        ran.append(words)
        return ""

    monkeypatch.setattr(release, "run", run)
    return ran


@pytest.mark.parametrize("tool", ["helm", "kubectl"])
def test_a_bare_pytest_uninstalled_the_operator_of_the_cluster_that_kubectl_was_set_to(
    release: ModuleType,
    ran: list[tuple[str, ...]],
    monkeypatch: pytest.MonkeyPatch,
    tool: str,
) -> None:
    """Its release has the name and the namespace of README.md."""
    monkeypatch.setenv("KUBECONFIG", "/home/me/.kube/production")
    monkeypatch.delenv("OLDEST_KUBECONFIG", raising=False)

    with pytest.raises(ClusterError, match="a Kubernetes of their own"):
        getattr(release, tool)("uninstall", "etcd-operator")
    assert ran == []


@pytest.mark.parametrize("tool", ["helm", "kubectl"])
def test_each_command_names_the_kubernetes_of_these_tests(
    release: ModuleType,
    ran: list[tuple[str, ...]],
    monkeypatch: pytest.MonkeyPatch,
    tool: str,
) -> None:
    monkeypatch.setenv("OLDEST_KUBECONFIG", "/own")

    getattr(release, tool)("get")

    ((_, *words),) = ran
    assert words == ["--kubeconfig=/own", "get"]
