"""Turns Secrets in the coreos operator's formats into the configuration of the store's client.

Messages name the keys and formats of a Secret, but never contain its values.
"""

from __future__ import annotations

import configparser
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from etcd_stateful.api.hosts import is_address
from etcd_stateful.api.stores import AZURE_ACCOUNT, Store, address_problem
from etcd_stateful.backup.order import CA_FILE
from etcd_stateful.untrusted import loads

DEFAULT_REGION: Final = "us-east-1"

_CERTIFICATE: Final = re.compile(
    r"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----"
)
_REGION: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""It becomes a part of the host name, as the account of Azure does."""
_AWS_HOST: Final = re.compile(
    r"s3(-fips)?[.-](dualstack\.)?(?P<region>[a-z]+(-[a-z]+)+-\d)\.amazonaws\.com(\.cn)?(?![^:/])"
)
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_PORT: Final = re.compile(r":\d+$")
_CLOUDS: Final = {
    "": "",
    "AzurePublicCloud": "",
    "AzurePublic": "",
    "AzureChinaCloud": "blob.core.chinacloudapi.cn",
    "AzureUSGovernmentCloud": "blob.core.usgovcloudapi.net",
}
_AZURE_DOMAINS: Final = {name.lower(): domain for name, domain in _CLOUDS.items()}
"""The coreos operator's client did not distinguish cases either."""


class BadSecret(ValueError):
    """A key of the Secret is missing or cannot be read. The message names neither the Secret nor
    the field of the spec."""


@dataclass(frozen=True, slots=True)
class Access:
    """Configuration of the store's client. It holds secrets: never print it."""

    config: Mapping[str, Any] = field(repr=False)
    token: str = field(default="", repr=False)
    """A bearer token, if there is nothing else (GCS)."""


def access(store: Store, files: Mapping[str, str] | None) -> Access:
    """The configuration of the store's client. Raises BadSecret.

    Args:
        files: contents of the Secret by key; None to use the identity of the pod.
    """
    if files is not None and not files:
        raise BadSecret("there is no such Secret in this namespace, or it is empty")
    match store.kind:
        case "S3":
            return _s3(store, files)
        case "OSS":
            return _oss(store, files or {})
        case "ABS":
            return _abs(store, files)
        case "GCS":
            return _gcs(files)
        case _:
            return Access({})


def authorities(files: Mapping[str, str]) -> str:
    """The certificates of a `caSecret`, in PEM and without anything else. Raises BadSecret."""
    if not files.get(CA_FILE, "").strip():
        raise BadSecret(f"it has no key {CA_FILE}, or there is no such Secret in this namespace")
    if not (found := _CERTIFICATE.findall(files[CA_FILE])):
        raise BadSecret(f"key {CA_FILE} holds no certificate in PEM (BEGIN CERTIFICATE)")
    return "\n".join(found) + "\n"


def _s3(store: Store, files: Mapping[str, str] | None) -> Access:
    config = _s3_place(store)
    if store.checksum:
        config["checksum_algorithm"] = store.checksum
    place = _region_in(store.endpoint)
    if files is None:
        return Access(config | ({"region": place} if place else {}))
    secrets = _profile(_required(files, "credentials"), "credentials")
    settings = _profile(files["config"], "config") if files.get("config") else {}
    settings = secrets | settings
    for refused in ("role_arn", "credential_process", "sso_session", "sso_start_url"):
        if refused in settings:
            raise BadSecret(
                f"profile default sets {refused}, which is not supported: set aws_access_key_id "
                "and aws_secret_access_key, or use a ServiceAccount instead of the Secret"
            )
    for name in ("aws_access_key_id", "aws_secret_access_key"):
        if not secrets.get(name):
            raise BadSecret(f"key credentials: its profile default lacks {name}")
    config |= {
        "access_key_id": secrets["aws_access_key_id"],
        "secret_access_key": secrets["aws_secret_access_key"],
        "region": _region(settings.get("region") or place or DEFAULT_REGION),
    }
    if token := secrets.get("aws_session_token"):
        config["session_token"] = token
    return Access(config)


def _region_in(endpoint: str) -> str:
    """The region in an endpoint of AWS itself, where the coreos operator found it too, as without a
    Secret nothing else names it; else empty."""
    found = _AWS_HOST.match(endpoint.partition("://")[2])
    return found["region"] if found else ""


def _region(name: str) -> str:
    if not _REGION.fullmatch(name):
        raise BadSecret("profile default: region must be letters, digits and dashes")
    return name


