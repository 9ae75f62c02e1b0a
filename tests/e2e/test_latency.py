"""Frame times by stage, from the key to the pixel, in a real browser."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from urllib.request import urlopen

import pytest
from playwright.sync_api import expect

from realtime_engine.infra.telemetry.timing import PATH, STAGES

from .conftest import Opener
from .maze import MazeServer
from .walker import Walker

UNKNOWN_OF_MJPEG = {"send", "network", "decode", "present"}
SAMPLE = re.compile(r"^realtime_engine_frame_(stage_seconds_\w+|records_total)\{(.*)\} (\S+)$", re.MULTILINE)


def read(server: MazeServer) -> dict[tuple[str, str], float]:
    """Totals by name and labels."""
    with urlopen(server.url + "metrics", timeout=60) as answer:
        return {(name, labels): float(value) for name, labels, value in SAMPLE.findall(answer.read().decode())}


def press_until_reported(walker: Walker) -> None:
    """Press a few times, until the statistics appear, about once a second."""
    page = walker.page
    page.click("#stats-toggle")
    page.locator("#stage").focus()
    for _ in range(4):
        with walker.holding("KeyE"):
            page.wait_for_timeout(100)
        page.wait_for_timeout(60)
    expect(page.locator('[data-stage="key_to_pixel"] td').first).to_have_text(re.compile(r"^\d+\.\d$"))


@pytest.mark.parametrize("transport", ["webrtc", "webcodecs", "mjpeg"])
def test_the_stages_of_a_frame_make_up_its_whole_time(
    server: MazeServer, visit: Opener, transport: str, tmp_path: Path
) -> None:
    before = read(server)
    walker = visit(server, f"?transport={transport}").until_live()
    press_until_reported(walker)
    grown = {key: value - before.get(key, 0.0) for key, value in read(server).items()}

    def total(kind: str, stage: str) -> float:
        return grown.get((f"stage_seconds_{kind}", f'stage="{stage}",transport="{transport}"'), 0.0)

    counted = {stage.name for stage in STAGES if total("count", stage.name) > 0}
    assert counted == {stage.name for stage in STAGES} - (UNKNOWN_OF_MJPEG if transport == "mjpeg" else set())
    parts = [stage.name for stage in PATH if not stage.of_input]
    if transport == "mjpeg":
        parts = [*(name for name in parts if name not in UNKNOWN_OF_MJPEG), "delivery"]
    assert {total("count", name) for name in parts} == {grown["records_total", 'outcome="joined"']}
    assert sum(total("sum", name) for name in parts) == pytest.approx(total("sum", "step_to_pixel"), rel=0.01)
    assert grown["records_total", 'outcome="implausible"'] == 0, "the clocks are synchronized"

    with walker.page.expect_download() as saved:
        walker.page.click("#trace")
    saved.value.save_as(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    drawn = Counter(event["cat"] for event in events if event["ph"] == "X")
    assert set(drawn) == {stage.name for stage in PATH} & counted
    inputs = [event["ph"] for event in events if event.get("name") == "input"]
    assert inputs.count("s") == inputs.count("f") >= 3
