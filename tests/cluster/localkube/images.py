"""The images of the cluster: pause, and etcd as upstream ships it, with binaries only."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localkube import binaries
from localkube.cache import cached
from localkube.oci import write_archive, write_layer
from localkube.paths import CONFIG
from localkube.shell import run
from localkube.versions import etcd_versions

ETCD_NAMES = ("gcr.io/etcd-development/etcd", "quay.io/coreos/etcd")


@dataclass(frozen=True)
class Image:
    names: tuple[str, ...]
    archive: Path


def cluster_images() -> list[Image]:
    return [pause(), *etcd_images()]


def etcd_images() -> list[Image]:
    return [etcd(version) for version in etcd_versions()]


def pause() -> Image:
    source = CONFIG / "pause.c"
    names = ("localhost/pause:1",)

    def make(out: Path) -> None:
        run("gcc", "-Os", "-static", "-s", "-o", out / "pause", source)
        config = {"Entrypoint": ["/pause"], "User": "65535:65535"}
        _write(out, names, {"pause": out / "pause"}, config)

    return Image(names, cached("image-pause", [source.read_bytes()], make) / "image.tar")


def etcd(version: str) -> Image:
    names = tuple(f"{name}:v{version}" for name in ETCD_NAMES)
    programs = binaries.etcd(version)

    def make(out: Path) -> None:
        files = {
            f"usr/local/bin/{name}": programs / name for name in ("etcd", "etcdctl", "etcdutl")
        }
        config = {
            "Cmd": ["/usr/local/bin/etcd"],
            "Env": ["PATH=/usr/local/bin"],
            "ExposedPorts": {"2379/tcp": {}, "2380/tcp": {}},
        }
        _write(out, names, files, config)

    return Image(names, cached(f"image-etcd-v{version}", [programs.name], make) / "image.tar")


def _write(
    out: Path, names: tuple[str, ...], files: dict[str, Path], config: dict[str, Any]
) -> None:
    write_layer(out / "layer.tar", files)
    write_archive(out / "image.tar", names, [out / "layer.tar"], config)
    (out / "layer.tar").unlink()
