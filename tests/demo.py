"""What a newcomer sees first: the example cluster comes up, takes a key and gives it back.

`make demo` has a cluster ready with the operator in it. This applies `examples/etcd-cluster.yaml`,
waits and shows every change of `status.plan`, writes a key to a member and reads it through the
client Service, both over TLS, prints the members, and suggests what to try next.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from localkube import providers

ROOT = Path(__file__).parents[1]
KUBECONFIG = str(providers.kubeconfig())
MANIFEST = ROOT / "examples" / "etcd-cluster.yaml"
CLUSTER = "example-etcd-cluster"
NAMESPACE = "default"
DEADLINE_SECONDS = 180
SECONDS_PER_CALL = 60
ENDPOINT = f"https://{CLUSTER}-client:2379"

NEXT = f"""\
Try next (the tools are in build/bin):

  export KUBECONFIG={KUBECONFIG} PATH=$PWD/build/bin:$PATH
  kubectl get etcd -o wide                             the cluster and the operator's next step
  kubectl describe etcd {CLUSTER}           conditions and what has happened
  kubectl exec {CLUSTER}-0 -- etcdctl get greeting
  kubectl delete pod {CLUSTER}-1            it comes back with its data
  kubectl delete service {CLUSTER}-client   it is put back
  kubectl delete etcd {CLUSTER}             its volumes stay; apply it again and see
"""
TAKE_DOWN = """
  make cluster-down                              leaves nothing behind
"""


class DemoError(RuntimeError):
    """The demo cannot go on; the message is for the person who started it."""


def main() -> int:
    try:
        started = time.monotonic()
        say(f"applying {MANIFEST.relative_to(ROOT)}")
        kubectl("apply", "-f", str(MANIFEST))
        wait_until_running(started)
        write_and_read()
        print_members()
    except DemoError as error:
        print(f"\nthe demo stopped: {error}", file=sys.stderr)
        return 1
    print(NEXT if os.environ.get("PROVIDER") == "existing" else NEXT + TAKE_DOWN)
    return 0


def say(text: str) -> None:
    print(f"== {text}", flush=True)


def kubectl(*words: str) -> str:
    try:
        done = subprocess.run(
            ["kubectl", "--namespace", NAMESPACE, "--request-timeout=30s", *words],
            capture_output=True,
            text=True,
            timeout=SECONDS_PER_CALL,
            check=False,
            env={**os.environ, "KUBECONFIG": KUBECONFIG},
        )
    except subprocess.TimeoutExpired as error:
        why = f"no answer within {SECONDS_PER_CALL} s"
        raise DemoError(f"kubectl {' '.join(words)}: {why}") from error
    if done.returncode:
        raise DemoError(f"kubectl {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def wait_until_running(started: float) -> None:
    """Shows the operator's plan as it changes, until every declared member is ready."""
    shown = ""
    while time.monotonic() - started < DEADLINE_SECONDS:
        body = json.loads(kubectl("get", "etcd", CLUSTER, "-o", "json"))
        status = body.get("status") or {}
        ready, size = status.get("readyMembers", 0), body["spec"]["size"]
        line = f"{ready}/{size} ready; {status.get('plan', 'the operator has not seen it yet')}"
        if line != shown:
            print(f"   {time.monotonic() - started:5.1f} s  {line}", flush=True)
            shown = line
        if ready == size and status.get("phase") == "Running":
            return
        for condition in status.get("conditions", []):
            if condition["type"] == "Blocked":
                raise DemoError(condition["message"])
        time.sleep(0.3)
    raise DemoError(f"not ready after {DEADLINE_SECONDS} s: kubectl describe etcd {CLUSTER}")


def etcdctl(*words: str) -> str:
    """In a member's pod, whose environment names the certificates."""
    return kubectl("exec", f"{CLUSTER}-0", "-c", "etcd", "--", "etcdctl", *words)


def write_and_read() -> None:
    say(f"writing a key to {CLUSTER}-0, reading it through {ENDPOINT}")
    etcdctl("put", "greeting", "hello from etcd on a StatefulSet")
    print(f"   {etcdctl('--endpoints', ENDPOINT, 'get', 'greeting', '--print-value-only').strip()}")


def print_members() -> None:
    say("members")
    as_json = ("--write-out", "json")
    statuses = json.loads(etcdctl(*as_json, "endpoint", "status", "--cluster"))
    members = json.loads(etcdctl(*as_json, "member", "list"))["members"]
    volumes = {
        item["metadata"]["name"]: item["spec"].get("volumeName", "")
        for item in json.loads(kubectl("get", "persistentvolumeclaims", "-o", "json"))["items"]
    }
    members.sort(key=lambda one: one["name"])
    rows: list[tuple[str, ...]] = [("NAME", "ID", "ROLE", "VERSION", "DB SIZE", "VOLUME")]
    rows += [_row(member, statuses, volumes) for member in members]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("   " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))
    print()


def _row(
    member: dict[str, Any], statuses: list[dict[str, Any]], volumes: dict[str, str]
) -> tuple[str, ...]:
    said = {one["Status"]["header"]["member_id"]: one["Status"] for one in statuses}
    own = said.get(member["ID"], {})
    role = "leader" if own.get("leader") == member["ID"] else "follower"
    size = f"{own.get('dbSize', 0) / 1024:.0f} KiB"
    volume = volumes.get(f"data-{member['name']}", "")
    return (member["name"], f"{member['ID']:016x}", role, own.get("version", "?"), size, volume)


if __name__ == "__main__":
    sys.exit(main())
