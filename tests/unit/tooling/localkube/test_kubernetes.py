"""Which Kubernetes the local cluster is made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from localkube import binaries, kubernetes
from localkube.shell import ClusterError
from localkube.versions import pinned


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    state = tmp_path / "state"
    monkeypatch.setattr(kubernetes, "STATE", state)
    monkeypatch.setattr(kubernetes, "CHOICE", state / "kubernetes")
    monkeypatch.setattr(binaries, "kubernetes", lambda: tmp_path / "newest")
    monkeypatch.setattr(binaries, "released_kubernetes", lambda version: tmp_path / version)
    return state


def ask(monkeypatch: pytest.MonkeyPatch, words: str) -> str:
    monkeypatch.setenv("KUBERNETES", words)
    kubernetes.choose()
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
