"""Ways to damage a backup in a store. A restore must refuse each of them."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass

HASH = 32


@dataclass(frozen=True)
class Damaged:
    kind: str
    file: bytes
    manifest: bytes | None


def damages(
    file: bytes, manifest: bytes, other: bytes, database: bytes, chance: random.Random
) -> list[Damaged]:
    """
    Args:
        other: another complete snapshot.
        database: the database file of a member, which is not a snapshot.
    """
    flipped = bytearray(file)
    bit = chance.randrange(8 * len(file))
    flipped[bit // 8] ^= 1 << bit % 8
    files = {
        "truncated": file[: chance.randrange(len(file))],
        "one sector short": file[:-512],
        "bit flipped": bytes(flipped),
        "wrong hash": file[:-HASH] + chance.randbytes(HASH),
        "without the hash": file[:-HASH],
        "with more behind it": file + chance.randbytes(chance.randrange(1, 2000)),
        "a member's database": database,
        "no snapshot": chance.randbytes(chance.randrange(1, 50_000)),
        "empty": b"",
    }
    said = json.loads(manifest)
    manifests = {
        "manifest of another hash": said | {"sha256": chance.randbytes(32).hex()},
        "manifest of another size": said | {"size": said["size"] + 1},
    }
    return [
        *(Damaged(kind, content, manifest) for kind, content in files.items()),
        *(Damaged(f"{kind}, no manifest", content, None) for kind, content in files.items()),
        Damaged("another snapshot", other, manifest),
        Damaged("manifest cut short", file, manifest[: chance.randrange(1, len(manifest) - 1)]),
        *(Damaged(kind, file, json.dumps(one).encode()) for kind, one in manifests.items()),
    ]
