"""The volume on a real file system: what is found, and what a crash at any point leaves behind."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from start_helpers import (
    CHALLENGE,
    FIRST_SEGMENT,
    LATER_SEGMENT,
    MARKER,
    SETTINGS,
    TICKET,
)

from etcd_operator.start import volume
from etcd_stateful.start import configuration, marker, rules, wal
from etcd_stateful.start.configuration import run_config

MARKED = marker.serialise(MARKER)
FIRST_NAME = "0000000000000000-0000000000000000.wal"
LATER_NAME = "0000000000000001-0000000000000045.wal"
SYSCALLS = ("mkdir", "open", "write", "fsync", "rename", "symlink")
EMPTIED = {"data/member/wal": b"", "first/data/member/wal": b""}
"""The log's folder before there is one, and what it leads to."""


def plan(state: Any, root: Path) -> rules.Plan:
    decision = rules.accept(
        SETTINGS, volume.look(str(root)), CHALLENGE, replace(TICKET, state=state)
    )
    assert isinstance(decision, rules.Plan)
    return decision


def verdict(root: Path) -> rules.Run | rules.Wait:
    return rules.inspect(SETTINGS, volume.look(str(root)))


def found(root: Path) -> str:
    seen = verdict(root)
    assert isinstance(seen, rules.Wait)
    return seen.finding.found


def put_log(root: Path, **segments: bytes) -> Path:
    folder = root / "data/member/wal"
    folder.mkdir(parents=True)
    for name, head in (segments or {FIRST_NAME: FIRST_SEGMENT}).items():
        (folder / name).write_bytes(head + bytes(10_000))
    return folder


def files(root: Path) -> dict[str, bytes]:
    """Every file on the volume; an empty folder is listed as an empty file."""
    seen = {}
    for path in root.rglob("*"):
        if path.is_file():
            seen[str(path.relative_to(root))] = path.read_bytes()
        elif not any(path.iterdir()):
            seen[str(path.relative_to(root))] = b""
    return seen


