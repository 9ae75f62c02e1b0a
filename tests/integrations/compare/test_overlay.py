from __future__ import annotations

import numpy as np
import pytest

from realtime_engine.integrations.compare.overlay import (
    DREAM_INK,
    INK,
    TRUE_INK,
    Diptych,
    LevelMap,
    Sprite,
    glyphs,
    label,
)
from realtime_engine.integrations.dream.level import SIDE, THEMES, level, theme_of


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
    Sprite(picture).blend(frame, top, left)
    assert np.abs(frame.astype(int) - wanted).max() <= 1
    assert np.array_equal(frame[~inside], wanted[~inside])


def test_clear_and_opaque_are_exact() -> None:
    frame = noise(4, 4, 3)
    before, picture = frame.copy(), noise(4, 4, 4)
    picture[..., 3] = np.array([0, 255, 0, 255])[:, None]
    Sprite(picture).blend(frame, 0, 0)
    assert np.array_equal(frame[::2], before[::2])
    assert np.array_equal(frame[1::2], picture[1::2, :, :3])


def test_a_label_shows_dot_and_text_on_paper() -> None:
    frame = np.full((60, 200, 3), 128, np.uint8)
    sprite = label("maze", 20, (255, 0, 0))
    sprite.blend(frame, 0, 0)
    shown = frame[: sprite.height, : sprite.width]
    assert (shown == (255, 0, 0)).all(-1).any()
    assert (shown == INK).all(-1).sum() > 20
    assert np.median(shown) < 60
    assert label("a longer text", 20, (255, 0, 0)).width > sprite.width


def test_glyphs_have_fields_of_equal_height_and_digits_of_equal_width() -> None:
    stamps = glyphs("0123456789.", 16)
    assert len({sprite.height for sprite in stamps.values()}) == 1
    assert len({stamps[digit].width for digit in "0123456789"}) == 1
    shown = {}
    for character, sprite in stamps.items():
        frame = np.zeros((sprite.height, sprite.width, 3), np.uint8)
        sprite.blend(frame, 0, 0)
        shown[character] = frame.tobytes()
        assert frame.max() > 200
    assert len(set(shown.values())) == len(shown)


CELL, MARGIN = 16, 8


def place(x: float, y: float, turns: float = 0.0) -> np.ndarray:
    return np.array([x, y, np.cos(turns * 2 * np.pi), np.sin(turns * 2 * np.pi)])


def drawn(true: np.ndarray, dreamt: np.ndarray, theme: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The whole sprite, and of it the level_map itself with (SIDE, CELL, SIDE, CELL, 3)."""
    level_map = LevelMap(CELL)
    frame = np.zeros((level_map.height, level_map.width, 3), np.uint8)
    level_map.blend(frame, 0, 0, theme, true, dreamt)
    left = (level_map.width - SIDE * CELL) // 2
    return frame, frame[MARGIN : MARGIN + SIDE * CELL, left : left + SIDE * CELL].reshape(SIDE, CELL, SIDE, CELL, 3)


def middles(cells: np.ndarray, ink: tuple[int, int, int]) -> list[float]:
    """x and y of the middle of what has this colour, in cells."""
    y, x = np.nonzero((cells.reshape(SIDE * CELL, SIDE * CELL, 3) == ink).all(-1))
    return [(x.min() + x.max() + 1) / 2 / CELL, (y.min() + y.max() + 1) / 2 / CELL]


@pytest.mark.parametrize("theme", range(len(THEMES)))
def test_walls_have_their_colours(theme: int) -> None:
    _, cells = drawn(place(1.5, 7.5), place(7.5, 7.5), theme)
    kinds = level().grid.kinds[:SIDE, :SIDE]
    colours = [np.rint(255 * np.array(colour)) for colour in theme_of(THEMES[theme]).materials]
    for y, x in np.argwhere(kinds[:5] > 0):
        assert np.array_equal(cells[y, CELL // 2, x, CELL // 2], colours[kinds[y, x] - 1])
    for y, x in np.argwhere(kinds[:5] == 0):
        assert cells[y, CELL // 2, x, CELL // 2].max() < 40


def test_both_are_where_they_are() -> None:
    _, cells = drawn(place(1.5, 7.5), place(6.25, 3.0))
    for ink, at in ((TRUE_INK, (1.5, 7.5)), (DREAM_INK, (6.25, 3.0))):
        assert np.abs(np.subtract(middles(cells, ink), at)).max() < 0.3


@pytest.mark.parametrize(("turns", "way"), [(0.0, (1, 0)), (0.25, (0, 1)), (0.5, (-1, 0)), (0.75, (0, -1))])
def test_arrows_point_where_they_look(turns: float, way: tuple[int, int]) -> None:
    """Their tips reach further from the place than their tails do."""
    _, cells = drawn(place(4.5, 4.5, turns), place(4.5, 4.5, turns))
    y, x = np.nonzero((cells.reshape(SIDE * CELL, SIDE * CELL, 3) == DREAM_INK).all(-1))
    ahead = ((x + 0.5) / CELL - 4.5) * way[0] + ((y + 0.5) / CELL - 4.5) * way[1]
    assert ahead.max() > 1.15 * -ahead.min()


def test_the_dream_shows_around_the_truth_when_they_are_together() -> None:
    _, cells = drawn(place(2.5, 7.5), place(2.5, 7.5))
    for ink in (TRUE_INK, DREAM_INK):
        assert (cells == ink).all(-1).sum() > 20


@pytest.mark.parametrize("x", [-3.0, 40.0, np.float32(8.9)])
def test_a_place_off_the_plan_is_shown_at_its_edge(x: float) -> None:
    frame, cells = drawn(place(1.5, 7.5), place(x, 4.5))
    assert (cells == DREAM_INK).all(-1).any()


def test_the_number_of_cells_apart_is_told_below() -> None:
    lines = {}
    for apart in (0.0, 0.04, 0.06, 1.3, 12.0):
        frame, _ = drawn(place(1.5, 1.5), place(1.5 + apart, 1.5))
        lines[apart] = frame[MARGIN + SIDE * CELL + MARGIN // 2 :].tobytes()
    assert lines[0.0] == lines[0.04]
    assert len(set(lines.values())) == 4


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
