"""Entry point: `python3 -m etcd_operator.start`, configured by the environment."""

from __future__ import annotations

import os
import sys

from etcd_operator.start.journal import Journal
from etcd_operator.start.process import Place, Start, exit_on_sigterm
from etcd_stateful.start.configuration import BadSettings, parse_settings


def main() -> int:
    """Exit code: 0 when etcd may start, 143 after SIGTERM, 2 when the pod is set up wrongly."""
    exit_on_sigterm()
    place = Place()
    journal = Journal(place.termination_log)
    try:
        settings = parse_settings(os.environ)
    except BadSettings as error:
        journal.conclude(f"cannot start: {error}")
        return 2
    return Start(settings, place, journal).run()


if __name__ == "__main__":
    sys.exit(main())