def test_a_new_volume_has_no_data(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    assert volume.look(str(tmp_path)) == rules.VolumeFacts()


def test_a_volume_with_data_is_recognised(tmp_path: Path) -> None:
    put_log(tmp_path, **{FIRST_NAME: FIRST_SEGMENT, LATER_NAME: LATER_SEGMENT, "0.tmp": b"x"})
    (tmp_path / marker.FILE).write_bytes(MARKED)
    facts = volume.look(str(tmp_path))
    assert facts.problem == ""
    assert not facts.leftovers
    assert facts.marker == MARKED
    assert [len(head) for head in facts.heads] == [wal.HEAD] * 2
    assert [head[:64] for head in facts.heads] == [LATER_SEGMENT, FIRST_SEGMENT[:64]]
    assert isinstance(verdict(tmp_path), rules.Run)


@pytest.mark.parametrize("name", ["old.wal", "f" * 16 + ".wal", "g" * 16 + "-" + "0" * 16 + ".wal"])
def test_a_file_that_etcd_ignores_cost_a_member_its_place(tmp_path: Path, name: str) -> None:
    """Its name sorted first, so the log counted as damaged, and the claim was deleted."""
    put_log(tmp_path, **{FIRST_NAME: FIRST_SEGMENT, name: b"noise"})
    (tmp_path / marker.FILE).write_bytes(MARKED)
    assert isinstance(verdict(tmp_path), rules.Run)


def test_a_wal_folder_with_only_an_unknown_file_is_damaged(tmp_path: Path) -> None:
    put_log(tmp_path, **{"old.wal": b"noise"})
    (tmp_path / marker.FILE).write_bytes(MARKED)
    assert found(tmp_path) == "damaged"


def test_only_the_newest_segments_are_read(tmp_path: Path) -> None:
    put_log(tmp_path, **{f"{number:016x}-{0:016x}.wal": FIRST_SEGMENT for number in range(50)})
    assert len(volume.look(str(tmp_path)).heads) == 8


@pytest.mark.parametrize(
    "path",
    [
        "data/member/snap/db",
        "data/member/wal/0.tmp",
        "data/member/wal.tmp/x.wal",
        "data/member/wal/deeper/0.tmp",
        "data/other",
        "data/member/x.wal",
    ],
)
def test_remains_are_no_wal(tmp_path: Path, path: str) -> None:
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_bytes(b"x")
    facts = volume.look(str(tmp_path))
    assert facts == rules.VolumeFacts(leftovers=True)


@pytest.mark.parametrize("path", ["data", "data/member", "first", "first/data/member/wal"])
def test_the_folders_of_an_unused_ticket_do_not_count_as_data(tmp_path: Path, path: str) -> None:
    (tmp_path / path).mkdir(parents=True)
    assert volume.look(str(tmp_path)) == rules.VolumeFacts()


def test_a_folder_without_a_wal_does_not_count_as_data(tmp_path: Path) -> None:
    """Somebody removed the log's files: etcd itself never leaves such a folder."""
    (tmp_path / "data/member/wal").mkdir(parents=True)
    assert volume.look(str(tmp_path)) == rules.VolumeFacts(leftovers=True)


@pytest.mark.parametrize("left", ["", "first", "first/data", "first/data/member/wal"])
def test_our_own_link_does_not_count_as_data(tmp_path: Path, left: str) -> None:
    (tmp_path / left).mkdir(parents=True, exist_ok=True)
    (tmp_path / "data/member").mkdir(parents=True)
    (tmp_path / "data/member/wal").symlink_to(configuration.LINK)
    assert volume.look(str(tmp_path)) == rules.VolumeFacts()


def test_a_wal_behind_our_link_is_unreadable(tmp_path: Path) -> None:
    volume.carry_out(str(tmp_path), plan("new", tmp_path))
    (tmp_path / "first/data/member/wal" / FIRST_NAME).write_bytes(FIRST_SEGMENT)
    assert found(tmp_path) == "unreadable"
    assert "Directory not empty" in volume.look(str(tmp_path)).problem


def test_a_folder_at_the_target_of_the_link_is_moved_aside(tmp_path: Path) -> None:
    (tmp_path / "first/data/member/wal").mkdir(parents=True)
    (tmp_path / "first/data/member/wal" / FIRST_NAME).write_bytes(FIRST_SEGMENT)
    volume.carry_out(str(tmp_path), plan("new", tmp_path))
    assert (tmp_path / "aside-1/data/member/wal" / FIRST_NAME).read_bytes() == FIRST_SEGMENT
    assert volume.look(str(tmp_path)) == rules.VolumeFacts(marker=MARKED)


def test_the_path_leads_to_the_ticket_s_configuration_until_there_is_a_wal(
    tmp_path: Path,
) -> None:
    decided = plan("new", tmp_path)
    volume.carry_out(str(tmp_path), decided)
    path = f"{tmp_path}/data/member/wal/../../../etcd.yaml"
    assert Path(path).read_bytes() == decided.first
    # This is how etcd creates its log: wal.renameWAL.
    (tmp_path / "data/member/wal.tmp").mkdir()
    (tmp_path / "data/member/wal").unlink()
    assert not os.path.exists(path)
    (tmp_path / "data/member/wal.tmp").rename(tmp_path / "data/member/wal")
    assert Path(path).read_bytes() == decided.config
    for gone in ("data/member/wal", "data/member", "data"):
        (tmp_path / gone).rmdir()
        assert not os.path.exists(path)


@pytest.mark.parametrize("path", ["data", "data/member", "data/member/wal"])
@pytest.mark.parametrize("kind", ["file", "link", "dangling"])
def test_a_file_in_place_of_a_folder_may_hide_data(tmp_path: Path, path: str, kind: str) -> None:
    """A link without a target now may lead to the data once another volume is mounted."""
    root = tmp_path / "volume"
    place = root / path
    place.parent.mkdir(parents=True)
    if kind == "file":
        place.write_bytes(b"")
    else:
        place.symlink_to(tmp_path if kind == "link" else tmp_path / "absent")
    assert found(root) == "unreadable"
    assert path in volume.look(str(root)).problem


def test_a_missing_volume_is_a_problem(tmp_path: Path) -> None:
    assert "No such file" in volume.look(str(tmp_path / "absent")).problem
    (tmp_path / "file").write_bytes(b"")
    assert "Not a directory" in volume.look(str(tmp_path / "file")).problem


def test_a_read_only_volume_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs(tmp_path)
    fields = list(real)
    fields[8] |= os.ST_RDONLY
    monkeypatch.setattr(os, "statvfs", lambda _path: os.statvfs_result(fields))
    assert found(tmp_path) == "unreadable"
    assert "Read-only" in volume.look(str(tmp_path)).problem


def test_a_volume_without_write_permission_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    assert "Permission denied" in volume.look(str(tmp_path)).problem


@pytest.mark.parametrize("call", ["lstat", "listdir", "open"])
@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO, errno.ESTALE, errno.ENOTDIR])
def test_an_error_is_never_taken_for_an_empty_volume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    put_log(tmp_path)
    real: Callable[..., Any] = getattr(os, call)

    def fail(path: Any, *args: Any, **kwargs: Any) -> Any:
        if "wal" in str(path):
            raise OSError(code, os.strerror(code), str(path))
        return real(path, *args, **kwargs)

    monkeypatch.setattr(os, call, fail)
    assert found(tmp_path) == "unreadable"
    assert os.strerror(code) in volume.look(str(tmp_path)).problem


