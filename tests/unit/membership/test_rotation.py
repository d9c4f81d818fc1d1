"""Rotation of an authority: the order of its steps, when it waits, and that no client notices."""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from world_certificates import OVERLAP, TURN, Authority, CertificateWorld
from worlds import Conflict, drive, is_write, labels

from etcd_stateful.certificates import AUTHORITY_SECONDS, DAY
from etcd_stateful.membership.irreversible import is_final
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import (
    DeletePod,
    Hold,
    IssueCertificate,
    RotateAuthority,
    Settled,
    Step,
)
from etcd_stateful.membership.tls import certificates
from etcd_stateful.membership.tls.rotation import KUBELET_SECONDS
from etcd_stateful.observed.members import Alarm
from etcd_stateful.observed.objects import Foreign
from etcd_stateful.status.conditions import all_conditions
from etcd_stateful.status.outcome import Outcome

TURNS = ["begin", "take over", "end"]
LONG = int((KUBELET_SECONDS + OVERLAP) / TURN) + 2


def settled(size: int = 3, **spec: object) -> CertificateWorld:
    world = CertificateWorld(size, **spec)
    assert rest(world) == Settled()
    world.history.clear()
    return world


def rest(world: CertificateWorld) -> Step:
    return drive(world, idle=4 * LONG, limit=2000)


def said(steps: list[Step]) -> list[str]:
    return [_label(step) for step in steps]


def _label(step: Step) -> str:
    match step:
        case RotateAuthority(need=need, kind=turn):
            return f"{turn} {need.secret}"
        case IssueCertificate(need=need):
            return f"issue {need.secret}"
        case _:
            return labels([step])[0]


def turns(world: CertificateWorld) -> list[str]:
    return [step.kind for step in world.history if isinstance(step, RotateAuthority)]


def restarts(world: CertificateWorld) -> Counter[str]:
    return Counter(step.name for step in world.history if isinstance(step, DeletePod))


def until_turn(world: CertificateWorld, turn: str) -> RotateAuthority:
    """Continues until just before this turn of the rotation."""
    for _ in range(500):
        step = decide(world.observe())
        if isinstance(step, RotateAuthority) and step.kind == turn:
            return step
        world.apply(step) if is_write(step) else world.turn()
    raise AssertionError(f"never came to {turn}; at last {said(world.history[-6:])}")


class TestChain:
    def test_peers(self) -> None:
        world = settled()
        world.wish(peer=2)

        assert rest(world) == Settled()

        order = [one for one in said(world.history) if one.partition(" ")[0] != "lead"]
        restart = ["StatefulSet c", *(f"restart c-{one}" for one in (2, 1, 0))]
        leader = [one for one in order if one.startswith("restart")]
        assert sorted(leader[:3]) == sorted(leader[3:]) == sorted(restart[1:])
        assert [one for one in order if not one.startswith("restart")] == [
            "begin c-peer-ca",
            "issue c-peer-tls",
            "StatefulSet c",
            "take over c-peer-ca",
            "issue c-peer-tls",
            "end c-peer-ca",
            "issue c-peer-tls",
            "StatefulSet c",
        ]

    def test_clients(self) -> None:
        world = settled()
        world.wish(client=2)

        assert rest(world) == Settled()

        order = [one for one in said(world.history) if one.split()[0] not in ("lead", "restart")]
        mounted, shown = "issue c-server-tls", ["issue c-operator-tls", "issue c-client-tls"]
        assert order == [
            *("begin c-client-ca", mounted, "StatefulSet c", *shown),
            *("take over c-client-ca", mounted, *shown),
            *("end c-client-ca", mounted, "StatefulSet c", *shown),
        ]
        assert world.authorities["c-client-ca"].generation == 2

    def test_both_at_once_cost_each_member_two_restarts(self) -> None:
        world = settled()
        world.wish(peer=2, client=2)

        assert rest(world) == Settled()

        assert turns(world) == [one for one in TURNS for _ in range(2)]
        assert set(restarts(world).values()) == {2}

    def test_the_faster_rotation_waits_for_the_other(self) -> None:
        """Otherwise members would be restarted once for each of them."""
        world = settled()
        world.wish(peer=2, client=2)
        until_turn(world, "take over")
        for _ in range(2):
            world.apply(decide(world.observe()))
        for _ in range(12):
            step = decide(world.observe())
            world.apply(step) if is_write(step) else world.turn()
        del world.leaves["c-operator-tls"]

        assert rest(world) == Settled()

        assert set(restarts(world).values()) == {2}

    def test_taking_over_restarts_nothing(self) -> None:
        world = settled()
        world.wish(peer=2, client=2)
        until_turn(world, "take over")
        world.history.clear()
        until_turn(world, "end")
        assert not restarts(world)

    def test_a_cluster_of_one(self) -> None:
        world = settled(1)
        world.wish(peer=2, client=2)
        assert rest(world) == Settled()
        assert restarts(world) == {"c-0": 2}

    def test_one_rotation_after_another(self) -> None:
        world = settled()
        for generation in (2, 3, 4):
            world.wish(peer=generation, client=generation)
            world.history.clear()
            assert rest(world) == Settled()
            assert turns(world) == [one for one in TURNS for _ in range(2)]
        assert {one.generation for one in world.authorities.values()} == {4}
        assert all(len(one.pins) <= 2 for one in world.leaves.values())

    def test_a_number_that_is_reached_already_changes_nothing(self) -> None:
        world = settled()
        world.wish(peer=1, client=1)
        rest(world)
        assert not turns(world)

    def test_a_number_may_skip_ahead_and_never_goes_back(self) -> None:
        world = settled()
        world.wish(peer=40)
        rest(world)
        assert world.authorities["c-peer-ca"].generation == 40
        world.wish(peer=3)
        world.history.clear()
        rest(world)
        assert not turns(world)

    def test_a_new_cluster_begins_with_its_number(self) -> None:
        world = settled(TLS={"rotation": {"peer": 7, "overlapSeconds": OVERLAP}})
        rest(world)
        assert not turns(world)
        assert not restarts(world)
        assert world.authorities["c-peer-ca"].generation == 7

    def test_a_rotation_that_has_begun_is_finished_whatever_the_spec_says(self) -> None:
        world = settled()
        world.wish(peer=2)
        world.apply(until_turn(world, "begin"))
        world.wish()
        rest(world)
        assert turns(world) == TURNS


