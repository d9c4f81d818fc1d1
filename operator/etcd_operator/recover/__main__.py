"""Entry point: `python3 -m etcd_operator.recover prepare|finish`, configured by the environment."""

from __future__ import annotations

import os
import sys

from etcd_operator.recover.finish import Finish
from etcd_operator.recover.gateway import Unfinished
from etcd_operator.recover.prepare import Refused, prepare
from etcd_operator.start import volume
from etcd_operator.start.journal import Journal
from etcd_operator.start.process import Place, exit_on_sigterm
from etcd_stateful.jobs.recover import REFUSED_EXIT, Order, parse_order
from etcd_stateful.start.configuration import BadSettings


def main(arguments: list[str]) -> int:
    """Exit code: 0 when done, 3 for a volume that is not the survivor's, 1 to try again, 2 when the
    pod is set up wrongly."""
    exit_on_sigterm()
    place = Place()
    journal = Journal(place.termination_log, "recover")
    try:
        order = parse_order(os.environ)
    except BadSettings as error:
        journal.conclude(f"cannot recover: {error}")
        return 2
    return run(arguments[0] if arguments else "", order, place.volume, journal)


def run(what: str, order: Order, root: str, journal: Journal) -> int:
    """Runs `prepare` or `finish`; returns the exit code, as `main` does."""
    try:
        if what == "prepare":
            prepare(order, root, journal)
        else:
            Finish(order, root, journal).run()
    except Refused as error:
        journal.conclude(f"refused: {error}")
        return REFUSED_EXIT
    except OSError as error:
        journal.conclude(f"not recovered yet: {volume.reason(error)}")
        return 1
    except Unfinished as error:
        journal.conclude(f"not recovered yet: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
