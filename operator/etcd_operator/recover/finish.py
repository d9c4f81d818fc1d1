"""Waits until the survivor is a cluster of one, stops its etcd, and writes the marker last.

etcd is queried over its JSON gateway. It is stopped by a signal, as the Job's containers share a
process namespace. Kubernetes would stop it, as a sidecar, only after this container; but the marker
comes last, and only an etcd that has stopped has written all its data to be committed.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from etcd_operator.recover import files
from etcd_operator.recover.gateway import Gateway, NoReply, Unfinished
from etcd_operator.recover.prepare import look
from etcd_operator.start import volume
from etcd_operator.start.journal import Journal
from etcd_stateful.jobs.recover import CONFIG_PATH, Continue, Finished, Order, left_over
from etcd_stateful.start import marker

PAUSE: Final = 0.2
STOP_SECONDS: Final = 60.0


class Finish:
    """One run of the Job's last container."""

    def __init__(
        self,
        order: Order,
        root: str,
        journal: Journal,
        *,
        call: Callable[[str, dict[str, Any]], dict[str, Any]] | None = None,
        find: Callable[[str], list[int]] | None = None,
    ) -> None:
        self._order = order
        self._root = root
        self._journal = journal
        self._call = call or Gateway(order.settings.client_port).call
        self._find = find or processes
        self._path = f"{root}/{CONFIG_PATH}"

    def run(self) -> None:
        """Raises Unfinished and OSError."""
        verdict = look(self._order, self._root)
        if isinstance(verdict, Finished):
            self._stop()
            self._journal.conclude(f"{self._order.settings.member} was recovered before")
            return
        if not isinstance(verdict, Continue):
            raise Unfinished(f"the volume is not prepared: {verdict}")
        self._await_member()
        running = self._find(self._path)
        self._remove_others()
        if not running or self._stop() != running:
            raise Unfinished("etcd ended by itself, perhaps before it had written all its data")
        self._mark()

    def _await_member(self) -> None:
        """Waits as long as it takes: etcd needs long to open a large database, and if it ends, the
        kubelet restarts it."""
        while True:
            try:
                header = self._call("maintenance/status", {})["header"]
            except NoReply as error:
                self._journal.repeat(f"waiting for etcd: {error}", topic="etcd")
                time.sleep(PAUSE)
                continue
            found = (int(header["member_id"]), int(header["cluster_id"]))
            if found != (self._order.member_id, self._order.cluster_id):
                raise Unfinished(f"etcd runs as member {found[0]:016x} of cluster {found[1]:016x}")
            return

    def _remove_others(self) -> None:
        """Removes the others until a linearizable member list names the survivor only."""
        while True:
            try:
                listed = self._call("cluster/member/list", {"linearizable": True})["members"]
                others = left_over(self._order, listed)
                if not others:
                    return
                for member in others:
                    self._call("cluster/member/remove", {"ID": str(member)})
                    self._journal.say(f"removed member {member:016x}, which etcd had left")
            except NoReply as error:
                self._journal.repeat(f"waiting for a leader: {error}", topic="leader")
                time.sleep(PAUSE)
            except ValueError as error:
                raise Unfinished(str(error)) from error

    def _stop(self) -> list[int]:
        """Stops etcd and returns the processes that were stopped.

        The configuration is deleted first, so that etcd cannot run if the kubelet restarts it.
        """
        files.remove_config(self._root)
        told = []
        for process in self._find(self._path):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGTERM)
                told.append(process)
        ends = time.monotonic() + STOP_SECONDS
        while left := sorted(set(told) & set(self._find(self._path))):
            if time.monotonic() > ends:
                raise Unfinished(f"etcd does not stop: process {left}")
            time.sleep(0.05)
        return told

    def _mark(self) -> None:
        if not isinstance(look(self._order, self._root), Continue):
            raise Unfinished("the volume changed while etcd ran")
        volume.write(self._root, marker.FILE, marker.serialise(self._order.marker))
        settings = self._order.settings
        self._journal.conclude(f"{settings.member} is a cluster of one, of epoch {settings.epoch}")


def processes(path: str) -> list[int]:
    """Running processes that were started with this configuration."""
    option = f"--config-file={path}".encode()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read(4096).split(b"\0")
        except OSError:  # it has ended, or we may not read it
            continue
        if option in words:
            found.append(int(name))
    return found
