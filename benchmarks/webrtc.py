"""What does live video cost over WebRTC, and how many can watch, beside plain aiortc?

Sessions of 30 frames per second are sent from one process and received, but not decoded, in another. ``ours`` goes
through realtime_engine.infra; ``at par`` does so at the bitrate that aiortc begins with, to compare like with like;
``aiortc`` is a track of frames with the library's own encoders. CPU is that of the sending process; PSNR is that of
luma, of one viewer in the last two seconds. ``late``: by how many ms the sending event loop was late, 99th percentile.

    python benchmarks/webrtc.py [--quick] [--codecs H264,VP8] [--sizes 640x360,1280x720] [--sessions 1,2,4,8]
                                [--viewers 1,4,8,16] [--seconds 4] [--json FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from webrtc_rig import receiver, sender
from webrtc_rig.sender import FPS, PAR, WAYS, Load

WARM_UP_S = 2.0
ANSWER_S = 60
CPU_BUDGETS = {"H264": 0.4, "VP8": 0.8}
FURTHER_BUDGET = 0.1
CROWD, CROWD_FPS = 16, 0.95 * FPS
HEAD = (
    f"{'size':>9} {'codec':5} {'sessions':>8} {'viewers':>7} {'':7}{'CPU/session':>11} {'ms/frame':>8} "
    f"{'fps':>5} {'least':>5} {'kb/s':>5} {'PSNR':>5} {'late':>5}"
)
CALM_VIEWERS, CALM_MS = 8, 5.0
BUSY_SESSIONS, BUSY_WIDTH, BUSY_FPS = 8, 1280, 25.0


@dataclass
class Row:
    """What one load came to.

    Attributes:
        cpu_percent: of one core, of all sessions together. fps, fps_min: mean and least of all viewers.
        late_ms: by how much the sender's event loop was late, 99th percentile.
    """

    way: str
    codec: str
    size: str
    sessions: int
    viewers: int
    cpu_percent: float
    fps: float
    fps_min: float
    kbps: float
    psnr: float
    late_ms: float

    @property
    def cpu_per_session(self) -> float:
        return self.cpu_percent / self.sessions

    @property
    def ms_per_frame(self) -> float:
        """CPU for a frame of a session, whatever the rate that was reached."""
        return 10 * self.cpu_percent / max(self.sessions * self.fps, 1e-9)


class Child:
    """``main(*arguments, pipe)`` in a process of its own."""

    def __init__(self, main: Any, *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe: Connection
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=main, args=(*arguments, theirs), daemon=True)
        self._process.start()

    def send(self, message: Any) -> None:
        self._pipe.send(message)

    def receive(self) -> Any:
        if not self._pipe.poll(ANSWER_S):
            raise RuntimeError(f"no answer from a process within {ANSWER_S} s")
        return self._pipe.recv()

    def ask(self, message: Any) -> Any:
        self.send(message)
        return self.receive()

    def end(self) -> None:
        self._process.join(5)
        if self._process.is_alive():
            self._process.terminate()


@contextlib.contextmanager
def child(main: Any, *arguments: Any) -> Iterator[Child]:
    one = Child(main, *arguments)
    try:
        yield one
    finally:
        one.end()


def measure(way: str, load: Load, seconds: float) -> Row:
    with child(receiver.main, load) as viewers, child(sender.main, way, load) as sessions:
        viewers.send(sessions.ask(viewers.receive()))
        seeing = viewers.receive()
        time.sleep(WARM_UP_S)
        (begin, cpu, _), seen = sessions.ask(True), viewers.ask(True)
        time.sleep(seconds)
        (end, cpu_after, late_ms), seen_after = sessions.ask(True), viewers.ask(True)
        psnr = viewers.ask(False)
        sessions.send(False)
    elapsed = end - begin
    wanted = load.sessions * load.viewers
    rates = [(after[0] - before[0]) / elapsed for before, after in zip(seen, seen_after, strict=False)]
    rates += [0.0] * (wanted - seeing)
    size = sum(after[1] - before[1] for before, after in zip(seen, seen_after, strict=False))
    return Row(
        way=way,
        codec=load.codec,
        size=f"{load.width}x{load.height}",
        sessions=load.sessions,
        viewers=load.viewers,
        cpu_percent=100 * (cpu_after - cpu) / elapsed,
        fps=sum(rates) / wanted,
        fps_min=min(rates),
        kbps=8 * size / elapsed / wanted / 1000,
        psnr=psnr,
        late_ms=late_ms,
    )


def loads(given: argparse.Namespace) -> Iterator[Load]:
    sessions, viewers = ([int(text) for text in counts.split(",")] for counts in (given.sessions, given.viewers))
    for size in given.sizes.split(","):
        width, height = map(int, size.split("x"))
        for codec in given.codecs.split(","):
            counts = dict.fromkeys([*((count, 1) for count in sessions), *((1, count) for count in viewers)])
            for of_sessions, of_viewers in counts:
                yield Load(codec, width, height, of_sessions, of_viewers)


def remarks(row: Row, rows: list[Row]) -> list[str]:
    """How ``row`` stands to its budgets."""
    like = [other for other in rows if (other.codec, other.size) == (row.codec, row.size)]
    same = {other.way: other for other in like if (other.sessions, other.viewers) == (row.sessions, row.viewers)}
    if row.way == "aiortc":
        return []
    if row.way == PAR:
        pairs = [(one.ms_per_frame / same["aiortc"].ms_per_frame, one.psnr) for one in (same["ours"], row)]
        budget, least = CPU_BUDGETS[row.codec], same["aiortc"].psnr
        held = any(ratio <= budget and psnr >= least for ratio, psnr in pairs)
        told = " or ".join(f"{ratio:.2f} at {psnr - least:+.1f} dB" for ratio, psnr in pairs)
        return [f"CPU of aiortc's: {told} (<= {budget} at >= 0 dB){_mark(held)}"]
    found: list[str] = []
    alone = next((o for o in like if (o.way, o.sessions, o.viewers) == ("ours", 1, 1)), None)
    if alone is not None and row.viewers > 1:
        share = (row.ms_per_frame / alone.ms_per_frame - 1) / (row.viewers - 1)
        found.append(f"further viewer {share:.3f} of the first (<= {FURTHER_BUDGET}){_mark(share <= FURTHER_BUDGET)}")
    if row.sessions * row.viewers == CALM_VIEWERS:
        found.append(f"late by <= {CALM_MS} ms{_mark(row.late_ms <= CALM_MS)}")
    if row.viewers == CROWD:
        found.append(f"all at {CROWD_FPS:.1f} fps{_mark(row.fps_min >= CROWD_FPS)}")
    if row.sessions == BUSY_SESSIONS and row.size.startswith(str(BUSY_WIDTH)):
        found.append(f">= {BUSY_FPS:.0f} fps{_mark(row.fps >= BUSY_FPS)}")
    return found


def _mark(held: bool) -> str:
    return "" if held else " MISSED"


def line(row: Row, rows: list[Row]) -> str:
    remark = "; ".join(remarks(row, rows))
    return (
        f"{row.size:>9} {row.codec:5} {row.sessions:8} {row.viewers:7} {row.way:7}{row.cpu_per_session:10.1f}% "
        f"{row.ms_per_frame:8.2f} {row.fps:5.1f} {row.fps_min:5.1f} {row.kbps:5.0f} {row.psnr:5.1f} "
        f"{row.late_ms:5.1f}  {remark}"
    ).rstrip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="H264 and VP8 at 640x360, 1 and 2 sessions, 4 viewers")
    parser.add_argument("--codecs", default="H264,VP8")
    parser.add_argument("--sizes", default="640x360,1280x720")
    parser.add_argument("--sessions", default="1,2,4,8")
    parser.add_argument("--viewers", default="1,4,8,16")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.quick:
        given.sizes, given.sessions, given.viewers, given.seconds = "640x360", "1,2", "1,4", 2.0
    rows: list[Row] = []
    print(HEAD)
    for load in loads(given):
        measured = [measure(way, load, given.seconds) for way in WAYS if way != PAR or load.viewers == 1]
        rows += measured
        print("\n".join(line(row, rows) for row in measured), flush=True)
    if given.json:
        given.json.write_text(json.dumps([asdict(row) for row in rows], indent=2))


if __name__ == "__main__":
    main()
