"""Which Kubernetes the local cluster is made of, and which addresses it has."""

from __future__ import annotations

from pathlib import Path

import pytest

from localkube import addresses, binaries, choice, kubernetes
from localkube.choice import keep
from localkube.shell import ClusterError
from localkube.versions import pinned


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    state = tmp_path / "state"
    monkeypatch.setattr(choice, "STATE", state)
    monkeypatch.delenv("KUBERNETES", raising=False)
    monkeypatch.delenv("IP_FAMILY", raising=False)
    monkeypatch.setattr(binaries, "kubernetes", lambda: tmp_path / "newest")
    monkeypatch.setattr(binaries, "released_kubernetes", lambda version: tmp_path / version)
    return state


def ask(monkeypatch: pytest.MonkeyPatch, words: str) -> str:
    monkeypatch.setenv("KUBERNETES", words)
    keep(addresses.FAMILY, kubernetes.KUBERNETES)
    return kubernetes.daemon("kubelet").parent.name


def test_it_is_the_newest_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(monkeypatch, "") == "newest"


def test_a_cluster_stays_what_it_was_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    oldest = pinned("KUBERNETES_OLDEST")
    assert ask(monkeypatch, "oldest") == oldest
    assert ask(monkeypatch, "") == oldest
    with pytest.raises(ClusterError, match="made of oldest: make cluster-down"):
        ask(monkeypatch, "newest")
    assert kubernetes.daemon("kubelet").parent.name == oldest


def test_any_release_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(monkeypatch, "v1.33.13") == "v1.33.13"
    with pytest.raises(ClusterError, match=r"made of v1\.33\.13: make cluster-down"):
        ask(monkeypatch, "oldest")


def test_one_of_before_there_was_a_choice_is_of_the_newest(
    monkeypatch: pytest.MonkeyPatch, state: Path
) -> None:
    state.mkdir()
    with pytest.raises(ClusterError, match="made of newest: make cluster-down"):
        ask(monkeypatch, "oldest")
    assert ask(monkeypatch, "newest") == "newest"


def test_another_word_is_refused(monkeypatch: pytest.MonkeyPatch, state: Path) -> None:
    with pytest.raises(ClusterError, match="must be newest, oldest or a release"):
        ask(monkeypatch, "1.30")
    assert not state.exists()


def test_a_cluster_keeps_its_family_of_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IP_FAMILY", "ipv6")
    assert ask(monkeypatch, "") == "newest"
    assert addresses.chosen() is addresses.IPV6

    monkeypatch.delenv("IP_FAMILY")
    assert ask(monkeypatch, "") == "newest"
    assert addresses.chosen() is addresses.IPV6

    monkeypatch.setenv("IP_FAMILY", "ipv4")
    with pytest.raises(ClusterError, match="made of ipv6: make cluster-down"):
        ask(monkeypatch, "")


def test_nothing_is_kept_of_a_choice_if_another_is_refused(
    monkeypatch: pytest.MonkeyPatch, state: Path
) -> None:
    monkeypatch.setenv("IP_FAMILY", "both")
    with pytest.raises(ClusterError, match="IP_FAMILY=both: must be ipv4 or ipv6"):
        ask(monkeypatch, "oldest")
    assert not state.exists()
