"""Converts API objects into values of the core. It is pure and uses only what is in the object.

Fields that others may have edited (labels, annotations, the Secret's data) never raise an exception
but become a value that says what is wrong: one damaged object must not stop the operator.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from etcd_operator.objects import termination_message, trouble
from etcd_operator.timestamps import age_of, seconds, seconds_since
from etcd_stateful import identity, naming, stored_conditions
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.api.tls import AS_MADE, Trust
from etcd_stateful.manifests.secret import BOOTSTRAP, KEY
from etcd_stateful.manifests.start_settings import epoch_in, levels_in, quota_in
from etcd_stateful.manifests.tls import trust_in
from etcd_stateful.metadata import annotations_of, labels_of
from etcd_stateful.observed.objects import Claim, Foreign, Secret
from etcd_stateful.observed.pods import Pod
from etcd_stateful.records.bootstrap_json import load_bootstrap
from etcd_stateful.records.errors import BadRecord, NewerRecord
from etcd_stateful.records.member import MemberRecord, load_member
from etcd_stateful.start.rules import FOUND_DATA
from etcd_stateful.versions import Version, parse_version

Object = Mapping[str, Any]

SHORTEST_KEY: Final = 32

_MEMBER: Final = re.compile(r"\bmember ([0-9a-f]{16})\b")

OVERDUE_SECONDS: Final = 10.0
"""How long after its deletionTimestamp, which is the end of its grace period, a pod should have
stopped."""


def pod(cluster: EtcdCluster, raw: Object, claim: Object | None, now: float) -> Pod | None:
    """The pod of an ordinal; None if the name is not that of a member's pod.

    Args:
        claim: the claim of the pod's data volume, to report its problems.
        now: seconds since 1970.
    """
    metadata, labels, notes = raw["metadata"], labels_of(raw), annotations_of(raw)
    ordinal = naming.ordinal_of(cluster.name, metadata["name"])
    if ordinal is None:
        return None
    spec, status = raw.get("spec") or {}, raw.get("status") or {}
    start = _container(status, "initContainerStatuses", naming.START_CONTAINER)
    etcd = _container(status, "containerStatuses", naming.ETCD_CONTAINER)
    record, flaw = (None, "") if cluster.durable else _member_record(raw)
    restarts = int(etcd.get("restartCount") or 0)
    words = flaw or trouble.trouble(raw, claim, now)
    until_now = "" if words else trouble.tried_again(etcd, now)
    return Pod(
        ordinal=ordinal,
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        address=status.get("podIP") or "",
        deleting="deletionTimestamp" in metadata,
        ready=stored_conditions.is_true(status, "Ready"),
        in_start="running" in (start.get("state") or {}),
        etcd_started=has_run(etcd),
        trouble=words or until_now,
        unready=trouble.unready(status, etcd),
        record=record,
        revision=labels.get("controller-revision-hash", ""),
        age=age_of(raw, now),
        spec_hash=notes.get(naming.SPEC_HASH, ""),
        image=_image(spec),
        image_missing=trouble.is_image_missing(etcd),
        start_missing=trouble.is_image_missing(start),
        crashing=trouble.is_crashing(etcd),
        tried_again=bool(until_now),
        damage=termination_message.of_damage(etcd, tried_again=bool(until_now)),
        node_gone=trouble.is_node_gone(status),
        crowded_out=trouble.is_crowded_out(status),
        ran_as=_ran_as(start),
        has_data=_said(start).startswith(FOUND_DATA),
        overdue=is_overdue(raw, now),
        kept_by=trouble.kept_by(metadata),
        idle=_is_idle(raw),
        trust=trust_in(spec),
        noted_trust=_noted_trust(notes.get(naming.TRUSTS) or "", restarts),
        restarts=restarts,
        labelled=labels.get(naming.MEMBER_ID, ""),
        epoch=epoch_in(spec),
        levels=levels_in(spec),
        quota=quota_in(spec),
    )


def _noted_trust(note: str, restarts: int) -> Trust:
    """What the note says, unless etcd has restarted since."""
    text, _, then = note.rpartition("-")
    return Trust.read(text) if then == str(restarts) else AS_MADE


def _is_idle(raw: Object) -> bool:
    """Whether it has a node and no address there, and its kubelet was not woken."""
    is_bound = bool((raw.get("spec") or {}).get("nodeName"))
    begun = (raw.get("status") or {}).get("podIP")
    return is_bound and not begun and naming.TOUCHED not in annotations_of(raw)


def _ran_as(start: Object) -> int:
    """The member ID in the termination message of `start`; 0 if it has not ended or named none.

    If it was killed while it waited, its message names the member whose data it had found, and etcd
    has not run on that.
    """
    ended = (start.get("state") or {}).get("terminated") or {}
    found = None if ended.get("exitCode") else _MEMBER.search(_said(start))
    return int(found[1], 16) if found else 0


def _said(start: Object) -> str:
    """The termination message of `start`; empty if it has not ended."""
    ended = (start.get("state") or {}).get("terminated") or {}
    return str(ended.get("message") or "")


def _image(spec: Object) -> str:
    containers = spec.get("containers") or ()
    found = (one.get("image") for one in containers if one.get("name") == naming.ETCD_CONTAINER)
    return next(found, None) or ""


def is_own_pod(cluster: str, raw: Object, stateful_set: Object | None) -> bool:
    """Whether the pod belongs to this StatefulSet, or is an orphan that it will adopt.

    A pod of an earlier StatefulSet of the same name is neither. Its name is free once it is gone.
    Nor is one whose labels somebody has changed: the StatefulSet lets go of it.
    """
    if not is_selected(cluster, raw):
        return False
    owner = controller(raw)
    if owner is None:
        return True
    return stateful_set is not None and owner.get("uid") == stateful_set["metadata"]["uid"]


def is_selected(cluster: str, raw: Object) -> bool:
    """Whether the pod has the labels by which the StatefulSet and the Services select."""
    return naming.selector(cluster).items() <= labels_of(raw).items()


def is_overdue(raw: Object, now: float) -> bool:
    """Whether a pod should have stopped long ago. Then its node is dead, and the pod should not be
    waited for."""
    return seconds_since(raw["metadata"].get("deletionTimestamp"), now) > OVERDUE_SECONDS


def claim(cluster: str, raw: Object) -> Claim | None:
    """The claim of an ordinal; None if the name is not that of a member's claim."""
    metadata, notes = raw["metadata"], annotations_of(raw)
    prefix = f"{naming.DATA_VOLUME}-"
    if not metadata["name"].startswith(prefix):
        return None
    ordinal = naming.ordinal_of(cluster, metadata["name"].removeprefix(prefix))
    if ordinal is None:
        return None
    record, damage = _member_record(raw)
    return Claim(
        ordinal=ordinal,
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        cluster_uid=notes.get(naming.CLUSTER_UID, ""),
        record=record,
        damage=damage,
        deleting="deletionTimestamp" in metadata,
        phase=(raw.get("status") or {}).get("phase") or "Pending",
        requested=_storage(((raw.get("spec") or {}).get("resources") or {}).get("requests")),
        raised=str(notes.get(naming.STORAGE, "")),
        capacity=_storage((raw.get("status") or {}).get("capacity")),
    )


