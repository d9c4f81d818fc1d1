"""Creates the `obstore` clients of a store: with its credentials, its CA certificates, and timeouts
and retries that fit the purpose of each."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, cast

from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, LocalStore, S3Store

from etcd_operator.backup.idle_timeout import SILENT_SECONDS
from etcd_stateful.api.stores import Store
from etcd_stateful.backup import order as orders
from etcd_stateful.backup import trouble
from etcd_stateful.backup.credentials import Access, BadSecret, access, authorities
from etcd_stateful.backup.outcome import Failed, Failure

_CLIENT: Final[dict[str, Any]] = {
    "allow_http": True,
    "connect_timeout": timedelta(seconds=3),
    "timeout": timedelta(seconds=120),
}
_READING: Final = _CLIENT | {"timeout": timedelta(hours=24)}
"""`timeout` limits a whole response, which may be a backup of any size. `read_timeout` ends a
response that stalls."""

_WRITING: Final = _CLIENT | {"read_timeout": timedelta(seconds=30)}
"""A longer `read_timeout`, because a store answers only once it has a whole part, and answers the
last request only once it has joined all parts."""

_PATIENT: Final[dict[str, Any]] = {"max_retries": 6}
_STUBBORN: Final[dict[str, Any]] = {"retry_timeout": timedelta(seconds=60)}
_AT_FIRST: Final[dict[str, Any]] = {"max_retries": 1}

FIRST_LOOK_SECONDS: Final = 5.0
"""How long a store may be silent when it is first asked: a status has to name a store that does not
answer within ten seconds, and the pod has to start before that. A store that is slower than this at
a list of no files could not be asked all that a backup asks in the default time for it."""

Errors: Final = (BaseError, OSError, ValueError)
"""The exceptions that a client raises."""


class StoreFailed(Failed):
    """A request to the store failed. Its Failure has a message for a status."""

    def __init__(self, failure: Failure, *, forbidden: bool = False) -> None:
        super().__init__(failure)
        self.forbidden = forbidden
        """The store accepts the credentials, but they do not permit this operation."""


@contextmanager
def unless_forbidden() -> Iterator[None]:
    """Goes on where the credentials do not permit a look, as write-only ones do not. Every other
    failure is raised: the store does not say what it holds."""
    try:
        yield
    except StoreFailed as error:
        if not error.forbidden:
            raise


class Clients:
    """Makes the clients of one store. Each method raises StoreFailed."""

    def __init__(
        self,
        store: Store,
        files: dict[str, str] | None,
        trusted: dict[str, str] | None,
        root: Path,
    ) -> None:
        """Raises StoreFailed.

        Args:
            files: the content of the Secret with the credentials; None if the store names none.
            trusted: the content of the Secret with the CA certificates.
            root: where the volume is mounted, if the store is a volume.
        """
        self._store = store
        self._root = root
        try:
            self._access = access(store, files)
        except BadSecret as error:
            words = f"{store.secret_field}: Secret {store.secret}: {error}"
            raise StoreFailed(Failure("InvalidSecret", words)) from error
        self._trust = _trust(store, trusted or {})

    def for_first_look(self) -> Any:
        """For checking whether the store can be reached at all. Gives up early."""
        return self._made(_AT_FIRST, seconds=FIRST_LOOK_SECONDS)

    def for_small(self) -> Any:
        """For requests that a store answers at once."""
        return self._made(_PATIENT)

    def for_reading(self) -> Any:
        """For downloads of any size."""
        return self._made(_PATIENT, _READING)

    def for_writing(self) -> Any:
        """For the parts of an upload, each of which is retried for longer."""
        return self._made(_PATIENT | _STUBBORN, _WRITING)

    def _made(
        self,
        retry: dict[str, Any],
        client: dict[str, Any] | None = None,
        seconds: float | None = None,
    ) -> Any:
        """Raises StoreFailed.

        Args:
            seconds: of silence, after which to give up; None: SILENT_SECONDS.
        """
        store, config = self._store, cast("Any", self._access.config)
        silent = timedelta(seconds=seconds or SILENT_SECONDS)
        common: dict[str, Any] = {
            "client_options": {"read_timeout": silent} | (client or _CLIENT) | self._trust,
            "retry_config": {"retry_timeout": silent} | retry,
        }
        try:
            match store.kind:
                case "S3" | "OSS":
                    return S3Store(store.bucket, config=config, **common)
                case "ABS":
                    return AzureStore(store.bucket, config=config, **common)
                case "GCS":
                    token = _token(self._access)
                    return GCSStore(
                        store.bucket, config=config, credential_provider=token, **common
                    )
                case _:
                    return LocalStore(self._root)
        except Errors as error:
            raise self._creation_failed(error) from error

    def _creation_failed(self, error: BaseException) -> StoreFailed:
        """The error of a client that could not be created. No request was sent yet, so the cause is
        the content of the Secret."""
        store, words = self._store, trouble.first_line(str(error))
        if not store.secret:
            return store_failed(store, error)
        where = f"{store.secret_field}: Secret {store.secret} cannot be used"
        return StoreFailed(Failure("InvalidSecret", f"{where}: {trouble.without_values(words)}"))


@contextmanager
def failures_of(store: Store) -> Iterator[None]:
    """Raises StoreFailed in place of a client's exception."""
    try:
        yield
    except Errors as error:
        raise store_failed(store, error) from error


def store_failed(store: Store, error: BaseException) -> StoreFailed:
    """Converts an exception of a client, with a message for a status."""
    raw = str(error)
    failure = trouble.store_failure(store, raw)
    return StoreFailed(failure, forbidden=trouble.is_forbidden(raw))


def _trust(store: Store, files: dict[str, str]) -> dict[str, Any]:
    """The client option for CA certificates. The client trusts the public authorities as well."""
    if not store.ca_secret:
        return {}
    where = f"{store.ca_field}: Secret {store.ca_secret}:"
    try:
        found = authorities(files)
        # Checked here, because the client's own error would not name the field.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=found)
    except BadSecret as error:
        raise StoreFailed(Failure("InvalidSecret", f"{where} {error}")) from error
    except ssl.SSLError as error:
        words = f"{where} key {orders.CA_FILE} holds a certificate that cannot be read"
        raise StoreFailed(Failure("InvalidSecret", words)) from error
    return {"root_certificate": found}


def _token(given: Access) -> Any:
    if not given.token:
        return None

    def provide() -> dict[str, Any]:
        # Its expiry is not known; once it has expired, the store refuses it.
        return {"token": given.token, "expires_at": None}

    return provide
