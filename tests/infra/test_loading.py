from __future__ import annotations

import json
import threading
from typing import Any

import numpy as np
import pytest

from realtime_engine.infra.loading import LoadProgress, listening_to_progress, report_loading


def test_who_listens_hears_what_is_reported_in_order() -> None:
    heard: list[LoadProgress] = []
    with listening_to_progress(heard.append):
        report_loading("reading weights")
        report_loading("compiling", 0.5)
    report_loading("nobody hears this")
    assert heard == [("reading weights", None), ("compiling", 0.5)]


def test_inner_blocks_listen_instead_of_outer_ones() -> None:
    outer: list[LoadProgress] = []
    inner: list[LoadProgress] = []
    with listening_to_progress(outer.append):
        with listening_to_progress(inner.append):
            report_loading("inside")
        report_loading("outside")
    assert [progress.message for progress in outer] == ["outside"]
    assert [progress.message for progress in inner] == ["inside"]


def test_another_thread_does_not_hear() -> None:
    heard: list[LoadProgress] = []
    with listening_to_progress(heard.append):
        thread = threading.Thread(target=report_loading, args=("somebody else's model",))
        thread.start()
        thread.join()
    assert heard == []


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan")])
def test_a_fraction_is_a_fraction(fraction: float) -> None:
    with pytest.raises(ValueError, match="fraction must be from 0 to 1"):
        report_loading("far too far", fraction)


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("reading\n\tpart 1\x1b[31m \x00of 2\r", "reading part 1 [31m of 2"),
        ("half a pair: \ud800.", "half a pair: ."),
        (OSError("a disk"), "a disk"),
        ("\u00e9t\u00e9 \u4e16\u754c", "\u00e9t\u00e9 \u4e16\u754c"),
        ("x" * 10_000_000, "x" * 200 + "..."),
    ],
)
def test_what_is_told_is_a_line_that_can_be_shown(message: Any, told: str) -> None:
    heard: list[LoadProgress] = []
    with listening_to_progress(heard.append):
        report_loading(message)
    assert heard == [(told, None)]
    heard[0].message.encode()


@pytest.mark.parametrize("fraction", [np.float32(0.5), np.float64(0.5), np.array(0.5)])
def test_a_fraction_becomes_a_plain_number(fraction: Any) -> None:
    heard: list[LoadProgress] = []
    with listening_to_progress(heard.append):
        report_loading("compiling", fraction)
    assert json.dumps(heard[0].fraction) == "0.5"
