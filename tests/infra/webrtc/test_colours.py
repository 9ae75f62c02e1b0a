from __future__ import annotations

import av
import numpy as np
import pytest
from aiortc.sdp import SessionDescription
from av.video.reformatter import ColorRange

from realtime_engine.infra.webrtc.colours import URI, Colours, find_extension, label, read_colours
from realtime_engine.infra.webrtc.picture import to_rgb

FULL_709 = Colours(1, ColorRange.JPEG)


@pytest.mark.parametrize(
    ("value", "colours"),
    [
        (bytes((1, 13, 1, 0x20)), FULL_709),
        (bytes((6, 6, 6, 0x1A)), Colours(6, ColorRange.MPEG)),
        (bytes((1, 1, 1, 0x20)) + bytes(24), FULL_709),
        (bytes((2, 2, 2, 0x20)), None),
        (bytes((1, 1, 1, 0x00)), None),
        (bytes((1, 1, 1)), None),
        (b"", None),
    ],
)
def test_what_the_extension_says(value: bytes, colours: Colours | None) -> None:
    assert read_colours(value) == colours


def unlabelled() -> av.VideoFrame:
    pixels = np.empty((16, 16, 3), np.uint8)
    pixels[...] = (250, 246, 236)
    meant = av.VideoFrame.from_ndarray(pixels, format="rgb24").reformat(format="yuvj420p", dst_colorspace="ITU709")
    return av.VideoFrame.from_ndarray(meant.to_ndarray(), format="yuv420p")


def test_a_frame_that_does_not_say_it_is_read_as_it_was_meant() -> None:
    wrong, right = unlabelled(), unlabelled()
    label(wrong, None)
    label(right, FULL_709)
    assert to_rgb(wrong, 16)[0, 0].min() > 250
    assert np.abs(to_rgb(right, 16)[0, 0].astype(int) - (250, 246, 236)).max() <= 2


def test_what_the_stream_says_itself_counts() -> None:
    image = unlabelled()
    image.colorspace = 6
    label(image, FULL_709)
    assert image.colorspace == 6 and image.color_range == ColorRange.UNSPECIFIED


@pytest.mark.parametrize(("line", "number"), [(f"a=extmap:8 {URI}\r\n", 8), ("", None)])
def test_its_number_is_found(line: str, number: int | None) -> None:
    text = f"v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\nm=video 9 UDP/TLS/RTP/SAVPF 96\r\na=mid:0\r\n{line}"
    assert find_extension(SessionDescription.parse(text).media[0]) == number