def _storage(sizes: Object | None) -> str:
    return str((sizes or {}).get("storage", ""))


def secret(raw: Object) -> Secret:
    """The Secret with the bootstrap record. Its key is only checked and not part of the result."""
    version = raw["metadata"]["resourceVersion"]
    content = contents(raw)
    if _key_in(content) is None:
        words = f"its data has no {KEY!r} of at least {SHORTEST_KEY} bytes in base64"
        return Secret(version, None, words)
    text = content.get(BOOTSTRAP)
    if text is None:
        return Secret(version, None, f"its data has no {BOOTSTRAP!r} in base64")
    try:
        return Secret(version, load_bootstrap(text.decode()))
    except NewerRecord as error:
        return Secret(version, None, str(error), newer=True)
    except (BadRecord, UnicodeDecodeError) as error:
        return Secret(version, None, str(error))


def start_key(raw: Object) -> bytes | None:
    """The key of the start tickets; None if the Secret has no usable one."""
    return _key_in(contents(raw))


def _key_in(content: Mapping[str, bytes]) -> bytes | None:
    key = content.get(KEY)
    return key if key is not None and len(key) >= SHORTEST_KEY else None


def contents(secret: Object) -> dict[str, bytes]:
    """A Secret's data, decoded; what is not base64 is left out."""
    found = {}
    for key, text in (secret.get("data") or {}).items():
        with suppress(ValueError, TypeError):
            found[key] = base64.b64decode(text, validate=True)
    return found


