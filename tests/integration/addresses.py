"""An IP address of its own for every server of these tests, so that ports can be etcd's usual ones.

A port that is free now may be taken by the next outgoing connection of anybody on this machine,
while the server that is to have it is down; an address of 127.0.0.0/8 that nobody else uses cannot.
For servers that listen at every address there are ports that no outgoing connection is given.
"""

from __future__ import annotations

import itertools
import socket

LOCK_PORT = 2378
BLOCKS = range(64, 255)
"""Second bytes of the addresses; each run of the tests has one to itself."""
FIRST_PORT, PORTS = 10_000, 100
"""The first port of the first block, and how many a block has: all below 30000, where ports of
Services begin, and 32768, where those of outgoing connections do."""


def _own_block() -> tuple[int, socket.socket]:
    for block in BLOCKS:
        lock = socket.socket()
        try:
            lock.bind((f"127.{block}.255.254", LOCK_PORT))
        except OSError:
            lock.close()
        else:
            return block, lock
    raise OSError(f"all of 127.{BLOCKS.start}.0.0 to 127.{BLOCKS.stop - 1}.0.0 are in use by tests")


BLOCK, _LOCK = _own_block()
_numbers = itertools.count()


def own_address() -> str:
    return address(next(_numbers))


def address(number: int) -> str:
    return f"127.{BLOCK}.{number // 250}.{number % 250 + 1}"


_ports = itertools.cycle(range(PORTS))


def own_port() -> int:
    """The next of this run's at which nobody listens."""
    for number in itertools.islice(_ports, PORTS):
        port = FIRST_PORT + (BLOCK - BLOCKS.start) * PORTS + number
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("0.0.0.0", port))  # noqa: S104 - as the operator does
            except OSError:
                continue
        return port
    raise OSError(f"all ports of block {BLOCK} are in use")
