"""Entry point: `python3 -m etcd_operator.restore fetch|finish`, configured by the environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from etcd_operator.job_exit import exit_at_once
from etcd_operator.restore.finish import NotMade, finish
from etcd_operator.start import volume
from etcd_operator.start.journal import Journal
from etcd_operator.start.process import Place, exit_on_sigterm
from etcd_stateful.backup import order as orders
from etcd_stateful.jobs.restore import REFUSED_EXIT, Order, parse_order
from etcd_stateful.start.configuration import BadSettings


def main(arguments: list[str]) -> int:
    """Exit code: 0 when done, 3 when another try would fail the same way, 1 to try again, 2 when
    the pod is set up wrongly."""
    exit_on_sigterm()
    place = Place()
    journal = Journal(place.termination_log, "restore")
    try:
        order = parse_order(os.environ)
    except BadSettings as error:
        journal.conclude(f"cannot restore: {error}")
        return 2
    return run(arguments[0] if arguments else "", order, Path(place.volume), journal)


def run(
    what: str,
    order: Order,
    root: Path,
    journal: Journal,
    *,
    secret: str = orders.STORE_FOLDER,
    ca: str = orders.CA_FOLDER,
    stores: str = orders.VOLUME,
) -> int:
    """Runs `fetch` or `finish`; returns the exit code, as `main` does.

    Args:
        root: the member's volume.
        secret: the folder with the store's credentials.
        ca: the folder with the CA certificates for the store.
        stores: where the store's volume is mounted, if the store is a volume.
    """
    try:
        if what == "fetch":
            return _fetch(order, root, journal, secret, ca, stores)
        finish(order, root, journal)
    except NotMade as error:
        journal.conclude(f"not restored yet: {error}")
        return 1
    except OSError as error:
        journal.conclude(f"not restored yet: {volume.reason(error)}")
        return 1
    return 0


def _fetch(order: Order, root: Path, journal: Journal, secret: str, ca: str, stores: str) -> int:
    # Imported only here: `finish` needs none of it.
    import asyncio  # noqa: PLC0415

    from etcd_operator.backup.clients import StoreFailed  # noqa: PLC0415
    from etcd_operator.backup.sink import open_sink  # noqa: PLC0415
    from etcd_operator.restore.fetch import Refused, Unfinished, fetch  # noqa: PLC0415

    try:
        sink = open_sink(order.store, secret, ca, root=stores)
        asyncio.run(fetch(order, sink, root))
    except Refused as error:
        journal.conclude(f"refused: {error}")
        return REFUSED_EXIT
    except (StoreFailed, Unfinished) as error:
        words = order.by_its_field(str(error)) if isinstance(error, StoreFailed) else str(error)
        journal.conclude(f"not restored yet: {words}")
        return 1
    journal.conclude("fetched")
    return 0


if __name__ == "__main__":
    exit_at_once(main(sys.argv[1:]))