def _s3_place(store: Store) -> dict[str, Any]:
    """With the bucket in the host name, the client expects it as a part of the endpoint."""
    if not store.endpoint:
        return {"virtual_hosted_style_request": not store.path_style and _fits_host(store.bucket)}
    endpoint = store.endpoint.rstrip("/")
    scheme, _, host = endpoint.partition("://")
    fits = _fits_host(store.bucket if scheme == "https" else store.bucket.replace(".", ""))
    if store.path_style or not fits or _at_address(host):
        return {"endpoint": endpoint, "virtual_hosted_style_request": False}
    return {"endpoint": f"{scheme}://{store.bucket}.{host}", "virtual_hosted_style_request": True}


def _fits_host(bucket: str) -> bool:
    """Whether the bucket can be the first part of a host with TLS, whose certificate is for names
    with one part before its own. Other buckets stay in the path, as with coreos's client."""
    return bool(_LABEL.fullmatch(bucket))


def _at_address(host: str) -> bool:
    """Whether the host is an IP address. It cannot have a bucket as a prefix: the client panics."""
    return is_address(_PORT.sub("", host.partition("/")[0]))


def _oss(store: Store, files: Mapping[str, str]) -> Access:
    """OSS by its S3 interface: the bucket is always in the host name, region names have no `oss-`,
    and deleting several keys in one request is not compatible (it needs Content-MD5).
    """
    host = store.endpoint.partition("://")[2].partition("/")[0]
    region = next((part for part in host.split(".") if part.startswith("oss-")), "oss")
    return Access(
        _s3_place(store)
        | {
            "access_key_id": _required(files, "accessKeyID").strip(),
            "secret_access_key": _required(files, "accessKeySecret").strip(),
            "region": region.removeprefix("oss-").removesuffix("-internal"),
            "disable_bulk_delete": True,
        }
    )


def _abs(store: Store, files: Mapping[str, str] | None) -> Access:
    if files is None:
        return Access({"account_name": store.storage_account})
    account = _required(files, "storage-account").strip()
    if not AZURE_ACCOUNT.fullmatch(account):
        raise BadSecret("key storage-account must be 3 to 24 lower-case letters and digits")
    config: dict[str, Any] = {
        "account_name": account,
        "account_key": _required(files, "storage-key").strip(),
    }
    cloud = files.get("cloud", "").strip()
    if cloud.startswith(("http://", "https://")):
        if why := address_problem(cloud):
            raise BadSecret(f"key cloud {why}")
        config["endpoint"] = cloud.rstrip("/")
    elif (domain := _AZURE_DOMAINS.get(cloud.lower())) is None:
        raise BadSecret(f"key cloud: {cloud[:40]!r} is none of {', '.join(filter(None, _CLOUDS))}")
    elif domain:
        config["endpoint"] = f"https://{account}.{domain}"
    return Access(config)


def _gcs(files: Mapping[str, str] | None) -> Access:
    if files is None:
        return Access({})
    if token := files.get("access-token", "").strip():
        return Access({}, token=token)
    text = files.get("credentials.json", "")
    if not text:
        raise BadSecret("it has neither key access-token nor key credentials.json")
    try:
        given = loads(text)
    except ValueError:
        raise BadSecret("key credentials.json is not JSON") from None
    kind = given.get("type") if isinstance(given, Mapping) else None
    if kind == "service_account":
        if (url := given.get("gcs_base_url")) and (why := address_problem(str(url))):
            raise BadSecret(f"key credentials.json: gcs_base_url {why}")
        return Access({"service_account_key": text})
    raise BadSecret(
        f"key credentials.json has type {str(kind)[:40]!r}, but must have type 'service_account'"
    )


def _required(files: Mapping[str, str], key: str) -> str:
    if not files.get(key, "").strip():
        there = ", ".join(sorted(files)) or "none"
        raise BadSecret(f"key {key} is missing or empty; its keys are: {there[:200]}")
    return files[key]


def _profile(text: str, key: str) -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None, default_section="")
    try:
        parser.read_string(text)
    except (configparser.Error, ValueError):
        # The parser's own message quotes the line, which may be a secret.
        raise BadSecret(
            f"key {key} is not in the format of the AWS command line: [default], then "
            "lines like name = value"
        ) from None
    if not parser.has_section("default"):
        raise BadSecret(f"key {key} has no profile [default]")
    return {name: value.strip() for name, value in parser.items("default")}
