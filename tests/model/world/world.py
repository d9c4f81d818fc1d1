"""A mutable state, on which moves of the world and writes work.

`World(state)` thaws a state. `freeze` adds the consequences that take no time (names are published,
the log is replicated, a leader without a quorum steps down) and returns the canonical state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from model.world import steps_held, tables
from model.world.state import (
    DATABASE,
    LOG,
    NONE,
    UNREADABLE,
    Claim,
    Content,
    Etcd,
    Job,
    Member,
    Pod,
    Record,
    State,
    content_of,
    is_up,
    listed,
    quorum,
    runs_as,
    up_voters,
    voters,
)


class World:
    __slots__ = tuple(State._fields)

    def __init__(self, state: State) -> None:
        (
            self.spec,
            self.told,
            self.secret,
            self.sts,
            self.headless,
            self.client,
            self.budget,
            claims,
            pods,
            self.etcd,
            self.given,
            self.cut,
            self.slow,
            self.away,
            self.ours,
            self.pending,
            self.job,
            self.asleep,
            self.unpullable,
        ) = state
        self.claims: list[Claim | None] = list(claims)
        self.pods: list[Pod | None] = list(pods)

    def now(self) -> State:
        return State(
            self.spec,
            self.told,
            self.secret,
            self.sts,
            self.headless,
            self.client,
            self.budget,
            tuple(self.claims),
            tuple(self.pods),
            self.etcd,
            self.given,
            self.cut,
            self.slow,
            self.away,
            self.ours,
            self.pending,
            self.job,
            self.asleep,
            self.unpullable,
        )

    def freeze(self) -> State:
        self.asleep = self.asleep and self.sts != NONE
        if self.etcd is not None:
            _replicate(self)
        _name(self)
        return self.now()

    # Objects, and what remembered them.

    def touch(self, *key: object) -> None:
        """The object has changed, so a held step with its old resourceVersion is dropped."""
        if self.pending != NONE and key in steps_held.guards(self.pending):
            self.pending = NONE

    def new_run(self, ordinal: int) -> None:
        """A run of `start` draws a challenge, which makes that of the earlier run useless."""
        if not Naming.canonical:
            Naming.runs.append(ordinal)
        run = tables.run_of(ordinal)
        if self.secret != NONE:
            self.secret = tables.rename(self.secret, (run,), ())
        if self.pending != NONE:
            self.pending = steps_held.without_run(self.pending, run)
        members = {one.member for one in self.members() if one.ordinal == ordinal}
        members |= {first for first, at in self.first() if at == ordinal}
        self.given = tuple((one, last and one not in members) for one, last in self.given)

    def drop_pod(self, ordinal: int) -> None:
        self.pods[ordinal] = None
        self.touch("pod", ordinal)
        self.touch("pod uid", ordinal)

    def set_content(self, ordinal: int, content: Content | None) -> None:
        claim, pod = self.claims[ordinal], self.pods[ordinal]
        if claim is not None:
            self.claims[ordinal] = claim._replace(content=content)
        elif pod is not None:
            self.pods[ordinal] = pod._replace(content=content)

    def content(self, ordinal: int) -> Content | None:
        claim = self.claims[ordinal]
        if claim is not None:
            return claim.content
        pod = self.pods[ordinal]
        return pod.content if pod is not None else None

    # Facts.

    @property
    def durable(self) -> bool:
        return tables.specs[self.spec].cluster.durable

    def members(self) -> tuple[Member, ...]:
        return self.etcd.members if self.etcd else ()

    def first(self) -> tuple[tuple[int, int], ...]:
        """The first members of the recorded attempt."""
        if self.secret == NONE:
            return ()
        return tables.first_members.get(tables.bootstraps[self.secret].cluster_id, ())

    def replicas(self) -> int:
        return tables.objects[self.sts].replicas if self.sts != NONE else 0

    def contents(self) -> Iterator[Content]:
        """The contents of all volumes, including those that are not mounted."""
        for claim in self.claims:
            if claim and claim.hidden:
                yield claim.hidden
        for ordinal in range(len(self.pods)):
            if content := self.content(ordinal):
                yield content


def _replicate(world: World) -> None:
    """Replicates at once to members that are up, if a leader has a quorum. Clients always write."""
    state, etcd = world.now(), world.etcd
    assert etcd is not None
    up = {one.member for one in up_voters(state)}
    able = len(up) >= quorum(len(voters(state)))
    if etcd.leader and (not able or etcd.leader not in up):
        etcd = etcd._replace(leader=0)
    if etcd.leader:
        etcd = _published(state, etcd)
        for one in etcd.members:
            _write(world, one, serves=one.member in up)
        down = sum(1 << one.ordinal for one in etcd.members if one.member not in up)
        world.ours &= down
        etcd = _with_version(state, etcd)
    world.etcd = etcd


def _published(state: State, etcd: Etcd) -> Etcd:
    if all(one.started for one in etcd.members):
        return etcd
    members = tuple(one._replace(started=one.started or _runs(state, one)) for one in etcd.members)
    return etcd._replace(members=members)


def _runs(state: State, member: Member) -> bool:
    return is_up(state, member.ordinal) and runs_as(state, member)


def _write(world: World, member: Member, *, serves: bool) -> None:
    """One more write is acknowledged: members that serve have it, members that are down lack it."""
    content = world.content(member.ordinal)
    if content is None or content.member != member.member or not content.log or member.learner:
        return
    if content.has != serves:
        world.set_content(member.ordinal, content._replace(has=serves))


def _with_version(state: State, etcd: Etcd) -> Etcd:
    """The cluster version rises with its oldest member, and falls to the target of a downgrade."""
    pods = [state.pods[one.ordinal] for one in etcd.members if _runs(state, one)]
    minors = [tables.templates[pod.template].version.minor for pod in pods if pod]
    if not minors or len(minors) < len(etcd.members):
        return etcd
    if etcd.down:
        over = all(minor == etcd.down for minor in minors)
        return etcd._replace(down=0) if over else etcd
    lowest = min(minors)
    return etcd._replace(minor=lowest) if lowest > etcd.minor else etcd


class Naming:
    """Renaming of members, which is off while old steps are compared with present states."""

    canonical = True
    runs: ClassVar[list[int]] = []
    """Ordinals of the runs of `start` in their order, while renaming is off."""


def _name(world: World) -> None:
    """Gives added members the first IDs of the pool, in the order of their appearance."""
    if not Naming.canonical or world.secret == NONE or not _any_pooled(world):
        return
    seen: dict[int, int] = {}
    for member in _appearing(world):
        if member in tables.POOLED and member not in seen:
            seen[member] = tables.POOL[len(seen)]
    held = {one for one, _ in (*tables.bootstraps[world.secret].issued, *world.given)}
    held &= tables.POOLED
    dropped = {one: 0 for one in held if one not in seen}
    if not dropped and all(old == new for old, new in seen.items()):
        return
    _rename(world, seen, dropped)


def _any_pooled(world: World) -> bool:
    if any(one in tables.POOLED for one, _ in tables.bootstraps[world.secret].issued):
        return True
    return any(one in tables.POOLED for one in _appearing(world))


def _appearing(world: World) -> Iterator[int]:
    for one in world.members():
        yield one.member
    for claim in world.claims:
        if claim is not None:
            yield from _named(claim.record, claim.content, claim.hidden)
    for pod in world.pods:
        if pod is not None:
            yield from _named(pod.record, pod.content)
    if world.etcd is not None:
        yield from world.etcd.alarms
    if world.job is not None:
        yield world.job.member
    if world.pending != NONE:
        yield from steps_held.members(world.pending)


def _named(*some: Record | Content | None) -> Iterator[int]:
    for one in some:
        if one is not None:
            yield one.member


def _rename(world: World, names: dict[int, int], dropped: dict[int, int]) -> None:
    def record(old: Record | None) -> Record | None:
        return old and old._replace(member=names.get(old.member, old.member))

    def content(old: Content | None) -> Content | None:
        return old and old._replace(member=names.get(old.member, old.member))

    etcd = world.etcd
    if etcd is not None:
        members = tuple(
            one._replace(member=names.get(one.member, one.member)) for one in etcd.members
        )
        leader = names.get(etcd.leader, etcd.leader)
        alarms = tuple(names.get(one, one) for one in etcd.alarms)
        world.etcd = etcd._replace(members=members, leader=leader, alarms=alarms)
    for ordinal, claim in enumerate(world.claims):
        if claim is not None:
            world.claims[ordinal] = claim._replace(
                record=record(claim.record),
                content=content(claim.content),
                hidden=content(claim.hidden),
            )
    for ordinal, pod in enumerate(world.pods):
        if pod is not None and (pod.record or pod.content):
            world.pods[ordinal] = pod._replace(
                record=record(pod.record), content=content(pod.content)
            )
    if world.job is not None:
        world.job = _jobs_renamed(world.job, names)
    world.given = tuple(
        sorted((names.get(one, one), last) for one, last in world.given if one not in dropped)
    )
    renamed = tuple(sorted((names | dropped).items()))
    world.secret = tables.rename(world.secret, (), renamed)
    if world.pending != NONE:
        world.pending = steps_held.renamed(world.pending, renamed)


def _jobs_renamed(job: Job, names: dict[int, int]) -> Job:
    return job._replace(member=names.get(job.member, job.member))


def fresh_member(world: World) -> int:
    """An ID that occurs nowhere in the world."""
    taken = set(_appearing(world)) | {one for one, _ in world.given}
    if world.secret != NONE:
        taken |= {one for one, _ in tables.bootstraps[world.secret].issued}
    return next(one for one in tables.POOL if one not in taken)


def pruned(world: World) -> None:
    """Forgets the tickets of members that no longer occur anywhere."""
    known = set(_appearing(world)) | {first for first, _ in world.first()}
    world.given = tuple((one, last) for one, last in world.given if one in known)


def lost_write(state: State) -> bool:
    """Whether voters without some acknowledged write could elect one of them."""
    without = 0
    for one in voters(state):
        content = content_of(state, one.ordinal)
        if content is None or content.member != one.member or not content.log or content.has:
            continue
        if content.harm not in (LOG, DATABASE, UNREADABLE):
            without += 1
    return without >= quorum(len(voters(state))) > 0


__all__ = ["World", "fresh_member", "listed", "lost_write", "pruned"]
