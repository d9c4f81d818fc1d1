"""`python3 -m localkube <command>`: called by the Makefile's cluster targets."""

import os
import sys
from collections.abc import Callable

from localkube import binaries, operator_image, providers
from localkube.cache import alone
from localkube.install import install
from localkube.shell import ClusterError, say


def up() -> None:
    nodes = os.environ.get("NODES")
    if nodes and nodes not in [*"123456789"]:
        raise ClusterError(f"NODES={nodes}: must be 1 to 9")
    providers.choose().up(int(nodes) if nodes else None)


def down() -> None:
    providers.choose().down()


def status() -> None:
    providers.choose().status()


def images() -> None:
    say(f"operator image: {providers.choose().load_operator()}")


COMMANDS: dict[str, Callable[[], object]] = {
    "up": up,
    "down": down,
    "status": status,
    "images": images,
    "install": lambda: install(providers.choose().load_operator()),
    "test-tools": binaries.link_test_tools,
    "alert-tools": binaries.link_alert_tools,
    "image-context": operator_image.prepare_context,
    "image-buildah": operator_image.build_with_buildah,
}


def main() -> None:
    if sys.argv[1:2] == [] or sys.argv[1] not in COMMANDS:
        sys.exit(f"usage: python3 -m localkube {'|'.join(COMMANDS)}")
    try:
        with alone():
            COMMANDS[sys.argv[1]]()
    except ClusterError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
