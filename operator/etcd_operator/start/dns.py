"""Waits until the pod's own DNS name leads to this pod.

etcd looks up its peers when it starts. If a name is looked up before its record exists, the DNS
cache keeps that negative answer for seconds, and in a cluster that was recreated, an old record may
still lead to a deleted pod. So the first look-up waits until the record had time to appear.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import Final

FIRST_LOOKUP: Final = 0.15
"""Seconds from the operator's first question to the first look-up. The operator has the address
from the pod's status, and the DNS record appears this long after that."""

_WITHOUT_DOMAIN: Final = "pod.service.namespace.svc"
_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 1.0


def watch(host: str, address: str, asked: float) -> int:
    """Looks `host` up in the background until it leads to `address`; returns at once.

    The file descriptor becomes readable when the name leads there. The thread is a daemon, so a
    look-up that hangs does not keep the process from ending.

    Args:
        asked: when the operator first asked this pod, by `time.monotonic`.
    """
    reader, writer = os.pipe()
    arguments = (_in_dns(host), address, asked + FIRST_LOOKUP, writer)
    thread = threading.Thread(target=_look_up, args=arguments, daemon=True)
    thread.start()
    return reader


def resolves_to(host: str, address: str) -> bool:
    """Whether the name has this address now."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        wanted = socket.inet_pton(family, address)
        found = socket.getaddrinfo(host, None, family, socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return any(socket.inet_pton(family, str(entry[4][0])) == wanted for entry in found)


def _in_dns(host: str) -> str:
    """The name that only DNS answers for.

    If `spec.pod.ClusterDomain` completes the host, the kubelet has written the same into the pod's
    /etc/hosts, which would answer at once. With a dot at the end it is not found there.
    """
    return f"{host}." if host.count(".") > _WITHOUT_DOMAIN.count(".") else host


def _look_up(host: str, address: str, begin: float, writer: int) -> None:
    pause = _FIRST_PAUSE
    time.sleep(max(0.0, begin - time.monotonic()))
    while not resolves_to(host, address):
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)
    os.write(writer, b".")
