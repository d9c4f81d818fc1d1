"""Prepares the survivor's volume for the run in which etcd makes it a cluster of one."""

from __future__ import annotations

from etcd_operator.recover import files
from etcd_operator.start import volume
from etcd_operator.start.journal import Journal
from etcd_stateful.jobs.recover import (
    CONFIG,
    Begin,
    Finished,
    Order,
    Unreadable,
    Verdict,
    WrongVolume,
    config,
    inspect,
)


class Refused(Exception):
    """The volume is not the survivor's. Nothing on it has been altered."""


def prepare(order: Order, root: str, journal: Journal) -> None:
    """Raises Refused, or OSError if another try may succeed."""
    verdict = look(order, root)
    match verdict:
        case WrongVolume(why=why):
            raise Refused(why)
        case Unreadable(why=why):
            raise OSError(why)
        case Finished():
            journal.conclude(f"{order.settings.member} was recovered before")
        case Begin():
            files.set_aside(root)
            journal.conclude(f"the marker of {order.settings.member} is set aside")
        case _:
            journal.conclude(f"the recovery of {order.settings.member} goes on")
    volume.write(root, CONFIG, config(order, force=not isinstance(verdict, Finished)))


def look(order: Order, root: str) -> Verdict:
    """How far the recovery of this volume is."""
    try:
        aside = files.read_aside(root)
    except OSError as error:
        return Unreadable(volume.reason(error))
    return inspect(order, volume.look(root), aside)
