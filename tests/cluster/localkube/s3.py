"""versitygw, a real S3 server on a folder, for tests that store backups."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from localkube.addresses import in_url
from localkube.server import Server, free_port

__all__ = ["S3Server", "free_port"]


@dataclass
class S3Server(Server):
    """Buckets are folders below `folder`. It listens on all addresses, so that pods reach it."""

    access_key: str = "TESTACCESSKEY"
    secret_key: str = "test-secret-key"
    region: str = "us-east-1"
    domain: str = ""
    """The domain of virtual-hosted buckets; empty for path-style only."""
    certificate: tuple[Path, Path] | None = None
    """Certificate and key; None for plain HTTP."""

    @property
    def endpoint(self) -> str:
        scheme = "https" if self.certificate else "http"
        return f"{scheme}://{in_url(self.host)}:{self.port}"

    @property
    def secret(self) -> dict[str, str]:
        """The Secret for it, with the coreos operator's keys."""
        lines = (
            f"aws_access_key_id = {self.access_key}",
            f"aws_secret_access_key = {self.secret_key}",
        )
        config = f"[default]\nregion = {self.region}\n"
        return {"credentials": "\n".join(("[default]", *lines)) + "\n", "config": config}

    @property
    def command(self) -> tuple[str, ...]:
        # Attributes are stored in files, as not every file system has extended attributes.
        backend = ("posix", "--sidecar", str(self.folder / "meta"), str(self.folder / "data"))
        place = ("--port", f":{self.port}", "--region", self.region)
        names = ("--virtual-domain", self.domain) if self.domain else ()
        shown = self.certificate
        tls = ("--cert", str(shown[0]), "--key", str(shown[1])) if shown else ()
        return ("versitygw", "--quiet", *place, *names, *tls, *backend)

    @property
    def environment(self) -> dict[str, str]:
        return {"ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key}

    def start(self) -> Self:
        (self.folder / "meta").mkdir(parents=True, exist_ok=True)
        return super().start()

    def bucket(self, name: str) -> Path:
        folder = self.folder / "data" / name
        folder.mkdir(exist_ok=True)
        return folder
