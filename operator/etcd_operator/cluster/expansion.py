"""Finds out by a dry run whether a claim's storage request may be changed.

Whether it may be raised depends on the StorageClass, which is cluster-scoped, so an operator with
only Roles cannot read it. A quota, admission or the claim's state may forbid it as well. Whether it
may be lowered again depends on the Kubernetes version and on the size of the volume.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from etcd_operator.kube.api import (
    CLAIMS,
    Conflict,
    Json,
    Kubernetes,
    Rejected,
    Unavailable,
)
from etcd_operator.kube.failed_passes import FailedPasses
from etcd_operator.tasks import together
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

RECENT_SECONDS: Final = 600.0
"""How long after an answer is due again it is known that there was none. Passes over a cluster at
rest are minutes apart."""

_Asked = tuple[str, str, str]
"""The claim's UID and resourceVersion, and the storage request that was tried."""


class Expansion:
    """Asks the API server by dry runs and remembers the answers for a while."""

    def __init__(
        self, kube: Kubernetes, failed_passes: FailedPasses, clock: Callable[[], float]
    ) -> None:
        self._kube = kube
        self._failed_passes = failed_passes
        self._clock = clock
        self._answers: dict[_Asked, tuple[float, str | Unavailable]] = {}
        """Until when an answer holds, and why the request is refused; empty if it is allowed."""

    async def onto(self, base: Observation) -> Observation:
        """The observation, in which `fixed` says why a claim's request cannot be changed.

        Raises Unavailable, so that the pass is repeated: a call without an answer says nothing of
        the claim. If that is all that comes, perhaps only a webhook for claims is down, and other
        steps go on.
        """
        more = claim_expansion.unrequested(base)
        due = [(claim, base.cluster.storage, ASK_SECONDS) for claim in more]
        less = claim_expansion.to_lower(base)
        due += [(claim, claim_expansion.lowered_size(base, claim), LESS_SECONDS) for claim in less]
        if not due:
            return base
        answers = await together(*(self._refusal(base, *one) for one in due))
        fixed = {one[0].uid: str(words) for one, words in zip(due, answers, strict=True)}
        claims = tuple(replace(one, fixed=fixed.get(one.uid, "")) for one in base.claims)
        return replace(base, claims=claims)

    async def _refusal(
        self, base: Observation, claim: Claim, storage: str, holds: float
    ) -> str | Unavailable:
        now, asked = self._clock(), (claim.uid, claim.resource_version, storage)
        oldest = now - RECENT_SECONDS
        self._answers = {one: answer for one, answer in self._answers.items() if oldest < answer[0]}
        until, words = self._answers.get(asked, (now, ""))
        if until > now:
            return words
        try:
            words = await self._ask(base.cluster.namespace, claim, storage)
        except Unavailable as error:
            is_down = isinstance(words, Unavailable)
            if not (is_down or self._failed_passes.is_reported(base.cluster.key)):
                raise
            words, holds = error, ASK_SECONDS
        self._answers[asked] = (now + holds, words)
        return words

    async def _ask(self, namespace: str, claim: Claim, storage: str) -> str:
        patch = request(claim.uid, claim.resource_version, storage)
        try:
            await self._kube.merge_patch(CLAIMS, namespace, claim.name, patch, dry_run=True)
        except Conflict:
            return ""  # the claim has changed; the next pass sees it
        except Rejected as error:
            return "" if error.not_found else str(error)
        return ""


def request(uid: str, resource_version: str, storage: str) -> Json:
    """The patch that sets the storage request of exactly this claim, and the annotation by which
    the operator recognizes its own request."""
    note = {naming.STORAGE: storage}
    return {
        "metadata": {"uid": uid, "resourceVersion": resource_version, "annotations": note},
        "spec": {"resources": {"requests": {"storage": storage}}},
    }
