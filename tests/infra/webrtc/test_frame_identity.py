from __future__ import annotations

import json

import pytest

from realtime_engine.infra.frame import FrameId
from realtime_engine.infra.webrtc.frame_identity import FrameInfo, frame_message, parse_frame_message


def test_a_message_names_the_frame_and_its_rtp_timestamp() -> None:
    text = frame_message(4_000_000_000, FrameId("s", epoch=1, seq=20, frame_index=3, action_id=77))
    assert json.loads(text) == {
        "v": 1, "type": "frame", "epoch": 1, "seq": 20, "index": 3, "action_seq": 77, "rtp": 4_000_000_000
    }  # fmt: skip
    assert parse_frame_message(text) == FrameInfo(epoch=1, seq=20, index=3, action_seq=77, rtp=4_000_000_000)


@pytest.mark.parametrize("text", ["", "no json", "[]", "7", '{"v":1,"type":"pong"}', '{"v":2,"type":"frame"}', "{}"])
def test_other_messages_are_left_alone(text: str) -> None:
    assert parse_frame_message(text) is None
