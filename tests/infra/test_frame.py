from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from realtime_engine.infra.color import from_i420, scale_i420, to_i420
from realtime_engine.infra.copy_stats import Copy, CopyStats
from realtime_engine.infra.frame import Frame, FrameId, Picture

ID = FrameId("s", 1, 0, 0)
PIXELS = np.random.default_rng(0).integers(0, 256, (9, 14, 3), dtype=np.uint8)


def test_a_frame_of_pixels_makes_planes_once() -> None:
    copies = CopyStats()
    frame = Frame(Picture(PIXELS, copies), ID)
    assert frame.pixels is PIXELS
    assert copies.snapshot()[Copy.RGB_TO_I420].times == 0
    assert np.array_equal(frame.planes(), to_i420(PIXELS))
    assert frame.planes() is frame.planes()
    tally = copies.snapshot()[Copy.RGB_TO_I420]
    assert (tally.times, tally.bytes) == (1, 15 * 14)
    assert tally.ns > 0


def test_a_frame_can_be_made_from_an_array() -> None:
    frame = Frame(PIXELS, ID)
    assert (frame.height, frame.width) == (9, 14)
    assert np.array_equal(frame.planes(), to_i420(PIXELS))


def test_a_frame_of_planes_makes_pixels_once_in_its_own_size() -> None:
    copies = CopyStats()
    planes = to_i420(PIXELS)
    frame = Frame(Picture.from_planes(planes, 9, 14, copies), ID)
    assert frame.planes() is planes
    assert (frame.height, frame.width) == (9, 14)
    assert copies.snapshot()[Copy.I420_TO_RGB].times == 0
    assert frame.pixels.shape == (9, 14, 3)
    assert np.array_equal(frame.pixels, from_i420(planes)[:9])
    assert frame.pixels is frame.pixels
    assert copies.snapshot()[Copy.I420_TO_RGB].times == 1


def test_planes_of_another_size_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(15, 14\).*\(12, 14\)"):
        Picture.from_planes(np.zeros((12, 14), np.uint8), 9, 14)


def test_many_threads_share_one_conversion() -> None:
    copies = CopyStats()
    frame = Frame(Picture(PIXELS, copies), ID)
    together = threading.Barrier(8)

    def ask(_: int) -> int:
        together.wait()
        return id(frame.planes())

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ask, range(8)))) == 1
    assert copies.snapshot()[Copy.RGB_TO_I420].times == 1


def test_a_failed_conversion_is_not_counted() -> None:
    copies = CopyStats()
    with pytest.raises(ValueError, match="float32"):
        Picture(np.zeros((4, 4, 3), np.float32), copies).planes()  # type: ignore[arg-type]
    assert copies.snapshot()[Copy.RGB_TO_I420].times == 0


def test_each_scale_is_made_once_and_counted() -> None:
    copies = CopyStats()
    frame = Frame(Picture(PIXELS, copies), ID)
    half = frame.planes(0.5)
    assert np.array_equal(half, scale_i420(to_i420(PIXELS), 0.5))
    assert frame.planes(0.5) is half
    assert frame.planes(1.0) is frame.planes()
    assert frame.planes(0.25).shape != half.shape
    tallies = copies.snapshot()
    assert (tallies[Copy.RGB_TO_I420].times, tallies[Copy.SCALE].times) == (1, 2)


def test_importing_a_frame_does_not_load_opencv_and_pyav() -> None:
    code = "import sys, realtime_engine.infra.frame; print(*({'av', 'cv2'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ""
