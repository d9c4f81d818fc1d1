"""Which links a cluster has: what it began with, from whatever is left of the records."""

from __future__ import annotations

from dataclasses import replace

import pytest
from worlds import World, body, drive, formed

from etcd_stateful.api.tls import (
    MANAGED,
    PLAINTEXT,
    Link,
    Links,
    Wishes,
    dump_links,
    load_links,
)
from etcd_stateful.membership import links, records
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.records import BadRecord
from etcd_stateful.membership.steps import Hold

BOTH = Links(MANAGED, MANAGED)
STATIC = Links(Link("Static", "p"), Link("Static", "s", "o"))


def began_with(wanted: Links, **spec: object) -> Observation:
    """A settled cluster, as if it had begun with these links."""
    seen = formed(3, **spec).observe()
    assert seen.secret is not None
    assert seen.secret.bootstrap is not None
    record = replace(seen.secret.bootstrap, links=wanted)
    return replace(seen, secret=replace(seen.secret, bootstrap=record))


def of(seen: Observation) -> Links:
    return links.settled(seen).cluster.links


@pytest.mark.parametrize("wanted", [BOTH, STATIC, Links(), Links(MANAGED, PLAINTEXT)])
def test_the_record_wins_over_everything(wanted: Links) -> None:
    seen = began_with(wanted)
    assert of(seen) == wanted
    assert of(replace(seen, stateful_set=None)) == wanted
    asked = replace(seen.cluster, wished_links=Wishes(PLAINTEXT, MANAGED))
    assert of(replace(seen, cluster=asked)) == wanted


def test_a_record_of_another_cluster_says_nothing() -> None:
    seen = began_with(BOTH)
    assert seen.secret is not None
    assert seen.secret.bootstrap is not None
    record = replace(seen.secret.bootstrap, cluster_uid="another")
    assert of(replace(seen, secret=replace(seen.secret, bootstrap=record))) == Links()


def test_without_a_record_the_stateful_set_says_it() -> None:
    seen = replace(began_with(BOTH), secret=None)
    live = dict(seen.stateful_set or {})
    notes = {**live["metadata"]["annotations"], "etcd.database.coreos.com/links": dump_links(BOTH)}
    live["metadata"] = {**live["metadata"], "annotations": notes}
    assert of(replace(seen, stateful_set=live)) == BOTH
    assert of(seen) == Links(), "one that says nothing is of before TLS"


def test_without_both_the_claims_say_how_peers_are_reached() -> None:
    seen = replace(began_with(BOTH), secret=None, stateful_set=None)
    claims = tuple(
        replace(one, record=replace(one.record, peer_scheme="https"))
        for one in seen.claims
        if one.record
    )
    assert len(claims) == 3
    assert of(replace(seen, claims=claims)).peer == MANAGED
    own = replace(seen.cluster, wished_links=Wishes(STATIC.peer, None))
    assert of(replace(seen, claims=claims, cluster=own)).peer == STATIC.peer
    asked = replace(seen.cluster, wished_links=Wishes(MANAGED, MANAGED))
    assert of(replace(seen, cluster=asked)) == Links(PLAINTEXT, MANAGED), "their data says http"


def test_a_stateful_set_whose_annotation_cannot_be_read_says_nothing() -> None:
    seen = replace(began_with(BOTH), secret=None)
    live = dict(seen.stateful_set or {})
    for text in ("{", "[]", '{"peer": {"mode": "Open"}, "client": {"mode": "Open"}}', "null"):
        notes = {**live["metadata"]["annotations"], "etcd.database.coreos.com/links": text}
        live["metadata"] = {**live["metadata"], "annotations": notes}
        assert of(replace(seen, stateful_set=live)) == Links()


def test_a_record_keeps_the_links_and_an_old_one_has_none() -> None:
    record = records.first_attempt("u", {"c-0": "https://c-0:2380"}, "3.7.3", links=STATIC)
    text = records.dump_bootstrap(record)
    assert records.load_bootstrap(text) == record
    assert records.next_attempt(record, {"c-0": "https://c-0:2380"}).links == STATIC
    old = records.first_attempt("u", {"c-0": "http://c-0:2380"}, "3.7.3")
    assert "links" not in records.dump_bootstrap(old), "plaintext is as it was"
    assert records.load_bootstrap(records.dump_bootstrap(old)).links == Links()
    with pytest.raises(BadRecord):
        records.load_bootstrap(text.replace('"Static"', '"Open"'))


@pytest.mark.parametrize("bad", [{}, {"peer": {}}, {"peer": {"mode": "x"}, "client": {"mode": 1}}])
def test_links_that_cannot_be_read_do_not_pass_for_plaintext(bad: dict) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        load_links(bad)


def test_an_edit_is_told_of_last_when_all_else_is_done() -> None:
    seen = links.settled(began_with(Links(), TLS={"peer": "Plaintext", "client": "Plaintext"}))
    asked = replace(seen.cluster, wished_links=Wishes(MANAGED, STATIC.client))
    step = decide(replace(seen, cluster=asked))
    assert isinstance(step, Hold)
    assert step.reason == "TLSCannotChange"
    assert "peers are plaintext, and spec.TLS asks for TLS with managed certificates" in (
        step.message
    )
    assert "TLS with the certificates in Secret s and o" in step.message


def test_a_spec_with_tls_is_recorded_with_it() -> None:
    world = World(body(3, TLS={"peer": "Plaintext", "client": "Managed"}))
    drive(world, idle=2)
    assert world.record.links == Links(PLAINTEXT, MANAGED)
