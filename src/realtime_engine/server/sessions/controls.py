"""The controls of one session: from a client's messages to the engine's actions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from ...core.clock import MONOTONIC, NS_PER_S
from ...core.errors import describe
from ...core.loglimit import LogLimiter
from ...core.messages import Action, InboxMsg
from ...infra.control_log import UNRECORDED, SessionLog
from ...infra.controls import ControlGroup, error_message
from ...infra.controls.fields import StagedFields
from ...infra.controls.parsing import Control, MessageFault, MessageRefused, parse_message, parse_valid_part
from ...infra.controls.schema import PingMessage, PresentedMessage, pong_message
from ...infra.demo import Demo
from ...infra.frame import ActionSeqs
from ...infra.video_input import VideoBuffer
from ..problems import Problem, pointer

logger = logging.getLogger(__name__)

_log = LogLimiter(logger, MONOTONIC)

_MAX_PLAIN_TEXT = 4096  # characters


@dataclass(frozen=True, kw_only=True)
class ControlHooks:
    """Where the controls of a session lead.

    Attributes:
        put: puts an action into the engine's inbox.
        broadcast: sends a message to all clients of the session.
        on_activity: called for each control message, valid or not.
        on_input: called for each message that changes a device or a field, has edges, or holds something.
        on_presented: handles a report of presented frames, which is no control, and returns the replies.
    """

    put: Callable[[InboxMsg], None]
    broadcast: Callable[[Mapping[str, Any]], None]
    on_activity: Callable[[], None]
    on_input: Callable[[], None]
    on_presented: Callable[[PresentedMessage], list[dict[str, Any]]]


class SessionControls:
    """Turns the control messages of one session into actions. Belongs to one event loop.

    Each message becomes an action on arrival. The engine's inbox keeps the newest state until the next step, so that
    a step uses the latest input.

    Args:
        demo: defines the conditioning.
        session_id: the session.
        state: the controllers, and the fields that the session starts with.
        hooks: where the controls lead.
        video: the client's video; ``None`` if the demo takes none. :meth:`send_action` follows each of its changes.
        log: records the messages.

    Attributes:
        state: the controllers.
    """

    def __init__(
        self,
        demo: Demo,
        session_id: str,
        state: ControlGroup,
        hooks: ControlHooks,
        *,
        video: VideoBuffer | None = None,
        log: SessionLog = UNRECORDED,
    ) -> None:
        self.state = state
        self.state.on_release = lambda slot: log.record("release", slot)
        self._demo = demo
        self._session_id = session_id
        self._hooks = hooks
        self._video = video
        self._log = log
        self._last_error: dict[str, Any] | None = None
        self._staged_reset: tuple[Mapping[str, Any], StagedFields] | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._closed = False

    def receive(self, message: str | Mapping[str, Any], slot: int = 0) -> list[dict[str, Any]]:
        """Handle a message of the controller in ``slot`` and return the replies. Never raises."""
        try:
            parsed, faults = parse_valid_part(message)
        except MessageRefused as refusal:
            self._hooks.on_activity()
            return refusal.replies()
        if isinstance(parsed, PresentedMessage):
            return self._hooks.on_presented(parsed)
        return self._apply(parsed, faults, slot)

    def receive_from_viewer(
        self, message: str | Mapping[str, Any], refusal: str = "a viewer of the session does not control it"
    ) -> list[dict[str, Any]]:
        """Handle a message of a client without a slot: a ping or a report of frames. Never raises.

        ``refusal`` is the reply to any other message.
        """
        try:
            parsed = parse_message(message)
        except MessageRefused as refused:
            return refused.replies()
        if isinstance(parsed, PresentedMessage):
            return self._hooks.on_presented(parsed)
        if isinstance(parsed, PingMessage):
            return [pong_message(parsed, MONOTONIC.now_ns())]
        return [error_message("not_allowed", refusal, seq=parsed.seq)]

    def join(self) -> int:
        """Add a controller and return its slot.

        Raises:
            TooManyControllers: the session has as many controllers as it may have.
        """
        slot = self.state.join()
        self._log.record("join", slot)
        self.send_action()
        return slot

    def leave(self, slot: int) -> None:
        """Release what a controller holds, and remove it."""
        self.release(slot)
        self._log.record("leave", slot)
        self.state.leave(slot)
        self.send_action()

    def send_action(self) -> None:
        """Send the engine the current state, and the edges since the last action."""
        if self._closed:
            return
        window = self.state.window(self._staged_reset[1] if self._staged_reset is not None else None)
        if self._video is not None:
            window = replace(window, video=self._video.window)
        try:
            conditioning = self._demo.conditioning(window)
            edges = self.state.take_edges()
            self._log.on_action()
            self._hooks.put(Action(self._session_id, conditioning, edges, window.action_id))
        except Exception as error:  # the demo's own code may raise anything
            _log.error("to_conditioning failed", error, self._session_id)
            self._broadcast_error(f"the demo could not use this input: {describe(error)}", window.action_id)

    def record_attach(self) -> None:
        """Record the fields that the session starts with."""
        self._log.on_attach(self.state.given_fields, self.state.drawn_fields)

    def send_initial_action(self) -> None:
        """Send the first action of an epoch, which starts without conditioning."""
        self._log.record("act")
        self.send_action()

    def stage_reset(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Check the fields of a reset and return the engine's context for it.

        Actions use these fields from now on; they are kept or discarded by :meth:`finish_reset`.

        Raises:
            Problem: the fields are invalid (422), or the demo's context function failed (500). Nothing has changed.
        """
        staged = stage_fields(self.state, values)
        context = make_context(self._demo, self.state.window(staged).fields)
        self._log.record("reset", fields=dict(values))
        self._staged_reset = values, staged
        return context

    def finish_reset(self, *, accepted: bool) -> None:
        """The engine has accepted the staged reset, or refused it, which leaves the fields unchanged."""
        if self._staged_reset is None:
            return
        (values, _), self._staged_reset = self._staged_reset, None
        self._log.on_reset_reply(accepted)
        for reply in self.state.update_fields(values) if accepted else ():  # a later message may contradict them
            self._hooks.broadcast(reply)
        self.send_action()

    def plain_fields(self) -> dict[str, bool | int | float | str]:
        """The fields that a page shows again when it returns: no images and no long texts."""
        values = self.state.window().field_values
        return {
            name: value
            for name, value in values.items()
            if isinstance(value, (bool, int, float)) or (isinstance(value, str) and len(value) <= _MAX_PLAIN_TEXT)
        }

    def release(self, slot: int) -> None:
        """Release the keys, buttons and sticks of a controller."""
        if self.state.release(slot):
            self.send_action()

    def close(self) -> None:
        """Send no more actions."""
        self._closed = True
        if self._expiry is not None:
            self._expiry.cancel()

    def _apply(self, message: Control, faults: tuple[MessageFault, ...], slot: int) -> list[dict[str, Any]]:
        self._hooks.on_activity()
        changes = self.state.changes
        applied = self.state.apply_valid_part(message, faults, slot)
        if self.state.changes != changes or self.state.next_expiry_ns is not None:
            self._hooks.on_input()
        if not isinstance(message, PingMessage):
            self._log.on_message(applied.message, slot)
            self.send_action()
        self._schedule_expiry()
        return applied.replies

    def _broadcast_error(self, detail: str, action_id: int | ActionSeqs | None) -> None:
        """Broadcast an error, unless it repeats the last one: a camera would repeat it with each frame."""
        error = error_message("bad_message", detail, seq=None if isinstance(action_id, ActionSeqs) else action_id)
        if error != self._last_error:
            self._hooks.broadcast(error)
        self._last_error = error

    def _schedule_expiry(self) -> None:
        expiry_ns = self.state.next_expiry_ns
        if expiry_ns is None or self._expiry is not None or self._closed:
            return
        delay_s = max(expiry_ns - MONOTONIC.now_ns(), 0) / NS_PER_S
        self._expiry = asyncio.get_running_loop().call_later(delay_s, self._expire)

    def _expire(self) -> None:
        self._expiry = None
        expiry_ns = self.state.next_expiry_ns
        if expiry_ns is not None and MONOTONIC.now_ns() >= expiry_ns:
            self.send_action()  # the state releases what has expired
        self._schedule_expiry()


