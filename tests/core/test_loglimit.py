from __future__ import annotations

import logging

import pytest

from realtime_engine.core.loglimit import LogLimiter
from realtime_engine.testing import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def limiter(clock: ManualClock) -> LogLimiter:
    return LogLimiter(logging.getLogger("test.loglimit"), clock)


def test_the_first_error_is_logged_with_its_session_and_traceback(limiter, caplog):
    error = ValueError("bad")
    limiter.error("step failed", error, "alice")
    (record,) = caplog.records
    assert record.getMessage() == "step failed ['alice']: ValueError: bad"
    assert record.levelno == logging.ERROR
    assert record.exc_info[1] is error


def test_one_line_a_second_for_each_cause_with_the_count_in_between(limiter, clock, caplog):
    for tick in range(301):
        limiter.error("step failed", ValueError(str(tick)), f"s{tick % 7}")
        clock.advance_ns(10_000_000)
    assert len(caplog.records) == 4
    assert "(99 more in between)" in caplog.records[1].getMessage()


def test_different_causes_do_not_silence_one_another(limiter, caplog):
    limiter.error("step failed", ValueError())
    limiter.error("step failed", KeyError())
    limiter.error("attach failed", ValueError())
    assert len(caplog.records) == 3


def test_the_same_cause_in_many_texts_is_one_cause(limiter, caplog):
    for n in range(1000):
        limiter.error("step failed", ValueError(f"bad value {n}"))
    assert len(caplog.records) == 1


def test_flush_reports_suppressed_errors_once(limiter, caplog):
    for _ in range(5):
        limiter.error("step failed", ValueError())
    limiter.flush()
    limiter.flush()
    assert [record.getMessage() for record in caplog.records][1:] == ["step failed: ValueError (4 more)"]


def test_the_memory_for_causes_is_bounded(limiter):
    for n in range(10_000):
        limiter.error(f"cause {n}", ValueError())
    assert len(limiter._causes) <= 256


def test_an_error_whose_text_raises_is_logged_all_the_same(limiter, caplog):
    class Unprintable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    limiter.error("step failed", Unprintable())
    assert "Unprintable" in caplog.records[0].getMessage()


def test_a_log_filter_that_raises_is_contained(caplog):
    logger = logging.getLogger("test.loglimit.filtered")

    def refuse(record: logging.LogRecord) -> bool:
        raise OSError("filter")

    logger.addFilter(refuse)
    limiter = LogLimiter(logger, ManualClock())
    limiter.error("step failed", ValueError("bad"))
    limiter.error("step failed", ValueError("bad"))
    limiter.flush()
    assert not caplog.records
