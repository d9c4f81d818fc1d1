"""Secrets with certificates, as users or the operator made them."""

from __future__ import annotations

import base64
from dataclasses import replace

from etcd_operator.credentials import signing
from etcd_operator.kube.api import ETCD_CLUSTERS, SECRETS
from etcd_operator.objects.reading import contents
from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.certificates import managed

MANAGED = {"peer": "Managed", "client": "Managed"}
STATIC = {"static": {"member": {"peerSecret": "p", "serverSecret": "s"}, "operatorSecret": "o"}}
SECRET_NAMES = (
    "a-peer-ca",
    "a-peer-tls",
    "a-client-ca",
    "a-server-tls",
    "a-operator-tls",
    "a-client-tls",
)


def declare(bench, **spec):
    return bench.declare(**{"TLS": MANAGED, **spec})


async def a_while(bench):
    for _ in range(30):
        bench.clock.now += await bench.once() or 0.0
        bench.nodes.turn()


def data(bench, name):
    return contents(bench.kube.live(SECRETS, name))


def user_secrets(bench, *, authorities=None, **changed):
    """The Secrets that `STATIC` names, like a managed cluster's, except for what is given by
    name."""
    cluster = parse_cluster(managed_body(bench))
    needs = {need.role: need for need in managed(cluster)}
    above = {
        need.secret: signing.make(need, {}, bench.clock.now)
        for need in managed(cluster)
        if need.role == "authority"
    }
    for role, name in (("peer", "p"), ("server", "s"), ("operator", "o")):
        files = signing.make(needs[role], above[needs[role].signed_by], bench.clock.now)
        files |= changed.get(name, {})
        put_secret(bench, name, files)


def foreign(bench, name, moment, **changed):
    """The files of a user's Secret, made at that moment below another authority."""
    needs = managed(parse_cluster(managed_body(bench)))
    role = {"p": "peer", "s": "server", "o": "operator"}[name]
    need = next(one for one in needs if one.role == role)
    above = next(one for one in needs if one.secret == need.signed_by)
    authority = signing.make(above, {}, moment)
    return signing.make(replace(need, **changed), authority, moment)


def managed_body(bench):
    return {**bench.body, "spec": {"size": bench.body["spec"]["size"], "TLS": MANAGED}}


def edit(bench, **spec):
    body = bench.body
    body["spec"] |= spec
    bench.kube.put(ETCD_CLUSTERS, body)


def put_secret(bench, name, files):
    encoded = {key: base64.b64encode(content).decode() for key, content in files.items()}
    bench.kube.put(SECRETS, {"metadata": {"name": name, "namespace": "default"}, "data": encoded})
