"""`python3 -m etcd_operator run` and `version`.

Heavy modules are imported only once the command is known. The init container has an entry point of
its own, `etcd_operator.start`, which imports none of this.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys

VERSION = "0.1.0"


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code: 2 if an environment variable is wrong, else that of `operate`."""
    parser = argparse.ArgumentParser(prog="etcd_operator", description="The etcd operator.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("run", help="run the operator; set up by environment variables")
    commands.add_parser("version", help="print the version")
    command = parser.parse_args(arguments).command
    if command == "version":
        sys.stdout.write(f"{VERSION}\n")
        return 0
    return _run()


def _run() -> int:
    from etcd_operator.settings import BadSettings, from_environment  # noqa: PLC0415

    try:
        settings = from_environment(os.environ)
    except BadSettings as error:
        sys.stderr.write(f"etcd_operator: {error}\n")
        return 2
    # As process 1 of a container it would ignore SIGTERM until `operate` installs its handlers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    import asyncio  # noqa: PLC0415

    from etcd_operator import lean_imports  # noqa: PLC0415
    from etcd_operator.telemetry import logs  # noqa: PLC0415

    lean_imports.skip_unused_packages()
    from etcd_operator.run import operate  # noqa: PLC0415

    logs.setup(settings.log_level, settings.log_format)
    return asyncio.run(operate(settings))


if __name__ == "__main__":
    sys.exit(main())
