from __future__ import annotations

import numpy as np
import pytest

from realtime_engine.integrations.compare.stamp import INK, Stamp, glyphs, label


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape) + shape[0]).integers(0, 256, shape, np.uint8)


@pytest.mark.parametrize("at", [(0, 0), (3, 5), (9, 17), (15, 29), (-3, -4), (-9, 2), (4, 40), (12, -8)])
def test_a_stamp_lies_over_a_frame(at: tuple[int, int]) -> None:
    frame, picture = noise(16, 30, 3), noise(7, 9, 4)
    picture[:2, :, 3], picture[2, :, 3] = 0, 255
    wanted = frame.copy()
    top, left = at
    inside = np.zeros((16, 30), bool)
    for y, x in np.ndindex(7, 9):
        if 0 <= top + y < 16 and 0 <= left + x < 30:
            share = picture[y, x, 3] / 255
            mixed = wanted[top + y, left + x] * (1 - share) + picture[y, x, :3] * share
            wanted[top + y, left + x] = np.floor(mixed + 0.5)
            inside[top + y, left + x] = True
    Stamp(picture).press(frame, top, left)
    assert np.abs(frame.astype(int) - wanted).max() <= 1
    assert np.array_equal(frame[~inside], wanted[~inside])


def test_clear_and_opaque_are_exact() -> None:
    frame = noise(4, 4, 3)
    before, picture = frame.copy(), noise(4, 4, 4)
    picture[..., 3] = np.array([0, 255, 0, 255])[:, None]
    Stamp(picture).press(frame, 0, 0)
    assert np.array_equal(frame[::2], before[::2])
    assert np.array_equal(frame[1::2], picture[1::2, :, :3])


def test_a_label_shows_dot_and_text_on_paper() -> None:
    frame = np.full((60, 200, 3), 128, np.uint8)
    stamp = label("maze", 20, (255, 0, 0))
    stamp.press(frame, 0, 0)
    shown = frame[: stamp.height, : stamp.width]
    assert (shown == (255, 0, 0)).all(-1).any()
    assert (shown == INK).all(-1).sum() > 20
    assert np.median(shown) < 60
    assert label("a longer text", 20, (255, 0, 0)).width > stamp.width


def test_glyphs_have_fields_of_equal_height_and_digits_of_equal_width() -> None:
    stamps = glyphs("0123456789.", 16)
    assert len({stamp.height for stamp in stamps.values()}) == 1
    assert len({stamps[digit].width for digit in "0123456789"}) == 1
    shown = {}
    for character, stamp in stamps.items():
        frame = np.zeros((stamp.height, stamp.width, 3), np.uint8)
        stamp.press(frame, 0, 0)
        shown[character] = frame.tobytes()
        assert frame.max() > 200
    assert len(set(shown.values())) == len(shown)
