"""Finds out by a dry run whether a claim's storage request may be changed.

Whether it may be raised depends on the StorageClass, which is cluster-scoped, so an operator with
only Roles cannot read it. A quota, admission or the claim's state may forbid it as well. Whether it
may be lowered again depends on the Kubernetes version and on the size of the volume.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from etcd_operator.kube.api import (
    CLAIMS,
    Conflict,
    Json,
    Key,
    Kubernetes,
    Rejected,
    Unavailable,
)
from etcd_operator.kube.failed_passes import UNANSWERED_PASSES
from etcd_stateful import naming
from etcd_stateful.membership.members import claim_expansion
from etcd_stateful.membership.observation import Observation
from etcd_stateful.observed.objects import Claim

ASK_SECONDS: Final = 60.0
"""How long an answer is reused. Each one costs a request per claim, and a volume takes minutes to
grow."""

LESS_SECONDS: Final = 3600.0
"""The same for a lower request. That answer only changes with the claim or with the Kubernetes
version, and nothing waits for it (I12)."""

_Asked = tuple[str, str, str]
"""The claim's UID and resourceVersion, and the storage request that was tried."""


class Expansion:
    """Asks the API server by dry runs and remembers the answers for a while."""

    def __init__(self, kube: Kubernetes, clock: Callable[[], float]) -> None:
        self._kube = kube
        self._clock = clock
        self._answers: dict[_Asked, tuple[float, str | Unavailable]] = {}
        """Until when an answer holds, and why the request is refused; empty if it is allowed."""

        self._unanswered: dict[Key, int] = {}
        """How many passes in a row ended without an answer."""

    def forget(self, key: Key) -> None:
        self._unanswered.pop(key, None)

    async def onto(self, base: Observation) -> Observation:
        """The observation, in which `fixed` says why a claim's request cannot be changed. Raises
        Unavailable."""
        more = claim_expansion.unrequested(base)
        due = [(claim, base.cluster.storage, ASK_SECONDS) for claim in more]
        less = claim_expansion.to_lower(base)
        due += [(claim, claim_expansion.lowered_size(base, claim), LESS_SECONDS) for claim in less]
        if not due:
            self.forget(base.cluster.key)
            return base
        answers = await asyncio.gather(*(self._refusal(base, *one) for one in due))
        self._repeat_or_give_up(base.cluster.key, answers)
        fixed = {one[0].uid: str(words) for one, words in zip(due, answers, strict=True)}
        claims = tuple(replace(one, fixed=fixed.get(one.uid, "")) for one in base.claims)
        return replace(base, claims=claims)

    async def _refusal(
        self, base: Observation, claim: Claim, storage: str, holds: float
    ) -> str | Unavailable:
        now, asked = self._clock(), (claim.uid, claim.resource_version, storage)
        self._answers = {one: answer for one, answer in self._answers.items() if now < answer[0]}
        if asked not in self._answers:
            words: str | Unavailable
            try:
                words = await self._ask(base.cluster.namespace, claim, storage)
            except Unavailable as error:
                words, holds = error, ASK_SECONDS
            self._answers[asked] = (now + holds, words)
        return self._answers[asked][1]

    async def _ask(self, namespace: str, claim: Claim, storage: str) -> str:
        patch = request(claim.uid, claim.resource_version, storage)
        try:
            await self._kube.merge_patch(CLAIMS, namespace, claim.name, patch, dry_run=True)
        except Conflict:
            return ""  # the claim has changed; the next pass sees it
        except Rejected as error:
            return "" if error.not_found else str(error)
        return ""

    def _repeat_or_give_up(self, key: Key, answers: Iterable[str | Unavailable]) -> None:
        """Raises the error of a call that was not answered: it says nothing of the claim, so the
        pass is repeated. If that is all that comes, perhaps only a webhook for claims is down, and
        other steps go on."""
        error = next((one for one in answers if isinstance(one, Unavailable)), None)
        if error is None:
            self.forget(key)
            return
        self._unanswered[key] = self._unanswered.get(key, 0) + 1
        if self._unanswered[key] < UNANSWERED_PASSES:
            known = self._answers.items()
            self._answers = {one: said for one, said in known if isinstance(said[1], str)}
            raise error


def request(uid: str, resource_version: str, storage: str) -> Json:
    """The patch that sets the storage request of exactly this claim, and the annotation by which
    the operator recognizes its own request."""
    note = {naming.STORAGE: storage}
    return {
        "metadata": {"uid": uid, "resourceVersion": resource_version, "annotations": note},
        "spec": {"resources": {"requests": {"storage": storage}}},
    }
