"""Turns errors of a store's client into messages that name the field of the spec and the cause."""

from __future__ import annotations

import re
from typing import Final

from etcd_stateful.api.stores import Store
from etcd_stateful.backup.order import CA_FILE
from etcd_stateful.backup.outcome import Failure

_CODE: Final = re.compile(r"<Code>(\w+)</Code>|\"(?:code|reason)\":\s*\"(\w+)\"")
_STATUS: Final = re.compile(r"\b([45]\d\d) [A-Z][a-z]")

_REPLY: Final = re.compile(r"(status code: [1-5]\d\d[A-Za-z '-]*|error response): ")
"""How the client's message ends before it quotes the content of the reply."""

_MESSAGE: Final = re.compile(r"<Message>([^<>]*)</Message>|\"message\":\s*\"([^\"<>]*)\"")
_QUOTED: Final = re.compile(r"\"[^\"]*\"|`[^`]*`")

_CERTIFICATE: Final = re.compile(
    r"InvalidCertificate\(\s*(?:Other\(\s*OtherError\(\s*)?(\w+?)(?:Context)?\b"
)
"""The client's reason for refusing the store's certificate, in the debug structure after its
message."""

_UNKNOWN: Final = "UnknownIssuer"

_NO_BUCKET: Final = ("NoSuchBucket", "ContainerNotFound", "InvalidBucketName", "ResourceNotFound")
_UNAUTHENTICATED: Final = "Server failed to authenticate the request"
"""Azure's message for a wrong key. Its code alone may also mean that a firewall refuses access."""

_KEYS: Final = (
    "AuthenticationFailed",
    "AuthFailure",
    "AuthenticationRequired",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidAuthenticationInfo",
    "InvalidToken",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
    "XAdminUserNotFound",  # versitygw
)
_ELSEWHERE: Final = ("PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocation")
_CLOCKS_DIFFER: Final = "RequestTimeTooSkewed"
_LOCKED: Final = "requests with Object Lock parameters"
"""How S3's message ends if it refuses an upload without a checksum to a bucket with Object Lock."""

_UNLISTED: Final = "object with invalid path"
"""In the client's message if a list has a key with an empty part, `.` or `..`. No list of that
folder comes to its end then."""

_NO_ANSWER: Final = (
    "connect",
    "dns error",
    "error sending request",
    "timed out",
    "operation timed out",
)
_DENIED: Final = ("AccessDenied", "Permission denied", "Read-only file system")
_FULL: Final = ("No space left", "StorageFull", "QuotaExceeded", "os error 28")


def store_failure(store: Store, raw: str) -> Failure:
    """The error of the store's client as a failure that names the most likely field.

    Args:
        raw: the client's error.
    """
    reason = "StoreRefused"
    words, code, statuses = first_line(raw), _code_of(raw), set(_STATUS.findall(raw))
    if untrusted := _untrusted(store, raw):
        reason, told = "StoreUnreachable", untrusted
    elif is_unlisted(raw):
        told = f"{store.path_field}: the folder has a file of another tool that the store's client "
        told += f"cannot list: rename it, or give the backups a folder of their own ({words})"
    elif code in _NO_BUCKET or (not code and "404" in statuses):
        what = "container" if store.kind == "ABS" else "bucket"
        told = f"{store.path_field}: there is no {what} {store.bucket!r}"
    elif code in _KEYS or "401" in statuses or _UNAUTHENTICATED in raw:
        told = f"{_identity(store)}: the store does not accept it ({code or words})"
    elif code in _ELSEWHERE:
        told = f"{_identity(store)}: its region is not the region of the bucket ({code})"
        told += _way_to_a_region(store)
    elif code == _CLOCKS_DIFFER:
        told = f"{_address(store)} does not accept the time of the node's clock ({code})"
    elif store.kind == "S3" and _LOCKED in raw:
        told = f"spec.s3.checksum: bucket {store.bucket!r} has Object Lock, and takes nothing "
        told += "without a checksum: set SHA256"
    elif "403" in statuses or any(one in raw for one in _DENIED):
        told = f"{store.path_field}: {store.bucket!r} refuses access ({code or words})"
    else:
        return _of_its_state(store, raw, words)
    return Failure(reason, told)