def test_a_segment_that_vanishes_during_the_look_makes_the_volume_unreadable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_log(tmp_path)
    real = os.listdir

    def listed(path: str) -> list[str]:
        return [*real(path), "ffffffffffffffff-0000000000000000.wal"]

    monkeypatch.setattr(os, "listdir", listed)
    assert found(tmp_path) == "unreadable"
    assert "No such file" in volume.look(str(tmp_path)).problem


def test_an_unreadable_marker_is_a_problem(tmp_path: Path) -> None:
    put_log(tmp_path)
    (tmp_path / marker.FILE).mkdir()
    assert found(tmp_path) == "unreadable"


@pytest.mark.parametrize("name", [marker.FILE, f"data/member/wal/{LATER_NAME}"])
def test_a_pipe_does_not_block(tmp_path: Path, name: str) -> None:
    put_log(tmp_path)
    os.mkfifo(tmp_path / name)
    assert "Not a regular file" in volume.look(str(tmp_path)).problem


def test_a_file_that_fails_to_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_log(tmp_path)

    class Broken:
        def fileno(self) -> int:
            return os.open(tmp_path / "data/member/wal" / FIRST_NAME, os.O_RDONLY)

        def read(self, _size: int) -> bytes:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        def __enter__(self) -> Broken:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    def opens(path: str, *_args: Any, **_kwargs: Any) -> Broken:
        if path.endswith(".wal"):
            return Broken()
        raise FileNotFoundError(path)

    monkeypatch.setattr("builtins.open", opens)
    assert volume.look(str(tmp_path)).problem.endswith(f"{FIRST_NAME}: Input/output error")


def test_a_large_marker_is_read_only_in_part(tmp_path: Path) -> None:
    put_log(tmp_path)
    (tmp_path / marker.FILE).write_bytes(b" " * 1_000_000)
    facts = volume.look(str(tmp_path))
    assert facts.marker is not None
    assert len(facts.marker) == marker.MAX_BYTES + 1
    assert found(tmp_path) == "foreign-data"


