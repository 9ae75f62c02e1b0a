from __future__ import annotations

import numpy as np
import pytest

from realtime_engine.integrations.mirror.picture import Landscape, cover


def ramp(height: int, width: int) -> np.ndarray:
    """Red grows to the right, green downwards."""
    picture = np.zeros((height, width, 3), np.uint8)
    picture[..., 0] = np.linspace(0, 255, width)[np.newaxis, :]
    picture[..., 1] = np.linspace(0, 255, height)[:, np.newaxis]
    return picture


@pytest.mark.parametrize("frame", [(90, 160), (180, 320), (120, 160), (160, 90), (45, 80), (31, 17)])
def test_the_middle_fills_the_target(frame: tuple[int, int]) -> None:
    rows, columns = frame
    target = np.full((90, 160, 3), 7, np.uint8)
    cover(ramp(rows, columns), target)
    scale = max(90 / rows, 160 / columns)
    expected = np.zeros((90, 160, 2))
    for y in range(90):
        for x in range(160):
            source_x = (x + 0.5 - 80) / scale + columns / 2 - 0.5
            source_y = (y + 0.5 - 45) / scale + rows / 2 - 0.5
            expected[y, x] = 255 * source_x / (columns - 1), 255 * source_y / (rows - 1)
    inside = (expected >= 0) & (expected <= 255)
    step = 255 / (min(frame) - 1)
    assert np.abs(target[..., :2] - expected)[inside].max() <= 2 + step, "to within a pixel of the frame"
    assert np.abs(target[..., :2] - expected)[inside].mean() <= 1 + step / 2
    assert not target[..., 2].any()


@pytest.mark.parametrize("frame", [(1, 1), (2, 2), (640, 1), (1, 640)])
@pytest.mark.parametrize("target", [(16, 1920), (1080, 16), (16, 16)])
def test_a_frame_of_any_shape_fills_a_target_of_any_shape(frame: tuple[int, int], target: tuple[int, int]) -> None:
    """A stranger's video may be one pixel wide, and a step that fails for one fails for all."""
    shown = np.zeros((*target, 3), np.uint8)
    cover(np.full((*frame, 3), 200, np.uint8), shown)
    assert (shown == 200).all()


def test_a_frame_of_the_right_size_is_taken_as_it_is() -> None:
    frame, target = ramp(18, 32), np.empty((18, 32, 3), np.uint8)
    frame.flags.writeable = False
    cover(frame, target)
    assert np.array_equal(target, frame)


def test_the_landscape_moves_and_comes_round() -> None:
    landscape = Landscape(64, 36)

    def drawn(seconds: float) -> np.ndarray:
        target = np.empty((36, 64, 3), np.uint8)
        landscape.draw(seconds, target)
        return target

    assert np.array_equal(drawn(1.0), drawn(1.0))
    assert (drawn(1.0) != drawn(1.5)).any()
    ground = drawn(2.0)[-4:]
    assert np.array_equal(ground, drawn(14.0)[-4:]), "the hills come round after twelve seconds"
    assert not np.array_equal(ground, drawn(8.0)[-4:])
    assert drawn(0.0).std() > 20, "there is something to see"
