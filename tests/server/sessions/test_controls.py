from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from realtime_engine import Action, Inbox, InboxMsg
from realtime_engine.infra.control_log import UNRECORDED, SessionLog
from realtime_engine.infra.controls import HOLD_TIMEOUT_S, ControlGroup
from realtime_engine.infra.controls.schema import PresentedMessage
from realtime_engine.infra.video_input import VideoBuffer, VideoInput
from realtime_engine.server.sessions.controls import ControlHooks, SessionControls
from realtime_engine.testing import ManualClock

from ..support import CONTROLS, in_process, message, paint_demo, until

FRAME = {"epoch": 1, "seq": 2, "index": 0, "presented": 5.5}
KEY_DOWN = {"seq": 0, "kind": "key_down", "code": "KeyW"}


class Bench:
    """Session controls, and what they put, broadcast and report."""

    def __init__(
        self,
        clock: ManualClock | None = None,
        put: Callable[[InboxMsg], None] | None = None,
        video: VideoBuffer | None = None,
        log: SessionLog = UNRECORDED,
        **demo: Any,
    ) -> None:
        self.actions: list[Action] = []
        self.broadcasts: list[Any] = []
        self.activities = 0
        self.inputs = 0
        self.presented: list[PresentedMessage] = []
        hooks = ControlHooks(
            put=put or self.actions.append,  # type: ignore[arg-type]
            broadcast=self.broadcasts.append,
            on_activity=self._on_activity,
            on_input=self._on_input,
            on_presented=self._on_presented,
        )
        state = ControlGroup(CONTROLS, clock) if clock is not None else ControlGroup(CONTROLS)
        self.controls = SessionControls(paint_demo(**demo), "s", state, hooks, video=video, log=log)

    def receive(self, text: str) -> list[str]:
        return [json.dumps(reply) for reply in self.controls.receive(text)]

    def _on_input(self) -> None:
        self.inputs += 1

    def _on_activity(self) -> None:
        self.activities += 1

    def _on_presented(self, message: PresentedMessage) -> list[dict[str, Any]]:
        self.presented.append(message)
        return [{"type": "timing"}]


async def test_each_message_becomes_an_action_at_once() -> None:
    bench = Bench()
    assert bench.receive(message("controls", seq=4, keys=["KeyW"], edges=[KEY_DOWN])) == []
    bench.receive(message("controls", seq=5, keys=[]))
    first, second = bench.actions
    assert first.session_id == "s" and first.conditioning["forward"] == 1.0 and first.action_id == 4
    assert [edge["code"] for edge in first.events] == ["KeyW"]
    assert second.conditioning["forward"] == 0.0 and second.events == () and second.action_id == 5
    bench.controls.close()


async def test_pings_and_refused_messages_become_no_action() -> None:
    bench = Bench()
    assert '"pong"' in bench.receive(message("ping", seq=1))[0]
    assert '"error"' in bench.receive("{")[0]
    assert '"bad_message"' in bench.receive(message("controls", seq=-1, keys=["KeyW"]))[0]
    assert bench.actions == [] and bench.activities == 3


async def test_the_valid_part_of_a_message_becomes_an_action() -> None:
    bench = Bench()
    replies = bench.receive(message("controls", seq=1, keys=["KeyW"], pointer={"x": None}, fields={"seed": -1}))
    assert [json.loads(reply)["error"]["field"] for reply in replies] == ["pointer.x", "seed"]
    (action,) = bench.actions
    assert (action.conditioning["forward"], action.conditioning["seed"], action.action_id) == (1.0, 0, 1)
    bench.controls.close()


async def test_presented_frames_are_no_control_and_no_activity() -> None:
    bench = Bench()
    bench.receive(message("controls", seq=1, keys=["KeyW"]))
    before = bench.controls.state.next_expiry_ns, len(bench.actions), bench.activities
    report = message("presented", seq=2, clock={"offset": 1, "uncertainty": 1}, frames=[FRAME])
    assert bench.receive(report) == ['{"type": "timing"}']
    assert bench.presented[0].frames[0].presented == 5.5
    assert (bench.controls.state.next_expiry_ns, len(bench.actions), bench.activities) == before
    bench.controls.close()


