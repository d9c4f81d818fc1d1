"""Which members the network round queries, which answers count, and what it leaves out."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest
from fake_accounts import FakeAccounts
from fakes import FakeClock, FakeEtcd, FakeStart, cluster_body

from etcd_operator.cluster.endpoints import YOUNG_PATIENCE, endpoints
from etcd_operator.cluster.sweep import AGAIN_SECONDS, LIST_TRIES, Network
from etcd_operator.etcd.api import READ_SECONDS, Endpoint, Hash, Identity, NoAnswer, NoHandshake
from etcd_operator.etcd.corruption import SECONDS_BETWEEN, _mentioned
from etcd_stateful import identity
from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.api.tls import Level, Levels
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import Hold
from etcd_stateful.observed.members import Alarm, Member
from etcd_stateful.observed.objects import Claim, Secret
from etcd_stateful.observed.pods import Pod
from etcd_stateful.records import bootstrap as records
from etcd_stateful.records.member import MemberRecord

KEY = b"k" * 32
PEERS = {f"a-{n}": f"http://a-{n}.a.default.svc:2380" for n in range(3)}
BOOTSTRAP = records.first_attempt("uid-a", PEERS, "3.7.3")
IDS = [member.member_id for member in BOOTSTRAP.members]


def make_cluster(**spec):
    body = cluster_body(**spec)
    body["metadata"] |= {"uid": "uid-a", "generation": 1}
    return parse_cluster(body)


def pod(ordinal, **changes):
    base = Pod(
        ordinal=ordinal,
        name=f"a-{ordinal}",
        uid=f"uid-{ordinal}",
        resource_version="1",
        address=f"10.0.0.{ordinal}",
        deleting=False,
        ready=True,
        in_start=False,
        etcd_started=True,
    )
    return replace(base, **changes)


def claim(ordinal, cluster_id=BOOTSTRAP.cluster_id):
    record = MemberRecord("uid-a", f"claim-{ordinal}", IDS[ordinal], cluster_id)
    return Claim(ordinal, f"data-a-{ordinal}", f"claim-{ordinal}", "1", "uid-a", record)


def observation(**changes):
    base = Observation(
        cluster=make_cluster(),
        secret=Secret("1", BOOTSTRAP),
        stateful_set=None,
        headless_service=None,
        client_service=None,
        claims=tuple(claim(n) for n in range(3)),
        pods=tuple(pod(n) for n in range(3)),
    )
    return replace(base, **changes)


@pytest.fixture
def start():
    return FakeStart(FakeClock())


@pytest.fixture
def etcd():
    members = [Member(IDS[n], f"a-{n}", (PEERS[f"a-{n}"],), learner=False) for n in range(3)]
    return FakeEtcd(
        cluster_id=BOOTSTRAP.cluster_id,
        members={f"10.0.0.{n}": member for n, member in enumerate(members)},
        listed={member.member_id: member for member in members},
        leader=IDS[1],
    )


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def network(start, etcd, clock):
    return Network(start, etcd, FakeAccounts(), clock)


class TestWhileTlsChanges:
    async def test_each_member_is_connected_to_with_the_scheme_of_its_pod(self, network, etcd):
        levels = (Level.PLAINTEXT, Level.BETWEEN, Level.TLS)
        pods = tuple(
            replace(pod(n), levels=Levels(Level.PLAINTEXT, level)) for n, level in enumerate(levels)
        )
        asked = []
        ask = etcd.status

        async def status(at, seconds=1.0):
            asked.append((at.address, at.tls is not None))
            return await ask(at, seconds)

        etcd.status = status
        mine = Identity(b"authority", b"certificate", b"key")
        await network.ask(observation(pods=pods), KEY, identity=mine)
        assert sorted(asked) == [("10.0.0.0", False), ("10.0.0.1", True), ("10.0.0.2", True)]
        asked.clear()
        await network.ask(observation(pods=pods), KEY)
        assert sorted(asked) == [("10.0.0.0", False), ("10.0.0.1", False)]


class TestAuthentication:
    async def test_a_refusal_is_distinguished_from_silence(self, network, etcd):
        etcd.denies = "user name is empty"
        seen = (await network.ask(observation(), KEY)).onto(observation())
        assert (seen.etcd, seen.statuses) == (None, {})
        assert seen.denied == "user name is empty"

    async def test_a_member_that_only_denies_the_list_is_reported_too(self, network, etcd):
        etcd.denies_list = "permission denied"
        seen = (await network.ask(observation(), KEY)).onto(observation())
        assert len(seen.statuses) == 3
        assert seen.denied == "permission denied"

    async def test_users_are_not_requested_if_nothing_depends_on_them(self, start, etcd):
        accounts = FakeAccounts()
        network = Network(start, etcd, accounts, FakeClock())
        sweep = await network.ask(observation(secret=Secret("1", records.latch(BOOTSTRAP))), KEY)
        assert (accounts.calls, sweep.calls) == ([], 4)


async def test_every_member_and_one_list_of_the_leader(network, etcd):
    sweep = await network.ask(observation(), KEY)
    assert etcd.calls == [
        "status 10.0.0.0",
        "status 10.0.0.1",
        "status 10.0.0.2",
        "list 10.0.0.1",
    ]
    assert sweep.calls == 4
    assert (await network.ask(observation(), KEY, sweep)).interval == 40
    assert {status.member_id for status in sweep.statuses.values()} == set(IDS)
    assert sweep.etcd.cluster_id == BOOTSTRAP.cluster_id


async def test_after_a_restart_requests_to_a_fleet_are_spread(network):
    fleet = [replace(make_cluster(), uid=f"uid-{number}") for number in range(100)]
    first = [await network.ask(observation(cluster=one), KEY) for one in fleet]
    due = sorted(sweep.interval for sweep in first)
    assert due[0] >= 40, "never more often than a settled cluster may be asked"
    assert due[-1] < 80
    assert max(sum(at <= one < at + 4 for one in due) for at in range(40, 80)) <= 25

    after = [
        await network.ask(observation(cluster=one), KEY, sweep)
        for one, sweep in zip(fleet, first, strict=True)
    ]
    assert {sweep.interval for sweep in after} == {40.0}


async def test_a_member_that_is_down_is_left_out(network, etcd):
    del etcd.members["10.0.0.1"]
    sweep = await network.ask(observation(), KEY)
    assert sorted(sweep.statuses) == [0, 2]
    assert len(sweep.etcd.members) == 3, "down is not gone"


class TestSilentLearner:
    """In a cluster without writes, etcd would keep it waiting for good: see `sweep`."""

    @pytest.fixture
    def etcd(self, etcd):
        learner = replace(etcd.listed[IDS[2]], learner=True)
        etcd.listed[IDS[2]] = learner
        del etcd.members["10.0.0.2"]
        return etcd

    async def test_is_woken_by_an_entry_in_the_log(self, network, etcd):
        sweep = await network.ask(observation(), KEY)
        assert "alarms 10.0.0.1" in etcd.calls
        assert sweep.calls == 5

    async def test_is_not_woken_before_it_runs(self, network, etcd):
        waits = tuple(pod(n, etcd_started=n < 2, in_start=n == 2) for n in range(3))
        await network.ask(observation(pods=waits), KEY)
        assert not [one for one in etcd.calls if one.startswith("alarms")]

    async def test_is_not_woken_once_it_answers(self, network, etcd):
        etcd.members["10.0.0.2"] = etcd.listed[IDS[2]]
        await network.ask(observation(), KEY)
        assert not [one for one in etcd.calls if one.startswith("alarms")]


async def test_the_next_voter_is_asked_for_the_list(network, etcd):
    etcd.silent = {"10.0.0.1"}
    sweep = await network.ask(observation(), KEY)
    assert sweep.etcd is not None
    assert sweep.calls == 5


async def test_the_tries_for_a_list_are_bounded(network, etcd):
    etcd.silent = set(etcd.members)
    sweep = await network.ask(observation(), KEY)
    assert sweep.etcd is None
    assert sum(call.startswith("list") for call in etcd.calls) == LIST_TRIES
    assert len(sweep.statuses) == 3


async def test_a_young_pod_does_not_delay_the_pass(network, etcd):
    """etcd accepts connections before it serves, and the others' tickets must not wait for it."""
    pods = (pod(0, age=3.0, ready=False), pod(1, age=300.0))
    await network.ask(observation(pods=pods), KEY)
    assert etcd.patience == {"10.0.0.0": YOUNG_PATIENCE, "10.0.0.1": READ_SECONDS}


