"""Turns TLS on and off while the cluster serves.

    peers    record: between -> pods restart with certificates, still listening in plaintext
             -> each member gets an https peer URL beside its http URL
             record: TLS -> pods restart, and peers reach each other by the https URLs
             -> claims are recorded with https -> the http URLs are removed
    clients  record: between -> pods restart, and serve TLS and plaintext on one port
             record: TLS -> pods restart, and serve only TLS

Turning TLS off is the same backwards, and both links change at the same time. At each moment every
member has a URL for the scheme that its pod listens with, and for the scheme that it would listen
with after a restart. So a change can be reversed at any point: the next step follows from the
record, the member list, the pods and what the spec asks for by then.

Steps towards TLS are made when everything else is done. Steps towards plaintext are also made while
pods do not serve, because their new certificates may be the cause.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from etcd_stateful.api.tls import Level, Levels, Links
from etcd_stateful.membership import roster
from etcd_stateful.membership.members import changes
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
from etcd_stateful.membership.tls import certificates, links, rotation
from etcd_stateful.membership.upkeep import authentication
from etcd_stateful.records.member import MemberRecord

_WAITS: Final = Wait("everything else to be done; then TLS is changed as spec.TLS asks")

_WAITS_FOR_ETCD: Final = Wait(
    "etcd to say whether authentication is on; until then TLS for clients is not turned off. It "
    "tells root alone, so the operator's certificate must have the common name root"
)

_ALL_STEPS: Final = 2
"""How many levels a link passes from plaintext to TLS."""


def correct_record(seen: Observation) -> Step | None:
    """Corrects the links on a record that is two levels away from the StatefulSet and all pods.

    In a change they are never more than one level apart. So the Secret was restored from before a
    change of TLS. Members that restart with the old links would not reach the others, and clients
    would be served without TLS.
    """
    live = links.rendered(seen)
    if not _may_change(seen) or live is None or not seen.pods:
        return None
    has, run = recorded(seen).links.levels, live.levels
    if max(abs(has.peer - run.peer), abs(has.client - run.client)) < _ALL_STEPS:
        return None
    if any(pod.levels != run for pod in seen.pods):
        return None
    words = "the record's TLS links are corrected to what all pods use: it is from before a change"
    return WriteBootstrap.of(seen, replace(recorded(seen), links=live), words, final=True)


def towards_plaintext(seen: Observation) -> Step | None:
    """Records the next step towards plaintext."""
    return _write(seen, _next(seen, back=True)) if _may_change(seen) else None


def take_back(seen: Observation) -> Step | None:
    """Takes a step towards TLS back before the template or any pod follows it. Asked before the
    certificates that the step needs: that they cannot be written may be why it is taken back."""
    live = links.rendered(seen)
    step = towards_plaintext(seen)
    if live is None or not isinstance(step, WriteBootstrap) or step.record.links != live:
        return None
    return step if all(pod.levels == live.levels for pod in seen.pods) else None


def update_peer_urls(seen: Observation) -> Step | None:
    """Updates the members' peer URLs to the schemes they need now. Asked when all members serve."""
    if not _may_change(seen) or seen.etcd is None or roster.learner(seen):
        return None
    wanted = _schemes_wanted(seen)
    behind = [seat for seat in roster.voters(seen) if not _has_schemes(seat, wanted)]
    if not behind:
        return None
    return _record_of_claims(seen, wanted) or _update(seen, behind[0], wanted)


def towards_tls(seen: Observation) -> Step | None:
    """Records the next step towards TLS. Asked when everything else is done. What it waits for
    holds up nothing: it may be something that is asked about later."""
    step = _forward(seen)
    return None if isinstance(step, Wait | Hold) else step


def missing_secrets(seen: Observation) -> Step | None:
    """Holds for Secrets that keep TLS from being turned on."""
    step = _forward(seen)
    return step if isinstance(step, Hold) else None


def waiting_for(seen: Observation) -> Step | None:
    """What the next step waits for. Asked last: whatever else is reported says more."""
    if _may_change(seen) and links.turns_client_tls_off(seen) and _may_need_names(seen):
        return _WAITS_FOR_ETCD
    step = _forward(seen)
    return step if isinstance(step, Wait) else None


