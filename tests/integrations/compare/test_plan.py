from __future__ import annotations

import numpy as np
import pytest

from realtime_engine.integrations.compare.plan import DREAM_INK, TRUE_INK, Plan
from realtime_engine.integrations.dream.level import SIDE, THEMES, level, theme_of

CELL, MARGIN = 16, 8


def place(x: float, y: float, turns: float = 0.0) -> np.ndarray:
    return np.array([x, y, np.cos(turns * 2 * np.pi), np.sin(turns * 2 * np.pi)])


def drawn(true: np.ndarray, dreamt: np.ndarray, theme: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The whole stamp, and of it the plan itself with (SIDE, CELL, SIDE, CELL, 3)."""
    plan = Plan(CELL)
    frame = np.zeros((plan.height, plan.width, 3), np.uint8)
    plan.press(frame, 0, 0, theme, true, dreamt)
    left = (plan.width - SIDE * CELL) // 2
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
