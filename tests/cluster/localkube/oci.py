"""Writes container images as archives in OCI layout, reproducibly."""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"


def write_layer(layer: Path, content: Mapping[str, Path], *, as_is: bool = False) -> None:
    """A layer with these files and folders. They belong to root and have no times, unless as is."""
    with _tar(layer) as tar:
        for place, source in sorted(content.items()):
            for parent in () if as_is else reversed(Path(place).parents[:-1]):
                tar.addfile(_folder(str(parent)))
            tar.add(source, arcname=place, filter=None if as_is else _undated)


def write_archive(
    archive: Path, names: Sequence[str], layers: Sequence[Path], config: Mapping[str, Any]
) -> None:
    """One image, which has each of the names after `ctr images import`."""
    image = _json(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": config,
            "history": [{"created_by": "localkube"} for _ in layers],
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer) for layer in layers]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": _descriptor(CONFIG, image),
            "layers": [_descriptor(LAYER, layer) for layer in layers],
        }
    )
    index = _json(
        {
            "schemaVersion": 2,
            "mediaType": INDEX,
            "manifests": [_named(_descriptor(MANIFEST, manifest), name) for name in names],
        }
    )
    with _tar(archive) as tar:
        _add(tar, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(tar, "index.json", index)
        blobs: list[Blob] = [manifest, image, *layers]
        for blob in dict.fromkeys(blobs):
            _add(tar, f"blobs/{_digest(blob).replace(':', '/')}", blob)


Blob = bytes | Path


def _named(descriptor: dict[str, Any], name: str) -> dict[str, Any]:
    return {**descriptor, "annotations": {"io.containerd.image.name": name}}


def _descriptor(media_type: str, blob: Blob) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(blob), "size": _size(blob)}


def _digest(blob: Blob) -> str:
    if isinstance(blob, bytes):
        return f"sha256:{hashlib.sha256(blob).hexdigest()}"
    with blob.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def _size(blob: Blob) -> int:
    return len(blob) if isinstance(blob, bytes) else blob.stat().st_size


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _tar(path: Path) -> tarfile.TarFile:
    return tarfile.open(path, mode="w", format=tarfile.PAX_FORMAT)


def _add(tar: tarfile.TarFile, name: str, blob: Blob) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = _size(blob), 0o644
    with io.BytesIO(blob) if isinstance(blob, bytes) else blob.open("rb") as file:
        tar.addfile(entry, file)


def _folder(name: str) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, 0o755
    return entry


def _undated(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = 0, 0, 0, "", ""
    entry.mode = 0o755 if entry.mode & 0o100 else 0o644
    return entry
