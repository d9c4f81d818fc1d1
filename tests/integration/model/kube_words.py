"""What the objects of the real API server look like, in the words that the model's are told in."""

from __future__ import annotations

from kube_modelled import NAME

from etcd_operator.kube.api import Json
from etcd_operator.objects import reading


def identity(live: Json) -> tuple[str, str, str]:
    metadata = live["metadata"]
    return metadata["name"], metadata["uid"], metadata["resourceVersion"]


def has_node(pod: Json | None) -> bool:
    return pod is not None and bool(pod["spec"].get("nodeName"))


def runs(pod: Json) -> bool:
    return bool((pod.get("status") or {}).get("phase") == "Running")


def of_pod(pod: Json, live: Json | None) -> str:
    """`live`: the StatefulSet, whose newest revision the pod has or has not."""
    if "deletionTimestamp" in pod["metadata"]:
        where = "stops"
    elif runs(pod):
        where = "runs"
    else:
        where = "bound" if has_node(pod) else "pending"
    newest = ((live or {}).get("status") or {}).get("updateRevision")
    is_old = newest and pod["metadata"]["labels"].get("controller-revision-hash") != newest
    return f"{where} old" if is_old else where


def of_claim(claim: Json) -> str:
    found = reading.claim(NAME, claim)
    recorded = found is not None and found.record is not None
    goes = " goes" if "deletionTimestamp" in claim["metadata"] else ""
    return f"{'recorded' if recorded else 'blank'}{goes}"


def of_secret(secret: Json | None) -> int | None:
    """The size on record."""
    if secret is None:
        return None
    found = reading.secret(secret).bootstrap
    return found.size if found else None