def stage_fields(state: ControlGroup, values: Mapping[str, Any]) -> StagedFields:
    """Check typed fields without applying them.

    Raises:
        Problem: fields are invalid (422); names each of them.
    """
    try:
        return state.stage_fields(values)
    except MessageRefused as refusal:
        refusals = [reply["error"] for reply in refusal.replies()]
    raise _invalid_context([(_context_pointer(refused["field"]), refused["detail"]) for refused in refusals])


def make_context(demo: Demo, fields: BaseModel | None) -> Mapping[str, Any]:
    """The engine's context for these fields.

    Raises:
        Problem: a field is missing or refused by the demo (422), or the demo's context function failed (500).
    """
    missing = demo.missing_context(fields)
    if missing:
        raise _invalid_context([(pointer("context", name), "is required") for name in missing])
    try:
        return demo.attach_context(fields)
    except ValueError as error:
        raise _invalid_context([(pointer("context"), str(error))]) from error
    except Exception as error:  # the demo's own code may raise anything
        logger.exception("the context function of demo %r failed", demo.name)
        raise Problem("engine-failed", describe(error)) from error


def _context_pointer(field: str | None) -> str:
    return pointer("context", *(field.split(".") if field else ()))


def _invalid_context(errors: list[tuple[str, str]]) -> Problem:
    detail = "; ".join(f"{place.rpartition('/')[2]}: {text}" for place, text in errors)
    return Problem("invalid-context", detail, errors=errors)
