from __future__ import annotations

import io
import math

import numpy as np
import pytest
from PIL import Image

from realtime_engine.infra.offline import CapacityPoint, draw_capacity
from realtime_engine.infra.offline.plot import _round_step


def point(sessions: int, p95_ms: float, misses: int) -> CapacityPoint:
    return CapacityPoint(sessions, 100, 33.3, 33.3, p95_ms, p95_ms, 5.0, p95_ms / 33.3, misses, 30.0)


def drawn(*points: CapacityPoint) -> np.ndarray:
    data = draw_capacity(points, "A title")
    assert data.startswith(b"\x89PNG")
    return np.asarray(Image.open(io.BytesIO(data)))


def test_a_higher_time_is_drawn_higher() -> None:
    def height_of_the_last_dot(p95_ms: float) -> float:
        image = drawn(point(1, 34.0, 0), point(2, p95_ms, 0), point(4, 70.0, 0))
        blue = np.all(image == (36, 99, 190), axis=2)
        return float(np.nonzero(blue[64:390, 440:460])[0].mean())

    assert height_of_the_last_dot(60.0) < height_of_the_last_dot(40.0)


def test_one_point_and_none_that_came_can_be_drawn() -> None:
    assert drawn(point(1, 34.0, 0)).shape == (460, 900, 3)
    drawn(point(1, math.inf, 0))


@pytest.mark.parametrize(("least", "step"), [(12.4, 15), (0.9, 1), (6.8, 8), (100, 100), (10.1, 15)])
def test_the_axis_has_round_numbers(least: float, step: float) -> None:
    assert _round_step(least) == step
