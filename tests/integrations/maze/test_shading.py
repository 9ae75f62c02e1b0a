from __future__ import annotations

import numpy as np

from realtime_engine.integrations.maze.palette import FOGS
from realtime_engine.integrations.maze.shading import MAX_VISIBLE, Shading
from realtime_engine.integrations.maze.textures import LEVELS, MATERIALS
from realtime_engine.integrations.maze.world import TORCH

DISTANCES = np.array([[0.1, 1.0, 4.0, 12.0, 1e6]], np.float32)
ONLY = np.array([0])


def shading(*densities: float) -> Shading:
    made = Shading(len(densities))
    for row, density in enumerate(densities):
        made.set_density(row, density)
    return made


def test_fog_grows_with_distance_in_whole_steps() -> None:
    fog = shading(0.2).fog(ONLY, DISTANCES)[0].astype(int)
    assert fog[0] == 0 and (np.diff(fog) >= 0).all()
    assert (fog % (MATERIALS * LEVELS) == 0).all()
    assert fog[-1] == round((FOGS - 1) * (1 - np.exp(-0.2 * (MAX_VISIBLE - 0.5)))) * MATERIALS * LEVELS


def test_each_row_has_its_own_fog() -> None:
    both = shading(0.0, 0.5).fog(np.array([1, 0]), np.full((2, 1), 5.0, np.float32))
    assert both[0, 0] > both[1, 0] == 0


def test_clear_is_what_the_fog_leaves() -> None:
    clear = shading(0.2).clear(ONLY, DISTANCES)[0]
    assert clear[0] == 1 and (np.diff(clear) <= 0).all() and clear[-1] >= 0


def test_the_torch_fades() -> None:
    torch = shading(0.1).torch(DISTANCES)[0].astype(int)
    assert TORCH >= torch[0] > torch[1] > torch[2] == torch[-1] == 0
