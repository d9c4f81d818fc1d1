"""TLS is turned on and off in a serving cluster, from any point and back again.

`SwitchWorld` checks after each step that members can connect, even if they were restarted.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from world_switch import BOTH, OFF, ON, SwitchWorld
from worlds import Conflict, Json, drive, is_write, labels

from etcd_stateful.api.auth import Auth
from etcd_stateful.api.tls import MANAGED, NO_TLS, PLAINTEXT, Level, Levels, Link, Links
from etcd_stateful.membership.irreversible import is_final
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import (
    DeletePod,
    Hold,
    IssueCertificate,
    MemberAddLearner,
    MemberUpdate,
    RecordMember,
    Settled,
    Step,
    Wait,
    WriteBootstrap,
)
from etcd_stateful.membership.tls import tls_switch
from etcd_stateful.membership.upkeep.accounts import AuthView
from etcd_stateful.membership.upkeep.space import MIB
from etcd_stateful.observed.certificates import Certificate
from etcd_stateful.observed.members import Alarm

WITH_TLS = Links(MANAGED, MANAGED)
HALF = Link("Managed", between=True)
FULL = {Levels(Level.TLS, Level.TLS)}
NONE = {Levels(Level.PLAINTEXT, Level.PLAINTEXT)}

ENDS: list[tuple[Json, Json]] = [(OFF, ON), (ON, OFF)]


def began(tls: Json, size: int = 3, **spec: object) -> SwitchWorld:
    world = SwitchWorld(size, TLS=tls, **spec)
    assert drive(world, idle=2) == Settled()
    world.history.clear()
    return world


def go(world: SwitchWorld, steps: int) -> bool:
    """Makes so many passes; where one has nothing to write, the world runs for a round instead.
    Returns false once everything is at rest."""
    for _ in range(steps):
        seen = world.observe()
        step = decide(seen)
        if step == Settled() and not tls_switch.under_way(seen):
            return False
        world.apply(step) if is_write(step) else world.turn()
    return True


def walk(at_first: Json, then: Json, every: int) -> Iterator[SwitchWorld]:
    """Copies of the world at many moments of a change, each of which a test may continue."""
    world, moments = began(at_first), 0
    world.edit(TLS=then)
    while go(world, every):
        moments += 1
        yield copy.deepcopy(world)
    assert moments * every > 20
    assert world.record.links == (NO_TLS if then == OFF else WITH_TLS)
    assert world.levels == (NONE if then == OFF else FULL)


def arrived(world: SwitchWorld, tls: Json) -> None:
    """Asserts that the world comes to rest as declared, and that nothing is left of what was
    before."""
    assert drive(world, idle=8) == Settled()
    scheme = "http" if tls == OFF else "https"
    assert world.record.links == (NO_TLS if tls == OFF else WITH_TLS)
    assert world.levels == (NONE if tls == OFF else FULL)
    assert world.schemes == {scheme}
    if world.cluster.durable:
        assert world.claimed == {scheme}
    assert tls_switch.under_way(world.observe()) == ""


class TestEarlierSecret:
    """The Secret was restored from a backup that is older than the last change of TLS."""

    def restored(self, at_first: Json, then: Json, size: int) -> SwitchWorld:
        world = began(at_first, size)
        kept = world.record
        world.edit(TLS=then)
        arrived(world, then)
        world.secret = (world.secret[0] + 1, kept)
        world.history.clear()
        return world

    @pytest.mark.parametrize("size", [1, 3])
    @pytest.mark.parametrize(("at_first", "then"), ENDS, ids=["on", "off"])
    def test_restarted_members_could_not_be_reached(
        self, at_first: Json, then: Json, size: int
    ) -> None:
        """Or they served clients in plaintext, where the spec asks for TLS."""
        world = self.restored(at_first, then, size)

        arrived(world, then)
        assert {type(step) for step in world.history} == {WriteBootstrap}

    def test_one_pod_that_differs_proves_nothing(self) -> None:
        seen = self.restored(OFF, ON, 3).observe()
        first, *others = seen.pods
        bare = replace(first, levels=Levels(Level.PLAINTEXT, Level.PLAINTEXT))

        assert tls_switch.correct_record(seen) is not None
        assert tls_switch.correct_record(replace(seen, pods=(bare, *others))) is None
        assert tls_switch.correct_record(replace(seen, pods=())) is None

    def test_half_way_through_a_change_the_record_is_not_put_back(self) -> None:
        for at_first, then in ENDS:
            for world in walk(at_first, then, 1):
                assert tls_switch.correct_record(world.observe()) is None


def kinds(steps: list[Step]) -> list[str]:
    """A chain in short: steps of one kind in a row count once."""
    told: list[str] = []
    for step in steps:
        kind = type(step).__name__
        if not told or told[-1] != kind:
            told.append(kind)
    return told


class TestWholeChains:
    @pytest.mark.parametrize("size", [1, 2, 3, 5])
    @pytest.mark.parametrize(("at_first", "then"), ENDS)
    def test_a_change_takes_two_restarts_of_each_member(
        self, size: int, at_first: Json, then: Json
    ) -> None:
        world = began(at_first, size)
        world.edit(TLS=then)
        arrived(world, then)
        restarts = [one.name for one in world.history if isinstance(one, DeletePod)]
        assert sorted(restarts) == sorted([f"c-{one}" for one in range(size)] * 2)
        assert sum(isinstance(one, MemberUpdate) for one in world.history) == 2 * size

    def test_the_chain_on(self) -> None:
        world = began(OFF)
        world.edit(TLS=ON)
        arrived(world, ON)
        assert kinds([one for one in world.history if type(one).__name__ != "MoveLeader"]) == [
            "WriteBootstrap",  # between
            "IssueCertificate",
            "ApplyChild",
            "IssueCertificate",  # of the operator and of applications
            "DeletePod",
            "MemberUpdate",  # to both URLs
            "WriteBootstrap",  # TLS
            "ApplyChild",
            "DeletePod",
            "RecordMember",
            "MemberUpdate",  # to https alone
        ]

    def test_the_chain_off(self) -> None:
        world = began(ON)
        world.edit(TLS=OFF)
        arrived(world, OFF)
        assert kinds([one for one in world.history if type(one).__name__ != "MoveLeader"]) == [
            "WriteBootstrap",  # clients: between, which asks nothing of members
            "ApplyChild",
            "MemberUpdate",  # to both URLs
            "WriteBootstrap",  # peers: between
            "ApplyChild",
            "DeletePod",
            "WriteBootstrap",  # plaintext
            "ApplyChild",
            "RecordMember",
            "MemberUpdate",  # to http alone
            "DeletePod",
        ]

    @pytest.mark.parametrize(("at_first", "then"), ENDS)
    @pytest.mark.parametrize("link", ["peer", "client"])
    def test_one_link_alone(self, at_first: Json, then: Json, link: str) -> None:
        world = began(at_first)
        world.edit(TLS={**at_first, link: then[link]})
        assert drive(world, idle=8) == Settled()
        wanted = MANAGED if then == ON else PLAINTEXT
        other = PLAINTEXT if then == ON else MANAGED
        assert world.record.links == (
            Links(wanted, other) if link == "peer" else Links(other, wanted)
        )
        assert any(isinstance(one, MemberUpdate) for one in world.history) is (link == "peer")

    def test_with_an_empty_dir_members_are_replaced_and_join_by_their_present_urls(
        self,
    ) -> None:
        world = began(OFF, pod={"emptyDir": {}})
        world.edit(TLS=ON)
        arrived(world, ON)
        world.edit(TLS=OFF)
        arrived(world, OFF)

    def test_turned_on_again_it_uses_the_same_authorities(self) -> None:
        world = began(OFF)
        world.edit(TLS=ON)
        arrived(world, ON)
        before = {name: one.signs for name, one in world.authorities.items()}
        for then in (OFF, ON):
            world.edit(TLS=then)
            arrived(world, then)
        assert {name: one.signs for name, one in world.authorities.items()} == before

    def test_an_authority_that_was_lost_while_tls_was_off_is_recreated(self) -> None:
        world = began(ON)
        world.edit(TLS=OFF)
        arrived(world, OFF)
        del world.authorities["c-peer-ca"], world.leaves["c-peer-tls"]
        world.edit(TLS=ON)
        arrived(world, ON)

    @pytest.mark.parametrize("stranger", [None, "stranger"])
    def test_turning_tls_off_and_on_replaces_a_lost_authority(self, stranger: str | None) -> None:
        world = began(ON)
        one = world.authorities.pop("c-peer-ca")
        if stranger:
            world.authorities["c-peer-ca"] = replace(one, signs=stranger, version=1000)
        go(world, 5)
        assert not [one for one in world.history if isinstance(one, IssueCertificate)]

        world.edit(TLS=OFF)
        arrived(world, OFF)
        world.edit(TLS=ON)
        arrived(world, ON)

        assert (
            world.leaves["c-peer-tls"].now.by == world.authorities["c-peer-ca"].signs != one.signs
        )


class TestHalfWay:
    """The spec is changed back after so many passes, anywhere in the chain."""

    @pytest.mark.parametrize(("at_first", "then"), ENDS)
    def test_it_goes_back_from_anywhere(self, at_first: Json, then: Json) -> None:
        for world in walk(at_first, then, every=3):
            world.edit(TLS=at_first)
            arrived(world, at_first)

    @pytest.mark.parametrize(("at_first", "then"), ENDS)
    def test_it_changes_direction_twice(self, at_first: Json, then: Json) -> None:
        for at, world in enumerate(walk(at_first, then, every=5)):
            world.edit(TLS=at_first)
            go(world, 2 + 3 * at)
            world.edit(TLS=then)
            arrived(world, then)

    def test_removing_the_field_half_way_continues_to_tls(self) -> None:
        world = began(OFF)
        world.edit(TLS=ON)
        go(world, 20)
        del world.body["spec"]["TLS"]
        world.edit()
        arrived(world, ON)

    def test_removing_the_field_before_anything_was_done_changes_nothing(self) -> None:
        world = began(OFF)
        del world.body["spec"]["TLS"]
        world.edit()
        arrived(world, OFF)

    @pytest.mark.parametrize("size", [1, 3])
    def test_back_from_a_pod_that_cannot_start_with_its_certificates(self, size: int) -> None:
        world = began(OFF, size)
        world.edit(TLS=ON)
        for _ in range(100):
            step = decide(world.observe())
            world.apply(step) if is_write(step) else world.turn()
            given = [one for one in world.pods.values() if one.levels not in (*NONE, None)]
            if given:
                break
        for pod in given:
            pod.silent = True
        for _ in range(8):
            step = decide(world.observe())
            world.apply(step) if is_write(step) else world.turn()
        assert world.record.links.peer == HALF
        assert len([one for one in world.pods.values() if one.levels in NONE]) == size - 1
        world.edit(TLS=OFF)
        arrived(world, OFF)

    @pytest.mark.parametrize("size", [1, 3])
    def test_back_from_a_pod_that_cannot_listen_with_tls(self, size: int) -> None:
        world = began(OFF, size)
        world.edit(TLS=ON)
        for _ in range(200):
            step = decide(world.observe())
            world.apply(step) if is_write(step) else world.turn()
            given = [p for p in world.pods.values() if p.levels and p.levels.peer is Level.TLS]
            if given:
                break
        for pod in given:
            pod.silent = True
        world.turn()
        world.edit(TLS=OFF)
        arrived(world, OFF)


class TestTrouble:
    @pytest.mark.parametrize(("at_first", "then"), ENDS)
    def test_a_volume_lost_at_any_moment_is_replaced_and_the_change_continues(
        self, at_first: Json, then: Json
    ) -> None:
        every_step(at_first, then, lambda world: world.empty(1))

    @pytest.mark.parametrize(("at_first", "then"), ENDS)
    def test_the_secret_lost_at_any_moment(self, at_first: Json, then: Json) -> None:
        every_step(at_first, then, SwitchWorld.lose_secret)

    @pytest.mark.parametrize(("at_first", "then"), ENDS)
    def test_the_stateful_set_deleted_at_any_moment(self, at_first: Json, then: Json) -> None:
        every_step(at_first, then, lambda world: world.delete_stateful_set(with_pods=True))

    @pytest.mark.parametrize(("at_first", "then"), ENDS)
    def test_all_pods_recreated_at_any_moment(self, at_first: Json, then: Json) -> None:
        def restart(world: SwitchWorld) -> None:
            for ordinal in world.pods:
                world.restart_pod(ordinal)

        every_step(at_first, then, restart)

    @pytest.mark.parametrize(("at_first", "then"), ENDS)
    @pytest.mark.parametrize("size", [1, 5])
    def test_resized_at_any_moment(self, at_first: Json, then: Json, size: int) -> None:
        every_step(at_first, then, lambda world: world.edit(size=size))

    @pytest.mark.parametrize(("at_first", "then"), ENDS)
    def test_a_new_version_requested_at_any_moment(self, at_first: Json, then: Json) -> None:
        every_step(at_first, then, lambda world: world.edit(version="3.7.4"))

    @pytest.mark.parametrize(("at_first", "then"), ENDS)
    def test_an_operator_with_a_slightly_old_view_does_no_harm(
        self, at_first: Json, then: Json
    ) -> None:
        world = began(at_first)
        world.edit(TLS=then)
        before = world.observe()
        for _ in range(400):
            step = decide(before)
            before = world.observe()
            if is_final(step) and decide(before) != step:
                continue
            if is_write(step):
                with contextlib.suppress(Conflict):
                    world.apply(step)
            elif step == Settled():
                break
            else:
                world.turn()
        arrived(world, then)


def every_step(at_first: Json, then: Json, what: Callable[[SwitchWorld], None]) -> None:
    for world in walk(at_first, then, every=7):
        what(world)
        arrived(world, then)


class TestClients:
    def test_both_are_served_as_long_as_the_spec_says_so(self) -> None:
        world = began(OFF)
        world.edit(TLS=BOTH)
        assert drive(world, idle=8) == Settled()
        assert world.record.links == Links(MANAGED, HALF)
        assert world.levels == {Levels(Level.TLS, Level.BETWEEN)}
        assert tls_switch.under_way(world.observe()) == ""
        world.edit(TLS=ON)
        arrived(world, ON)
        world.edit(TLS=BOTH)
        assert drive(world, idle=8) == Settled()
        assert world.levels == {Levels(Level.TLS, Level.BETWEEN)}
        world.edit(TLS=OFF)
        arrived(world, OFF)

    def test_a_cluster_may_begin_with_both(self) -> None:
        assert began(BOTH).levels == {Levels(Level.TLS, Level.BETWEEN)}

    def test_authentication_keeps_client_tls_and_says_so(self) -> None:
        world = began(ON)
        world.edit(TLS=OFF)
        seen = replace(world.observe(), auth=AuthView(enabled=True, users={}, roles={}))
        step = decide(seen)
        while is_write(step):
            world.apply(step)
            seen = replace(world.observe(), auth=AuthView(enabled=True, users={}, roles={}))
            step = decide(seen)
        asked = replace(seen, cluster=replace(seen.cluster, auth=Auth((), ())))
        held = tls_switch.why_not_changed(asked)
        assert isinstance(held, Hold)
        assert held.reason == "AuthenticationNeedsTLS"
        assert "Remove spec.auth first" in held.message

    def test_client_tls_stays_until_etcd_says_whether_authentication_is_on(self) -> None:
        world = began(ON)
        world.edit(TLS=OFF)
        seen = world.observe()

        assert tls_switch.next_links(seen).client.level is Level.BETWEEN
        assert tls_switch.next_links(replace(seen, auth=None)).client.level is Level.TLS

    @pytest.mark.parametrize("told", [{}, {"etcd": None, "denied": "permission denied"}])
    def test_once_plaintext_was_allowed_it_was_turned_off_under_users_made_by_hand(
        self, told: dict[str, Any]
    ) -> None:
        """etcd tells only root whether authentication is on, and the operator's certificate had
        another name. Nobody was let in by certificate any more."""
        world = began(BOTH)
        world.edit(TLS=OFF)
        seen = replace(world.observe(), auth=None, **told)

        assert tls_switch.next_links(seen).client.level is Level.BETWEEN

    def test_nothing_said_why_it_is_not_turned_off(self) -> None:
        world = began(ON)
        world.edit(TLS={**ON, "client": "Plaintext"})

        step = decide(replace(world.observe(), auth=None))

        assert isinstance(step, Wait)
        assert "whether authentication is on" in step.reason
        assert "common name root" in step.reason


class TestConditionsForASwitch:
    def test_nothing_is_done_while_paused(self) -> None:
        world = began(OFF)
        world.edit(TLS=ON, paused=True)
        step = decide(world.observe())
        assert isinstance(step, Hold)
        assert step.reason == "Paused"

    def test_it_waits_for_an_alarm_and_says_so(self) -> None:
        world = began(OFF)
        world.edit(TLS=ON)
        seen = replace(world.observe(), alarms=(Alarm("NOSPACE", 1),))
        assert tls_switch.towards_tls(seen) is None
        step = tls_switch.waiting_for(seen)
        assert isinstance(step, Wait)
        assert "spec.TLS" in step.reason

    def test_an_edit_of_tls_kept_full_members_from_being_defragmented(self) -> None:
        """TLS waited for the alarm, and the alarm for what is done after TLS."""
        world = began(OFF)
        world.etcd.sizes = dict.fromkeys(world.etcd.members, (2048 * MIB, 500 * MIB))
        world.etcd.alarms = [Alarm("NOSPACE", min(world.etcd.members))]
        world.edit(TLS=ON)
        arrived(world, ON)
        assert world.etcd.alarms == []

    def test_an_edit_of_tls_hid_that_etcd_refuses_writes(self) -> None:
        world = began(OFF)
        world.etcd.sizes = dict.fromkeys(world.etcd.members, (2048 * MIB, 2000 * MIB))
        world.etcd.alarms = [Alarm("NOSPACE", min(world.etcd.members))]
        world.edit(TLS=ON)
        step = decide(world.observe())
        assert isinstance(step, Hold)
        assert step.reason == "NoSpace"

    def test_a_learner_keeps_its_urls(self) -> None:
        """After such an update, etcd took a learner for a voter."""
        world = began(OFF)
        world.edit(TLS=ON)
        while not isinstance(step := decide(world.observe()), MemberUpdate):
            world.apply(step) if is_write(step) else world.turn()
        seen = world.observe()
        assert seen.etcd is not None
        first, *rest = seen.etcd.members
        learning = replace(seen.etcd, members=(replace(first, learner=True), *rest))
        assert tls_switch.update_peer_urls(replace(seen, etcd=learning)) is None

    def test_user_provided_certificates_are_checked_before_anything_needs_them(
        self,
    ) -> None:
        world = began(OFF)
        world.edit(TLS={"static": {"member": {"peerSecret": "p"}}, "client": "Plaintext"})
        step = decide(world.observe())
        assert isinstance(step, Hold)
        assert step.reason == "CertificatesUnusable"
        assert "Secret p" in step.message
        good = with_secret(world.observe(), "p", "peer")
        assert isinstance(decide(good), WriteBootstrap)

    def test_it_can_go_back_although_the_certificates_have_become_unusable(self) -> None:
        world = began(OFF)
        world.edit(TLS={"static": {"member": {"peerSecret": "p"}}, "client": "Plaintext"})
        for _ in range(3):
            world.apply(decide(with_secret(world.observe(), "p", "peer")))
            if world.record.links != NO_TLS:
                break
        world.apply(decide(world.observe()))  # the template follows
        world.edit(TLS=OFF)
        step = decide(world.observe())
        assert isinstance(step, WriteBootstrap)
        assert step.record.links == NO_TLS
        world.apply(step)
        arrived(world, OFF)

    def test_nothing_is_done_in_a_cluster_that_is_as_declared(self) -> None:
        seen = began(ON).observe()
        assert tls_switch.towards_plaintext(seen) is None
        assert tls_switch.update_peer_urls(seen) is None
        assert tls_switch.towards_tls(seen) is None
        assert tls_switch.why_not_changed(seen) is None


def with_secret(seen: Observation, name: str, role: str) -> Observation:
    assert seen.certificates is not None
    held = {**seen.certificates.secrets, name: {role: Certificate("1", ends=1e12)}}
    return replace(seen, certificates=replace(seen.certificates, secrets=held))  # type: ignore[arg-type]


def test_without_a_member_list_only_the_claims_can_replace_it() -> None:
    world = began(ON, 1)
    world.edit(TLS={"peer": "Plaintext", "client": "Managed"})
    seen = replace(world.observe(), etcd=None, statuses={})
    assert tls_switch.towards_plaintext(seen) is None, (
        "its claim says https, and nobody that it has another"
    )
    while not isinstance(step := decide(world.observe()), WriteBootstrap):
        world.apply(step)
    seen = replace(world.observe(), etcd=None, statuses={})
    assert tls_switch.towards_plaintext(seen) is None


def test_claims_are_recorded_before_the_last_url_of_the_old_scheme_is_removed() -> None:
    world = began(OFF)
    world.edit(TLS=ON)
    arrived(world, ON)
    last = [one for one in world.history if isinstance(one, RecordMember | MemberUpdate)]
    assert labels(last[3:6]) == [f"record data-c-{one}" for one in range(3)]
    assert all(isinstance(one, MemberUpdate) and len(one.peer_urls) == 1 for one in last[6:])


def half_way() -> SwitchWorld:
    """Every member has both URLs, and none listens with TLS yet."""
    world = began(OFF)
    world.edit(TLS=ON)
    while world.schemes != {"http+https"}:
        step = decide(world.observe())
        world.apply(step) if is_write(step) else world.turn()
    return world


def test_no_member_listens_with_tls_before_all_have_a_url_for_it() -> None:
    world = half_way()
    while not isinstance(step := decide(world.observe()), WriteBootstrap):
        world.apply(step) if is_write(step) else world.turn()
    seen = world.observe()
    assert step.record.links.peer == MANAGED
    assert seen.etcd is not None
    first, *rest = seen.etcd.members
    bare = replace(first, peer_urls=first.peer_urls[:1])
    view = replace(seen.etcd, members=(bare, *rest))
    other = tls_switch.towards_tls(replace(seen, etcd=view))
    assert isinstance(other, WriteBootstrap)
    assert other.record.links == Links(HALF, MANAGED), "clients need no such thing"


def test_a_member_that_joins_half_way_gets_both_urls() -> None:
    world = half_way()
    world.empty(1)
    while not isinstance(step := decide(world.observe()), MemberAddLearner):
        world.apply(step) if is_write(step) else world.turn()
    assert {step.peer_url, *step.other_peer_urls} == {
        f"{scheme}://c-1.c.ns.svc:2380" for scheme in ("http", "https")
    }