def _forward(seen: Observation) -> Step | None:
    if not _may_change(seen) or next_links(seen) == seen.cluster.links:
        return None
    following = _next(seen, back=False)
    if following == seen.cluster.links or not rotation.is_at_rest(seen):
        return _WAITS
    to_be = replace(seen, cluster=replace(seen.cluster, links=following))
    return _missing_secrets(to_be) or _write(seen, following)


def _missing_secrets(to_be: Observation) -> Step | None:
    """Holds if the Secrets that TLS will need are unusable, before any pod depends on them."""
    goes_on = "The cluster goes on as it is until that is fixed"
    if said := certificates.problems_of_provided(to_be):
        return Hold(
            certificates.UNUSABLE, f"spec.TLS asks for TLS, but {'; '.join(said)}. {goes_on}"
        )
    taken = to_be.certificates.taken if to_be.certificates else ()
    if not taken:
        return None
    words = f"{taken[0].kind} {taken[0].name} belongs to {taken[0].owner}"
    return Hold(
        "NameTaken",
        f"spec.TLS asks for TLS, but {words}: delete it, or recreate it under another name. "
        f"{goes_on}",
    )


def why_not_changed(seen: Observation) -> Step | None:
    """Says why TLS for clients is not turned off. Asked last: nothing waits for it."""
    if not links.turns_client_tls_off(seen) or not _needs_names(seen):
        return None
    way = "Remove spec.auth first"
    if not authentication.is_looked_at(seen):
        way = "spec.auth did not turn it on: turn it off first (etcdctl --user root auth disable)"
    return Hold(
        "AuthenticationNeedsTLS",
        "spec.TLS asks for plaintext for clients, but while authentication is on, etcd identifies "
        f"the operator by its certificate. {way}; until then clients are served as before",
    )


def next_links(seen: Observation) -> Links:
    """The links after the next step, whether or not it may be made now."""
    has, asked = seen.cluster.links, links.requested(seen.cluster)
    if not is_latched(seen):
        return has
    peer, client = has.peer.towards(asked.peer), has.client.towards(asked.client)
    if not asked.client.is_encrypted and (_needs_names(seen) or _may_need_names(seen)):
        client = None
    return Links(peer or has.peer, client or has.client)


def under_way(seen: Observation) -> str:
    """How far a change has come, for a message; empty if there is none."""
    if not is_latched(seen):
        return ""
    return "; ".join(words for words in (_peers_in_words(seen), _clients_in_words(seen)) if words)


def _may_change(seen: Observation) -> bool:
    """Whether the cluster has formed, and neither a recovery nor a restore is under way."""
    if not is_latched(seen) or seen.stateful_set is None:
        return False
    record = recorded(seen)
    return not (record.survivor or record.successor or record.restoring)


def _next(seen: Observation, *, back: bool) -> Links:
    """The links after one step in this direction, as far as it may be made now."""
    has, to_be = seen.cluster.links, next_links(seen)
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
    """Whether every pod already serves what clients will need after the step."""
    if to_be.client.level is Level.BETWEEN:
        return True
    scheme = "https" if to_be.client.is_encrypted else "http"
    return all(scheme in one.client_schemes for one in _levels(seen))


def _needs_names(seen: Observation) -> bool:
    """Whether authentication is, or may be, on: over plaintext the operator could not log in."""
    return authentication.is_looked_at(seen) or (seen.auth is not None and seen.auth.enabled)


def _may_need_names(seen: Observation) -> bool:
    """Whether it is unknown if authentication is on, and the next step back waits for an answer.
    Halfway it does not while members are silent: they may be failing."""
    complete = seen.cluster.links.client.level is Level.TLS
    return seen.auth is None and bool(complete or seen.etcd or seen.denied)


def _levels(seen: Observation) -> list[Levels]:
    return [links.levels_of(seen, pod) for pod in seen.pods]


def _is_found_by(seen: Observation, scheme: str) -> bool:
    """Whether every member has a peer URL of this scheme. Without a member list the claims tell:
    they are recorded with one scheme before the URLs of the other are removed."""
    if seen.etcd is not None:
        return all(scheme in links.schemes_of(member) for member in seen.members)
    held = (seen.claim(ordinal) for ordinal in range(seen.replicas))
    known = [claim.own_record if claim else None for claim in held]
    return bool(known) and all(one is not None and one.peer_scheme == scheme for one in known)


