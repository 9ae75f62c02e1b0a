"""``run``: runs a demo without a server, from a control log to a video file."""

from __future__ import annotations

import json
import math
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from ..core.clock import MONOTONIC, NS_PER_S
from ..core.messages import Chunk
from ..core.statistics import RollingWindow, WindowSnapshot
from ..infra.atomic_file import atomic_file
from ..infra.control_log import ControlLog
from ..infra.conversion import Converter
from ..infra.demo import Demo
from ..infra.frame import FrameId
from ..infra.mp4 import Mp4Writer
from ..infra.offline import FilmDifference, OfflineSession, Replay, RunFailed, compare_films
from ..infra.runner_io import output_path, write_stats
from ..infra.telemetry.perfetto import chrome_trace
from ..infra.telemetry.timing import FrameRecord, Milestone
from .console import CommandError, build_engine, complain, err, file_errors, out

_FAILED = 1
_DEFAULT_S = 10.0
_TRACED = 10_000  # frames; a longer run traces the last ones
_SESSION = "offline"
_MAX_TEXT = 200


@dataclass(frozen=True)
class RunConfig:
    """Settings of a run.

    Attributes:
        controls: control log to replay, as written by ``serve --record-controls``.
        seconds: length of the video; by default that of the log, or 10 without a log.
        out: output folder.
        trace: also write a trace for ui.perfetto.dev.
        compare: reference video; the run fails if a frame differs by more than the two thresholds.
        least_psnr: minimum PSNR in dB of the worst frame.
        least_ssim: minimum SSIM of the worst frame.
        overwrite: replace files of an earlier run.

    Raises:
        ValueError: a setting is invalid; the message names it.
    """

    controls: str | None = None
    seconds: float | None = None
    out: str = "out"
    trace: bool = False
    compare: str | None = None
    least_psnr: float = 40.0
    least_ssim: float = 0.98
    overwrite: bool = False

    def __post_init__(self) -> None:
        if self.seconds is not None and not (math.isfinite(self.seconds) and self.seconds > 0):
            raise ValueError(f"--seconds must be above 0, got {self.seconds!r}")

    def chunks(self, log: ControlLog, rate_hz: float) -> int:
        """Number of chunks of the run."""
        if self.seconds is None and log.entries:
            return max(log.chunks(rate_hz), 1)
        return max(round((self.seconds or _DEFAULT_S) * rate_hz), 1)


def run_demo(
    demo: Demo, config: RunConfig, options: BaseModel | None, fields: Mapping[str, Any], log: ControlLog
) -> int:
    """Write the video, print a summary and return the exit code: 1 if the engine or the comparison fails.

    Raises:
        CommandError: a file, a field or an option cannot be used.
    """
    with file_errors():
        files = _Files(demo, config)
    engine = build_engine(demo, options)
    try:
        with OfflineSession(engine, _SESSION, max_chunks=demo.max_chunks) as session:
            run = _Run(demo, config, session, log, fields)
            run.make(files)
    except RunFailed as error:
        complain(str(error))
        return _FAILED
    except (OSError, ValueError) as error:
        raise CommandError(str(error)) from error
    return _finish(demo, config, files, run, options)


class _Files:
    """The output paths, checked before the run starts."""

    def __init__(self, demo: Demo, config: RunConfig) -> None:
        self.film = output_path(config.out, f"{demo.name}.mp4", overwrite=config.overwrite)
        self.stats = output_path(config.out, f"stats_{demo.name}.json", overwrite=config.overwrite)
        self.trace: Path | None = None
        if config.trace:
            self.trace = output_path(config.out, f"trace_{demo.name}.json", overwrite=config.overwrite)
        if config.compare is not None and not Path(config.compare).is_file():
            raise FileNotFoundError(f"--compare: there is no file {config.compare}")


