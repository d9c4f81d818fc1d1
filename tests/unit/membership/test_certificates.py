"""User-provided certificates that have become unusable: which steps wait, and which continue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from views import with_pod, without_status
from worlds import OLD, World, body, drive, is_write, labels, until

from etcd_stateful.api.tls import Trust
from etcd_stateful.membership import planner
from etcd_stateful.membership.observation import Observation, recorded
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import Hold, Settled, Step, WriteBootstrap
from etcd_stateful.membership.tls.certificates import provided_needs, starts_pods, unusable
from etcd_stateful.membership.upkeep.space import MIB
from etcd_stateful.observed.certificates import Certificate, Certificates

STATIC = {"static": {"member": {"peerSecret": "p", "serverSecret": "s"}, "operatorSecret": "o"}}


class TlsWorld(World):
    problem = ""

    def observe(self) -> Observation:
        seen = super().observe()
        found = {
            need.secret: {need.role: Certificate("1", self.problem)}
            for need in provided_needs(seen)
        }
        return replace(seen, certificates=Certificates(0.0, found))


def spoiled(size: int = 3) -> TlsWorld:
    world = TlsWorld(body(size, TLS=STATIC))
    assert drive(world, idle=2) == Settled()
    world.history.clear()
    world.problem = "expired"
    return world


def rests(world: TlsWorld) -> Hold:
    step = drive(world, idle=3)

    assert isinstance(step, Hold), step
    assert step.reason == "CertificatesUnusable"
    assert "Secret p, which spec.TLS.static.member.peerSecret names: expired" in step.message
    return step


def emptied(world: TlsWorld) -> None:
    world.claims[2].data = None
    world.restart_pod(2)


def edited(world: TlsWorld) -> None:
    world.edit(pod={"labels": {"edited": "yes"}})


def silent_beside_an_edit(world: TlsWorld) -> None:
    edited(world)
    world.pods[2].where = "pending"


def grown(world: TlsWorld) -> None:
    world.edit(size=5)


def upgraded(world: TlsWorld) -> None:
    world.edit(version="3.7.3")


def without_stateful_set(world: TlsWorld) -> None:
    world.delete_stateful_set()


class TestARunningCluster:
    """Certificates that still work for running members, but may not for one that starts."""

    def test_no_member_is_defragmented_because_its_silence_may_restart_it(self) -> None:
        world = spoiled()
        world.etcd.sizes = dict.fromkeys(world.etcd.members, (1000 * MIB, 300 * MIB))

        rests(world)

        assert world.history == []

    def test_at_rest_they_are_reported(self) -> None:
        world = spoiled()

        rests(world)

        assert not world.history

    def test_the_wait_for_a_learner_hid_what_is_wrong_with_a_volume(self) -> None:
        world = spoiled()
        world.problem = ""
        world.edit(size=4)
        until(world, "promote c-3")
        world.pods[3].silent = True
        world.claims[0].data = replace(world.claims[0].data, cluster_uid=OLD)
        world.restart_pod(0)
        drive(world)
        world.problem = "expired"

        assert "Also, ForeignData: the volume of pod c-0 holds data of" in rests(world).message

    def test_an_object_that_was_deleted_is_put_back(self) -> None:
        world = spoiled()
        kinds = [kind for kind, _ in world.objects if kind != "StatefulSet"]
        world.objects = {key: one for key, one in world.objects.items() if key[0] == "StatefulSet"}

        rests(world)

        assert sorted(one.split()[0] for one in labels(world.history)) == sorted(kinds)

    def test_objects_are_put_back_while_growth_waits(self) -> None:
        world = spoiled()
        world.edit(size=5)
        del world.objects["Service", "c-client"]

        rests(world)

        assert labels(world.history) == ["Service c-client"]

    def test_a_lost_member_is_removed_and_not_replaced_yet(self) -> None:
        """As long as it is listed, one more loss costs the quorum."""
        world = spoiled()
        emptied(world)

        rests(world)

        assert [one for one in labels(world.history) if one.split()[0] != "lead"] == ["remove c-2"]
        world.problem = ""
        assert drive(world, idle=2) == Settled()
        assert len(world.etcd.voters) == 3

    def test_it_shrinks(self) -> None:
        world = spoiled(5)
        world.edit(size=3)

        rests(world)

        assert sorted(world.pods) == sorted(world.claims) == [0, 1, 2]
        assert len(world.etcd.voters) == 3

    @pytest.mark.parametrize(
        "happens", [edited, silent_beside_an_edit, grown, upgraded, without_stateful_set]
    )
    def test_no_pod_is_started_or_restarted(self, happens: Callable[[TlsWorld], None]) -> None:
        world = spoiled()
        happens(world)
        before = {one.uid for one in world.pods.values()}

        rests(world)

        assert {one.uid for one in world.pods.values()} == before
        assert not any(one.startswith(("restart", "push", "add", "ledger", "version", "lead"))
                       for one in labels(world.history))  # fmt: skip
        world.problem = ""
        assert drive(world, idle=2) == Settled()

    @pytest.mark.parametrize("happens", [emptied, edited, grown, upgraded, without_stateful_set])
    def test_every_question_that_leads_to_a_start_is_marked_as_one(
        self, happens: Callable[[TlsWorld], None]
    ) -> None:
        """Tickets and versions are written down before a pod starts with them, so those writes must
        wait too."""
        world = spoiled()
        world.problem = ""
        happens(world)
        for _ in range(150):
            seen = world.observe()
            asked = ((one, step) for one in planner._QUESTIONS if (step := one(seen)) is not None)
            question, step = next(asked, (None, Settled()))
            if isinstance(step, WriteBootstrap):
                was, will = recorded(seen), step.record
                leads = (was.issued, was.version) != (will.issued, will.version)
                held = isinstance(question, planner._Starts) or starts_pods(seen, step)
                assert held or not leads, question
            world.apply(step) if is_write(step) else world.turn()

        assert step == Settled()

    def test_a_learner_in_flight_gets_no_ticket(self) -> None:
        world = spoiled()
        world.problem = ""
        emptied(world)
        until(world, "push c-2 existing")
        world.problem = "expired"
        issued, done = len(world.record.issued), len(world.history)

        rests(world)

        assert (len(world.record.issued), len(world.history)) == (issued, done)

    def test_a_recovery_that_is_asked_for_waits_for_the_certificates(self) -> None:
        """The certificates may be the only reason why the quorum is lost."""
        world = spoiled()
        for ordinal in (1, 2):
            world.claims[ordinal].data = None
            world.restart_pod(ordinal)
        asked = {"survivor": "c-0", "clusterID": f"{world.record.cluster_id:016x}", "epoch": 1}
        world.edit(recovery=asked)

        rests(world)

        assert world.objects["StatefulSet", "c"]["spec"]["replicas"] == 3
        assert world.record.epoch == 1

    def test_another_hold_is_reported_beside_them(self) -> None:
        world = spoiled()
        for ordinal in (1, 2):
            world.claims[ordinal].data = None
            world.restart_pod(ordinal)

        assert "Also, QuorumLost: the data of c-1, c-2 is lost" in rests(world).message

    def test_a_pause_is_reported_first(self) -> None:
        world = spoiled()
        world.edit(paused=True)

        step: Step = decide(world.observe())

        assert isinstance(step, Hold)
        assert step.reason == "Paused"


def refused(*pods: int, silent: tuple[int, ...] = (), quorum: bool = True) -> str:
    """What is said once a user has replaced the authority of peers at once, if the etcd of these
    pods was started before."""
    world = spoiled()
    world.problem = ""
    seen = world.observe()
    for ordinal in pods:
        seen = with_pod(seen, ordinal, noted_trust=Trust(peer="old.older"))
    assert seen.certificates is not None
    found = Certificate("2", signers=("new",), authorities=("new",))
    secrets = {**seen.certificates.secrets, "p": {"peer": found}}
    seen = replace(without_status(seen, *silent), certificates=Certificates(0.0, secrets))
    step = decide(seen if quorum else replace(seen, etcd=None))
    return step.message if isinstance(step, Hold) else ""


class TestAnAuthorityOfPeersThatWasReplacedAtOnce:
    def test_the_member_that_was_restarted_and_reaches_no_other_is_named(self) -> None:
        said = refused(0, 1, silent=(2,))

        assert "no authority that c-0, c-1 trusts has signed peer.crt" in said
        assert "then delete these pods, which reach no other: c-2. Replace" in said

    def test_the_member_that_is_left_behind_by_the_others_is_named(self) -> None:
        said = refused(0, silent=(0,))

        assert "The others serve with it, so delete these pods: c-0" in said
        assert "previous" not in said

    def test_without_a_quorum_it_is_put_back(self) -> None:
        said = refused(0, silent=(0, 1, 2), quorum=False)

        assert "Put its previous content back, then delete these pods" in said
        assert "c-1, c-2. Replace" in said

    def test_pods_of_which_nothing_is_known_are_restarted(self) -> None:
        assert refused() == ""

    def test_one_that_is_trusted_is_used(self) -> None:
        world = spoiled()
        world.problem = ""
        seen = with_pod(world.observe(), 0, noted_trust=Trust(peer="new.old"))
        assert seen.certificates is not None
        found = Certificate("2", signers=("new",), authorities=("new",))
        secrets = {**seen.certificates.secrets, "p": {"peer": found}}

        assert unusable(replace(seen, certificates=Certificates(0.0, secrets))) is None


class TestForHowMany:
    def names(self, seen: Observation) -> set[str]:
        needs = {need.role: need for need in provided_needs(seen)}
        return {name.partition(".")[0] for name in needs["peer"].names}

    def test_for_all_declared_members(self) -> None:
        world = spoiled()
        world.edit(size=5)

        assert self.names(world.observe()) == {f"c-{one}" for one in range(5)}

    def test_for_members_that_will_be_removed_too(self) -> None:
        world = spoiled(5)
        world.edit(size=3)

        assert self.names(world.observe()) == {f"c-{one}" for one in range(5)}

    def test_members_on_the_list_and_pods_that_run_count_without_the_statefulset(self) -> None:
        world = spoiled(5)
        world.edit(size=1)
        seen = replace(world.observe(), stateful_set=None)

        assert len(self.names(replace(seen, etcd=None))) == 5
        assert len(self.names(replace(seen, pods=()))) == 5

    def test_a_cluster_with_managed_certificates_needs_no_secrets_of_the_user(self) -> None:
        world = TlsWorld(body(3, TLS={"peer": "Managed", "client": "Managed"}))

        assert provided_needs(world.observe()) == ()
        assert unusable(world.observe()) is None
