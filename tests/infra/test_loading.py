from __future__ import annotations

import threading

import pytest

from realtime_engine.infra.loading import LoadProgress, hearing_progress, report_loading


def test_who_listens_hears_what_is_reported_in_order() -> None:
    heard: list[LoadProgress] = []
    with hearing_progress(heard.append):
        report_loading("reading weights")
        report_loading("compiling", 0.5)
    report_loading("nobody hears this")
    assert heard == [("reading weights", None), ("compiling", 0.5)]


def test_inner_blocks_listen_instead_of_outer_ones() -> None:
    outer: list[LoadProgress] = []
    inner: list[LoadProgress] = []
    with hearing_progress(outer.append):
        with hearing_progress(inner.append):
            report_loading("inside")
        report_loading("outside")
    assert [progress.message for progress in outer] == ["outside"]
    assert [progress.message for progress in inner] == ["inside"]


def test_another_thread_does_not_hear() -> None:
    heard: list[LoadProgress] = []
    with hearing_progress(heard.append):
        thread = threading.Thread(target=report_loading, args=("somebody else's model",))
        thread.start()
        thread.join()
    assert heard == []


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan")])
def test_a_fraction_is_a_fraction(fraction: float) -> None:
    with pytest.raises(ValueError, match="fraction must be from 0 to 1"):
        report_loading("far too far", fraction)
