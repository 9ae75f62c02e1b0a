from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_engine.core.statistics import Ring, RollingWindow, quantile

SHARES = (0.0, 0.1, 0.5, 0.9, 0.95, 0.99, 1.0)


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=200), st.sampled_from(SHARES))
def test_quantiles_are_those_of_numpy(values: list[int], share: float) -> None:
    assert quantile(sorted(values), share) == pytest.approx(float(np.quantile(values, share)))


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_is_between_0_and_1(share: float) -> None:
    with pytest.raises(ValueError, match="share must be between 0 and 1"):
        RollingWindow().snapshot().quantile_ns(share)


def test_a_ring_keeps_the_newest_by_index() -> None:
    ring = Ring(3)
    assert ring.values() == [] and ring.at(-1) is None and ring.at(0) is None
    for index in range(5):
        ring.append(index * 10)
    assert ring.items() == ((2, 20), (3, 30), (4, 40)) and ring.values() == [20, 30, 40]
    assert [ring.at(index) for index in range(-1, 6)] == [None, None, None, 20, 30, 40, None]


@pytest.mark.parametrize("kind", [Ring, RollingWindow])
def test_a_size_is_1_or_more(kind: type[Ring]) -> None:
    with pytest.raises(ValueError, match="size must be 1 or more, got 0"):
        kind(0)


@given(st.lists(st.integers(-5, 10**12), max_size=40), st.integers(1, 16))
def test_a_window_summarizes_the_newest_values(values: list[int], size: int) -> None:
    window = RollingWindow(size)
    for value in values:
        window.record(value)
    snapshot, recorded = window.snapshot(), [max(value, 0) for value in values]
    assert (snapshot.count, snapshot.sum_ns) == (len(values), sum(recorded))
    assert snapshot.peak_ns == max(recorded, default=0)
    if values:
        kept = recorded[-size:]
        assert (snapshot.min_ns, snapshot.max_ns) == (min(kept), max(kept))
        assert snapshot.mean_ns == pytest.approx(sum(kept) / len(kept))
        quantiles = (snapshot.p50_ns, snapshot.p90_ns, snapshot.p95_ns, snapshot.p99_ns)
        assert quantiles == pytest.approx(np.quantile(kept, (0.5, 0.9, 0.95, 0.99)).tolist())


def test_an_empty_window_reads_as_zeros() -> None:
    snapshot = RollingWindow().snapshot()
    assert (snapshot.count, snapshot.sum_ns, snapshot.peak_ns, snapshot.min_ns, snapshot.max_ns) == (0, 0, 0, 0, 0)
    assert (snapshot.mean_ns, snapshot.p50_ns, snapshot.p99_ns, snapshot.quantile_ns(1.0)) == (0.0, 0, 0, 0)


def test_a_duration_that_does_not_fit_is_clamped() -> None:
    window = RollingWindow()
    window.record(2**200)
    assert window.snapshot().count == 1 and window.snapshot().max_ns == 2**63 - 1


def test_a_ring_may_be_read_while_another_thread_appends() -> None:
    ring, done = Ring(16), threading.Event()

    def write() -> None:
        for index in range(30_000):
            ring.append(index)
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not done.is_set():
        items = ring.items()
        assert all(index == value for index, value in items) and len(items) <= 16
    writer.join()
