"""Where backups are stored, and with which credentials: the same fields in EtcdBackup, EtcdRestore
and the `bootstrap.restore` of an EtcdCluster.

A path is `<bucket>/<key>`, as in the coreos operator. A key has no empty part, no `.` and no `..`.
So every store lists it exactly as it was written, and it cannot lead out of its folder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from etcd_stateful.api.hosts import host_problem, is_address
from etcd_stateful.api.reading import Reader

VOLUME: Final = "Volume"
LONGEST_KEY: Final = 900
"""Bytes. S3 allows 1024, and the rest is for what is appended."""

MANIFEST: Final = ".manifest.json"
"""What the name of a backup's manifest adds to that of the backup."""

_LONGEST_STAMP: Final = len("_v1234567890123456789_2026-01-01-00:00:00")

_LONGEST_NAME: Final = 255
"""Bytes of a file name on any Linux file system."""
_APPENDED_TO_ONE: Final = len("_01234567_0123.unfinished#1")
_APPENDED_TO_MANY: Final = len("_v1_2026-01-01-00:00:00") + len(MANIFEST)
_APPENDED_TO_A_RUNS: Final = len(MANIFEST)
"""The key of a schedule's run already ends in its time. Its unfinished file leaves the time out, so
the name of the manifest is the longest."""

RUN: Final = r"\d{4}-\d\d-\d\d-\d\d:\d\d_([^_/]{1,8})"
"""How the path of a schedule's run ends: its time, and digits of the schedule's UID."""
_OF_RUN: Final = re.compile(rf"{RUN}\Z")
_NUMBERED: Final = re.compile(r"#\d+\Z", re.ASCII)

SECTIONS: Final = {"S3": "s3", "ABS": "abs", "GCS": "gcs", "OSS": "oss", VOLUME: "volume"}
_SECRETS: Final = {"S3": "awsSecret", "ABS": "absSecret", "GCS": "gcpSecret", "OSS": "ossSecret"}
_CA: Final = "caSecret"
AZURE_ACCOUNT: Final = re.compile(r"[a-z0-9]{3,24}")
_BUCKET: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]*")
"""It may become a part of the host name."""
CHECKSUMS: Final = ("SHA256", "CRC64NVME")
_OSS_ENDPOINT: Final = "https://oss-cn-hangzhou.aliyuncs.com"
_ENDPOINT: Final = re.compile(
    r"(https?://)?(?P<host>[a-zA-Z0-9._-]+|\[[0-9a-fA-F:]+\])(:(?P<port>[0-9]{1,5}))?"
    r"(/[a-zA-Z0-9._~/-]*)?"
)


@dataclass(frozen=True, slots=True)
class Store:
    """Where one backup is stored, or the backups of one interval."""

    kind: str
    """S3, ABS, GCS, OSS or Volume."""
    bucket: str
    """Bucket or container; for a Volume the name of the PersistentVolumeClaim."""
    key: str
    secret: str = ""
    """Name of the Secret with the credentials; empty: the identity of the pod."""
    endpoint: str = ""
    path_style: bool = False
    storage_account: str = ""
    """Azure's storage account, if no Secret names it."""
    checksum: str = ""
    """One of `CHECKSUMS`, sent with each upload for the store to verify; empty: none."""
    service_account: str = ""
    """ServiceAccount of the Jobs' pods. It gives them an identity if there is no Secret."""
    sha256: str = ""
    """SHA-256 of the one backup that is meant; empty: whatever backup is there."""
    ca_secret: str = ""
    """Name of the Secret with the store's certificate authorities; empty: public authorities."""
    revision: int = field(default=0, repr=False, compare=False)
    """Revision of the one backup that is meant, from the status of its EtcdBackup; 0 if it is not
    known, or not counted on. It is not part of the location and is not recorded with it."""

    @property
    def section(self) -> str:
        """The field of the spec that describes it, such as `s3`."""
        return SECTIONS[self.kind]

    @property
    def secret_field(self) -> str:
        return f"spec.{self.section}.{_SECRETS.get(self.kind, '')}"

    @property
    def ca_field(self) -> str:
        return f"spec.{self.section}.{_CA}"

    @property
    def path_field(self) -> str:
        return f"spec.{self.section}.path"

    @property
    def place(self) -> str:
        """The location of its own key."""
        return self.location(self.key)

    def location(self, key: str) -> str:
        return f"{self.section}://{self.bucket}/{key}"

    def key_at(self, location: str) -> str:
        """The key at a location; empty if the location is not in this store or leads out of it."""
        root = self.location("")
        key = location.removeprefix(root) if location.startswith(root) else ""
        return "" if key_problem(key) else key


