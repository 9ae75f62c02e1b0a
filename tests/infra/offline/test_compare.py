from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from realtime_engine.infra.mp4 import Mp4Writer
from realtime_engine.infra.offline import compare_films


def film(path: Path, frames: int = 4, size: tuple[int, int] = (32, 48), dark: int | None = None) -> Path:
    """A ramp that moves; frame ``dark`` is black."""
    with Mp4Writer(path, 30) as writer:
        for number in range(frames):
            ramp = (np.arange(size[1]) * 4 + number * 8) % 200
            pixels = np.broadcast_to(ramp[None, :, None], (*size, 3)).astype(np.uint8)
            writer.write(np.zeros_like(pixels) if number == dark else np.ascontiguousarray(pixels))
    return path


def test_a_film_equals_itself(tmp_path: Path) -> None:
    one = film(tmp_path / "one.mp4")
    difference = compare_films(one, film(tmp_path / "other.mp4"))
    assert (difference.frames, difference.psnr_db, difference.worst_psnr_db) == (4, math.inf, math.inf)
    assert difference.ssim == pytest.approx(1.0) and difference.worst_ssim == pytest.approx(1.0)


def test_the_worst_frame_is_named(tmp_path: Path) -> None:
    difference = compare_films(film(tmp_path / "one.mp4"), film(tmp_path / "other.mp4", dark=2))
    assert difference.worst_frame == 2 and difference.worst_psnr_db < 15 < difference.psnr_db + 10
    assert difference.worst_ssim < 0.5 < difference.ssim


def test_films_that_cannot_be_compared(tmp_path: Path) -> None:
    one = film(tmp_path / "one.mp4")
    with pytest.raises(ValueError, match=r"shorter\.mp4 has 3 pictures, .*one\.mp4 has more"):
        compare_films(one, film(tmp_path / "shorter.mp4", frames=3))
    with pytest.raises(ValueError, match="is 48x32, .* is 64x32: expected the same size"):
        compare_films(one, film(tmp_path / "wide.mp4", size=(32, 64)))
    text = tmp_path / "text.mp4"
    text.write_text("no film at all")
    with pytest.raises(ValueError, match=r"text\.mp4 cannot be decoded"):
        compare_films(one, text)
    with pytest.raises(FileNotFoundError):
        compare_films(one, tmp_path / "nowhere.mp4")
