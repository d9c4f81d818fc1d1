"""The volume: looks at it and carries out plans on it.

Nothing is ever deleted; what is in the way moves to `aside-<n>`. Every file is written beside its
place, synced, renamed and its folder synced, so that a crash leaves the old or the new one.
"""

from __future__ import annotations

import io
import os
import stat
from contextlib import suppress
from typing import Final

from etcd_stateful.start import configuration, marker, wal
from etcd_stateful.start.rules import Plan, VolumeFacts

_SEGMENTS: Final = 8
"""Segments that are looked at: only those that were never written are skipped."""

_ASIDE: Final = "aside-"


def look(volume: str) -> VolumeFacts:
    """The volume as it is now. Never raises: what went wrong is one of the facts."""
    try:
        _check_root(volume)
        marked = read(os.path.join(volume, marker.FILE), marker.MAX_BYTES + 1)
        folder = _log_folder(volume)
        names = _log_names(folder) if folder else []
        heads = [_head(os.path.join(folder, name)) for name in names[:_SEGMENTS]]
        leftovers = not names and _has_leftovers(volume)
        return VolumeFacts(heads=tuple(heads), leftovers=leftovers, marker=marked)
    except OSError as error:
        return VolumeFacts(problem=reason(error))


def carry_out(volume: str, plan: Plan) -> None:
    """Make the volume what a ticket says; raises OSError. A crash anywhere leaves a volume that
    waits for another ticket, or, with a log to adopt, one that is as before or adopted."""
    if plan.first is not None:
        _make_room(volume)
    write(volume, marker.FILE, plan.marker)
    write(volume, configuration.FILE, plan.config)
    if plan.first is not None:
        write(os.path.join(volume, configuration.FIRST), configuration.FILE, plan.first)
        _link_log(volume)


def write_config(volume: str, config: bytes) -> None:
    """Replace the configuration; raises OSError. One that is right already is left alone: on a
    full disk there is no room for another."""
    present = read(os.path.join(volume, configuration.FILE), len(config) + 1)
    if present != config:
        write(volume, configuration.FILE, config)


def has_run(volume: str) -> bool:
    """Whether `start` has let a member run on it, by what it leaves for the member's etcd; raises
    OSError."""
    try:
        os.lstat(os.path.join(volume, configuration.FILE))
    except FileNotFoundError:
        return False
    return True