def _write(seen: Observation, following: Links) -> Step | None:
    """Writes these links into the record."""
    has = seen.cluster.links
    if following == has:
        return None
    said = []
    if following.peer != has.peer:
        said.append(_PEER_WORDS[following.peer.level, following.peer.level > has.peer.level])
    if following.client != has.client:
        said.append(_CLIENT_WORDS[following.client.level])
    record = replace(recorded(seen), links=following)
    return WriteBootstrap.of(seen, record, "; ".join(said), final=True)


_PEER_WORDS: Final = {
    (Level.BETWEEN, True): "members get certificates for each other; until all have them they "
    "listen in plaintext",
    (Level.TLS, True): "members listen for each other with TLS from now on",
    (Level.BETWEEN, False): "members listen for each other in plaintext from now on",
    (Level.PLAINTEXT, False): "members need no certificates for each other any more",
}
_CLIENT_WORDS: Final = {
    Level.BETWEEN: "clients are served with TLS and in plaintext from now on",
    Level.TLS: "clients are served only with TLS from now on",
    Level.PLAINTEXT: "clients are served only in plaintext from now on",
}


def _schemes_wanted(seen: Observation) -> frozenset[str]:
    """The schemes that peer URLs need: those that pods listen with now and after a restart, and,
    once all pods have certificates, the one that they will listen with next."""
    has, asked, pods = seen.cluster.links.peer, links.requested(seen.cluster).peer, _levels(seen)
    used = {seen.cluster.links.levels.peer_scheme, *(one.peer_scheme for one in pods)}
    have_certificates = has.is_encrypted and all(one.peer > Level.PLAINTEXT for one in pods)
    if have_certificates and has.towards(asked) is not None:
        used.add("https" if asked.is_encrypted else "http")
    return frozenset(used)


def _has_schemes(seat: Seat, schemes: frozenset[str]) -> bool:
    return seat.member is None or links.schemes_of(seat.member) == schemes


def _record_of_claims(seen: Observation, schemes: frozenset[str]) -> Step | None:
    """Records the scheme on the claims before the last URL of the other scheme is removed. If all
    other records are lost, pods are recreated from the claims."""
    for seat in roster.voters(seen):
        held = seat.claim.own_record if seat.claim and not seat.claim.deleting else None
        if held is None or seat.claim is None or len(schemes) > 1 or not _is_of(seat, held):
            continue
        scheme = next(iter(schemes))
        if held.peer_scheme != scheme:
            words = f"claim {seat.claim.name} is recorded with peer URLs of scheme {scheme}"
            return RecordMember.of(seat.claim, replace(held, peer_scheme=scheme), words)
    return None


def _is_of(seat: Seat, record: MemberRecord) -> bool:
    return seat.member is not None and record.member_id == seat.member.member_id


def _update(seen: Observation, seat: Seat, schemes: frozenset[str]) -> Step | None:
    if seat.member is None:
        return None
    member, urls = seat.member.member_id, links.with_schemes(seat.member.peer_urls, schemes)
    words = f"{seat.name} gets peer URLs of scheme {' and '.join(sorted(schemes))}"
    return changes.request(
        seen, lambda asked: MemberUpdate(asked, member, tuple(sorted(urls)), words)
    )


def _peers_in_words(seen: Observation) -> str:
    has, asked, pods = seen.cluster.links.peer, links.requested(seen.cluster).peer, _levels(seen)
    known = [links.schemes_of(member) for member in seen.members]
    behind = any(one.peer != has.level for one in pods)
    if has.towards(asked) is None and not behind and len(frozenset().union(*known)) < 2:
        return ""
    said = f"{_count(one.peer is Level.TLS for one in pods)} pods listen for each other with TLS"
    if known:
        said += f", {_count('https' in one for one in known)} members have a URL for it"
        said += f", {_count('http' in one for one in known)} one for plaintext"
    return f"TLS between members is {_WAYS[asked.level]}: {said}"


def _clients_in_words(seen: Observation) -> str:
    has, asked, pods = (
        seen.cluster.links.client,
        links.requested(seen.cluster).client,
        _levels(seen),
    )
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
