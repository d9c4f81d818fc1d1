"""TLS turned on, and off again, while the cluster serves.

    peers    record: between -> pods restart with certificates, and listen in plaintext as before
             -> each member gets its https URL beside the http one
             record: TLS -> pods restart, and are found by the second URL
             -> claims are recorded as of https -> the http URLs go
    clients  record: between -> pods restart, and serve TLS and plaintext on one port
             record: TLS -> pods restart, and serve TLS alone

Off is the same backwards, and both links go side by side. At each moment every member has a URL of
the scheme that its pod listens with, and of the one that it would if it were restarted. So either
end can be had from anywhere in between: what comes next is asked of the record, the member list and
the pods, whichever way the spec points by then.

Towards TLS a step is made when all else is done. Towards plaintext also while pods do not serve:
they may do so for the certificates that they were given.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from etcd_stateful.api.tls import Level, Levels, Links
from etcd_stateful.membership import certificates, changes, links, roster, rotation
from etcd_stateful.membership.observation import Observation, is_latched, recorded
from etcd_stateful.membership.roster import Seat
from etcd_stateful.membership.steps import (
    Hold,
    MemberUpdate,
    RecordMember,
    Step,
    Wait,
    WriteBootstrap,
)
from etcd_stateful.records.accounts import NO_ACCOUNTS
from etcd_stateful.records.member import MemberRecord

_WAITS: Final = Wait("everything else to be done; then TLS is changed as spec.TLS asks")

_TURNS: Final = 2
"""From one end to the other."""


def as_run(seen: Observation) -> Step | None:
    """A record that is two turns away from StatefulSet and pods, where it never is more than one:
    its Secret was put back from a backup of before. Members that were restarted to go by it would
    not find the others any more; and clients would be served without TLS."""
    live = links.rendered(seen.stateful_set) if seen.stateful_set else None
    if not _may_turn(seen) or live is None or not seen.pods:
        return None
    has, run = recorded(seen).links.levels, live.levels
    if max(abs(has.peer - run.peer), abs(has.client - run.client)) < _TURNS:
        return None
    if any(pod.levels != run for pod in seen.pods):
        return None
    words = "all pods talk otherwise than the record said, as it is of before a change of TLS"
    return WriteBootstrap.of(seen, replace(recorded(seen), links=live), words, final=True)


def go_back(seen: Observation) -> Step | None:
    """The next turn towards plaintext, on the record."""
    return _turn(seen, _next(seen, back=True)) if _may_turn(seen) else None


def addresses(seen: Observation) -> Step | None:
    """Gives each member the URLs that it has to have by now. Asked when all members serve."""
    if not _may_turn(seen) or seen.etcd is None or roster.learner(seen):
        return None
    wanted = _schemes_wanted(seen)
    behind = [seat for seat in roster.voters(seen) if not _goes_by(seat, wanted)]
    if not behind:
        return None
    return _record_of_claims(seen, wanted) or _update(seen, behind[0], wanted)


def go_on(seen: Observation) -> Step | None:
    """The next turn towards TLS, on the record. Asked when everything else is done."""
    if not _may_turn(seen) or coming(seen) == seen.cluster.links:
        return None
    following = _next(seen, back=False)
    if following == seen.cluster.links or not rotation.is_at_rest(seen):
        return _WAITS
    to_be = replace(seen, cluster=replace(seen.cluster, links=following))
    return _not_to_be_had(to_be) or _turn(seen, following)


def _not_to_be_had(to_be: Observation) -> Step | None:
    """What is wrong with Secrets that are going to be needed, before anything is made to need
    them."""
    goes_on = "The cluster goes on as it is until that is mended"
    if said := certificates.problems_of_users(to_be):
        return Hold(
            certificates.UNUSABLE, f"spec.TLS asks for TLS, and {'; '.join(said)}. {goes_on}"
        )
    taken = to_be.certificates.taken if to_be.certificates else ()
    if not taken:
        return None
    words = f"{taken[0].kind} {taken[0].name} belongs to {taken[0].owner}"
    return Hold(
        "NameTaken",
        f"spec.TLS asks for TLS, and {words}: delete it, or make it again under another name. "
        f"{goes_on}",
    )


def held(seen: Observation) -> Step | None:
    """Why TLS of clients is not turned off. Asked last: nothing else depends on it."""
    if not links.lose_tls_of_clients(seen) or not _needs_names(seen):
        return None
    way = "Take spec.auth out first"
    if not _declares_names(seen):
        way = "Nothing in the spec turned it on: turn it off first (etcdctl auth disable)"
    return Hold(
        "AuthenticationNeedsTLS",
        "spec.TLS asks for plaintext for clients, and etcd knows the operator by its certificate "
        f"alone while authentication is on. {way}; until then clients are served as before",
    )


def coming(seen: Observation) -> Links:
    """What the record will say after the next turn, whenever that may come."""
    has, asked = seen.cluster.links, links.wished(seen.cluster)
    if not is_latched(seen):
        return has
    peer, client = has.peer.towards(asked.peer), has.client.towards(asked.client)
    if not asked.client.is_encrypted and (_needs_names(seen) or _may_need_names(seen)):
        client = None
    return Links(peer or has.peer, client or has.client)


def under_way(seen: Observation) -> str:
    """How far a change is, in words; empty where there is none."""
    if not is_latched(seen):
        return ""
    return "; ".join(words for words in (_peers_in_words(seen), _clients_in_words(seen)) if words)


def _may_turn(seen: Observation) -> bool:
    """Nothing takes the cluster's place, and pods are made from what the record says."""
    if not is_latched(seen) or seen.stateful_set is None:
        return False
    record = recorded(seen)
    return not (record.survivor or record.successor or record.restoring)