async def test_a_young_pod_that_is_ready_gets_the_usual_time(network, etcd):
    """An operator that was busy for a quarter of a second got no answer from any member, and had no
    list."""
    pods = (pod(0, age=3.0), pod(1, age=300.0))
    await network.ask(observation(pods=pods), KEY)
    assert etcd.patience == {"10.0.0.0": READ_SECONDS, "10.0.0.1": READ_SECONDS}


async def test_without_a_leader_no_list_is_waited_for(network, etcd):
    for address in ("10.0.0.1", "10.0.0.2"):
        del etcd.members[address]
    sweep = await network.ask(observation(), KEY)
    assert sweep.etcd is None
    assert not any(call.startswith("list") for call in etcd.calls)


async def test_a_learner_is_not_asked_for_the_list(network, etcd):
    etcd.learners = {IDS[1]}
    await network.ask(observation(), KEY)
    assert "list 10.0.0.1" not in etcd.calls
    assert "list 10.0.0.0" in etcd.calls


async def test_an_answer_of_another_cluster_does_not_count_and_is_reported(network, etcd):
    etcd.cluster_id ^= 1
    sweep = await network.ask(observation(), KEY)
    assert sweep.etcd is None
    assert not sweep.statuses
    assert sweep.onto(observation()).strangers == dict.fromkeys(range(3), etcd.cluster_id)


