"""A run of `start` from end to end, on loopback and a real volume, with attackers and races."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from start_helpers import (
    CLUSTER_ID,
    FIRST_SEGMENT,
    KEY,
    MARKER,
    MEMBER_ID,
    SETTINGS,
    TICKET,
    Operator,
    connect,
    eventually,
    listening,
    push,
)

from etcd_operator.start import dns, process, server, volume
from etcd_operator.start.journal import Journal
from etcd_stateful.start import marker, ticket
from etcd_stateful.start.configuration import run_config, ticket_config
from localkube.server import free_port

ROOT = Path(__file__).parents[3]
LOCAL = replace(SETTINGS, host="127.0.0.1")
"""A name that resolves to the pod at once."""
NEW = replace(TICKET, initial_cluster="c-1=http://127.0.0.1:2380")
NAMELESS = replace(SETTINGS, host="c-1.invalid", dns_timeout=30)
HELD = replace(TICKET, initial_cluster="c-1=http://c-1.invalid:2380")


class Lines(Journal):
    """A journal that keeps its lines."""

    def __init__(self, termination_log: str) -> None:
        super().__init__(termination_log)
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)

    def has(self, text: str) -> bool:
        return any(text in line for line in self.lines)


class World:
    """A volume, a key, and one run of `start` at a time."""

    def __init__(self, root: Path) -> None:
        (root / "volume").mkdir()
        (root / "key").write_bytes(KEY)
        (root / "message").write_bytes(b"")
        self.port = free_port()
        self.place = process.Place(
            volume=str(root / "volume"),
            key_file=str(root / "key"),
            termination_log=str(root / "message"),
            addresses=("127.0.0.1",),
            port=self.port,
        )
        self.root = root / "volume"
        self.journal = Lines(self.place.termination_log)
        self.codes: list[int] = []
        self._thread = threading.Thread()

    def start(self, settings: Any = LOCAL) -> None:
        run = process.Start(settings, self.place, self.journal)
        self._thread = threading.Thread(target=lambda: self.codes.append(run.run()), daemon=True)
        self._thread.start()

    def waits(self, settings: Any = LOCAL) -> None:
        self.start(settings)
        eventually(lambda: listening(self.port))

    def ends(self) -> None:
        self._thread.join(10)
        assert self.codes == [0]

    def stop(self) -> None:
        """Lets a run that still waits end: it gets data, and runs at the next greeting."""
        if self._thread.is_alive():
            self.put_data()
            Path(self.place.key_file).write_bytes(KEY)
            with Operator(self.port) as operator:
                operator.send(ticket.greeting("0" * 32))
            self._thread.join(10)
            assert not self._thread.is_alive()

    def put_data(self, **changes: Any) -> None:
        folder = self.root / "data/member/wal"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "0000000000000000-0000000000000000.wal").write_bytes(FIRST_SEGMENT)
        self.mark(**changes)

    def mark(self, **changes: Any) -> None:
        (self.root / marker.FILE).write_bytes(marker.serialise(replace(MARKER, **changes)))

    def config(self) -> bytes:
        """What etcd would read, at the path that it is given."""
        path = Path(f"{self.root}/data/member/wal/../../../etcd.yaml")
        return path.read_bytes() if os.path.exists(path) else b""

    def message(self) -> str:
        return Path(self.place.termination_log).read_text()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(dns, "FIRST_LOOKUP", 0.01)
    made = World(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Once this is set, the pod's name resolves to the pod."""
    resolved = threading.Event()
    monkeypatch.setattr(dns, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(dns, "resolves_to", lambda *_: resolved.is_set())
    return resolved


def test_a_volume_with_data_runs_without_an_operator(world: World) -> None:
    world.put_data()
    Path(world.place.key_file).unlink()
    world.start()
    world.ends()
    assert world.config() == run_config(LOCAL)
    assert world.journal.lines == [f"running with the data of member {MEMBER_ID:016x}"]
    assert world.message() == world.journal.lines[0]


def test_a_ticket_starts_an_empty_volume(world: World) -> None:
    world.waits()
    with Operator(world.port) as operator:
        answer = operator.greet()
        assert answer.finding == ticket.Finding("no-data")
        assert answer.pod_uid == "pod-uid"
        assert len(answer.challenge) == 64
        assert world.config() == b""
        receipt = operator.push(replace(NEW, challenge=answer.challenge))
    assert receipt == ticket.Receipt(answer.challenge)
    world.ends()
    assert world.config() == ticket_config(LOCAL, NEW)
    assert (world.root / marker.FILE).read_bytes() == marker.serialise(MARKER)
    assert "took a ticket: new" in world.message()


def test_each_run_has_its_own_challenge(world: World) -> None:
    seen = set()
    for _ in range(3):
        world.waits()
        with Operator(world.port) as operator:
            seen.add(operator.greet().challenge)
        world.stop()
        (world.root / "data").rename(world.root / f"away-{len(seen)}")
        world.codes.clear()
    assert len(seen) == 3


def test_a_ticket_of_an_earlier_run_is_refused(world: World) -> None:
    """It is replayed or late: the container was restarted in between."""
    world.waits()
    with Operator(world.port) as operator:
        answer = operator.greet()
    old = replace(NEW, challenge=answer.challenge)
    world.stop()
    (world.root / "data").rename(world.root / "away")
    before = world.config()
    world.waits()
    with Operator(world.port) as operator:
        operator.greet()
        receipt = operator.push(old)
    assert receipt.refusal == "the ticket is for another run of start"
    assert world.config() == before


def test_a_forged_ticket_gets_no_reply(world: World) -> None:
    world.waits()
    with Operator(world.port) as operator:
        challenge = operator.greet().challenge
        forged = replace(NEW, challenge=challenge)
        assert operator.send(ticket.seal(b"x" * 32, "ticket", forged)) == b""
    assert world.journal.has("not signed with this cluster's key")
    assert world.config() == b""


def test_an_answer_is_not_taken_for_a_ticket(world: World) -> None:
    world.waits()
    with Operator(world.port) as operator:
        line = operator.send(ticket.greeting("0" * 32))
        assert operator.send(line) == b""
    assert world.config() == b""


@pytest.mark.parametrize(
    "changes",
    [{"cluster_uid": "another"}, {"epoch": 2}, {"member": "c-0"}, {"state": "adopt"}],
)
def test_a_foreign_ticket_is_refused_with_the_reason(world: World, changes: Any) -> None:
    world.waits()
    assert push(world.port, replace(NEW, **changes)).refusal
    assert world.config() == b""
    # It was not spent on that: the right one is taken.
    assert push(world.port, NEW).refusal == ""
    world.ends()


@pytest.mark.parametrize("key", [None, b"", b"short"])
def test_without_a_key_start_keeps_waiting(world: World, key: bytes | None) -> None:
    path = Path(world.place.key_file)
    path.unlink()
    if key is not None:
        path.write_bytes(key)
    world.waits()
    for _ in range(3):
        with Operator(world.port) as operator:
            assert operator.send(ticket.greeting("0" * 32)) == b""
    assert sum("key" in line for line in world.journal.lines) == 1
    path.write_bytes(KEY)
    assert push(world.port, NEW).refusal == ""
    world.ends()


def test_the_key_is_read_for_every_message(world: World) -> None:
    other = b"the key after it was changed....."
    world.waits()
    with Operator(world.port) as operator:
        challenge = operator.greet().challenge
        Path(world.place.key_file).write_bytes(other)
        assert operator.send(ticket.seal(KEY, "ticket", replace(NEW, challenge=challenge))) == b""
    assert push(world.port, NEW, key=other).refusal == ""
    world.ends()


def test_a_lost_receipt_is_sent_again(world: World, named: threading.Event) -> None:
    world.waits(NAMELESS)
    with Operator(world.port) as operator:
        challenge = operator.greet().challenge
        offered = replace(HELD, challenge=challenge)
        line = ticket.seal(KEY, "ticket", offered)
        operator._socket.sendall(line)  # and gone, without reading
    eventually(world.config)
    before = sorted(world.root.rglob("*"))
    for _ in range(3):
        with Operator(world.port) as operator:
            answer = operator.greet()
            assert answer.challenge == challenge
            # Not `no-data`, though the volume still has none: it is spoken for.
            assert answer.finding == ticket.Finding("ticketed")
            assert operator.push(offered) == ticket.Receipt(challenge)
    with Operator(world.port) as operator:
        operator.greet()
        receipt = operator.push(replace(offered, member_id=5))
    assert receipt.refusal == "this run has taken another ticket"
    assert sorted(world.root.rglob("*")) == before
    assert world.codes == []
    named.set()
    world.ends()


def test_of_the_tickets_of_two_operators_one_is_taken(world: World, named: threading.Event) -> None:
    world.waits(NAMELESS)
    gate = threading.Barrier(8)

    def race(number: int) -> str:
        with Operator(world.port) as operator:
            challenge = operator.greet().challenge
            gate.wait(10)
            offered = replace(HELD, challenge=challenge, member_id=number)
            return operator.push(offered).refusal

    with ThreadPoolExecutor(8) as pool:
        refusals = list(pool.map(race, range(1, 9)))
    assert sorted(refusals) == [""] + ["this run has taken another ticket"] * 7
    taken = marker.parse((world.root / marker.FILE).read_bytes())
    assert isinstance(taken, marker.Marker)
    assert taken.member_id == refusals.index("") + 1
    named.set()
    world.ends()


@pytest.mark.parametrize(
    ("changes", "why"),
    [({"member": "c-0"}, "pod c-0"), ({"cluster_uid": "x"}, "cluster x"), ({"epoch": 2}, "epoch")],
)
def test_foreign_data_is_held_until_it_is_adopted(world: World, changes: Any, why: str) -> None:
    world.put_data(**changes)
    world.waits()
    with Operator(world.port) as operator:
        finding = operator.greet().finding
    assert finding.found == "foreign-data"
    assert why in finding.detail
    assert (finding.member_id, finding.cluster_id) == (MEMBER_ID, CLUSTER_ID)
    for state in ("new", "existing"):
        assert "holds a log" in push(world.port, replace(NEW, state=state)).refusal
    assert "the log is of" in push(world.port, replace(NEW, state="adopt", member_id=1)).refusal
    assert push(world.port, replace(NEW, state="adopt")).refusal == ""
    world.ends()
    assert world.config() == run_config(LOCAL)
    # And from now on it just runs.
    world.codes.clear()
    world.start()
    world.ends()


def test_the_finding_describes_the_volume_as_it_is_now(world: World) -> None:
    world.waits()
    with Operator(world.port) as operator:
        answer = operator.greet()
        assert answer.finding.found == "no-data"
        world.put_data(member="c-0")
        receipt = operator.push(replace(NEW, challenge=answer.challenge))
    assert "holds a log" in receipt.refusal
    with Operator(world.port) as operator:
        assert operator.greet().finding.found == "foreign-data"
    assert world.config() == b""


def test_data_that_appears_is_started_at_the_next_greeting(world: World) -> None:
    world.waits()
    world.put_data()
    with Operator(world.port) as operator:
        assert operator.send(ticket.greeting("0" * 32)) == b""
    world.ends()
    assert world.config() == run_config(LOCAL)


def test_data_that_appears_is_started_without_an_operator_too(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "REPEAT", 0.05)
    Path(world.place.key_file).unlink()
    (world.root / "data").write_bytes(b"in the way")
    world.waits()
    assert world.journal.has("cannot read the volume")
    (world.root / "data").unlink()
    world.put_data()
    world.ends()


def test_a_full_disk_keeps_data_waiting_only_until_there_is_space(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = OSError(28, "No space left on device", "etcd.yaml")

    def fails(*_: object) -> None:
        raise full

    with monkeypatch.context() as patch:
        patch.setattr(volume, "write", fails)
        world.put_data()
        world.waits()
        with Operator(world.port) as operator:
            finding = operator.greet().finding
        assert finding.found == "unreadable"
        assert "No space left on device" in finding.detail
        assert (finding.member, finding.member_id) == ("c-1", MEMBER_ID)
    world.stop()
    assert world.config() == run_config(LOCAL)


def test_a_ticket_that_cannot_be_written_is_not_taken(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = volume.write

    def fails(root: str, name: str, content: bytes) -> None:
        if name == "etcd.yaml":
            raise OSError(28, "No space left on device", name)
        real(root, name, content)

    world.waits()
    with monkeypatch.context() as patch:
        patch.setattr(volume, "write", fails)
        refusal = push(world.port, NEW).refusal
        assert refusal == "cannot write: etcd.yaml: No space left on device"
    assert push(world.port, NEW).refusal == ""
    world.ends()
    assert world.config() == ticket_config(LOCAL, NEW)


def test_the_reason_for_waiting_is_logged_once_and_when_it_changes(world: World) -> None:
    world.waits()
    for _ in range(3):
        with Operator(world.port) as operator:
            operator.greet()
    world.put_data(member="c-0")
    for _ in range(3):
        with Operator(world.port) as operator:
            operator.greet()
    said = [line for line in world.journal.lines if line.startswith("waiting for a ticket")]
    assert len(said) == 2
    assert said[0].endswith("for c-1 of cluster 4be0f3a2-uid: no data on the volume")
    assert "the marker names pod c-0" in said[1]
    assert "the marker names pod c-0" in world.message()


def test_the_reason_for_waiting_is_logged_again_after_a_while(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "REPEAT", 0.02)
    monkeypatch.setattr("etcd_operator.start.journal.REPEAT", 0.02)
    world.waits()
    eventually(lambda: sum("waiting" in line for line in world.journal.lines) >= 3)


def test_ignored_options_are_logged(world: World) -> None:
    world.put_data()
    world.start(replace(LOCAL, options={"wal-dir": "/x", "name": "y", "max-wals": 5}))
    world.ends()
    assert world.journal.lines[0] == "ignoring etcd options that start owns: name, wal-dir"


# Strangers: whatever they do, the operator is served.


@pytest.mark.parametrize(
    "noise",
    [
        b"",
        b"\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"{" * 100_000,
        b'{"nonce": "0123456789abcdef"}\n' * 500,
        b'{"body": ' + b"[" * 10_000 + b"\n",
        b"x" * (ticket.MAX_LINE + 1) + b"\n",
    ],
)
def test_garbage_on_the_port_does_no_harm(world: World, noise: bytes) -> None:
    world.waits()
    for _ in range(5):
        with connect(world.port) as peer:
            try:
                peer.sendall(noise)
                peer.shutdown(socket.SHUT_WR)
                while peer.recv(65536):
                    pass
            except OSError:
                pass  # closed on us
    assert push(world.port, NEW).refusal == ""
    world.ends()


def test_a_line_may_arrive_in_pieces(world: World) -> None:
    world.waits()
    with connect(world.port) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in ticket.greeting("0" * 32):
            peer.sendall(bytes([byte]))
        answer = ticket.open_answer(KEY, peer.makefile("rb").readline())
    assert answer.finding.found == "no-data"


def test_idle_connections_do_not_lock_the_operator_out(world: World) -> None:
    world.waits()
    idle = [connect(world.port) for _ in range(server.MAX_CONNECTIONS + 20)]
    try:
        assert push(world.port, NEW).refusal == ""
        # The oldest made room.
        assert idle[0].recv(1) == b""
    finally:
        for peer in idle:
            peer.close()
    world.ends()


def test_a_flood_of_connections_locked_the_operator_out() -> None:
    """One round accepted thousands, each replacing another, and nothing else went on: neither the
    look at the volume, nor the start of etcd after a ticket."""
    others: list[socket.socket] = []

    class Flooded(socket.socket):
        def accept(self) -> tuple[socket.socket, Any]:
            assert len(others) < 1000, "there is always one more"
            ours, theirs = socket.socketpair()
            others.append(theirs)
            return ours, None

    heard: list[bytes] = []
    with Flooded() as listener, socket.socket() as first:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        first.connect(listener.getsockname())
        lines = server.LineServer(listener, lambda _connection, line: heard.append(line))
        lines.serve(time.monotonic())
        others[0].sendall(b"operator\n")
        lines.serve(time.monotonic())
        lines.close()
    for each in others:
        each.close()

    assert heard == [b"operator"]


def test_a_slow_peer_is_dropped(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that keeps sending: the deadline is for the line, not for each byte."""
    monkeypatch.setattr(server, "FIRST_LINE", 0.2)
    world.waits()
    with connect(world.port, seconds=0.02) as peer:

        def dropped() -> bool:
            try:
                peer.sendall(b"{")
                return peer.recv(1) == b""
            except TimeoutError:
                return False
            except ConnectionError:
                return True

        eventually(dropped)


def test_a_line_without_an_end_is_cut_off(world: World) -> None:
    world.waits()
    with connect(world.port, seconds=server.FIRST_LINE / 2) as peer:
        try:
            peer.sendall(b"{" * 3 * ticket.MAX_LINE)
            assert peer.recv(1) == b""
        except ConnectionError:
            pass  # closed on us


def test_a_signal_during_a_round_leaves_no_socket_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listener = server.listen(("127.0.0.1",), 0)
    lines = server.LineServer(listener, lambda _connection, _line: None)

    def interrupted(*_: object) -> None:
        raise SystemExit(143)

    monkeypatch.setattr(lines._selector, "register", interrupted)
    with connect(listener.getsockname()[1]) as peer:
        with pytest.raises(SystemExit):
            lines.serve(time.monotonic() + 10)
        lines.close()
        assert peer.recv(1) == b""


def test_after_an_answer_the_deadline_is_extended(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "FIRST_LINE", 0.2)
    world.waits()
    with Operator(world.port) as operator:
        challenge = operator.greet().challenge
        threading.Event().wait(0.5)  # the operator writes its record
        assert operator.push(replace(NEW, challenge=challenge)).refusal == ""
    world.ends()


def test_a_peer_that_resets_the_connection_does_no_harm(world: World) -> None:
    world.waits()
    for number in range(20):
        with connect(world.port) as peer:
            if number % 2:
                peer.sendall(ticket.greeting("0" * 32))
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert push(world.port, NEW).refusal == ""
    world.ends()


def test_a_port_in_use_is_waited_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_RETRY_LISTEN", 0.01)
    with socket.socket() as other:
        other.bind(("127.0.0.1", world.port))
        other.listen()
        world.start()
        eventually(lambda: world.journal.has("cannot listen on port"))
    eventually(lambda: listening(world.port))
    assert push(world.port, NEW).refusal == ""
    world.ends()


def test_ipv4_and_ipv6_are_both_served() -> None:
    with server.listen(("::", "0.0.0.0"), 0) as listener:  # noqa: S104
        port = listener.getsockname()[1]
        for host in ("127.0.0.1", "::1"):
            with connect(port, host):
                pass


def test_without_ipv6_the_ipv4_address_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.socket

    def no_ipv6(family: int = socket.AF_INET, *args: Any) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(97, "Address family not supported by protocol")
        return real(family, *args)

    monkeypatch.setattr(socket, "socket", no_ipv6)
    with server.listen(("::", "127.0.0.1"), 0) as listener:
        assert listener.family == socket.AF_INET
    with pytest.raises(OSError, match="not supported"):
        server.listen(("::",), 0)


# Names.


@pytest.mark.parametrize("waited", [0.0, 1.6], ids=["at once", "later"])
def test_the_first_dns_lookup_leaves_the_record_time_to_appear(
    world: World, monkeypatch: pytest.MonkeyPatch, waited: float
) -> None:
    """Counted from the operator's first request, because the operator has the address from the
    pod's status. So a pod that has waited long enough for its ticket does not wait for its name."""
    asked: list[float] = []

    def look_up(*_: Any) -> list[Any]:
        asked.append(time.monotonic())
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))]

    monkeypatch.setattr(dns, "FIRST_LOOKUP", 1.5)
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    world.waits(NAMELESS)
    with Operator(world.port) as operator:
        began = time.monotonic()
        operator.greet()
        answered = time.monotonic()
    time.sleep(waited)
    assert push(world.port, HELD).refusal == ""
    given = time.monotonic()
    world.ends()
    [first] = asked
    assert first > began + 1.5
    assert first < max(answered + 1.5, given) + 1.4


def test_a_name_that_resolves_to_another_address_is_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster was created again, and the name still resolves to a deleted pod."""
    addresses = [[], ["10.0.0.1"], ["10.0.0.1"], ["10.0.0.1", "127.0.0.1"]]

    def look_up(_host: str, _port: None, family: int, kind: int) -> list[Any]:
        now = addresses.pop(0)
        if not now:
            raise socket.gaierror(-2, "Name or service not known")
        return [(family, kind, 6, "", (address, 0)) for address in now]

    monkeypatch.setattr(dns, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    world.waits(NAMELESS)
    push(world.port, HELD)
    world.ends()
    assert addresses == []
    assert world.journal.has("c-1.invalid resolves to 127.0.0.1 after")


@pytest.mark.parametrize(
    ("host", "looked_up"),
    [
        ("c-1.c.ns.svc", "c-1.c.ns.svc"),
        ("svc-1.svc.svc.svc", "svc-1.svc.svc.svc"),
        ("c-1.c.ns.svc.cluster.local", "c-1.c.ns.svc.cluster.local."),
    ],
)
def test_with_a_cluster_domain_the_hosts_file_of_the_pod_answered_in_place_of_dns(
    monkeypatch: pytest.MonkeyPatch, host: str, looked_up: str
) -> None:
    """So nothing was waited for: the kubelet writes the pod's full name into that file."""
    asked: list[str] = []

    def resolves(name: str, _address: str) -> bool:
        asked.append(name)
        return True

    monkeypatch.setattr(dns, "resolves_to", resolves)
    os.read(dns.watch(host, "10.0.0.1", time.monotonic() - 1), 1)
    assert asked == [looked_up]


def test_the_wait_for_the_dns_name_is_limited(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    hang = threading.Event()
    monkeypatch.setattr(dns, "resolves_to", lambda *_: hang.wait(30))
    world.waits(replace(NAMELESS, dns_timeout=0.1))
    push(world.port, HELD)
    world.ends()
    assert world.journal.has("does not resolve to 127.0.0.1 after 0.1 s; starting etcd anyway")
    hang.set()


def test_a_ticket_was_wasted_if_no_thread_could_look_up_the_name(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a node that has no more process IDs: the next run could not have the same ticket, so
    the member was given up."""

    def fails(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(dns, "watch", fails)
    world.waits(NAMELESS)
    assert push(world.port, HELD).refusal == ""
    world.ends()
    assert world.journal.has("can't start new thread; starting etcd anyway")
    assert world.config() == ticket_config(NAMELESS, HELD)


def test_a_volume_with_data_looks_up_no_name(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", None)
    world.put_data()
    world.start(NAMELESS)
    world.ends()


@pytest.mark.parametrize(
    ("host", "address", "expected"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("::1", "0:0:0:0:0:0:0:1", True),
        ("::1", "127.0.0.1", False),
        ("c-1.invalid", "127.0.0.1", False),
        ("127.0.0.1", "noise", False),
        ("x" * 300, "127.0.0.1", False),
    ],
)
def test_whether_a_name_resolves_to_an_address(host: str, address: str, expected: bool) -> None:
    assert dns.resolves_to(host, address) is expected


# The journal.


def test_the_journal_survives_any_text(tmp_path: Path, capfd: Any) -> None:
    journal = Journal(str(tmp_path / "absent"))
    journal.conclude("said \u00e9")
    assert capfd.readouterr().err == "start: said \u00e9\n"
    assert not (tmp_path / "absent").exists()
    for number in range(300):
        journal.repeat(f"line {number}")
    assert len(capfd.readouterr().err.splitlines()) == 300


def test_the_journal_writes_text_that_is_not_valid_unicode(tmp_path: Path, capfd: Any) -> None:
    path = tmp_path / "message"
    path.touch()
    Journal(str(path)).conclude("found \udcff")
    assert capfd.readouterr().err == "start: found \\udcff\n"
    assert path.read_text() == "found \\udcff"


def test_a_file_name_that_was_not_valid_unicode_ended_start_or_entered_its_answers(
    tmp_path: Path,
) -> None:
    """Half a character cannot be written to a log, nor, as it is, into a status."""
    os.makedirs(os.fsencode(tmp_path) + b"/data/member/wal/\xff.wal")

    problem = volume.look(str(tmp_path)).problem

    assert problem.endswith("/wal/\\udcff.wal: Is a directory")
    assert problem.encode()


def test_a_file_name_with_a_line_break_wrote_a_line_of_its_own(tmp_path: Path) -> None:
    """Somebody could let `start` seem to say anything, in its log and in the status."""
    os.makedirs(tmp_path / "data/member/wal/x\nstart: took a ticket: \x1b[0m\u00e9.wal")

    problem = volume.look(str(tmp_path)).problem

    assert problem.endswith("/x\\nstart: took a ticket: \\x1b[0m\u00e9.wal: Is a directory")


def test_the_termination_message_is_short(tmp_path: Path) -> None:
    path = tmp_path / "message"
    path.write_bytes(b"x" * 1000)
    Journal(str(path)).leave("y" * 5000)
    assert path.read_bytes() == b"y" * 800


# The process.


def run_module(*, code: str | None = None, **variables: str) -> subprocess.Popen[str]:
    path = f"{ROOT / 'operator'}{os.pathsep}{ROOT / 'stateful'}"
    command = ["-c", code] if code else ["-m", "etcd_operator.start"]
    return subprocess.Popen(
        [sys.executable, *command],
        env={"PYTHONPATH": path, "PATH": os.environ["PATH"], **variables},
        stderr=subprocess.PIPE,
        text=True,
    )


def test_sigterm_ends_a_waiting_run_without_success(world: World) -> None:
    code = f"""
from etcd_operator.start.process import Place, Start, exit_on_sigterm
from etcd_operator.start.journal import Journal
from etcd_stateful.start.configuration import Settings
exit_on_sigterm()
place = {world.place!r}
raise SystemExit(Start({LOCAL!r}, place, Journal(place.termination_log)).run())
"""
    with run_module(code=code) as child:
        eventually(lambda: listening(world.port))
        child.send_signal(signal.SIGTERM)
        assert child.wait(5) == 143, child.stderr and child.stderr.read()
    assert "waited for a ticket: no data" in world.message()


def test_a_wrongly_configured_pod_reports_it() -> None:
    for variables in ({}, {"START_SETTINGS": "noise"}):
        with run_module(**variables) as child:
            assert child.stderr is not None
            assert "start: cannot start: START_SETTINGS" in child.stderr.read()
            assert child.wait(10) == 2


def test_without_its_volume_start_waits() -> None:
    """The entry point itself, with the real paths, none of which exists. Not with the real port: a
    pod on this machine, or another run of this test, may use it at any address, and then it is
    waited for."""
    if Path("/var/etcd").exists():
        pytest.skip("this machine has an etcd volume")
    port = free_port()
    code = f"""
import runpy
from etcd_stateful import naming
naming.START_PORT = {port}
runpy.run_module("etcd_operator.start", run_name="__main__")
"""
    given = {
        "clusterUID": "uid",
        "epoch": 1,
        "domain": "c.ns.svc",
        "clientScheme": "http",
        "peerScheme": "http",
        "dnsTimeoutSeconds": 0,
        "etcd": {},
    }
    child = run_module(
        code=code, START_SETTINGS=json.dumps(given), POD_NAME="c-0", POD_UID="u", POD_IP="127.0.0.1"
    )
    with child:
        try:
            eventually(lambda: listening(port))
            with Operator(port) as operator:
                assert operator.send(ticket.greeting("0" * 32)) == b""
        finally:
            child.terminate()
        assert child.stderr is not None
        log = child.stderr.read()
        assert child.wait(5) == 143
    assert "cannot read the volume: /var/etcd: No such file or directory" in log
    assert "cannot answer the operator without a key" in log


def test_only_a_small_part_of_the_standard_library_is_loaded() -> None:
    code = """
import sys
before = set(sys.modules)
import etcd_operator.start.__main__
loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
heavy = {"logging", "asyncio", "argparse", "http", "threading", "ssl", "secrets", "random",
         "ipaddress", "urllib", "email", "tempfile", "shutil", "pathlib", "subprocess"}
ours = {"etcd_operator", "etcd_stateful"}
foreign = loaded - set(sys.stdlib_module_names) - ours
assert not foreign, foreign
assert not loaded & heavy, loaded & heavy
"""
    with run_module(code=code) as child:
        assert child.stderr is not None
        assert child.stderr.read() == ""
        assert child.wait(10) == 0