def _next(seen: Observation, *, back: bool) -> Links:
    """The links with one turn in this direction, where it may be made now."""
    has, to_be = seen.cluster.links, coming(seen)
    peer, client = has.peer, has.client
    if to_be.peer != peer and (to_be.peer.level < peer.level) == back and _peers_may(seen, to_be):
        peer = to_be.peer
    down = to_be.client.level < client.level
    if to_be.client != client and down == back and _clients_may(seen, to_be):
        client = to_be.client
    return Links(peer, client)


def _peers_may(seen: Observation, to_be: Links) -> bool:
    now, level, pods = seen.cluster.links.peer.level, to_be.peer.level, _levels(seen)
    if level is Level.TLS:
        return all(one.peer > Level.PLAINTEXT for one in pods) and _is_found_by(seen, "https")
    if now is Level.TLS:
        return _is_found_by(seen, "http")
    return all(one.peer_scheme == "http" for one in pods)


def _clients_may(seen: Observation, to_be: Links) -> bool:
    """What is served after the turn is served by every pod before it."""
    if to_be.client.level is Level.BETWEEN:
        return True
    scheme = "https" if to_be.client.is_encrypted else "http"
    return all(scheme in one.client_schemes for one in _levels(seen))


def _needs_names(seen: Observation) -> bool:
    """Whether etcd may ask who the operator is, which plaintext cannot tell it."""
    return _declares_names(seen) or (seen.auth is not None and seen.auth.enabled)


def _declares_names(seen: Observation) -> bool:
    return seen.cluster.auth is not None or recorded(seen).accounts != NO_ACCOUNTS


def _may_need_names(seen: Observation) -> bool:
    """Whether nobody has told yet, and all clients have TLS still: the first turn waits for that.

    Half-way pods may fail for want of TLS, and there is no waiting for members to tell.
    """
    return seen.auth is None and seen.cluster.links.client.level is Level.TLS


def _levels(seen: Observation) -> list[Levels]:
    return [links.levels_of(seen, pod) for pod in seen.pods]


def _is_found_by(seen: Observation, scheme: str) -> bool:
    """Whether every member has a URL of this scheme. Without a list the claims tell: they are
    recorded as of one scheme before the URLs of the other are taken away."""
    if seen.etcd is not None:
        return all(scheme in links.schemes_of(member) for member in seen.etcd.members)
    held = (seen.claim(ordinal) for ordinal in range(seen.replicas))
    known = [claim.own_record if claim else None for claim in held]
    return bool(known) and all(one is not None and one.peer_scheme == scheme for one in known)


def _turn(seen: Observation, following: Links) -> Step | None:
    has = seen.cluster.links
    if following == has:
        return None
    said = []
    if following.peer != has.peer:
        said.append(_PEER_TURNS[following.peer.level, following.peer.level > has.peer.level])
    if following.client != has.client:
        said.append(_CLIENT_TURNS[following.client.level])
    record = replace(recorded(seen), links=following)
    return WriteBootstrap.of(seen, record, "; ".join(said), final=True)


