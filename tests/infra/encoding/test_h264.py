from __future__ import annotations

import pytest

from realtime_engine.infra.encoding.h264 import level_for


@pytest.mark.parametrize(
    ("width", "height", "fps", "level"),
    [
        (32, 18, 5, "3.1"),
        (1280, 720, 30, "3.1"),
        (1280, 720, 60, "3.2"),
        (1281, 720, 30, "3.2"),
        (1920, 1080, 30, "4.0"),
        (1920, 1080, 60, "4.2"),
        (3840, 2160, 30, "5.1"),
        (8192, 8192, 240, "6.2"),
    ],
)
def test_the_lowest_level_that_fits(width: int, height: int, fps: float, level: str) -> None:
    assert level_for(width, height, fps) == level
