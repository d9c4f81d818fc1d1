"""The TLS of a cluster's links: the same as when it began, from whichever record is left."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from worlds import OLD, UID, World, body, drive, formed

from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.api.issuer import Issuer
from etcd_stateful.api.tls import (
    MANAGED,
    NO_TLS,
    NOTHING_REQUESTED,
    PLAINTEXT,
    Level,
    Levels,
    Link,
    Links,
    RequestedLinks,
    dump_links,
    load_links,
)
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import CreateSecret, Hold, Settled
from etcd_stateful.membership.tls import links
from etcd_stateful.records import bootstrap as records
from etcd_stateful.records.bootstrap_json import dump_bootstrap, load_bootstrap
from etcd_stateful.records.errors import BadRecord

BOTH = Links(MANAGED, MANAGED)
HALF = Link("Managed", between=True)
STATIC = Links(Link("Static", "p"), Link("Static", "s", "o"))
ISSUED = Link("Issued", issuer=Issuer("ca", "Issuer", "cert-manager.io"))
OFF = {"peer": "Plaintext", "client": "Plaintext"}
NONE, MIDDLE, FULL = Level


def began_with(wanted: Links, **spec: object) -> Observation:
    """A settled cluster, as if it had begun with these links."""
    seen = formed(3, **spec).observe()
    assert seen.secret is not None
    assert seen.secret.bootstrap is not None
    record = replace(seen.secret.bootstrap, links=wanted)
    return replace(seen, secret=replace(seen.secret, bootstrap=record))


def from_before() -> Observation:
    """A settled cluster of an operator version without TLS by default, whose spec did not ask for
    TLS."""
    seen = formed(3, TLS=OFF).observe()
    return replace(
        seen, cluster=replace(seen.cluster, requested_links=NOTHING_REQUESTED, links=BOTH)
    )


def of(seen: Observation) -> Links:
    return links.with_recorded_links(seen).cluster.links


@pytest.mark.parametrize("wanted", [BOTH, STATIC, Links(), Links(MANAGED, PLAINTEXT)])
def test_the_record_wins_over_everything(wanted: Links) -> None:
    seen = began_with(wanted)
    assert of(seen) == wanted
    assert of(replace(seen, stateful_set=None)) == wanted
    asked = replace(seen.cluster, requested_links=RequestedLinks(PLAINTEXT, MANAGED))
    assert of(replace(seen, cluster=asked)) == wanted


def test_a_record_of_another_cluster_says_nothing() -> None:
    seen = began_with(STATIC)
    assert seen.secret is not None
    assert seen.secret.bootstrap is not None
    record = replace(seen.secret.bootstrap, cluster_uid="another")
    assert of(replace(seen, secret=replace(seen.secret, bootstrap=record))) == BOTH


@pytest.mark.parametrize("wanted", [BOTH, STATIC, Links(PLAINTEXT, MANAGED)])
def test_without_a_record_the_stateful_set_tells_the_links(wanted: Links) -> None:
    seen = with_note(replace(from_before(), secret=None), dump_links(wanted))
    assert of(seen) == wanted


def with_note(seen: Observation, text: str) -> Observation:
    live = dict(seen.stateful_set or {})
    notes = {**live["metadata"]["annotations"], "etcd.database.coreos.com/links": text}
    live["metadata"] = {**live["metadata"], "annotations": notes}
    return replace(seen, stateful_set=live)


def test_a_stateful_set_without_the_annotation_predates_tls() -> None:
    assert of(replace(from_before(), secret=None)) == NO_TLS


def test_without_both_and_pods_the_claims_tell_how_peers_connect() -> None:
    seen = replace(formed(3).observe(), secret=None, stateful_set=None, pods=())
    assert [one.record.peer_scheme for one in seen.claims if one.record] == ["https"] * 3
    assert of(seen) == BOTH
    own = replace(seen.cluster, requested_links=RequestedLinks(STATIC.peer, None))
    assert of(replace(seen, cluster=own)) == Links(STATIC.peer, MANAGED)
    off = replace(seen.cluster, requested_links=RequestedLinks(PLAINTEXT, PLAINTEXT))
    assert of(replace(seen, cluster=off)) == Links(MANAGED, PLAINTEXT), "their data says https"


def test_a_cluster_from_before_tls_that_lost_both_comes_back_in_plaintext() -> None:
    """Its members' data says http, and clients without certificates must not be locked out."""
    seen = replace(from_before(), secret=None, stateful_set=None, pods=())
    assert [one.record.peer_scheme for one in seen.claims if one.record] == ["http"] * 3
    assert of(seen) == NO_TLS
    asked = replace(seen.cluster, requested_links=RequestedLinks(MANAGED, MANAGED))
    assert of(replace(seen, cluster=asked)) == Links(PLAINTEXT, MANAGED), "their data says http"


