"""An operator that is killed before or after one of its calls; another one continues."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal

from fakes import FakeKube

from etcd_operator.kube.api import ETCD_BACKUPS, ETCD_CLUSTERS, EVENTS, JOBS
from etcd_operator.kube.store import Store

CALLS = ("get", "list", "create", "merge_patch", "apply", "delete")
COUNTED = (JOBS, ETCD_CLUSTERS, ETCD_BACKUPS)
MOST = 100

When = Literal["before", "after"]


class Killed(BaseException):
    """The operator was killed."""


class Death:
    """The operator dies at the call with this number. The operators after it do not die."""

    def __init__(self, kube: FakeKube, at: int, when: When) -> None:
        self.kube, self.left, self.when = kube, at, when
        self.made: list[str] = []
        """What was created, other than Events."""
        self.deleted: list[str] = []
        for name in CALLS:
            setattr(kube, name, self._mortal(getattr(kube, name)))

    def _mortal(self, real: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*arguments: Any, **named: Any) -> Any:
            self.left -= 1
            if self.left == 0 and self.when == "before":
                raise Killed
            answer = await real(*arguments, **named)
            if real.__name__ == "create" and arguments[0] in COUNTED:
                self.made.append(answer["metadata"]["name"])
            if real.__name__ == "delete" and answer:
                self.deleted.append(arguments[2])
            if self.left == 0:
                raise Killed
            return answer

        return call

    @property
    def came(self) -> bool:
        return self.left <= 0

    async def survived(
        self, settle: Callable[[], Awaitable[Any]], begin_anew: Callable[[], None]
    ) -> None:
        """Passes until all is quiet. If the operator dies, another one makes them."""
        try:
            await settle()
        except Killed:
            begin_anew()
            await settle()

    def all_read_again(self) -> Store:
        """What the next operator knows at its start."""
        store = self.kube.store = Store()
        for name in self.kube.objects:
            self.kube.publish(name)
        return store


def told(kube: FakeKube) -> list[str]:
    """The reasons of all Events."""
    return [one["reason"] for (kind, *_), one in kube.objects.items() if kind == EVENTS]
