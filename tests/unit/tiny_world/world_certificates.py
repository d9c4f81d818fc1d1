"""The tiny world with certificates: which authority signed what, and who trusts it when.

Nothing is encrypted here: a certificate is just the name of its authority. A Secret keeps its
history with times, because kubelets and applications see changes late. `check` is the rule of
rotations: everybody trusts every certificate that it may still be shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from world_api import body
from world_core import World
from world_etcd import Conflict
from world_rules import rule

from etcd_stateful.api.tls import Trust
from etcd_stateful.certificates import BACKDATED, CertificateSpec, managed, trust_of
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.steps import IssueCertificate, RotateAuthority, Step
from etcd_stateful.membership.tls import rotation
from etcd_stateful.membership.tls.rotation import KUBELET_SECONDS
from etcd_stateful.observed.certificates import Certificate, Certificates, Stage

TURN = 10.0
"""Seconds per round of the world."""

OVERLAP = 60


@dataclass
class Authority:
    signs: str
    begins: float
    ends: float
    version: int
    generation: int = 1
    successor: str = ""
    predecessor: str = ""
    turned: float = 0.0

    @property
    def trusted(self) -> tuple[str, ...]:
        return tuple(one for one in (self.predecessor, self.signs, self.successor) if one)

    @property
    def stage(self) -> Stage:
        return "overlap" if self.successor else "swapped" if self.predecessor else ""


@dataclass(frozen=True)
class Shown:
    """One content of a Secret: who signed the certificate, and which authorities are in the
    bundle."""

    by: str
    bundle: frozenset[str]
    since: float


@dataclass
class Leaf:
    need: CertificateSpec
    version: int
    ends: float
    contents: list[Shown] = field(default_factory=list)
    pins: set[str] = field(default_factory=set)

    @property
    def now(self) -> Shown:
        return self.contents[-1]

    def within(self, begins: float) -> Iterator[Shown]:
        """Every content since `begins`, including the one in force at that moment."""
        for at, one in enumerate(self.contents):
            until = self.contents[at + 1].since if at + 1 < len(self.contents) else None
            if until is None or until > begins:
                yield one


class CertificateWorld(World):
    def __init__(self, size: int = 3, **spec: Any) -> None:
        spec.setdefault("TLS", {"rotation": {"overlapSeconds": OVERLAP}})
        super().__init__(body(size, **spec))
        self.now = 1000.0
        self.authorities: dict[str, Authority] = {}
        self.leaves: dict[str, Leaf] = {}
        self.named: dict[str, frozenset[str]] = {"": frozenset()}
        """The authorities behind each pin."""
        self.made: dict[str, float] = {}
        """When each pod was made, by UID."""
        self.begun_healthy = True

    def wish(self, **rotation: int) -> None:
        self.edit(TLS={"rotation": {"overlapSeconds": OVERLAP, **rotation}})

    def observe(self) -> Observation:
        seen = super().observe()
        found: dict[str, dict[str, Certificate]] = {}
        for need in managed(seen.cluster):
            if one := self._certificate(need):
                found[need.secret] = {need.role: one}
        return rotation.with_trust(replace(seen, certificates=Certificates(self.now, found)))  # type: ignore[arg-type]

    def _certificate(self, need: CertificateSpec) -> Certificate | None:
        if need.role == "authority":
            one = self.authorities.get(need.secret)
            return one and Certificate(
                str(one.version),
                begins=one.begins,
                ends=one.ends,
                authority=one.signs,
                trusts=one.trusted,
                stage=one.stage,
                generation=one.generation,
            )
        leaf = self.leaves.get(need.secret)
        if leaf is None:
            return None
        trust = trust_of(leaf.now.bundle)
        return Certificate(
            str(leaf.version),
            begins=leaf.now.since - BACKDATED,
            ends=leaf.ends,
            authority=leaf.now.by,
            subject=need.subject,
            trusts=tuple(sorted(leaf.now.bundle)),
            pinned=trust if trust in leaf.pins else "",
            kept=tuple(tuple(sorted(self.named[one])) for one in sorted(leaf.pins)),
        )

    def apply(self, step: Step) -> None:
        match step:
            case IssueCertificate(need=need):
                self._issue(step, need)
            case RotateAuthority():
                self._rotate(step)
            case _:
                super().apply(step)
                return
        self.history.append(step)

    def _issue(self, step: IssueCertificate, need: CertificateSpec) -> None:
        if need.role == "authority":
            rule(not self.authorities.get(need.secret), "authority", "one is made beside another")
            name = f"{need.secret}-{self._next()}"
            self.authorities[need.secret] = Authority(
                name, self.now - BACKDATED, self.now + need.seconds, self._next(), step.generation
            )
            return
        leaf, above = self.leaves.get(need.secret), self.authorities[need.signed_by]
        if step.resource_version != (str(leaf.version) if leaf else ""):
            raise Conflict("another resourceVersion")
        leaf = leaf or Leaf(need, 0, 0.0)
        leaf.contents.append(Shown(above.signs, frozenset(above.trusted), self.now))
        leaf.version, leaf.ends = self._next(), self.now + need.seconds
        leaf.pins &= step.mounted
        if above.generation > 1 or above.stage:
            leaf.pins.add(self._name(above.trusted))
        self.leaves[need.secret] = leaf

    def _name(self, trusted: tuple[str, ...]) -> str:
        name = trust_of(trusted)
        self.named[name] = frozenset(trusted)
        return name

    def _rotate(self, step: RotateAuthority) -> None:
        one = self.authorities[step.need.secret]
        if str(one.version) != step.resource_version:
            raise Conflict("another resourceVersion")
        ready = [pod for pod in self.observe().pods if pod.ready]
        rule(len(ready) == self.cluster.size, "rotation", f"a turn while only {len(ready)} serve")
        one.version, one.turned = self._next(), self.now
        match step.kind:
            case "begin":
                rule(not one.stage, "rotation", "begun twice")
                one.successor = f"{step.need.secret}-{self._next()}"
            case "take over":
                one.predecessor, one.signs, one.successor = one.signs, one.successor, ""
                one.begins, one.ends = self.now - BACKDATED, self.now + step.need.seconds
                one.generation = step.generation
            case "end":
                one.predecessor = ""

    def turn(self) -> None:
        self.now += TURN
        super().turn()
        self.check()

    def check(self) -> None:
        for pod in self.pods.values():
            self.made.setdefault(pod.uid, self.now)
        self._check_link("c-peer-tls", "peer")
        self._check_link("c-server-tls", "client")

    def _check_link(self, secret: str, link: str) -> None:
        """Members connect to each other over the peer link; applications and the operator over the
        client link."""
        leaf = self.leaves.get(secret)
        if leaf is None:
            return
        plain = {
            one.uid for one in self.pods.values() if one.levels and not getattr(one.levels, link)
        }
        every = (one for one in self.pods.values() if one.where == "etcd")
        up = {one.uid: one for one in every if one.uid not in plain}
        late = self.now - KUBELET_SECONDS
        shown = {one for uid in up for one in leaf.within(max(late, self.made[uid]))}
        for uid, pod in up.items():
            pinned = getattr(pod.trust, link)
            rule(not pinned or pinned in leaf.pins, "pin", f"{pinned} is no longer in {secret}")
            trusts = self._trusted(leaf, pinned, self.made[uid])
            callers = shown if link == "peer" else set(self._clients())
            for one in callers:
                rule(all(one.by in trusted for trusted in trusts), link, f"{one.by} is refused")
        for client in self._clients() if link == "client" else ():
            for one in shown:
                rule(one.by in client.bundle, "client", f"{one.by} is not trusted by clients")

    def _trusted(self, leaf: Leaf, pinned: str, made: float) -> list[frozenset[str]]:
        """The bundles that the pod may have loaded. With a pin there is only one; without, any
        content since the pod was made, because its container may have restarted."""
        if pinned:
            return [self.named[pinned]]
        return [one.bundle for one in leaf.within(made)]

    def _clients(self) -> Iterator[Shown]:
        """What clients use. Applications may still have any content from within the overlap."""
        for name, late in (("c-client-tls", OVERLAP), ("c-operator-tls", 0)):
            if leaf := self.leaves.get(name):
                yield from leaf.within(self.now - late) if late else [leaf.now]

    @property
    def trusts(self) -> set[Trust]:
        return {pod.trust for pod in self.pods.values()}