@pytest.mark.parametrize(("word", "wanted"), [("adopt", NO_TLS), ("discard", BOTH)])
def test_volumes_of_a_deleted_cluster_count_only_where_they_are_adopted(
    word: str, wanted: Links
) -> None:
    world = formed(3, TLS=OFF).remake(uid=OLD, retainedClaims={word: UID})
    assert drive(world) == Settled()
    assert world.record.links == wanted


def lost_beside(*levels: Levels, **changes: object) -> Observation:
    """Neither record nor StatefulSet is left of a cluster whose pods have these levels."""
    seen = formed(len(levels), TLS=OFF).observe()
    pods = (
        replace(pod, levels=level, **changes) for pod, level in zip(seen.pods, levels, strict=True)
    )
    return replace(seen, secret=None, stateful_set=None, pods=tuple(pods))


def asked_of(seen: Observation, peer: Link | None, client: Link | None) -> Links:
    cluster = replace(seen.cluster, requested_links=RequestedLinks(peer, client))
    return of(replace(seen, cluster=cluster))


def test_clients_of_running_pods_are_not_cut_off_by_an_edit_when_both_are_lost() -> None:
    """A rebuilt record took the edited spec for what pods serve: each that restarted served clients
    in another way than the others, instead of both ways for a while."""
    world = formed(3, TLS=OFF)
    world.edit(TLS={"peer": "Managed", "client": "Managed"})
    world.delete_stateful_set()
    world.lose_secret()

    step = decide(world.observe())

    assert isinstance(step, CreateSecret)
    assert step.record.links == NO_TLS


@pytest.mark.parametrize(
    ("levels", "wanted"),
    [
        ((NONE, NONE), PLAINTEXT),
        ((NONE, MIDDLE), HALF),
        ((MIDDLE, MIDDLE), HALF),
        ((MIDDLE, FULL), HALF),
        ((NONE, FULL), HALF),
        ((FULL, FULL), MANAGED),
    ],
)
@pytest.mark.parametrize("asked", [PLAINTEXT, HALF, MANAGED, None])
def test_without_both_pods_tell_how_far_a_change_has_come(
    levels: tuple[Level, Level], wanted: Link, asked: Link | None
) -> None:
    clients = lost_beside(*(Levels(NONE, one) for one in levels))
    assert asked_of(clients, None, asked) == Links(PLAINTEXT, wanted)
    peers = lost_beside(*(Levels(one, NONE) for one in levels))
    assert asked_of(peers, asked, None) == Links(wanted, PLAINTEXT)


def test_pods_do_not_tell_who_issued_the_certificates() -> None:
    seen = lost_beside(*[Levels(FULL, FULL)] * 3)
    assert asked_of(seen, STATIC.peer, STATIC.client) == STATIC
    assert asked_of(seen, ISSUED, ISSUED) == Links(ISSUED, ISSUED)
    half = lost_beside(*[Levels(MIDDLE, MIDDLE)] * 3)
    assert asked_of(half, STATIC.peer, ISSUED) == Links(replace(STATIC.peer, between=True), HALF)
    assert load_links(json.loads(dump_links(asked_of(half, ISSUED, ISSUED)))) == Links(HALF, HALF)


def test_pods_of_unknown_levels_leave_it_to_the_claims() -> None:
    seen = lost_beside(*[Levels(NONE, NONE)] * 3)
    seen = replace(seen, pods=tuple(replace(pod, levels=None) for pod in seen.pods))
    assert asked_of(seen, MANAGED, MANAGED) == Links(PLAINTEXT, MANAGED)


def test_pods_that_never_ran_do_not_bind_a_cluster_that_begins() -> None:
    seen = lost_beside(*[Levels(NONE, NONE)] * 3, etcd_started=False)
    assert asked_of(seen, MANAGED, MANAGED) == NO_TLS, "their claims are recorded"
    seen = replace(seen, claims=tuple(replace(one, record=None) for one in seen.claims))
    assert asked_of(seen, MANAGED, MANAGED) == BOTH


def test_volumes_without_a_record_tell_nothing() -> None:
    seen = replace(from_before(), secret=None, stateful_set=None, pods=())
    claims = tuple(replace(one, record=None) for one in seen.claims)
    assert of(replace(seen, claims=claims)) == BOTH


@pytest.mark.parametrize("text", ["{", "[]", '{"peer": {"mode": "Open"}, "client": {}}', "null"])
def test_a_stateful_set_with_an_unreadable_annotation_tells_nothing(text: str) -> None:
    before = replace(from_before(), secret=None)
    assert of(with_note(before, text)) == NO_TLS, "the claims say it"
    assert of(with_note(replace(formed(3).observe(), secret=None), text)) == BOTH


