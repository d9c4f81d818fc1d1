"""Parsing of `spec.recovery`, which must be right in every field."""

from __future__ import annotations

from typing import Any

import pytest
from worlds import body

from etcd_stateful.api.cluster import RefusedCluster, parse_cluster
from etcd_stateful.api.recovery import Recovery

SOUND: dict[str, Any] = {"survivor": "c-1", "clusterID": "00000000000000ab", "epoch": 3}


def read(given: Any) -> Recovery | None:
    return parse_cluster(body(3, recovery=given)).recovery


def test_in_full() -> None:
    given = SOUND | {"fenced": ["c-2", "c-0", "c-2"]}

    assert read(given) == Recovery("c-1", 0xAB, 3, ("c-0", "c-2"))


@pytest.mark.parametrize("nothing", [None, {}])
def test_none(nothing: Any) -> None:
    assert read(nothing) is None


def test_no_pod_is_fenced_by_default() -> None:
    assert read(SOUND) == Recovery("c-1", 0xAB, 3, ())


@pytest.mark.parametrize(
    ("change", "path", "words"),
    [
        ({"survivor": None}, "survivor", "must name a pod of this cluster, like c-0"),
        ({"survivor": ""}, "survivor", "must name a pod"),
        ({"survivor": "c"}, "survivor", "must name a pod"),
        ({"survivor": "d-1"}, "survivor", "must name a pod"),
        ({"survivor": "c-01"}, "survivor", "must name a pod"),
        ({"survivor": "c-1\n"}, "survivor", "must name a pod"),
        ({"survivor": "c-٣"}, "survivor", "must name a pod"),
        ({"survivor": "x" * 9999}, "survivor", "must name a pod"),
        ({"survivor": 1}, "survivor", "must be text"),
        ({"survivor": ["c-1"]}, "survivor", "must be text"),
        ({"clusterID": None}, "clusterID", "status.clusterID"),
        ({"clusterID": ""}, "clusterID", "status.clusterID"),
        ({"clusterID": "0x12"}, "clusterID", "status.clusterID"),
        ({"clusterID": "1" * 17}, "clusterID", "status.clusterID"),
        ({"clusterID": "0" * 16}, "clusterID", "status.clusterID"),
        ({"clusterID": 12}, "clusterID", "must be text"),
        ({"epoch": None}, "epoch", "copy it from status.epoch"),
        ({"epoch": 0}, "epoch", "must be a number"),
        ({"epoch": -1}, "epoch", "must be a number"),
        ({"epoch": True}, "epoch", "must be a number"),
        ({"epoch": "1"}, "epoch", "must be a number"),
        ({"epoch": 1.0}, "epoch", "must be a number"),
        ({"epoch": 10**30}, "epoch", "must be a number"),
        ({"fenced": "c-0"}, "fenced", "must be a list"),
        ({"fenced": {"c-0": True}}, "fenced", "must be a list"),
        ({"fenced": [0]}, "fenced", "must be a list"),
        ({"fenced": ["*"]}, "fenced", "must name a pod"),
        ({"fenced": ["c-0", "d-0"]}, "fenced", "must name a pod"),
        ({"fenced": ["c-1"]}, "fenced", "the survivor"),
    ],
)
def test_a_mistake_is_reported_with_its_field(
    change: dict[str, Any], path: str, words: str
) -> None:
    with pytest.raises(RefusedCluster) as caught:
        read(SOUND | change)

    said = [str(one) for one in caught.value.problems]
    assert any(one.startswith(f"spec.recovery.{path}: ") and words in one for one in said), said
    assert all(len(one) < 300 for one in said)


@pytest.mark.parametrize("given", ["c-1", 1, True, ["c-1"]])
def test_another_type(given: Any) -> None:
    with pytest.raises(RefusedCluster, match=r"spec\.recovery: must be an object"):
        read(given)


def test_it_does_not_change_the_hash_of_the_pods() -> None:
    """Otherwise every recovery would be followed by a rolling restart."""
    plain = parse_cluster(body(3))

    assert parse_cluster(body(3, recovery=SOUND)).template_hash == plain.template_hash
