"""Controls travel with values, the oldest version first."""

from __future__ import annotations

from realtime_engine.core.streaming.slots import merged


def test_the_oldest_version_of_each_control_wins() -> None:
    left, right = {"steer": (3, 1.0), "zoom": (1, 0.5)}, {"steer": (2, 0.9)}
    assert merged([left, None, right], {"zoom": (4, 2.0), "gas": (0, 0.0)}) == {
        "steer": (2, 0.9),
        "zoom": (1, 0.5),
        "gas": (0, 0.0),
    }
    assert merged([None], {}) == {}
