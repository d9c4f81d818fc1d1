"""Fixtures of the end-to-end tests: the local cluster or another one, with the operator in it.

Every test gets a namespace of its own (`place`), which enforces the restricted pod security
profile. After the test the invariants are checked, then the namespace goes in the background. A
test that fails leaves events, logs and objects in build/e2e.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the harness, which the benchmarks share

from harness import backups, machines, waiting
from harness.api import KUBECONFIG, LOCAL_KUBECONFIG, NODES, ROOT, Kube
from harness.audit import Audit, Suite
from harness.invariants import Ledger
from harness.operator import Operator
from harness.place import Place
from harness.reach import Reach
from harness.release import Release
from harness.report import write_report
from harness.verdicts import Verdicts

from localkube.s3 import S3Server

HERE = Path(__file__).parent

LIMIT = 300
"""Seconds of a quiet machine, as all limits are: `SLOW` times that counts. More than the
waits of a test together, so that one of these fails, which says what for, and not the clock. Tests
that wait for longer have a limit of their own."""

AUDIT_LOG = KUBECONFIG.resolve().parent / "logs" / "audit.log"

PARTS = ("1", "2", "3")
"""These run at once, before those tests that need the cluster for themselves."""

ALONE = frozenset({"audit", "no_default_class", "release", "without_operator"})
"""Fixtures whose tests touch what all share: the operator, storage, the API server's log."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--part",
        choices=(*PARTS, "alone"),
        help="a third of the tests that can run beside others, or those that cannot",
    )
    parser.addoption("--report", type=Path, help="file for what came of each test, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "last: of all tests of its part")
    config.addinivalue_line("markers", "alone: nothing else may run on the cluster meanwhile")
    if config.option.report:
        config.pluginmanager.register(Verdicts(config.option.report))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Everything in here is `e2e`, with a limit, in one of the parts."""
    ours = [item for item in items if HERE in item.path.parents]
    for item in ours:
        item.add_marker(pytest.mark.e2e)
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LIMIT))
    if part := config.option.part:
        left_out = [item for item in ours if part_of(item) != part]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    items.sort(key=lambda item: item.get_closest_marker("last") is not None)


def part_of(item: pytest.Item) -> str:
    """Whole files, so that what they share is made once."""
    if item.get_closest_marker("alone") or ALONE & set(getattr(item, "fixturenames", ())):
        return "alone"
    return PARTS[sorted(HERE.glob("test_*.py")).index(item.path) % len(PARTS)]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if waiting.near:
        terminalreporter.section("waits that took more than half of their time")
        for line in waiting.near:
            terminalreporter.write_line(line)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    setattr(item, f"report_{report.when}", report)
    return report


@pytest.fixture(scope="session")
def kube() -> Kube:
    return Kube()


@pytest.fixture(scope="session")
def reach(kube: Kube) -> Iterator[Reach]:
    reach = Reach(kube)
    yield reach
    reach.close()


@pytest.fixture(scope="session")
def operator(kube: Kube) -> Operator:
    return Operator(kube)


@pytest.fixture(scope="session")
def ledger(kube: Kube) -> Ledger:
    ledger = Ledger(kube)
    ledger.start()
    return ledger


@pytest.fixture
def place(
    kube: Kube, reach: Reach, operator: Operator, ledger: Ledger, request: pytest.FixtureRequest
) -> Iterator[Place]:
    place = Place.make(kube, reach, operator, ledger, request.node.name.removeprefix("test_"))
    yield place
    failed = getattr(request.node, "report_call", None)
    if failed is None or failed.failed:
        write_report(place, ROOT / "build" / "e2e" / f"{place.namespace}.txt")
        place.leave()
        return
    try:
        place.check()
    except AssertionError:
        write_report(place, ROOT / "build" / "e2e" / f"{place.namespace}.txt")
        raise
    finally:
        place.leave()


@pytest.fixture
def release(operator: Operator, place: Place) -> Iterator[Release]:
    place.operator_may_restart = True
    release = Release.found(operator)
    yield release
    release.restore()


def is_local() -> bool:
    return KUBECONFIG.resolve() == LOCAL_KUBECONFIG.resolve()


@pytest.fixture(scope="session")
def local_node() -> None:
    """For tests that reach into a node's processes and volumes from outside.

    Only the cluster of `make cluster` runs on this machine; on any other, these tests have nothing
    to reach into.
    """
    if not is_local():
        pytest.skip("reaches into the node from outside, which only the local cluster allows")


@pytest.fixture(scope="session")
def suite() -> Suite:
    return Suite(AUDIT_LOG, ROOT / "build" / "e2e")


@pytest.fixture(scope="session", autouse=True)
def recorded(request: pytest.FixtureRequest, suite: Suite) -> Iterator[None]:
    """Which part of the audit log is of which part of the suite."""
    part = request.config.option.part
    if not part or not is_local():
        yield
        return
    image = request.getfixturevalue("operator").image
    with suite.recorded(part, image):
        yield


@pytest.fixture
def whole_audit(local_node: None, suite: Suite, operator: Operator) -> Audit:
    """What the API server was asked since the suite began."""
    whole = suite.whole(PARTS, operator.image)
    if whole is None:
        pytest.skip("NOT RUN: needs all parts of the suite, run with this build of the operator")
    return whole


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A store that pods reach, with the bucket that the examples name."""
    server = S3Server(tmp_path_factory.mktemp("s3"), host=backups.HOST).start()
    server.bucket("mybucket")
    yield server
    server.stop()


@pytest.fixture
def three_nodes(kube: Kube, local_node: None) -> Iterator[None]:
    """All of them on and free for pods again afterwards."""
    if len(kube.list(NODES)) < 3:
        pytest.skip("NOT RUN: needs three nodes, which `make cluster NODES=3` brings up")
    yield
    if not (machines.all_on() and machines.nodes_ready(kube)):
        machines.power_on(kube)
    for node in kube.list(NODES):
        if node["spec"].get("unschedulable"):
            machines.cordon(kube, node["metadata"]["name"], on=False)


@pytest.fixture
def audit(local_node: None) -> Audit:
    """The API server's audit log from here on; the local cluster keeps one."""
    return Audit(AUDIT_LOG)
