"""An edit of the version and of what pods are made from, with another size or without: the version
comes first, one restart is enough for all of it, and no option of the new one reaches the old."""

from __future__ import annotations

from dataclasses import replace

import pytest
from views import DOWN, TRIED_AGAIN, with_pod, without_status
from worlds import formed, is_write, labels, until

from etcd_stateful import naming
from etcd_stateful.membership import tickets, version_first
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import ApplyChild, DeletePod, Settled, Step, Wait

OLD, PATCH, NEW = "3.6.14", "3.6.15", "3.7.3"
EMPTY_DIR = {"pod": {"emptyDir": {}}}
OPTION = {"etcd": {"snapshotCount": 5000}}


class Life:
    """A settled cluster with an edit of everything at once, and what came of its pods."""

    def __init__(self, before: str, after: str, sizes: tuple[int, int], **spec: object) -> None:
        self.world = formed(sizes[0], version=before, **spec)
        self.world.turn()
        self.world.history.clear()
        self.before = before
        self.given: set[str] = set()
        """Pods of the old version that got the option."""
        self.world.edit(size=sizes[1], version=after, **OPTION)

    def step(self) -> Step:
        """Controllers and kubelets go on after every write, as they do."""
        world = self.world
        step = decide(world.observe())
        if is_write(step):
            world.apply(step)
        world.turn()
        for ordinal, pod in world.pods.items():
            if pod.version == self.before and pod.spec_hash.startswith(world.cluster.spec_hash):
                self.given.add(f"c-{ordinal}")
        return step

    def until(self, label: str) -> Life:
        """Goes on until just after the first step of that label."""
        for _ in range(120):
            if labels([self.step()]) == [label]:
                return self
        raise AssertionError(f"never came to {label}: {labels(self.world.history)}")

    def rest(self) -> Step:
        """Where it comes to rest."""
        idle = 0
        for _ in range(300):
            step = self.step()
            idle = 0 if is_write(step) else idle + 1
            if idle > 5:
                return step
        raise AssertionError(f"never comes to rest: {labels(self.world.history[-6:])}")

    @property
    def restarts(self) -> list[str]:
        return sorted(one.name for one in self.world.history if isinstance(one, DeletePod))

    def ends_well(self) -> bool:
        """Everybody was restarted once, and none had the option with the old version."""
        world = self.world
        assert self.rest() == Settled()
        assert self.given == set()
        assert self.restarts == [f"c-{one}" for one in range(world.cluster.size)]
        made = {(pod.version, pod.spec_hash) for pod in world.pods.values()}
        return made == {(str(world.cluster.version), world.cluster.template_hash)}


class TestWithAnotherSize:
    """Members were restarted twice, first for an option that the old version may not know."""

    @pytest.mark.parametrize("spec", [{}, EMPTY_DIR], ids=["claims", "emptyDir"])
    @pytest.mark.parametrize(("before", "after"), [(OLD, NEW), (PATCH, OLD)], ids="-".join)
    @pytest.mark.parametrize("sizes", [(3, 5), (5, 3), (1, 3)])
    def test_each_member_is_restarted_once(
        self, sizes: tuple[int, int], before: str, after: str, spec: dict
    ) -> None:
        assert Life(before, after, sizes, **spec).ends_well()

    @pytest.mark.parametrize("sizes", [(3, 5), (3, 1)])
    def test_amid_a_downgrade_too(self, sizes: tuple[int, int]) -> None:
        assert Life(NEW, OLD, sizes).ends_well()

    def test_new_members_run_what_the_others_run_until_the_version_changes(self) -> None:
        world = Life(OLD, NEW, (3, 5)).until("promote c-4").world

        assert len({(pod.revision, pod.spec_hash, pod.image) for pod in world.pods.values()}) == 1

    def test_an_image_that_nobody_runs_yet_is_not_needed_to_grow(self) -> None:
        life = Life(OLD, NEW, (3, 5))
        life.world.edit(repository="registry.example/etcd")

        assert life.ends_well()
        assert {pod.image for pod in life.world.pods.values()} == {f"registry.example/etcd:v{NEW}"}

    def test_tls_turned_off_in_the_same_edit_took_the_option_along(self) -> None:
        life = Life(OLD, NEW, (3, 5))
        life.world.edit(TLS={"peer": "Plaintext", "client": "Plaintext"})

        assert life.rest() == Settled()
        assert life.given == set()
        assert len(life.restarts) == 5 * 2  # TLS takes two

    def test_a_size_edited_while_a_downgrade_waits(self) -> None:
        life = Life(NEW, OLD, (3, 3)).until("EnableDowngrade")
        life.world.edit(size=5)

        assert life.ends_well()

    def test_a_size_that_cannot_be_reached_is_put_back(self) -> None:
        life = Life(OLD, NEW, (3, 5))
        life.world.stuck.add(3)
        life.until("StatefulSet c")
        pod = life.world.pods[3]
        pod.trouble, pod.age = "no node has room for it", 700.0
        assert isinstance(life.rest(), Wait)
        assert life.restarts == []
        life.world.edit(size=3)

        assert life.ends_well()

    def test_a_member_that_is_lost_meanwhile_is_replaced_with_what_the_others_run(self) -> None:
        life = Life(OLD, NEW, (3, 5)).until("promote c-3")
        life.world.empty(1)

        assert life.ends_well()

    @pytest.mark.parametrize("label", ["size 5", "StatefulSet c", "promote c-3", f"version {NEW}"])
    def test_paused_on_the_way(self, label: str) -> None:
        life = Life(OLD, NEW, (3, 5)).until(label)
        life.world.edit(paused=True)
        life.rest()
        life.world.edit(paused=False)

        assert life.ends_well()

    @pytest.mark.parametrize("label", ["size 5", "StatefulSet c", "promote c-3"])
    def test_the_secret_lost_on_the_way(self, label: str) -> None:
        life = Life(OLD, NEW, (3, 5)).until(label)
        life.world.lose_secret()

        assert life.ends_well()

    def test_the_edit_taken_back_on_the_way(self) -> None:
        life = Life(OLD, NEW, (3, 5)).until("promote c-3")
        life.world.edit(size=3, version=OLD, etcd=None)

        assert life.rest() == Settled()
        assert life.restarts == []

    def test_back_from_half_way_with_another_size_and_the_option(self) -> None:
        """The version goes back at once, so nothing is held for it."""
        life = Life(OLD, NEW, (3, 3))
        life.world.edit(etcd=None)
        life.until("restart c-2")
        life.world.edit(size=5, version=OLD, **OPTION)

        assert life.rest() == Settled()
        assert life.restarts == ["c-0", "c-1", "c-2", "c-2"]
        assert {pod.spec_hash for pod in life.world.pods.values()} == {
            life.world.cluster.template_hash
        }


