"""A front of the S3 server that authenticates and refuses as Google Cloud Storage does.

Google's XML API, which obstore uses, is otherwise that of S3. So the S3 server of the other tests
is behind it. fake-gcs-server can write through the JSON API only.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote

from aiohttp import web
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from faulty import ERROR, Faulty

from localkube.s3 import S3Server

TOKEN = "a-token-of-google"
ACCOUNT = "backup@project.iam.gserviceaccount.com"
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
REGION = "us-east-1"
UNSIGNED = "UNSIGNED-PAYLOAD"


@dataclass
class Google(Faulty):
    s3: S3Server = field(kw_only=True)
    key: rsa.RSAPrivateKey = field(
        default_factory=lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048)
    )

    @property
    def credentials(self) -> str:
        """`credentials.json` of a service account."""
        form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        pem = self.key.private_bytes(serialization.Encoding.PEM, *form).decode()
        said = {
            "type": "service_account",
            "project_id": "project",
            "private_key_id": "1",
            "private_key": pem,
            "client_email": ACCOUNT,
            "client_id": "1",
            "token_uri": "https://oauth2.googleapis.com/token",
            "gcs_base_url": self.endpoint,
        }
        return json.dumps(said)

    def headers(self, request: web.Request) -> Mapping[str, str] | web.Response:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if given != TOKEN and not self._is_signed(given):
            text = ERROR.format(code="AuthenticationRequired")
            return web.Response(status=401, text=text, content_type="application/xml")
        return signed(self.s3, request)

    def _is_signed(self, token: str) -> bool:
        """Whether a token is signed with this account's key, and is valid now."""
        try:
            said, _, signature = token.rpartition(".")
            claims = json.loads(_decoded(said.partition(".")[2]))
            whole = (padding.PKCS1v15(), hashes.SHA256())
            self.key.public_key().verify(_decoded(signature), said.encode(), *whole)
        except (ValueError, InvalidSignature):
            return False
        in_time = claims["iat"] - 60 <= time.time() < claims["exp"]
        return in_time and (claims["iss"], claims["scope"]) == (ACCOUNT, SCOPE)


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def signed(s3: S3Server, request: web.Request) -> dict[str, str]:
    """The headers of a request with an AWS signature (version 4) instead of Google's token."""
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    host = f"{s3.host}:{s3.port}"
    own = {"host": host, "x-amz-content-sha256": UNSIGNED, "x-amz-date": now}
    url, names = request.rel_url, ";".join(own)
    pairs = sorted(parse_qsl(url.raw_query_string, keep_blank_values=True))
    query = "&".join(
        f"{quote(key, safe='-_.~')}={quote(value, safe='-_.~')}" for key, value in pairs
    )
    path = quote(url.path, safe="/")
    lines = [request.method, path, query, *(f"{key}:{value}" for key, value in own.items())]
    canonical = "\n".join([*lines, "", names, UNSIGNED])
    scope = f"{now[:8]}/{REGION}/s3/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    key = f"AWS4{s3.secret_key}".encode()
    for word in scope.split("/"):
        key = hmac.digest(key, word.encode(), "sha256")
    signature = hmac.digest(key, f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{digest}".encode(), "sha256")
    said = f"Credential={s3.access_key}/{scope}, SignedHeaders={names}, Signature={signature.hex()}"
    kept = {
        name: value
        for name, value in request.headers.items()
        if not name.lower().startswith(("authorization", "host", "x-goog-"))
    }
    return kept | own | {"Authorization": f"AWS4-HMAC-SHA256 {said}"}