async def test_a_failing_to_conditioning_is_reported_and_consumes_no_edge() -> None:
    bench = Bench()
    bench.receive(message("controls", seq=1, fields={"prompt": "raise"}, edges=[KEY_DOWN]))
    (error,) = bench.broadcasts
    assert error["type"] == "error" and error["seq"] == 1 and "KeyError" in error["error"]["detail"]
    assert bench.actions == []
    bench.receive(message("controls", seq=2, fields={"prompt": "good"}))
    assert [edge["code"] for edge in bench.actions[0].events] == ["KeyW"]


async def test_conditioning_that_the_inbox_refuses_is_reported() -> None:
    bench = Bench(put=Inbox().put_nowait, to_conditioning=lambda window: 5)
    bench.receive(message("controls", seq=1))
    assert "to_conditioning of demo 'paint' must return a mapping" in bench.broadcasts[0]["error"]["detail"]


async def test_a_release_is_an_action() -> None:
    bench = Bench()
    bench.controls.release(0)
    assert bench.actions == []
    bench.receive(message("controls", seq=1, keys=["KeyW"]))
    bench.controls.release(0)
    assert bench.actions[-1].conditioning["forward"] == 0.0
    assert [edge["kind"] for edge in bench.actions[-1].events] == ["key_up"]
    bench.controls.close()


async def test_silence_releases_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock(10**9)
    monkeypatch.setattr("realtime_engine.server.sessions.controls.MONOTONIC", clock)
    bench = Bench(clock)
    bench.receive(message("controls", seq=1, keys=["KeyW"]))
    timer = bench.controls._expiry
    assert timer is not None
    clock.advance(3)
    bench.controls._expire()
    timer.cancel()
    assert bench.actions[-1].conditioning["forward"] == 0.0 and bench.controls._expiry is None


async def test_closed_controls_send_no_action() -> None:
    bench = Bench()
    bench.controls.close()
    bench.receive(message("controls", seq=1, keys=["KeyW"]))
    assert bench.actions == []


async def test_an_error_that_each_video_frame_repeats_is_broadcast_once() -> None:
    bench = Bench(to_conditioning=lambda window: 1 / 0)
    for _ in range(3):
        bench.controls.send_action()
    assert len(bench.broadcasts) == 1
    bench.receive(message("controls", seq=1))
    bench.controls.send_action()
    assert [error["seq"] for error in bench.broadcasts] == [None, 1], "each message gets its own error"


async def test_each_video_frame_becomes_an_action_at_once() -> None:
    buffer = VideoBuffer(VideoInput(), lambda: bench.controls.send_action())
    bench = Bench(video=buffer, to_conditioning=lambda window: {"video": window.video}, video_input=True)
    publisher = buffer.start_publisher()
    buffer.put(publisher, np.zeros((2, 2, 3), np.uint8), media_ns=0, arrived_ns=1)
    buffer.end_publisher(publisher)
    bench.receive(message("controls", seq=5))
    windows = [action.conditioning["video"] for action in bench.actions]
    assert [(window.live, len(window.frames)) for window in windows] == [(True, 0), (True, 1), (False, 1), (False, 1)]
    assert [action.action_id for action in bench.actions] == [None, None, None, 5]
    bench.controls.close()


async def test_the_fields_of_a_reset_are_used_at_once_and_kept_if_it_is_accepted() -> None:
    for accepted, kept in ((True, 3), (False, 0)):
        bench = Bench()
        assert bench.controls.stage_reset({"seed": 3})["seed"] == 3
        bench.controls.send_initial_action()
        assert bench.actions[-1].conditioning["seed"] == 3
        bench.controls.finish_reset(accepted=accepted)
        assert bench.actions[-1].conditioning["seed"] == bench.controls.state.window().field_values["seed"] == kept


