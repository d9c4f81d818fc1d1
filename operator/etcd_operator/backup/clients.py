"""The clients of a store, through `obstore`: with its credentials, its authority, and as patient as
what each is for allows."""

from __future__ import annotations

import ssl
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
"""The deadline is for a whole answer, which may be a backup of any size. `read_timeout` ends one
that stalls."""

_WRITING: Final = _CLIENT | {"read_timeout": timedelta(seconds=30)}
"""A store answers once it has a whole part, and to the last request once it has joined them all."""

_PATIENT: Final[dict[str, Any]] = {"max_retries": 6}
_STUBBORN: Final[dict[str, Any]] = {"retry_timeout": timedelta(seconds=60)}
_AT_FIRST: Final[dict[str, Any]] = {"max_retries": 1}

Errors: Final = (BaseError, OSError, ValueError)
"""What a client raises."""


class StoreFailed(Failed):
    """The store did not do what it was asked for, in words for a status."""

    def __init__(self, failure: Failure, *, forbidden: bool = False) -> None:
        super().__init__(failure)
        self.forbidden = forbidden
        """The store knows who asks, and does not let it do just this."""


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
            files: of the Secret with the credentials; None where the store has none.
            trusted: of the Secret with the authorities of its certificate.
            root: where a volume is mounted.
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
        """With little patience: whether the store can be reached at all."""
        return self._made(_AT_FIRST)

    def for_small(self) -> Any:
        """For what is answered at once, whatever it is."""
        return self._made(_PATIENT)

    def for_reading(self) -> Any:
        """For content of any size."""
        return self._made(_PATIENT, _READING)

    def for_writing(self) -> Any:
        """For the parts of an upload, none of which may be given up too early."""
        return self._made(_PATIENT | _STUBBORN, _WRITING)

    def _made(self, retry: dict[str, Any], client: dict[str, Any] | None = None) -> Any:
        """Raises StoreFailed."""
        store, config = self._store, cast("Any", self._access.config)
        silent = timedelta(seconds=SILENT_SECONDS)
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
            raise self._unmade(error) from error

    def _unmade(self, error: BaseException) -> StoreFailed:
        """Nobody was asked yet: what it was made of is wrong, which is what the Secret holds."""
        store, words = self._store, trouble.first_line(str(error))
        if not store.secret:
            return store_failed(store, error)
        where = f"{store.secret_field}: Secret {store.secret}"
        return StoreFailed(Failure("InvalidSecret", f"{where} cannot be used: {words}"))


def store_failed(store: Store, error: BaseException) -> StoreFailed:
    """What a client has raised, in words for a status."""
    raw = str(error)
    failure = trouble.store_failure(store, raw)
    return StoreFailed(failure, forbidden=trouble.is_forbidden(raw))


def _trust(store: Store, files: dict[str, str]) -> dict[str, Any]:
    """For the client, which knows the public authorities by itself and trusts them as well."""
    if not store.ca_secret:
        return {}
    where = f"{store.ca_field}: Secret {store.ca_secret}:"
    try:
        found = authorities(files)
        # The client names no field where it cannot read one.
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
        # When it expires is not known; the store says so when it has.
        return {"token": given.token, "expires_at": None}

    return provide