class TestWhileAMemberDoesNotServe:
    """The rest of the edit was rolled out first wherever a pod was away for a moment."""

    def test_a_pod_on_its_way_is_waited_for(self) -> None:
        life = Life(OLD, NEW, (3, 3))
        life.world.restart_pod(1)

        assert life.rest() == Settled()
        assert life.given == set()
        assert life.restarts == ["c-0", "c-1", "c-2"]

    @pytest.mark.parametrize("silent", [(1,), (0, 1, 2)])
    def test_so_is_a_member_that_is_silent(self, silent: tuple[int, ...]) -> None:
        seen = without_status(Life(OLD, NEW, (3, 5)).world.observe(), *silent)
        deaf = replace(seen, etcd=None, true_for={"Degraded": 99.0})

        assert version_first.keeps_template(deaf if len(silent) > 1 else seen)

    def test_a_first_member_that_never_had_its_ticket_gets_it(self) -> None:
        """It waited for a pod of the spec, and the template for it to serve."""
        world = Life(OLD, NEW, (3, 3)).world
        seen, pod = world.observe(), world.observe().pods[1]

        assert tickets._matches_attempt(seen, pod)

    def test_another_operator_that_renders_otherwise_is_no_reason_for_a_restart(self) -> None:
        life = Life(OLD, NEW, (3, 5))
        live = life.world.alter("StatefulSet", "c")
        live["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 31

        assert life.ends_well()

    def failing(self, **pod: object) -> Observation:
        return with_pod(without_status(Life(OLD, NEW, (3, 5)).world.observe(), 1), 1, **pod)

    @pytest.mark.parametrize(
        "pod",
        [
            DOWN,
            {"ready": False, "trouble": "no image", "image_missing": True},
            {"ready": False, "trouble": "no node has room", "age": 601.0},
            {"ready": False, "trouble": "no image", "start_missing": True},
        ],
        ids=["etcd fails", "no image", "no node", "no image of the operator"],
    )
    def test_the_edit_reaches_pods_that_fail(self, pod: dict) -> None:
        """It may be the cure."""
        assert not version_first.keeps_template(self.failing(**pod))
        assert not version_first.keeps_template(replace(self.failing(**pod), etcd=None))

    @pytest.mark.parametrize(
        "pod",
        [
            TRIED_AGAIN | {"age": 601.0},
            {"ready": False},
            {"ready": False, "trouble": "no node", "age": 599.0},
        ],
        ids=["is tried again", "is silent", "has yet to find a node"],
    )
    def test_but_not_those_that_may_come_up_as_they_are(self, pod: dict) -> None:
        assert version_first.keeps_template(self.failing(**pod))

    def test_a_surplus_member_needs_no_cure(self) -> None:
        seen = with_pod(Life(OLD, NEW, (5, 3)).world.observe(), 4, **DOWN)

        assert version_first.keeps_template(seen)
        assert not version_first.keeps_template(with_pod(seen, 2, **DOWN))

    def test_without_a_quorum_the_edit_reaches_pods_once_it_is_no_mere_election(self) -> None:
        seen = Life(OLD, NEW, (3, 5)).world.observe()
        silent = tuple(replace(pod, ready=False) for pod in seen.pods)
        seen = replace(seen, etcd=None, statuses={}, pods=silent, true_for={"Degraded": 59.0})
        assert version_first.keeps_template(seen)

        step = decide(replace(seen, true_for={"Degraded": 61.0}))

        assert isinstance(step, ApplyChild)
        metadata = step.manifest["spec"]["template"]["metadata"]
        assert metadata["annotations"][naming.SPEC_HASH].startswith(seen.cluster.spec_hash)

    def test_where_etcd_fails_another_patch_comes_at_once_and_with_the_rest(self) -> None:
        life = Life(OLD, PATCH, (3, 5))
        life.world.failing.add(OLD)
        life.world.restart_pod(1)

        assert life.rest() == Settled()
        assert life.given == set()


class TestNothingElseIsPutOff:
    def test_a_version_that_is_never_taken_keeps_no_template(self) -> None:
        life = Life("3.5.33", NEW, (3, 5))

        assert life.rest().reason == "VersionJump"
        assert {pod.spec_hash.partition("-")[0] for pod in life.world.pods.values()} == {
            life.world.cluster.spec_hash
        }

    def test_nor_does_one_that_an_empty_dir_does_not_go_down_to(self) -> None:
        life = Life(NEW, OLD, (3, 5), **EMPTY_DIR)

        assert life.rest().reason == "DowngradeNeedsVolumes"
        assert len({pod.spec_hash for pod in life.world.pods.values()}) == 1

    def test_nor_does_a_default_that_has_moved(self) -> None:
        """The spec names no version, and the cluster stays with what it runs."""
        seen = Life(OLD, NEW, (3, 5)).world.observe()
        undeclared = replace(seen, cluster=replace(seen.cluster, version_declared=False))

        assert not version_first.keeps_template(undeclared)

    @pytest.mark.parametrize("change", ["epoch", "trust"])
    def test_what_is_not_of_the_spec_does_not_wait(self, change: str) -> None:
        seen = Life(OLD, NEW, (3, 5)).world.observe()
        assert version_first.keeps_template(seen)
        assert seen.secret is not None
        assert seen.secret.bootstrap is not None
        if change == "epoch":
            record = replace(seen.secret.bootstrap, epoch=2)
            seen = replace(seen, secret=replace(seen.secret, bootstrap=record))
        else:
            trust = replace(seen.cluster.trust, peer="0123456789abcdef")
            seen = replace(seen, cluster=replace(seen.cluster, trust=trust))

        assert not version_first.keeps_template(seen)

    def test_what_is_not_of_the_spec_comes_with_the_version_where_that_may_come(self) -> None:
        seen = Life(OLD, NEW, (3, 3)).world.observe()
        trust = replace(seen.cluster.trust, peer="0123456789abcdef")

        step = decide(replace(seen, cluster=replace(seen.cluster, trust=trust)))

        assert labels([step]) == [f"version {NEW}"]

    def test_what_was_altered_of_the_pods_is_put_back_while_the_size_is_reached(self) -> None:
        """With an edit of size and version alone, as there is nothing to hold."""
        world = Life(OLD, NEW, (3, 5)).world
        world.edit(etcd=None)
        until(world, "add c-3")
        live = world.alter("StatefulSet", "c")
        live["spec"]["template"]["spec"]["containers"][0]["image"] = "altered"

        assert labels([decide(world.observe())]) == ["StatefulSet c"]

    @pytest.mark.parametrize(
        ("image", "keeps"),
        [(f"mirror.example/etcd:v{NEW}", False), (f"mirror.example/etcd:v{OLD}", True),
         ("mirror.example/etcd@sha256:0", True)],
    )  # fmt: skip
    def test_an_image_that_somebody_has_put_there_is_not_kept(
        self, image: str, keeps: bool
    ) -> None:
        """I9: new members would run another version past every gate."""
        world = Life(OLD, NEW, (3, 5)).world
        live = world.alter("StatefulSet", "c")
        live["spec"]["template"]["spec"]["containers"][0]["image"] = image

        assert version_first.keeps_template(world.observe()) == keeps

    def test_a_cluster_that_has_not_formed_follows_the_spec(self) -> None:
        seen = Life(OLD, NEW, (3, 5)).world.observe()
        assert seen.secret is not None
        assert seen.secret.bootstrap is not None
        record = replace(seen.secret.bootstrap, latched=False)
        unformed = replace(seen, secret=replace(seen.secret, bootstrap=record))

        assert not version_first.keeps_template(unformed)
        assert not version_first.keeps_template(replace(seen, stateful_set=None))

    def test_a_lost_stateful_set_is_made_of_the_spec_as_nothing_else_is_left(self) -> None:
        life = Life(OLD, NEW, (3, 5)).until("promote c-3")
        life.world.delete_stateful_set()

        assert life.rest() == Settled()