class TestByAge:
    def test_at_two_thirds_of_its_life_and_not_before(self) -> None:
        world = settled()
        world.now += AUTHORITY_SECONDS * 2 / 3 - DAY
        drive(world, idle=3)
        assert not turns(world)
        world.now += 2 * DAY
        rest(world)
        assert turns(world) == [one for one in TURNS for _ in range(2)]
        assert set(restarts(world).values()) == {2}, "both go together"
        world.history.clear()
        rest(world)
        assert not turns(world)

    def test_an_authority_that_is_due_soon_is_rotated_along(self) -> None:
        world = settled()
        world.authorities["c-client-ca"].begins += DAY
        world.now += AUTHORITY_SECONDS * 2 / 3
        rest(world)
        assert set(restarts(world).values()) == {2}

    def test_a_young_authority_is_not(self) -> None:
        world = settled()
        world.wish(client=2)
        rest(world)
        world.history.clear()
        world.now = world.authorities["c-peer-ca"].begins + AUTHORITY_SECONDS * 2 / 3
        world.authorities["c-client-ca"].begins += 100 * DAY
        rest(world)
        assert {
            step.need.secret for step in world.history if isinstance(step, RotateAuthority)
        } == {"c-peer-ca"}


class TestTime:
    def test_clients_have_the_overlap_before_the_successor_signs(self) -> None:
        world = settled(TLS={"rotation": {"client": 1, "overlapSeconds": 1000}})
        world.edit(TLS={"rotation": {"client": 2, "overlapSeconds": 1000}})
        until_turn(world, "take over")
        assert world.now >= world.leaves["c-client-tls"].now.since + 1000

    def test_and_again_before_the_old_authority_is_dropped(self) -> None:
        world = settled()
        world.edit(TLS={"rotation": {"client": 2, "overlapSeconds": 1000}})
        world.apply(until_turn(world, "take over"))
        until_turn(world, "end")
        assert world.now >= world.leaves["c-client-tls"].now.since + 1000

    def test_kubelets_have_their_time_whatever_the_overlap(self) -> None:
        world = settled()
        world.edit(TLS={"rotation": {"peer": 2, "overlapSeconds": 0}})
        world.apply(until_turn(world, "take over"))
        until_turn(world, "end")
        assert world.now >= world.leaves["c-peer-tls"].now.since + KUBELET_SECONDS


def is_away(world: CertificateWorld) -> None:
    world.pods[1].silent = True


def stays_pending(world: CertificateWorld) -> None:
    world.stuck.add(1)
    world.restart_pod(1)


