"""A real S3 server, versitygw on a folder, for the tests that store backups."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from localkube.server import Server, free_port

__all__ = ["S3Server", "free_port"]


@dataclass
class S3Server(Server):
    """Buckets are folders below `folder`. Listens on all addresses, so that pods reach it too."""

    access_key: str = "TESTACCESSKEY"
    secret_key: str = "test-secret-key"
    region: str = "us-east-1"
    domain: str = ""
    """Where buckets are names below a domain."""
    certificate: tuple[Path, Path] | None = None
    """It and its key; none: plain HTTP."""

    @property
    def endpoint(self) -> str:
        scheme = "https" if self.certificate else "http"
        return f"{scheme}://{self.host}:{self.port}"

    @property
    def secret(self) -> dict[str, str]:
        """coreos's Secret for it."""
        lines = (
            f"aws_access_key_id = {self.access_key}",
            f"aws_secret_access_key = {self.secret_key}",
        )
        config = f"[default]\nregion = {self.region}\n"
        return {"credentials": "\n".join(("[default]", *lines)) + "\n", "config": config}

    @property
    def command(self) -> tuple[str, ...]:
        # Attributes of files are kept beside them: not every file system has them.
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