_PEER_TURNS: Final = {
    (Level.BETWEEN, True): "members get certificates for each other; until all have them they "
    "listen in plaintext",
    (Level.TLS, True): "members listen for each other with TLS from now on",
    (Level.BETWEEN, False): "members listen for each other in plaintext from now on",
    (Level.PLAINTEXT, False): "members need no certificates for each other any more",
}
_CLIENT_TURNS: Final = {
    Level.BETWEEN: "clients are served with TLS and in plaintext from now on",
    Level.TLS: "clients are served with TLS alone from now on",
    Level.PLAINTEXT: "clients are served in plaintext alone from now on",
}


def _schemes_wanted(seen: Observation) -> frozenset[str]:
    """Of what pods listen with, and what they would if they were restarted; once all have what it
    takes, also of what they are to listen with next."""
    has, asked, pods = seen.cluster.links.peer, links.wished(seen.cluster).peer, _levels(seen)
    used = {seen.cluster.links.levels.peer_scheme, *(one.peer_scheme for one in pods)}
    able = has.is_encrypted and all(one.peer > Level.PLAINTEXT for one in pods)
    if able and has.towards(asked) is not None:
        used.add("https" if asked.is_encrypted else "http")
    return frozenset(used)


def _goes_by(seat: Seat, schemes: frozenset[str]) -> bool:
    return seat.member is None or links.schemes_of(seat.member) == schemes


def _record_of_claims(seen: Observation, schemes: frozenset[str]) -> Step | None:
    """Before the last URL of the other scheme goes: with all other records lost, the claims are
    what pods are made anew by."""
    for seat in roster.voters(seen):
        held = seat.claim.own_record if seat.claim and not seat.claim.deleting else None
        if held is None or seat.claim is None or len(schemes) > 1 or not _is_of(seat, held):
            continue
        scheme = next(iter(schemes))
        if held.peer_scheme != scheme:
            words = f"claim {seat.claim.name} is recorded as of a member that is found by {scheme}"
            return RecordMember.of(seat.claim, replace(held, peer_scheme=scheme), words)
    return None


def _is_of(seat: Seat, record: MemberRecord) -> bool:
    return seat.member is not None and record.member_id == seat.member.member_id


def _update(seen: Observation, seat: Seat, schemes: frozenset[str]) -> Step | None:
    if seat.member is None:
        return None
    member, urls = seat.member.member_id, links.with_schemes(seat.member.peer_urls, schemes)
    words = f"{seat.name} is to be found by {' and '.join(sorted(schemes))}"
    return changes.ask(seen, lambda asked: MemberUpdate(asked, member, tuple(sorted(urls)), words))


def _peers_in_words(seen: Observation) -> str:
    has, asked, pods = seen.cluster.links.peer, links.wished(seen.cluster).peer, _levels(seen)
    members = seen.etcd.members if seen.etcd else ()
    known = [links.schemes_of(member) for member in members]
    behind = any(one.peer != has.level for one in pods)
    if has.towards(asked) is None and not behind and len(frozenset().union(*known)) < 2:
        return ""
    said = f"{_count(one.peer is Level.TLS for one in pods)} pods listen for each other with TLS"
    if known:
        said += f", {_count('https' in one for one in known)} members have a URL for it"
        said += f", {_count('http' in one for one in known)} one for plaintext"
    return f"TLS between members is {_WAYS[asked.level]}: {said}"


def _clients_in_words(seen: Observation) -> str:
    has, asked, pods = seen.cluster.links.client, links.wished(seen.cluster).client, _levels(seen)
    if has.towards(asked) is None and all(one.client == has.level for one in pods):
        return ""
    served = _count("https" in one.client_schemes for one in pods)
    bare = _count("http" in one.client_schemes for one in pods)
    words = f"{served} pods serve with TLS, {bare} in plaintext"
    return f"TLS for clients is {_WAYS[asked.level]}: {words}"


_WAYS: Final = {
    Level.TLS: "turned on",
    Level.BETWEEN: "served beside plaintext",
    Level.PLAINTEXT: "turned off",
}


def _count(of: Iterable[bool]) -> str:
    every = list(of)
    return f"{sum(every)} of {len(every)}"