def is_cut_off(world: CertificateWorld) -> None:
    world.cut_off = True


def is_paused(world: CertificateWorld) -> None:
    world.edit(paused=True)


@pytest.mark.parametrize("happens", [is_away, stays_pending, is_cut_off, is_paused])
@pytest.mark.parametrize("turn", TURNS)
def test_no_turn_while_something_is_wrong_or_the_cluster_is_paused(
    turn: str, happens: Callable[[CertificateWorld], None]
) -> None:
    world = settled()
    world.wish(peer=2, client=2)
    until_turn(world, turn)
    before = len(turns(world))
    happens(world)
    for _ in range(LONG):
        step = decide(world.observe())
        world.apply(step) if is_write(step) else world.turn()
    assert len(turns(world)) == before


@pytest.mark.parametrize("turn", TURNS)
def test_other_operations_come_first(turn: str) -> None:
    """The rotation continues when they are done."""
    for edit in ({"size": 5}, {"size": 1}, {"version": "3.7.3"}):
        world = settled(**({"version": "3.7.2"} if "version" in edit else {}))
        world.wish(peer=2, client=2)
        until_turn(world, turn)
        at = len(world.history)
        world.edit(**edit)
        assert rest(world) == Settled()
        assert turns(world) == [one for one in TURNS for _ in range(2)]
        following = said(world.history[at:])
        turned = next(at for at, one in enumerate(following) if one.startswith(turn))
        other = next(
            at
            for at, one in enumerate(following)
            if one.startswith(("add", "remove", "version", "StatefulSet"))
        )
        assert other < turned, following


def test_an_alarm_holds_it_up() -> None:
    world = settled()
    world.wish(peer=2)
    seen = world.observe()
    assert isinstance(decide(seen), RotateAuthority)
    assert not isinstance(decide(replace(seen, alarms=(Alarm("NOSPACE", 1),))), RotateAuthority)


def test_a_secret_of_another_owner_under_the_name_of_the_applications_held_it_up_for_ever() -> None:
    """Such a Secret holds up nothing else, and no authority of this cluster is in it."""
    world = settled()
    world.leaves.pop("c-client-tls")
    world.foreign = (Foreign("Secret", "c-client-tls", "somebody"),)
    world.wish(client=2)

    step = rest(world)

    assert turns(world) == TURNS
    assert isinstance(step, Hold)
    assert step.reason == "NameTaken"


def test_a_lost_authority_stops_it_until_it_is_put_back() -> None:
    world = settled()
    world.wish(peer=2)
    until_turn(world, "end")
    trusts, kept = world.trusts, world.authorities.pop("c-peer-ca")
    world.history.clear()
    step = drive(world, idle=LONG, limit=500)
    assert isinstance(step, Hold)
    assert step.reason == "AuthorityLost"
    assert (world.history, world.trusts) == ([], trusts)
    world.authorities["c-peer-ca"] = kept
    assert rest(world) == Settled()
    assert turns(world) == ["end"]


@pytest.mark.parametrize("turn", TURNS[1:])
def test_a_deleted_secret_that_pods_mount_is_recreated_with_what_they_need(turn: str) -> None:
    world = settled()
    world.wish(peer=2, client=2)
    until_turn(world, turn)
    for name in ("c-peer-tls", "c-server-tls"):
        pins = world.leaves.pop(name).pins
        trust = {one.peer if name == "c-peer-tls" else one.client for one in world.trusts}
        assert trust <= pins
    drive(world, idle=3)
    rest(world)
    assert turns(world) == [one for one in TURNS for _ in range(2)]


def test_a_lost_stateful_set_comes_back_unchanged() -> None:
    world = settled()
    world.wish(peer=2)
    rest(world)
    trusts, uids = world.trusts, {pod.uid for pod in world.pods.values()}
    world.delete_stateful_set()
    rest(world)
    assert world.trusts == trusts
    assert {pod.uid for pod in world.pods.values()} == uids


def test_a_pod_mounts_the_file_with_exactly_the_authorities_it_trusts() -> None:
    """A kubelet that knows only the Secret's previous content cannot start the pod, then."""
    world = settled()
    world.wish(peer=2)
    world.apply(until_turn(world, "begin"))
    until_turn(world, "take over")
    pod = world.objects["StatefulSet", "c"]["spec"]["template"]["spec"]
    volume = next(one for one in pod["volumes"] if one["name"] == "peer-tls")
    trust = world.pods[0].trust.peer
    assert {"key": f"peer-ca-{trust}.crt", "path": "peer-ca.crt"} in volume["secret"]["items"]
    assert world.named[trust] == set(world.authorities["c-peer-ca"].trusted)
    server = next(one for one in pod["volumes"] if one["name"] == "server-tls")
    assert {"key": "server-ca.crt", "path": "server-ca.crt"} in server["secret"]["items"]


