"""One session: its controls, its frames and its viewers."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from ...core.clock import MONOTONIC, NS_PER_S
from ...core.messages import (
    ActiveChanged,
    Attach,
    Attached,
    Detach,
    Detached,
    Failed,
    Finished,
    Rejected,
    RejectionCode,
    Reset,
    ResetDone,
    SessionEvent,
    SetActive,
)
from ...infra.controls import ControlGroup, event_message, turn_message
from ...infra.controls.group import TooManyControllers
from ...infra.conversion import Converter
from ...infra.video_input import VideoBuffer
from ..counters import Counts
from ..problems import Problem
from ..resources import ServerResources
from .access import Invitation, Member, Role, SessionAccess
from .controls import ControlHooks, SessionControls
from .engine_requests import EngineRequests, RequestRefused, SessionOver, resolve
from .hud import Hud
from .idle_timeout import IdleTimer
from .media import SessionMedia
from .packet_feeds import record_presented
from .peers import ControlConnections, Publishers
from .pump import Pump, PumpHooks
from .run_state import PauseReason, RunState
from .stage_statistics import SessionStages
from .takeover import TakeOver

logger = logging.getLogger(__name__)


class DemoSession:
    """A session, from :meth:`attach` until the engine has detached it. Belongs to one event loop.

    Args:
        resources: what all sessions of the server share.
        state: the controllers, and the fields that the session starts with.
        on_ended: called when all parts of the session are closed.

    Attributes:
        id: its public identifier.
        access: its owner, invitations and members.
        epoch: grows with each reset; 0 before the engine has admitted the session.
        started_ns: when the engine has admitted the session, in monotonic nanoseconds; ``None`` before.
        end_reason: why the server has ended the session; empty if it has not.
        ended: set once the session publishes nothing more.
        connections: its control connections.
        idle: pauses and ends it when it is idle.
        run_state: whether the engine steps it.
        publishers: the senders of its input video; ``None`` if the demo takes no video.
        stages: the work of the model's stages for it.
        media: its frames and their viewers.
        controls: its control state, and the actions made of it.
        takeover: the requests of other clients to become its owner.
    """

    def __init__(
        self, resources: ServerResources, state: ControlGroup, on_ended: Callable[[DemoSession], None]
    ) -> None:
        config = resources.config
        self.id = secrets.token_urlsafe(9)
        self.access = SessionAccess(self.id, MONOTONIC)
        self.epoch = 0
        self.started_ns: int | None = None
        self.end_reason = ""
        self.ended = asyncio.Event()
        self.connections = ControlConnections(self._on_connected, self._greeting)
        self.run_state = RunState(self._send_active, config.stall_timeout_s)
        self.idle = IdleTimer(
            grace_s=config.viewer_grace_s,
            timeout_s=config.idle_timeout_s,
            reconnect_s=config.reconnect_timeout_s,
            on_wanted=self._on_frames_wanted,
            on_timeout=self._on_idle_timeout,
            clock=MONOTONIC,
        )
        self.takeover = TakeOver(
            self.access,
            self.connections.broadcast,
            self._on_transferred,
            absent_s=config.reconnect_timeout_s,
            idle_s=config.idle_timeout_s,
            clock=MONOTONIC,
        )
        self.stages = SessionStages(resources.monitor, self.id)
        self.media = SessionMedia(resources, self.id, self.idle, self.connections)
        self.publishers = self._make_publishers(resources)
        self.controls = self._make_controls(resources, state)
        self._hud = Hud(resources.demo.style.hud, self.connections.broadcast, MONOTONIC)
        self._pump = self._make_pump(resources)
        self._requests = EngineRequests(resources.inbox.put_nowait, config.stall_timeout_s)
        self._on_ended = on_ended
        self._reconnect_ns = round(config.reconnect_timeout_s * NS_PER_S)
        self._reset_lock = asyncio.Lock()
        self._turn_end: tuple[int, bool] | None = None
        self._takes_input = resources.demo.takes_input
        self._input_ns = MONOTONIC.now_ns()
        self._on_next_input: Callable[[], None] | None = None
        self._ending = False
        self._task: asyncio.Task[None] | None = None

    @property
    def token(self) -> str:
        """The secret that the client which has created it presents."""
        return self.access.creator.token

    @property
    def is_ending(self) -> bool:
        """Whether it has ended or is about to."""
        return self._ending or self.ended.is_set()

    @property
    def stalled_s(self) -> float:
        """Seconds for which the engine has owed the session a reply or a chunk; 0 if it owes neither."""
        if not self._is_owed():
            return 0.0
        return (MONOTONIC.now_ns() - max(self._requests.sent_ns, self._pump.last_message_ns)) / NS_PER_S

    def counts(self) -> Counts:
        """Totals of the session so far."""
        counts = self.media.counts().plus(self._pump.counts())
        return counts if self.publishers is None else counts.plus(self.publishers.counts())

    def receive(self, message: str | Mapping[str, Any], member: Member | None = None) -> list[dict[str, Any]]:
        """Handle a control message of a client, by default the owner, and return the replies. Never raises."""
        member = member or self.access.owner
        if member.role < Role.CONTROLLER:
            return self.controls.receive_from_viewer(message)
        member.seen_ns = MONOTONIC.now_ns()
        try:
            slot = self._slot_of(member)
        except TooManyControllers as error:
            return self.controls.receive_from_viewer(message, str(error))
        return self.controls.receive(message, slot)

    def receiver_for(self, member: Member) -> Callable[[str], list[str]]:
        """The function that handles the text messages of a client and returns the replies as text."""
        return lambda text: [json.dumps(reply) for reply in self.receive(text, member)]

    def join(self, invitation: Invitation) -> Member:
        """Let a client join by an invitation.

        Raises:
            InvitationOver: as :meth:`SessionAccess.join`.
        """
        member = self.access.join(invitation)
        self.idle.on_guest()
        return member

    def leave(self, member: Member) -> None:
        """The page of a client is closed or reloaded; that of the owner ends the session unless it comes back."""
        if member.role is Role.OWNER:
            self.takeover.on_owner_left(True)
            self.idle.on_left()
        else:
            self._free_slot(member)
            self.takeover.withdraw(member)

    def revoke(self, invitation_id: str) -> None:
        """Revoke an invitation: those who have joined by it lose their access at once. Idempotent."""
        for member in self.access.revoke(invitation_id):
            self._free_slot(member)
            self.takeover.withdraw(member)

    # -- requests of the owner

    async def attach(self, context: Mapping[str, Any]) -> None:
        """Ask the engine to admit the session.

        Raises:
            RequestRefused: the engine refused it.
            SessionOver: the engine ended.
            Problem: the engine does not respond (503); the session is ended.
        """
        self._task = asyncio.create_task(self._run(), name=f"session {self.id}")
        self.controls.record_attach()
        self._requests.send(Attach(self.id, context))
        self.controls.send_initial_action()  # the first step needs the fields
        try:
            await self._requests.result(self._requests.attached)
        except Problem:
            self.end()
            raise
        self.started_ns = self._input_ns = MONOTONIC.now_ns()
        self.idle.start()

    async def reset(self, values: Mapping[str, Any]) -> None:
        """Start a new epoch with these fields changed; no frame of an older epoch is published after the return.

        Raises:
            Problem: the fields are invalid (422) or the demo's context function failed (500), and nothing has changed;
                or the engine does not respond (503), and may still reset the session.
            RequestRefused: the engine refused it, and nothing has changed.
            SessionOver: the session has ended.
        """
        async with self._reset_lock:
            await self._requests.wait_done(self._requests.reset)  # an earlier one, whose caller timed out
            self._check_alive()
            self._on_input()
            context = self.controls.stage_reset(values)
            self._requests.send(Reset(self.id, context))
            self.controls.send_initial_action()
            await self._requests.result(self._requests.reset)

    async def set_paused(self, paused: bool) -> None:
        """Pause the session for its clients, or resume it.

        Raises:
            SessionOver: the session has ended.
            Problem: the engine does not respond (503).
        """
        self._check_alive()
        self.run_state.set_paused(PauseReason.CLIENT, paused)
        await self.run_state.wait_settled()
        self._check_alive()
        self._broadcast(ActiveChanged(self.id, not paused, epoch=self.epoch))

    @property
    def last_input_ns(self) -> int | None:
        """The last input, in monotonic nanoseconds; ``None`` if the demo takes none, so that there is no idleness."""
        return self._input_ns if self._takes_input else None

    def announce_turn_end(self, end: tuple[int, bool] | None, on_input: Callable[[], None]) -> None:
        """Inform the clients of the session when its turn ends.

        Args:
            end: when, in monotonic nanoseconds, and whether that is for want of input; ``None`` if it has no end.
            on_input: called at the next input, in the latter case.
        """
        self._on_next_input = on_input if end is not None and end[1] else None
        if end != self._turn_end:
            self._turn_end = end
            self.connections.broadcast(self._turn_message() or turn_message(None))

    def end(self, reason: str = "") -> None:
        """Ask the engine to detach the session, which counts as ended from now on. Idempotent.

        Args:
            reason: why the server ends it, for its clients.
        """
        if not self._ending:
            self._ending = True
            self.end_reason = reason
            self.idle.close()
            self.controls.close()
            self._requests.send(Detach(self.id))

    async def wait_ended(self, timeout_s: float) -> None:
        """Wait until all of its parts are closed, for ``timeout_s`` seconds at most."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=timeout_s)

    def close_streams(self) -> None:
        """End all streams to viewers, whatever the engine does."""
        self.media.close_streams()
        self.ended.set()

    # -- construction

    def _make_publishers(self, resources: ServerResources) -> Publishers | None:
        declared = resources.demo.takes_video
        if declared is None:
            return None
        buffer = VideoBuffer(declared, lambda: self.controls.send_action())
        return Publishers(buffer, self._on_video, resources.config.ice, resources.pool)

    def _make_controls(self, resources: ServerResources, state: ControlGroup) -> SessionControls:
        hooks = ControlHooks(
            put=resources.inbox.put_nowait,
            broadcast=self.connections.broadcast,
            on_activity=self.idle.on_activity,
            on_input=self._on_input,
            on_presented=functools.partial(record_presented, self.media.latency, self.stages.statistics),
        )
        video = None if self.publishers is None else self.publishers.video
        log = resources.open_log(self.id)
        return SessionControls(resources.demo, self.id, state, hooks, video=video, log=log)

    def _make_pump(self, resources: ServerResources) -> Pump:
        frames = resources.demo.frames
        return Pump(
            resources.outbox.session(self.id),
            self.media.frames,
            Converter(frames.layout, frames.value_range, resources.copies),
            resources.pool,
            fps=resources.fps,
            budget_ms=resources.config.media_age_budget_ms,
            chunk_shape=resources.manifest.chunk_shape,
            hooks=PumpHooks(
                on_event=self._on_event,
                on_credit=self._on_credit,
                on_publish=self.media.on_published,
                on_stats=self._hud.on_chunk,
            ),
        )

    # -- the session's task

    async def _run(self) -> None:
        error = "the engine has ended"
        has_final_event = False
        try:
            has_final_event = await self._pump.run()
        except Exception:
            logger.exception("session %s failed", self.id)
            error = "internal server error"
            self._requests.send(Detach(self.id))
        finally:
            if not has_final_event:
                self._broadcast(Failed(self.id, error, fatal=True, epoch=self.epoch))
            await self._close()

    async def _close(self) -> None:
        self._ending = True
        self.idle.close()
        self.controls.close()
        self.run_state.close()
        self._requests.cancel_all()
        self.close_streams()
        if self.publishers is not None:
            await self.publishers.close()
        await self.media.close()
        logger.info("session %s ended", self.id)
        self._on_ended(self)

    # -- events of the engine

    def _on_event(self, event: SessionEvent) -> bool:
        """Handle an event of the engine; false if it is the session's last."""
        if isinstance(event, (Attached, ResetDone)):
            self._on_epoch(event)
        elif isinstance(event, Finished):
            self.run_state.finished = True
        elif isinstance(event, ActiveChanged):
            self.run_state.on_reply()
            return True  # clients are informed of their own pauses only, by set_paused
        elif isinstance(event, Rejected):
            return self._on_rejected(event)
        self._broadcast(event)
        if isinstance(event, Failed) and event.fatal:
            resolve(self._requests.attached, RequestRefused(event.error, RejectionCode.MODEL_ERROR))
            resolve(self._requests.reset, SessionOver(event.error))
            return False
        return not isinstance(event, Detached)

    def _on_epoch(self, event: Attached | ResetDone) -> None:
        self.epoch = event.epoch
        self.run_state.finished = False
        self.controls.finish_reset(accepted=True)
        resolve(self._requests.attached if isinstance(event, Attached) else self._requests.reset, None)

    def _on_rejected(self, event: Rejected) -> bool:
        refused = RequestRefused(event.reason, event.code)
        if resolve(self._requests.attached, refused):
            return False
        self.controls.finish_reset(accepted=False)
        if resolve(self._requests.reset, refused):
            self._broadcast(event)
        return True

    def _on_credit(self, credit: bool) -> None:
        self.run_state.set_paused(PauseReason.AHEAD, not credit)

    # -- events of the session's parts

    def _on_connected(self, member: Member, connected: bool) -> None:
        if self.is_ending:
            return
        member.seen_ns = MONOTONIC.now_ns()
        if member.role is Role.OWNER and connected:
            self.takeover.on_owner_left(False)
        if not connected and member.slot is not None:
            self.controls.release(member.slot)
        self._review_presence()

    def _review_presence(self) -> None:
        """Inform the idle timer of the controllers that are connected."""
        controllers = {member for member in self.connections.members if member.role >= Role.CONTROLLER}
        self.idle.on_shared(bool(controllers - {self.access.owner}))
        if bool(controllers) != self.idle.is_connected:
            self.idle.on_connected(bool(controllers))

    def _on_transferred(self, former: Member, owner: Member) -> None:
        logger.info("session %s was taken over", self.id)
        self.idle.on_activity()
        self._review_presence()

    def _slot_of(self, member: Member) -> int:
        """The slot of a controller, which gets one if it has none.

        Raises:
            TooManyControllers: all slots are taken by controllers that are connected.
        """
        if member.slot is None:
            for other in self.access.members:
                if not other.is_connected and MONOTONIC.now_ns() - other.seen_ns >= self._reconnect_ns:
                    self._free_slot(other)
            member.slot = self.controls.join()
        return member.slot

    def _free_slot(self, member: Member) -> None:
        if member.slot is not None and member.role is not Role.OWNER:
            self.controls.leave(member.slot)
            member.slot = None

    def _on_input(self) -> None:
        self._input_ns = MONOTONIC.now_ns()
        on_input, self._on_next_input = self._on_next_input, None
        if on_input is not None:
            on_input()

    def _on_video(self) -> None:
        self.idle.on_activity()
        self._on_input()

    def _on_frames_wanted(self, wanted: bool) -> None:
        self.run_state.set_paused(PauseReason.UNWATCHED, not wanted)

    def _on_idle_timeout(self) -> None:
        cause = "its page was closed" if self.idle.has_left else "it is idle"
        logger.info("session %s ends, because %s", self.id, cause)
        self.end("it was idle")

    def _send_active(self, active: bool) -> None:
        if not self.is_ending:
            self._requests.send(SetActive(self.id, active))

    # -- helpers

    def _is_owed(self) -> bool:
        is_stepped = bool(self.epoch) and self.run_state.is_stepped
        return self._requests.is_pending or self._ending or not self.run_state.is_settled or is_stepped

    def _check_alive(self) -> None:
        if self.is_ending:
            raise SessionOver

    def _greeting(self, member: Member) -> list[dict[str, Any]]:
        turn = self._turn_message()
        asked = self.takeover.pending() if member.role is Role.OWNER else []
        return asked if turn is None else [turn, *asked]

    def _turn_message(self) -> dict[str, Any] | None:
        if self._turn_end is None:
            return None
        end_ns, is_idle = self._turn_end
        return turn_message((end_ns - MONOTONIC.now_ns()) / NS_PER_S, "idle" if is_idle else "turn")

    def _broadcast(self, event: SessionEvent) -> None:
        self.connections.broadcast(event_message(event))
