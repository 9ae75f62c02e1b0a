"""``bench``: measures how many sessions of a demo this machine serves in time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from rich.markup import escape

from ..core.contract import RealtimeInterface
from ..core.errors import describe
from ..infra.atomic_file import atomic_file
from ..infra.demo import Demo
from ..infra.offline import CapacityPoint, draw_capacity, measure_capacity
from ..infra.runner_io import output_path, write_stats
from ..infra.signals import run_async
from .console import CommandError, build_engine, complain, file_errors, out

_FAILED = 1


@dataclass(frozen=True)
class BenchConfig:
    """Settings of a measurement.

    Attributes:
        seconds: duration of the measurement for each number of sessions.
        sessions: maximum number of sessions; by default the maximum of the engine.
        out: output folder.
        overwrite: replace files of an earlier measurement.

    Raises:
        ValueError: a setting is invalid; the message names it.
    """

    seconds: float = 3.0
    sessions: int | None = None
    out: str = "out"
    overwrite: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.seconds) and self.seconds > 0):
            raise ValueError(f"--seconds must be above 0, got {self.seconds!r}")
        if self.sessions is not None and self.sessions < 1:
            raise ValueError(f"--sessions must be 1 or more, got {self.sessions!r}")


def bench_demo(demo: Demo, config: BenchConfig, options: BaseModel | None, fields: Mapping[str, Any]) -> int:
    """Measure, write ``capacity_<demo>.json`` and ``.png``, and return the exit code.

    Raises:
        CommandError: a file, a field or an option cannot be used.
    """
    with file_errors():
        numbers = output_path(config.out, f"capacity_{demo.name}.json", overwrite=config.overwrite)
        picture = output_path(config.out, f"capacity_{demo.name}.png", overwrite=config.overwrite)
    engine = build_engine(demo, options)
    try:
        points = run_async(_measure(demo, engine, config, fields))
    except ValueError as error:
        raise CommandError(str(error)) from error
    except (RuntimeError, asyncio.TimeoutError) as error:
        complain(describe(error))
        return _FAILED
    try:
        _write(demo, options, points, numbers, picture, overwrite=config.overwrite)
    except OSError as error:
        raise CommandError(str(error)) from error
    _conclude(points, engine.manifest().max_sessions, numbers, picture)
    return 0


async def _measure(
    demo: Demo, engine: RealtimeInterface, config: BenchConfig, fields: Mapping[str, Any]
) -> list[CapacityPoint]:
    points: list[CapacityPoint] = []
    async for point in measure_capacity(engine, demo, fields=fields, seconds=config.seconds, most=config.sessions):
        if not points:
            out.print(f"[bold]{escape(demo.title)}[/]: a chunk plays {point.period_ms:.2f} ms")
            out.print("sessions   chunks/s   period p50 / p95 / p99, ms   step, ms    RTF   missed")
        out.print(_row(point), soft_wrap=True)
        points.append(point)
    return points


def _row(point: CapacityPoint) -> str:
    missed = f"{point.misses} ({point.miss_share:.1%})"
    periods = f"{point.p50_ms:9.2f} {point.p95_ms:8.2f} {point.p99_ms:8.2f}"
    row = f"{point.sessions:8} {point.rate_hz:10.1f} {periods} {point.step_ms:11.2f} {point.rtf:6.2f}   {missed}"
    return row if point.is_in_time else f"[red]{row}[/]"


def _write(
    demo: Demo, options: BaseModel | None, points: list[CapacityPoint], numbers: Path, picture: Path, *, overwrite: bool
) -> None:
    rows = [{**asdict(point), "miss_share": point.miss_share, "is_in_time": point.is_in_time} for point in points]
    stats = {
        "demo": demo.name,
        "options": None if options is None else options.model_dump(mode="json"),
        "sessions_in_time": _most_in_time(points),
        "points": rows,
    }
    write_stats(numbers, stats, overwrite=overwrite)
    with atomic_file(picture, overwrite=overwrite) as temporary:
        temporary.write_bytes(draw_capacity(points, f"{demo.title}: sessions on one engine"))


def _most_in_time(points: list[CapacityPoint]) -> int:
    return max((point.sessions for point in points if point.is_in_time), default=0)


def _conclude(points: list[CapacityPoint], capacity: int, numbers: Path, picture: Path) -> None:
    most = _most_in_time(points)
    if points[-1].is_in_time:
        full = most == capacity
        limit = ", the maximum of the engine (see its options)" if full else ""
        out.print(f"in time: {_sessions(most)}{limit}")
    else:
        out.print(f"in time: {_sessions(most)}; late: {_sessions(points[-1].sessions)}")
    out.print(f"{escape(str(numbers))}, {escape(str(picture))}", soft_wrap=True)


def _sessions(count: int) -> str:
    return "1 session" if count == 1 else f"{count} sessions"