def test_progress_is_reported() -> None:
    world = settled()

    def told() -> list[str]:
        seen = world.observe()
        found = all_conditions(Outcome(seen, decide(seen)))
        return [one.message for one in found if one.type == "Rotating"]

    assert not told()
    world.wish(peer=2)
    world.apply(until_turn(world, "begin"))
    assert "Secret c-peer-ca is being replaced" in told()[0]
    world.apply(until_turn(world, "take over"))
    assert "its successor signs" in told()[0]
    world.apply(until_turn(world, "end"))
    assert "restarted without the old one" in told()[0]
    rest(world)
    assert not told()


AUTHORITIES = ["c-peer-ca", "c-client-ca"]


def replaced(world: CertificateWorld, name: str, one: Authority) -> None:
    world.authorities[name] = replace(one, version=world.authorities[name].version + 1000)
    world.history.clear()


def is_held(world: CertificateWorld, name: str) -> None:
    """Asserts that nothing is written and that it is reported; `check` asserts that nobody is
    refused."""
    step = rest(world)
    assert isinstance(step, Hold), step
    assert step.reason == "AuthorityLost"
    assert f"Secret {name}" in step.message
    assert not world.history


class TestAnotherAuthority:
    """An authority's Secret was restored from an old backup, or made by hand. Running members do
    not trust it, and would refuse each other once it signs their certificates."""

    @pytest.mark.parametrize("name", AUTHORITIES)
    def test_an_authority_from_before_the_rotation_signed_certificates_nobody_trusted(
        self, name: str
    ) -> None:
        world = settled()
        before = replace(world.authorities[name])
        world.wish(peer=2, client=2)
        rest(world)
        rightful = world.authorities[name]
        replaced(world, name, before)

        is_held(world, name)

        world.authorities[name] = rightful
        assert rest(world) == Settled()
        assert not world.history

    @pytest.mark.parametrize("name", AUTHORITIES)
    def test_an_authority_from_the_middle_of_a_rotation_signed_certificates_nobody_trusted(
        self, name: str
    ) -> None:
        world = settled()
        world.wish(peer=2, client=2)
        until_turn(world, "take over")
        before = replace(world.authorities[name])
        rest(world)
        replaced(world, name, before)

        is_held(world, name)

    @pytest.mark.parametrize("name", AUTHORITIES)
    def test_a_foreign_authority_signed_certificates_nobody_trusted(self, name: str) -> None:
        world = settled()
        replaced(world, name, replace(world.authorities[name], signs="stranger"))

        is_held(world, name)

    def test_a_foreign_authority_signed_a_lost_certificate_of_the_operator(self) -> None:
        """Members would have refused it."""
        world = settled()
        replaced(world, "c-client-ca", replace(world.authorities["c-client-ca"], signs="stranger"))
        del world.leaves["c-operator-tls"]

        is_held(world, "c-client-ca")

    def test_a_foreign_authority_was_given_a_successor(self) -> None:
        world = settled()
        replaced(world, "c-peer-ca", replace(world.authorities["c-peer-ca"], signs="stranger"))
        world.wish(peer=2)

        is_held(world, "c-peer-ca")

    @pytest.mark.parametrize(
        ("ago", "turn"), [("begin", "take over"), ("begin", "end"), ("take over", "end")]
    )
    def test_an_authority_from_earlier_in_the_same_rotation_is_put_back_and_nobody_is_refused(
        self, ago: str, turn: str
    ) -> None:
        world = settled()
        world.wish(peer=2)
        until_turn(world, ago)
        before = replace(world.authorities["c-peer-ca"])
        world.apply(until_turn(world, turn))
        replaced(world, "c-peer-ca", before)

        rest(world)

    def test_without_running_members_it_signs(self) -> None:
        """The way out if the rightful authority is lost for good."""
        world = settled()
        replaced(world, "c-peer-ca", replace(world.authorities["c-peer-ca"], signs="stranger"))
        is_held(world, "c-peer-ca")
        world.stuck.update(world.pods)
        del world.leaves["c-peer-tls"]
        for ordinal in list(world.pods):
            world.restart_pod(ordinal)
        world.turn()
        assert said([decide(world.observe())]) == ["issue c-peer-tls"]
        world.apply(decide(world.observe()))
        world.stuck.clear()

        assert rest(world) == Settled()

        assert world.leaves["c-peer-tls"].now.by == "stranger"