def read_store(
    spec: Reader, kind_field: str, pod: Reader, *, stamped: bool = False
) -> Store | None:
    """Reads the store in a spec; None if problems were found.

    Args:
        kind_field: `storageType`, or `backupStorageType` in an EtcdRestore.
        pod: the spec's settings for the pods that talk to the store.
        stamped: whether revision and time are appended to the key, which may then end in a slash.
    """
    found = len(spec.problems)
    kind = spec.text(kind_field)
    if kind not in SECTIONS:
        spec.problem(kind_field, f"must be one of {', '.join(SECTIONS)}, found {kind[:60]!r}")
        return None
    inner = spec.object(SECTIONS[kind])
    if not inner.raw:
        words = f"is missing: with {kind_field} {kind} it says where the backup is stored"
        spec.problem(SECTIONS[kind], words)
        return None
    bucket, key = _place(inner, kind, stamped=stamped)
    checksum = inner.choice("checksum", CHECKSUMS) if kind == "S3" else ""
    endpoint = _endpoint(inner, bucket) or (_OSS_ENDPOINT if kind == "OSS" else "")
    store = Store(
        kind=kind,
        bucket=bucket,
        key=key,
        secret=inner.name(_SECRETS[kind], "a Secret") if kind in _SECRETS else "",
        endpoint=endpoint if not endpoint or "://" in endpoint else f"https://{endpoint}",
        path_style=inner.flag("forcePathStyle"),
        storage_account=_azure_account(inner) if kind == "ABS" else "",
        checksum=checksum,
        service_account=pod.name("serviceAccountName", "a ServiceAccount"),
        ca_secret=_ca(inner, endpoint) if kind == "S3" else "",
    )
    if kind == "OSS" and not store.secret:
        words = "is missing: name the Secret with accessKeyID and accessKeySecret"
        inner.problem("ossSecret", words)
    return store if len(spec.problems) == found else None


def _azure_account(inner: Reader) -> str:
    """The storage account. It becomes a part of the host name, so only its own characters pass."""
    found = inner.text("storageAccount")
    if bool(found) == bool(inner.raw.get("absSecret")):
        inner.problem("absSecret", "or storageAccount must be set, but not both")
    elif found and not AZURE_ACCOUNT.fullmatch(found):
        wanted = "must be 3 to 24 lower-case letters and digits"
        inner.problem("storageAccount", f"{wanted}, found {found[:60]!r}")
    return found


def _ca(inner: Reader, endpoint: str) -> str:
    name = inner.name(_CA, "a Secret")
    if name and endpoint and not endpoint.startswith("https://"):
        words = f"must begin with https:// where {_CA} is set, found {endpoint[:60]!r}"
        inner.problem("endpoint", words)
    return name


def _endpoint(inner: Reader, bucket: str) -> str:
    text = inner.text("endpoint")
    if text and (why := address_problem(text, bucket)):
        inner.problem("endpoint", f"{why}, found {text[:60]!r}")
    return text


def address_problem(text: str, bucket: str = "") -> str:
    """What is wrong with the address of a store; empty if its client may call it.

    Args:
        bucket: which the client may put before the host name.
    """
    found = _ENDPOINT.fullmatch(text)
    if found is None or int(found["port"] or 1) > 65535:
        return "must be http://host:port or https://host:port, without user, password or query"
    host = found["host"]
    why = host_problem(host) or (not is_address(host) and host_problem(f"{bucket}.{host}"))
    return f"{why}; name the store's own address" if why else ""


def _place(inner: Reader, kind: str, *, stamped: bool) -> tuple[str, str]:
    path = inner.text("path")
    if kind == VOLUME:
        bucket, key = inner.name("claimName", "a PersistentVolumeClaim"), path
        if not inner.raw.get("claimName"):
            inner.problem("claimName", "is missing: name a PersistentVolumeClaim")
    else:
        bucket, _, key = path.partition("/")
        if not _BUCKET.fullmatch(bucket):
            inner.problem("path", f"must be <bucket>/<key>, found {path[:60]!r}")
    longest = LONGEST_KEY - (_LONGEST_STAMP if stamped else 0)
    if why := key_problem(key.removesuffix("/") if stamped else key, longest):
        inner.problem("path", f"{why}, found {path[:60]!r}")
    return bucket, key


