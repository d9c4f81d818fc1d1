"""The label with the ID of the member in a pod: only voters that serve get it, and it is always
true."""

from __future__ import annotations

from dataclasses import replace

import pytest
from views import with_members, with_pod, with_status, without_status
from worlds import formed

from etcd_stateful.api.tls import Trust
from etcd_stateful.certificates import trust_of
from etcd_stateful.identity import to_hex
from etcd_stateful.membership.members import labels
from etcd_stateful.membership.observation import Observation
from etcd_stateful.observed.certificates import Certificate, Certificates

MANAGED = {"peer": "Managed", "client": "Managed"}


def seen_by(**spec: object) -> Observation:
    return formed(3, **spec).observe()


def due(seen: Observation) -> dict[str, str]:
    return {pod.name: note.member for pod, note in labels.due(seen)}


def ids(seen: Observation) -> dict[str, str]:
    assert seen.etcd is not None
    return {one.name: to_hex(one.member_id) for one in seen.etcd.members}


def test_a_pod_that_takes_long_to_begin_is_touched():
    seen = with_pod(seen_by(), 1, idle=True)

    assert [pod.name for pod, _ in labels.touches(seen)] == ["c-1"]


def test_a_pod_that_goes_anyway_is_not_touched():
    seen = with_pod(seen_by(), 1, idle=True)

    assert not labels.touches(with_pod(seen, 1, deleting=True))
    assert not labels.touches(replace(seen, cluster=replace(seen.cluster, paused=True)))
    assert not labels.touches(replace(seen, cluster=replace(seen.cluster, deleting=True)))


def test_every_pod_is_labelled_with_its_own_member():
    seen = seen_by()

    assert len(due(seen)) == 3
    assert due(seen) == ids(seen)


def test_a_pod_that_has_its_label_is_left_alone():
    seen = seen_by()

    assert set(due(with_pod(seen, 1, labelled=ids(seen)["c-1"]))) == {"c-0", "c-2"}


def test_a_label_of_another_member_is_corrected():
    seen = seen_by()

    assert due(with_pod(seen, 1, labelled="1f"))["c-1"] == ids(seen)["c-1"]


def trusting(seen: Observation) -> Observation:
    leaves = {"c-peer-tls": "peer", "c-server-tls": "server"}
    found = Certificate("1", authority="first", trusts=("first",))
    secrets = {name: {role: found} for name, role in leaves.items()}
    return replace(seen, certificates=Certificates(0.0, secrets))


def test_the_trust_that_a_member_started_with_is_noted_once():
    seen = trusting(seen_by(TLS=MANAGED))
    name = trust_of(["first"])

    notes = [note for _, note in labels.due(seen)]

    assert {note.trust for note in notes} == {Trust(name, name)}
    noted = with_pod(seen, 1, labelled=ids(seen)["c-1"], noted_trust=Trust(name, name))
    assert set(due(noted)) == {"c-0", "c-2"}
    other = Certificate("2", authority="second", trusts=("second",))
    replaced = {name: dict.fromkeys(roles, other) for name, roles in secrets_of(noted).items()}
    changed = replace(noted, certificates=Certificates(0.0, replaced))
    assert "c-1" not in due(changed), "what the Secret holds later is not what etcd has read"


def test_no_trust_is_noted_that_the_mounts_tell():
    seen = trusting(seen_by(TLS=MANAGED))

    noted = {pod.name: note for pod, note in labels.due(with_pod(seen, 1, trust=Trust("p", "c")))}

    assert noted["c-1"].trust == Trust()


def test_no_trust_is_noted_if_certificates_contradict_each_other():
    seen = trusting(seen_by(TLS=MANAGED))
    odd = Certificate("1", authority="second", trusts=("first",))
    secrets = {name: dict.fromkeys(roles, odd) for name, roles in secrets_of(seen).items()}

    notes = [note for _, note in labels.due(replace(seen, certificates=Certificates(0.0, secrets)))]

    assert {note.trust for note in notes} == {Trust()}


def secrets_of(seen: Observation) -> dict[str, dict[str, Certificate]]:
    assert seen.certificates is not None
    return {name: dict(roles) for name, roles in seen.certificates.secrets.items()}


def test_a_pod_that_is_being_deleted_is_not_labelled():
    assert "c-1" not in due(with_pod(seen_by(), 1, deleting=True))


def test_a_member_that_is_silent_or_without_a_leader_is_not_labelled():
    seen = seen_by()

    assert set(due(with_status(without_status(seen, 0), 1, leader_id=0))) == {"c-2"}


def test_a_learner_is_labelled_only_once_it_votes():
    """Its pod must not become Ready earlier."""
    seen = seen_by()
    assert seen.etcd is not None
    first, *others = seen.etcd.members

    assert set(due(with_members(seen, replace(first, learner=True), *others))) == {"c-1", "c-2"}


def test_without_a_linearizable_list_no_pod_is_labelled():
    assert not due(replace(seen_by(), etcd=None))


@pytest.mark.parametrize("state", ["paused", "deleting"])
def test_a_cluster_that_must_not_be_touched_is_not_labelled(state: str):
    seen = seen_by()

    assert not due(replace(seen, cluster=replace(seen.cluster, **{state: True})))
