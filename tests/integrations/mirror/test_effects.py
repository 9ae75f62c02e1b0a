from __future__ import annotations

import numpy as np
import pytest

from realtime_engine.integrations.mirror.effects import EFFECTS, block_side, level_count, steps

from . import reference


def pictures(height: int, width: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    ramp = np.linspace(0, 255, width, dtype=np.float32)[np.newaxis, :, np.newaxis]
    smooth = np.repeat(np.repeat(ramp, height, 0), 3, 2).astype(np.uint8)
    smooth[height // 3 :, width // 2 :, 1] = 90
    return {"noise": rng.integers(0, 256, (height, width, 3), np.uint8), "smooth": smooth}


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("strength", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("size", [(24, 32), (37, 23)])
def test_effects_are_what_they_are_by_definition(effect: str, strength: float, size: tuple[int, int]) -> None:
    for name, picture in pictures(*size).items():
        before = picture.copy()
        drawn = EFFECTS[effect](picture, strength)
        assert (drawn.shape, drawn.dtype) == (picture.shape, np.uint8)
        assert drawn.flags.c_contiguous and drawn.flags.writeable and not np.shares_memory(drawn, picture)
        assert np.array_equal(picture, before)
        expected = getattr(reference, effect)(picture, strength)
        assert np.abs(drawn - expected).max() <= 2, f"{name}: roundings of luma, and of what is made of it"


def test_every_effect_grows_with_its_strength() -> None:
    picture = pictures(96, 128)["smooth"]
    for effect in ("pixelate", "posterise"):
        changes = [np.abs(EFFECTS[effect](picture, each).astype(int) - picture).mean() for each in (0.0, 0.5, 1.0)]
        assert changes[0] < changes[1] < changes[2], effect
    darkness = [255 - EFFECTS["sketch"](picture, each).mean() for each in (0.0, 0.5, 1.0)]
    assert darkness[0] < darkness[1] < darkness[2]


def test_the_ends_of_the_scales() -> None:
    assert [level_count(strength) for strength in (0, 1)] == [16, 2]
    assert [block_side(strength, 360) for strength in (0, 1)] == [2, 22]
    assert block_side(1.0, 16) == 1
    assert steps(2).tolist() == [0] * 128 + [255] * 128
    assert sorted(set(steps(16).tolist())) == [17 * step for step in range(16)]
