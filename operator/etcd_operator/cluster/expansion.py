"""Whether claims may ask for another size: the API server is asked as if they did.

For more, their StorageClass decides. That is no object of the namespace, which an operator with
Roles alone cannot read; and a quota, an admission or the state of the claim may forbid it as well.
For less again, the version of Kubernetes and the size of the volume do.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from etcd_operator.kube.api import CLAIMS, Conflict, Json, Kubernetes, Rejected, Unavailable
from etcd_stateful import naming
from etcd_stateful.membership import larger
from etcd_stateful.membership.observation import Observation
from etcd_stateful.observed.objects import Claim

ASK_SECONDS: Final = 60.0
"""How long an answer holds: it takes a request for each claim, and a volume minutes to grow."""

LESS_SECONDS: Final = 3600.0
"""The same for less: it changes with the claim itself or with Kubernetes, and nobody waits for it
(I12)."""

_Asked = tuple[str, str, str]
"""UID and resourceVersion of a claim, and the storage that it was to ask for."""


class Expansion:
    """Asks by dry runs, and remembers each answer for ASK_SECONDS."""

    def __init__(self, kube: Kubernetes, clock: Callable[[], float] = time.monotonic) -> None:
        self._kube = kube
        self._clock = clock
        self._answers: dict[_Asked, tuple[float, str]] = {}
        """Until when, and why not; empty where it may."""

    async def onto(self, base: Observation) -> Observation:
        """The observation with the claims that may not ask for what they should marked as such."""
        due = [(claim, base.cluster.storage, ASK_SECONDS) for claim in larger.unrequested(base)]
        less = larger.to_lower(base)
        due += [(claim, larger.lowered_size(base, claim), LESS_SECONDS) for claim in less]
        if not due:
            return base
        answers = await asyncio.gather(*(self._refusal(base, *one) for one in due))
        fixed = {one[0].uid: words for one, words in zip(due, answers, strict=True)}
        claims = tuple(replace(one, fixed=fixed.get(one.uid, "")) for one in base.claims)
        return replace(base, claims=claims)

    async def _refusal(self, base: Observation, claim: Claim, storage: str, holds: float) -> str:
        now, asked = self._clock(), (claim.uid, claim.resource_version, storage)
        self._answers = {one: answer for one, answer in self._answers.items() if now < answer[0]}
        if asked not in self._answers:
            words = await self._ask(base.cluster.namespace, claim, storage)
            self._answers[asked] = (now + holds, words)
        return self._answers[asked][1]

    async def _ask(self, namespace: str, claim: Claim, storage: str) -> str:
        patch = request(claim.uid, claim.resource_version, storage)
        try:
            await self._kube.merge_patch(CLAIMS, namespace, claim.name, patch, dry_run=True)
        except Conflict:
            return ""  # it has changed since, which the next look tells
        except Rejected as error:
            return "" if error.not_found else str(error)
        except Unavailable as error:
            return str(error)  # one who is asked about claims may be out; all else goes on
        return ""


def request(uid: str, resource_version: str, storage: str) -> Json:
    """The patch by which exactly this claim asks for so much, and says at whose word."""
    note = {naming.STORAGE: storage}
    return {
        "metadata": {"uid": uid, "resourceVersion": resource_version, "annotations": note},
        "spec": {"resources": {"requests": {"storage": storage}}},
    }
