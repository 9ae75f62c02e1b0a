"""One session: a player, what they hold, and everybody who watches."""

from __future__ import annotations

import asyncio
import functools
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
    Reset,
    ResetDone,
    SessionEvent,
    SetActive,
)
from ...infra.control_log import UNRECORDED
from ...infra.controls import ControlState, event_message
from ...infra.jpeg import JpegFrame, JpegPublisher
from ...infra.mjpeg import MjpegStream
from ...infra.publisher import FramePublisher
from ...infra.telemetry.frame_latency import FrameLatencyTracker
from ...infra.video_input import VideoBuffer
from ...infra.webrtc import SharedVideo, StreamStats, Tier
from ..counters import Counts
from ..problems import Problem, stalled
from ..resources import ServerResources
from .controls import SessionControls, context_of, stage_fields
from .engine_requests import EngineRequests, Refused, SessionOver, resolve
from .idle_timeout import IdleTracker
from .packet_feeds import PacketFeeds, acknowledge
from .peers import ControlConnections, Publishers, WebRtcViewers
from .pump import Pump
from .recordings import Recordings
from .run_state import PauseReason, RunState

logger = logging.getLogger(__name__)


class DemoSession:
    """Lives from :meth:`attach` until the engine has let go of it. Belongs to one event loop.

    Args:
        state: what its player holds, with the fields that they begin with.
        on_over: called when everything of it has ended.

    Attributes:
        id: public name. token: what its owner shows.
        epoch: grows with each reset; 0 before the engine has admitted it.
        over: set once nothing more is shown.
        receive, receive_text: take a control message in and return the replies.
        joiner: the times of its frames.
        recordings: of what it shows; ``None`` if the server keeps none.
        video_input, publishers: what is sent into it, and who sends it; ``None`` if the demo takes no video.
    """

    def __init__(self, equipment: ServerResources, state: ControlState, on_over: Callable[[DemoSession], None]) -> None:
        demo, config, manifest = equipment.demo, equipment.config, equipment.manifest
        self.id = secrets.token_urlsafe(9)
        self.token = secrets.token_urlsafe(24)
        self.epoch = 0
        self.over = asyncio.Event()
        self._demo = demo
        self._patience_s = config.stall_timeout_s
        self._asking = EngineRequests(equipment.inbox.put_nowait, config.stall_timeout_s)
        self._jpeg, self._pool = equipment.jpeg, equipment.pool
        self._recorder = equipment.recorder
        self._log = UNRECORDED if self._recorder is None else self._recorder.begin(self.id)
        self._resetting = asyncio.Lock()
        self._ending = False
        self._had_last_word = False
        self._finished = False  # the rollout has ended: no chunk comes before a reset
        self._on_over = on_over
        self._snapshot: JpegFrame | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._life: asyncio.Task[None] | None = None
        self.attention = IdleTracker(MONOTONIC.now_ns(), grace_s=config.viewer_grace_s, timeout_s=config.idle_timeout_s)
        self.activity = RunState(self._set_active)
        self.clients = ControlConnections(self._all_left)
        self.joiner = FrameLatencyTracker(equipment.totals)
        taken = demo.takes_video
        self.video_input = None if taken is None else VideoBuffer(taken, lambda: self.steering.act())
        self.steering = SessionControls(
            demo,
            self.id,
            state,
            put=equipment.inbox.put_nowait,
            tell=self.clients.tell,
            on_heard=lambda: self.attention.hear(MONOTONIC.now_ns()),
            on_presented=functools.partial(acknowledge, self.joiner),
            video=self.video_input,
            log=self._log,
        )
        self.receive, self.receive_text = self.steering.receive, self.steering.receive_text
        self.publisher = FramePublisher(self._watched)
        self.jpegs = JpegPublisher(
            self.publisher, equipment.jpeg, equipment.pool, lambda frame: self.joiner.encoded(frame, "mjpeg")
        )
        self.mjpeg = MjpegStream(self.jpegs, config.heartbeat_s)
        fps = manifest.rate_hz * manifest.frames_per_chunk
        self._video = SharedVideo(self.publisher, fps=fps, bitrate=config.bitrate, factory=equipment.encoders)
        self.viewers = WebRtcViewers(self._video, self.clients, self.receive_text, config.ice, self.joiner)
        self.feeds = PacketFeeds(self._video, self.publisher, self.joiner, config.media_age_budget_ms)
        self.recordings: Recordings | None = None
        if equipment.recordings is not None:
            self.recordings = Recordings(
                equipment.recordings,
                self.id,
                self._video,
                equipment.pool,
                attended_ns=self._attended_ns,
                patience_s=config.idle_timeout_s,
            )
        self.publishers: Publishers | None = None
        if self.video_input is not None:
            self.publishers = Publishers(self.video_input, self._hear_publisher, config.ice, equipment.pool)
        self._pump = Pump(
            equipment.outbox.session(self.id),
            manifest,
            demo.frames,
            self.publisher,
            budget_ms=config.media_age_budget_ms,
            on_event=self._hear,
            on_credit=lambda credit: self.activity.hold(PauseReason.AHEAD, not credit),
            pool=equipment.pool,
            copies=equipment.copies,
            on_shown=lambda frame: self.joiner.shown(frame) if self.jpegs.viewers else None,
        )

    @property
    def is_over(self) -> bool:
        """Whether it has ended, or is about to."""
        return self._ending or self.over.is_set()

    @property
    def idle_s(self) -> float:
        """Seconds since somebody watched or steered."""
        return self.attention.idle_ns(MONOTONIC.now_ns()) / NS_PER_S

    @property
    def watching(self) -> int:
        """Viewers now, over all transports."""
        return self.jpegs.viewers + self.viewers.connected + self.feeds.connected

    @property
    def stalled_s(self) -> float:
        """Seconds for which the engine has owed it an answer or a chunk; 0 when it owes nothing."""
        if not self._is_owed():
            return 0.0
        return (MONOTONIC.now_ns() - max(self._asking.asked_ns, self._pump.heard_ns)) / NS_PER_S

    def counts(self) -> Counts:
        pacing, published = self._pump.statistics(), self.publisher.statistics()
        video = (0, 0) if self.video_input is None else self.video_input.statistics()
        counts = Counts(
            published.published,
            pacing.dropped,
            pacing.underruns,
            self.jpegs.encodes,
            video_received=video[0],
            video_dropped=video[1],
        )
        if self.recordings is not None:
            counts = counts._replace(recordings=self.recordings.started, recorded_bytes=self.recordings.bytes)
        return counts.with_video(self.tiers())

    def tiers(self) -> list[tuple[Tier, StreamStats]]:
        """What was counted of each tier of its video; one codec after another."""
        return [(tier, stats) for (_, tier), stats in self._video.stats.items()]

    # -- the life of a session

    async def attach(self, context: Mapping[str, Any]) -> None:
        """Ask the engine for a place.

        Errors: :class:`Refused`, :class:`SessionOver`; :class:`Problem` (503) if it does not answer, and it ends then.
        """
        self._life = asyncio.create_task(self._live(), name=f"session {self.id}")
        state = self.steering.state
        self._log.on_attach(state.given_fields, state.drawn_fields)
        self._asking.ask(Attach(self.id, context))
        self._log.record("act")
        self.steering.act()  # so that the first step knows the fields
        try:
            await self._asking.answer(self._asking.attached)
        except Problem:
            self.begin_end()
            raise
        self._review()

    async def reset(self, values: Mapping[str, Any]) -> None:
        """Start anew with these fields changed; when this returns, no frame of the old epoch is published any more.

        Errors: :class:`Problem` (422, 500) and :class:`Refused` (it goes on as it was), :class:`SessionOver`;
        :class:`Problem` (503) if the engine does not answer, which may yet do it.
        """
        async with self._resetting:
            await self._asking.settled(self._asking.reset)  # an earlier one, that nobody waits for any more
            self._check_alive()
            staged = stage_fields(self.steering.state, values)
            context = context_of(self._demo, self.steering.state.window(staged).fields)
            self._log.record("reset", fields=dict(values))
            self._asking.ask(Reset(self.id, context))
            self.steering.begin_anew(values, staged)
            await self._asking.answer(self._asking.reset)

    async def set_paused(self, paused: bool) -> None:
        """The player pauses it, or lets it run on. Errors: :class:`SessionOver`, :class:`Problem` (503)."""
        self._check_alive()
        self.activity.hold(PauseReason.PLAYER, paused)
        try:
            await asyncio.wait_for(self.activity.settled(), self._patience_s)
        except asyncio.TimeoutError:
            raise stalled() from None
        self._check_alive()
        self._tell(ActiveChanged(self.id, not paused, epoch=self.epoch))

    def begin_end(self) -> None:
        """Ask the engine to let go of it; it counts as over from now on."""
        if not self._ending:
            self._ending = True
            self.steering.close()
            self._asking.ask(Detach(self.id))

    async def ended(self, timeout_s: float) -> None:
        """Return when it is over, or after ``timeout_s`` seconds."""
        if self._life is not None:
            await asyncio.wait({self._life}, timeout=timeout_s)

    def begin_close(self) -> None:
        """End all that is shown, whatever the engine does."""
        self.publisher.close()
        self.over.set()

    def _attended_ns(self) -> int:
        """When somebody last watched or steered, as far as can be told now; recordings do not count."""
        return MONOTONIC.now_ns() if self.watching else self.attention.heard_ns

    def _hear_publisher(self) -> None:
        self.attention.hear(MONOTONIC.now_ns())

    async def picture(self) -> JpegFrame | None:
        """The newest frame as JPEG, encoded once however often it is asked for; ``None`` before the first."""
        self.attention.glance(MONOTONIC.now_ns())
        self._review()
        while (frame := self.publisher.latest) is not None:
            snapshot = self._snapshot
            if snapshot is None or snapshot.id != frame.id:
                loop = asyncio.get_running_loop()
                data = await loop.run_in_executor(self._pool, self._jpeg.encode, frame.pixels)
                snapshot = self._snapshot = JpegFrame(data, frame.id)
            if snapshot.id.epoch >= self.publisher.epoch:  # which a reset may have begun during the encode
                return snapshot
        return None

    # -- within

    async def _live(self) -> None:
        try:
            await self._pump.run()
        except Exception:
            logger.exception("session %s broke", self.id)
            self._asking.ask(Detach(self.id))
        finally:
            if not self._had_last_word:
                self._tell(Failed(self.id, "the engine has ended", fatal=True, epoch=self.epoch))
            self._ending = True
            self.steering.close()
            self.activity.close()
            if self._timer is not None:
                self._timer.cancel()
            self._asking.give_up()
            self.begin_close()
            await self.viewers.close()
            if self.publishers is not None:
                await self.publishers.close()
            await self._video.close()
            if self.recordings is not None:
                await self.recordings.close()
            if self._recorder is not None:
                self._recorder.end(self.id)
            logger.info("session %s is over", self.id)
            self._on_over(self)

    def _hear(self, event: SessionEvent) -> bool:
        """Take note of what the engine says; false when that was its last word."""
        if isinstance(event, (Attached, ResetDone)):
            self.epoch = event.epoch
            self._finished = False
            self.steering.has_begun(accepted=True)
            resolve(self._asking.attached if isinstance(event, Attached) else self._asking.reset, None)
        elif isinstance(event, Finished):
            self._finished = True
        elif isinstance(event, ActiveChanged):
            self.activity.answered()
            return True  # clients are told of what their player does, not of every hold
        elif isinstance(event, Rejected):
            return self._refused(event)
        self._tell(event)
        if isinstance(event, Failed) and event.fatal:
            resolve(self._asking.attached, Refused(event.error))
            resolve(self._asking.reset, SessionOver(event.error))
            self._had_last_word = True
        elif isinstance(event, Detached):
            self._had_last_word = True
        return not self._had_last_word

    def _refused(self, event: Rejected) -> bool:
        refused = Refused(event.reason)
        if resolve(self._asking.attached, refused):
            self._had_last_word = True
            return False
        self.steering.has_begun(accepted=False)
        if resolve(self._asking.reset, refused):
            self._tell(event)
        return True

    def _is_owed(self) -> bool:
        stepped = bool(self.epoch) and self.activity.active and not self._finished
        return self._asking.is_waiting or self._ending or not self.activity.is_settled or stepped

    def _check_alive(self) -> None:
        if self.is_over:
            raise SessionOver

    def _tell(self, event: SessionEvent) -> None:
        self.clients.tell(event_message(event))

    def _all_left(self) -> None:
        if not self.is_over:
            self.steering.release_all()

    def _set_active(self, active: bool) -> None:
        if not self.is_over:
            self._asking.ask(SetActive(self.id, active))

    def _watched(self, watched: bool) -> None:
        self.attention.watch(watched, MONOTONIC.now_ns())
        self._review()

    def _review(self) -> None:
        """Pause it when nobody watches, end it when nobody is there, and look again when that may change."""
        if self._timer is not None:
            self._timer.cancel()
        if self.is_over or not self.epoch:
            return
        now_ns = MONOTONIC.now_ns()
        if self.attention.is_abandoned(now_ns):
            logger.info("nobody attends to session %s any more", self.id)
            self.begin_end()
            return
        self.activity.hold(PauseReason.UNWATCHED, not self.attention.wants_frames(now_ns))
        change_ns = self.attention.next_change_ns(now_ns)
        if change_ns is not None:
            delay_s = (change_ns - now_ns) / NS_PER_S
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._review)
