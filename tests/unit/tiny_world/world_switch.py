"""The tiny world in which TLS is turned on and off: who connects to whom, by which URL.

After each step, and each round of the world, members must be able to reach each other, also if any
pod were recreated at that moment, and the operator must be able to reach them all.
"""

from __future__ import annotations

from typing import Any

from world_certificates import CertificateWorld
from world_etcd import refuse
from world_rules import rule

from etcd_stateful.api.tls import Level, Levels
from etcd_stateful.manifests.start_settings import levels_in
from etcd_stateful.manifests.tls import trust_in
from etcd_stateful.membership.steps import IssueCertificate, Step
from etcd_stateful.membership.tls import links

ON = {"peer": "Managed", "client": "Managed"}
OFF = {"peer": "Plaintext", "client": "Plaintext"}
BOTH = {**ON, "allowPlaintextClients": True}

_SECRETS = ("c-peer-tls", "c-server-tls")


class SwitchWorld(CertificateWorld):
    def __init__(self, size: int = 3, **spec: Any) -> None:
        spec.setdefault("TLS", OFF)
        super().__init__(size, **spec)

    def apply(self, step: Step) -> None:
        if isinstance(step, IssueCertificate) and step.need.secret in self.authorities:
            refuse(not step.resource_version, "there is one by now")
        super().apply(step)
        self.check_reach()

    def turn(self) -> None:
        super().turn()
        self.check_reach()

    def check_reach(self) -> None:
        known = ((one, pod) for one, pod in self.pods.items() if not pod.hidden)
        levels = {one: pod.levels for one, pod in known if pod.levels}
        for ordinal, made in levels.items():
            self._check_pod(ordinal, made)
        live = self.objects.get(("StatefulSet", "c"))
        if live is None or not self.etcd or not self.record.latched:
            return
        if not any(self.is_listed(data) for _, data in self.volumes()):
            return  # no member is left to be found
        template = live["spec"]["template"]["spec"]
        following = levels_in(template)
        assert following is not None
        self._check_mounts(template)
        for ordinal in self.urls:
            self._found(ordinal, following, "once it is made again")
        running = [levels[ordinal] for ordinal, _ in self.running() if ordinal in levels]
        for one in [*running, following]:
            for other in running:
                able = other.peer is not Level.TLS or one.peer > Level.PLAINTEXT
                rule(able, "reach", "a member without certificates has a peer that wants one")
        served = [one.client_schemes for one in running]
        rule(not served or bool(frozenset.intersection(*served)), "reach", "no client finds all")

    def _check_pod(self, ordinal: int, made: Levels) -> None:
        if ordinal in self.urls and self.pods[ordinal].where == "etcd":
            self._found(ordinal, made, "now")

    def _found(self, ordinal: int, levels: Levels, when: str) -> None:
        by = {url.partition(":")[0] for url in self.urls[ordinal]}
        words = f"c-{ordinal} listens with {levels.peer_scheme} {when}, and is found by {by}"
        rule(levels.peer_scheme in by, "reach", words)

    def _check_mounts(self, template: dict[str, Any]) -> None:
        """Checks that the Secrets exist which a pod recreated now would mount."""
        volumes = [one.get("secret", {}).get("secretName") for one in template["volumes"]]
        for secret in set(volumes) & set(_SECRETS):
            leaf = self.leaves.get(secret)
            rule(leaf is not None, "mount", f"pods mount {secret}, which is not there")
            trust = trust_in(template)
            pinned = trust.peer if secret == "c-peer-tls" else trust.client
            rule(not pinned or bool(leaf and pinned in leaf.pins), "mount", f"no {pinned}")

    @property
    def urls(self) -> dict[int, tuple[str, ...]]:
        """Peer URLs of the listed members, by ordinal."""
        listed = self.etcd.members.values() if self.etcd else ()
        return {int(one.peer_urls[0].partition("c-")[2][0]): one.peer_urls for one in listed}

    @property
    def schemes(self) -> set[str]:
        view = self.observe().etcd
        members = view.members if view else ()
        return {"+".join(sorted(links.schemes_of(member))) for member in members}

    @property
    def claimed(self) -> set[str]:
        """The peer schemes that the claims have on record."""
        held = (claim.record for claim in self.observe().claims)
        return {record.peer_scheme for record in held if record}

    @property
    def levels(self) -> set[Levels]:
        return {pod.levels for pod in self.pods.values() if pod.levels}
