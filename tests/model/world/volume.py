"""Volumes as the real `start` reads them: markers and WAL heads as bytes, read by its own code."""

from __future__ import annotations

import functools
from typing import Final

from etcd_stateful import naming
from etcd_stateful.jobs import recover
from etcd_stateful.records.bootstrap import FIRST_EPOCH
from etcd_stateful.start import marker, rules, wal
from etcd_stateful.start.configuration import Settings
from etcd_stateful.start.ticket import Finding, Ticket
from model.world.state import LOG, UNREADABLE, Content, Job
from model.world.tables import NAME, NAMESPACE, UID, ordinal_of

_GARBLED: Final = b"\x01" * 64


@functools.cache
def settings(ordinal: int, epoch: int = FIRST_EPOCH) -> Settings:
    return Settings(
        cluster_uid=UID,
        epoch=epoch,
        member=naming.pod(NAME, ordinal),
        pod_uid=f"pod-{ordinal}",
        pod_ip="127.0.0.1",
        host=naming.host(NAME, NAMESPACE, ordinal),
    )


@functools.cache
def finding(ordinal: int, content: Content | None, epoch: int = FIRST_EPOCH) -> Finding | None:
    """What `start` of a pod of that epoch reports about the volume; None if it runs etcd."""
    found = rules.inspect(settings(ordinal, epoch), _facts(ordinal, content))
    return found.finding if isinstance(found, rules.Wait) else None


def take(
    ordinal: int, content: Content | None, epoch: int, challenge: str, ticket: Ticket
) -> Content | str:
    """The volume after `start` has taken the ticket, or why it refuses it."""
    facts = _facts(ordinal, content)
    plan = rules.accept(settings(ordinal, epoch), facts, challenge, ticket)
    if isinstance(plan, rules.Refusal):
        return plan.why
    assert isinstance(plan, rules.Plan)
    assert plan.first is not None
    return Content(
        member=ticket.member_id,
        cluster=ticket.cluster_id,
        new=ticket.state == "new",
        initial=_bits(ticket.initial_cluster),
        log=False,
        has=False,
        epoch=ticket.epoch,
    )


@functools.cache
def verdict(job: Job, content: Content | None) -> recover.Verdict:
    """The verdict of the recovery Job about its volume."""
    ordinal = job.survivor
    order = recover.Order(settings(ordinal, job.epoch), job.member, job.cluster)
    aside = _marker(ordinal, content) if content is not None and content.aside else None
    return recover.inspect(order, _facts(ordinal, content), aside)


def _bits(initial_cluster: str) -> int:
    """The ordinals of an initial cluster, by URL as etcd compares them."""
    bits = 0
    for entry in initial_cluster.split(","):
        host = entry.partition("=")[2].removeprefix("http://")
        bits |= 1 << ordinal_of(host.partition(".")[0])
    return bits


@functools.cache
def _facts(ordinal: int, content: Content | None) -> rules.VolumeFacts:
    if content is None:
        return rules.VolumeFacts()
    marked = None if content.aside else _marker(ordinal, content)
    if content.harm == UNREADABLE:
        return rules.VolumeFacts(problem="input/output error")
    if not content.log:
        return rules.VolumeFacts(leftovers=True, marker=marked)
    head = _GARBLED if content.harm == LOG else log_head(content.member, content.cluster)
    return rules.VolumeFacts(heads=(head,), marker=marked)


def _marker(ordinal: int, content: Content) -> bytes:
    name = naming.pod(NAME, ordinal)
    return marker.serialise(
        marker.Marker(UID, content.epoch, name, content.member, content.cluster)
    )


def log_head(member: int, cluster: int) -> bytes:
    """The head of a WAL as etcd writes it: a checksum record, then metadata with the IDs."""
    metadata = b"\x08" + _varint(member) + b"\x10" + _varint(cluster)
    checksum = b"\x08\x04\x10\x00"
    crc = _varint(wal._crc32c(0, metadata))
    record = b"\x08\x01\x10" + crc + b"\x1a" + _varint(len(metadata)) + metadata
    return _frame(checksum) + _frame(record)


def _frame(record: bytes) -> bytes:
    padding = -len(record) % 8
    top = 0x80 | padding if padding else 0
    return (len(record) | top << 56).to_bytes(8, "little") + record + bytes(padding)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
