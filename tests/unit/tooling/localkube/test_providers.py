"""Which cluster the make targets act on."""

from __future__ import annotations

from pathlib import Path

import pytest

from localkube import cluster, existing, providers
from localkube.shell import ClusterError


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(providers, "LINK", tmp_path / "cluster")
    for name in ("PROVIDER", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)


def test_a_kubeconfig_chooses_its_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "theirs"))

    assert providers.choose() is existing
    assert providers.kubeconfig() == tmp_path / "theirs"


@pytest.mark.parametrize("provider", ["local", "kind"])
def test_a_command_for_the_local_cluster_was_run_on_the_cluster_of_kubeconfig(
    provider: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "theirs"))
    monkeypatch.setenv("PROVIDER", provider)

    with pytest.raises(ClusterError, match="KUBECONFIG names another cluster"):
        providers.choose()


def test_the_kubeconfig_of_the_local_cluster_contradicts_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "cluster" / "kubeconfig"))
    monkeypatch.setenv("PROVIDER", "local")

    assert providers.choose() is cluster


def test_a_provider_that_there_is_not_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVIDER", "minikube")

    with pytest.raises(ClusterError, match="PROVIDER=minikube: must be one of local, kind, exist"):
        providers.choose()
