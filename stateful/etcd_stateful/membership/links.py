"""Which links a cluster has: those on record, whatever its spec has come to say.

They are on record in the Secret of the bootstrap record: what the cluster began with, or how far it
has come from that (`switch`). Where that is lost, the StatefulSet says it; without that, the claims
say at least whether peers' URLs, which are in the data, are https.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.api.tls import DEFAULT, MANAGED, PLAINTEXT, Levels, Link, Links
from etcd_stateful.manifests.statefulset import links_of
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.steps import Hold, Step
from etcd_stateful.observed.members import Member
from etcd_stateful.observed.objects import Live
from etcd_stateful.observed.pods import Pod


def settled(seen: Observation) -> Observation:
    """The observation, its cluster with the links that it has."""
    return replace(seen, cluster=replace(seen.cluster, links=_links(seen)))


def _links(seen: Observation) -> Links:
    record = seen.bootstrap
    if record is not None and record.cluster_uid == seen.cluster.uid:
        return record.links
    live = rendered(seen.stateful_set) if seen.stateful_set else None
    if live is not None:
        return live
    schemes = {claim.record.peer_scheme for claim in seen.claims if claim.record}
    # Links that the spec does not speak of all began alike.
    began = Links(_of_scheme(DEFAULT.peer, schemes), _of_scheme(DEFAULT.client, schemes))
    wished = seen.cluster.wished_links.over(began)
    return replace(wished, peer=_of_scheme(wished.peer, schemes))


def rendered(stateful_set: Live) -> Links | None:
    """What its template was made for; None where it does not say."""
    try:
        return links_of(stateful_set)
    except (ValueError, KeyError, TypeError):
        return None


def _of_scheme(wished: Link, schemes: set[str]) -> Link:
    """Members with data go by the URLs that are in it."""
    scheme = "https" if wished.is_encrypted else "http"
    if not schemes or scheme in schemes:
        return wished
    return MANAGED if "https" in schemes else PLAINTEXT


def lose_tls_of_clients(seen: Observation) -> bool:
    """Whether the spec asks for plaintext where clients are served with TLS."""
    has, asked = seen.cluster.links.client, wished(seen.cluster).client
    return has.is_encrypted and not asked.is_encrypted


def wished(cluster: EtcdCluster) -> Links:
    """What the spec asks for. A link that it does not speak of stays as it is; half-way, it becomes
    one with TLS."""
    peer, client = (
        replace(one, between=False) for one in (cluster.links.peer, cluster.links.client)
    )
    return cluster.wished_links.over(Links(peer, client))


def levels_of(seen: Observation, pod: Pod) -> Levels:
    """How the pod's etcd was started to talk."""
    return pod.levels or seen.cluster.links.levels


def least(seen: Observation) -> Levels:
    """The level that is nearest to plaintext of what pods were started with, and of the record."""
    every = [seen.cluster.links.levels, *(levels_of(seen, pod) for pod in seen.pods)]
    return Levels(min(one.peer for one in every), min(one.client for one in every))


def schemes_of(member: Member) -> frozenset[str]:
    return frozenset(naming.split_url(url)[0] for url in member.peer_urls)


def schemes_listed(seen: Observation) -> frozenset[str]:
    """Of all peer URLs on the member list. More than one while TLS is turned on or off; then who
    joins goes by all of them, too."""
    members = seen.etcd.members if seen.etcd else ()
    return frozenset(scheme for member in members for scheme in schemes_of(member))


def with_schemes(urls: Iterable[str], schemes: Iterable[str]) -> frozenset[str]:
    """The same places by these schemes."""
    places = {naming.split_url(url)[1] for url in urls}
    return frozenset(f"{scheme}://{place}" for scheme in schemes for place in places)


def changed(seen: Observation) -> Step | None:
    """An edit that asks for what there is no way to. All else goes on."""
    said = [
        f"{name} are {in_words(one)}, and spec.TLS asks for {in_words(other)}"
        for name, one, other in edited(seen.cluster)
        if one.towards(other) is None
    ]
    if not said:
        return None
    has, asked = seen.cluster.links, wished(seen.cluster)
    links = (has.peer, has.client, asked.peer, asked.client)
    if any(one.mode == "Issued" for one in links):
        way = "An issuer is named when a cluster begins, and serves it for good; take the edit back"
    else:
        way = (
            "Members do not go from certificates to others while they run, so it goes on as it is: "
            "take the edit back, or turn TLS off in between. Other certificates of yours go into "
            "the Secrets that are named already"
        )
    return Hold("TLSCannotChange", f"{'; '.join(said)}. {way}")


def edited(cluster: EtcdCluster) -> Iterator[tuple[str, Link, Link]]:
    """Of each link that is not as asked for: whose it is, what it is, what it is to be."""
    has, asked = cluster.links, wished(cluster)
    both = (("peers", has.peer, asked.peer), ("clients", has.client, asked.client))
    return (link for link in both if link[1] != link[2])


def in_words(link: Link) -> str:
    half = " beside plaintext" if link.between else ""
    if link.mode == "Static":
        secrets = " and ".join(name for name in (link.secret, link.operator) if name)
        return f"TLS with the certificates in Secret {secrets}{half}"
    if link.mode == "Issued":
        return f"TLS with certificates of {link.issuer}"
    return f"TLS with managed certificates{half}" if link.mode == "Managed" else "plaintext"
