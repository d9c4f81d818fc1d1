"""`start` as a process of its own, with settings and places from a file instead of a pod's.

python run_start.py <file>      {"settings": {...}, "place": {...}}
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from etcd_operator.start.journal import Journal
from etcd_operator.start.process import Place, Start, exit_on_sigterm
from etcd_stateful.start.configuration import Settings


def main() -> int:
    exit_on_sigterm()
    given = json.loads(Path(sys.argv[1]).read_text())
    place = Place(**given["place"] | {"addresses": tuple(given["place"]["addresses"])})
    return Start(Settings(**given["settings"]), place, Journal(place.termination_log)).run()


if __name__ == "__main__":
    sys.exit(main())