class _Run:
    """One run: writes the video and collects statistics."""

    def __init__(
        self, demo: Demo, config: RunConfig, session: OfflineSession, log: ControlLog, fields: Mapping[str, Any]
    ) -> None:
        manifest = session.manifest
        self.rate_hz = manifest.rate_hz
        self.fps = Fraction(manifest.rate_hz * manifest.frames_per_chunk).limit_denominator(1001)
        self.replay = Replay(demo, log, _SESSION, rate_hz=self.rate_hz, fields=fields)
        self.wanted = config.chunks(log, self.rate_hz)
        self.chunks = self.frames = 0
        self.size = (0, 0)
        self.wall_s = 0.0
        self.periods, self.steps = RollingWindow(), RollingWindow()
        self._overwrite = config.overwrite
        self._session = session
        self._convert = Converter(demo.frames.layout, demo.frames.value_range)
        self._records: deque[FrameRecord] = deque(maxlen=_TRACED if config.trace else 0)
        self._answered: Any = None

    @property
    def rtf(self) -> float:
        """Real-time factor: 95th percentile of the chunk period, including the encoder, over the chunk duration."""
        return self.periods.snapshot().p95_ns * float(self.rate_hz) / NS_PER_S

    def make(self, files: _Files) -> None:
        """Run the engine and write the video.

        Raises:
            RunFailed: the engine failed.
            OSError: the video cannot be written.
            ValueError: the frames cannot be encoded.
        """
        begin_ns = last_ns = MONOTONIC.now_ns()
        with _progress(self.wanted) as advance, Mp4Writer(files.film, self.fps, overwrite=self._overwrite) as film:
            for chunk in self._session.play(self.replay, self.wanted):
                self._write(chunk, film)
                self.chunks += 1
                now_ns = MONOTONIC.now_ns()
                self.periods.record(now_ns - last_ns)
                self.steps.record(chunk.stamps.step_end - chunk.stamps.step_begin)
                last_ns = now_ns
                self.wall_s = (now_ns - begin_ns) / NS_PER_S
                advance(self)

    def trace(self, title: str) -> dict[str, Any]:
        return chrome_trace(self._records, title)

    def _write(self, chunk: Chunk, film: Mp4Writer) -> None:
        for index, picture in enumerate(self._convert(chunk.output)):
            begin_ns = MONOTONIC.now_ns()
            film.write(picture.pixels)
            self.frames += 1
            self.size = (picture.width, picture.height)
            if self._records.maxlen:
                self._records.append(self._record(chunk, index, begin_ns))

    def _record(self, chunk: Chunk, index: int, begin_ns: int) -> FrameRecord:
        identity = FrameId(chunk.session_id, chunk.epoch, chunk.seq, index, chunk.action_id, chunk.stamps)
        record = FrameRecord(identity, "film", None)
        stamps, times = chunk.stamps, record.times
        times[Milestone.INPUT] = stamps.action_received
        times[Milestone.STEP_BEGIN], times[Milestone.STEP_END] = stamps.step_begin, stamps.step_end
        times[Milestone.EMITTED], times[Milestone.PACED] = stamps.emitted, begin_ns
        times[Milestone.ENCODED] = MONOTONIC.now_ns()
        record.is_answer = stamps.action_received is not None and stamps.action_received != self._answered
        self._answered = stamps.action_received
        return record


def _finish(demo: Demo, config: RunConfig, files: _Files, run: _Run, options: BaseModel | None) -> int:
    stats = _stats(demo, config, run, options)
    failure: str | None = None
    try:
        if config.compare is not None:
            difference = compare_films(files.film, config.compare)
            stats["comparison"] = {"film": config.compare, **asdict(difference)}
            failure = _check_difference(difference, config)
    except (OSError, ValueError) as error:
        failure = str(error)
    try:
        write_stats(files.stats, stats, overwrite=config.overwrite)
        if files.trace is not None:
            with atomic_file(files.trace, overwrite=config.overwrite) as temporary:
                temporary.write_text(json.dumps(run.trace(demo.title)))
    except OSError as error:
        raise CommandError(str(error)) from error
    _print_summary(files, run, stats)
    if failure is not None:
        complain(failure)
        return _FAILED
    return 0


