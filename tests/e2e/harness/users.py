"""etcd users and roles in a spec, and clients that log in with them."""

from __future__ import annotations

from harness.api import SECRETS, Json
from harness.clusters import Cluster, is_up
from harness.place import Place
from harness.waiting import eventually

AUTH = {
    "rootSecret": {"name": "root"},
    "roles": [{"name": "web", "permissions": [{"access": "ReadWrite", "prefix": "/web/"}]}],
    "users": [{"name": "web", "secret": {"name": "web"}, "roles": ["web"]}],
}


def password(place: Place, name: str, text: str) -> None:
    manifest = {"metadata": {"name": name}, "stringData": {"password": text}}
    place.kube.create(SECRETS, manifest, place.namespace)


def etcdctl(place: Place, *words: str, member: str = "etcd-0") -> str:
    """Runs etcdctl in a pod, whose environment names the member's certificate.

    etcd hashes the password at each call. On a busy machine this may take more than etcdctl's
    default of 2 s to connect.
    """
    patience = ("--dial-timeout=25s", "--command-timeout=25s")
    run = ("exec", member, "-c", "etcd", "--", "etcdctl", *patience, *words)
    return place.kube.kubectl("-n", place.namespace, *run).strip()


def settled(cluster: Cluster, what: str, *, enabled: bool, seconds: float) -> None:
    def is_so(body: Json) -> bool:
        found = (body.get("status") or {}).get("auth") or {}
        return is_up(body) and bool(found.get("enabled")) == enabled

    eventually(what, cluster._there, is_so, seconds)
