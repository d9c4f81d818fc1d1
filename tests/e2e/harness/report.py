"""Writes events, the operator's log and all objects to a file after a test has failed."""

from __future__ import annotations

import json
import time
from pathlib import Path

from harness.api import CLAIMS, CLUSTERS, EVENTS, PODS, SERVICES, STATEFUL_SETS
from harness.place import Place
from harness.waiting import PASSING

KINDS = (CLUSTERS, STATEFUL_SETS, SERVICES, CLAIMS, PODS)


def write_report(place: Place, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join((_events(place), _operator_log(place), _objects(place))) + "\n")
    print(f"events, log and objects: {path}")


def _events(place: Place) -> str:
    try:
        found = place.kube.list(EVENTS, place.namespace)
    except PASSING as error:
        return f"no events: {error}"
    lines = [
        f"{one.get('lastTimestamp') or one.get('eventTime')} {one['involvedObject']['kind']}/"
        f"{one['involvedObject']['name']} {one['reason']}: {one.get('message', '')}"
        for one in found
    ]
    return "\n".join(["== events", *sorted(lines)])


def _operator_log(place: Place) -> str:
    lines = [
        f"{time.strftime('%H:%M:%S', time.gmtime(line.at))} {line.pod} {line.text}"
        for line in place.operator.log.since(place.began - 1)
    ]
    return "\n".join(["== the operator's log", *lines])


def _objects(place: Place) -> str:
    parts = ["== objects"]
    for kind in KINDS:
        try:
            found = place.kube.list(kind, place.namespace)
        except PASSING as error:
            parts.append(f"{kind.kind}: {error}")
            continue
        for one in found:
            one["metadata"].pop("managedFields", None)
            body = json.dumps(one, indent=1)
            parts.append(f"-- {kind.kind}/{one['metadata']['name']}\n{body}")
    return "\n".join(parts)