async def test_another_cluster_was_logged_at_every_look(network, etcd, clock, caplog):
    etcd.strays = {"10.0.0.2": 0x77}
    for _ in range(100):
        await network.ask(observation(), KEY)
        clock.now += 1
    [said] = [one for one in caplog.records if one.levelname == "WARNING"]
    assert "10.0.0.2" in said.getMessage()

    clock.now += AGAIN_SECONDS
    await network.ask(observation(), KEY)
    assert [one.levelname for one in caplog.records].count("WARNING") == 2


async def test_why_no_tls_connection_came_about_was_nowhere_to_be_seen(
    network, etcd, clock, caplog
):
    """Not even in the log, so a certificate that only the operator refuses looked like silence."""

    async def refused(at, *_):
        raise NoHandshake(f"{at.target}: Tls handshake failed: KEY_USAGE_BIT_INCORRECT")

    etcd.status = refused
    for _ in range(3):
        await network.ask(observation(), KEY)
        clock.now += 1
    said = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert len(said) == 3, "once for each member"
    assert all("KEY_USAGE_BIT_INCORRECT" in one for one in said)


async def test_why_no_tls_connection_came_about_was_in_the_log_alone(network, etcd):
    async def refused(at, *_):
        raise NoHandshake(f"{at.target}: Tls handshake failed: KEY_USAGE_BIT_INCORRECT")

    etcd.status = refused
    seen = (await network.ask(observation(), KEY)).onto(observation())

    assert all("KEY_USAGE_BIT_INCORRECT" in one.no_handshake for one in seen.pods)


async def test_why_one_member_refuses_the_operator_is_known_beside_a_quorum(network, etcd):
    answer = etcd.status

    async def refused(at, *more):
        if at.address == "10.0.0.2":
            raise NoHandshake(f"{at.target} ended the TLS connection")
        return await answer(at, *more)

    etcd.status = refused
    seen = (await network.ask(observation(), KEY)).onto(observation())

    assert seen.etcd is not None
    told = [one.no_handshake for one in seen.pods]
    assert told[:2] == ["", ""]
    assert told[2].endswith("10.0.0.2:2379 ended the TLS connection")


async def test_another_cluster_behind_one_address_is_split_brain_and_not_silence(network, etcd):
    """It was taken for silence. But a stray that leads itself is Ready, so everything seemed to
    serve."""
    seen = observation()
    etcd.strays = {"10.0.0.2": 0x77}

    step = decide((await network.ask(seen, KEY)).onto(seen))

    assert isinstance(step, Hold)
    assert step.reason == "SplitBrain"
    assert "0000000000000077" in step.message