@pytest.mark.parametrize("state", ["new", "existing"])
def test_a_ticket_is_carried_out_on_a_new_volume(tmp_path: Path, state: str) -> None:
    decided = plan(state, tmp_path)
    volume.carry_out(str(tmp_path), decided)
    assert files(tmp_path) == EMPTIED | {
        marker.FILE: MARKED,
        "etcd.yaml": decided.config,
        "first/etcd.yaml": decided.first,
    }
    for folder in ("data", "data/member", "data/member/wal"):
        assert (tmp_path / folder).stat().st_mode & 0o777 == 0o700
    # etcd has no log yet, so a restarted pod would wait for another ticket.
    assert volume.look(str(tmp_path)) == rules.VolumeFacts(marker=MARKED)


def test_remains_are_moved_aside_and_nothing_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"kept")
    for number in (1, 2, 3):
        snap = tmp_path / "data/member/snap"
        snap.mkdir(parents=True, exist_ok=True)
        (snap / "db").write_bytes(f"of try {number}".encode())
        volume.carry_out(str(tmp_path), plan("existing", tmp_path))
        assert not volume.look(str(tmp_path)).leftovers
    seen = files(tmp_path)
    assert seen["other"] == b"kept"
    for number in (1, 2, 3):
        assert seen[f"aside-{number}/member/snap/db"] == f"of try {number}".encode()
    assert seen.items() >= EMPTIED.items()


def test_folders_of_an_unused_ticket_are_reused(tmp_path: Path) -> None:
    for _ in range(3):
        volume.carry_out(str(tmp_path), plan("new", tmp_path))
    assert not list(tmp_path.glob("aside-*"))


def test_folders_moved_aside_are_never_overwritten(tmp_path: Path) -> None:
    for name in ("aside-7", "aside-x", "aside-", "aside-08"):
        (tmp_path / name).mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data/left").write_bytes(b"x")
    volume.carry_out(str(tmp_path), plan("new", tmp_path))
    assert (tmp_path / "aside-9/left").read_bytes() == b"x"


def test_adoption_moves_nothing(tmp_path: Path) -> None:
    put_log(tmp_path)
    (tmp_path / "data/member/snap").mkdir()
    (tmp_path / "data/member/snap/db").write_bytes(b"x")
    (tmp_path / marker.FILE).write_bytes(marker.serialise(replace(MARKER, cluster_uid="old")))
    before = files(tmp_path)
    volume.carry_out(str(tmp_path), plan("adopt", tmp_path))
    config = run_config(SETTINGS)
    assert files(tmp_path) == before | {marker.FILE: MARKED, "etcd.yaml": config}
    assert isinstance(verdict(tmp_path), rules.Run)


class Crash(BaseException):
    """The end of the process, just before a system call."""


