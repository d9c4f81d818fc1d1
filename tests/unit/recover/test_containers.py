"""The containers of the recovery Job: what they decide about a volume, and that they may die at any
point. With real etcd: tests/integration/start/test_recovery_etcd.py."""

from __future__ import annotations

import contextlib
import http.server
import itertools
import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from start_helpers import CLUSTER_ID, FIRST_SEGMENT, MARKER, MEMBER_ID, SETTINGS

from etcd_operator.recover import __main__ as entry
from etcd_operator.recover import files, finish, prepare
from etcd_operator.recover.finish import Finish, processes
from etcd_operator.recover.gateway import Gateway, NoReply, Unfinished
from etcd_operator.start.journal import Journal
from etcd_stateful.jobs import recover
from etcd_stateful.jobs.recover import (
    ASIDE,
    CONFIG,
    REFUSED_EXIT,
    Begin,
    Continue,
    Finished,
    Order,
    Unreadable,
    WrongVolume,
    config,
    inspect,
    left_over,
    parse_order,
)
from etcd_stateful.start import marker, rules
from etcd_stateful.start.configuration import BadSettings

ORDER = Order(replace(SETTINGS, epoch=4), MEMBER_ID, CLUSTER_ID)
BEFORE = marker.serialise(MARKER)
AFTER = marker.serialise(ORDER.marker)
LOG = (FIRST_SEGMENT,)


def facts(text: bytes | None = BEFORE, heads: tuple[bytes, ...] = LOG) -> rules.VolumeFacts:
    return rules.VolumeFacts(heads=heads, marker=text)


class TestProgressOfAVolume:
    def test_not_begun(self) -> None:
        assert inspect(ORDER, facts(), None) == Begin()

    def test_not_begun_with_a_marker_of_an_earlier_recovery_aside(self) -> None:
        older = marker.serialise(replace(MARKER, epoch=2))

        assert inspect(ORDER, facts(), older) == Begin()

    def test_begun(self) -> None:
        assert inspect(ORDER, facts(None), BEFORE) == Continue()

    def test_begun_by_an_earlier_recovery_that_never_ended(self) -> None:
        older = marker.serialise(replace(MARKER, epoch=1))

        assert inspect(ORDER, facts(None), older) == Continue()

    @pytest.mark.parametrize("aside", [None, BEFORE, b"noise"])
    def test_finished(self, aside: bytes | None) -> None:
        assert inspect(ORDER, facts(AFTER), aside) == Finished()

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            (replace(MARKER, cluster_uid="another"), "of cluster another"),
            (replace(MARKER, member="c-0"), "names c-0"),
            (replace(MARKER, member_id=7), "other IDs"),
            (replace(MARKER, cluster_id=7), "other IDs"),
            (replace(MARKER, epoch=5), "of epoch 5, not earlier than 4"),
            (replace(ORDER.marker, member="c-0"), "names c-0"),
        ],
    )
    @pytest.mark.parametrize("where", ["in place", "aside"])
    def test_another_marker(self, text: marker.Marker, words: str, where: str) -> None:
        written = marker.serialise(text)
        given = (facts(written), None) if where == "in place" else (facts(None), written)

        verdict = inspect(ORDER, *given)

        assert isinstance(verdict, WrongVolume)
        assert words in verdict.why

    def test_a_marker_of_the_new_epoch_that_is_set_aside_is_refused(self) -> None:
        """No container ever sets one aside, so nothing is known about such a volume."""
        assert isinstance(inspect(ORDER, facts(None), AFTER), WrongVolume)

    @pytest.mark.parametrize("noise", [b"", b"{}", b"[]", b"\xff\xfe", b"{" * 2000, b"x" * 9999])
    def test_noise(self, noise: bytes) -> None:
        assert isinstance(inspect(ORDER, facts(noise), BEFORE), WrongVolume)
        assert isinstance(inspect(ORDER, facts(None), noise), WrongVolume)
        assert isinstance(inspect(ORDER, facts(BEFORE, (noise + b"x" * 64,)), None), WrongVolume)

    def test_a_log_without_any_marker(self) -> None:
        assert inspect(ORDER, facts(None), None) == WrongVolume("a log without a marker")

    def test_no_log(self) -> None:
        for text in (BEFORE, AFTER, None):
            assert isinstance(inspect(ORDER, facts(text, ()), BEFORE), WrongVolume)

    def test_a_log_of_another_member(self) -> None:
        other = replace(ORDER, member_id=7)
        text = marker.serialise(replace(MARKER, member_id=7))

        verdict = inspect(other, facts(text), None)

        assert isinstance(verdict, WrongVolume)
        assert f"the log is of member {MEMBER_ID:016x}" in verdict.why

    def test_a_volume_that_cannot_be_read_may_be_tried_again(self) -> None:
        assert inspect(ORDER, rules.VolumeFacts(problem="stale"), None) == Unreadable("stale")