async def test_an_old_member_that_has_yet_to_stop_is_not_split_brain(network, etcd):
    """As after a recovery or a restore in place: its volume's record still names the old
    cluster."""
    before = (claim(0), claim(1), claim(2, cluster_id=0x77))
    seen = observation(claims=before)
    etcd.strays = {"10.0.0.2": 0x77}

    step = decide((await network.ask(seen, KEY)).onto(seen))

    assert not isinstance(step, Hold)


async def test_two_pods_that_swapped_addresses_are_no_answer(network):
    swapped = (pod(0, address="10.0.0.1"), pod(1, address="10.0.0.0"), pod(2))
    sweep = await network.ask(observation(pods=swapped), KEY)
    assert list(sweep.statuses) == [2]


class TestAlarms:
    """They are requested only if a member mentions one, because the request itself adds an entry to
    the log."""

    CORRUPT = Alarm("CORRUPT", IDS[0])

    async def test_are_not_requested_if_no_member_mentions_one(self, network, etcd):
        sweep = await network.ask(observation(), KEY)
        assert not [call for call in etcd.calls if call.startswith(("alarms", "hash"))]
        assert sweep.onto(observation()).alarms == ()

    async def test_are_requested_from_the_voter_that_answered_the_list(self, network, etcd):
        etcd.raised = (Alarm("NOSPACE", IDS[2]),)
        sweep = await network.ask(observation(), KEY)
        assert [call for call in etcd.calls if call.startswith("alarms")] == ["alarms 10.0.0.1"]
        assert sweep.onto(observation()).alarms == etcd.raised
        assert not [call for call in etcd.calls if call.startswith("hash")]
        assert sweep.calls == 5

    async def test_about_space_make_all_voters_count_again_what_is_free(self, network, etcd):
        etcd.raised = (Alarm("NOSPACE", IDS[2]),)
        etcd.learners = {IDS[1]}
        etcd.files = dict.fromkeys(etcd.members, (100, 100))
        etcd.uncounted = dict.fromkeys(etcd.members, 10)

        sweep = await network.ask(observation(), KEY)

        assert [one.db_size_in_use for one in sweep.statuses.values()] == [10, 100, 10]
        assert sweep.interval < 30, "nobody can write until it is seen that there is room"

    async def test_a_member_that_cannot_count_again_keeps_its_first_answer(
        self, network, etcd, monkeypatch
    ):
        async def fails(at):
            raise NoAnswer("deadline")

        monkeypatch.setattr(etcd, "recount", fails)
        etcd.raised = (Alarm("NOSPACE", IDS[2]),)

        sweep = await network.ask(observation(), KEY)

        assert [one.db_size_in_use for one in sweep.statuses.values()] == [20480] * 3

    async def test_seemed_to_be_over_while_a_slow_disk_kept_the_list_back(
        self, network, etcd, monkeypatch
    ):
        """A request for the list is an entry in the log. Members were added and promoted, although
        their data differed, because it came too late."""

        async def late(at):
            raise NoAnswer("deadline")

        monkeypatch.setattr(etcd, "alarms", late)
        etcd.raised = (self.CORRUPT, Alarm("NOSPACE", IDS[2]))
        etcd.hashes = {"10.0.0.2": Hash(2, 5)}

        seen = (await network.ask(observation(), KEY)).onto(observation())

        assert set(seen.alarms) == set(etcd.raised)
        assert seen.hashes == {0: 1, 1: 1, 2: 2}

    @pytest.mark.parametrize(
        "words",
        [f"memberID:{IDS[0]} alarm:CORRUPT ", f"memberID:{IDS[0]}  alarm:CORRUPT"],
        ids=["3.5 and 3.6", "3.7"],
    )
    async def test_are_found_in_a_status_in_the_words_of_each_minor(self, etcd, words):
        said = await etcd.status(Endpoint("10.0.0.0"))
        said = replace(said, errors=("etcdserver: no leader", words))
        assert _mentioned([said, said]) == (self.CORRUPT,)

    async def test_of_no_member_was_not_found_in_a_status(self, etcd):
        """etcd names none if no majority has the same data."""
        said = await etcd.status(Endpoint("10.0.0.0"))
        said = replace(said, errors=(f"memberID:{IDS[1]} alarm:NOSPACE ", "alarm:CORRUPT "))
        assert set(_mentioned([said])) == {Alarm("CORRUPT", 0), Alarm("NOSPACE", IDS[1])}

    async def test_without_a_quorum_are_unknown(self, network, etcd):
        etcd.raised = (self.CORRUPT,)
        etcd.silent = set(etcd.members)
        sweep = await network.ask(observation(), KEY)
        assert sweep.suspicion.alarms == ()

    async def test_about_corruption_lead_to_every_members_hash(self, network, etcd):
        etcd.raised = (self.CORRUPT,)
        etcd.hashes = {"10.0.0.2": Hash(2, 5)}
        seen = (await network.ask(observation(), KEY)).onto(observation())
        assert seen.alarms == (self.CORRUPT,)
        assert seen.hashes == {0: 1, 1: 1, 2: 2}

    async def test_hashes_are_of_the_last_write_that_all_members_have(self, network, etcd):
        etcd.raised = (self.CORRUPT,)
        etcd.revisions = {"10.0.0.0": 12, "10.0.0.1": 9, "10.0.0.2": 11}
        await network.ask(observation(), KEY)
        hashed = sorted(call for call in etcd.calls if call.startswith("hash"))
        assert hashed == ["hash 10.0.0.0 9", "hash 10.0.0.1 9", "hash 10.0.0.2 9"]

    async def test_a_removed_member_that_still_answered_decided_what_was_compared(
        self, network, etcd
    ):
        """It got no writes any more, and the others have compacted all that it had."""
        etcd.raised = (self.CORRUPT,)
        etcd.revisions = {"10.0.0.2": 3}
        del etcd.listed[IDS[2]]
        seen = (await network.ask(observation(), KEY)).onto(observation())
        assert seen.hashes == {0: 1, 1: 1}
        assert not [call for call in etcd.calls if call.endswith(" 3")]

    async def test_hashes_of_another_compaction_are_left_out(self, network, etcd):
        """They differ even for the same data."""
        etcd.raised = (self.CORRUPT,)
        etcd.hashes = {"10.0.0.2": Hash(2, 4)}
        assert (await network.ask(observation(), KEY)).suspicion.hashes == {0: 1, 1: 1}

    async def test_a_member_that_is_down_or_a_learner_has_no_hash(self, network, etcd):
        etcd.raised = (self.CORRUPT,)
        del etcd.members["10.0.0.2"]
        etcd.learners = {IDS[0]}
        assert list((await network.ask(observation(), KEY)).suspicion.hashes) == [1]

    async def test_a_settled_cluster_under_alarm_stays_within_its_budget(self, network, etcd):
        etcd.raised = (self.CORRUPT,)
        sweep = await network.ask(observation(), KEY)
        assert sweep.calls == len(etcd.calls) == 8
        assert sweep.calls / sweep.interval <= 0.1

    async def test_hashes_are_reused_for_a_while(self, network, etcd):
        """Each reads a whole database, and passes may follow each other within milliseconds."""
        etcd.raised = (self.CORRUPT,)
        first = await network.ask(observation(), KEY)
        etcd.calls.clear()
        again = await network.ask(observation(), KEY, first)
        assert again.suspicion.hashes == first.suspicion.hashes
        assert not [call for call in etcd.calls if call.startswith("hash")]
        network._clock.now += SECONDS_BETWEEN
        later = await network.ask(observation(), KEY, again)
        assert [call for call in etcd.calls if call.startswith("hash")]
        assert later.suspicion.at > first.suspicion.at

    async def test_members_with_large_databases_hashed_them_all_the_time(
        self, network, etcd, monkeypatch
    ):
        """A hash took longer than it was good for, counted from its request."""
        etcd.raised = (self.CORRUPT,)
        answer = etcd.hash_kv

        async def slowly(at, revision):
            network._clock.now += SECONDS_BETWEEN
            return await answer(at, revision)

        monkeypatch.setattr(etcd, "hash_kv", slowly)
        first = await network.ask(observation(), KEY)
        etcd.calls.clear()

        await network.ask(observation(), KEY, first)

        assert not [call for call in etcd.calls if call.startswith("hash")]

    async def test_hashes_of_other_members_are_not_reused(self, network, etcd):
        """A replacement has the same ordinal, and is innocent."""
        etcd.raised = (self.CORRUPT,)
        first = await network.ask(observation(), KEY)
        etcd.members["10.0.0.2"] = replace(etcd.members["10.0.0.2"], member_id=77)
        claims = (claim(0), claim(1), replace(claim(2), record=None))
        etcd.calls.clear()
        await network.ask(observation(claims=claims), KEY, first)
        assert [call for call in etcd.calls if call.startswith("hash")]