def _check_difference(difference: FilmDifference, config: RunConfig) -> str | None:
    """Why the comparison fails; ``None`` if it passes."""
    psnr, similarity, golden = difference.worst_psnr_db, difference.worst_ssim, config.compare
    if psnr < config.least_psnr:
        frame = difference.worst_frame
        return f"frame {frame} has a PSNR of {psnr:.2f} dB to {golden}, below --least-psnr {config.least_psnr:g}"
    if similarity < config.least_ssim:
        return f"a frame has an SSIM of {similarity:.4f} to {golden}, below --least-ssim {config.least_ssim:g}"
    return None


def _stats(demo: Demo, config: RunConfig, run: _Run, options: BaseModel | None) -> dict[str, Any]:
    fields = {name: value for name, value in run.replay.fields.items() if len(str(value)) <= _MAX_TEXT}
    return {
        "demo": demo.name,
        "options": None if options is None else options.model_dump(mode="json"),
        "fields": fields,
        "controls": config.controls,
        "chunks": run.chunks,
        "frames": run.frames,
        "width": run.size[0],
        "height": run.size[1],
        "fps": run.fps,
        "media_s": run.frames / run.fps,
        "wall_s": run.wall_s,
        "frames_per_second": run.frames / run.wall_s if run.wall_s else None,
        "real_time_factor": run.rtf,
        "chunk_period_ms": _milliseconds(run.periods.snapshot()),
        "step_ms": _milliseconds(run.steps.snapshot()),
    }


def _milliseconds(window: WindowSnapshot) -> dict[str, float]:
    """Statistics of the newest 512 chunks in milliseconds."""
    names = ("min", "p50", "p90", "p95", "p99", "max", "mean")
    return {name: getattr(window, f"{name}_ns") / 1e6 for name in names}


def _print_summary(files: _Files, run: _Run, stats: Mapping[str, Any]) -> None:
    seconds = run.frames / run.fps
    out.print(f"[bold]{escape(str(files.film))}[/]", soft_wrap=True)
    _line("film", f"{run.frames} frames, {run.size[0]}x{run.size[1]}, {float(seconds):.1f} s")
    if run.chunks < run.wanted:
        _line("ended", f"the rollout finished after {run.chunks} of {run.wanted} chunks")
    _line("speed", f"{run.frames / run.wall_s:.0f} fps, real-time factor {run.rtf:.2f} (below 1 keeps up)")
    _line("step", f"{stats['step_ms']['p50']:.2f} ms p50, {stats['step_ms']['p95']:.2f} ms p95")
    comparison = stats.get("comparison")
    if comparison is not None:
        _line("PSNR", f"{_decibels(comparison['psnr_db'])}, worst frame {_decibels(comparison['worst_psnr_db'])}")
        _line("SSIM", f"{comparison['ssim']:.4f}, worst frame {comparison['worst_ssim']:.4f}")
    _line("stats", escape(str(files.stats)))
    if files.trace is not None:
        _line("trace", f"{escape(str(files.trace))} (open it in ui.perfetto.dev)")


def _decibels(value: float) -> str:
    return "identical" if math.isinf(value) else f"{value:.2f} dB"


def _line(name: str, text: str) -> None:
    out.print(f"  {name:7}{text}", soft_wrap=True)


@contextmanager
def _progress(chunks: int) -> Iterator[Any]:
    """A progress bar if standard error is a terminal; yields a function to call after each chunk."""
    columns = (
        BarColumn(),
        TextColumn("{task.completed}/{task.total} chunks  {task.fields[fps]:.0f} fps  RTF {task.fields[rtf]:.2f}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task: TaskID = bar.add_task("run", total=chunks, fps=0.0, rtf=0.0)
        updated = 0.0

        def advance(run: _Run) -> None:
            nonlocal updated
            now = time.monotonic()
            if now - updated < 0.1:
                bar.advance(task)
                return
            updated = now
            bar.update(task, advance=1, fps=run.frames / max(run.wall_s, 1e-9), rtf=run.rtf)

        yield advance
