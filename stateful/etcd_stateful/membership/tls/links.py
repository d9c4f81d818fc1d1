"""Which links a cluster has: those on record, even if its spec says something else by now.

The bootstrap record has what the cluster began with, or how far it has come from that
(`tls_switch`). If the record is lost, the StatefulSet's annotation tells. Without that too, pods
tell how far each link has come, and without pods the claims at least tell whether the peer URLs,
which are part of etcd's data, are https.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.api.tls import DEFAULT, MANAGED, PLAINTEXT, Level, Levels, Link, Links
from etcd_stateful.manifests.statefulset import links_of
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.steps import Hold, Step
from etcd_stateful.observed.members import Member
from etcd_stateful.observed.pods import Pod


def with_recorded_links(seen: Observation) -> Observation:
    """The observation with the links that the cluster really has."""
    return replace(seen, cluster=replace(seen.cluster, links=_links(seen)))


def _links(seen: Observation) -> Links:
    record = seen.bootstrap
    if record is not None and record.cluster_uid == seen.cluster.uid:
        return record.links
    if (live := rendered(seen)) is not None:
        return live
    schemes = {claim.record.peer_scheme for claim in seen.claims if claim.record}
    # Links that the spec does not set all began the same way.
    began = Links(_of_scheme(DEFAULT.peer, schemes), _of_scheme(DEFAULT.client, schemes))
    wanted = seen.cluster.requested_links.over(began)
    levels = _levels_of_members(seen)
    peer = _of_levels(wanted.peer, {one.peer for one in levels})
    client = _of_levels(wanted.client, {one.client for one in levels})
    return Links(peer or _of_scheme(wanted.peer, schemes), client or wanted.client)


def rendered(seen: Observation) -> Links | None:
    """The links that the StatefulSet was rendered for; None if its annotation is unreadable, or
    there is no StatefulSet."""
    try:
        return links_of(seen.stateful_set) if seen.stateful_set else None
    except (ValueError, KeyError, TypeError):
        return None


def _levels_of_members(seen: Observation) -> set[Levels]:
    """The levels of the pods, if etcd has run in one or a volume is recorded as a member's. Pods of
    a cluster that has yet to begin bind it to nothing."""
    held = any(claim.record for claim in seen.claims)
    if not held and not any(pod.etcd_started or pod.record for pod in seen.pods):
        return set()
    return {pod.levels for pod in seen.pods if pod.levels}


def _of_levels(wanted: Link, levels: set[Level]) -> Link | None:
    """The link, but at the level of the pods; None without pods.

    Pods that differ are amid a change of TLS. Halfway, members are reached by those on either side
    of it.
    """
    if not levels:
        return None
    level = next(iter(levels)) if len(levels) == 1 else Level.BETWEEN
    if level is Level.PLAINTEXT:
        return PLAINTEXT
    between = level is Level.BETWEEN
    if not wanted.is_encrypted or (between and wanted.mode == "Issued"):
        wanted = MANAGED  # certificates of an issuer are never halfway
    return replace(wanted, between=between)


def _of_scheme(wanted: Link, schemes: set[str]) -> Link:
    """The link, but with the scheme of the peer URLs that members with data already have."""
    scheme = "https" if wanted.is_encrypted else "http"
    if not schemes or scheme in schemes:
        return wanted
    return MANAGED if "https" in schemes else PLAINTEXT


def turns_client_tls_off(seen: Observation) -> bool:
    """Whether the spec asks for plaintext where clients are served with TLS."""
    has, asked = seen.cluster.links.client, requested(seen.cluster).client
    return has.is_encrypted and not asked.is_encrypted


def requested(cluster: EtcdCluster) -> Links:
    """The links that the spec asks for. One that it does not set stays as it is; if that is halfway
    to TLS, it becomes TLS."""
    peer, client = (
        replace(one, between=False) for one in (cluster.links.peer, cluster.links.client)
    )
    return cluster.requested_links.over(Links(peer, client))


def levels_of(seen: Observation, pod: Pod) -> Levels:
    """The levels of TLS that the pod's etcd was started with."""
    return pod.levels or seen.cluster.links.levels


def lowest_levels(seen: Observation) -> Levels:
    """For each link, the level nearest to plaintext among all pods and the record."""
    every = [seen.cluster.links.levels, *(levels_of(seen, pod) for pod in seen.pods)]
    return Levels(min(one.peer for one in every), min(one.client for one in every))


def schemes_of(member: Member) -> frozenset[str]:
    return frozenset(naming.split_url(url)[0] for url in member.peer_urls)


def schemes_listed(seen: Observation) -> frozenset[str]:
    """The schemes of all peer URLs on the member list. There are two while TLS is turned on or off;
    a new member then gets URLs of both."""
    return frozenset(scheme for member in seen.members for scheme in schemes_of(member))


def with_schemes(urls: Iterable[str], schemes: Iterable[str]) -> frozenset[str]:
    """URLs of the same hosts and ports with these schemes."""
    hosts = {naming.split_url(url)[1] for url in urls}
    return frozenset(f"{scheme}://{host}" for scheme in schemes for host in hosts)


def unsupported_edit(seen: Observation) -> Step | None:
    """Holds for an edit of TLS that cannot be carried out. Everything else goes on."""
    said = [
        f"{name} have {describe(one)}, but spec.TLS asks for {describe(other)}"
        for name, one, other in differences(seen.cluster)
        if one.towards(other) is None
    ]
    if not said:
        return None
    has, asked = seen.cluster.links, requested(seen.cluster)
    links = (has.peer, has.client, asked.peer, asked.client)
    if any(one.mode == "Issued" for one in links):
        way = "An issuer is chosen when a cluster begins, and cannot be changed; revert the edit"
    else:
        way = (
            "A running cluster cannot change directly from one source of certificates to another, "
            "so it goes on as it is: revert the edit, or turn TLS off in between. To use other "
            "certificates of your own, put them into the Secrets that are named already"
        )
    return Hold("TLSCannotChange", f"{'; '.join(said)}. {way}")


def differences(cluster: EtcdCluster) -> Iterator[tuple[str, Link, Link]]:
    """For each link that differs from the spec: its name, what it is, what it should be."""
    has, asked = cluster.links, requested(cluster)
    both = (("peers", has.peer, asked.peer), ("clients", has.client, asked.client))
    return (link for link in both if link[1] != link[2])


def describe(link: Link) -> str:
    half = " beside plaintext" if link.between else ""
    if link.mode == "Static":
        secrets = " and ".join(name for name in (link.secret, link.operator) if name)
        return f"TLS with the certificates in Secret {secrets}{half}"
    if link.mode == "Issued":
        return f"TLS with certificates of {link.issuer}"
    return f"TLS with managed certificates{half}" if link.mode == "Managed" else "plaintext"