def foreign(cluster: EtcdCluster, kind: str, raw: Object) -> Foreign | None:
    """The object, if it does not belong to this cluster; else None.

    An object without an owner does not belong to it either: one that was created by hand is not
    taken over (I10). Nor does a Service that the coreos operator has made for this very object.
    """
    owner = controller(raw) or _own_reference(cluster, raw)
    own = owner is not None and owner.get("uid") == cluster.uid
    of_coreos = kind == "Service" and _is_of_coreos(cluster, raw)
    if own and not of_coreos:
        return None
    predecessor = (
        owner is not None
        and not own
        and owner.get("kind") == naming.CLUSTER_KIND
        and owner.get("name") == cluster.name
    )
    words = _OF_COREOS if of_coreos else _in_words(owner, predecessor=predecessor)
    return Foreign(
        kind=kind,
        name=raw["metadata"]["name"],
        owner=words,
        passing=predecessor or "deletionTimestamp" in raw["metadata"],
        orphan=owner is None,
        kept_by=trouble.kept_by(raw["metadata"]),
    )


_OF_COREOS: Final = "the coreos operator (it leads to its members)"


def _is_of_coreos(cluster: EtcdCluster, service: Object) -> bool:
    """Whether the coreos operator has made the Service, which leads to the members that it ran.
    With our selector they would lose each other, and clients would find an empty cluster (I11)."""
    selector = (service.get("spec") or {}).get("selector")
    ours = labels_of(service).get(naming.LABEL_MANAGED_BY) == naming.MANAGER
    return not ours and bool(selector == {"app": "etcd", "etcd_cluster": cluster.name})


def controller(raw: Object) -> Object | None:
    """The owner reference of the object's controller."""
    references = raw["metadata"].get("ownerReferences") or ()
    return next((one for one in references if one.get("controller")), None)


def last_cluster_id(body: Object) -> int | None:
    """The cluster ID in the custom resource's status; None if it has no readable one."""
    text = (body.get("status") or {}).get("clusterID")
    try:
        return identity.from_hex(text) if text else None
    except (ValueError, TypeError):
        return None


def last_version(body: Object) -> Version | None:
    """The version that members ran, by the custom resource's status; None if it has none."""
    text = (body.get("status") or {}).get("currentVersion")
    return parse_version(text) if isinstance(text, str) else None


def true_for(body: Object, now: float) -> Mapping[str, float]:
    """For how many seconds each condition in the custom resource's status has been true."""
    return {
        str(one["type"]): seconds_since(one.get("lastTransitionTime"), now)
        for one in stored_conditions.ours(body.get("status"))
        if one.get("status") == "True"
    }


def since_transition(body: Object, now: float) -> float:
    """Seconds since the last transition of `Complete` in the status; 0 if there is none."""
    return _since(body, "lastTransitionTime", now)


def since_update(body: Object, now: float) -> float:
    """The same for its last change, of whatever it says."""
    return _since(body, "lastUpdateTime", now)


def _since(body: Object, time: str, now: float) -> float:
    """Also the seconds until then, if a clock that was ahead has written it: what is due after some
    time is not put off until then."""
    then = seconds(stored_conditions.find(body.get("status"), "Complete").get(time))
    return 0.0 if then is None else abs(now - then)


def _member_record(raw: Object) -> tuple[MemberRecord | None, str]:
    try:
        return load_member(annotations_of(raw)), ""
    except BadRecord as error:
        return None, str(error)


def _own_reference(cluster: EtcdCluster, raw: Object) -> Object | None:
    references = raw["metadata"].get("ownerReferences") or ()
    return next((one for one in references if one.get("uid") == cluster.uid), None)


def _in_words(owner: Object | None, *, predecessor: bool) -> str:
    if owner is None:
        return "nobody (it has no owner)"
    if predecessor:
        return f"the deleted cluster of this name with UID {owner.get('uid')}"
    return f"{owner.get('kind')} {owner.get('name')}"


def _container(status: Object, field: str, name: str) -> Object:
    found = (one for one in status.get(field) or () if one.get("name") == name)
    return next(found, {})


def has_run(container: Object) -> bool:
    """Whether the container runs or has run in this pod. One that never ran is `waiting` without a
    last state."""
    state, last = container.get("state") or {}, container.get("lastState") or {}
    return "running" in state or "terminated" in state or "terminated" in last
