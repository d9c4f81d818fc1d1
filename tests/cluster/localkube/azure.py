"""Azurite, a server of Azure Blob Storage, on a folder. It checks signatures."""

from dataclasses import dataclass

from localkube.server import Server


@dataclass
class AzureServer(Server):
    account: str = "testaccount"
    key: str = "dGhlIGtleSBvZiBhIHRlc3QncyBzdG9yYWdlIGFjY291bnQ="

    @property
    def secret(self) -> dict[str, str]:
        """The Secret for it, with the coreos operator's keys."""
        return {
            "storage-account": self.account,
            "storage-key": self.key,
            "cloud": f"{self.endpoint}/{self.account}",
        }

    @property
    def command(self) -> tuple[str, ...]:
        place = ("--blobHost", self.host, "--blobPort", str(self.port))
        # The client announces a newer API version than the server's, but uses nothing of it.
        quiet = ("--silent", "--disableTelemetry", "--skipApiVersionCheck")
        return ("azurite-blob", *place, "--location", str(self.folder / "data"), *quiet)

    @property
    def environment(self) -> dict[str, str]:
        return {"AZURITE_ACCOUNTS": f"{self.account}:{self.key}"}
