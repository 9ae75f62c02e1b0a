"""The mirror in a real browser, whose camera is a test pattern: a green field with a bright hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import simplejpeg
from playwright.sync_api import Browser, expect

from .conftest import Launch, Opener
from .maze import MazeServer
from .walker import Walker

FAKE_CAMERA = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]


@pytest.fixture(scope="module")
def mirror(chromium: str) -> Iterator[MazeServer]:
    with MazeServer("--max-sessions", "2", demo="mirror") as server:
        yield server


@pytest.fixture(scope="module")
def with_camera(launch: Launch) -> Iterator[Browser]:
    with launch(*FAKE_CAMERA) as browser:
        yield browser


def until_seen(visitor: Walker, wanted: Callable[[np.ndarray], bool]) -> None:
    """Wait until the picture, (54, 96, 3), is as wanted; the timeout of the test ends a hopeless wait."""
    while not wanted(visitor.pixels()):
        pass


def is_green(pixels: np.ndarray) -> bool:
    red, green, blue = np.median(pixels, (0, 1))
    return green - red > 60 and green - blue > 60


def is_of(pixels: np.ndarray, color: tuple[int, int, int]) -> bool:
    return bool(np.abs(np.median(pixels, (0, 1)) - color).max() < 14)


def is_paper(pixels: np.ndarray) -> bool:
    return bool(np.median(pixels) > 220)


def test_the_camera_is_shown_with_the_effect_until_it_is_stopped(
    mirror: MazeServer, with_camera: Browser, visit: Opener
) -> None:
    visitor = visit(mirror, browser=with_camera)
    page = visitor.page
    expect(page.locator("#status")).to_have_text("Live")
    expect(page.locator("#source-text")).to_have_text("Not sending")
    page.get_by_label("none", exact=True).check()
    until_seen(visitor, lambda pixels: not is_paper(pixels))
    assert not is_green(visitor.pixels())
    page.get_by_role("button", name="Use camera").click()
    expect(page.locator("#source-text")).to_have_text("Sending your camera")
    expect(page.locator("#self-view")).to_be_visible()
    until_seen(visitor, is_green)
    page.get_by_label("sketch", exact=True).check()
    until_seen(visitor, is_paper)
    page.get_by_role("button", name="Stop").click()
    page.get_by_label("none", exact=True).check()
    until_seen(visitor, lambda pixels: not is_paper(pixels))
    assert not is_green(visitor.pixels())
    expect(page.locator("#self-view")).to_be_hidden()
    expect(page.get_by_role("button", name="Use camera")).to_be_visible()


def write_picture(path: Path, color: tuple[int, int, int]) -> None:
    path.write_bytes(simplejpeg.encode_jpeg(np.full((120, 160, 3), color, np.uint8), quality=95))


def write_film(path: Path, color: tuple[int, int, int]) -> None:
    """A second of that color."""
    import av

    with av.open(str(path), "w", format="webm") as container:
        stream = container.add_stream("libvpx", rate=25)
        stream.width, stream.height, stream.pix_fmt = 160, 120, "yuv420p"
        for number in range(25):
            frame = av.VideoFrame.from_ndarray(np.full((120, 160, 3), color, np.uint8), format="rgb24")
            frame.pts = number
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def test_a_local_file_is_shown_in_its_colors(mirror: MazeServer, visit: Opener, tmp_path: Path) -> None:
    visitor = visit(mirror)
    visitor.page.get_by_label("none", exact=True).check()
    for name, write, status, color in (
        ("own.jpg", write_picture, "Sending the image file", (200, 60, 120)),
        ("own.webm", write_film, "Sending the video file", (60, 150, 190)),
    ):
        write(tmp_path / name, color)
        visitor.page.locator("#source-file").set_input_files(tmp_path / name)
        expect(visitor.page.locator("#source-text")).to_have_text(status)
        until_seen(visitor, partial(is_of, color=color))


def test_camera_errors_are_reported_in_plain_language(mirror: MazeServer, visit: Opener) -> None:
    visitor = visit(mirror)  # this browser has no camera and shows no permission prompt
    expect(visitor.page.locator("#status")).to_have_text("Live")
    visitor.page.get_by_role("button", name="Use camera").click()
    expect(visitor.page.locator("#source-error")).to_contain_text("camera")
    expect(visitor.page.get_by_role("button", name="Use camera")).to_be_visible()
    file = {"name": "notes.mp4", "mimeType": "video/mp4", "buffer": b"no film"}
    visitor.page.locator("#source-file").set_input_files(file)  # type: ignore[arg-type]
    expect(visitor.page.locator("#source-error")).to_have_text("This browser cannot open notes.mp4.")