class TestTheOrder:
    def environment(self, **changes: str) -> dict[str, str]:
        settings = {
            "clusterUID": "u",
            "epoch": 4,
            "domain": "c.ns.svc",
            "clientScheme": "http",
            "peerScheme": "http",
            "dnsTimeoutSeconds": 0,
            "etcd": {"max-wals": 1},
        }
        ids = {"memberID": f"{MEMBER_ID:016x}", "clusterID": f"{CLUSTER_ID:016x}"}
        return {
            "POD_NAME": "c-1",
            "POD_UID": "p",
            "POD_IP": "127.0.0.1",
            "START_SETTINGS": json.dumps(settings),
            "RECOVERY": json.dumps(ids),
        } | changes

    def test_is_read_from_the_environment(self) -> None:
        order = parse_order(self.environment())

        assert (order.settings.member, order.settings.epoch) == ("c-1", 4)
        assert (order.member_id, order.cluster_id) == (MEMBER_ID, CLUSTER_ID)

    @pytest.mark.parametrize(
        "text",
        [
            "", "null", "[]", "{}", "1", '"x"', '{"memberID": 1, "clusterID": 2}',
            '{"memberID": "x", "clusterID": "1"}', '{"memberID": "1"}',
            '{"memberID": "0", "clusterID": "1"}', '{"memberID": "-1", "clusterID": "1"}',
            '{"memberID": "1", "clusterID": "10000000000000000"}', "[" * 99999,
        ],
    )  # fmt: skip
    def test_that_names_nobody_is_refused(self, text: str) -> None:
        with pytest.raises(BadSettings):
            parse_order(self.environment(RECOVERY=text))

    @pytest.mark.parametrize("both", [False, True])
    def test_loopback_needs_no_certificate_and_the_member_s_urls_stay(self, *, both: bool) -> None:
        secured = replace(
            ORDER.settings, client_scheme="https", peer_scheme="https", plaintext_clients=both
        )
        given = json.loads(config(replace(ORDER, settings=secured), force=True))

        for key in ("listen-client-urls", "listen-peer-urls"):
            assert given[key].count("http://127.0.0.1:") == len(given[key].split(",")) == 1
        assert given["initial-cluster"] == "c-1=https://c-1.c.ns.svc:2380"
        assert given["initial-advertise-peer-urls"] == "https://c-1.c.ns.svc:2380"
        assert given["advertise-client-urls"] == "https://c-1.c.ns.svc:2379"
        assert not [key for key in given if key.endswith("transport-security")]

    def test_etcd_listens_to_nobody_else_and_cannot_bootstrap(self) -> None:
        given = json.loads(config(ORDER, force=True))

        listens = {key: value for key, value in given.items() if key.startswith("listen-")}
        assert set(listens) == {"listen-client-urls", "listen-peer-urls", "listen-metrics-urls"}
        assert all(value.startswith("http://127.0.0.1:") for value in listens.values())
        assert given["initial-cluster-state"] == "existing"
        assert given["initial-cluster"] == "c-1=http://c-1.c.ns.svc:2380"
        assert given["advertise-client-urls"] == "http://c-1.c.ns.svc:2379"
        assert given["force-new-cluster"] is True
        assert "log-level" not in given
        assert json.loads(config(ORDER, force=False))["force-new-cluster"] is False

    @pytest.mark.parametrize("force", [True, False])
    def test_a_database_above_etcds_default_quota_refused_writes_after_the_recovery(
        self, *, force: bool
    ) -> None:
        """The survivor was killed under writes. etcd applied the last of them again, with its
        default quota, and raised the alarm NOSPACE."""
        assert ORDER.settings.options["quota-backend-bytes"] == 8 * 2**30

        assert json.loads(config(ORDER, force=force))["quota-backend-bytes"] == 8 * 2**30


