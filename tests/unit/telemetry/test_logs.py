"""One log line per decision, for people or machines, and never a body."""

import asyncio
import io
import json
import logging
import re

import pytest

from etcd_operator.telemetry import logs


@pytest.fixture
def written():
    """What is logged, with the root logger and the noisy ones put back afterwards."""
    names = (None, *logs._NOISY, "kopf._core.reactor.running")
    before = [(n, logging.getLogger(n).level, logging.getLogger(n).filters[:]) for n in names]
    handlers = logging.getLogger().handlers[:]
    yield io.StringIO()
    logging.getLogger().handlers[:] = handlers
    for name, level, filters in before:
        logging.getLogger(name).setLevel(level)
        logging.getLogger(name).filters[:] = filters


def test_a_text_line_is_level_time_cluster_and_message(written):
    logs.setup("INFO", "text", written)
    logging.getLogger("x").info("member %d is promoted", 3, extra={"cluster": "ns/a"})

    assert re.fullmatch(
        r"INFO    \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z cluster=ns/a member 3 is promoted\n",
        written.getvalue(),
    )


def test_a_message_of_several_lines_from_a_webhook_looked_like_several_log_lines(written):
    logs.setup("INFO", "text", written)
    forged = "denied:\r\nERROR   2026-01-01T00:00:00.000Z cluster=ns/b \x1b[31mall is lost\u2028"
    logging.getLogger("x").warning("%s", forged, extra={"reason": "two\nlines"})

    [line] = written.getvalue().splitlines()
    assert line.endswith(
        r"reason=two\nlines denied:\r\nERROR   2026-01-01T00:00:00.000Z cluster=ns/b "
        r"\x1b[31mall is lost\u2028"
    )


def test_lines_of_an_exception_looked_like_lines_of_the_operator(written):
    logs.setup("INFO", "text", written)
    fault = ValueError("bad\nERROR   2026-11-21T05:46:00.123Z cluster=ns/b gone\x1b[2J")
    logging.getLogger("x").error("with", exc_info=fault)

    _, *below = written.getvalue().splitlines()
    assert below[-2:] == [
        "    ValueError: bad",
        "    ERROR   2026-11-21T05:46:00.123Z cluster=ns/b gone\\x1b[2J",
    ]
    assert all(line.startswith("    ") for line in below)


def test_json_logs_are_one_object_per_line(written):
    logs.setup("INFO", "json", written)
    with logs.about(cluster="ns/a"):
        logging.getLogger("x").warning("two\nlines", extra={"step": "Promote"})
    try:
        raise ZeroDivisionError
    except ZeroDivisionError:
        logging.getLogger("x").exception("odd")

    first, second = (json.loads(line) for line in written.getvalue().splitlines())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first.pop("time"))
    assert first == {
        "level": "WARNING",
        "message": "two\nlines",
        "cluster": "ns/a",
        "step": "Promote",
        "logger": "x",
    }
    assert "ZeroDivisionError" in second["exc_info"]


async def test_every_line_logged_in_a_pass_names_its_cluster(written):
    logs.setup("INFO", "text", written)

    async def deep(name):
        await asyncio.sleep(0)
        logging.getLogger("deep").info("from %s", name)

    async def one_pass(name):
        with logs.about(cluster=name):
            await asyncio.create_task(deep(name))

    await asyncio.gather(one_pass("ns/a"), one_pass("ns/b"))
    logging.getLogger("deep").info("from nobody")

    lines = [line.split("Z ", 1)[1] for line in written.getvalue().splitlines()]
    assert sorted(lines) == ["cluster=ns/a from ns/a", "cluster=ns/b from ns/b", "from nobody"]


def test_fields_of_the_line_itself_take_precedence(written):
    logs.setup("INFO", "text", written)
    with logs.about(cluster="ns/a"):
        logging.getLogger("x").info("hello", extra={"cluster": "ns/b"})

    assert "cluster=ns/b hello" in written.getvalue()


@pytest.mark.parametrize("name", ["kopf", "kopf.objects", "kopf._cogs.clients", "kubernetes.aio"])
def test_libraries_that_log_bodies_are_silent_even_at_debug_level(written, name):
    logs.setup("DEBUG", "text", written)
    logging.getLogger(name).info("a Secret's body")
    logging.getLogger(name).debug("a Secret's body")
    assert written.getvalue() == ""

    logging.getLogger(name).warning("trouble")
    assert "trouble" in written.getvalue()


def test_an_outage_is_logged_occasionally_and_not_by_every_watch(written):
    logs.setup("INFO", "text", written)
    logger = logging.getLogger("kopf._cogs.clients.watching")
    for number in range(50):
        logger.error("Request attempt #%d failed; will retry: GET /api/v1/pods", number)
    logger.error("something else")
    record = logger.makeRecord(logger.name, logging.ERROR, "", 0, "#9 failed; will retry", (), None)
    record.created += logs.SELDOM_SECONDS
    logger.handle(record)

    assert written.getvalue().count("will retry") == 2
    assert "something else" in written.getvalue()


def test_after_the_clock_was_set_back_nothing_was_said_of_failing_watches_for_as_long(written):
    logs.setup("INFO", "text", written)
    logger = logging.getLogger("kopf._cogs.clients.watching")
    logger.error("#1 failed; will retry")
    record = logger.makeRecord(logger.name, logging.ERROR, "", 0, "#2 failed; will retry", (), None)
    record.created -= 86400
    logger.handle(record)

    assert written.getvalue().count("will retry") == 2


def test_lines_below_the_level_are_not_logged(written):
    logs.setup("WARNING", "text", written)
    logging.getLogger("etcd_operator").info("chatter")

    assert written.getvalue() == ""


def test_kopf_does_not_warn_about_its_thread(written):
    logs.setup("INFO", "text", written)
    logger = logging.getLogger("kopf._core.reactor.running")
    logger.warning("OS signals are ignored: running not in the main thread.")
    assert written.getvalue() == ""

    logger.warning("something else")
    assert "something else" in written.getvalue()


def test_a_line_about_a_process_has_a_traceback_only_if_asked(written):
    logs.setup("INFO", "text", written)
    fault = ZeroDivisionError("oops")
    logging.getLogger("x").error("with", exc_info=fault)
    logging.getLogger("x").error("without")

    assert written.getvalue().count("ZeroDivisionError: oops") == 1
