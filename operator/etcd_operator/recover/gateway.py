"""Calls etcd's JSON gateway on loopback, with nothing but the standard library.

If authentication is on, etcd requires a user, and client certificates do not count behind the
gateway. So root logs in, with the password that the Job has as a file.

A proxy that the environment names is ignored: it would learn the password, and could only reach its
own loopback.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

from etcd_stateful.jobs.recover import LOOPBACK, PASSWORD_FILE, PASSWORD_FOLDER

CALL_SECONDS: Final = 10.0

_DENIED: Final = (400, 401, 403)

_HAS_NONE: Final = "no password user"
"""etcd's message if root was created without a password. Its code is 500, as for temporary
failures, but this one is permanent."""


class Unfinished(Exception):
    """The recovery did not finish; another try starts over."""


class NoReply(Exception):
    """etcd gave no answer, or none yet."""


class _Denied(Exception):
    """etcd requires a user, or another one."""


class Gateway:
    """Calls etcd's API in JSON. Raises NoReply, and Unfinished if etcd rejects root."""

    def __init__(
        self, port: int, password_file: str = f"{PASSWORD_FOLDER}/{PASSWORD_FILE}"
    ) -> None:
        self._url = f"http://{LOOPBACK}:{port}/v3/"
        self._password_file = Path(password_file)
        self._direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._token = ""

    def call(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._post(path, body)
        except _Denied as error:
            self._log_in(str(error))
        try:
            return self._post(path, body)
        except _Denied as error:
            raise Unfinished(f"etcd refuses its user root: {error}") from error

    def _log_in(self, why: str) -> None:
        try:
            password = self._password_file.read_bytes().decode()  # line breaks as they are
        except (OSError, UnicodeDecodeError):
            raise Unfinished(
                f"etcd asks for a user ({why}): name the Secret with the password of root in "
                "spec.auth.rootSecret"
            ) from None
        self._token = ""
        try:
            answer = self._post("auth/authenticate", {"name": "root", "password": password})
        except _Denied as error:
            cause = "the data may have an older one"
            if _HAS_NONE in str(error):
                cause = (
                    "in the data, root was created without one (--no-password), so nobody can log "
                    "in; restore a backup instead"
                )
            raise Unfinished(
                f"etcd refuses the password of root that spec.auth.rootSecret names ({error}): "
                f"{cause}"
            ) from None
        self._token = str(answer.get("token", ""))

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        headers = {"Authorization": self._token} if self._token else {}
        content = json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, content, headers)  # noqa: S310
        try:
            with self._direct.open(request, timeout=CALL_SECONDS) as reply:
                answer: dict[str, Any] = json.load(reply)
                return answer
        except urllib.error.HTTPError as error:
            with error:
                words = error.read(400).decode(errors="replace")
            denied = error.code in _DENIED or _HAS_NONE in words
            raise (_Denied if denied else NoReply)(words) from error
        except (OSError, ValueError, HTTPException) as error:
            raise NoReply(str(error)) from error
