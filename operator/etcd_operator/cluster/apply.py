"""Carries out one step: at most one write, under every precondition that the step names. Only what
fields of others exclude takes more.

A write that deletes an object or assigns an identity (claims, records, tickets) has the UID and
resourceVersion as preconditions, or follows a read made just before. The response to every write
goes into the store, so the next pass sees it even if the watch is late.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from etcd_operator.cluster import expansion, replacing, volume_jobs
from etcd_operator.cluster.tickets import NoAnswer, Start
from etcd_operator.credentials import issuing, taking
from etcd_operator.credentials.passwords import PasswordLook
from etcd_operator.etcd import accounts, changes
from etcd_operator.etcd.accounts import Accounts
from etcd_operator.etcd.api import Etcd, Identity
from etcd_operator.kube.api import (
    CERTIFICATES,
    CLAIMS,
    DISRUPTION_BUDGETS,
    NETWORK_POLICIES,
    PODS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    Conflict,
    Json,
    KubeError,
    Kubernetes,
    Rejected,
    Resource,
)
from etcd_operator.kube.finder import Finder
from etcd_operator.objects import reading
from etcd_operator.step_result import Done, Outdated, StepResult, TicketRefused, Uncertain
from etcd_operator.timestamps import micro
from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.manifests.secret import BOOTSTRAP, start_secret
from etcd_stateful.membership.irreversible import goes_by_objects
from etcd_stateful.membership.steps import (
    ApplyChild,
    ChangeAuth,
    CreateJob,
    CreateSecret,
    DeleteClaim,
    DeleteJob,
    DeletePod,
    EtcdChange,
    ExpandClaim,
    IssueCertificate,
    PushTicket,
    RecordMember,
    RotateAuthority,
    TakeCertificate,
    TouchStatefulSet,
    Write,
    WriteBootstrap,
)
from etcd_stateful.observed.pods import Pod
from etcd_stateful.records.bootstrap_json import dump_bootstrap
from etcd_stateful.records.member import member_annotations

KEY_BYTES: Final = 32

_RESOURCES: Final = {
    resource.kind: resource
    for resource in (
        STATEFUL_SETS,
        SERVICES,
        SECRETS,
        CLAIMS,
        PODS,
        DISRUPTION_BUDGETS,
        NETWORK_POLICIES,
        CERTIFICATES,
    )
}


class Applier:
    """Carries out steps. Raises Rejected and Unavailable; a Conflict is returned as `Outdated`."""

    def __init__(
        self,
        kube: Kubernetes,
        finder: Finder,
        start: Start,
        etcd: Etcd,
        wall_clock: Callable[[], float],
        *,
        identity: Callable[[EtcdCluster], Identity | None],
        accounts: Accounts,
        passwords: PasswordLook,
    ) -> None:
        self._kube = kube
        self._finder = finder
        self._start = start
        self._etcd = etcd
        self._wall_clock = wall_clock
        self._identity = identity
        self._accounts = accounts
        self._passwords = passwords
        self._by_step: Mapping[type[Write], Callable[[EtcdCluster, Any], Awaitable[StepResult]]] = {
            ApplyChild: self._apply_child,
            CreateSecret: self._create_secret,
            WriteBootstrap: self._write_bootstrap,
            IssueCertificate: self._issue,
            RotateAuthority: self._issue,
            TakeCertificate: self._take,
            RecordMember: self._record_member,
            PushTicket: self._push_ticket,
            ExpandClaim: self._expand,
            TouchStatefulSet: self._touch,
            DeleteClaim: self._delete,
            DeletePod: self._delete,
            CreateJob: self._of_job,
            DeleteJob: self._of_job,
            ChangeAuth: self._change_auth,
        }
        """All other steps are changes of etcd."""

    async def apply(self, cluster: EtcdCluster, step: Write) -> StepResult:
        return await self._by_step.get(type(step), self._change)(cluster, step)

    async def _change(self, cluster: EtcdCluster, step: EtcdChange) -> StepResult:
        return await changes.change(self._etcd, step, self._identity(cluster))

    async def _change_auth(self, cluster: EtcdCluster, step: ChangeAuth) -> StepResult:
        password_of = partial(self._passwords.unchanged, cluster)
        return await accounts.change(self._accounts, step, self._identity(cluster), password_of)

    async def _issue(
        self, cluster: EtcdCluster, step: IssueCertificate | RotateAuthority
    ) -> StepResult:
        now = self._wall_clock()
        return await issuing.carry_out(self._kube, self._finder, cluster, step, now)

    async def _take(self, cluster: EtcdCluster, step: TakeCertificate) -> StepResult:
        return await taking.take(self._kube, self._finder, cluster, step, self._wall_clock())

    async def _of_job(self, cluster: EtcdCluster, step: CreateJob | DeleteJob) -> StepResult:
        return await volume_jobs.apply(self._kube, cluster.namespace, step)

    async def _apply_child(self, cluster: EtcdCluster, step: ApplyChild) -> StepResult:
        """Applies a child at the observed resourceVersion, or creates it if its name is free.

        Server-side apply would also take over another owner's object of that name. So the name is
        read again before a create; for objects that the membership does not depend on, the read
        that this pass began with is enough. The resourceVersion keeps a pass with an outdated view
        from lowering the StatefulSet's replicas.
        """
        resource, where = _RESOURCES[step.kind], cluster.namespace
        live = self._finder.known(resource, where, step.name)
        just_read = self._finder.is_just_free(resource, where, step.name)
        if live is None and not (just_read and goes_by_objects(step)):
            live = await self._finder.read(resource, where, step.name)
        if live is not None and reading.foreign(cluster, step.kind, live):
            return Outdated(f"{step.kind} {step.name} now belongs to another owner")
        manifest = dict(step.manifest)
        if (live is not None) != ("resourceVersion" in manifest["metadata"]):
            now = "already exists" if live else "is already gone"
            return Outdated(f"{step.kind} {step.name} {now}")
        if live is not None:
            metadata = {**manifest["metadata"], "uid": live["metadata"]["uid"]}
            manifest["metadata"] = metadata
        try:
            written = await replacing.apply(self._kube, resource, live, manifest)
        except Conflict as error:
            return await self._outdated(resource, where, step.name, error)
        self._finder.take(resource, written)
        verb = "created" if live is None else "changed"
        return Done(f"{verb} {step.kind} {step.name}", created=live is None)

    async def _create_secret(self, cluster: EtcdCluster, step: CreateSecret) -> StepResult:
        key = base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()
        manifest = start_secret(cluster, step.record, key)
        try:
            self._finder.take(SECRETS, await self._kube.create(SECRETS, manifest))
        except Conflict as error:
            return await self._outdated(SECRETS, cluster.namespace, step.name, error)
        return Done(f"created Secret {step.name}", created=True)

    async def _write_bootstrap(self, cluster: EtcdCluster, step: WriteBootstrap) -> StepResult:
        text = base64.b64encode(dump_bootstrap(step.record).encode()).decode()
        labels = naming.labels(cluster.name)  # the watch selects Secrets by these labels
        patch: Json = {
            "metadata": {"resourceVersion": step.resource_version, "labels": labels},
            "data": {BOOTSTRAP: text},
        }
        return await self._patch(cluster, SECRETS, step.name, patch, "wrote the bootstrap record")

    async def _record_member(self, cluster: EtcdCluster, step: RecordMember) -> StepResult:
        patch: Json = {
            "metadata": {
                "uid": step.uid,
                "resourceVersion": step.resource_version,
                # The watch selects by these, and somebody may have made the claim beforehand.
                "labels": naming.labels(cluster.name),
                # A record without a peer scheme means `http`, so a scheme on the object is removed.
                "annotations": {naming.PEER_SCHEME: None} | member_annotations(step.record),
            }
        }
        words = f"recorded the member on {step.kind} {step.name}"
        return await self._patch(cluster, _RESOURCES[step.kind], step.name, patch, words)

    async def _patch(
        self, cluster: EtcdCluster, resource: Resource, name: str, patch: Json, words: str
    ) -> StepResult:
        where = cluster.namespace
        try:
            self._finder.take(resource, await self._kube.merge_patch(resource, where, name, patch))
        except Conflict as error:
            return await self._outdated(resource, where, name, error)
        except Rejected as error:
            if not error.not_found:
                raise
            return await self._outdated(resource, where, name, error)
        return Done(words)

    async def _push_ticket(self, cluster: EtcdCluster, step: PushTicket) -> StepResult:
        """Sends a ticket, if a fresh read shows that the pod still waits in `start` at this
        address."""
        where = cluster.namespace
        raw = await self._finder.read(PODS, where, step.pod)
        pod = reading.pod(cluster, raw, None, self._wall_clock()) if raw else None
        secret = await self._finder.find(SECRETS, where, naming.start_secret(cluster.name))
        key = reading.start_key(secret) if secret else None
        if secret is None or key is None:
            return Outdated("the key of the tickets is gone")
        if why := _why_withheld(step, pod, secret):
            return Outdated(why)
        try:
            receipt = await self._start.push(step.address, step.pod_uid, key, step.ticket)
        except NoAnswer as error:
            return Uncertain(f"start in pod {step.pod} sent no receipt: {error}")
        if receipt.refusal:
            return TicketRefused(f"start in pod {step.pod} refused its ticket: {receipt.refusal}")
        return Done(f"gave pod {step.pod} its ticket ({step.ticket.state})")

    async def _expand(self, cluster: EtcdCluster, step: ExpandClaim) -> StepResult:
        patch = expansion.request(step.uid, step.resource_version, step.storage)
        verb = "lowered" if step.less else "raised"
        words = f"{verb} the storage request of claim {step.name} to {step.storage}"
        return await self._patch(cluster, CLAIMS, step.name, patch, words)

    async def _touch(self, cluster: EtcdCluster, step: TouchStatefulSet) -> StepResult:
        note = {naming.TOUCHED: micro(self._wall_clock())}
        patch: Json = {"metadata": {"uid": step.uid, "annotations": note}}
        return await self._patch(cluster, STATEFUL_SETS, step.name, patch, step.reason)

    async def _delete(self, cluster: EtcdCluster, step: DeleteClaim | DeletePod) -> StepResult:
        """Deletes a claim or a pod. A forced deletion frees the pod's name at once, even if its
        node still runs the containers."""
        where = cluster.namespace
        resource, what = (PODS, "pod") if isinstance(step, DeletePod) else (CLAIMS, "claim")
        try:
            await self._kube.delete(
                resource,
                where,
                step.name,
                uid=step.uid,
                resource_version=step.resource_version,
                grace_seconds=0 if isinstance(step, DeletePod) and step.force else None,
            )
        except Conflict as error:
            return await self._outdated(resource, where, step.name, error)
        # The object may still exist: a claim while a pod uses it, a pod while it stops.
        await self._finder.read(resource, where, step.name)
        return Done(f"deleted {what} {step.name}")

    async def _outdated(
        self, resource: Resource, namespace: str, name: str, error: KubeError
    ) -> Outdated:
        await self._finder.read(resource, namespace, name)
        return Outdated(f"{resource.kind} {name} has changed in between: {error}")


def _why_withheld(step: PushTicket, pod: Pod | None, secret: Json) -> str:
    """Why the ticket must not be sent: the pod or the ledger has changed since the step was chosen.
    Empty if it may be sent."""
    if pod is None or pod.uid != step.pod_uid:
        return f"pod {step.pod} is gone or another one"
    if pod.deleting or not pod.in_start or pod.address != step.address:
        return f"pod {step.pod} no longer waits in start"
    ticket, record = step.ticket, reading.secret(secret).bootstrap
    issued = record.challenge(ticket.member_id) if record else None
    if ticket.state != "adopt" and issued != ticket.challenge:
        return f"the ledger does not know the ticket of pod {step.pod}"
    return ""
