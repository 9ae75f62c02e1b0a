"""Replays a control log as messages to an engine."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from ...core.clock import Wakeup
from ...core.errors import describe
from ...core.messages import Action, Attach, InboxMsg, Reset
from ..control_log import ControlLog, Entry, LogError
from ..controls.fields import StagedFields
from ..controls.group import ControlGroup, TooManyControllers
from ..controls.parsing import MessageRefused, parse_message
from ..controls.schema import PresentedMessage
from ..demo import Demo
from ..video_input import VideoBuffer

_log = logging.getLogger(__name__)

_SILENT = ("end", "ping", "presented")


class Replay:
    """The messages of one session, from its log. Not thread-safe.

    Holds do not expire by time: the log contains their expiry as ``release``.

    Args:
        demo: the demo.
        log: the log. A log without ``attach`` starts with ``fields``.
        session_id: id of the session in the messages.
        rate_hz: chunks per second.
        fields: typed fields as a client would send them. They override the initial fields of the log.

    Raises:
        ValueError: the demo refuses ``fields``, or requires further ones.
        LogError: the demo refuses the fields of the log.
    """

    def __init__(
        self, demo: Demo, log: ControlLog, session_id: str, *, rate_hz: float, fields: Mapping[str, Any] | None = None
    ) -> None:
        self._demo = demo
        self._session_id = session_id
        self._rate_hz = rate_hz
        self._entries = deque(log.entries)
        if not any(entry.kind == "attach" for entry in self._entries):
            self._entries.extendleft((Entry(0.0, {"type": "act"}, 0), Entry(0.0, {"type": "attach"}, 0)))
        begin = next(entry for entry in self._entries if entry.kind == "attach")
        try:
            self._state = ControlGroup(demo.controls, _StoppedClock(), drawn=begin.message.get("drawn"))
        except (ValidationError, TypeError, ValueError) as error:
            raise LogError(f"line {begin.line}: drawn: {describe(error)}") from error
        self._staged: StagedFields | None = None
        video = demo.takes_video
        self._video = None if video is None else VideoBuffer(video, _ignore)
        given = {**begin.message.get("fields", {}), **(fields or {})}
        self._set_fields(given)
        missing = demo.missing_context(self._state.window().fields)
        if missing:
            raise ValueError(f"demo {demo.name!r} cannot start without {', '.join(missing)}")

    @property
    def fields(self) -> dict[str, Any]:
        """Current values of all typed fields."""
        return self._state.window().field_values

    def due(self, next_chunk: int, emitted: int) -> list[InboxMsg]:
        """Remove and return the messages that precede the next step.

        Args:
            next_chunk: number of the chunk that the step begins.
            emitted: number of emitted chunks. A pipelined engine has begun more, which a reset discards.
        """
        messages: list[InboxMsg] = []
        while self._entries:
            entry = self._entries[0]
            first = entry.first_chunk(self._rate_hz)
            if first > (emitted if entry.kind == "reset" else next_chunk):
                break
            self._entries.popleft()
            messages += self._messages_of(entry)
        return messages

    def _messages_of(self, entry: Entry) -> list[InboxMsg]:
        kind, message = entry.kind, entry.message
        if kind in _SILENT:
            return []
        if kind == "attach":
            return [Attach(self._session_id, self._context(self._state.window().fields))]
        if kind == "reset":
            self._staged = self._stage(message.get("fields", {}), entry)
            return [Reset(self._session_id, self._context(self._state.window(self._staged).fields))]
        if kind == "begun":
            self._commit_reset(accepted=message.get("accepted") is not False)
        elif kind == "join":
            self._join(entry)
        elif kind != "act":
            self._check_joined(entry)
            self._apply(entry)
        return self._act()

    def _join(self, entry: Entry) -> None:
        try:
            self._state.join(entry.controller)
        except (TooManyControllers, ValueError) as error:
            raise LogError(f"line {entry.line}: {error}") from error

    def _check_joined(self, entry: Entry) -> None:
        if entry.controller not in self._state.slots:
            raise LogError(f"line {entry.line}: controller {entry.controller} has not joined")

    def _apply(self, entry: Entry) -> None:
        if entry.kind == "release":
            self._state.release(entry.controller)
            return
        if entry.kind == "leave":
            self._state.leave(entry.controller)
            return
        try:
            message = parse_message(entry.message)
            if not isinstance(message, PresentedMessage):
                self._state.apply(message, entry.controller)
        except MessageRefused as refusal:
            raise LogError(f"line {entry.line}: demo {self._demo.name!r} refuses it: {refusal}") from refusal

    def _commit_reset(self, accepted: bool) -> None:
        staged, self._staged = self._staged, None
        if accepted and staged is not None:
            self._state.update_fields(staged.given)

    def _act(self) -> list[InboxMsg]:
        window = self._state.window(self._staged)
        if self._video is not None:
            window = replace(window, video=self._video.window)
        try:
            conditioning = self._demo.conditioning(window)
        except Exception as error:  # code of the demo may raise anything; the server ignores the input, too
            _log.warning("to_conditioning of the demo failed: %s", describe(error))
            return []
        return [Action(self._session_id, conditioning, self._state.take_edges(), window.action_id)]

    def _context(self, fields: Any) -> Mapping[str, Any]:
        return self._demo.attach_context(fields)

    def _set_fields(self, values: Mapping[str, Any]) -> None:
        try:
            self._state.stage_fields(values)
        except MessageRefused as refusal:
            problems = "; ".join(f"{problem.field}: {problem.detail}" for problem in refusal.problems)
            raise ValueError(f"demo {self._demo.name!r} refuses fields: {problems}") from refusal
        self._state.update_fields(values)

    def _stage(self, values: Mapping[str, Any], entry: Entry) -> StagedFields:
        try:
            return self._state.stage_fields(values)
        except MessageRefused as refusal:
            raise LogError(f"line {entry.line}: fields: {refusal}") from refusal


class _StoppedClock:
    """A clock that does not advance, so that holds do not expire."""

    def now_ns(self) -> int:
        return 0

    def wait(self, wakeup: Wakeup, until_ns: int | None) -> None:
        wakeup.wait()

    def yield_now(self) -> None:
        """No other thread waits for this one."""


def _ignore() -> None:
    """A replay has no incoming video."""
