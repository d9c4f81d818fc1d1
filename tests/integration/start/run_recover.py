"""A container of a recovery's Job as a process of its own.

python run_recover.py <file>      {"settings": {...}, "ids": [...], "volume": ..., "what": ...}
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from etcd_operator.recover import __main__ as entry
from etcd_operator.start.journal import Journal
from etcd_stateful.jobs.recover import Order
from etcd_stateful.start.configuration import Settings


def main() -> int:
    given = json.loads(Path(sys.argv[1]).read_text())
    order = Order(Settings(**given["settings"]), *given["ids"])
    return entry.run(given["what"], order, given["volume"], Journal("/nowhere", "recover"))


if __name__ == "__main__":
    sys.exit(main())
