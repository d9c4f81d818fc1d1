"""A loopback address for every server of these tests, so that all can use etcd's usual ports.

A port that is free now may be taken by any outgoing connection on this machine while the server is
down. An address of 127.0.0.0/8 that nobody else uses cannot be taken.
"""

from __future__ import annotations

import itertools
import socket
from pathlib import Path

LOCK_PORT = 2378
BLOCKS = range(64, 255)
"""Second bytes of the addresses. Each run of the tests has its own."""

LISTENS = "0A"
"""A state in /proc/net/tcp."""


def _own_block() -> tuple[int, socket.socket]:
    for block in sorted(set(BLOCKS) - _listened_at()):
        lock = socket.socket()
        try:
            lock.bind((f"127.{block}.255.254", LOCK_PORT))
        except OSError:
            lock.close()
        else:
            return block, lock
    raise OSError(f"all of 127.{BLOCKS.start}.0.0 to 127.{BLOCKS.stop - 1}.0.0 are in use by tests")


def _listened_at() -> set[int]:
    """The blocks of servers that run by now. A run that was killed leaves some, and holds no lock
    any more."""
    sockets = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    places = (place.partition(":")[0] for _, place, _, state, *_ in sockets if state == LISTENS)
    addresses = [bytes.fromhex(place)[::-1] for place in places]
    return {address[1] for address in addresses if address[0] == 127}


BLOCK, _LOCK = _own_block()
_numbers = itertools.count()


def own_address() -> str:
    return address(next(_numbers))


def address(number: int) -> str:
    return f"127.{BLOCK}.{number // 250}.{number % 250 + 1}"
