"""An edit of the version together with other parts of the pod template, with or without another
size.

The version comes first, so one restart is enough for everything, and the old version never gets an
option that only the new one knows.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from views import DOWN, TRIED_AGAIN, with_pod, without_status
from worlds import formed, is_write, labels, until

from etcd_stateful import naming
from etcd_stateful.membership.beginning import tickets
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.rolling import version_first
from etcd_stateful.membership.steps import ApplyChild, DeletePod, Settled, Step, Wait

OLD, PATCH, NEW = "3.6.14", "3.6.15", "3.7.3"
EMPTY_DIR = {"pod": {"emptyDir": {}}}
OPTION = {"etcd": {"snapshotCount": 5000}}


class Life:
    """A settled cluster whose spec is edited in everything at once, and what its pods get."""

    def __init__(self, before: str, after: str, sizes: tuple[int, int], **spec: object) -> None:
        self.world = formed(sizes[0], version=before, **spec)
        self.world.turn()
        self.world.history.clear()
        self.before = before
        self.given: set[str] = set()
        """Pods of the old version that got the option."""
        self.world.edit(size=sizes[1], version=after, **OPTION)

    def step(self) -> Step:
        """One pass. Controllers and kubelets run for a round after it."""
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
        """Continues until just after the first step with that label."""
        for _ in range(120):
            if labels([self.step()]) == [label]:
                return self
        raise AssertionError(f"never came to {label}: {labels(self.world.history)}")

    def rest(self) -> Step:
        """Continues until the cluster comes to rest."""
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
        """Asserts that every member was restarted once, and that none had the option with the old
        version."""
        world = self.world
        assert self.rest() == Settled()
        assert self.given == set()
        assert self.restarts == [f"c-{one}" for one in range(world.cluster.size)]
        made = {(pod.version, pod.spec_hash) for pod in world.pods.values()}
        return made == {(str(world.cluster.version), world.cluster.template_hash)}


class TestWithAnotherSize:
    """Members were restarted twice, and first for an option that the old version may not know."""

    @pytest.mark.parametrize("spec", [{}, EMPTY_DIR], ids=["claims", "emptyDir"])
    @pytest.mark.parametrize(("before", "after"), [(OLD, NEW), (PATCH, OLD)], ids="-".join)
    @pytest.mark.parametrize("sizes", [(3, 5), (5, 3), (1, 3)])
    def test_each_member_is_restarted_once(
        self, sizes: tuple[int, int], before: str, after: str, spec: dict
    ) -> None:
        assert Life(before, after, sizes, **spec).ends_well()

    @pytest.mark.parametrize("sizes", [(3, 5), (3, 1)])
    def test_also_in_a_downgrade(self, sizes: tuple[int, int]) -> None:
        assert Life(NEW, OLD, sizes).ends_well()

    def test_new_members_run_what_the_others_run_until_the_version_changes(self) -> None:
        world = Life(OLD, NEW, (3, 5)).until("promote c-4").world

        assert len({(pod.revision, pod.spec_hash, pod.image) for pod in world.pods.values()}) == 1

    def test_growth_does_not_wait_for_an_image_that_no_member_runs_yet(self) -> None:
        life = Life(OLD, NEW, (3, 5))
        life.world.edit(repository="registry.example/etcd")

        assert life.ends_well()
        assert {pod.image for pod in life.world.pods.values()} == {f"registry.example/etcd:v{NEW}"}

    def test_tls_turned_off_in_the_same_edit_brought_the_option_too_early(self) -> None:
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
        step = life.rest()
        assert isinstance(step, Wait)
        assert step.reason.startswith("pod c-3: no node has room for it")
        assert f"set spec.version back to {OLD}" in step.reason
        assert life.restarts == []
        life.world.edit(size=3)

        assert life.ends_well()

    def test_an_edit_that_a_new_members_pod_needs_comes_once_the_version_is_set_back(self) -> None:
        life = Life(OLD, NEW, (3, 5))
        life.world.stuck.add(3)
        life.until("StatefulSet c")
        life.world.pods[3].trouble = "no node has room for it"
        assert isinstance(life.rest(), Wait)

        life.world.edit(version=OLD)

        assert not version_first.keeps_template(life.world.observe())

    def test_a_member_that_is_lost_meanwhile_is_replaced_with_what_the_others_run(self) -> None:
        life = Life(OLD, NEW, (3, 5)).until("promote c-3")
        life.world.empty(1)

        assert life.ends_well()

    @pytest.mark.parametrize("label", ["size 5", "StatefulSet c", "promote c-3", f"version {NEW}"])
    def test_a_pause_on_the_way(self, label: str) -> None:
        life = Life(OLD, NEW, (3, 5)).until(label)
        life.world.edit(paused=True)
        life.rest()
        life.world.edit(paused=False)

        assert life.ends_well()

    @pytest.mark.parametrize("label", ["size 5", "StatefulSet c", "promote c-3"])
    def test_the_secret_is_lost_on_the_way(self, label: str) -> None:
        life = Life(OLD, NEW, (3, 5)).until(label)
        life.world.lose_secret()

        assert life.ends_well()

    def test_the_edit_is_taken_back_on_the_way(self) -> None:
        life = Life(OLD, NEW, (3, 5)).until("promote c-3")
        life.world.edit(size=3, version=OLD, etcd=None)

        assert life.rest() == Settled()
        assert life.restarts == []

    def test_going_back_half_way_with_another_size_and_the_option(self) -> None:
        """The version goes back at once, so the template does not wait for it."""
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
    """The other changes were rolled out first, whenever a pod was away for a moment."""

    def test_a_pod_that_is_starting_is_waited_for(self) -> None:
        life = Life(OLD, NEW, (3, 3))
        life.world.restart_pod(1)

        assert life.rest() == Settled()
        assert life.given == set()
        assert life.restarts == ["c-0", "c-1", "c-2"]

    @pytest.mark.parametrize("silent", [(1,), (0, 1, 2)])
    def test_a_silent_member_is_waited_for(self, silent: tuple[int, ...]) -> None:
        seen = without_status(Life(OLD, NEW, (3, 5)).world.observe(), *silent)
        deaf = replace(seen, etcd=None, true_for={"Degraded": 99.0})

        assert version_first.keeps_template(deaf if len(silent) > 1 else seen)

    def test_a_first_member_that_never_had_its_ticket_gets_it(self) -> None:
        """It waited for a pod of the present spec, and the template waited for it to serve."""
        world = Life(OLD, NEW, (3, 3)).world
        seen, pod = world.observe(), world.observe().pods[1]

        assert tickets._matches_attempt(seen, pod)

    def test_another_operators_rendering_causes_no_restart(self) -> None:
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
            {"ready": False, "trouble": "a proxy fails", "unready": "a proxy fails", "age": 601.0},
            {"ready": False, "trouble": "no image", "start_missing": True},
        ],
        ids=["etcd fails", "no image", "no node", "another container", "no image of the operator"],
    )
    def test_the_edit_reaches_failing_pods(self, pod: dict) -> None:
        """It may be what they need."""
        assert not version_first.keeps_template(self.failing(**pod))
        assert not version_first.keeps_template(replace(self.failing(**pod), etcd=None))

    def missing(self, seconds: float) -> Observation:
        seen = without_status(Life(OLD, NEW, (3, 3)).world.observe(), 1)
        others = tuple(pod for pod in seen.pods if pod.ordinal != 1)
        return replace(seen, pods=others, missing={"c-1": seconds})

    def test_the_edit_did_not_reach_a_pod_that_a_quota_refuses_as_it_is(self) -> None:
        assert version_first.keeps_template(self.missing(600.0))
        assert not version_first.keeps_template(self.missing(601.0))

    def test_a_pod_that_is_not_created_did_not_say_what_the_edit_waits_for(self) -> None:
        step = decide(self.missing(9.0))

        assert isinstance(step, Wait)
        assert step.reason.startswith("pod c-1 to be created; the Events of StatefulSet c say what")
        assert f"set spec.version back to {OLD} until it runs" in step.reason

    def test_a_pod_that_an_added_container_keeps_from_being_ready_did_not_say_it_either(
        self,
    ) -> None:
        seen = Life(OLD, NEW, (3, 3)).world.observe()

        step = decide(with_pod(seen, 1, ready=False, unready="no gate"))

        assert isinstance(step, Wait)
        assert step.reason.startswith(
            "pod c-1 to become ready: no gate. The rest of the edit waits"
        )

    def test_a_learners_pod_that_cannot_start_did_not_say_it_either(self) -> None:
        seen = Life(OLD, NEW, (3, 5)).until("push c-3 existing").world.observe()

        step = decide(with_pod(without_status(seen, 3), 3, trouble="no node has room"))

        assert isinstance(step, Wait)
        assert step.reason.startswith(
            "learner c-3 to start: no node has room. The rest of the edit waits for spec.version"
        )

    @pytest.mark.parametrize(
        "pod",
        [
            TRIED_AGAIN | {"age": 601.0},
            {"ready": False},
            {"ready": False, "trouble": "no node", "age": 599.0},
        ],
        ids=["is tried again", "is silent", "has yet to find a node"],
    )
    def test_the_edit_does_not_reach_pods_that_may_still_come_up(self, pod: dict) -> None:
        assert version_first.keeps_template(self.failing(**pod))

    def test_a_surplus_member_does_not_count(self) -> None:
        seen = with_pod(Life(OLD, NEW, (5, 3)).world.observe(), 4, **DOWN)

        assert version_first.keeps_template(seen)
        assert not version_first.keeps_template(with_pod(seen, 2, **DOWN))

    def test_without_a_quorum_the_edit_reaches_pods_after_more_than_an_election(self) -> None:
        seen = Life(OLD, NEW, (3, 5)).world.observe()
        silent = tuple(replace(pod, ready=False) for pod in seen.pods)
        seen = replace(seen, etcd=None, statuses={}, pods=silent, true_for={"Degraded": 59.0})
        assert version_first.keeps_template(seen)

        step = decide(replace(seen, true_for={"Degraded": 61.0}))

        assert isinstance(step, ApplyChild)
        metadata = step.manifest["spec"]["template"]["metadata"]
        assert metadata["annotations"][naming.SPEC_HASH].startswith(seen.cluster.spec_hash)

    def test_if_etcd_fails_another_patch_is_applied_at_once_with_the_rest(self) -> None:
        life = Life(OLD, PATCH, (3, 5))
        life.world.failing.add(OLD)
        life.world.restart_pod(1)

        assert life.rest() == Settled()
        assert life.given == set()


class TestNothingElseIsPutOff:
    def test_a_version_that_is_never_applied_does_not_hold_the_template(self) -> None:
        life = Life("3.5.33", NEW, (3, 5))

        assert life.rest().reason == "VersionJump"
        assert {pod.spec_hash.partition("-")[0] for pod in life.world.pods.values()} == {
            life.world.cluster.spec_hash
        }

    def test_a_downgrade_that_an_empty_dir_does_not_allow_does_not_either(self) -> None:
        life = Life(NEW, OLD, (3, 5), **EMPTY_DIR)

        assert life.rest().reason == "DowngradeNeedsVolumes"
        assert len({pod.spec_hash for pod in life.world.pods.values()}) == 1

    def test_a_new_default_version_does_not_either(self) -> None:
        """The spec names no version, so the cluster keeps the one it runs."""
        seen = Life(OLD, NEW, (3, 5)).world.observe()
        undeclared = replace(seen, cluster=replace(seen.cluster, version_declared=False))

        assert not version_first.keeps_template(undeclared)

    @pytest.mark.parametrize("change", ["epoch", "trust"])
    def test_changes_that_are_not_of_the_spec_do_not_wait(self, change: str) -> None:
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

    def test_changes_that_are_not_of_the_spec_come_with_the_version_if_it_can_change(self) -> None:
        seen = Life(OLD, NEW, (3, 3)).world.observe()
        trust = replace(seen.cluster.trust, peer="0123456789abcdef")

        step = decide(replace(seen, cluster=replace(seen.cluster, trust=trust)))

        assert labels([step]) == [f"version {NEW}"]

    def test_a_manual_change_of_the_pods_is_put_back_while_members_are_added(self) -> None:
        """This edit has only a size and a version, so there is nothing to hold back."""
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
    def test_a_manually_changed_image_is_not_kept(self, image: str, keeps: bool) -> None:
        """I9: new members would run another version, past every gate."""
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

    def test_a_lost_stateful_set_is_recreated_from_the_spec(self) -> None:
        life = Life(OLD, NEW, (3, 5)).until("promote c-3")
        life.world.delete_stateful_set()

        assert life.rest() == Settled()
