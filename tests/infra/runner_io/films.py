"""Small films of all kinds."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

FPS = Fraction(10)


def pictures(frames: int = 6, height: int = 32, width: int = 48) -> list[np.ndarray]:
    """A red upper left quarter, a blue lower right one; the others grey, lighter with each frame."""
    film = []
    for at in range(frames):
        pixels = np.full((height, width, 3), 20 + 20 * at, np.uint8)
        pixels[: height // 2, : width // 2] = (255, 0, 0)
        pixels[height // 2 :, width // 2 :] = (0, 0, 255)
        film.append(pixels)
    return film


def film(
    path: Path,
    images: Sequence[np.ndarray] | None = None,
    *,
    times: Sequence[Fraction] | None = None,
    codec: str = "libx264",
    pix_fmt: str = "yuv420p",
    transfer: int | None = None,
    matrix: Sequence[int] | None = None,
    pixel_width: Fraction | None = None,
    options: dict[str, str] | None = None,
) -> Path:
    """Write it, a picture at each of ``times``, by default ten a second."""
    shown = pictures() if images is None else images
    with av.open(str(path), "w", options=options or {}) as container:
        stream = container.add_stream(codec, rate=FPS, options={"crf": "5"} if codec == "libx264" else {})
        stream.height, stream.width = shown[0].shape[:2]
        stream.pix_fmt = pix_fmt
        clock = 1 / FPS if times is None else Fraction(1, 1000)
        stream.codec_context.time_base = clock
        if transfer is not None:
            stream.codec_context.color_trc = transfer
        if pixel_width is not None:
            stream.codec_context.sample_aspect_ratio = pixel_width
        if matrix is not None:
            stream.set_display_matrix([*matrix[:2], 0, *matrix[2:], 0, 0, 0, 1 << 30])
        for at, pixels in enumerate(shown):
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame.pts, frame.time_base = at if times is None else round(times[at] / clock), clock
            if transfer is not None:
                frame.color_trc = transfer
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def sound(path: Path) -> Path:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=8000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        frame.sample_rate, frame.pts = 8000, 0
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path
