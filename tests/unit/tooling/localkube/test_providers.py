"""Which cluster the make targets and the tests act on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from localkube import cluster, existing, kind, providers
from localkube.shell import ClusterError

TESTS = Path(__file__).parents[3]
READS = re.compile(r"environ(?:\.get\(|\[)\"KUBECONFIG\"")


@pytest.fixture(autouse=True)
def local(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The kubeconfig of the cluster that is made here."""
    monkeypatch.setattr(providers, "LINK", tmp_path / "cluster")
    monkeypatch.setattr(kind, "usable", lambda: False)
    for name in ("PROVIDER", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "cluster" / "kubeconfig"


@pytest.mark.parametrize("provider", ["", "local", "kind"])
def test_make_and_tests_acted_on_whatever_cluster_the_shell_was_set_to(
    provider: str, monkeypatch: pytest.MonkeyPatch, local: Path
) -> None:
    """`make test` replaced the CRDs of that cluster, and looked for an operator to uninstall."""
    monkeypatch.setenv("KUBECONFIG", "/home/me/.kube/production")
    monkeypatch.setenv("PROVIDER", provider)

    assert providers.choose() is (kind if provider == "kind" else cluster)
    assert providers.kubeconfig() == local


def test_nothing_reads_kubeconfig_but_what_chooses_the_cluster() -> None:
    readers = {path.name for path in TESTS.rglob("*.py") if READS.search(path.read_text())}

    assert readers == {"providers.py"}


def test_an_existing_cluster_is_used_only_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/theirs")
    monkeypatch.setenv("PROVIDER", "existing")

    assert providers.choose() is existing
    assert providers.kubeconfig() == Path("/theirs")


def test_without_kubeconfig_an_existing_cluster_was_that_of_the_home_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """kubectl falls back to `~/.kube/config`."""
    monkeypatch.setenv("PROVIDER", "existing")

    with pytest.raises(ClusterError, match="PROVIDER=existing: set KUBECONFIG"):
        providers.choose()


def test_a_provider_that_there_is_not_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVIDER", "minikube")

    with pytest.raises(ClusterError, match="PROVIDER=minikube: must be one of local, kind, exist"):
        providers.choose()


def test_kind_changed_the_kubeconfig_of_the_home_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It made its cluster the current context of whoever ran `make demo`."""
    ran: list[tuple[str, ...]] = []

    def run(*words: str) -> str:
        ran.append(words)
        return ""

    monkeypatch.setattr(kind, "_kind", run)
    monkeypatch.setattr(kind, "LINK", tmp_path)
    monkeypatch.setattr(kind, "etcd_images", list)
    monkeypatch.setattr(kind.binaries, "link_tools", lambda: None)

    kind.up(None)
    kind.down()

    changing = [words for words in ran if words[1:] and words[1] in ("cluster", "kubeconfig")]
    assert len(changing) == 3
    assert all(f"--kubeconfig={tmp_path / 'kubeconfig'}" in words for words in changing)
