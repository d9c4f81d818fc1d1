"""Which peer may connect to which port of a member, as a table of all pairs."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
from worlds import World, body, drive, formed, labels, with_defaults

from etcd_stateful import naming
from etcd_stateful.api.cluster import RefusedCluster, parse_cluster
from etcd_stateful.manifests import volume_job
from etcd_stateful.manifests.common import Manifest
from etcd_stateful.manifests.drift import drift
from etcd_stateful.manifests.network_policy import OperatorPods, network_policy
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import Hold, Settled
from etcd_stateful.observed.objects import Foreign
from unit.manifests.reachability import Peer, allows

OPERATOR = OperatorPods("operators", {"app.kubernetes.io/name": "etcd-operator"})
IS_OPERATOR = {"app.kubernetes.io/name": "etcd-operator", "more": "labels"}
NAMESPACES = {
    name: {"kubernetes.io/metadata.name": name} for name in ("ns", "operators", "apps", "other")
} | {"apps": {"kubernetes.io/metadata.name": "apps", "team": "web"}}

PEER, START, CLIENT, METRICS = 2380, 2378, 2379, 2381
PORTS = (PEER, START, CLIENT, METRICS)
MEMBER = Peer("ns", naming.labels("c"))
BACKUP_JOB = naming.selector("c") | {naming.LABEL_NAME: "etcd-backup"}

SOURCES = {
    "member": MEMBER,
    "operator": Peer("operators", IS_OPERATOR),
    "recovery job": Peer("ns", volume_job.labels("c")),
    "another job of the cluster": Peer("ns", BACKUP_JOB),
    "application": Peer("ns", {"app": "web"}),
    "application elsewhere": Peer("apps", {"app": "web"}),
    "member of another cluster": Peer("ns", naming.labels("d")),
    "job of another cluster": Peer("ns", volume_job.labels("d")),
    "same name in another namespace": Peer("other", naming.labels("c")),
    "operator's labels elsewhere": Peer("other", IS_OPERATOR),
    "operator's labels beside the cluster": Peer("ns", IS_OPERATOR),
    "another pod beside the operator": Peer("operators", {"app": "web"}),
    "outside": Peer("", {}, "192.0.2.7"),
}
MEMBERS, OPERATORS = {"member"}, {"operator"}
OWN = {"member", "operator", "recovery job", "another job of the cluster"}
BESIDE = {name for name, source in SOURCES.items() if source.namespace == "ns"}
ALL = set(SOURCES)


def policy(**access: Any) -> Manifest:
    spec = {"networkPolicy": access} if access else {}
    return network_policy(parse_cluster(body(3, **spec)), OPERATOR)


def reached_by(port: int, found: Manifest, target: Peer = MEMBER) -> set[str]:
    return {
        name
        for name, source in SOURCES.items()
        if allows([found], NAMESPACES, source, target, port)
    }


WEB = {"podSelector": {"matchLabels": {"app": "web"}}}
WEB_TEAM = {"namespaceSelector": {"matchLabels": {"team": "web"}}}
NET = {"ipBlock": {"cidr": "192.0.2.0/24", "except": ["192.0.2.128/25"]}}


@pytest.mark.parametrize(
    ("access", "clients", "metrics"),
    [
        ({}, OWN | BESIDE, ALL),
        ({"clients": []}, OWN, ALL),
        ({"metrics": []}, OWN | BESIDE, set()),
        ({"clients": [], "metrics": []}, OWN, set()),
        ({"clients": [WEB]}, OWN | {"application"}, ALL),
        ({"clients": [WEB_TEAM]}, OWN | {"application elsewhere"}, ALL),
        ({"clients": [WEB | WEB_TEAM]}, OWN | {"application elsewhere"}, ALL),
        ({"clients": [NET], "metrics": [WEB]}, OWN | {"outside"}, {"application"}),
        (
            {
                "clients": [
                    {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "web"}}}
                ]
            },
            OWN | {"application", "application elsewhere", "another pod beside the operator"},
            ALL,
        ),
        ({"clients": [{"podSelector": {}}]}, OWN | BESIDE, ALL),
    ],
    ids=lambda one: ", ".join(sorted(one)) if isinstance(one, set) else str(one),
)
def test_which_peers_may_connect_to_which_port(
    access: dict, clients: set[str], metrics: set[str]
) -> None:
    found = policy(**access)

    assert {port: reached_by(port, found) for port in PORTS} == {
        PEER: MEMBERS,
        START: OPERATORS,
        CLIENT: clients,
        METRICS: metrics,
    }


def test_no_other_port_is_open() -> None:
    for port in (22, 2377, 2382, 8080):
        assert reached_by(port, policy()) == set()


@pytest.mark.parametrize("target", ["member of another cluster", "recovery job", "application"])
def test_nobody_else_is_shut_in(target: str) -> None:
    for port in PORTS:
        assert reached_by(port, policy(clients=[]), SOURCES[target]) == ALL


class TestInvalidPeers:
    @pytest.mark.parametrize(
        ("peer", "path", "words"),
        [
            ({}, "[0]", "selects nothing"),
            ({"podSelector": None}, "[0]", "selects nothing"),
            ({"ports": [1]}, "[0].ports", "is not a selector"),
            ({"podSelector": "web"}, "[0].podSelector", "must be an object"),
            ({"podSelector": {"matchLabels": {"a": 1}}}, "[0].podSelector.matchLabels.a", "text"),
            ({"podSelector": {"matchExpressions": {}}}, ".matchExpressions", "must be a list"),
            (NET | WEB, "[0].ipBlock", "a separate peer"),
            ({"ipBlock": {"cidr": "192.0.2.1"}}, "[0].ipBlock.cidr", "10.0.0.0/8"),
            ({"ipBlock": {"cidr": "192.0.2.1/24"}}, "[0].ipBlock.cidr", "write 192.0.2.0/24"),
            ({"ipBlock": {"cidr": "192.0.2.0/024"}}, "[0].ipBlock.cidr", "found '192.0.2.0/024'"),
            ({"ipBlock": {"cidr": "::ffff:192.0.2.0/120"}}, "[0].ipBlock.cidr", "10.0.0.0/8"),
            ({"ipBlock": {"cidr": "::/0", "except": ["::ffff:0:0/96"]}}, ".except", "10.0.0.0/8"),
            ({"ipBlock": {"cidr": "all/0"}}, "[0].ipBlock.cidr", "all/0"),
            ({"ipBlock": {}}, "[0].ipBlock.cidr", "found ''"),
            ({"ipBlock": {"cidr": "::/0", "except": [1]}}, "[0].ipBlock.except", "list"),
            ({"ipBlock": {"cidr": "::/0", "except": ["x"]}}, "[0].ipBlock.except", "'x'"),
            (
                {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["192.0.2.0/24"]}},
                "[0].ipBlock.except",
                "within 10.0.0.0/8, found 192.0.2.0/24",
            ),
            ({"ipBlock": {"cidr": "::/0", "except": ["10.0.0.0/8"]}}, ".except", "within ::/0"),
            ({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.0.0.0/8"]}}, ".except", "smaller"),
            (
                {"podSelector": {"matchLabels": {"a b": "c"}}},
                ".matchLabels",
                "'a b' is not a valid label key",
            ),
            (
                {"podSelector": {"matchLabels": {"a": "b c"}}},
                ".matchLabels",
                "'b c' is not a valid label value",
            ),
            (
                {"namespaceSelector": {"matchExpressions": [{"key": "/a", "operator": "Exists"}]}},
                ".matchExpressions[0]",
                "'/a' is not a valid label key",
            ),
        ],
        ids=str,
    )
    def test_are_refused_by_path(self, peer: dict, path: str, words: str) -> None:
        """The API server would refuse the whole policy, and report it for another object."""
        with pytest.raises(RefusedCluster) as caught:
            policy(clients=[peer])

        assert "spec.networkPolicy.clients[0]" in str(caught.value)
        assert path in str(caught.value)
        assert words in str(caught.value)


class TestThePlanner:
    def test_creates_one_while_the_pods_start_but_not_without_the_operators_labels(self) -> None:
        world = World(body(3))
        without = formed(3)
        world.operator = OPERATOR

        assert drive(world) == Settled()

        done = labels(world.history)
        assert done.index("NetworkPolicy c") < done.index("ledger 3")
        assert world.objects["NetworkPolicy", "c"]["spec"] == policy()["spec"]
        assert "NetworkPolicy c" not in labels(without.history)

    def test_leaves_an_existing_one_when_they_are_turned_off(self) -> None:
        world = formed(3)
        live = with_defaults(policy())

        assert decide(replace(world.observe(), network_policy=live)) == Settled()

    def test_an_edit_of_the_spec_changes_it_without_a_restart(self) -> None:
        world = formed(3)
        world.operator = OPERATOR
        drive(world)
        world.history.clear()
        world.edit(networkPolicy={"clients": []})

        assert drive(world) == Settled()

        assert labels(world.history) == ["NetworkPolicy c"]
        assert world.objects["NetworkPolicy", "c"]["spec"] == policy(clients=[])["spec"]

    def test_another_owners_policy_is_left_alone_and_blocks_nothing(self) -> None:
        world = World(body(3))
        world.operator = OPERATOR
        world.foreign = (Foreign("NetworkPolicy", "c", "nobody (it has no owner)"),)

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert "NetworkPolicy c belongs to nobody" in rest.message
        assert world.record.latched


class TestDrift:
    @pytest.mark.parametrize("access", [{}, {"clients": [], "metrics": [WEB, NET]}], ids=str)
    def test_what_the_api_server_stores_is_not_drift(self, access: dict) -> None:
        found = policy(**access)

        assert drift(with_defaults(found), found) is None

    @pytest.mark.parametrize(
        "peer",
        [
            {"podSelector": {"matchLabels": {}, "matchExpressions": None}},
            {"namespaceSelector": {}, "podSelector": None},
            {"ipBlock": {"cidr": "192.0.2.0/24", "except": []}},
        ],
        ids=str,
    )
    def test_empty_fields_that_are_not_stored_are_not_rendered(self, peer: dict) -> None:
        found = policy(clients=[peer])

        assert drift(stored(found), found) is None

    @pytest.mark.parametrize(
        ("where", "what"),
        [
            (("ingress", 0, "ports"), {"protocol": "TCP", "port": 2378}),
            (("ingress", 0, "from"), {"podSelector": {}}),
            (("ingress",), {"from": [{"podSelector": {}}]}),
            (("policyTypes",), "Egress"),
        ],
        ids=str,
    )
    def test_an_added_entry_counts_as_drift(self, where: tuple, what: Any) -> None:
        found = policy(clients=[])
        live = stored(found)
        place = live["spec"]
        for part in where:
            place = place[part]
        place.append(what)

        assert drift(live, found) is not None

    def test_a_selector_that_leaves_pods_out_is_found(self) -> None:
        found = policy()
        live = stored(found)
        live["spec"]["podSelector"]["matchExpressions"] = [{"key": "a", "operator": "Exists"}]

        assert drift(live, found) == "spec.podSelector"


def stored(manifest: Manifest) -> Manifest:
    """As the API server stores it: without empty lists, labels and nulls."""

    def kept(value: Any) -> Any:
        if isinstance(value, dict):
            inner = {key: kept(one) for key, one in value.items()}
            return {
                key: one
                for key, one in inner.items()
                if one not in (None, []) and not (key == "matchLabels" and not one)
            }
        return [kept(one) for one in value] if isinstance(value, list) else value

    live: Manifest = kept(copy.deepcopy(manifest))
    return live