class Notes(SessionLog):
    """A log that records its calls in a list; ``put`` is an action that was put."""

    def __init__(self) -> None:
        self.notes: list[Any] = []

    def on_message(self, message: Any, controller: int = 0) -> None:
        self.notes.append((message.type, message.seq, *message.fields))

    def record(self, kind: str, controller: int = 0, **more: Any) -> None:
        self.notes.append(kind)

    def on_action(self) -> None:
        self.notes.append("acting")

    def on_reset_reply(self, accepted: bool) -> None:
        self.notes.append(("begun", accepted))

    def on_put(self, action: InboxMsg) -> None:
        self.notes.append("put")


def logged(clock: ManualClock) -> tuple[SessionControls, list[Any]]:
    log = Notes()
    return Bench(clock, log.on_put, log=log).controls, log.notes


async def test_a_message_is_logged_before_its_action_without_what_is_refused() -> None:
    controls, notes = logged(ManualClock())
    controls.receive(message("controls", seq=4, keys=["KeyW"]))
    controls.receive(message("ping", seq=5, t=1.0))
    controls.receive(message("controls", seq=-6, keys=["KeyW"]))
    controls.receive(message("controls", seq=7, fields={"prompt": "raise", "seed": "many"}))
    assert notes == [("controls", 4), "acting", "put", ("controls", 7, "prompt")]  # to_conditioning fails
    controls.close()


async def test_a_release_by_silence_is_logged_when_it_takes_effect() -> None:
    clock = ManualClock()
    controls, notes = logged(clock)
    controls.receive(message("controls", seq=1, keys=["KeyW"]))
    clock.advance(HOLD_TIMEOUT_S)
    controls.receive(message("controls", seq=2, keys=["KeyS"]))
    controls.release(0)
    first = [("controls", 1), "acting", "put"]
    assert notes == [*first, "release", ("controls", 2), "acting", "put", "release", "acting", "put"]
    controls.close()


async def test_a_reset_is_logged_with_its_reply() -> None:
    controls, notes = logged(ManualClock())
    controls.stage_reset({"seed": 3})
    controls.send_initial_action()
    controls.finish_reset(accepted=True)
    controls.finish_reset(accepted=True)  # of an attach: no reset is staged
    assert notes == ["reset", "act", "acting", "put", ("begun", True), "acting", "put"]
    controls.close()


async def test_a_control_log_is_written_only_if_configured(tmp_path: Path) -> None:
    async with in_process() as served:
        await served.create(seed=1)
        assert served.runtime.host.outbox.__class__.__name__ == "Outbox"
    async with in_process(record_controls=str(tmp_path / "logs")) as served:
        owned = await served.create(seed=1)
        session = served.session(owned)
        with session.media.frames.subscribe() as viewer:
            await viewer.next()
        await owned.request("DELETE", "self")
        await until(lambda: session.ended.is_set())
    (path,) = sorted((tmp_path / "logs").iterdir())
    assert path.name.startswith("paint-") and owned.id in path.name
    assert '"type":"end"' in path.read_text().splitlines()[-1]


async def test_messages_that_change_or_hold_something_are_input() -> None:
    bench = Bench()
    for seq, members, inputs in (
        (1, {"keys": []}, 0),
        (2, {"keys": ["KeyW"]}, 1),
        (3, {"keys": ["KeyW"]}, 2),
        (4, {"keys": []}, 3),
        (5, {"keys": []}, 3),
        (6, {"keys": [], "edges": [{"kind": "key_down", "seq": 9, "code": "KeyW"}]}, 4),
        (7, {"keys": [], "fields": {"prompt": "ice"}}, 5),
    ):
        bench.receive(message("controls", seq=seq, **members))
        assert bench.inputs == inputs
    bench.receive(message("ping", seq=8, t=0.0))
    assert bench.inputs == 5
