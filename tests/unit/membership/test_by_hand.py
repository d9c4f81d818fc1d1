"""Commands that messages tell the user to run: while authentication is on, only root may."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from views import with_members
from worlds import formed

from etcd_stateful.api.auth import Auth
from etcd_stateful.api.tls import NO_TLS
from etcd_stateful.membership.epochs import survivor
from etcd_stateful.membership.members import unknown
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.steps import Hold, Step
from etcd_stateful.membership.upkeep import alarms, space
from etcd_stateful.observed.members import Alarm, Member

OF_ROOT = "with the certificate in Secret c-operator-tls"


def with_users(seen: Observation) -> Observation:
    return replace(seen, cluster=replace(seen.cluster, auth=Auth((), ())))


def message(step: Step | None) -> str:
    assert isinstance(step, Hold)
    return step.message


def of_a_stranger(change: Callable[[Observation], Observation]) -> str:
    seen = formed(3).observe()
    other = Member(1, "x", ("https://x.example.com:2380",), learner=False)
    return message(unknown.hold(change(with_members(seen, *seen.members, other))))


def of_other_peer_urls(change: Callable[[Observation], Observation]) -> str:
    seen = formed(3).observe()
    moved = replace(seen.members[0], peer_urls=("https://10.0.0.9:2380",))
    return message(unknown.hold(change(with_members(seen, moved, *seen.members[1:]))))


def of_a_full_quota(change: Callable[[Observation], Observation]) -> str:
    seen = formed(3, defragmentation="Never").observe()
    return message(space.full(change(replace(seen, alarms=(Alarm("NOSPACE", 1),)))))


def of_a_corrupt_member(change: Callable[[Observation], Observation]) -> str:
    seen = replace(formed(1).observe(), alarms=(Alarm("CORRUPT", 1),), hashes={0: 7})
    return message(alarms.undecided(change(seen)))


def of_a_lost_quorum(change: Callable[[Observation], Observation]) -> str:
    seen = formed(3, pod={"emptyDir": {}}).observe()
    return survivor.ways_out(change(replace(seen, etcd=None)))


SAID: list[tuple[Callable[[Callable[[Observation], Observation]], str], str, str]] = [
    (of_a_stranger, "(etcdctl member remove)", "(etcdctl --user root member remove)"),
    (of_other_peer_urls, "(etcdctl member update ", "(etcdctl --user root member update "),
    (of_a_full_quota, "(etcdctl compact)", "(etcdctl --user root compact)"),
    (of_a_full_quota, "(etcdctl defrag --", "(etcdctl --user root defrag --"),
    (of_a_corrupt_member, "(etcdctl alarm disarm)", "(etcdctl --user root alarm disarm)"),
    (of_a_corrupt_member, "port-forward to its pod)", f"port-forward to its pod {OF_ROOT})"),
    (of_a_lost_quorum, "port-forward to it makes", f"port-forward to it {OF_ROOT} makes"),
]


@pytest.mark.parametrize(("told", "to_anybody", "as_root"), SAID)
def test_a_command_was_named_that_etcd_refuses_to_everybody_but_root(
    told: Callable[[Callable[[Observation], Observation]], str], to_anybody: str, as_root: str
) -> None:
    assert to_anybody in told(lambda seen: seen)
    assert as_root in told(with_users)
    assert to_anybody not in told(with_users)


def test_nobody_logs_in_where_plaintext_keeps_authentication_off() -> None:
    def in_plaintext(seen: Observation) -> Observation:
        return replace(seen, cluster=replace(seen.cluster, auth=Auth((), ()), links=NO_TLS))

    assert "(etcdctl member remove)" in of_a_stranger(in_plaintext)