def write(volume: str, name: str, content: bytes) -> None:
    """Put a file in the volume's root, atomically and durably; raises OSError."""
    path = os.path.join(volume, name)
    temporary = os.path.join(volume, f".{name}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(temporary, flags, 0o644)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(file, rest) :]
        os.fsync(file)
    finally:
        os.close(file)
    os.rename(temporary, path)
    sync(volume)


def sync(folder: str) -> None:
    """What was made, renamed or removed in a folder, for good; raises OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def reason(error: OSError) -> str:
    """An error in words, with the path that it is about: in letters, whatever bytes it has. Others
    write it on, into a message or a status."""
    text = error.strerror or str(error) or type(error).__name__
    path = str(error.filename or "").encode(errors="backslashreplace").decode()
    return f"{path}: {text}" if path else text


def _check_root(volume: str) -> None:
    """Raises OSError when the volume is not there or cannot be written."""
    if not stat.S_ISDIR(os.stat(volume).st_mode):
        raise NotADirectoryError(20, "Not a directory", volume)
    if os.statvfs(volume).f_flag & os.ST_RDONLY:
        raise OSError(30, "Read-only file system", volume)
    if not os.access(volume, os.R_OK | os.W_OK | os.X_OK):
        raise PermissionError(13, "Permission denied", volume)


def _log_folder(volume: str) -> str:
    """The log's folder, or nothing when there is none.

    Absent means absent without doubt: a link that is not ours may lead to data on another volume
    that is not mounted now.
    """
    folder = volume
    for name in ("data", "member", "wal"):
        folder = os.path.join(folder, name)
        try:
            mode = os.lstat(folder).st_mode
        except FileNotFoundError:
            return ""
        if name == "wal" and _is_our_link(folder):
            return _nothing_behind(folder)
        if not stat.S_ISDIR(mode):
            raise NotADirectoryError(20, "Not a directory", folder)
    return folder


def _nothing_behind(link: str) -> str:
    """etcd never writes through the link; raises OSError when somebody did."""
    if _entries(link):
        raise OSError(39, "Directory not empty", link)
    return ""


def _is_our_link(log: str) -> bool:
    return os.path.islink(log) and os.readlink(log) == configuration.LINK


def _log_names(folder: str) -> list[str]:
    """The log's segments, newest first: their names begin with a sequence number. Where there is
    none, what etcd would take for a log all the same."""
    names = [name for name in _entries(folder) if name.endswith(wal.SUFFIX)]
    return sorted(filter(wal.is_segment, names), reverse=True) or sorted(names)


def _entries(folder: str) -> set[str]:
    """What is in a folder; nothing when it is not there."""
    try:
        return set(os.listdir(folder))
    except FileNotFoundError:
        return set()


def _head(segment: str) -> bytes:
    """The first bytes of a segment; raises OSError, also when it went since it was listed: that
    would look like one that was never written, and somebody else is at work here."""
    head = read(segment, wal.HEAD)
    if head is None:
        raise FileNotFoundError(2, "No such file or directory", segment)
    return head


def read(path: str, limit: int) -> bytes | None:
    """At most `limit` bytes of a file, None when it is not there; raises OSError."""
    try:
        with open(path, "rb", buffering=0, opener=_open_at_once) as file:
            return _content(file, path, limit)
    except FileNotFoundError:
        return None


def _content(file: io.FileIO, path: str, limit: int) -> bytes:
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        raise OSError(22, "Not a regular file", path)
    content = b""
    try:
        while piece := file.read(limit - len(content)):
            content += piece
    except OSError as error:  # does not say what was read
        raise OSError(error.errno, error.strerror, path) from error
    return content


def _open_at_once(path: str, flags: int) -> int:
    """Without blocking: opening a pipe would wait for ever."""
    return os.open(path, flags | os.O_NONBLOCK)


def _has_leftovers(volume: str) -> bool:
    """Whether the data directory holds anything but what a ticket puts there."""
    member = os.path.join(volume, "data", "member")
    beside = (_entries(os.path.join(volume, "data")) - {"member"}) | (_entries(member) - {"wal"})
    log = os.path.join(member, "wal")
    return bool(beside) or (os.path.lexists(log) and not _is_our_link(log))


def _make_room(volume: str) -> None:
    """Folders for data and for a first start, both without anything in them."""
    if _has_leftovers(volume):
        _move_aside(volume, "data")
    if _entries(os.path.join(volume, configuration.FIRST_LOG)):
        _move_aside(volume, configuration.FIRST)
    _make_folders(volume, configuration.FIRST_LOG)
    _make_folders(volume, "data/member")


def _move_aside(volume: str, name: str) -> None:
    taken = [name[len(_ASIDE) :] for name in os.listdir(volume) if name.startswith(_ASIDE)]
    number = max((int(text) for text in taken if text.isascii() and text.isdigit()), default=0)
    os.rename(os.path.join(volume, name), os.path.join(volume, f"{_ASIDE}{number + 1}"))
    sync(volume)


def _make_folders(volume: str, path: str) -> None:
    folder = volume
    for name in path.split("/"):
        parent, folder = folder, os.path.join(folder, name)
        with suppress(FileExistsError):  # by a run that may have died before it was synced
            os.mkdir(folder, 0o700)
        sync(parent)


def _link_log(volume: str) -> None:
    """Lead the path of the configuration to that of the first start: the last step of a ticket."""
    member = os.path.join(volume, "data", "member")
    with suppress(FileExistsError):  # of an earlier ticket: anything else was moved aside
        os.symlink(configuration.LINK, os.path.join(member, "wal"))
    sync(member)
