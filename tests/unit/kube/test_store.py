"""The store never goes back in time, in whatever order updates arrive."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etcd_operator.kube.api import (
    CLAIMS,
    ETCD_BACKUPS,
    ETCD_CLUSTERS,
    ETCD_RESTORES,
    ETCD_SCHEDULES,
    PODS,
)
from etcd_operator.kube.store import Owner, Store, owners_of
from etcd_stateful import naming

INSTANCE = "app.kubernetes.io/instance"


def pod(version, name="a-0", *, namespace="ns", cluster="a", uid="u1"):
    labels = {INSTANCE: cluster} if cluster else {}
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid,
            "resourceVersion": str(version),
            "labels": labels,
        }
    }


def version_in(store, name="a-0", namespace="ns"):
    found = store.get(PODS, namespace, name)
    return int(found["metadata"]["resourceVersion"]) if found else None


@pytest.fixture
def store():
    return Store()


def test_a_new_object_is_stored_and_its_repetition_changes_nothing(store):
    assert store.put(PODS, pod(5))
    assert not store.put(PODS, pod(5))
    assert store.put(PODS, pod(6))
    assert version_in(store) == 6


def test_an_older_event_does_not_undo_an_own_write(store):
    store.put(PODS, pod(10))

    assert not store.put(PODS, pod(9))
    assert version_in(store) == 10


def test_versions_are_numbers_not_strings(store):
    store.put(PODS, pod(9))

    assert store.put(PODS, pod(10))


def test_a_late_event_does_not_bring_a_deleted_object_back(store):
    store.put(PODS, pod(5))
    assert store.remove(PODS, "ns", "a-0", "u1", 8)

    assert not store.put(PODS, pod(7))
    assert version_in(store) is None


def test_a_deletion_reported_before_the_object_still_counts(store):
    assert not store.remove(PODS, "ns", "a-0", "u1", 8)

    assert not store.put(PODS, pod(7))


def test_a_recreated_object_is_stored(store):
    store.put(PODS, pod(5))
    store.remove(PODS, "ns", "a-0", "u1", 8)

    assert store.put(PODS, pod(9, uid="u2"))


def test_the_deletion_of_a_predecessor_does_not_remove_the_object(store):
    store.put(PODS, pod(9, uid="u2"))

    assert not store.remove(PODS, "ns", "a-0", "u1", 8)
    assert not store.remove(PODS, "ns", "a-0", "u1")
    assert version_in(store) == 9


def test_labels_may_be_restored_before_the_watch_reports_their_removal(store):
    store.put(PODS, pod(5))
    store.put(PODS, pod(7))  # the answer to the write that restored them

    assert not store.remove(PODS, "ns", "a-0", "u1", 6)  # out of the selected watch at 6
    assert version_in(store) == 7


def test_a_removal_without_a_version_counts_as_of_the_known_version(store):
    store.put(PODS, pod(5))

    assert store.remove(PODS, "ns", "a-0", "u1")
    assert not store.put(PODS, pod(5))
    assert store.put(PODS, pod(6))


def test_a_list_makes_up_for_a_missed_deletion(store):
    store.put(PODS, pod(5))
    store.put(PODS, pod(6, "a-1"))

    assert store.replace(PODS, None, [pod(6, "a-1")], 20) == {Owner(ETCD_CLUSTERS, ("ns", "a"))}
    assert version_in(store) is None
    assert version_in(store, "a-1") == 6


def test_a_list_does_not_change_objects_newer_than_itself(store):
    store.put(PODS, pod(25))

    assert store.replace(PODS, None, [], 20) == set()
    assert version_in(store) == 25


def test_a_write_that_the_api_server_has_lost_stayed_in_the_store_for_ever(store):
    """Its own etcd was restored from a snapshot, and has come past the version of that write since.
    The next writes met conflicts without end, and what was lost was not done again."""
    store.put(PODS, pod(15, cluster="b"))

    assert store.replace(PODS, None, [pod(12)], 20) == {
        Owner(ETCD_CLUSTERS, ("ns", "a")),
        Owner(ETCD_CLUSTERS, ("ns", "b")),
    }
    assert version_in(store) == 12
    assert store.replace(PODS, None, [pod(12)], 21) == set()


def test_a_list_from_before_a_write_does_not_undo_it(store):
    store.put(PODS, pod(25))

    assert store.replace(PODS, None, [pod(12)], 20) == set()
    assert version_in(store) == 25


def test_a_list_does_not_bring_back_an_object_deleted_after_it(store):
    store.put(PODS, pod(5))
    store.remove(PODS, "ns", "a-0", "u1", 21)

    assert store.replace(PODS, None, [pod(5)], 20) == set()
    assert version_in(store) is None


def test_a_list_corrects_a_404_that_is_older_than_the_object(store):
    store.put(PODS, pod(5))
    store.remove(PODS, "ns", "a-0", "u1")  # asked before it was made, answered after

    assert store.replace(PODS, None, [pod(5)], 20) == {Owner(ETCD_CLUSTERS, ("ns", "a"))}
    assert version_in(store) == 5


def test_a_list_at_the_version_of_the_object_proves_that_it_exists(store):
    store.put(PODS, pod(5))
    store.remove(PODS, "ns", "a-0", "u1")

    assert store.replace(PODS, None, [pod(5)], 5) == {Owner(ETCD_CLUSTERS, ("ns", "a"))}


def test_an_older_event_does_not_bring_back_an_object_missing_from_a_list(store):
    store.replace(PODS, None, [], 20)

    assert not store.put(PODS, pod(19))
    assert store.put(PODS, pod(21))


def test_a_list_of_one_namespace_does_not_affect_another(store):
    store.put(PODS, pod(5))
    store.put(PODS, pod(5, namespace="other"))

    assert store.replace(PODS, "other", [], 20) == {Owner(ETCD_CLUSTERS, ("other", "a"))}
    assert version_in(store) == 5
    assert store.put(PODS, pod(6, "a-1"))
    assert not store.put(PODS, pod(6, "a-1", namespace="other"))


def test_a_list_without_change_changes_nothing(store):
    store.put(PODS, pod(5))

    assert store.replace(PODS, None, [pod(5)], 20) == set()


def test_a_list_returns_the_old_and_the_new_owner(store):
    store.put(PODS, pod(5))

    assert store.replace(PODS, None, [pod(6, cluster="b")], 20) == {
        Owner(ETCD_CLUSTERS, ("ns", "a")),
        Owner(ETCD_CLUSTERS, ("ns", "b")),
    }
    assert store.of_cluster(PODS, "ns", "a") == []
    assert [p["metadata"]["name"] for p in store.of_cluster(PODS, "ns", "b")] == ["a-0"]


def test_a_tombstone_is_removed_by_a_list_that_is_newer(store):
    store.remove(PODS, "ns", "a-0", "u1", 8)
    store.remove(PODS, "ns", "a-1", "u1", 30)
    store.replace(PODS, None, [], 20)

    assert store._shelf(PODS).gone == {("ns", "a-1"): 30}


def test_a_cluster_has_only_its_own_objects_in_order(store):
    for each in (
        pod(1, "a-10"),
        pod(2, "a-1"),
        pod(3, "b-0", cluster="b"),
        pod(4, "x", cluster=""),
    ):
        store.put(PODS, each)
    store.put(PODS, pod(5, "a-2", namespace="other"))
    store.put(CLAIMS, pod(6, "data-a-0"))

    assert [p["metadata"]["name"] for p in store.of_cluster(PODS, "ns", "a")] == ["a-1", "a-10"]


def test_the_index_forgets_deleted_objects(store):
    store.put(PODS, pod(5))
    store.remove(PODS, "ns", "a-0", "u1", 6)

    assert store.of_cluster(PODS, "ns", "a") == []
    assert dict(store._shelf(PODS).by_owner) == {}


def test_reading_changes_nothing_in_the_store(store):
    store.of_cluster(PODS, "ns", "nobody")

    assert dict(store._shelf(PODS).by_owner) == {}


def test_a_custom_resource_is_its_own_owner(store):
    cluster = pod(5, "a", cluster="something-else")

    assert owners_of(ETCD_CLUSTERS, cluster) == ((ETCD_CLUSTERS, ("ns", "a")),)
    assert owners_of(PODS, cluster) == ((ETCD_CLUSTERS, ("ns", "something-else")),)
    assert owners_of(PODS, pod(1, cluster="")) == ()
    store.put(ETCD_CLUSTERS, cluster)
    assert store.keys(ETCD_CLUSTERS) == [("ns", "a")]


def test_managed_fields_are_dropped_without_modifying_the_callers_object(store):
    told = pod(5)
    told["metadata"]["managedFields"] = [{"manager": "kubelet"}]
    store.put(PODS, told)

    assert "managedFields" not in store.get(PODS, "ns", "a-0")["metadata"]
    assert "managedFields" in told["metadata"]


# One object's true history, delivered by three writers in any order that they can really arrive in.

HISTORY = st.lists(st.sampled_from(["write", "delete"]), min_size=1, max_size=12)


def states_of(history):
    """What existed after each version; versions start at 1."""
    states, life, alive = [], 0, False
    for version, what in enumerate(history, 1):
        if what == "delete":
            alive = False
        elif not alive:
            alive, life = True, life + 1
        states.append(pod(version, uid=f"u{life}") if alive else None)
    return states


@settings(max_examples=500, deadline=None)
@given(data=st.data(), history=HISTORY)
def test_in_any_order_of_events_and_lists_the_store_never_goes_back(data, history):
    store, states = Store(), states_of(history)
    seen = 0
    for _ in range(data.draw(st.integers(0, 20))):
        version = data.draw(st.integers(1, len(states)))
        state = states[version - 1]
        how = data.draw(st.sampled_from(["event", "list"]))
        if how == "list":
            store.replace(PODS, None, [state] if state else [], version)
            seen = max(seen, version)
        elif state is not None:
            store.put(PODS, state)
            seen = max(seen, version)
        elif version > 1 and (before := states[version - 2]) is not None:
            store.remove(PODS, "ns", "a-0", before["metadata"]["uid"], version)
            seen = max(seen, version)
        shown = states[seen - 1] if seen else None
        assert store.get(PODS, "ns", "a-0") == shown

    final = states[-1]
    store.replace(PODS, None, [final] if final else [], len(states))
    assert store.get(PODS, "ns", "a-0") == final


def test_a_pod_of_a_backup_belongs_to_the_backup_and_to_its_cluster(store):
    mine = pod(5, "a-backup-g1-x", cluster="c")
    mine["metadata"]["annotations"] = {naming.BACKUP: "a"}

    store.put(PODS, mine)

    assert owners_of(PODS, mine) == ((ETCD_BACKUPS, ("ns", "a")), (ETCD_CLUSTERS, ("ns", "c")))
    assert store.of_cluster(PODS, "ns", "a") == []
    assert store.of_cluster(PODS, "ns", "c") == [mine]
    assert store.of(Owner(ETCD_BACKUPS, ("ns", "a")), PODS) == [mine]


def test_a_pod_of_a_restore_does_not_belong_to_a_cluster(store):
    """Its cluster would count it, and delete it as unknown."""
    mine = pod(5, "a-backup-g1-x", cluster="a")
    mine["metadata"]["annotations"] = {naming.RESTORE: "a"}

    store.put(PODS, mine)

    assert owners_of(PODS, mine) == ((ETCD_RESTORES, ("ns", "a")),)
    assert store.of_cluster(PODS, "ns", "a") == []


def test_a_backup_belongs_to_itself_and_to_its_schedule(store):
    """And no longer its schedule's once it is gone."""
    made = pod(5, "s-100", cluster="")
    made["metadata"]["labels"] = {naming.SCHEDULE: "s"}
    store.put(ETCD_BACKUPS, made)
    store.put(ETCD_BACKUPS, pod(6, "by-hand", cluster=""))

    schedule = Owner(ETCD_SCHEDULES, ("ns", "s"))
    assert owners_of(ETCD_BACKUPS, made) == ((ETCD_BACKUPS, ("ns", "s-100")), schedule)
    assert store.of(schedule, ETCD_BACKUPS) == [made]
    assert store.replace(ETCD_BACKUPS, None, [], 9) >= {schedule}
    assert store.of(schedule, ETCD_BACKUPS) == []
