"""Whether claims may ask for more storage: the API server is asked as if they did.

Their StorageClass decides. That is no object of the namespace, which an operator with Roles alone
cannot read; and a quota, an admission or the state of the claim may forbid it as well.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from etcd_operator.kube.api import CLAIMS, Conflict, Json, Kubernetes, Rejected, Unavailable
from etcd_stateful.membership import larger
from etcd_stateful.membership.observation import Observation
from etcd_stateful.observed.objects import Claim

ASK_SECONDS: Final = 60.0
"""How long an answer holds: it takes a request for each claim, and a volume minutes to grow."""

_Asked = tuple[str, str, str]
"""UID and resourceVersion of a claim, and the storage that it was to ask for."""


class Expansion:
    def __init__(self, kube: Kubernetes, clock: Callable[[], float] = time.monotonic) -> None:
        self._kube = kube
        self._clock = clock
        self._answers: dict[_Asked, tuple[float, str]] = {}
        """When, and why not; empty where it may."""

    async def onto(self, base: Observation) -> Observation:
        """The observation with the claims that cannot grow marked as such."""
        small = larger.unasked(base)
        if not small:
            return base
        answers = await asyncio.gather(*(self._refusal(base, claim) for claim in small))
        fixed = {claim.uid: words for claim, words in zip(small, answers, strict=True)}
        claims = tuple(replace(one, fixed=fixed.get(one.uid, "")) for one in base.claims)
        return replace(base, claims=claims)

    async def _refusal(self, base: Observation, claim: Claim) -> str:
        storage, now = base.cluster.storage, self._clock()
        asked = (claim.uid, claim.resource_version, storage)
        self._answers = {
            one: answer for one, answer in self._answers.items() if now - answer[0] < ASK_SECONDS
        }
        if asked not in self._answers:
            self._answers[asked] = (now, await self._ask(base.cluster.namespace, claim, storage))
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
    """The patch by which exactly this claim asks for so much."""
    return {
        "metadata": {"uid": uid, "resourceVersion": resource_version},
        "spec": {"resources": {"requests": {"storage": storage}}},
    }