def crash_at(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Crashes at the n-th system call that changes something."""
    calls: list[str] = []

    def wrap(name: str) -> None:
        real: Callable[..., Any] = getattr(os, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            calls.append(name)
            if len(calls) == number:
                raise Crash
            return real(*args, **kwargs)

        monkeypatch.setattr(os, name, call)

    for name in SYSCALLS:
        wrap(name)


@pytest.mark.parametrize("state", ["new", "existing"])
def test_a_crash_while_a_ticket_is_carried_out_leaves_no_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """Before every system call: the volume waits for another ticket, which then works."""
    for number in range(1, 100):
        root = tmp_path / str(number)
        (root / "data/member/snap").mkdir(parents=True)
        (root / "data/member/snap/db").write_bytes(b"left")
        (root / marker.FILE).write_bytes(marker.serialise(replace(MARKER, member_id=1)))
        decided = plan(state, root)
        with monkeypatch.context() as patch:
            crash_at(patch, number)
            try:
                volume.carry_out(str(root), decided)
            except Crash:
                pass
            else:
                break
        assert found(root) == "no-data"
        if (root / "data/member/wal").is_symlink():  # only the last step was left
            assert (root / "first/etcd.yaml").read_bytes() == decided.first
        volume.carry_out(str(root), plan(state, root))
        seen = files(root)
        assert seen.pop("aside-1/member/snap/db") == b"left"
        assert seen == EMPTIED | {
            marker.FILE: MARKED,
            "etcd.yaml": decided.config,
            "first/etcd.yaml": decided.first,
        }
    assert number > 30


def test_a_crash_during_adoption_leaves_the_old_or_the_new_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1, 100):
        root = tmp_path / str(number)
        put_log(root)
        (root / marker.FILE).write_bytes(marker.serialise(replace(MARKER, cluster_uid="old")))
        decided = plan("adopt", root)
        with monkeypatch.context() as patch:
            crash_at(patch, number)
            try:
                volume.carry_out(str(root), decided)
            except Crash:
                pass
            else:
                break
        seen = verdict(root)
        adopted = (root / marker.FILE).read_bytes() == MARKED
        assert isinstance(seen, rules.Run) == adopted
        assert adopted or found(root) == "foreign-data"
    assert number > 8


def test_every_step_is_durable_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/left").write_bytes(b"x")
    decided = plan("new", tmp_path)
    trace: list[str] = []
    names: dict[int, str] = {}
    real = {name: getattr(os, name) for name in SYSCALLS}

    def short(path: object) -> str:
        return os.path.relpath(str(path), tmp_path)

    def opens(path: str, *args: Any) -> int:
        handle: int = real["open"](path, *args)
        names[handle] = short(path)
        return handle

    def renames(old: str, new: str) -> None:
        trace.append(f"rename {short(old)} {short(new)}")
        real["rename"](old, new)

    def links(target: str, path: str) -> None:
        trace.append(f"link {short(path)}")
        real["symlink"](target, path)

    def makes(path: str, mode: int) -> None:
        trace.append(f"mkdir {short(path)}")
        real["mkdir"](path, mode)

    monkeypatch.setattr(os, "open", opens)
    monkeypatch.setattr(os, "fsync", lambda handle: trace.append(f"sync {names[handle]}"))
    monkeypatch.setattr(os, "rename", renames)
    monkeypatch.setattr(os, "mkdir", makes)
    monkeypatch.setattr(os, "symlink", links)
    volume.carry_out(str(tmp_path), decided)
    assert trace == [
        "rename data aside-1",
        "sync .",
        "mkdir first",
        "sync .",
        "mkdir first/data",
        "sync first",
        "mkdir first/data/member",
        "sync first/data",
        "mkdir first/data/member/wal",
        "sync first/data/member",
        "mkdir data",
        "sync .",
        "mkdir data/member",
        "sync data",
        "sync .member.json.tmp",
        "rename .member.json.tmp member.json",
        "sync .",
        "sync .etcd.yaml.tmp",
        "rename .etcd.yaml.tmp etcd.yaml",
        "sync .",
        "sync first/.etcd.yaml.tmp",
        "rename first/.etcd.yaml.tmp first/etcd.yaml",
        "sync first",
        "link data/member/wal",
        "sync data/member",
    ]


def test_folders_created_by_a_run_that_died_were_never_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """etcd syncs what it creates itself. But if a folder above it is lost in a power cut,
    everything that it has acknowledged is lost too."""
    names: dict[int, str] = {}
    pending: set[str] = set()
    left = 0
    real = {name: getattr(os, name) for name in ("open", "mkdir", "symlink")}

    def opens(path: str, *args: Any) -> int:
        handle: int = real["open"](path, *args)
        names[handle] = path
        return handle

    def makes(name: str) -> Callable[..., None]:
        def make(*args: Any) -> None:
            real[name](*args)
            pending.add(os.path.dirname(args[-1] if name == "symlink" else args[0]))

        return make

    def syncs(handle: int) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Crash
        pending.discard(names[handle])

    monkeypatch.setattr(os, "open", opens)
    monkeypatch.setattr(os, "fsync", syncs)
    for name in ("mkdir", "symlink"):
        monkeypatch.setattr(os, name, makes(name))
    for number in range(1, 15):
        root = tmp_path / f"v{number}"
        real["mkdir"](root)
        left = number
        with contextlib.suppress(Crash):
            volume.carry_out(str(root), plan("new", root))
        left = 0
        volume.carry_out(str(root), plan("new", root))

        assert not pending, number


def test_a_correct_configuration_is_not_rewritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk has no room for another, and the data must still run."""
    volume.write_config(str(tmp_path), b"config")
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", None)
        volume.write_config(str(tmp_path), b"config")
    for other in (b"confi", b"config2", b""):
        volume.write_config(str(tmp_path), other)
        assert (tmp_path / "etcd.yaml").read_bytes() == other


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: real(handle, bytes(data[:3])))
    volume.write(str(tmp_path), "file", b"0123456789")
    assert (tmp_path / "file").read_bytes() == b"0123456789"