class TestEndpoints:
    def test_name_the_member_that_must_answer(self):
        at = endpoints(observation())[1]
        assert (at.address, at.cluster_id, at.member_id) == (
            "10.0.0.1",
            BOOTSTRAP.cluster_id,
            IDS[1],
        )

    def test_without_a_record_only_the_cluster_is_known(self):
        claims = (claim(0), replace(claim(1), record=None), claim(2, cluster_id=7))
        found = endpoints(observation(claims=claims))
        assert [at.member_id for at in found.values()] == [IDS[0], None, None]
        assert {at.cluster_id for at in found.values()} == {BOOTSTRAP.cluster_id}

    def test_with_an_empty_dir_the_pod_has_the_record(self):
        record = claim(0).record
        pods = (pod(0, record=record),)
        found = endpoints(
            observation(cluster=make_cluster(pod={"emptyDir": {}}), pods=pods, claims=())
        )
        assert found[0].member_id == IDS[0]

    def test_are_empty_without_the_record_of_the_cluster(self):
        assert endpoints(observation(secret=None)) == {}
        assert endpoints(observation(secret=Secret("1", None, "damaged"))) == {}

    @pytest.mark.parametrize(
        "changes", [{"etcd_started": False}, {"in_start": True}, {"address": ""}]
    )
    def test_leave_out_pods_without_a_running_etcd(self, changes):
        assert list(endpoints(observation(pods=(pod(0), pod(1, **changes))))) == [0]

    def test_leave_out_a_pod_that_is_stopping(self):
        assert list(endpoints(observation(pods=(pod(0, deleting=True), pod(1))))) == [1]


