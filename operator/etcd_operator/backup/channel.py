"""Opens the connections from a backup's Job to etcd, with or without TLS.

They use gRPC's blocking API, where a single thread can read a stream. `grpc.aio` wakes two threads
for each message, and a snapshot has 32 messages per MiB.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

import grpc
from grpc.experimental import ChannelOptions

from etcd_stateful.api.backup import split_endpoint
from etcd_stateful.backup import order as orders
from etcd_stateful.backup.order import Order
from etcd_stateful.backup.outcome import Failed, Failure

_OPTIONS: Final = (
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
    (ChannelOptions.SingleThreadedUnaryStream, 1),
    # While the store is slow, the snapshot waits in etcd; otherwise gRPC buffers some 40 MiB of it.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 2 * 1024 * 1024),
)
PROBE_SECONDS: Final = 2.0

NO_HANDSHAKE: Final = "Tls handshake failed"
"""In gRPC's words for a connection without TLS that both accept."""

_CA, _CERTIFICATE, _KEY = "etcd-client-ca.crt", "etcd-client.crt", "etcd-client.key"


class NoReply(grpc.RpcError):  # type: ignore[misc]
    """No answer came before the deadline."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__()
        self._words = f"it has not {what} within {round(seconds, 1):g} s"

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.DEADLINE_EXCEEDED

    def details(self) -> str:
        return self._words


class NoChannel(Failed):
    """The Secret with the certificate for etcd lacks a key, or has one that cannot be read."""


def open_channels(order: Order, endpoint: str, folder: str = orders.CLIENT_FOLDER) -> Iterator[Any]:
    """Opens channels to try in turn, with TLS as `is_plaintext` says; raises NoChannel."""
    # With an explicit scheme: gRPC would take a host named `unix` or `dns` for a scheme.
    target = f"dns:///{split_endpoint(endpoint)[1]}"
    if is_plaintext(order, endpoint):
        yield grpc.insecure_channel(target, options=_OPTIONS)
        return
    for credentials in _credentials(order, Path(folder)):
        yield secured(target, credentials)


def secured(target: str, credentials: Any) -> Any:
    """A channel with TLS that has not connected yet."""
    return grpc.secure_channel(target, credentials, options=_OPTIONS)


async def asked(method: Any, request: Any, seconds: float, what: str) -> Any:
    """Calls `method` and returns the reply. The call is cancelled with its task.

    Raises RpcError, of which NoReply means that no reply came in time.

    Args:
        what: completes the message of NoReply: "it has not <what> within 4 s".
    """
    try:
        return await _answered(method.future(request, timeout=seconds))
    except grpc.RpcError as error:
        if cast("Any", error).code() == grpc.StatusCode.DEADLINE_EXCEEDED:
            raise NoReply(what, seconds) from error
        raise


async def _answered(call: Any) -> Any:
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def tell(_: Any) -> None:
        with contextlib.suppress(RuntimeError):  # The call was cancelled, and the loop is closed.
            loop.call_soon_threadsafe(done.set)

    call.add_done_callback(tell)
    try:
        await done.wait()
    finally:
        call.cancel()
    return call.result()


def is_plaintext(order: Order, endpoint: str) -> bool:
    """Whether to connect without TLS; without a scheme, if no Secret is named."""
    scheme = split_endpoint(endpoint)[0]
    return (scheme or ("https" if order.tls else "http")) == "http"


async def speaks_tls(endpoint: str) -> bool:
    """Whether a TLS server listens at the endpoint. A plaintext client cannot tell, as the server
    just closes its connection."""
    host, _, port = split_endpoint(endpoint)[1].rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=context)
    except ssl.SSLError as error:
        # An alert proves it, too: the server asks for a client certificate or another TLS version.
        return "ALERT" in (error.reason or "")
    except OSError:
        return False
    writer.close()
    return True


def _credentials(order: Order, folder: Path) -> Iterator[Any]:
    if not order.tls:
        yield grpc.ssl_channel_credentials()
        return
    content: dict[str, bytes] = {}
    for name in (_CA, _CERTIFICATE, _KEY):
        try:
            content[name] = (folder / name).read_bytes()
        except OSError:
            words = f"{order.client_secret_field}: Secret {order.client_secret} has no key {name}"
            raise NoChannel(Failure("InvalidSecret", words)) from None
    for authorities in _orders(_checked(order, folder), content[_CA]):
        yield grpc.ssl_channel_credentials(authorities, content[_KEY], content[_CERTIFICATE])


def _orders(context: ssl.SSLContext, bundle: bytes) -> Iterator[bytes]:
    """The authorities that have not expired, as they are, and then with each of those at the front
    that share a name.

    Of one name, gRPC's TLS tries only the first, unless the members' certificate names the key of
    its signer; Go's, and so etcd's, tries all. An authority may also have been renewed with its
    name and key. The operator knows the members' certificate, and puts its signer first
    (`credentials.certificates`), by `cryptography`, which this Job would load for nothing else.

    Args:
        context: has loaded them.
    """
    now, ders, told = time.time(), context.get_ca_certs(binary_form=True), context.get_ca_certs()
    valid = [
        (str(one["subject"]), ssl.DER_cert_to_PEM_cert(der))
        for one, der in zip(told, ders, strict=True)
        if ssl.cert_time_to_seconds(str(one["notAfter"])) > now
    ]
    yield bundle if len(valid) == len(ders) else _joined(valid) or bundle
    named = Counter(subject for subject, _ in valid)
    shared = [number for number, (subject, _) in enumerate(valid) if named[subject] > 1]
    for number in shared[1:]:
        yield _joined(valid[number:] + valid[:number])


def _joined(some: list[tuple[str, str]]) -> bytes:
    return "".join(pem for _, pem in some).encode()


def _checked(order: Order, folder: Path) -> ssl.SSLContext:
    """Loads the files, which gRPC would do too late: it would only report that the endpoint does
    not answer. Raises NoChannel."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers("DEFAULT:@SECLEVEL=0")  # Whether a key is too weak is for etcd to say.
    where = f"{order.client_secret_field}: Secret {order.client_secret}:"
    try:
        what = f"key {_CA} holds no certificate of an authority in PEM"
        context.load_verify_locations(folder / _CA)
        what = f"keys {_CERTIFICATE} and {_KEY} hold no certificate and its key in PEM"
        context.load_cert_chain(folder / _CERTIFICATE, folder / _KEY, password="")
    except (ssl.SSLError, ValueError) as error:
        raise NoChannel(Failure("InvalidSecret", f"{where} {what}")) from error
    return context
