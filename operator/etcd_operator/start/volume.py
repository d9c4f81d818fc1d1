"""Inspects the member's volume and carries out plans on it.

Nothing but a temporary file is ever deleted; what is in the way is moved to `aside-<n>`. Every file
is written under a temporary name, synced and renamed, and its folder is synced, so that a crash
leaves either the old or the new file.
"""

from __future__ import annotations

import io
import os
import stat
from contextlib import suppress
from typing import Final

from etcd_operator.fsync import fsync
from etcd_stateful.start import configuration, marker, wal
from etcd_stateful.start.rules import Plan, VolumeFacts

_SEGMENTS: Final = 8
"""How many WAL segments are read, newest first, to find one that was written."""

_ASIDE: Final = "aside-"


def look(volume: str) -> VolumeFacts:
    """Inspects the volume as it is now. Never raises: an error is one of the facts."""
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
    """Prepares the volume as a ticket says; raises OSError. After a crash at any point, the volume
    waits for another ticket or, with a log to adopt, is as before or adopted."""
    if plan.first is not None:
        _make_room(volume)
    write(volume, marker.FILE, plan.marker)
    write(volume, configuration.FILE, plan.config)
    if plan.first is not None:
        write(os.path.join(volume, configuration.FIRST), configuration.FILE, plan.first)
        _link_log(volume)


def write_config(volume: str, config: bytes) -> None:
    """Writes the configuration; raises OSError. If it is already right, it is not written again: a
    full disk has no room for another."""
    present = read(os.path.join(volume, configuration.FILE), len(config) + 1)
    if present != config:
        write(volume, configuration.FILE, config)


def has_run(volume: str) -> bool:
    """Whether `start` has let a member run on the volume: then it has the configuration that
    `start` writes for etcd. Raises OSError."""
    try:
        os.lstat(os.path.join(volume, configuration.FILE))
    except FileNotFoundError:
        return False
    return True


def write(volume: str, name: str, content: bytes) -> None:
    """Writes a file in the volume's root, atomically and durably; raises OSError."""
    path = os.path.join(volume, name)
    temporary = os.path.join(volume, f".{name}.tmp")
    # A new file: what is there may be a link, or have another name, under which it would change
    # too, or a mode with which etcd cannot read it.
    with suppress(FileNotFoundError):
        os.unlink(temporary)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    file = os.open(temporary, flags, 0o644)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(file, rest) :]
        os.fsync(file)
    finally:
        os.close(file)
    os.rename(temporary, path)
    fsync(volume)


def reason(error: OSError) -> str:
    """The error in words, with its path. What cannot be printed of the path is escaped: callers put
    this into a message or a status, and a line break would begin another line of the log."""
    text = error.strerror or str(error) or type(error).__name__
    path = "".join(map(_printable, str(error.filename or "")))
    return f"{path}: {text}" if path else text


def _printable(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def _check_root(volume: str) -> None:
    """Raises OSError when the volume is not there or cannot be written."""
    if not stat.S_ISDIR(os.stat(volume).st_mode):
        raise NotADirectoryError(20, "Not a directory", volume)
    if os.statvfs(volume).f_flag & os.ST_RDONLY:
        raise OSError(30, "Read-only file system", volume)
    if not os.access(volume, os.R_OK | os.W_OK | os.X_OK):
        raise PermissionError(13, "Permission denied", volume)


def _log_folder(volume: str) -> str:
    """The folder of etcd's log (WAL); empty if there certainly is none.

    A link that is not ours raises OSError: it may lead to data on another volume that is not
    mounted now.
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
    """Empty, as etcd never writes through the link. Raises OSError if something did."""
    if _entries(link):
        raise OSError(39, "Directory not empty", link)
    return ""


def _is_our_link(log: str) -> bool:
    return os.path.islink(log) and os.readlink(log) == configuration.LINK


def _log_names(folder: str) -> list[str]:
    """The log's segments, newest first: their names begin with a sequence number. If there are
    none, other files that etcd would still take for a log."""
    names = [name for name in _entries(folder) if name.endswith(wal.SUFFIX)]
    return sorted(filter(wal.is_segment, names), reverse=True) or sorted(names)


def _entries(folder: str) -> set[str]:
    """The names in a folder; empty if it does not exist."""
    try:
        return set(os.listdir(folder))
    except FileNotFoundError:
        return set()


def _head(segment: str) -> bytes:
    """The first bytes of a segment. Raises OSError, also if it was deleted after it was listed:
    it would look as if it was never written, and something else must be changing this log."""
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
    except OSError as error:  # a failed read does not name the path
        raise OSError(error.errno, error.strerror, path) from error
    return content


def _open_at_once(path: str, flags: int) -> int:
    """Opens without blocking: to open a pipe could wait for ever."""
    return os.open(path, flags | os.O_NONBLOCK)


def _has_leftovers(volume: str) -> bool:
    """Whether the data directory holds anything but what a ticket puts there."""
    member = os.path.join(volume, "data", "member")
    beside = (_entries(os.path.join(volume, "data")) - {"member"}) | (_entries(member) - {"wal"})
    log = os.path.join(member, "wal")
    return bool(beside) or (os.path.lexists(log) and not _is_our_link(log))


def _make_room(volume: str) -> None:
    """Makes empty folders for the data and for a first start."""
    if _has_leftovers(volume):
        move_aside(volume, "data")
    log = configuration.FIRST_LOG
    if _leads_elsewhere(volume, log) or _entries(os.path.join(volume, log)):
        move_aside(volume, configuration.FIRST)
    _make_folders(volume, log)
    _make_folders(volume, "data/member")


def _leads_elsewhere(volume: str, path: str) -> bool:
    """Whether a part of the path is a link, through which a ticket would be written."""
    folder = volume
    for name in path.split("/"):
        folder = os.path.join(folder, name)
        if os.path.islink(folder):
            return True
    return False


def move_aside(volume: str, name: str) -> None:
    """Renames a folder in the volume's root to the next free `aside-<n>`; raises OSError."""
    taken = [name[len(_ASIDE) :] for name in os.listdir(volume) if name.startswith(_ASIDE)]
    number = max((int(text) for text in taken if text.isascii() and text.isdigit()), default=0)
    os.rename(os.path.join(volume, name), os.path.join(volume, f"{_ASIDE}{number + 1}"))
    fsync(volume)


def _make_folders(volume: str, path: str) -> None:
    folder = volume
    for name in path.split("/"):
        parent, folder = folder, os.path.join(folder, name)
        with suppress(FileExistsError):  # by a run that may have died before the sync
            os.mkdir(folder, 0o700)
        fsync(parent)


def _link_log(volume: str) -> None:
    """Links the path of the log to the empty log of a first start: the last step of a ticket."""
    member = os.path.join(volume, "data", "member")
    with suppress(FileExistsError):  # from an earlier ticket: anything else was moved aside
        os.symlink(configuration.LINK, os.path.join(member, "wal"))
    fsync(member)