def test_a_temporary_name_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"kept")
    (tmp_path / ".etcd.yaml.tmp").symlink_to(tmp_path / "precious")
    volume.write(str(tmp_path), "etcd.yaml", b"x")
    assert files(tmp_path) == {"precious": b"kept", "etcd.yaml": b"x"}
    assert not (tmp_path / "etcd.yaml").is_symlink()


def test_files_written_under_temporary_names_of_one_file_were_one_file(tmp_path: Path) -> None:
    """Somebody had linked the temporary names to one file. The configuration that can bootstrap was
    then also at the path that etcd uses once it has data (I3)."""
    planted = tmp_path / ".etcd.yaml.tmp"
    planted.write_bytes(b"planted")
    (tmp_path / "first/data/member/wal").mkdir(parents=True)
    for other in (".member.json.tmp", "first/.etcd.yaml.tmp", "precious"):
        (tmp_path / other).hardlink_to(planted)
    decided = plan("new", tmp_path)
    volume.carry_out(str(tmp_path), decided)
    assert (tmp_path / "etcd.yaml").read_bytes() == decided.config
    assert (tmp_path / "first/etcd.yaml").read_bytes() == decided.first
    assert (tmp_path / marker.FILE).read_bytes() == MARKED
    assert (tmp_path / "precious").read_bytes() == b"planted"


def test_a_file_had_the_mode_of_one_that_was_left_under_its_temporary_name(tmp_path: Path) -> None:
    """etcd could not read its configuration, and the ticket of its member was spent."""
    (tmp_path / ".etcd.yaml.tmp").touch(0o200)
    volume.write(str(tmp_path), "etcd.yaml", b"x")
    assert (tmp_path / "etcd.yaml").stat().st_mode & 0o400


@pytest.mark.parametrize("link", ["first", "first/data", "first/data/member"])
def test_a_ticket_was_written_through_a_link_in_place_of_its_folder(
    tmp_path: Path, link: str
) -> None:
    """With `first` a link to the volume itself, the configuration that can bootstrap was at the
    path that etcd uses once it has data (I3)."""
    root, elsewhere = tmp_path / "volume", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (root / link).parent.mkdir(parents=True)
    (root / link).symlink_to(elsewhere)
    decided = plan("new", root)
    volume.carry_out(str(root), decided)
    assert not list(elsewhere.iterdir())
    assert (root / "first/etcd.yaml").read_bytes() == decided.first
    assert (root / "etcd.yaml").read_bytes() == decided.config
    assert not (root / "first").is_symlink()
    assert os.path.lexists(root / link.replace("first", "aside-1"))


def test_a_pipe_under_a_temporary_name_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".etcd.yaml.tmp")
    volume.write(str(tmp_path), "etcd.yaml", b"x")
    assert (tmp_path / "etcd.yaml").read_bytes() == b"x"


def test_the_configuration_is_written_as_json(tmp_path: Path) -> None:
    volume.carry_out(str(tmp_path), plan("new", tmp_path))
    assert json.loads((tmp_path / "etcd.yaml").read_bytes())["name"] == "c-1"


def test_an_error_without_a_path_is_still_reported() -> None:
    assert volume.reason(OSError(errno.ENOSPC, "No space left on device")) == (
        "No space left on device"
    )
    assert volume.reason(TimeoutError()) == "TimeoutError"