class TestRemains:
    def test_are_all_members_but_the_survivor(self) -> None:
        listed = [{"ID": str(MEMBER_ID)}, {"ID": "9"}, {"ID": "5", "isLearner": True}]

        assert left_over(ORDER, listed) == [5, 9]
        assert left_over(ORDER, listed[:1]) == []

    @pytest.mark.parametrize(
        "listed", [[], [{"ID": "9"}], [{"ID": str(MEMBER_ID), "isLearner": True}], [{"ID": "x"}]]
    )
    def test_a_list_without_the_survivor_as_a_voter(self, listed: list[dict[str, Any]]) -> None:
        with pytest.raises(ValueError, match=r"voter|invalid"):
            left_over(ORDER, listed)


class Etcd:
    """A member that `finish` talks to. It answers, perhaps after a while, until it is told to
    stop."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.silent = 0
        self.leaderless = 0
        self.ids = (MEMBER_ID, CLUSTER_ID)
        self.members = [MEMBER_ID]
        self.running = True
        self.stops_slowly = 0
        self.calls: list[str] = []

    def call(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.calls.append(path)
        if self.silent:
            self.silent -= 1
            raise NoReply("not yet")
        if self.leaderless and path != "maintenance/status":
            self.leaderless -= 1
            raise NoReply("etcdserver: no leader")
        match path:
            case "maintenance/status":
                header = {"member_id": str(self.ids[0]), "cluster_id": str(self.ids[1])}
                return {"header": header}
            case "cluster/member/list":
                assert body == {"linearizable": True}
                return {"members": [{"ID": str(one)} for one in self.members]}
            case _:
                self.members.remove(int(body["ID"]))
                return {}

    def find(self, path: str) -> list[int]:
        assert path == f"{self.root}/{recover.CONFIG_PATH}"
        if not self.running and self.stops_slowly:
            self.stops_slowly -= 1
            return [4_000_001]
        return [4_000_001] if self.running else []


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A survivor's volume."""
    folder = tmp_path / "data/member/wal"
    folder.mkdir(parents=True)
    (folder / "0000000000000000-0000000000000000.wal").write_bytes(FIRST_SEGMENT)
    (tmp_path / marker.FILE).write_bytes(BEFORE)
    return tmp_path


@pytest.fixture
def etcd(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Etcd]:
    made = Etcd(root)

    def kill(process: int, _: int) -> None:
        assert process == 4_000_001
        assert not (root / CONFIG).exists(), "the kubelet would start it again"
        made.running = False

    monkeypatch.setattr(finish.os, "kill", kill)
    monkeypatch.setattr(finish, "PAUSE", 0.0)
    return made


JOURNAL = Journal("/nowhere", "recover")


def run(root: Path, etcd: Etcd) -> None:
    """Runs the Job's pod from beginning to end."""
    prepare.prepare(ORDER, str(root), JOURNAL)
    etcd.running = True
    Finish(ORDER, str(root), JOURNAL, call=etcd.call, find=etcd.find).run()


