"""From what a client says to what the engine is told: at once, so that the next step sees the newest state."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from ...core.clock import MONOTONIC, NS_PER_S
from ...core.errors import describe
from ...core.loglimit import LogLimiter
from ...core.messages import Action, InboxMsg
from ...infra.control_log import UNRECORDED, SessionLog
from ...infra.controls import ControlState, error_message
from ...infra.controls.fields import StagedFields
from ...infra.controls.parsing import Control, MessageRefused, parse_message
from ...infra.controls.schema import PresentedMessage
from ...infra.demo import Demo
from ...infra.video_input import VideoBuffer
from ..problems import Problem, pointer

_log = LogLimiter(logging.getLogger(__name__), MONOTONIC)


class SessionControls:
    """One session's controls. Belongs to one event loop.

    The engine's inbox keeps only the newest state until the next step, which is all that late latching takes: each
    message becomes an Action when it arrives.

    Args:
        put: takes a message for the engine.
        tell: takes a message for all clients of the session.
        on_heard: told of each message that shows that somebody is there.
        on_presented: takes in what a page tells of frames, which is no control; returns the replies.
        video: what a client sends; ``None`` if the demo takes none. Whoever changes it calls :meth:`act`, as a message
            would.
        log: where it is written down what was told.
    """

    def __init__(
        self,
        demo: Demo,
        session_id: str,
        state: ControlState,
        *,
        put: Callable[[InboxMsg], None],
        tell: Callable[[Mapping[str, Any]], None],
        on_heard: Callable[[], None],
        on_presented: Callable[[PresentedMessage], list[dict[str, Any]]],
        video: VideoBuffer | None = None,
        log: SessionLog = UNRECORDED,
    ) -> None:
        self.state = state
        self.state.on_release = lambda: log.record("release")
        self._log = log
        self._demo = demo
        self._session_id = session_id
        self._put = put
        self._tell = tell
        self._on_heard = on_heard
        self._on_presented = on_presented
        self._video = video
        self._complaint: dict[str, Any] | None = None
        self._anew: tuple[Mapping[str, Any], StagedFields] | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._closed = False

    def receive(self, message: str | Mapping[str, Any]) -> list[dict[str, Any]]:
        """Take a client's message in, let the engine know, and return the replies. Never raises."""
        try:
            parsed = parse_message(message)
        except MessageRefused as refusal:
            self._on_heard()
            return refusal.replies()
        return self._on_presented(parsed) if isinstance(parsed, PresentedMessage) else self._obey(parsed)

    def receive_text(self, text: str) -> list[str]:
        """As :meth:`receive`, text to texts."""
        return [json.dumps(reply) for reply in self.receive(text)]

    def act(self) -> None:
        """Tell the engine what is held now, and what has happened since the last time."""
        if self._closed:
            return
        window = self.state.window(self._anew[1] if self._anew is not None else None)
        if self._video is not None:
            window = replace(window, video=self._video.window)
        try:
            conditioning = self._demo.to_conditioning(window)
            edges = self.state.take_edges()
            self._log.on_action()
            self._put(Action(self._session_id, conditioning, edges, window.action_id))
        except Exception as error:  # the demo's own code may raise anything
            _log.error("to_conditioning failed", error, self._session_id)
            detail = f"the demo could not use this input: {describe(error)}"
            complaint = error_message("bad_message", detail, seq=window.action_id)
            if complaint != self._complaint:  # a camera would repeat it with each frame
                self._tell(complaint)
            self._complaint = complaint

    def begin_anew(self, values: Mapping[str, Any], staged: StagedFields) -> None:
        """The engine is to begin anew with these fields, which are not in force before :meth:`has_begun`."""
        self._anew = values, staged
        self._log.record("act")
        self.act()  # a new epoch begins without conditioning

    def has_begun(self, accepted: bool) -> None:
        """The engine has begun anew, or it has refused to: then the fields are what they were."""
        if self._anew is None:
            return
        (values, _), self._anew = self._anew, None
        self._log.on_reset_reply(accepted)
        for reply in self.state.update_fields(values) if accepted else ():  # a message since may rule them out
            self._tell(reply)
        self.act()

    def release_all(self) -> None:
        """Nobody is connected any more: let go of what is held."""
        if self.state.next_expiry_ns is not None:
            self.state.release_all()
            self.act()

    def close(self) -> None:
        """Tell the engine nothing more."""
        self._closed = True
        if self._expiry is not None:
            self._expiry.cancel()

    def _obey(self, message: Control) -> list[dict[str, Any]]:
        self._on_heard()
        try:
            replies = self.state.apply(message)
        except MessageRefused as refusal:
            replies = refusal.replies()
        if not replies:  # neither refused nor a ping
            self._log.on_message(message)
            self.act()
        self._arm()
        return replies

    def _arm(self) -> None:
        expiry_ns = self.state.next_expiry_ns
        if expiry_ns is None or self._expiry is not None or self._closed:
            return
        seconds = max(expiry_ns - MONOTONIC.now_ns(), 0) / NS_PER_S
        self._expiry = asyncio.get_running_loop().call_later(seconds, self._expire)

    def _expire(self) -> None:
        self._expiry = None
        expiry_ns = self.state.next_expiry_ns
        if expiry_ns is not None and MONOTONIC.now_ns() >= expiry_ns:
            self.act()  # which finds that everything was let go of
        self._arm()


logger = logging.getLogger(__name__)


def stage_fields(state: ControlState, values: Mapping[str, Any]) -> StagedFields:
    """Check typed fields; nothing changes. Errors: :class:`Problem` (422) that names each field."""
    try:
        return state.stage_fields(values)
    except MessageRefused as refusal:
        refusals = [reply["error"] for reply in refusal.replies()]
    raise _invalid([(_pointer(refused["field"]), refused["detail"]) for refused in refusals])


def context_of(demo: Demo, fields: BaseModel | None) -> Mapping[str, Any]:
    """The engine's context for these fields. Errors: :class:`Problem` (422, 500)."""
    missing = demo.missing_context(fields)
    if missing:
        raise _invalid([(pointer("context", name), "is required") for name in missing])
    try:
        return demo.attach_context(fields)
    except ValueError as error:
        raise _invalid([(pointer("context"), str(error))]) from error
    except Exception as error:  # the demo's own code may raise anything
        logger.exception("the context function of demo %r failed", demo.name)
        raise Problem("engine-failed", describe(error)) from error


def _pointer(field: str | None) -> str:
    return pointer("context", *(field.split(".") if field else ()))


def _invalid(errors: list[tuple[str, str]]) -> Problem:
    detail = "; ".join(f"{place.rpartition('/')[2]}: {text}" for place, text in errors)
    return Problem("invalid-context", detail, errors=errors)
