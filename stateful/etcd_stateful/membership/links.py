"""Which links a cluster has: those it began with, whatever its spec has come to say.

They are on record in the Secret of the bootstrap record. Where that is lost, the StatefulSet says
it; without that, the claims say at least whether peers' URLs, which are in the data, are https.
"""

from __future__ import annotations

from dataclasses import replace

from etcd_stateful.api.tls import DEFAULT, MANAGED, PLAINTEXT, Link, Links
from etcd_stateful.manifests.statefulset import links_of
from etcd_stateful.membership.observation import Live, Observation
from etcd_stateful.membership.steps import Hold, Step


def settled(seen: Observation) -> Observation:
    """The observation, its cluster with the links that it has."""
    return replace(seen, cluster=replace(seen.cluster, links=_links(seen)))


def _links(seen: Observation) -> Links:
    record = seen.secret.bootstrap if seen.secret else None
    if record is not None and record.cluster_uid == seen.cluster.uid:
        return record.links
    rendered = _rendered(seen.stateful_set) if seen.stateful_set else None
    if rendered is not None:
        return rendered
    schemes = {claim.record.peer_scheme for claim in seen.claims if claim.record}
    # Links that the spec does not speak of all began alike.
    began = Links(_of_scheme(DEFAULT.peer, schemes), _of_scheme(DEFAULT.client, schemes))
    wished = seen.cluster.wished_links.over(began)
    return replace(wished, peer=_of_scheme(wished.peer, schemes))


def _rendered(stateful_set: Live) -> Links | None:
    try:
        return links_of(stateful_set)
    except (ValueError, KeyError, TypeError):
        return None


def _of_scheme(wished: Link, schemes: set[str]) -> Link:
    """Members with data go by the URLs that are in it."""
    if not schemes or wished.scheme in schemes:
        return wished
    return MANAGED if "https" in schemes else PLAINTEXT


def changed(seen: Observation) -> Step | None:
    """An edit that asks for other links than a cluster has that has begun. All else goes on."""
    cluster = seen.cluster
    wished = cluster.wished_links.over(cluster.links)
    said = [
        f"{name} are {_in_words(has)}, and spec.TLS asks for {_in_words(asked)}"
        for name, has, asked in (
            ("peers", cluster.links.peer, wished.peer),
            ("clients", cluster.links.client, wished.client),
        )
        if has != asked
    ]
    if not said:
        return None
    return Hold(
        "TLSCannotChange",
        f"{'; '.join(said)}. This version of the operator does not change how the members of a "
        "running cluster are talked to, so it goes on as it is: take the edit back. Other "
        "certificates go into the Secrets that are named already",
    )


def _in_words(link: Link) -> str:
    if link.mode == "Static":
        secrets = " and ".join(name for name in (link.secret, link.operator) if name)
        return f"TLS with the certificates in Secret {secrets}"
    return "TLS with managed certificates" if link.mode == "Managed" else "plaintext"
