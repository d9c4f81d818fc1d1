"""Each kind of step: what it writes, with which precondition, and what happens on a conflict."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest
from fakes import FakeClock, FakeEtcd, FakeKube, FakeStart, an_applier, cluster_body, running

from etcd_operator.etcd.api import NoAnswer, Refused
from etcd_operator.kube.api import (
    CLAIMS,
    PODS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    Rejected,
    Unavailable,
)
from etcd_operator.kube.finder import Finder
from etcd_operator.kube.store import Store
from etcd_operator.objects import reading
from etcd_operator.step_result import Declined, Done, Outdated, TicketRefused, Uncertain
from etcd_stateful import naming
from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.manifests.secret import start_secret
from etcd_stateful.manifests.services import headless_service
from etcd_stateful.manifests.statefulset import stateful_set
from etcd_stateful.membership.steps import (
    ApplyChild,
    CancelDowngrade,
    CreateSecret,
    Defragment,
    DeleteClaim,
    DeletePod,
    DisarmAlarm,
    EnableDowngrade,
    ExpandClaim,
    Leader,
    MemberAddLearner,
    MemberPromote,
    MemberRemove,
    MemberUpdate,
    MoveLeader,
    PushTicket,
    RecordMember,
    Voter,
    WriteBootstrap,
)
from etcd_stateful.observed.members import Alarm, Member
from etcd_stateful.records import bootstrap as records
from etcd_stateful.records.member import MemberRecord, load_member
from etcd_stateful.start.ticket import Ticket

ADDRESS = "10.0.0.1"
BOOTSTRAP = records.first_attempt("uid-a", {"a-0": "http://a-0:2380"}, "3.7.3")
MEMBER = MemberRecord("uid-a", "uid-claim", 0xABC, BOOTSTRAP.cluster_id)


def make_cluster():
    body = cluster_body()
    body["metadata"] |= {"uid": "uid-a", "generation": 1}
    return parse_cluster(body)


CLUSTER = make_cluster()


class World:
    def __init__(self):
        self.clock = FakeClock()
        self.kube = FakeKube(self.clock)
        self.store = self.kube.store = Store()
        self.start, self.etcd = FakeStart(self.clock), FakeEtcd()
        self.finder = Finder(self.kube, self.store, self.clock)
        self.applier = an_applier(self.kube, self.finder, self.start, self.etcd, self.clock)

    async def apply(self, step):
        return await self.applier.apply(CLUSTER, step)

    def put_claim(self, **metadata):
        labels = naming.labels("a")
        meta = {"name": "data-a-0", "namespace": "default", "labels": labels, **metadata}
        return self.kube.put(CLAIMS, {"metadata": meta, "status": {"phase": "Bound"}})

    def put_pod(self, status=None, **metadata):
        labels = naming.labels("a")
        meta = {"name": "a-0", "namespace": "default", "labels": labels, **metadata}
        status = status or running("start", ADDRESS)
        return self.kube.put(PODS, {"metadata": meta, "spec": {}, "status": status})

    async def put_secret(self):
        await self.apply(CreateSecret("a-start", BOOTSTRAP, "begins"))
        return self.kube.live(SECRETS, "a-start")


@pytest.fixture
def world():
    return World()


def service_step():
    return ApplyChild("Service", "a", headless_service(CLUSTER), "does not exist")


def mending_step(world):
    """The step that the planner chooses for an existing Service, with the version that it saw."""
    manifest = headless_service(CLUSTER)
    live = world.store.get(SERVICES, "default", "a") or world.kube.live(SERVICES, "a")
    manifest["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]
    return ApplyChild("Service", "a", manifest, "differs")


class TestChild:
    async def test_is_created_once_its_name_is_known_to_be_free(self, world):
        done = await world.apply(service_step())
        assert done == Done("created Service a", created=True)
        assert world.kube.log == ["get Service a", "apply Service a"]
        assert world.store.get(SERVICES, "default", "a")["metadata"]["uid"]

    async def test_is_put_back_with_the_uid_that_was_seen_and_without_a_read(self, world):
        await world.apply(service_step())
        uid = world.kube.live(SERVICES, "a")["metadata"]["uid"]
        altered = world.kube.live(SERVICES, "a")
        altered["spec"]["ports"] = []
        world.kube.put(SERVICES, altered)
        world.kube.log.clear()

        assert await world.apply(mending_step(world)) == Done("changed Service a")
        assert world.kube.log == ["apply Service a"]
        assert world.kube.live(SERVICES, "a")["spec"]["ports"]
        assert world.kube.live(SERVICES, "a")["metadata"]["uid"] == uid

    async def test_another_owners_object_outside_the_store_is_left_alone(self, world):
        """It has no label of ours, so the watch does not show it, and an apply would take it over
        (I10)."""
        before = world.kube.put(
            SERVICES, {"metadata": {"name": "a", "namespace": "default"}, "spec": {}}
        )
        assert isinstance(await world.apply(service_step()), Outdated)
        assert world.kube.live(SERVICES, "a") == before

    async def test_another_owners_object_at_the_steps_resource_version_is_left_alone(self, world):
        before = world.kube.put(
            SERVICES, {"metadata": {"name": "a", "namespace": "default"}, "spec": {}}
        )
        applied = await world.apply(mending_step(world))
        assert applied == Outdated("Service a now belongs to another owner")
        assert world.kube.live(SERVICES, "a") == before

    async def test_whose_name_was_free_a_moment_ago_needs_no_other_read(self, world):
        await world.finder.find(SERVICES, "default", "a")
        await world.apply(service_step())
        assert world.kube.log == ["get Service a", "apply Service a"]

    async def test_whose_name_was_free_a_while_ago_is_not_taken_over(self, world):
        await world.finder.find(SERVICES, "default", "a")
        world.clock.now += 0.1
        theirs = {"metadata": {"name": "a", "namespace": "default"}, "spec": {}}
        before = world.kube.put(SERVICES, theirs)
        assert isinstance(await world.apply(service_step()), Outdated)
        assert world.kube.live(SERVICES, "a") == before

    async def test_that_members_depend_on_is_always_read_first(self, world):
        """I5: an operator that just lost the Lease may have created it, with other replicas."""
        await world.finder.find(STATEFUL_SETS, "default", "a")
        manifest = stateful_set(CLUSTER, replicas=3, operator_image="operator:1")
        world.kube.log.clear()
        await world.apply(ApplyChild("StatefulSet", "a", manifest, "does not exist"))
        assert world.kube.log == ["get StatefulSet a", "apply StatefulSet a"]

    async def test_that_was_replaced_in_between_is_not_taken_over(self, world):
        await world.apply(service_step())
        world.kube.watching = False

        def replaced():
            world.kube.remove(SERVICES, "default", "a")
            world.kube.put(
                SERVICES, {"metadata": {"name": "a", "namespace": "default"}, "spec": {}}
            )

        world.kube.before["apply Service"] = replaced
        assert isinstance(await world.apply(mending_step(world)), Outdated)
        assert "ownerReferences" not in world.kube.live(SERVICES, "a")["metadata"]

    async def test_of_ours_without_its_labels_gets_them_back(self, world):
        await world.apply(service_step())
        stripped = world.kube.live(SERVICES, "a")
        stripped["metadata"]["labels"] = {}
        world.kube.put(SERVICES, stripped)
        assert world.store.get(SERVICES, "default", "a") is None

        assert await world.apply(mending_step(world)) == Done("changed Service a")
        assert world.kube.live(SERVICES, "a")["metadata"]["labels"] == naming.labels("a")
        assert world.store.get(SERVICES, "default", "a")

    async def test_that_is_gone_though_the_store_has_it_is_not_created_with_the_old_uid(
        self, world
    ):
        await world.apply(service_step())
        world.kube.watching = False
        world.kube.remove(SERVICES, "default", "a")

        assert isinstance(await world.apply(mending_step(world)), Outdated)
        assert world.store.get(SERVICES, "default", "a") is None
        assert await world.apply(service_step()) == Done("created Service a", created=True)

    async def test_that_was_deleted_before_an_edit_is_not_created_by_it(self, world):
        """I5: the edit has the replicas of an earlier look, and members may have been added
        since."""
        await world.apply(service_step())
        step = mending_step(world)
        world.kube.remove(SERVICES, "default", "a")
        world.kube.log.clear()

        assert isinstance(await world.apply(step), Outdated)
        assert world.kube.find(SERVICES, "a") is None

    async def test_an_object_created_after_the_decision_is_not_overwritten(self, world):
        """I5: an old view that saw no StatefulSet would lower the replicas of the new one."""
        await world.apply(service_step())
        world.kube.log.clear()
        assert isinstance(await world.apply(service_step()), Outdated)
        assert world.kube.log == []

    async def test_the_manifest_of_the_step_is_not_modified(self, world):
        step = service_step()
        await world.apply(step)
        await world.apply(step)
        assert step.manifest == headless_service(CLUSTER)

    @pytest.mark.parametrize("error", [Rejected("no", status=422), Unavailable("late")])
    async def test_errors_of_the_api_server_are_passed_on(self, world, error):
        world.kube.failures["apply Service"] = [error]
        with pytest.raises(type(error)):
            await world.apply(service_step())

    async def test_a_stateful_set(self, world):
        manifest = stateful_set(CLUSTER, replicas=3, operator_image="operator:1")
        step = ApplyChild("StatefulSet", "a", manifest, "does not exist")
        assert (await world.apply(step)).created
        assert world.kube.live(STATEFUL_SETS, "a")["spec"]["replicas"] == 3


class TestSecret:
    async def test_is_created_with_a_fresh_key_of_32_bytes(self, world):
        one = await world.put_secret()
        other = World()
        two = await other.put_secret()
        assert len(reading.start_key(one)) == 32
        assert reading.start_key(one) != reading.start_key(two)
        assert reading.secret(one).bootstrap == BOOTSTRAP

    async def test_never_overwrites_one(self, world):
        """Another operator was faster, and the watch has not reported it yet."""
        world.kube.watching = False
        manifest = start_secret(CLUSTER, BOOTSTRAP, base64.b64encode(b"o" * 32).decode())
        before = await world.kube.create(SECRETS, manifest)

        outcome = await world.apply(CreateSecret("a-start", BOOTSTRAP, "begins"))
        assert isinstance(outcome, Outdated)
        assert world.kube.live(SECRETS, "a-start") == before
        assert world.store.get(SECRETS, "default", "a-start"), "the next pass must see it"

    async def test_record_is_replaced_in_exactly_this_version_and_the_key_stays(self, world):
        before = await world.put_secret()
        version = before["metadata"]["resourceVersion"]
        step = WriteBootstrap("a-start", version, records.latch(BOOTSTRAP), "formed")

        assert isinstance(await world.apply(step), Done)
        after = world.kube.live(SECRETS, "a-start")
        assert reading.secret(after).bootstrap.latched
        assert reading.start_key(after) == reading.start_key(before)
        assert world.store.get(SECRETS, "default", "a-start") == after

    async def test_record_brings_back_labels_that_were_removed(self, world):
        secret = await world.put_secret()
        secret["metadata"]["labels"] = {"theirs": "kept"}
        version = world.kube.put(SECRETS, secret)["metadata"]["resourceVersion"]
        step = WriteBootstrap("a-start", version, records.latch(BOOTSTRAP), "formed")

        assert isinstance(await world.apply(step), Done)
        after = world.kube.live(SECRETS, "a-start")
        assert after["metadata"]["labels"] == {"theirs": "kept"} | naming.labels("a")
        assert world.store.get(SECRETS, "default", "a-start") == after

    async def test_record_of_another_version_is_not_written(self, world):
        before = await world.put_secret()
        step = WriteBootstrap("a-start", "1", records.latch(BOOTSTRAP), "formed")
        assert isinstance(await world.apply(step), Outdated)
        assert world.kube.live(SECRETS, "a-start") == before

    async def test_record_whose_secret_is_gone_is_outdated(self, world):
        await world.put_secret()
        known = world.kube.live(SECRETS, "a-start")["metadata"]["resourceVersion"]
        world.kube.remove(SECRETS, "default", "a-start")
        step = WriteBootstrap("a-start", known, records.latch(BOOTSTRAP), "formed")

        assert isinstance(await world.apply(step), Outdated)
        assert world.kube.find(SECRETS, "a-start") is None


class TestRecord:
    def step(self, claim, **other):
        metadata = claim["metadata"] | other
        return RecordMember(
            "PersistentVolumeClaim",
            "data-a-0",
            metadata["uid"],
            metadata["resourceVersion"],
            MEMBER,
            "is recorded",
        )

    async def test_is_written_on_the_claim(self, world):
        claim = world.put_claim(annotations={"theirs": "kept"})
        assert isinstance(await world.apply(self.step(claim)), Done)
        after = world.kube.live(CLAIMS, "data-a-0")
        assert reading.claim("a", after).record == MEMBER
        assert after["metadata"]["annotations"]["theirs"] == "kept"
        assert world.store.get(CLAIMS, "default", "data-a-0") == after

    async def test_a_claim_that_was_made_beforehand_was_never_watched(self, world):
        """It was read in each pass, and stayed with its data when its member had been removed."""
        claim = world.put_claim(labels={"for": "a local volume"})

        assert isinstance(await world.apply(self.step(claim)), Done)

        watched = world.store.of_cluster(CLAIMS, "default", "a")
        assert [one["metadata"]["name"] for one in watched] == ["data-a-0"]
        assert watched[0]["metadata"]["labels"]["for"] == "a local volume"

    @pytest.mark.parametrize("other", [{"uid": "uid-x"}, {"resourceVersion": "1"}])
    async def test_is_not_written_on_another_claim_or_a_changed_one(self, world, other):
        claim = world.put_claim()
        world.kube.watching = False
        newer = world.kube.put(CLAIMS, {**claim, "status": {"phase": "Lost"}})
        assert isinstance(await world.apply(self.step(newer, **other)), Outdated)
        assert reading.claim("a", world.kube.live(CLAIMS, "data-a-0")).record is None
        seen = world.store.get(CLAIMS, "default", "data-a-0")
        assert seen["status"]["phase"] == "Lost", "the store was to be refreshed"

    async def test_is_written_on_the_pod_if_the_pod_holds_the_data(self, world):
        pod = world.put_pod()
        metadata = pod["metadata"]
        step = RecordMember(
            "Pod", "a-0", metadata["uid"], metadata["resourceVersion"], MEMBER, "is recorded"
        )
        assert isinstance(await world.apply(step), Done)
        notes = world.kube.live(PODS, "a-0")["metadata"]["annotations"]
        assert load_member(notes) == MEMBER


class TestTicket:
    TICKET = Ticket("run-1", "uid-a", 1, "a-0", 0xABC, 1, "new", "a-0=http://a-0:2380", "t")

    async def prepare(self, world):
        issued = records.issue(BOOTSTRAP, {self.TICKET.member_id: self.TICKET.challenge})
        await world.apply(CreateSecret("a-start", issued, "begins"))
        pod = world.put_pod()
        world.start.wait(ADDRESS, pod["metadata"]["uid"], "run-1")
        return PushTicket("a-0", pod["metadata"]["uid"], ADDRESS, self.TICKET, "may start")

    async def test_is_pushed_after_a_read_of_the_pod(self, world):
        step = await self.prepare(world)
        world.kube.log.clear()
        assert isinstance(await world.apply(step), Done)
        assert world.kube.log == ["get Pod a-0"]
        assert world.start.taken == [self.TICKET]

    @pytest.mark.parametrize(
        "change",
        [
            {"uid": "uid-other"},
            {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            {"status": running("etcd", ADDRESS)},
            {"status": running("start", "10.0.0.2")},
            None,
        ],
        ids=["another pod", "deleting", "out of start", "moved", "gone"],
    )
    async def test_is_withheld_if_the_read_contradicts(self, world, change):
        """The store is behind: only the fresh read shows it."""
        step = await self.prepare(world)
        world.kube.watching = False
        pod = world.kube.live(PODS, "a-0")
        if change is None:
            world.kube.remove(PODS, "default", "a-0")
        else:
            status = change.pop("status", None) if "status" in change else None
            pod["metadata"] |= change
            world.kube.put(PODS, {**pod, "status": status or pod["status"]})

        assert isinstance(await world.apply(step), Outdated)
        assert world.start.taken == []
        seen = world.store.get(PODS, "default", "a-0")
        assert (seen is None) == (change is None), "the next pass must see what the read saw"

    async def test_that_is_not_in_the_ledger_is_withheld(self, world):
        """I3: the Secret was recreated after an operator with an old view had chosen the step."""
        step = await self.prepare(world)
        secret = world.kube.live(SECRETS, "a-start")
        patched = WriteBootstrap(
            "a-start", secret["metadata"]["resourceVersion"], BOOTSTRAP, "without the ledger"
        )
        await world.apply(patched)
        assert isinstance(await world.apply(step), Outdated)
        assert world.start.taken == []

    async def test_is_pushed_although_its_secret_has_lost_its_labels(self, world):
        """The watch selects by them, so the store treats the Secret as gone."""
        step = await self.prepare(world)
        secret = world.kube.live(SECRETS, "a-start")
        secret["metadata"]["labels"] = {}
        world.kube.put(SECRETS, secret)
        assert world.store.get(SECRETS, "default", "a-start") is None

        assert isinstance(await world.apply(step), Done)
        assert world.start.taken == [self.TICKET]

    async def test_for_another_run_is_not_pushed(self, world):
        step = await self.prepare(world)
        world.start.wait(ADDRESS, step.pod_uid, "run-2")
        assert isinstance(await world.apply(step), Uncertain)
        assert world.start.taken == []

    async def test_whose_receipt_is_lost_is_unknown(self, world):
        step = await self.prepare(world)
        world.start.lose_receipt = True
        assert isinstance(await world.apply(step), Uncertain)

    async def test_that_start_refuses_is_reported_with_its_reason(self, world):
        step = await self.prepare(world)
        world.start.refusal = "this run has taken another ticket"
        outcome = await world.apply(step)
        assert isinstance(outcome, TicketRefused)
        assert "taken another ticket" in outcome.why

    async def test_without_a_key_is_not_pushed(self, world):
        step = await self.prepare(world)
        secret = world.kube.live(SECRETS, "a-start")
        secret["data"]["key"] = base64.b64encode(b"short").decode()
        world.kube.put(SECRETS, secret)
        assert isinstance(await world.apply(step), Outdated)
        assert world.start.taken == []


class TestDeletion:
    def step(self, claim, **other):
        metadata = claim["metadata"] | other
        return DeleteClaim("data-a-0", metadata["uid"], metadata["resourceVersion"], "discarded")

    async def test_of_exactly_this_claim(self, world):
        claim = world.put_claim()
        assert isinstance(await world.apply(self.step(claim)), Done)
        assert world.kube.find(CLAIMS, "data-a-0") is None
        assert world.store.get(CLAIMS, "default", "data-a-0") is None

    @pytest.mark.parametrize("other", [{"uid": "uid-x"}, {"resourceVersion": "1"}])
    async def test_another_or_a_changed_object_is_left_alone(self, world, other):
        claim = world.put_claim()
        assert isinstance(await world.apply(self.step(claim, **other)), Outdated)
        assert world.kube.find(CLAIMS, "data-a-0")

    async def test_that_a_finalizer_delays_shows_as_deleting(self, world):
        world.kube.watching = False
        claim = world.put_claim(finalizers=["kubernetes.io/pvc-protection"])
        assert isinstance(await world.apply(self.step(claim)), Done)
        assert "deletionTimestamp" in world.store.get(CLAIMS, "default", "data-a-0")["metadata"]

    async def test_of_a_claim_that_is_gone_is_done(self, world):
        claim = world.put_claim()
        world.kube.watching = False
        world.kube.remove(CLAIMS, "default", "data-a-0")
        assert isinstance(await world.apply(self.step(claim)), Done)
        assert world.store.get(CLAIMS, "default", "data-a-0") is None


class TestExpansion:
    def step(self, claim, **other):
        metadata = claim["metadata"] | other
        uid, version = metadata["uid"], metadata["resourceVersion"]
        return ExpandClaim("data-a-0", uid, version, "2Gi", "asks for 2Gi")

    async def test_of_exactly_this_claim(self, world):
        claim = world.put_claim()
        assert isinstance(await world.apply(self.step(claim)), Done)
        asked = world.kube.find(CLAIMS, "data-a-0")["spec"]["resources"]["requests"]
        assert asked["storage"] == "2Gi"
        notes = world.kube.find(CLAIMS, "data-a-0")["metadata"]["annotations"]
        assert notes[naming.STORAGE] == "2Gi"

    @pytest.mark.parametrize("less", [False, True])
    async def test_a_request_that_was_lowered_was_logged_as_raised(self, world, less):
        step = replace(self.step(world.put_claim()), less=less)
        verb = "lowered" if less else "raised"
        words = f"{verb} the storage request of claim data-a-0 to 2Gi"
        assert await world.apply(step) == Done(words)

    @pytest.mark.parametrize("other", [{"uid": "uid-x"}, {"resourceVersion": "1"}])
    async def test_another_or_a_changed_object_is_left_alone(self, world, other):
        claim = world.put_claim()
        assert isinstance(await world.apply(self.step(claim, **other)), Outdated)
        assert "resources" not in (world.kube.find(CLAIMS, "data-a-0").get("spec") or {})


class TestPodDeletion:
    def step(self, pod, *, force=False, **other):
        metadata = pod["metadata"] | other
        uid, version = metadata["uid"], metadata["resourceVersion"]
        return DeletePod("a-0", uid, version, "is made again", force=force)

    async def test_of_exactly_this_pod_with_its_grace(self, world):
        pod = world.put_pod()
        assert await world.apply(self.step(pod)) == Done("deleted pod a-0")
        assert world.kube.calls["delete Pod"] == 1
        assert world.store.get(PODS, "default", "a-0") is None

    async def test_by_force_without_a_grace_period(self, world):
        pod = world.put_pod()
        assert isinstance(await world.apply(self.step(pod, force=True)), Done)
        assert world.kube.calls["delete Pod by force"] == 1
        assert world.kube.calls["delete Pod"] == 0

    @pytest.mark.parametrize("other", [{"uid": "uid-x"}, {"resourceVersion": "1"}])
    @pytest.mark.parametrize("force", [False, True])
    async def test_another_or_a_changed_object_is_left_alone(self, world, other, force):
        pod = world.put_pod()
        world.kube.watching = False
        newer = world.kube.put(PODS, {**pod, "spec": {"touched": True}})
        step = self.step(newer, force=force, **other)
        assert isinstance(await world.apply(step), Outdated)
        assert world.kube.find(PODS, "a-0")
        assert world.store.get(PODS, "default", "a-0")["spec"], "the next pass must see why"

    async def test_that_takes_time_shows_as_deleting(self, world):
        world.kube.watching = False
        pod = world.put_pod(finalizers=["theirs/one"])
        assert isinstance(await world.apply(self.step(pod)), Done)
        assert "deletionTimestamp" in world.store.get(PODS, "default", "a-0")["metadata"]


LEADER = Leader(ADDRESS, 7, 99)
PROMOTE = MemberPromote(LEADER, 8, "has caught up")
WITH = {MemberAddLearner: "http://a-3:2380", MemberRemove: 8}


class TestChange:
    """A change of etcd is requested only from the leader, and only if the member and the cluster at
    its address are the expected ones."""

    @pytest.fixture
    def world(self):
        world = World()
        world.etcd.cluster_id = 99
        member = Member(7, "a-0", ("http://a-0:2380",), learner=False)
        world.etcd.members = {ADDRESS: member}
        world.etcd.listed = {7: member, 8: replace(member, member_id=8, learner=True)}
        world.etcd.members["10.0.0.2"] = world.etcd.listed[8]
        world.etcd.learners = {8}
        world.etcd.leader = 7
        return world

    @pytest.mark.parametrize(
        ("step", "asked"),
        [
            (MemberAddLearner(LEADER, "http://a-3:2380", "x"), "add 10.0.0.1 http://a-3:2380"),
            (
                MemberAddLearner(LEADER, "http://b", "x", ("https://b",)),
                "add 10.0.0.1 http://b https://b",
            ),
            (
                MemberUpdate(LEADER, 7, ("http://b", "https://b"), "x"),
                "update 10.0.0.1 7 http://b https://b",
            ),
            (PROMOTE, "promote 10.0.0.1 8"),
            (MemberRemove(LEADER, 8, "x"), "remove 10.0.0.1 8"),
            (MoveLeader(LEADER, 8, "x"), "move leader 10.0.0.1 8"),
            (DisarmAlarm(LEADER, Alarm("CORRUPT", 8), "x"), "disarm 10.0.0.1 CORRUPT 8"),
            (DisarmAlarm(LEADER, Alarm("NOSPACE", 8), "x"), "disarm 10.0.0.1 NOSPACE 8"),
            (EnableDowngrade(LEADER, "3.6", "x"), "downgrade 10.0.0.1 3.6"),
            (CancelDowngrade(LEADER, "x"), "cancel 10.0.0.1"),
        ],
        ids=lambda one: type(one).__name__ if not isinstance(one, str) else "",
    )
    async def test_is_requested_from_the_leader_once(self, world, step, asked):
        if step is not PROMOTE:
            world.etcd.learners.clear()
        assert isinstance(await world.apply(step), Done)
        assert world.etcd.changes == [asked]
        assert not world.kube.calls

    @pytest.mark.parametrize("step", [MemberAddLearner, MemberRemove])
    async def test_that_the_leader_refuses_is_requested_from_the_others(self, world, step):
        """etcd issue 14523: a leader that wrongly believes a peer lost refuses until one of the two
        restarts."""
        world.etcd.learners.clear()
        change = step(self.with_others(world), WITH[step], "x")
        world.etcd.answers = [Refused("unhealthy cluster")] * 2
        assert isinstance(await world.apply(change), Done)
        asked = [one.split()[1] for one in world.etcd.changes]
        assert asked == [ADDRESS, "10.0.0.3", "10.0.0.4"]

        world.etcd.answers = [Refused("unhealthy cluster")] * 3
        assert await world.apply(change) == Declined("unhealthy cluster")

    async def test_that_a_follower_may_have_made_is_not_requested_from_the_next(self, world):
        change = MemberAddLearner(self.with_others(world), "http://a-3:2380", "x")
        world.etcd.answers = [Refused("unhealthy cluster"), NoAnswer("deadline")]
        assert isinstance(await world.apply(change), Uncertain)
        assert len(world.etcd.changes) == 2

    async def test_of_a_member_that_leaves_is_not_requested_from_itself(self, world):
        leaves = self.with_others(world).others[0].member_id
        world.etcd.answers = [Refused("unhealthy cluster")] * 2
        change = MemberRemove(self.with_others(world), leaves, "x")
        assert await world.apply(change) == Declined("unhealthy cluster")

    @pytest.mark.parametrize("step", [PROMOTE, MoveLeader(LEADER, 8, "x")])
    async def test_that_only_the_leader_can_make_is_requested_from_no_other(self, world, step):
        world.etcd.answers = [Refused("unhealthy cluster")]
        change = replace(step, leader=self.with_others(world))
        assert await world.apply(change) == Declined("unhealthy cluster")

    def with_others(self, world):
        """The leader, and two other voters."""
        for member_id, address in ((9, "10.0.0.3"), (10, "10.0.0.4")):
            member = replace(world.etcd.listed[7], member_id=member_id)
            world.etcd.members[address] = world.etcd.listed[member_id] = member
        return replace(LEADER, others=(Voter("10.0.0.3", 9, 99), Voter("10.0.0.4", 10, 99)))

    async def test_that_etcd_declines_is_reported_with_its_error(self, world):
        words = "can only promote a learner member which is in sync with leader"
        world.etcd.answers = [Refused(words)]
        assert await world.apply(PROMOTE) == Declined(words)

    async def test_without_an_answer_may_have_happened(self, world):
        world.etcd.answers = [NoAnswer("deadline")]
        assert isinstance(await world.apply(PROMOTE), Uncertain)

    @pytest.mark.parametrize(
        "stranger", [replace(LEADER, cluster_id=1), replace(LEADER, member_id=9)]
    )
    async def test_is_not_made_by_another_member_at_the_same_address(self, world, stranger):
        assert isinstance(await world.apply(replace(PROMOTE, leader=stranger)), Outdated)
        assert world.etcd.listed[8].learner

    async def test_of_a_database_is_requested_from_its_member(self, world):
        step = Defragment(Voter("10.0.0.2", 8, 99), "a-1", 50, "x")
        world.etcd.files = {"10.0.0.2": (100, 50)}
        assert await world.apply(step) == Done("defragmented a-1")
        assert world.etcd.changes == ["defragment 10.0.0.2"]

    async def test_of_a_member_that_leads_no_more_is_declined(self, world):
        world.etcd.leader = 8
        assert await world.apply(PROMOTE) == Declined("not leader")
