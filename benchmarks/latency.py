"""How long is it from a key press to the pixel that shows it, in a real browser?

    python benchmarks/latency.py [--presses 24] [--rounds 5] [--quick] [--json FILE]

A 640x360 model that makes one frame at a time, 30 a second, counts key presses into a barcode. Our server shows it on
our page, by WebRTC, by WebCodecs and as MJPEG; beside it, in the same run, the plain aiortc server shows the same
pictures: a track on ``next_timestamp``, default encoders. Chromium presses keys at random phases and reads the barcode
out of each frame that it shows. A time runs from the key event's own time stamp to the moment at which the frame is
handed to the compositor. Each way is measured in turn, over several rounds; each round starts its own Chromium.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

from latency_rig import ours, plain
from latency_rig.process import ServerProcess

FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --autoplay-policy=no-user-gesture-required"
).split()
PROBE = Path(__file__).parent / "latency_rig" / "probe.js"
WARM_UP_FRAMES = 30
PAUSE_MS = (20, 120)
BUDGET_MS = {"p50": 50, "p95": 80}


@dataclass
class Way:
    """One way from the key to the pixel. ``beside`` is what its times are compared to."""

    name: str
    server: str
    codec: str
    query: str
    beside: str
    times_ms: list[float] = field(default_factory=list)
    pressed: int = 0
    frames: int = 0
    misread: int = 0

    def quantile(self, share: float) -> float:
        return float(np.quantile(self.times_ms, share)) if self.times_ms else float("nan")


def ways() -> list[Way]:
    return [
        Way("aiortc VP8", "plain", "VP8", "", "aiortc VP8"),
        Way("aiortc H264", "plain", "H264", "", "aiortc H264"),
        Way("ours, WebRTC VP8", "ours", "VP8", "?transport=webrtc", "aiortc VP8"),
        Way("ours, WebRTC H264", "ours", "H264", "?transport=webrtc", "aiortc H264"),
        Way("ours, WebCodecs", "ours", "H264", "?transport=webcodecs", "aiortc H264"),
        Way("ours, MJPEG", "ours", "VP8", "?transport=mjpeg", "aiortc VP8"),
    ]


def press_keys(page: Page, way: Way, presses: int) -> None:
    for _ in range(presses):
        page.wait_for_timeout(random.uniform(*PAUSE_MS))
        page.keyboard.press("KeyW")
        answer = page.evaluate("probe.answer")
        way.pressed += 1
        if answer is not None:
            way.times_ms.append(answer)


def measure(browser: Browser, way: Way, url: str, presses: int) -> None:
    context = browser.new_context(bypass_csp=True)
    page = context.new_page()
    page.add_init_script(f"({PROBE.read_text()})({json.dumps({'codec': way.codec})})")
    page.goto(url + way.query)
    page.wait_for_function(f"probe.frames >= {WARM_UP_FRAMES}", timeout=20_000)
    press_keys(page, way, presses)
    seen = page.evaluate("({frames: probe.frames, misread: probe.misread})")
    way.frames += seen["frames"]
    way.misread += seen["misread"]
    context.close()


def run(rounds: int, presses: int) -> tuple[list[Way], float]:
    """All ways, and the milliseconds of a step of our engine."""
    measured = ways()
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("there is no chromium on the PATH: install it (on Debian: apt-get install chromium)")
    with ServerProcess(ours.main) as our_server, ServerProcess(plain.main) as plain_server, sync_playwright() as driver:
        urls = {"ours": our_server.url, "plain": plain_server.url}
        for number in range(rounds):
            browser = driver.chromium.launch(executable_path=chromium, args=FLAGS)
            for way in measured if number % 2 == 0 else reversed(measured):
                measure(browser, way, urls[way.server], presses)
            browser.close()
    return measured, our_server.model_ms


def report(measured: list[Way], model_ms: float) -> list[dict[str, Any]]:
    """A row for each way."""
    medians = {way.name: way.quantile(0.5) for way in measured}
    rows = []
    for way in measured:
        numbers = asdict(way)
        times = numbers.pop("times_ms")
        numbers |= {"answered": len(times), "p50_ms": way.quantile(0.5), "p95_ms": way.quantile(0.95)}
        numbers |= {"max_ms": way.quantile(1.0), "ratio": way.quantile(0.5) / medians[way.beside]}
        rows.append(numbers | {"model_ms": model_ms if way.server == "ours" else 0.0, "times_ms": times})
    return rows


def print_table(rows: list[dict[str, Any]], model_ms: float, load: tuple[float, float], seconds: float) -> None:
    print("key to pixel in Chromium, 640x360 at 30 fps, one frame a chunk")
    print(f"{'ms':<20}{'p50':>8}{'p95':>8}{'max':>8}{'answered':>11}{'misread':>9}{'p50 to aiortc':>16}")
    for row in rows:
        answered = f"{row['answered']}/{row['pressed']}"
        print(
            f"{row['name']:<20}{row['p50_ms']:>8.1f}{row['p95_ms']:>8.1f}{row['max_ms']:>8.1f}"
            f"{answered:>11}{row['misread']:>9}{row['ratio']:>16.2f}"
        )
    print(
        f"model {model_ms:.2f} ms a step; load average {load[0]:.1f} before, {load[1]:.1f} after; took {seconds:.0f} s"
    )
    budget = " and ".join(f"{name} <= {most} ms" for name, most in BUDGET_MS.items())
    print(f"budget by WebRTC, beyond the model's time: {budget}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--presses", type=int, default=24, help="key presses a way and round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one round of 15 presses")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there, each press included")
    options = parser.parse_args()
    rounds, presses = (1, 15) if options.quick else (options.rounds, options.presses)
    began, load_before = time.monotonic(), os.getloadavg()[0]
    measured, model_ms = run(rounds, presses)
    load = (load_before, os.getloadavg()[0])
    rows = report(measured, model_ms)
    print_table(rows, model_ms, load, time.monotonic() - began)
    if options.json is not None:
        whole = {"rounds": rounds, "presses": presses, "load_average": load, "budget_ms": BUDGET_MS, "rows": rows}
        options.json.write_text(json.dumps(whole, indent=2) + "\n")


if __name__ == "__main__":
    main()
