"""Enforces NetworkPolicies on a node: an engine decides about each connection's first packet."""

from localkube import binaries
from localkube.addresses import chosen
from localkube.machines import Machine
from localkube.paths import KUBECONFIG
from localkube.processes import Process
from localkube.shell import say, succeeds

QUEUE = "100"


def engine(machine: Machine) -> Process:
    program = binaries.network_policies()
    command = ("env", f"KUBECONFIG={KUBECONFIG}", program, f"-node={machine.name}")
    return machine.process(f"network-policies-{machine.name}", *command, f"-queue={QUEUE}")


def hand_over_packets(machine: Machine) -> None:
    """Queues packets after destination NAT and before source NAT. Without an engine they pass."""
    if succeeds(*_iptables(machine, "--check")):
        return
    if not succeeds(*_iptables(machine, "--append")):
        say(f"    {machine.name}: this kernel has no packet queues, so policies are not enforced")


def _iptables(machine: Machine, command: str) -> tuple[str, ...]:
    """Matches packets to pods, but not from the node itself, to which policies do not apply, nor
    from other machines and the host, on which the tests run."""
    ours = chosen()
    pods = ("--destination", str(ours.pods), "!", "--source", str(ours.machines))
    new = ("--match", "conntrack", "--ctstate", "NEW")
    forwarded = ("--match", "owner", "!", "--socket-exists")
    queue = ("--jump", "NFQUEUE", "--queue-num", QUEUE, "--queue-bypass")
    rule = (*pods, *new, *forwarded, *queue)
    table = (ours.iptables, "--wait", "--table", "mangle")
    return machine.enter(*table, command, "POSTROUTING", *rule)