def test_a_record_keeps_the_links_and_an_old_record_has_none() -> None:
    record = records.first_attempt("u", {"c-0": "https://c-0:2380"}, "3.7.3", links=STATIC)
    text = dump_bootstrap(record)
    assert load_bootstrap(text) == record
    again = records.next_attempt(record, {"c-0": "https://c-0:2380"}, "3.7.3", BOTH)
    assert again.links == BOTH, "the spec may have been edited"
    old = records.first_attempt("u", {"c-0": "http://c-0:2380"}, "3.7.3")
    assert "links" not in dump_bootstrap(old), "plaintext is as it was"
    assert load_bootstrap(dump_bootstrap(old)).links == Links()
    with pytest.raises(BadRecord):
        load_bootstrap(text.replace('"Static"', '"Open"'))


@pytest.mark.parametrize("bad", [{}, {"peer": {}}, {"peer": {"mode": "x"}, "client": {"mode": 1}}])
def test_unreadable_links_are_not_taken_for_plaintext(bad: dict) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        load_links(bad)


def test_an_edit_to_other_certificates_is_reported_only_when_all_else_is_done() -> None:
    seen = links.with_recorded_links(began_with(BOTH))
    asked = replace(seen.cluster, requested_links=RequestedLinks(None, STATIC.client))
    step = links.unsupported_edit(replace(seen, cluster=asked))
    assert isinstance(step, Hold)
    assert step.reason == "TLSCannotChange"
    assert "clients have TLS with managed certificates, but spec.TLS asks for" in step.message
    assert "TLS with the certificates in Secret s and o" in step.message
    assert "turn TLS off in between" in step.message


@pytest.mark.parametrize(
    ("has", "asked"),
    [(Links(), RequestedLinks(ISSUED, ISSUED)), (Links(ISSUED, ISSUED), RequestedLinks(PLAINTEXT))],
)
def test_an_issuer_is_neither_added_nor_removed_while_members_run(
    has: Links, asked: RequestedLinks
) -> None:
    """Nothing checks what it has issued before members need it."""
    seen = links.with_recorded_links(began_with(has))
    step = links.unsupported_edit(
        replace(seen, cluster=replace(seen.cluster, requested_links=asked))
    )
    assert isinstance(step, Hold)
    assert step.reason == "TLSCannotChange"
    assert "TLS with certificates of Issuer ca" in step.message
    assert "revert the edit" in step.message


@pytest.mark.parametrize(
    ("has", "wished", "following"),
    [
        (PLAINTEXT, MANAGED, HALF),
        (HALF, MANAGED, MANAGED),
        (MANAGED, PLAINTEXT, HALF),
        (HALF, PLAINTEXT, PLAINTEXT),
        (MANAGED, HALF, HALF),
        (PLAINTEXT, HALF, HALF),
        (MANAGED, MANAGED, None),
        (HALF, HALF, None),
        (PLAINTEXT, PLAINTEXT, None),
        (MANAGED, STATIC.peer, None),
        (HALF, STATIC.peer, None),
        (PLAINTEXT, STATIC.peer, replace(STATIC.peer, between=True)),
        (STATIC.peer, Link("Static", "q"), None),
        (PLAINTEXT, ISSUED, None),
        (ISSUED, PLAINTEXT, None),
        (MANAGED, ISSUED, None),
    ],
)
def test_a_link_changes_by_one_level_at_a_time(
    has: Link, wished: Link, following: Link | None
) -> None:
    assert has.towards(wished) == following


def test_a_half_way_level_is_recorded_and_an_unknown_one_is_refused() -> None:
    half = Links(HALF, replace(STATIC.client, between=True))
    assert load_links(json.loads(dump_links(half))) == half
    assert '"mode": "ManagedAndPlaintext"' in dump_links(half)
    with pytest.raises(ValueError, match="not a mode of a link"):
        load_links({"peer": {"mode": "PlaintextAndPlaintext"}, "client": {"mode": "Managed"}})


def test_a_spec_without_tls_gets_managed_tls_which_is_recorded() -> None:
    world = World(body(3))
    drive(world, idle=2)
    assert world.record.links == BOTH


@pytest.mark.parametrize(
    ("tls", "wanted"),
    [
        ({"peer": "Plaintext"}, Links(PLAINTEXT, MANAGED)),
        ({"client": "Plaintext"}, Links(MANAGED, PLAINTEXT)),
        ({"static": {"member": {"peerSecret": "p"}}}, Links(STATIC.peer, MANAGED)),
        (OFF, NO_TLS),
    ],
)
def test_a_setting_of_one_link_does_not_change_the_other(tls: dict, wanted: Links) -> None:
    assert parse_cluster(body(3, TLS=tls)).links == wanted


def test_a_spec_with_tls_is_recorded_with_it() -> None:
    world = World(body(3, TLS={"peer": "Plaintext", "client": "Managed"}))
    drive(world, idle=2)
    assert world.record.links == Links(PLAINTEXT, MANAGED)