def _of_its_state(store: Store, raw: str, words: str) -> Failure:
    if any(one in raw for one in _FULL):
        return Failure("StoreRefused", f"{store.path_field}: the store is full ({words})")
    if any(one in raw.lower() for one in _NO_ANSWER):
        return Failure("StoreUnreachable", f"{_address(store)} cannot be reached: {words}")
    return Failure("StoreUnreachable", f"{store.path_field}: the store failed: {words}")


def of_a_member(store: Store) -> Failure:
    """The failure for a claim on which no backup is written."""
    words = f"spec.volume.claimName: PersistentVolumeClaim {store.bucket!r} has the data of a "
    words += "member of an EtcdCluster, so backups cannot be stored there; name another"
    return Failure("VolumeOfCluster", words, final=True)


def is_forbidden(raw: str) -> bool:
    """Whether the store authenticated the client, but refused this one operation."""
    code = _code_of(raw)
    return code in ("AccessDenied", "AuthorizationPermissionMismatch", "forbidden") or (
        not code and "403" in _STATUS.findall(raw)
    )


def is_unlisted(raw: str) -> bool:
    """Whether the store has answered, but with a key that its client cannot list."""
    return _UNLISTED in raw


def _code_of(raw: str) -> str:
    found = _CODE.search(raw)
    return (found[1] or found[2]) if found else ""


def first_line(raw: str) -> str:
    """The client's message without the debug structures that it prints after it, and of the store's
    reply only the code and the first sentence: a reply may repeat what was sent, such as the ID of
    the key and what was signed with it, and whatever answers at an endpoint may write anything."""
    told, status, reply = _parted(raw.partition("\n\nDebug source")[0])
    said = [_code_of(reply), _sentence(reply)]
    line = told + status + "".join(f": {one}" for one in said if one)
    return "".join(one if one.isprintable() else " " for one in " ".join(line.split()))[:400]


def without_values(words: str) -> str:
    """The message of a parser without what it quotes, which may be a secret."""
    return _QUOTED.sub("...", words)


def _parted(line: str) -> tuple[str, str, str]:
    """What is before the status of the store's reply, the status, and the reply's content."""
    found = _REPLY.search(line)
    if found is None:
        return line, "", ""
    return line[: found.start()], found[1], line[found.end() :]


def _sentence(reply: str) -> str:
    """The first sentence of the message in a store's reply."""
    found = _MESSAGE.search(reply)
    text = (found[1] or found[2]) if found else ""
    return re.split(r"(?<=[.!?])\s", text.strip(), maxsplit=1)[0][:160]


def _address(store: Store) -> str:
    if store.endpoint:
        return f"spec.{store.section}.endpoint: {store.endpoint}"
    return f"{store.path_field}: the store of {store.bucket!r}"


def _untrusted(store: Store, raw: str) -> str:
    """What is wrong with the store's certificate; empty if the error is not about it."""
    found = _CERTIFICATE.search(raw)
    if found is None:
        return ""
    why = found[1]
    if why != _UNKNOWN or store.kind != "S3":
        return f"{_address(store)}: its certificate is not accepted ({why})"
    of = f"{store.ca_field}: the certificate of {store.endpoint or 'the store'}"
    if store.ca_secret:
        return f"{of} is signed neither by Secret {store.ca_secret} nor by a public authority"
    return f"{of} is not signed by a public authority; name a Secret with its own as {CA_FILE}"


def _way_to_a_region(store: Store) -> str:
    """Where to name the region, if no Secret has it."""
    if store.kind != "S3" or store.secret:
        return ""
    return "; name that in spec.s3.endpoint, as s3.<region>.amazonaws.com"


def _identity(store: Store) -> str:
    if store.secret:
        return f"{store.secret_field}: the credentials in Secret {store.secret}"
    return f"{store.secret_field or store.path_field}: the pod's own identity"
