"""One run of `start`, from the first look at the volume until etcd may start."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from typing import Final

from etcd_operator.start import server, volume
from etcd_operator.start.journal import REPEAT, Journal
from etcd_stateful import naming
from etcd_stateful.start import rules, ticket
from etcd_stateful.start.configuration import Settings, ignored_options

_RETRY_LISTEN: Final = 1.0


@dataclass(frozen=True, slots=True)
class Place:
    """The paths and addresses that `start` uses. Only tests use others."""

    volume: str = naming.VOLUME_PATH
    key_file: str = naming.KEY_FILE
    termination_log: str = "/dev/termination-log"
    addresses: tuple[str, ...] = ("::", "0.0.0.0")  # noqa: S104 - the operator is elsewhere
    port: int = naming.START_PORT


def exit_on_sigterm() -> None:
    """Makes SIGTERM end this process even as process 1 of a container, which ignores it by default.

    The exit code must not be 0: Kubernetes would go on and start etcd.
    """
    signal.signal(signal.SIGTERM, _terminate)


def _terminate(*_: object) -> None:
    raise SystemExit(128 + signal.SIGTERM)


class Start:
    """The loop around the decisions of `etcd_stateful.start`."""

    def __init__(self, settings: Settings, place: Place, journal: Journal) -> None:
        self._settings = settings
        self._place = place
        self._journal = journal
        # Drawn for every run: a ticket for any other run is refused.
        self._challenge = os.urandom(32).hex()
        self._finding = ticket.Finding("unreadable", detail="not looked at yet")
        self._taken: ticket.Ticket | None = None
        self._asked: float | None = None
        self._running = False

    def run(self) -> int:
        """Returns 0 once etcd may start; only a signal ends it before."""
        ignored = ignored_options(self._settings)
        if ignored:
            self._journal.say(f"ignoring etcd options that start owns: {', '.join(ignored)}")
        self._look()
        if self._running:
            return 0
        lines = self._listen()
        try:
            self._await_ticket(lines)
            if self._taken:
                self._await_name(lines)
        finally:
            lines.close()
        return 0

    def _look(self) -> None:
        """Inspects the volume, and lets etcd run if it holds this member's data.

        This is done again before every answer, so that the finding is never out of date.
        """
        verdict = rules.inspect(self._settings, volume.look(self._place.volume))
        if isinstance(verdict, rules.Run):
            try:
                volume.write_config(self._place.volume, verdict.config)
            except OSError as error:
                verdict = rules.stuck(verdict, f"cannot write: {volume.reason(error)}")
        if isinstance(verdict, rules.Run):
            self._running = True
            self._journal.conclude(f"{rules.FOUND_DATA} member {verdict.marker.member_id:016x}")
            return
        if verdict.finding != self._finding:
            self._finding = verdict.finding
            self._journal.leave(f"waited for a ticket: {rules.describe(self._finding)}")
        self._journal.repeat(self._waiting(), topic="waiting")

    def _waiting(self) -> str:
        name = f"{self._settings.member} of cluster {self._settings.cluster_uid}"
        return f"waiting for a ticket for {name}: {rules.describe(self._finding)}"

    def _listen(self) -> server.LineServer:
        while True:
            try:
                listener = server.listen(self._place.addresses, self._place.port)
                return server.LineServer(listener, self._respond)
            except OSError as error:
                self._journal.repeat(f"cannot listen on port {self._place.port}: {error}")
                time.sleep(_RETRY_LISTEN)

    def _await_ticket(self, lines: server.LineServer) -> None:
        again = time.monotonic() + REPEAT
        while not (self._taken or self._running):
            lines.serve(again)
            if time.monotonic() >= again and not self._taken:
                # Even if no operator asks: a volume that could not be read may be readable again.
                self._look()
                again = time.monotonic() + REPEAT

    def _await_name(self, lines: server.LineServer) -> None:
        """Waits for the pod's own DNS name, but still answers: the receipt may have been lost."""
        host, address = self._settings.host, self._settings.pod_ip
        # Imported only here, to keep the start fast: it imports `threading`.
        from etcd_operator.start import dns  # noqa: PLC0415

        began = time.monotonic()
        try:
            lines.watch(dns.watch(host, address, self._asked or began))
        except RuntimeError as error:  # no more threads; to end now would waste the ticket
            self._journal.say(f"cannot look up {host}: {error}; starting etcd anyway")
            return
        while time.monotonic() < began + self._settings.dns_timeout:
            if lines.serve(began + self._settings.dns_timeout):
                took = time.monotonic() - began
                self._journal.say(f"{host} resolves to {address} after {took:.2f} s")
                return
        waited = f"{self._settings.dns_timeout:g} s"
        self._journal.say(
            f"{host} does not resolve to {address} after {waited}; starting etcd anyway"
        )

    def _respond(self, connection: server.Connection, line: bytes) -> bytes | None:
        """Answers a greeting, then tickets. A message that is not genuine gets no reply."""
        key = self._key()
        if key is None:
            return None
        try:
            if not connection.state:
                connection.state = ticket.read_greeting(line)
                return self._answer(key, connection.state)
            return self._take(key, ticket.open_ticket(key, line))
        except ticket.NotGenuine as error:
            self._journal.repeat(f"refused a message: {error}")
            return None

    def _key(self) -> bytes | None:
        """The cluster's key as it is now: its Secret may appear or change while `start` waits."""
        try:
            with open(self._place.key_file, "rb") as file:
                return file.read(4096)
        except OSError as error:
            self._journal.repeat(f"cannot answer the operator without a key: {error}")
            return None

    def _answer(self, key: bytes, nonce: str) -> bytes | None:
        if not self._taken:
            self._look()
        if self._running:
            return None
        if self._asked is None:
            self._asked = time.monotonic()
        uid = self._settings.pod_uid
        return ticket.seal(key, "answer", ticket.Answer(nonce, self._challenge, uid, self._finding))

    def _take(self, key: bytes, offered: ticket.Ticket) -> bytes:
        facts = volume.look(self._place.volume)
        decision = rules.accept(self._settings, facts, self._challenge, offered, self._taken)
        if isinstance(decision, rules.Plan):
            decision = self._carry_out(decision, offered)
        refusal = decision.why if isinstance(decision, rules.Refusal) else ""
        if refusal:
            self._journal.repeat(f"refused a ticket: {refusal}")
        return ticket.seal(key, "receipt", ticket.Receipt(self._challenge, refusal))

    def _carry_out(self, plan: rules.Plan, offered: ticket.Ticket) -> rules.Refusal | rules.Plan:
        try:
            volume.carry_out(self._place.volume, plan)
        except OSError as error:
            return rules.Refusal(f"cannot write: {volume.reason(error)}")
        self._taken = offered
        self._finding = ticket.Finding("ticketed")
        ids = f"member {offered.member_id:016x} of etcd cluster {offered.cluster_id:016x}"
        self._journal.conclude(f"took a ticket: {offered.state}, {ids}")
        return plan
