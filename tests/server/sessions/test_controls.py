from typing import Any

import numpy as np

from realtime_engine import Action, Inbox
from realtime_engine.infra.controls import ControlState
from realtime_engine.infra.controls.schema import PresentedMessage
from realtime_engine.infra.video_input import VideoBuffer, VideoInput
from realtime_engine.server.sessions.controls import SessionControls
from realtime_engine.testing import ManualClock

from ..support import CONTROLS, message, paint_demo

FRAME = {"epoch": 1, "seq": 2, "index": 0, "presented": 5.5}


class Desk:
    """SessionControls with both its ends laid open."""

    def __init__(
        self, clock: ManualClock | None = None, put: Any = None, video: VideoBuffer | None = None, **demo: Any
    ) -> None:
        self.put: list[Action] = []
        self.told: list[dict[str, Any]] = []
        self.heard = 0
        self.presented: list[PresentedMessage] = []
        state = ControlState(CONTROLS, clock) if clock is not None else ControlState(CONTROLS)
        self.steering = SessionControls(
            paint_demo(**demo),
            "s",
            state,
            put=put or self.put.append,
            tell=self.told.append,
            on_heard=self._hear,
            on_presented=self._present,
            video=video,
        )

    def _hear(self) -> None:
        self.heard += 1

    def _present(self, message: PresentedMessage) -> list[dict[str, Any]]:
        self.presented.append(message)
        return [{"type": "timing"}]


async def test_each_message_is_an_action_at_once() -> None:
    desk = Desk()
    edges = [{"seq": 0, "kind": "key_down", "code": "KeyW"}]
    assert desk.steering.receive_text(message("controls", seq=4, keys=["KeyW"], edges=edges)) == []
    desk.steering.receive_text(message("controls", seq=5, keys=[]))
    first, second = desk.put
    assert first.session_id == "s" and first.conditioning["forward"] == 1.0 and first.action_id == 4
    assert [edge["code"] for edge in first.events] == ["KeyW"]
    assert second.conditioning["forward"] == 0.0 and second.events == () and second.action_id == 5
    desk.steering.close()


async def test_pings_and_refused_messages_make_none() -> None:
    desk = Desk()
    assert '"pong"' in desk.steering.receive_text(message("ping", seq=1))[0]
    assert '"error"' in desk.steering.receive_text("{")[0]
    assert '"bad_field"' in desk.steering.receive_text(message("controls", seq=1, fields={"seed": -1}))[0]
    assert desk.put == []


async def test_what_was_presented_is_no_control_and_shows_nobody() -> None:
    desk = Desk()
    desk.steering.receive_text(message("controls", seq=1, keys=["KeyW"]))
    expiry_ns, put, heard = desk.steering.state.next_expiry_ns, len(desk.put), desk.heard
    told = message("presented", seq=2, clock={"offset": 1, "uncertainty": 1}, frames=[FRAME])
    assert desk.steering.receive_text(told) == ['{"type": "timing"}']
    assert desk.presented[0].frames[0].presented == 5.5
    assert (desk.steering.state.next_expiry_ns, len(desk.put), desk.heard) == (expiry_ns, put, heard)
    desk.steering.close()


async def test_a_failing_to_conditioning_is_told_and_takes_no_edge() -> None:
    desk = Desk()
    edges = [{"seq": 0, "kind": "key_down", "code": "KeyW"}]
    desk.steering.receive_text(message("controls", seq=1, fields={"prompt": "raise"}, edges=edges))
    (told,) = desk.told
    assert told["type"] == "error" and told["seq"] == 1 and "KeyError" in told["error"]["detail"]
    assert desk.put == []
    desk.steering.receive_text(message("controls", seq=2, fields={"prompt": "good"}))
    assert [edge["code"] for edge in desk.put[0].events] == ["KeyW"]


async def test_conditioning_that_the_engine_cannot_take_is_told_too() -> None:
    desk = Desk(put=Inbox().put_nowait, to_conditioning=lambda window: 5)
    desk.steering.receive_text(message("controls", seq=1))
    assert "Action.conditioning must be a mapping" in desk.told[0]["error"]["detail"]


async def test_what_is_held_is_released_when_the_last_client_leaves() -> None:
    desk = Desk()
    desk.steering.release_all()
    assert desk.put == []
    desk.steering.receive_text(message("controls", seq=1, keys=["KeyW"]))
    desk.steering.release_all()
    assert desk.put[-1].conditioning["forward"] == 0.0
    assert [edge["kind"] for edge in desk.put[-1].events] == ["key_up"]
    desk.steering.close()


async def test_silence_releases_by_itself(monkeypatch: Any) -> None:
    clock = ManualClock(10**9)
    monkeypatch.setattr("realtime_engine.server.sessions.controls.MONOTONIC", clock)
    desk = Desk(clock)
    desk.steering.receive_text(message("controls", seq=1, keys=["KeyW"]))
    timer = desk.steering._expiry
    assert timer is not None
    clock.advance(3)
    desk.steering._expire()
    timer.cancel()
    assert desk.put[-1].conditioning["forward"] == 0.0 and desk.steering._expiry is None


async def test_nothing_is_said_after_the_end() -> None:
    desk = Desk()
    desk.steering.close()
    desk.steering.receive_text(message("controls", seq=1, keys=["KeyW"]))
    assert desk.put == []


async def test_a_camera_does_not_repeat_what_is_wrong_with_each_frame() -> None:
    desk = Desk(to_conditioning=lambda window: 1 / 0)
    for _ in range(3):
        desk.steering.act()
    assert len(desk.told) == 1
    desk.steering.receive_text(message("controls", seq=1))
    desk.steering.act()
    assert [told["seq"] for told in desk.told] == [None, 1], "each message is answered"


async def test_a_frame_of_the_camera_is_an_action_at_once() -> None:
    buffer = VideoBuffer(VideoInput(), lambda: desk.steering.act())
    desk = Desk(video=buffer, to_conditioning=lambda window: {"video": window.video}, video_input=True)
    publisher = buffer.start_publisher()
    buffer.put(publisher, np.zeros((2, 2, 3), np.uint8), media_ns=0, arrived_ns=1)
    buffer.end_publisher(publisher)
    desk.steering.receive_text(message("controls", seq=5))
    seen = [(action.conditioning["video"].live, len(action.conditioning["video"].frames)) for action in desk.put]
    assert seen == [(True, 0), (True, 1), (False, 1), (False, 1)]
    assert [action.action_id for action in desk.put] == [None, None, None, 5]
    desk.steering.close()
