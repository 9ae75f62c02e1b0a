from __future__ import annotations

import pytest

from realtime_engine.infra.webcodecs import Acknowledge, BadMessageError, KeyframeRequest, parse_viewer_message


def test_what_a_viewer_says_is_read() -> None:
    assert parse_viewer_message('{"v": 1, "type": "ack", "number": 7}') == Acknowledge(7)
    assert parse_viewer_message('{"v": 1, "type": "keyframe"}') == KeyframeRequest()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1]",
        '{"type": "keyframe"}',
        '{"v": 2, "type": "keyframe"}',
        '{"v": 1, "type": "dance"}',
        '{"v": 1, "type": "ack"}',
        '{"v": 1, "type": "ack", "number": -1}',
        '{"v": 1, "type": "ack", "number": true}',
        '{"v": 1, "type": "ack", "number": 1.5}',
        '{"v": 1, "type": "keyframe"}' + " " * 300,
    ],
)
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(BadMessageError):
        parse_viewer_message(text)
