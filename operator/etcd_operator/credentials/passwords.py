"""Reads the passwords of etcd's users from the Secrets that `spec.auth` names.

They are kept in memory only. The planner learns no more than whether one can be used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from etcd_operator.credentials.provided import ProvidedSecrets
from etcd_operator.kube.api import Json, Key, Kubernetes
from etcd_operator.kube.name_changes import Mark
from etcd_operator.objects.reading import contents
from etcd_operator.tasks import together
from etcd_stateful.api.auth import SecretKey
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.membership.observation import Observation

LONGEST: Final = 72
"""Bytes that bcrypt accepts; etcd refuses a longer password."""


class _Unusable(ValueError):
    """Why a password cannot be used, in words."""


class PasswordLook:
    def __init__(
        self,
        kube: Kubernetes,
        *,
        clock: Callable[[], float],
        mark: Mark,
    ) -> None:
        self._secrets = ProvidedSecrets(kube, clock, mark)
        self._clock = clock
        self._found: dict[Key, Mapping[str, str]] = {}
        self._since: dict[Key, float] = {}

    def forget(self, key: Key) -> None:
        self._secrets.forget(key)
        self._found.pop(key, None)
        self._since.pop(key, None)

    def of(self, cluster: EtcdCluster) -> Mapping[str, str]:
        """The usable passwords by user, as of the last look."""
        return self._found.get(cluster.key, {})

    def since(self, cluster: EtcdCluster) -> float:
        """When the present passwords were first seen; what etcd said before is about others."""
        return self._since.get(cluster.key, float("-inf"))

    async def unchanged(self, cluster: EtcdCluster, user: str) -> str | None:
        """The user's password, from its Secret as it is now; None if it is not that of the last
        look. Otherwise an operator that was stopped for a while could set an outdated password."""
        named = cluster.auth.users if cluster.auth else ()
        where = next((one.secret for one in named if one.name == user), None)
        if where is None:
            return None
        try:
            password = _password(where, await self._secrets.read_again(cluster, where.name))
        except _Unusable:
            return None
        return password if password == self.of(cluster).get(user) else None

    async def onto(self, base: Observation) -> Observation:
        """The observation with what is wrong with each password; empty if nothing is."""
        cluster, auth = base.cluster, base.cluster.auth
        key = cluster.key
        if auth is None:
            self.forget(key)
            return base
        names = sorted({user.secret.name for user in auth.users})
        self._secrets.keep(cluster, names)
        raws = await together(*(self._secrets.read(cluster, name) for name in names))
        by_name = dict(zip(names, raws, strict=True))
        found: dict[str, str] = {}
        problems: dict[str, str] = {}
        for user in auth.users:
            try:
                found[user.name] = _password(user.secret, by_name[user.secret.name])
            except _Unusable as error:
                problems[user.name] = str(error)
        if found != self._found.get(key):
            self._found[key], self._since[key] = found, self._clock()
        self._secrets.read_soon(
            cluster, {user.secret.name for user in auth.users if user.name in problems}
        )
        return replace(base, passwords={**dict.fromkeys(found, ""), **problems})


def _password(where: SecretKey, raw: Json | None) -> str:
    if raw is None:
        raise _Unusable(f"Secret {where.name} does not exist")
    content = contents(raw).get(where.key)
    if content is None:
        raise _Unusable(f"Secret {where.name} has no key {where.key}")
    try:
        password = content.decode()
    except UnicodeDecodeError:
        # Not chained: the decoder's message quotes its input.
        raise _Unusable(f"{where.key} of Secret {where.name} is not text in UTF-8") from None
    if not password:
        raise _Unusable(f"{where.key} of Secret {where.name} is empty")
    if password != password.strip("\r\n"):
        raise _Unusable(
            f"{where.key} of Secret {where.name} begins or ends with a line break, which every "
            "client would have to send too; write the Secret without it (printf, not echo)"
        )
    if len(content) > LONGEST:
        raise _Unusable(
            f"{where.key} of Secret {where.name} has {len(content)} bytes; etcd takes {LONGEST}"
        )
    return password
