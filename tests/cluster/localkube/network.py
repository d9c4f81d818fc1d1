"""The cluster's network: one bridge. Traffic to its addresses never leaves the machine."""

import json
from ipaddress import ip_address
from pathlib import Path

from localkube.addresses import all_ranges, chosen, families
from localkube.shell import ClusterError, run, succeeds

BRIDGE = "etcd-op0"
CABLE = "op-"  # and the name of the machine


def bridge_up() -> None:
    if not succeeds("ip", "link", "show", BRIDGE):
        # With an address of its own. One that follows its ports changes, and then the kernel
        # forgets all neighbours.
        run("ip", "link", "add", BRIDGE, "address", hardware(chosen().host), "type", "bridge")
    run("ip", "address", "replace", *_own(chosen().host), "dev", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")


def bridge_down() -> None:
    """The routes over the bridge go with it. Those of others into the same ranges stay."""
    if succeeds("ip", "link", "show", BRIDGE):
        # The kernel does this itself once it has removed the machines' networks. On a busy machine
        # that took more than a minute, so it may not have happened yet.
        for cable in json.loads(run("ip", "-json", "link", "show", "master", BRIDGE)):
            succeeds("ip", "link", "delete", cable["ifname"])
        run("ip", "link", "delete", BRIDGE)
    for family in families():
        succeeds("ip", "route", "delete", "blackhole", str(family.pods))


def check_free() -> None:
    """Raises ClusterError if this machine has other routes into the ranges of the cluster, which
    would replace them: it may be a node of another Kubernetes, have podman, or be in a VPN."""
    if others := [one for one in _routes() if not _is_ours(one)]:
        ranges = ", ".join(map(str, all_ranges()))
        why = f"the local cluster needs {ranges}, and this machine has other routes there:"
        raise ClusterError("\n  ".join([why, *others]))


def own_routes() -> list[str]:
    """The routes of this machine that are the cluster's."""
    return [one for one in _routes() if _is_ours(one)]


def _is_ours(route: str) -> bool:
    words = route.split()
    holes = [["blackhole", str(family.pods)] for family in families()]
    return BRIDGE in words or words[:2] in holes


def _routes() -> list[str]:
    """The routes of this machine into the ranges of the cluster."""
    listings = [run("ip", "route", "show", "root", str(each)) for each in all_ranges()]
    return [line.strip() for listing in listings for line in listing.splitlines()]


def is_plugged(cable: str) -> bool:
    return succeeds("ip", "link", "show", cable)


def plug_in(pid: int, cable: str, address: str) -> None:
    """Joins the machine whose first process is `pid` to the bridge."""
    if is_plugged(cable):
        run("ip", "link", "delete", cable)
    peer = ("peer", "name", "eth0", "address", hardware(address), "netns", str(pid))
    run("ip", "link", "add", cable, "type", "veth", *peer)
    run("ip", "link", "set", cable, "master", BRIDGE, "up")
    lines = (
        "link set lo up",
        "link set eth0 up",
        f"address add {' '.join(_own(address))} dev eth0",
    )
    run(*_in(pid), "-batch", "-", stdin="\n".join(lines))


def routes(nodes: int, skip: int = 0) -> list[str]:
    """Routes to each node's pods, and to Services through the first node with its kube-proxy.

    A node (`skip`) reaches its own pods on its own bridge, and Services by its own rules, which
    still need some route.
    """
    ours = chosen()
    services = "dev eth0" if skip else f"via {ours.node(1)}"
    return [
        f"blackhole {ours.pods}",
        f"{ours.services} {services}",
        *(f"{ours.pod_subnet(one)} via {ours.node(one)}" for one in _others(nodes, skip)),
    ]


def neighbours(nodes: int, skip: int = 0) -> list[str]:
    """The nodes, so that nobody has to ask for them: while the kernel asks for a node of IPv6, it
    takes the blackhole in place of the route to the node's pods."""
    found = map(chosen().node, _others(nodes, skip))
    return [f"{each} lladdr {hardware(each)} nud permanent" for each in found]


def hardware(address: str) -> str:
    """The hardware address of the machine with this one."""
    return f"02:00:00:00:00:{ip_address(address).packed[-1]:02x}"


def connect(nodes: int, skip: int = 0, pid: int = 1) -> None:
    """Tells this host, or the machine whose first process is `pid`, how to reach all others."""
    device = BRIDGE if pid == 1 else "eth0"
    lines = [
        *(f"neighbour replace {one} dev {device}" for one in neighbours(nodes, skip)),
        *(f"route replace {one}" for one in routes(nodes, skip)),
    ]
    run(*_in(pid), "-batch", "-", stdin="\n".join(lines))


def listening(pid: int) -> set[int]:
    """The open TCP ports in the network namespace of a process."""
    tables = [Path(f"/proc/{pid}/net/{name}").read_text() for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table.splitlines()[1:]]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A"}


def _others(nodes: int, skip: int) -> list[int]:
    return [index for index in range(1, nodes + 1) if index != skip]


def _own(address: str) -> tuple[str, ...]:
    """At once: nobody else is asked whether they have the same IPv6 address."""
    found = (f"{address}/{chosen().machines.prefixlen}",)
    return (*found, "nodad") if ":" in address else found


def _in(pid: int) -> tuple[str, ...]:
    return ("ip",) if pid == 1 else ("nsenter", f"--target={pid}", "--net", "ip")
