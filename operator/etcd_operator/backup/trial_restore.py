"""The two containers of a trial restore that run the operator's image: the first downloads the
backup, the last one checks the restored etcd.

Between them, the cluster's etcd image restores a data directory from the backup and runs on it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import time
from pathlib import Path
from typing import Any, Final

from aetcd import rpc
from grpc import ssl_channel_credentials

from etcd_operator.backup.channel import NoReply, asked, secured
from etcd_operator.backup.clients import StoreFailed
from etcd_operator.backup.download import BrokenOff, download
from etcd_operator.backup.measuring import measure, patience
from etcd_operator.backup.sink import Sink
from etcd_operator.backup.stored_manifest import read_manifest_bytes
from etcd_operator.credentials import signing
from etcd_stateful.backup import manifest as manifests
from etcd_stateful.backup import measurement, names, trial
from etcd_stateful.backup.integrity import Damaged, SnapshotCheck
from etcd_stateful.backup.manifest import BadManifest
from etcd_stateful.backup.measurement import Measured
from etcd_stateful.backup.order import Order
from etcd_stateful.backup.outcome import Downloaded, Failure, Verified
from etcd_stateful.certificates import OPERATOR_FILES

log = logging.getLogger(__name__)

PAUSE: Final = 0.2
ASK_SECONDS: Final = 4.0


async def bring(order: Order, sink: Sink, root: Path) -> Downloaded | Failure:
    """Downloads the backup and its manifest, as they are stored now."""
    key = order.store.key
    # A kubelet may run a pod's init containers more than once.
    shutil.rmtree(root / trial.DATA, ignore_errors=True)
    try:
        manifest = await read_manifest_bytes(sink, key)
        if manifest is None:
            return _wrong(order, f"there is no {names.manifest_of(key)!r} any more")
        checked = await _saved(order, sink, root / trial.SNAPSHOT)
        sha256, said = checked.finish(), manifests.parse(manifest)
    except StoreFailed as error:
        return error.failure
    except (Damaged, BadManifest) as error:
        return _wrong(order, f"{key}: {error}")
    except OSError as error:
        return Failure("VerificationFailed", f"the pod has no room for {key}: {error}")
    if not sha256 == said.sha256 == order.expected:
        words = f"{key} has SHA-256 {sha256}, its manifest says {said.sha256}, and what was stored "
        return _wrong(order, f"{words}had {order.expected}")
    _write_certificates(root / trial.TLS)
    (root / trial.MANIFEST).write_bytes(manifest)
    return Downloaded(checked.size)


async def _saved(order: Order, sink: Sink, path: Path) -> SnapshotCheck:
    """Downloads the backup; raises StoreFailed, OSError, and Damaged if its size has changed."""
    size = await sink.size(order.store.key)
    if order.size and size not in (None, order.size):
        raise Damaged(f"it has {size} bytes, and what was stored had {order.size}")
    try:
        with path.open("wb") as file:
            return await download(sink, order.store.key, file, size)
    except BrokenOff as error:
        words = f"{order.store.path_field}: {error}"
        raise StoreFailed(Failure("StoreUnreachable", words)) from error


def _write_certificates(folder: Path) -> None:
    now = time.time()
    authority = signing.make(trial.AUTHORITY, {}, now)
    folder.mkdir(exist_ok=True)
    for need in trial.LEAVES:
        for name, content in signing.make(need, authority, now).items():
            (folder / name).write_bytes(content)


async def prove(order: Order, root: Path, *, port: int = trial.PORT) -> Verified | Failure:
    """Waits for etcd within the order's timeout, and compares it with the manifest."""
    said = manifests.parse((root / trial.MANIFEST).read_bytes())
    files = [(root / trial.TLS / name).read_bytes() for name in OPERATOR_FILES]
    certificate, key, authority = files
    shown = ssl_channel_credentials(authority, key, certificate)
    with contextlib.closing(secured(f"{trial.LOOPBACK}:{port}", shown)) as channel:
        etcd = _Scratch(channel, patience(said.size, order.timeout))
        try:
            async with asyncio.timeout(order.timeout):
                now, found = await etcd.measured(said.revision)
        except TimeoutError:
            return _too_late(order, etcd)
        except NoReply as error:
            return _hangs(error)
    verdict = measurement.compare(said.revision, said.measured, now, found)
    if verdict.wrong:
        return _wrong(order, f"{order.store.key} was restored, and {'; '.join(verdict.wrong)}")
    return Verified(said.version, verdict.same, verdict.unknown)


class _Scratch:
    """The etcd of the trial restore. With many keys it may run out of memory, and be restarted."""

    def __init__(self, channel: Any, patience: float) -> None:
        self._channel = channel
        self._patience = patience
        self.has_served = False
        self.trouble = ""
        """Why the last question was not answered."""

    async def measured(self, revision: int) -> tuple[int, Measured]:
        """Returns its current revision, and what it holds. Asks until etcd answers; raises NoReply
        if etcd hangs while it counts or hashes its keys."""
        while True:
            try:
                if now := await self._serving():
                    # etcd cannot answer about a revision that it has not reached.
                    if now < revision:
                        return now, Measured()
                    return now, await measure(self._channel, revision, self._patience)
            except NoReply:
                raise
            except rpc.RpcError as error:
                self.trouble = " ".join(str(error.details()).split())[:200]
                log.info("waiting for etcd: %s", self.trouble)
            await asyncio.sleep(PAUSE)

    async def _serving(self) -> int:
        """The current revision of etcd; 0 while it has no leader."""
        status = rpc.MaintenanceStub(self._channel).Status
        try:
            reply = await asked(status, rpc.StatusRequest(), ASK_SECONDS, "reported its revision")
        except NoReply as error:
            # etcd accepts connections before it has loaded the restored data.
            self.trouble = error.details()
            return 0
        if not reply.leader:
            return 0
        self.has_served = True
        return int(reply.header.revision)


def _too_late(order: Order, etcd: _Scratch) -> Failure:
    what = "counted and hashed its keys" if etcd.has_served else "come up"
    why = f" ({etcd.trouble})" if etcd.trouble else ""
    etcds = "the etcd of the trial restore"
    return _timed_out(f"{order.timeout} s have passed, and {etcds} has not {what}{why}")


def _hangs(error: NoReply) -> Failure:
    return _timed_out(f"the etcd of the trial restore hangs: {error.details()}")


def _timed_out(what: str) -> Failure:
    words = f"spec.backupPolicy.timeoutInSecond: {what}; the log of container etcd in its pod says "
    return Failure("TimedOut", f"{words}why. If it only needs longer, set it higher")


def _wrong(order: Order, words: str) -> Failure:
    return Failure("VerificationFailed", f"{order.store.path_field}: {words}", final=True)