class TestTheJob:
    def test_from_beginning_to_end(self, root: Path, etcd: Etcd) -> None:
        etcd.silent, etcd.leaderless = 3, 2

        run(root, etcd)

        assert (root / marker.FILE).read_bytes() == AFTER
        assert (root / ASIDE).read_bytes() == BEFORE
        assert not (root / CONFIG).exists()
        assert not etcd.running

    def test_half_way_nothing_can_run_the_volume(self, root: Path) -> None:
        prepare.prepare(ORDER, str(root), JOURNAL)

        assert not (root / marker.FILE).exists()
        for epoch in (3, 4):
            verdict = rules.inspect(replace(SETTINGS, epoch=epoch), volume_facts(root))
            assert isinstance(verdict, rules.Wait)

    def test_a_second_run_forces_no_new_cluster(self, root: Path, etcd: Etcd) -> None:
        run(root, etcd)
        prepare.prepare(ORDER, str(root), JOURNAL)

        assert json.loads((root / CONFIG).read_text())["force-new-cluster"] is False
        etcd.running, etcd.calls = True, []
        Finish(ORDER, str(root), JOURNAL, call=etcd.call, find=etcd.find).run()
        assert (root / marker.FILE).read_bytes() == AFTER
        assert etcd.calls == []

    def test_members_that_are_still_listed_are_removed(self, root: Path, etcd: Etcd) -> None:
        etcd.members = [5, MEMBER_ID, 9]

        run(root, etcd)

        assert etcd.members == [MEMBER_ID]

    @pytest.mark.parametrize("ids", [(7, CLUSTER_ID), (MEMBER_ID, 7)])
    def test_another_server_at_the_port(self, root: Path, etcd: Etcd, ids: tuple[int, int]) -> None:
        etcd.ids = ids

        with pytest.raises(Unfinished, match="etcd runs as member"):
            run(root, etcd)
        assert not (root / marker.FILE).exists()

    def test_a_survivor_that_is_no_voter(self, root: Path, etcd: Etcd) -> None:
        etcd.members = [7]

        with pytest.raises(Unfinished, match="not a voter"):
            run(root, etcd)

    def test_no_marker_before_etcd_has_stopped(
        self, root: Path, etcd: Etcd, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        etcd.stops_slowly = 10**9
        monkeypatch.setattr(finish, "STOP_SECONDS", 0.1)

        with pytest.raises(Unfinished, match="does not stop"):
            run(root, etcd)
        assert not (root / marker.FILE).exists()

    @pytest.mark.parametrize("again", [[], [4_000_002]], ids=["gone", "restarted"])
    def test_an_etcd_that_ended_by_itself_counted_as_stopped(
        self, root: Path, etcd: Etcd, monkeypatch: pytest.MonkeyPatch, again: list[int]
    ) -> None:
        """Killed for lack of memory, it may not have written yet that it is the only member. The
        member would then wait for votes of members that are gone."""
        prepare.prepare(ORDER, str(root), JOURNAL)
        ended: list[str] = []

        def call(path: str, body: dict[str, Any]) -> dict[str, Any]:
            answer = etcd.call(path, body)
            ended.extend([path] if path == "cluster/member/list" else [])
            return answer

        def find(path: str) -> list[int]:
            return again if ended else etcd.find(path)

        monkeypatch.setattr(finish.os, "kill", lambda *_: again.clear())
        with pytest.raises(Unfinished, match="ended by itself"):
            Finish(ORDER, str(root), JOURNAL, call=call, find=find).run()
        assert not (root / marker.FILE).exists()

    def test_no_marker_on_a_volume_that_was_emptied_meanwhile(self, root: Path, etcd: Etcd) -> None:
        prepare.prepare(ORDER, str(root), JOURNAL)
        job = Finish(ORDER, str(root), JOURNAL, call=etcd.call, find=etcd.find)
        wal = root / "data/member/wal/0000000000000000-0000000000000000.wal"
        listing = etcd.call

        def call(path: str, body: dict[str, Any]) -> dict[str, Any]:
            wal.unlink(missing_ok=True)
            return listing(path, body)

        job._call = call
        with pytest.raises(Unfinished, match="changed while etcd ran"):
            job.run()
        assert not (root / marker.FILE).exists()

    def test_finish_without_prepare_does_nothing(self, root: Path, etcd: Etcd) -> None:
        with pytest.raises(Unfinished, match="not prepared"):
            Finish(ORDER, str(root), JOURNAL, call=etcd.call, find=etcd.find).run()
        assert etcd.running
        assert (root / marker.FILE).read_bytes() == BEFORE

    @pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
    @pytest.mark.parametrize("point", range(1, 7))
    def test_a_run_that_dies_anywhere_is_finished_by_the_next(
        self, root: Path, etcd: Etcd, point: int, after: bool
    ) -> None:
        with pytest.MonkeyPatch.context() as patches:
            counted = itertools.count(1)
            for place, name in (
                (files, "set_aside"),
                (files, "remove_config"),
                (finish.volume, "write"),
                (finish.os, "kill"),
            ):
                patches.setattr(place, name, dying(getattr(place, name), counted, point, after))
            try:
                run(root, etcd)
            except Dead:
                pass
            else:
                assert point == 6, "there are five points"

        if (root / marker.FILE).exists():
            assert (root / marker.FILE).read_bytes() in (BEFORE, AFTER)
        run(root, etcd)
        assert (root / marker.FILE).read_bytes() == AFTER
        assert not (root / CONFIG).exists()

    def test_another_volume_is_left_as_it_is(self, root: Path) -> None:
        (root / marker.FILE).write_bytes(marker.serialise(replace(MARKER, member="c-0")))
        content = sorted(str(path) for path in root.rglob("*"))

        with pytest.raises(prepare.Refused):
            prepare.prepare(ORDER, str(root), JOURNAL)

        assert sorted(str(path) for path in root.rglob("*")) == content

    def test_exit_codes(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert entry.run("prepare", ORDER, str(root / "nowhere"), JOURNAL) == 1
        assert entry.run("finish", ORDER, str(root), JOURNAL) == 1
        assert entry.run("prepare", ORDER, str(root), JOURNAL) == 0
        (root / ASIDE).unlink()
        assert entry.run("prepare", ORDER, str(root), JOURNAL) == REFUSED_EXIT
        monkeypatch.delenv("RECOVERY", raising=False)
        # Otherwise every later test would react to SIGTERM.
        monkeypatch.setattr(entry, "exit_on_sigterm", lambda: None)
        assert entry.main(["prepare"]) == 2

    def test_the_reason_why_a_volume_could_not_be_read_was_not_reported(
        self, root: Path, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        end = tmp_path_factory.mktemp("end") / "message"
        end.touch()

        entry.run("prepare", ORDER, str(root / "nowhere"), Journal(str(end), "recover"))

        assert end.read_text() == f"not recovered yet: {root}/nowhere: No such file or directory"

    def test_a_pipe_in_place_of_the_marker_that_is_set_aside_blocked_the_job(
        self, root: Path
    ) -> None:
        os.mkfifo(root / ASIDE)

        assert entry.run("prepare", ORDER, str(root), JOURNAL) == 1

    def test_an_unreadable_marker_that_is_set_aside_is_tried_again(self, root: Path) -> None:
        (root / ASIDE).mkdir()

        assert entry.run("prepare", ORDER, str(root), JOURNAL) == 1


class Dead(BaseException):
    pass


def dying(real: Any, counted: Iterator[int], point: int, after: bool) -> Any:
    def effect(*arguments: Any) -> Any:
        now = next(counted)
        if now == point and not after:
            raise Dead
        result = real(*arguments)
        if now == point:
            raise Dead
        return result

    return effect


def volume_facts(root: Path) -> rules.VolumeFacts:
    return finish.volume.look(str(root))


class TestProcesses:
    def test_are_found_by_the_exact_path_of_their_configuration(self, tmp_path: Path) -> None:
        path = f"{tmp_path}/{recover.CONFIG_PATH}"
        code = "import time; time.sleep(60)"
        words = [sys.executable, "-c", code, f"--config-file={path}"]
        with subprocess.Popen(words) as process:
            try:
                ends = time.monotonic() + 60
                while processes(path) != [process.pid] and time.monotonic() < ends:
                    time.sleep(0.02)
                assert processes(path) == [process.pid]
                assert processes(path + "x") == []
                assert processes("recovery.yaml") == []
            finally:
                process.kill()
                process.wait()
            assert processes(path) == []

    def test_this_process_is_not_among_them(self) -> None:
        assert os.getpid() not in processes("")


class _Answers(http.server.BaseHTTPRequestHandler):
    status = 200
    text = b"{}"

    def do_POST(self) -> None:
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.text)))
        self.end_headers()
        self.wfile.write(self.text)

    def log_message(self, *_: Any) -> None:
        pass


