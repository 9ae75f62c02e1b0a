from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from PIL import Image

from realtime_engine.integrations.dream.training.card import CARD, CURVES, GRID, NUMBERS, card, curves, write_card
from realtime_engine.integrations.dream.training.evaluation import Report
from realtime_engine.integrations.dream.training.plan import Plan, Progress

REPORT = Report(
    walks=41,
    frames=160,
    pictures=373,
    autoencoder_db=33.14,
    rendering_db=31.27,
    place_cells=0.0123,
    heading_degrees=0.456,
    one_step_db=29.31,
    repeat_db=23.15,
    drift_db={1: 28.87, 100: 21.78},
    drift_cells={1: 0.0171, 100: 0.234},
    in_walls=0.0042,
    turns_right=0.987,
    turns_right_true=0.998,
    edge_ratio=0.76,
    standing_db=47.65,
)
FIGURES = (
    *("41 walks", "160 frames", "373 pictures", "33.1 dB", "31.3 dB", "0.012 cells", "0.46 degrees", "29.3 dB"),
    *("23.1 dB", "+6.2 dB", "| 1 | 28.9 | 0.017 |", "| 100 | 21.8 | 0.234 |", "0.42%", "98.7%", "99.8%"),
    *("frames 80 to 160", "frame 160", "0.76 of", "47.6 dB", "frames 0, 20, 40, 80, 160;"),
)
LOSSES = {
    "dynamics": [0.5, 0.1, 0.02],
    "autoencoder": [0.2, 0.01],
    "rendering": [0.3, 0.02],
    "place": [4.0, 0.3],
    "spread": [-0.1, -0.5],
}
PROGRESS = Progress(dynamics=3000, pictures=16_000, losses=LOSSES, minutes=93.46)
CPU = torch.device("cpu")


def test_every_figure_is_in_the_card() -> None:
    text = card(Plan(seed=5, dynamics_steps=3000, picture_steps=16_000, walkers=384), PROGRESS, REPORT, CPU)
    assert [figure for figure in FIGURES if figure not in text] == []
    assert "1,536,000 pictures (16000 batches of 96)" in text and "1,152,000 short walks" in text
    assert f"93.5 minutes on cpu, {torch.get_num_threads()} threads, torch {torch.__version__}" in text
    assert f"![losses]({CURVES})" in text and f"![walks]({GRID})" in text
    assert "{" not in text and "}" not in text


@pytest.mark.parametrize("name", [name for name, value in asdict(REPORT).items() if isinstance(value, (int, float))])
def test_every_number_of_the_report_changes_the_card(name: str) -> None:
    other = replace(REPORT, **{name: getattr(REPORT, name) * 2})
    assert card(Plan(), PROGRESS, other, CPU) != card(Plan(), PROGRESS, REPORT, CPU)


def test_the_card_says_how_to_repeat_the_training() -> None:
    text = card(Plan(seed=5, dynamics_steps=7, picture_steps=9, bfloat16=False), PROGRESS, REPORT, CPU)
    command = re.search(r"^    (python -m .*)$", text, re.MULTILINE)
    assert command is not None
    assert command[1].endswith("dream.train --seed 5 --dynamics-steps 7 --picture-steps 9 --no-bfloat16")
    assert "bfloat16" not in card(Plan(), PROGRESS, REPORT, CPU)


def test_standing_perfectly_still_is_told_in_words() -> None:
    text = card(Plan(), PROGRESS, replace(REPORT, standing_db=math.inf), CPU)
    assert "| from frame to frame while standing still | the same picture, bit for bit |" in text
    assert "inf" not in text.replace("info", "")


def test_curves_are_xml_with_a_line_for_each_loss_that_is_shown() -> None:
    root = ElementTree.fromstring(curves(LOSSES, 3000, 16_000))
    lines = [element for element in root.iter() if element.tag.endswith("polyline")]
    texts = [element.text or "" for element in root.iter() if element.tag.endswith("text")]
    assert len(lines) == 4 and sum(name in text for text in texts for name in LOSSES) == 4
    assert any("3000 batches of walks, 16000 of pictures" in text for text in texts)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for line, count in zip(lines, (3, 2, 2, 2), strict=True):
        points = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
        assert len(points) == count
        assert all(0 <= x <= width and 0 <= y <= height for x, y in points)
        assert [y for _, y in points] == sorted(y for _, y in points)  # losses that fall go down the page
    assert {"4", "0.01"} <= set(texts)


def test_curves_of_a_single_round_are_points() -> None:
    root = ElementTree.fromstring(curves({"dynamics": [0.5], "place": [0.5]}, 1, 1))
    lines = [element.attrib["points"] for element in root.iter() if element.tag.endswith("polyline")]
    assert len(lines) == 2 and all(re.fullmatch(r"[\d.]+,[\d.]+", points) for points in lines)


@pytest.mark.parametrize("standing", [47.65, math.inf])
def test_everything_is_written(tmp_path: Path, standing: float) -> None:
    grid = np.random.default_rng(1).integers(0, 256, (8, 12, 3), dtype=np.uint8)
    report = replace(REPORT, standing_db=standing)
    write_card(tmp_path, Plan(), PROGRESS, report, grid, CPU)
    assert {path.name for path in tmp_path.iterdir()} == {CARD, CURVES, GRID, NUMBERS}
    assert (tmp_path / CARD).read_text(encoding="utf-8") == card(Plan(), PROGRESS, report, CPU)
    with Image.open(tmp_path / GRID) as picture:
        assert np.array_equal(np.asarray(picture), grid)
    ElementTree.parse(tmp_path / CURVES)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    numbers = json.loads((tmp_path / NUMBERS).read_text(encoding="utf-8"), parse_constant=refuse)
    assert numbers["report"]["standing_db"] == (None if math.isinf(standing) else standing)
    assert numbers["report"]["autoencoder_db"] == 33.14 and numbers["report"]["drift_db"] == {"1": 28.87, "100": 21.78}
    assert numbers["plan"] == asdict(Plan()) and numbers["minutes"] == 93.46
