from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from realtime_engine.core.inbox import Inbox
from realtime_engine.core.messages import Action
from realtime_engine.core.values import same_value
from realtime_engine.infra.video_input import InputFrame, VideoBuffer, VideoInput, VideoWindow


def pixels(value: int = 0) -> np.ndarray:
    return np.full((4, 6, 3), value, np.uint8)


class Given:
    """A buffer, and the windows that it reported."""

    def __init__(self, **declared: Any) -> None:
        self.windows: list[VideoWindow] = []
        self.buffer = VideoBuffer(VideoInput(**declared), lambda: self.windows.append(self.buffer.window))

    def put(self, publisher: int, *values: int) -> None:
        for value in values:
            self.buffer.put(publisher, pixels(value), media_ns=value * 10, arrived_ns=value * 100)

    @property
    def seen(self) -> list[int]:
        return [int(frame.pixels[0, 0, 0]) for frame in self.buffer.window.frames]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"mode": "all"}, "mode must be one of newest, ring, got 'all'"),
        ({"capacity": 0}, "capacity must be an integer from 1 to 256, got 0"),
        ({"capacity": True}, "capacity must be an integer from 1 to 256, got True"),
        ({"max_side": 8.0}, r"max_side must be an integer from 16 to 4096, got 8\.0"),
    ],
)
def test_invalid_declarations_are_refused(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}$"):
        VideoInput(**arguments)


def test_only_the_newest_frame_is_kept() -> None:
    given = Given()
    publisher = given.buffer.start_publisher()
    given.put(publisher, 1, 2, 3)
    assert given.seen == [3]
    newest = given.buffer.window.newest
    assert newest is not None
    assert (newest.seq, newest.publisher, newest.media_ns, newest.arrived_ns) == (2, 1, 30, 300)
    assert len(given.windows) == 4, "one for the start and for each frame"


def test_a_ring_keeps_the_newest_frames_in_order() -> None:
    given = Given(mode="ring", capacity=3)
    given.put(given.buffer.start_publisher(), 1, 2)
    assert given.seen == [1, 2]
    given.put(1, 3, 4, 5)
    assert given.seen == [3, 4, 5]
    window = given.buffer.window
    assert [frame.seq for frame in window.after(3)] == [4]
    assert [frame.seq for frame in window.after(-1)] == [2, 3, 4], "the gap shows the dropped frames"


def test_before_the_first_frame_there_is_none() -> None:
    window = Given().buffer.window
    assert (window.frames, window.newest, window.live, window.age_s) == ((), None, False, float("inf"))


def test_the_last_frame_stays_when_the_publisher_ends() -> None:
    given = Given()
    publisher = given.buffer.start_publisher()
    given.put(publisher, 7)
    assert given.buffer.window.live
    given.buffer.end_publisher(publisher)
    assert not given.windows[-1].live and given.seen == [7]
    given.put(publisher, 8)
    assert given.seen == [7] and given.buffer.statistics() == (1, 1), "what comes late is dropped"
    assert 0 < given.buffer.window.age_s < float("inf")


def test_frames_of_a_replaced_publisher_are_dropped() -> None:
    given = Given()
    first = given.buffer.start_publisher()
    given.put(first, 1)
    second = given.buffer.start_publisher()
    given.put(first, 2)
    assert given.seen == [1] and given.buffer.window.live
    given.put(second, 3)
    reported = len(given.windows)
    given.buffer.end_publisher(first)
    assert given.buffer.window.live and len(given.windows) == reported
    newest = given.buffer.window.newest
    assert newest is not None and (newest.publisher, newest.seq) == (2, 1)


def test_dropped_frames_are_counted() -> None:
    given = Given()
    given.buffer.drop()
    given.put(given.buffer.start_publisher(), 1)
    assert given.buffer.statistics() == (1, 1)


def test_an_earlier_window_does_not_change() -> None:
    given = Given(mode="ring")
    given.put(given.buffer.start_publisher(), 1)
    before = given.buffer.window
    given.put(1, 2)
    assert len(before.frames) == 1


def test_a_message_shares_frames_instead_of_copying_them() -> None:
    frame = InputFrame(pixels(), 0, 1, 0, 0)
    window = VideoWindow((frame,), live=True)
    inbox = Inbox()
    inbox.put_nowait(Action("a", {"video": window, "frames": [frame]}))
    (message,) = inbox.drain_nowait()
    assert isinstance(message, Action)
    assert message.conditioning["video"] is window and message.conditioning["frames"][0] is frame
    assert copy.deepcopy(frame) is frame


def test_a_shared_frame_cannot_be_written_to() -> None:
    frame = InputFrame(pixels(), 0, 1, 0, 0)
    with pytest.raises(ValueError, match="read-only"):
        frame.pixels[0, 0, 0] = 1


def test_frames_are_compared_by_identity_and_not_pixel_by_pixel() -> None:
    one, other = (InputFrame(pixels(), 0, 1, 0, 0) for _ in range(2))
    assert same_value({"video": one}, {"video": one})
    assert not same_value({"video": one}, {"video": other})