class TestStart:
    WAITING = (
        pod(0, in_start=True, etcd_started=False),
        pod(1, in_start=True, etcd_started=False),
        pod(2),
    )

    async def test_is_asked_in_pods_that_wait_in_it(self, network, start):
        start.wait("10.0.0.0", "uid-0", "run-0")
        sweep = await network.ask(observation(pods=self.WAITING), KEY)
        assert start.asked == 2
        assert list(sweep.answers) == ["uid-0"]
        assert sweep.answers["uid-0"].challenge == "run-0"

    async def test_of_another_pod_at_that_address_does_not_count(self, network, start):
        start.wait("10.0.0.0", "uid-of-another", "run-0")
        assert not (await network.ask(observation(pods=self.WAITING), KEY)).answers

    async def test_is_not_asked_without_a_key(self, network, start):
        await network.ask(observation(pods=self.WAITING), None)
        assert not start.asked

    async def test_is_not_asked_in_a_pod_that_stops(self, network, start):
        pods = (replace(self.WAITING[0], deleting=True), replace(self.WAITING[1], address=""))
        await network.ask(observation(pods=pods), KEY)
        assert not start.asked

    async def test_answers_land_on_their_pods(self, network, start):
        start.wait("10.0.0.1", "uid-1", "run-1")
        base = observation(pods=self.WAITING)
        seen = (await network.ask(base, KEY)).onto(base)
        assert [pod.answer.challenge if pod.answer else None for pod in seen.pods] == [
            None,
            "run-1",
            None,
        ]


def test_the_predicted_ids_are_those_of_the_record():
    assert BOOTSTRAP.cluster_id == identity.cluster_id(IDS)
    assert base64.b64encode(KEY)


async def test_why_start_does_not_answer_reaches_the_planner(network):
    pods = tuple(pod(n, etcd_started=False, in_start=n == 2) for n in range(3))
    base = observation(pods=pods)

    seen = (await network.ask(base, KEY)).onto(base)

    assert [one.unanswered for one in seen.pods] == ["", "", "10.0.0.2: nobody"]
    assert not any(one.answer for one in seen.pods)
