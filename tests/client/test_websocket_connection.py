"""Parts come out whole, however the bytes are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_engine.client.websocket_connection import MultipartReader
from realtime_engine.infra.frame import FrameId
from realtime_engine.infra.jpeg import JpegFrame
from realtime_engine.infra.mjpeg import encode_part

BODIES = [b"", b"x", b"\r\n\r\n--frame\r\n", bytes(range(256))]


def stream() -> bytes:
    pictures = [JpegFrame(body, FrameId("s", 1, number, 0)) for number, body in enumerate(BODIES)]
    return b"--frame\r\n" + b"".join(encode_part(picture) for picture in pictures)


@given(st.lists(st.integers(0, len(stream())), max_size=20))
def test_any_cuts_give_the_same_parts(cuts: list[int]) -> None:
    data, reader = stream(), MultipartReader()
    places = [0, *sorted(cuts), len(data)]
    pieces = [data[begin:end] for begin, end in zip(places, places[1:], strict=False)]
    parts = [part for piece in pieces for part in reader.feed(piece)]
    assert [body for _, body in parts] == BODIES
    assert [headers["x-frame"] for headers, _ in parts] == [
        f"session=s;epoch=1;seq={number};index=0;action=" for number in range(len(BODIES))
    ]


@pytest.mark.parametrize("head", [b"Content-Type: image/jpeg", b"Content-Length: many"])
def test_a_part_without_a_length_is_an_error(head: bytes) -> None:
    with pytest.raises(ValueError, match="Content-Length"):
        list(MultipartReader().feed(b"--frame\r\n" + head + b"\r\n\r\n"))


def test_something_else_is_an_error_and_does_not_pile_up() -> None:
    with pytest.raises(ValueError, match="not a multipart stream"):
        list(MultipartReader().feed(b"x" * 20_000))