def key_problem(key: str, longest: int = LONGEST_KEY) -> str:
    """What is wrong with a key; empty if it is good.

    Args:
        longest: how many bytes it may have.
    """
    if not key:
        return "names no key: write it after the bucket and a slash"
    if len(key.encode()) > longest:
        return f"has a key of more than {longest} bytes"
    if not key.isprintable():
        return "has a control character"
    if any(part in ("", ".", "..") for part in key.split("/")):
        return "must not have an empty part, '.' or '..'; remove it"
    return ""


def file_name_problem(key: str, *, stamped: bool) -> str:
    """Why a volume cannot store a backup under this key; empty if it can.

    Args:
        stamped: whether revision and time are appended to it.
    """
    lengths = [len(part.encode()) for part in key.split("/")]
    of_one = _APPENDED_TO_A_RUNS if _OF_RUN.search(key) else _APPENDED_TO_ONE
    lengths[-1] += _APPENDED_TO_MANY if stamped else of_one
    if max(lengths) > _LONGEST_NAME:
        return (
            f"has a part of {max(lengths)} bytes with what is appended to it; the name of a file "
            f"may have at most {_LONGEST_NAME}"
        )
    if not stamped and _NUMBERED.search(key):
        return "must not end in '#' and digits, which marks files that are being written"
    return ""


def not_meant(store: Store, sha256: str) -> str:
    """Why a file is not the backup that is meant; empty if it is.

    Args:
        sha256: of the file in the store.
    """
    if store.sha256 in ("", sha256):
        return ""
    return (
        f"the backup at {store.place} has SHA-256 {sha256}, but the EtcdBackup has "
        f"stored {store.sha256} there, so another backup has taken its place. To restore what is "
        "there now, name the store and the path instead of the EtcdBackup"
    )


def noted(store: Store) -> str:
    """The SHA-256 of the backup that is meant, and its place, for an annotation; `as_noted` reads
    it."""
    return f"{store.sha256} {store.place}"


def as_noted(store: Store, note: str) -> Store:
    """The store with the SHA-256 in the note, if the note is of this place."""
    sha256, _, place = note.partition(" ")
    return replace(store, sha256=sha256) if store.place == place else store


def to_spec(store: Store) -> dict[str, object]:
    """The store as fields of a spec, with `storageType`; `read_store` reads it back."""
    said: dict[str, object] = {"storageType": store.kind, store.section: _section(store)}
    if store.service_account:
        said["pod"] = {"serviceAccountName": store.service_account}
    return said


def _section(store: Store) -> dict[str, object]:
    if store.kind == VOLUME:
        return {"claimName": store.bucket, "path": store.key}
    inner: dict[str, object] = {"path": f"{store.bucket}/{store.key}"}
    if store.secret:
        inner[_SECRETS[store.kind]] = store.secret
    if store.endpoint:
        inner["endpoint"] = store.endpoint
    if store.path_style:
        inner["forcePathStyle"] = True
    if store.storage_account:
        inner["storageAccount"] = store.storage_account
    if store.checksum:
        inner["checksum"] = store.checksum
    if store.ca_secret:
        inner[_CA] = store.ca_secret
    return inner


def to_json(store: Store) -> dict[str, object]:
    later = {
        "storageAccount": store.storage_account,
        "checksum": store.checksum,
        "serviceAccountName": store.service_account,
        "sha256": store.sha256,
        _CA: store.ca_secret,
    }
    return {
        "kind": store.kind,
        "bucket": store.bucket,
        "key": store.key,
        "secret": store.secret,
        "endpoint": store.endpoint,
        "pathStyle": store.path_style,
    } | {key: value for key, value in later.items() if value}


def from_json(given: Mapping[str, object]) -> Store:
    """Raises KeyError."""
    return Store(
        kind=str(given["kind"]),
        bucket=str(given["bucket"]),
        key=str(given["key"]),
        secret=str(given["secret"]),
        endpoint=str(given["endpoint"]),
        path_style=given["pathStyle"] is True,
        storage_account=str(given.get("storageAccount", "")),
        checksum=str(given.get("checksum", "")),
        service_account=str(given.get("serviceAccountName", "")),
        sha256=str(given.get("sha256", "")),
        ca_secret=str(given.get(_CA, "")),
    )