@pytest.mark.parametrize("link", ["peer", "client"])
def test_an_authority_passed_for_lost_while_the_stateful_set_could_not_follow_the_last_turn(
    link: str,
) -> None:
    """Its template is not written while a version change or an unusable certificate holds it. The
    pods trust the old authority beside the new one, as a file in the Secret that they mount says.
    """
    world = settled(size=1)
    world.wish(**{link: 2})
    world.apply(until_turn(world, "end"))
    for issue in (certificates.of_members, certificates.of_clients):
        while step := issue(world.observe()):
            world.apply(step)

    assert {len(one.now.bundle) for one in world.leaves.values()} == {1}
    assert certificates.authority_lost(world.observe()) is None


def test_when_all_secrets_of_a_rotated_link_were_lost_pods_waited_for_a_file_without_end() -> None:
    """The new authority counted as the first of its link. So its certificate came without the file
    that is named after the authorities, and the template kept the name of the lost one."""
    world = settled()
    world.wish(peer=2)
    rest(world)
    world.wish()
    world.stuck.update(world.pods)
    for ordinal in list(world.pods):
        world.restart_pod(ordinal)
    world.turn()
    del world.authorities["c-peer-ca"], world.leaves["c-peer-tls"]
    for _ in range(LONG):
        step = decide(world.observe())
        world.apply(step) if is_write(step) else world.turn()

    assert {pod.trust.peer for pod in world.pods.values()} == world.leaves["c-peer-tls"].pins
    world.stuck.clear()
    assert rest(world) == Settled()


def test_a_lost_authority_is_not_recreated_while_pods_may_have_mounted_its_certificates() -> None:
    """Their etcd would start with the old bundle, and meet certificates of a new authority."""
    world = settled()
    del world.authorities["c-peer-ca"], world.authorities["c-client-ca"]
    world.stuck.update(world.pods)
    for ordinal in list(world.pods):
        world.restart_pod(ordinal)
    world.turn()
    world.history.clear()
    drive(world, idle=3)
    world.stuck.clear()

    drive(world, idle=LONG, limit=500)

    assert not world.authorities
    assert not world.history
    assert all(pod.ready for pod in world.observe().pods)


SEEDS = 12
EVENTS = 60


class Walk:
    """Two operators with views of any age, and everything that happens to a cluster meanwhile."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.world = settled(self.chance.choice([1, 3, 3, 5]))
        self.views: list[Observation] = [self.world.observe()] * 2
        self.world.wish(peer=2, client=self.chance.choice([1, 2]))

    def run(self) -> None:
        for _ in range(EVENTS):
            self.chance.choice(self.moves())()
            self.world.check()
        self.world.wish(peer=4)
        assert rest(self.world) == Settled()
        assert self.world.authorities["c-peer-ca"].generation == 4
        assert not any(one.stage for one in self.world.authorities.values())

    def moves(self) -> list[Callable[[], None]]:
        world, ordinals = self.world, sorted(self.world.pods)
        ordinal = self.chance.choice(ordinals) if ordinals else 0
        often = [functools.partial(self.act, 0)] * 12 + [world.turn] * 8
        late = [functools.partial(self.look, 1), functools.partial(self.act_on_old, 1)]
        edits = [
            functools.partial(world.edit, size=self.chance.choice([1, 3, 5])),
            functools.partial(world.edit, pod={"labels": {"n": str(self.chance.random())}}),
            functools.partial(world.wish, peer=self.chance.choice([1, 2, 3])),
            functools.partial(world.restart_pod, ordinal) if ordinals else world.turn,
            self.jump,
        ]
        return often + late + edits

    def look(self, who: int) -> None:
        self.views[who] = self.world.observe()

    def act(self, who: int) -> None:
        self.look(who)
        self.act_on_old(who)

    def act_on_old(self, who: int) -> None:
        step = decide(self.views[who])
        if not is_write(step) or (is_final(step) and decide(self.world.observe()) != step):
            return  # irreversible steps are decided twice, the second time on fresh reads
        try:
            self.world.apply(step)
        except Conflict:
            self.look(who)

    def jump(self) -> None:
        self.world.now += self.chance.choice([5.0, 60.0])


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_client_is_refused_at_any_step_of_a_rotation(seed: int) -> None:
    Walk(seed).run()
