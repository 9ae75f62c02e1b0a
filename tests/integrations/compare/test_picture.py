from __future__ import annotations

import numpy as np
import pytest

from realtime_engine.integrations.compare.picture import Diptych

PLACE = np.array([1.5, 1.5, 1.0, 0.0])


def composed(height: int, width: int, true: int = 100, dreamt: int = 200) -> np.ndarray:
    frame = np.full((height, width, 3), 7, np.uint8)
    left, right = (np.full((height, width // 2, 3), grey, np.uint8) for grey in (true, dreamt))
    Diptych(height, width).compose(frame, left, right, 0, PLACE, PLACE)
    return frame


def test_truth_left_dream_right_and_a_divider_between() -> None:
    frame = composed(320, 960)
    row = frame[200, :, 0]
    assert row.tolist() == [100] * 478 + [0] * 4 + [200] * 478


def test_captions_and_plan_leave_most_of_it_free() -> None:
    frame = composed(320, 960)
    bare = np.where(np.arange(960) < 480, 100, 200)[None, :, None]
    covered = (frame != bare).any(-1)
    assert covered[5:50, 5:100].mean() > 0.4 and covered[5:50, 860:955].mean() > 0.4
    assert covered[15:110, 440:520].mean() > 0.9
    assert covered.mean() < 0.06


def test_a_truth_of_another_size_is_made_to_fit() -> None:
    true = np.random.default_rng(1).integers(0, 256, (80, 120, 3), np.uint8)
    frame = np.empty((320, 960, 3), np.uint8)
    Diptych(320, 960).compose(frame, true, np.zeros((320, 480, 3), np.uint8), 0, PLACE, PLACE)
    shown = frame[120:200, 40:160].astype(int)
    assert np.abs(shown - true[30:50, 10:40].repeat(4, 0).repeat(4, 1)).mean() < 70


@pytest.mark.parametrize(("height", "width"), [(64, 192), (64, 960), (1280, 192), (1280, 3840)])
def test_any_size_that_the_options_allow_works(height: int, width: int) -> None:
    frame = composed(height, width)
    assert frame[0, 0, 0] == 100 and frame[0, -1, 0] == 200
    assert frame[-1, 0, 0] == 100 and frame[-1, -1, 0] == 200
