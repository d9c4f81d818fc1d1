"""What counts as a left-over of the local cluster, and what does not."""

from __future__ import annotations

import json

import pytest

from localkube import addresses, leavings
from localkube.addresses import IPV4, IPV6
from localkube.shell import ClusterError

HOST_MOUNTS = """\
22 28 0:20 / /proc rw,relatime shared:13 - proc proc rw
28 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 28 8:1 /home/me/etcd-operator /work rw,relatime - ext4 /dev/sda1 rw
41 28 8:1 /root/.cache/etcd-operator /cache rw,relatime - ext4 /dev/sda1 rw
"""


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What the looks find, one after the other; the last result is repeated."""
    looks: list[list[str]] = []
    monkeypatch.setattr(leavings, "found", lambda: looks.pop(0) if len(looks) > 1 else looks[0])
    return looks


def test_what_is_left_fails_and_is_named(now: list[list[str]]) -> None:
    now[:] = [["link etcd-op0", "process 7: nsenter --target=5"]]

    with pytest.raises(ClusterError, match="left behind:\n  link etcd-op0\n  process 7: nsenter"):
        leavings.check(seconds=0)


def test_devices_that_the_kernel_is_still_removing_are_waited_for(now: list[list[str]]) -> None:
    now[:] = [["link op-node-1"], []]

    leavings.check(seconds=5)

    assert now == [[]]


def test_links_are_known_by_their_names() -> None:
    names = ("lo", "eth0", "docker0", "etcd-op0", "op-control", "op-node-2", "tap-op-x", "op-tun0")
    listing = json.dumps([{"ifname": name} for name in names])

    assert leavings.links(listing) == ["link etcd-op0", "link op-control", "link op-node-2"]


def test_rules_are_known_by_the_cluster_s_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "families", lambda: [IPV4, IPV6])
    saved = """\
*filter
:INPUT ACCEPT [10:52096]
-A INPUT -s 10.96.0.1/32 -p tcp -j ACCEPT
-A FORWARD -d 10.244.17.3/32 -j DROP
-A FORWARD -s 10.89.0.0/24 -j ACCEPT
-A FORWARD -s fd5e:7cd:244:1::3/128 -j ACCEPT
-A FORWARD -s 172.17.0.0/16 -j ACCEPT
-A FORWARD -s fd00::/64 -j ACCEPT
-A OUTPUT -d 0.0.0.0/0 -j ACCEPT
COMMIT
"""

    assert [rule.split()[4] for rule in leavings.rules(saved)] == [
        "10.96.0.1/32",
        "10.244.17.3/32",
        "10.89.0.0/24",
        "fd5e:7cd:244:1::3/128",
    ]


def test_mounts_are_known_by_the_folders_of_machines() -> None:
    ours = """\
50 28 8:1 /srv/etcd-operator/node-1/lib /var/lib rw,relatime - ext4 /dev/sda1 rw
51 28 8:2 /etcd-operator/control/log /var/log rw,relatime - ext4 /dev/sdb1 rw
52 28 0:50 / /srv/etcd-operator/node-1/tmp rw,relatime - tmpfs tmpfs rw
"""

    assert leavings.mounts(HOST_MOUNTS) == []
    assert leavings.mounts(HOST_MOUNTS + ours) == [
        "/var/lib",
        "/var/log",
        "/srv/etcd-operator/node-1/tmp",
    ]


@pytest.mark.parametrize(
    ("command", "ours"),
    [
        (["unshare", "--net", "sh", "/srv/etcd-operator/node-1/machine.sh"], True),
        (["/usr/bin/nsenter", "--net", "etcd", "--data-dir=/srv/etcd-operator/control/etcd"], True),
        (["nsenter", "--net", "ip", "address"], False),
        (["tail", "-f", "/srv/etcd-operator/logs/etcd.log"], False),
        (["bash", "-c", "ls /srv/etcd-operator/; make cluster-down"], False),
        ([], False),
    ],
)
def test_a_shell_that_names_the_folder_is_no_process_of_the_cluster(
    command: list[str], ours: bool
) -> None:
    assert leavings.is_wrapper(command) is ours


def test_this_test_itself_does_not_count() -> None:
    assert not [one for one in leavings._processes() if "pytest" in one]
