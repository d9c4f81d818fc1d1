"""A cache of folders outside of the checkout, each made once per key."""

import fcntl
import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from localkube.paths import CACHE
from localkube.shell import say, step


def cached(name: str, parts: Iterable[str | bytes], make: Callable[[Path], None]) -> Path:
    """The folder that `make` has filled for these parts. A half-made folder is never visible."""
    folder = CACHE / f"{name}-{key(parts)}"
    if not folder.exists():
        unfinished = folder.with_name(f"{folder.name}.new")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        with step(f"make {name}"):
            make(unfinished)
        unfinished.rename(folder)
    return folder


@contextmanager
def alone(name: str = "lock") -> Iterator[None]:
    """Lets one run at a time use the machine, as all checkouts share the cache and the cluster.

    Args:
        name: of the lock. The tests have one of their own, within which they call make.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / name).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another run, which holds {lock.name}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def key(parts: Iterable[str | bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8) + data)
    return digest.hexdigest()[:12]


def contents(folder: Path) -> list[str | bytes]:
    """Names and bytes of all files below the folder, as parts of a key."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [part for path in files for part in (str(path.relative_to(folder)), path.read_bytes())]
