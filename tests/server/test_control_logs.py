"""That steering writes down what the engine is told, and not what it is not."""

from __future__ import annotations

from typing import Any

from realtime_engine.core.messages import InboxMsg
from realtime_engine.infra.control_log import SessionLog
from realtime_engine.infra.controls import HOLD_TIMEOUT_S, ControlState
from realtime_engine.server.sessions.controls import SessionControls
from realtime_engine.testing import ManualClock

from .support import CONTROLS, in_process, message, paint_demo, until


class Notes(SessionLog):
    """A log in a list: ``put`` is an action that was put."""

    def __init__(self) -> None:
        self.notes: list[Any] = []

    def on_message(self, message: Any) -> None:
        self.notes.append((message.type, message.seq))

    def record(self, kind: str, **more: Any) -> None:
        self.notes.append(kind)

    def on_action(self) -> None:
        self.notes.append("acting")

    def on_reset_reply(self, accepted: bool) -> None:
        self.notes.append(("begun", accepted))


def steering(notes: Notes, clock: ManualClock) -> SessionControls:
    def put(action: InboxMsg) -> None:
        notes.notes.append("put")

    return SessionControls(
        paint_demo(),
        "s",
        ControlState(CONTROLS, clock),
        put=put,
        tell=lambda reply: None,
        on_heard=lambda: None,
        on_presented=lambda presented: [],
        log=notes,
    )


async def test_a_message_is_noted_before_its_action_and_a_refused_one_is_not() -> None:
    notes = Notes()
    desk = steering(notes, ManualClock())
    desk.receive_text(message("controls", seq=4, keys=["KeyW"]))
    desk.receive_text(message("ping", seq=5, t=1.0))
    desk.receive_text(message("controls", seq=6, fields={"seed": "many"}))
    desk.receive_text(message("controls", seq=7, fields={"prompt": "raise"}))  # the demo itself fails
    assert notes.notes == [("controls", 4), "acting", "put", ("controls", 7)]
    desk.close()


async def test_what_is_let_go_of_for_want_of_messages_is_noted_when_it_is() -> None:
    notes, clock = Notes(), ManualClock()
    desk = steering(notes, clock)
    desk.receive_text(message("controls", seq=1, keys=["KeyW"]))
    clock.advance(HOLD_TIMEOUT_S)
    desk.receive_text(message("controls", seq=2, keys=["KeyS"]))
    desk.release_all()
    first = [("controls", 1), "acting", "put"]
    assert notes.notes == [*first, "release", ("controls", 2), "acting", "put", "release", "acting", "put"]
    desk.close()


async def test_a_reset_is_noted_with_its_answer() -> None:
    notes = Notes()
    desk = steering(notes, ManualClock())
    desk.begin_anew({"seed": 3}, desk.state.stage_fields({"seed": 3}))
    desk.has_begun(accepted=True)
    desk.has_begun(accepted=True)  # a session's first begin: nobody asked for it
    assert notes.notes == ["act", "acting", "put", ("begun", True), "acting", "put"]
    desk.close()


async def test_nothing_is_written_unless_it_is_asked_for(tmp_path: Any) -> None:
    async with in_process() as served:
        await served.take(seed=1)
        assert served.runtime.host.outbox.__class__.__name__ == "Outbox"
    async with in_process(record_controls=str(tmp_path / "logs")) as served:
        place = await served.take(seed=1)
        session = served.session(place)
        with session.publisher.subscribe() as viewer:
            await viewer.next()
        await place.request("DELETE", "self")
        await until(lambda: session.over.is_set())
    (path,) = sorted((tmp_path / "logs").iterdir())
    assert path.name.startswith("paint-") and place.id in path.name
    assert '"type":"end"' in path.read_text().splitlines()[-1]
