"""Waits until the pod's own DNS name leads to this pod.

etcd looks its peers up as it starts. A name that is asked for before its record exists is denied
from the DNS cache for seconds, and one of a cluster that was made anew still leads to dead pods, so
the first question comes only when the record had time to appear.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import Final

FIRST_LOOKUP: Final = 0.15
"""Seconds since the operator asked: a record takes this long to get from the pod's status, where
the operator had the address from, to the DNS."""

_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 1.0


def watch(host: str, address: str, asked: float) -> int:
    """Look `host` up in the background until it leads to `address`; returns at once.

    The file descriptor becomes readable when the name leads there. The thread is a daemon: a
    look-up that hangs does not hold the process back.

    Args:
        asked: when the operator first asked this pod, by `time.monotonic`.
    """
    reader, writer = os.pipe()
    arguments = (host, address, asked + FIRST_LOOKUP, writer)
    thread = threading.Thread(target=_look_up, args=arguments, daemon=True)
    thread.start()
    return reader


def leads_to(host: str, address: str) -> bool:
    """Whether the name has this address now."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        wanted = socket.inet_pton(family, address)
        found = socket.getaddrinfo(host, None, family, socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return any(socket.inet_pton(family, str(entry[4][0])) == wanted for entry in found)


def _look_up(host: str, address: str, begin: float, writer: int) -> None:
    pause = _FIRST_PAUSE
    time.sleep(max(0.0, begin - time.monotonic()))
    while not leads_to(host, address):
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)
    os.write(writer, b".")
