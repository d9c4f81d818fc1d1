"""Observes one cluster: objects from the store, and `start` and etcd over the network.

Reading the store costs nothing, so every pass does. The network is used as little as possible.
`start` is asked only in pods that wait in it. etcd is asked in every pass while something is going
on, and at most 0.1 times a second in a settled cluster. An observation that reuses an earlier
answer of the network is not `fresh`: only writes that do not depend on members may follow from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from etcd_operator.cluster.children import Children, find_children, known_children, sort_out
from etcd_operator.cluster.defrag_backoff import DefragBackoff
from etcd_operator.cluster.expansion import Expansion
from etcd_operator.cluster.missing_pods import MissingPods
from etcd_operator.cluster.put_off import Postponed
from etcd_operator.cluster.since import Since
from etcd_operator.cluster.sweep import Network, Shape, Sweep, shape_of
from etcd_operator.cluster.volume_jobs import VolumeJobs
from etcd_operator.credentials.certificates import CertificateLook
from etcd_operator.credentials.passwords import PasswordLook
from etcd_operator.kube.api import (
    CLAIMS,
    ETCD_BACKUPS,
    ETCD_CLUSTERS,
    ETCD_RESTORES,
    PODS,
    SECRETS,
    STATEFUL_SETS,
    Json,
    Key,
)
from etcd_operator.kube.finder import Finder
from etcd_operator.kube.store import Store
from etcd_operator.objects import jobs, reading
from etcd_operator.tasks import together
from etcd_operator.timestamps import created
from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster, RefusedCluster, parse_cluster
from etcd_stateful.api.restore import EtcdRestore
from etcd_stateful.backup import reference, restore_requests
from etcd_stateful.manifests.network_policy import OperatorPods
from etcd_stateful.membership.beginning import bootstrap_source
from etcd_stateful.membership.epochs import in_place_request
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.tls import links
from etcd_stateful.observed.pods import Pod

GONE_SECONDS: Final = 300.0
"""How long a node must be gone from the API server before its pods count as lost. A node that is
replaced under the same name is away for a moment only, although its pods may have been pending for
longer."""

BEGIN_SECONDS: Final = 1.5
"""How long a pod may take from having a node to having an address. Most take less than a second,
unless a volume has to be attached or an image pulled."""


@dataclass(frozen=True, slots=True)
class ObservedCluster:
    """One observation. It is `fresh` unless an earlier answer of the network was reused."""

    observation: Observation
    fresh: bool
    next_sweep: float
    """Seconds until the network should be asked again, unless an event comes first."""

    shape: Shape = ()
    """The cluster's generation and ID and the state of its pods. Between two observations of the
    same shape, an earlier answer of the network may be reused."""

    answered: float = 0.0
    """When the last answer of the network came, in the event loop's time."""

    next_touch: float = inf
    """Seconds until the StatefulSet or a pod may have to be touched, unless an event comes first; 0
    if the StatefulSet may be touched now."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The cluster as it was read again from the API server, and its observation."""

    body: Json
    cluster: EtcdCluster
    seen: ObservedCluster


