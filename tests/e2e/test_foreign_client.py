"""etcd3, the client that Python programs have used for years, through the client Service."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from harness.place import Place
from harness.slow import SLOW

from localkube.addresses import in_url

PACKAGES = ("etcd3==0.12.0", "protobuf==3.20.3", "tenacity==6.3.1", "grpcio==1.85.1")
"""etcd3 works with neither a current protobuf nor a current tenacity: an environment of its own."""

PROGRAM = textwrap.dedent(
    """
    import json, sys, threading
    import etcd3

    host, port, name, folder = sys.argv[1:]
    client = etcd3.client(
        host=host,
        port=int(port),
        timeout=10,
        ca_cert=f"{folder}/ca.crt",
        cert_cert=f"{folder}/tls.crt",
        cert_key=f"{folder}/tls.key",
        grpc_options={"grpc.ssl_target_name_override": name}.items(),
    )
    told = {}

    events, cancel = client.watch("watched")
    seen = []
    watcher = threading.Thread(target=lambda: seen.append(next(events).value.decode()))
    watcher.start()

    client.put("key", "value")
    told["read"] = client.get("key")[0].decode()
    client.put("watched", "changed")
    watcher.join(10)
    cancel()
    told["watched"] = seen

    with client.lock("lock", ttl=10) as lock:
        told["locked"] = lock.is_acquired()
        other = client.lock("lock", ttl=10)
        told["locked twice"] = other.acquire(timeout=1)
    told["locked after"] = other.acquire(timeout=5)
    other.release()

    lease = client.lease(5)
    client.put("leased", "soon gone", lease=lease)
    lease.revoke()
    told["after the lease"] = client.get("leased")[0]

    told["swapped"], _ = client.transaction(
        compare=[client.transactions.value("key") == "value"],
        success=[client.transactions.put("key", "swapped")],
        failure=[],
    )
    told["prefix"] = sorted(value.decode() for value, _ in client.get_prefix("k"))
    told["members"] = sorted(member.name for member in client.members)
    client.close()
    print(json.dumps(told))
    """
)


@pytest.fixture(scope="session")
def python_with_etcd3() -> Path:
    """Made once, in the cache."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "etcd-operator"
    cache = Path(os.environ.get("ETCD_OPERATOR_CACHE") or home)
    folder = cache / f"venv-{'-'.join(word.replace('==', '-') for word in PACKAGES)}"
    if not (folder / ".complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        install = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", *PACKAGES]
        subprocess.run(install, check=True)
        (folder / ".complete").touch()
    return folder / "bin" / "python"


@pytest.mark.timeout(300)
def test_etcd3_reads_writes_watches_and_locks(
    place: Place, python_with_etcd3: Path, tmp_path: Path
):
    """With the files of the Secret that applications mount."""
    cluster = place.declare(size=3).comes_up()
    host, port = place.reach.service(place.namespace, "etcd-client", 2379)
    mine = cluster.credentials()
    assert mine is not None
    (tmp_path / "ca.crt").write_bytes(mine.authority)
    (tmp_path / "tls.crt").write_bytes(mine.certificate)
    (tmp_path / "tls.key").write_bytes(mine.key)
    given = (in_url(host), str(port), mine.host, str(tmp_path))

    done = subprocess.run(
        [python_with_etcd3, "-W", "ignore", "-c", PROGRAM, *given],
        capture_output=True,
        text=True,
        timeout=SLOW * 60,
        check=False,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "read": "value",
        "watched": ["changed"],
        "locked": True,
        "locked twice": False,
        "locked after": True,
        "after the lease": None,
        "swapped": True,
        "prefix": ["swapped"],
        "members": ["etcd-0", "etcd-1", "etcd-2"],
    }
    assert cluster.client.get("key") == "swapped"
