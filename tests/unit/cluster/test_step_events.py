"""Which steps emit an Event, with which reason."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from fakes import cluster_body

from etcd_operator.cluster import step_events
from etcd_operator.cluster.step_events import event_of
from etcd_stateful import naming
from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.steps import (
    ApplyChild,
    CancelDowngrade,
    ChangeAuth,
    CreateJob,
    CreateSecret,
    Defragment,
    DeleteClaim,
    DeleteJob,
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
    RecordMember,
    Settled,
    Wait,
    Write,
    WriteBootstrap,
)
from etcd_stateful.observed.members import Alarm
from etcd_stateful.observed.objects import Secret
from etcd_stateful.records import bootstrap as records
from etcd_stateful.records.member import MemberRecord

LEADER = Leader("10.0.0.1", 1, 2)
BOOTSTRAP = records.first_attempt("uid-a", {"a-0": "http://a-0:2380"}, "3.6.16")
LATCHED = records.latch(BOOTSTRAP)


def cluster():
    body = cluster_body()
    body["metadata"] |= {"uid": "uid-a", "generation": 1}
    return parse_cluster(body)


def stateful_set(replicas=3, spec_hash="one"):
    template = {"metadata": {"annotations": {naming.SPEC_HASH: spec_hash}}}
    return {"metadata": {"name": "a"}, "spec": {"replicas": replicas, "template": template}}


def seen(**changes):
    base = Observation(
        cluster=cluster(),
        secret=Secret("1", LATCHED),
        stateful_set=stateful_set(),
        headless_service={},
        client_service={},
    )
    return replace(base, **changes)


def test_every_kind_of_step_has_an_event_or_is_listed_as_having_none():
    """As docs/status.md lists them. A step that only leads to one that has an Event has
    none."""
    by_what_they_do = {ApplyChild, ChangeAuth, CreateJob, WriteBootstrap}

    silent = {*get_args(Write)} - by_what_they_do - step_events._REASONS.keys()

    assert silent == {CreateSecret, RecordMember, DeleteJob}


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (MemberAddLearner(LEADER, "http://a-3:2380", "why"), "MemberAdded"),
        (MemberPromote(LEADER, 1, "why"), "MemberPromoted"),
        (MemberRemove(LEADER, 1, "why"), "MemberRemoved"),
        (MemberUpdate(LEADER, 1, ("https://a-1:2380",), "why"), "MemberUpdated"),
        (MoveLeader(LEADER, 1, "why"), "LeaderMoved"),
        (DeletePod("a-1", "u", "1", "why"), "PodRestarted"),
        (DeleteClaim("data-a-1", "u", "1", "why"), "ClaimDeleted"),
        (ExpandClaim("data-a-1", "u", "1", "2Gi", "why"), "ClaimExpanded"),
        (ExpandClaim("data-a-1", "u", "1", "1Gi", "why", less=True), "ClaimSizeTakenBack"),
        (DisarmAlarm(LEADER, Alarm("CORRUPT", 1), "why"), "AlarmDisarmed"),
        (Defragment(LEADER, "a-1", 50, "why"), "Defragmented"),
        (EnableDowngrade(LEADER, "3.5", "why"), "DowngradeEnabled"),
        (CancelDowngrade(LEADER, "why"), "DowngradeCancelled"),
        (WriteBootstrap("a-start", "1", replace(LATCHED, version="3.7.3"), "why"), "VersionChange"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_each_step_of_the_membership_has_an_event(step, reason):
    assert event_of(None, step, seen()) == ("Normal", reason, "why")


@pytest.mark.parametrize(
    "step",
    [
        Wait("x"),
        Settled(),
        RecordMember("Pod", "a-1", "u", "1", MemberRecord("u", "c", 1, 2), "why"),
        WriteBootstrap("a-start", "1", records.issue(LATCHED, {5: "run"}), "why"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_step_that_only_leads_to_another_has_none(step):
    assert event_of(None, step, seen()) is None


def test_the_latch_is_reported_as_the_cluster_having_formed():
    step = WriteBootstrap("a-start", "1", LATCHED, "why")
    assert event_of(None, step, seen(secret=Secret("1", BOOTSTRAP))) == ("Normal", "Formed", "why")


def test_of_a_single_member_it_said_that_1_members_serve():
    one = replace(seen().cluster, size=1)
    found = event_of(Wait("x"), Settled(), seen(cluster=one))
    assert found == ("Normal", "AsDeclared", "its one member serves, as declared")


def test_a_repeated_step_has_no_new_event():
    step = MemberPromote(LEADER, 1, "why")
    assert event_of(step, step, seen()) is None


@pytest.mark.parametrize(
    ("wanted", "news"),
    [
        (stateful_set(5), ("Normal", "Resized", "replicas of a go from 3 to 5")),
        (
            stateful_set(spec_hash="two"),
            ("Normal", "TemplateChanged", "pods of a are recreated: x"),
        ),
        (stateful_set(), ("Normal", "PutBack", "put back StatefulSet a: x")),
    ],
)
def test_a_change_of_the_spec_is_not_reported_as_a_repair(wanted, news):
    assert event_of(None, ApplyChild("StatefulSet", "a", wanted, "x"), seen()) == news


def test_a_recreated_stateful_set_is_reported_as_put_back():
    step = ApplyChild("StatefulSet", "a", stateful_set(), "x")
    found = event_of(None, step, seen(stateful_set=None), created=True)
    assert found == ("Normal", "PutBack", "put back StatefulSet a: x")


@pytest.mark.parametrize(
    ("budget", "news"),
    [
        ({"spec": {"minAvailable": 2}}, ("PutBack", "put back Service a-client: x")),
        (None, ("Created", "created Service a-client")),
    ],
)
def test_a_deleted_client_service_was_reported_as_created_for_the_first_time(budget, news):
    """So with the very Event of its creation, which is not posted twice within minutes: nothing
    was to be seen. The budget is created after the client Service."""
    step = ApplyChild("Service", "a-client", {}, "x")
    around = seen(client_service=None, disruption_budget=budget)
    assert event_of(None, step, around, created=True) == ("Normal", *news)


def test_a_new_claim_for_a_restore_in_place_is_not_reported_as_put_back() -> None:
    step = ApplyChild("PersistentVolumeClaim", "data-a-3", {}, "x")
    found = event_of(None, step, seen(), created=True)
    assert found == ("Normal", "Created", "created PersistentVolumeClaim data-a-3")


def budget(least):
    return {"metadata": {"name": "a"}, "spec": {"minAvailable": least}}


@pytest.mark.parametrize(
    ("live", "news"),
    [
        (
            budget(2),
            ("BudgetChanged", "minAvailable of a goes from 2 to 3, a quorum of the members"),
        ),
        (budget(3), ("PutBack", "put back PodDisruptionBudget a: x")),
        (budget("50%"), ("PutBack", "put back PodDisruptionBudget a: x")),
        (None, ("Created", "created PodDisruptionBudget a")),
    ],
)
def test_a_budget_that_follows_the_members_is_not_reported_as_a_repair(live, news):
    step = ApplyChild("PodDisruptionBudget", "a", budget(3), "x")
    told = event_of(None, step, seen(disruption_budget=live), created=live is None)
    assert told == ("Normal", *news)