class _Guarded(_Answers):
    """etcd with authentication on."""

    password = ""
    fails = ""

    def do_POST(self) -> None:
        said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.status, answer = 400, {"message": "etcdserver: user name is empty"}
        if self.path == "/v3/auth/authenticate":
            if self.fails:
                self.status, answer = 500, {"error": self.fails, "code": 2}
            elif said == {"name": "root", "password": self.password}:
                self.status, answer = 200, {"token": "t"}
        elif self.headers.get("Authorization") == "t":
            self.status, answer = 200, {"leader": "1"}
        self.text = json.dumps(answer).encode()
        super().do_POST()


@contextlib.contextmanager
def guarded(password: str, fails: str = "") -> Iterator[int]:
    """`fails`: etcd's error to each attempt to log in."""
    handler = type("Handler", (_Guarded,), {"password": password, "fails": fails})
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


class TestTheGateway:
    @pytest.mark.parametrize(
        ("status", "text", "comes_to"),
        [
            (503, b'{"message": "etcdserver: no leader"}', NoReply),
            (500, b"\xff", NoReply),
            (200, b"no JSON", NoReply),
            (400, b'{"message": "etcdserver: user name is empty"}', Unfinished),
            (403, b"", Unfinished),
        ],
    )
    def test_which_answers_are_tried_again(
        self, status: int, text: bytes, comes_to: type[Exception]
    ) -> None:
        handler = type("Handler", (_Answers,), {"status": status, "text": text})
        with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
            thread = threading.Thread(target=server.handle_request)
            thread.start()
            with pytest.raises(comes_to):
                Gateway(server.server_port).call("maintenance/status", {})
            thread.join()

    def test_root_logs_in_where_etcd_asks_for_a_user(self, tmp_path: Path) -> None:
        file = tmp_path / "password"
        file.write_text("r-1")
        with guarded("r-1") as port:
            answer = Gateway(port, str(file)).call("maintenance/status", {})

        assert answer == {"leader": "1"}

    def test_a_carriage_return_in_the_password_was_read_as_a_line_feed(
        self, tmp_path: Path
    ) -> None:
        """The operator gives etcd the password as it is in the Secret."""
        file = tmp_path / "password"
        file.write_bytes(b"r-1\r\nr-2")
        with guarded("r-1\r\nr-2") as port:
            assert Gateway(port, str(file)).call("maintenance/status", {}) == {"leader": "1"}

    def test_a_wrong_password_is_reported_and_never_printed(self, tmp_path: Path) -> None:
        file = tmp_path / "password"
        file.write_text("another")
        with (
            guarded("r-1") as port,
            pytest.raises(Unfinished, match=r"spec\.auth\.rootSecret") as said,
        ):
            Gateway(port, str(file)).call("maintenance/status", {})

        assert "another" not in str(said.value)

    def test_a_root_without_a_password_is_reported_with_what_to_do(self, tmp_path: Path) -> None:
        """etcd has no code for this, so the gateway answers 500, as for errors that pass."""
        file = tmp_path / "password"
        file.write_text("r-1")
        words = "auth: authentication failed, password was given for no password user"
        with (
            guarded("r-1", words) as port,
            pytest.raises(Unfinished, match="restore a backup") as said,
        ):
            Gateway(port, str(file)).call("maintenance/status", {})

        assert "without one" in str(said.value)

    def test_without_a_password_the_missing_setting_is_reported(self, tmp_path: Path) -> None:
        with guarded("r-1") as port, pytest.raises(Unfinished, match=r"spec\.auth\.rootSecret"):
            Gateway(port, str(tmp_path / "none")).call("maintenance/status", {})

    @pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY"])
    def test_a_proxy_in_the_environment_was_sent_roots_password(
        self, variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Admission may set a proxy in every pod, and a proxy cannot reach our loopback anyway."""
        asked: list[str] = []

        class Proxy(_Answers):
            def do_POST(self) -> None:
                asked.append(self.path)
                super().do_POST()

        file = tmp_path / "password"
        file.write_text("r-1")
        with guarded("r-1") as port, http.server.HTTPServer(("127.0.0.1", 0), Proxy) as proxy:
            threading.Thread(target=proxy.serve_forever, args=(0.01,), daemon=True).start()
            monkeypatch.setenv(variable, f"http://127.0.0.1:{proxy.server_port}")
            monkeypatch.setattr(urllib.request, "_opener", None)  # as when the process starts
            answer = Gateway(port, str(file)).call("maintenance/status", {})
            proxy.shutdown()

        assert answer == {"leader": "1"}
        assert asked == []

    @pytest.mark.parametrize(
        "text", [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", b"\x15\3\1\n"]
    )
    def test_a_truncated_answer_ended_in_a_traceback(self, text: bytes) -> None:
        """For example from an etcd that ends while it answers. The Job has few attempts."""

        class Ends(_Answers):
            def do_POST(self) -> None:
                self.wfile.write(text)

        with http.server.HTTPServer(("127.0.0.1", 0), Ends) as server:
            thread = threading.Thread(target=server.handle_request)
            thread.start()
            with pytest.raises(NoReply):
                Gateway(server.server_port).call("maintenance/status", {})
            thread.join()

    def test_a_port_without_a_server(self) -> None:
        with pytest.raises(NoReply):
            Gateway(1).call("maintenance/status", {})