class Observer:
    """Observes clusters. It remembers of each only what a later pass need not ask for again."""

    def __init__(
        self,
        store: Store,
        finder: Finder,
        *,
        network: Network,
        operator_image: str,
        operator: OperatorPods | None,
        volume_jobs: VolumeJobs,
        certificates: CertificateLook,
        passwords: PasswordLook,
        expansion: Expansion,
        wall_clock: Callable[[], float],
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._finder = finder
        self._network = network
        self._operator_image = operator_image
        self._operator = operator
        self._volume_jobs = volume_jobs
        self._certificates = certificates
        self._passwords = passwords
        self._expansion = expansion
        self._wall_clock = wall_clock
        self._clock = clock
        self._missing_pods = MissingPods(finder, clock)
        self.defrag_backoff = DefragBackoff(clock)
        self.postponed = Postponed(clock)
        self._sweeps: dict[Key, Sweep] = {}
        self._nodeless = Since(GONE_SECONDS, clock)
        self._idle = Since(BEGIN_SECONDS, clock)

    def forget(self, key: Key) -> None:
        self._sweeps.pop(key, None)
        self._nodeless.forget(key)
        self._idle.forget(key)
        self._missing_pods.forget(key)
        self.defrag_backoff.forget(key)
        self.postponed.forget(key)
        self._certificates.forget(key)
        self._passwords.forget(key)

    def from_store(self, body: Json, cluster: EtcdCluster) -> Observation:
        """The observation without any request. This is all that a paused cluster gets."""
        children = known_children(self._finder, cluster)
        claims = self._store.of_cluster(CLAIMS, cluster.namespace, cluster.name)
        return self._assemble(body, cluster, children, claims)

    async def observe(self, body: Json, cluster: EtcdCluster, *, quiet: bool) -> ObservedCluster:
        """Observes the cluster.

        Args:
            quiet: nothing was going on in the last pass. If the pods are the same and in the same
                state, the network's last answer is reused until its interval is over.
        """
        base, key_of_tickets = await self._objects(body, cluster)
        key = cluster.key
        now, shape = self._clock(), shape_of(base)
        touch = min(self._missing_pods.next(key), self._idle.next(key))
        last, since = self._sweeps.get(key), self._passwords.since(cluster)
        same = last is not None and last.of == shape and since <= last.at
        if quiet and last and same and now - last.at < last.interval:
            left = last.interval - (now - last.at)
            seen = last.onto(base)
            return ObservedCluster(
                seen, fresh=False, next_sweep=left, shape=shape, next_touch=touch
            )
        identity = self._certificates.identity(cluster)
        passwords = self._passwords.of(cluster)
        sweep = await self._network.ask(base, key_of_tickets, last, identity, passwords)
        self._sweeps[key] = sweep
        return ObservedCluster(
            sweep.onto(base),
            fresh=True,
            next_sweep=sweep.interval,
            shape=shape,
            answered=sweep.answered,
            next_touch=touch,
        )

    async def _objects(self, body: Json, cluster: EtcdCluster) -> tuple[Observation, bytes | None]:
        """What objects and memories say of the cluster, and the key of the start tickets."""
        children = await find_children(self._finder, cluster, policy=self._operator is not None)
        base = self._assemble(body, cluster, children, await self._claims(cluster))
        if await self._read_restore(base):
            base = self._assemble(body, cluster, children, await self._claims(cluster))
        base = await self._with_backup(base)
        base = await self._certificates.onto(base)
        base = await self._passwords.onto(base)
        base = await self._volume_jobs.onto(base)
        base = await self._expansion.onto(base)
        base = self.postponed.onto(cluster.key, base)
        base = await self._missing_pods.onto(cluster.key, base)
        base = self.defrag_backoff.onto(cluster.key, base)
        secret = children.secret if base.secret else None
        return base, reading.start_key(secret) if secret else None

    async def confirm(self, key: Key) -> Confirmed | None:
        """Observes the cluster from the API server and its members alone, without what is
        remembered, before an irreversible step.

        None if the cluster does not exist or its spec is refused.
        """
        body = await self._finder.read(ETCD_CLUSTERS, *key)
        if body is None:
            return None
        try:
            cluster = parse_cluster(body)
        except RefusedCluster:
            return None
        await self._read_again(cluster)
        # Of what was said, only users and roles are kept: etcd says whether they have changed.
        if (last := self._sweeps.pop(key, None)) is not None:
            self._sweeps[key] = Sweep(known=last.known)
        return Confirmed(body, cluster, await self.observe(body, cluster, quiet=False))

    async def _read_again(self, cluster: EtcdCluster) -> None:
        """Reads again every object that decisions about the membership depend on."""
        where = cluster.namespace
        claims = (naming.claim(cluster.name, ordinal) for ordinal in self._ordinals(cluster))
        if self._finder.known(ETCD_RESTORES, where, cluster.name) is not None:
            await self._finder.read(ETCD_RESTORES, where, cluster.name)
        await together(
            self._finder.read_all(PODS, where, cluster.name),
            self._finder.read(STATEFUL_SETS, where, cluster.name),
            self._finder.read(SECRETS, where, naming.start_secret(cluster.name)),
            *(self._finder.read(CLAIMS, where, name) for name in claims if cluster.durable),
        )

    async def _claims(self, cluster: EtcdCluster) -> list[Json]:
        """The claims with the cluster's label, and those without it that have the name of an
        ordinal's claim."""
        known = self._store.of_cluster(CLAIMS, cluster.namespace, cluster.name)
        if not cluster.durable:
            return known
        seen = {one["metadata"]["name"] for one in known}
        names = (naming.claim(cluster.name, ordinal) for ordinal in self._ordinals(cluster))
        missing = (name for name in names if name not in seen)
        return known + await self._finder.find_all(CLAIMS, cluster.namespace, missing)

    def _ordinals(self, cluster: EtcdCluster) -> list[int]:
        """The ordinals below the cluster's size, and those with a labelled pod or claim.

        During a restore in place it returns all possible ordinals, because the restore needs one
        that is unused.
        """
        where, name = cluster.namespace, cluster.name
        pods = (one["metadata"]["name"] for one in self._store.of_cluster(PODS, where, name))
        claims = (
            one["metadata"]["name"].removeprefix(f"{naming.DATA_VOLUME}-")
            for one in self._store.of_cluster(CLAIMS, where, name)
        )
        named = (naming.ordinal_of(name, one) for one in (*pods, *claims))
        most = naming.MAX_SIZE if self._restore(cluster) else cluster.size
        return sorted({one for one in named if one is not None} | set(range(most)))

    async def _read_restore(self, seen: Observation) -> bool:
        """Reads the EtcdRestore, if the store knows none that asks for the restore in place that is
        on record: its watch may be behind that of the Secret, and the restore would be cancelled.
        Returns whether there is one."""
        begun = seen.bootstrap is not None and seen.bootstrap.successor is not None
        if not begun or in_place_request.current(seen) is not None:
            return False
        place = (seen.cluster.namespace, seen.cluster.name)
        return await self._finder.read(ETCD_RESTORES, *place) is not None

    async def _with_backup(self, base: Observation) -> Observation:
        """The observation, with what is stored by the EtcdBackup that the cluster is restored
        from."""
        if not (
            name := bootstrap_source.wanted_backup(base) or in_place_request.wanted_backup(base)
        ):
            return base
        found = await self._finder.find(ETCD_BACKUPS, base.cluster.namespace, name)
        return replace(base, backup=reference.last_stored(name, found))

    def _assemble(
        self, body: Json, cluster: EtcdCluster, children: Children, claims: list[Json]
    ) -> Observation:
        # Pods are known by their watch alone, and without one all seem to be gone.
        self._store.check_listed(PODS, cluster.namespace)
        own, foreign = sort_out(cluster, children)
        pods = self._store.of_cluster(PODS, cluster.namespace, cluster.name)
        by_name = {one["metadata"]["name"]: one for one in claims}
        read = (reading.claim(cluster.name, one) for one in claims)
        seen = Observation(
            cluster=cluster,
            secret=reading.secret(own.secret) if own.secret else None,
            stateful_set=own.stateful_set,
            headless_service=own.headless_service,
            client_service=own.client_service,
            disruption_budget=own.disruption_budget,
            network_policy=own.network_policy,
            claims=tuple(sorted((one for one in read if one), key=lambda one: one.ordinal)),
            pods=self._members(cluster, pods, own.stateful_set, by_name),
            predecessors=() if own.stateful_set else self._predecessors(cluster, pods),
            snapshots=tuple(one["metadata"]["name"] for one in pods if jobs.backs_up(one)),
            foreign=foreign,
            created=created(body) or 0.0,
            operator_image=self._operator_image,
            operator=self._operator,
            last_cluster_id=reading.last_cluster_id(body),
            last_version=reading.last_version(body),
            true_for=reading.true_for(body, self._wall_clock()),
            restore=self._restore(cluster),
        )
        return links.with_recorded_links(seen)

    def _restore(self, cluster: EtcdCluster) -> EtcdRestore | None:
        """The restore in place that the EtcdRestore of the same name asks for."""
        known = self._finder.known(ETCD_RESTORES, cluster.namespace, cluster.name)
        waited = reading.since_transition(known, self._wall_clock()) if known else 0.0
        return restore_requests.replacing(known, waited)

    def _members(
        self,
        cluster: EtcdCluster,
        pods: list[Json],
        stateful_set: Json | None,
        claims: Mapping[str, Json],
    ) -> tuple[Pod, ...]:
        """The members' pods among those of the cluster, by ordinal."""
        now = self._wall_clock()
        own = (raw for raw in pods if reading.is_own_pod(cluster.name, raw, stateful_set))
        read = (
            reading.pod(cluster, raw, claims.get(naming.claim_of(raw["metadata"]["name"])), now)
            for raw in own
        )
        found = sorted((pod for pod in read if pod), key=lambda pod: pod.ordinal)
        return self._with_grace(cluster.key, found)

    def _with_grace(self, key: Key, pods: list[Pod]) -> tuple[Pod, ...]:
        """Keeps of what is true of a pod for a moment only if it lasts."""
        gone = self._nodeless.late(key, (one.uid for one in pods if one.node_gone))
        idle = self._idle.late(key, (one.uid for one in pods if one.idle))
        return tuple(
            replace(one, node_gone=one.uid in gone, idle=one.uid in idle)
            if one.node_gone or one.idle
            else one
            for one in pods
        )

    def _predecessors(self, cluster: EtcdCluster, pods: list[Json]) -> tuple[str, ...]:
        """Members' pods that an earlier StatefulSet of this name left, and that will still stop by
        themselves."""
        now = self._wall_clock()
        return tuple(
            raw["metadata"]["name"]
            for raw in pods
            if reading.is_selected(cluster.name, raw)
            and not reading.is_own_pod(cluster.name, raw, None)
            and not reading.is_overdue(raw, now)
        )
