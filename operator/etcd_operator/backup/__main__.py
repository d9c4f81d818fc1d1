"""Entry point of backup Jobs: `python3 -m etcd_operator.backup`, configured by the environment."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Final

from etcd_operator.backup.clients import StoreFailed
from etcd_operator.backup.describing import describe
from etcd_operator.backup.process import INTERRUPTED, Backup
from etcd_operator.backup.progress import Meter, served
from etcd_operator.backup.removal import remove
from etcd_operator.backup.sink import Sink, open_sink
from etcd_operator.job_exit import exit_at_once
from etcd_operator.telemetry import logs
from etcd_stateful.backup import order as orders
from etcd_stateful.backup.order import BadOrder, Order
from etcd_stateful.backup.outcome import (
    FINAL_EXIT,
    Described,
    Downloaded,
    Failure,
    Removed,
    Stored,
    Verified,
    serialise,
)

log = logging.getLogger(__name__)

Outcome = Stored | Downloaded | Verified | Removed | Described | Failure

TERMINATION_LOG: Final = "/dev/termination-log"


def main(environment: Mapping[str, str]) -> int:
    """Exit code: 0 when done, 1 to try again, 3 when another try would not help."""
    logs.setup(environment.get("LOG_LEVEL", "INFO"), "text")
    try:
        order = orders.parse(environment.get(orders.VARIABLE, ""))
    except BadOrder as error:
        log.error("%s", error)  # noqa: TRY400 - the message is for users
        return FINAL_EXIT
    outcome = _outcome(order)
    told = _conclude(outcome, environment.get("TERMINATION_LOG", TERMINATION_LOG))
    if isinstance(outcome, Failure):
        return FINAL_EXIT if outcome.final else 1
    # A complete Job that reports no outcome would be repeated again and again.
    return 0 if told or isinstance(outcome, Removed | Downloaded) else 1


def _outcome(order: Order) -> Outcome:
    """Runs the order. An unexpected exception, such as a panic of the store's client, becomes a
    Failure too, without its message, which may contain anything."""
    try:
        return asyncio.run(back_up(order))
    except Exception as error:
        log.exception("internal error")
        words = f"the Job's program failed with an internal error ({type(error).__name__})"
        return Failure("JobFailed", f"{words}; the log of its pod has the traceback")


async def back_up(
    order: Order,
    *,
    secret: str = orders.STORE_FOLDER,
    ca: str = orders.CA_FOLDER,
    root: str = orders.VOLUME,
) -> Outcome:
    """Carries out the order and returns the outcome.

    Problems with etcd, the store or the order are returned as a Failure, not raised.

    Args:
        secret: the folder with the store's credentials.
        ca: the folder with the CA certificates for the store.
        root: where the volume is mounted, if the store is a volume.
    """
    if order.action == "prove":
        return await _prove(order)
    try:
        sink = open_sink(order.store, secret, ca, root=root, owner_uid=order.owner_uid)
    except StoreFailed as error:
        return error.failure
    if order.action != "store":
        return await _at_store(order, sink)
    meter = Meter()
    async with served(meter, orders.PROGRESS_PORT):
        backup = Backup(order, sink, meter)
        interrupted = Failure(INTERRUPTED, "the pod was told to stop before the backup was done")
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, backup.stop, interrupted)
        return await backup.run()


async def _at_store(order: Order, sink: Sink) -> Outcome:
    """Carries out an action that needs only the store, not etcd."""
    match order.action:
        case "delete":
            return await _in_time(order, remove(order, sink))
        case "bring":
            return await _in_time(order, _bring(order, sink))
        case _:
            return await _in_time(order, describe(order, sink))


async def _bring(order: Order, sink: Sink) -> Outcome:
    # Imported for trials only: loading `cryptography` takes longer than a small backup.
    from etcd_operator.backup.trial_restore import bring  # noqa: PLC0415
    from etcd_stateful.backup import trial  # noqa: PLC0415

    return await bring(order, sink, Path(trial.FOLDER))


async def _prove(order: Order) -> Outcome:
    from etcd_operator.backup.trial_restore import prove  # noqa: PLC0415
    from etcd_stateful.backup import trial  # noqa: PLC0415

    return await prove(order, Path(trial.FOLDER))


async def _in_time(order: Order, work: Awaitable[Outcome]) -> Outcome:
    try:
        async with asyncio.timeout(order.timeout):
            return await work
    except TimeoutError:
        passed = f"{order.timeout} s have passed"
        if order.action == "describe":  # for an EtcdRestore, which cannot set another time
            words = f"{order.store.path_field}: {passed}, and the manifest has not been read yet"
            return Failure("StoreUnreachable", words)
        words = f"spec.backupPolicy.timeoutInSecond: {passed}; set it higher"
        return Failure("TimedOut", words)


def _conclude(outcome: Outcome, path: str) -> bool:
    """Logs the outcome and writes it as the termination message; False if the latter fails."""
    match outcome:
        case Failure(reason=reason, message=message):
            log.error("%s: %s", reason, message)
        case Described(version=version, revision=revision):
            log.info("the backup is of etcd %s, revision %d", version, revision)
        case Downloaded(size=size):
            log.info("downloaded %d bytes for the trial restore", size)
        case Verified():
            log.info("%s", outcome.words)
        case Removed(count=count):
            log.info("deleted %d backups from the store", count)
        case Stored(location=location, size=size, revision=revision):
            log.info("stored %s, %d bytes, revision %d", location, size, revision)
    try:
        Path(path).write_text(serialise(outcome))
    except OSError as error:
        log.warning("cannot write the termination message to %s: %s", path, error)
        return False
    return True


if __name__ == "__main__":
    exit_at_once(main(os.environ))
