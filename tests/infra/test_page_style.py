from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from realtime_engine.demo import FrameFormat, PageStyle
from realtime_engine.infra.page_style import COLORS

STYLESHEET = (Path(__file__).parents[2] / "web" / "style.css").read_text()


def test_every_color_is_a_variable_of_the_page() -> None:
    declared = re.findall(r"^  --([a-z-]+): #", STYLESHEET.partition("}")[0], re.MULTILINE)
    assert set(COLORS) <= set(declared)


def test_the_files_that_exist_are_named(tmp_path: Path) -> None:
    assert PageStyle().files == ()
    (tmp_path / "extra.js").write_text("")
    assert PageStyle(folder=tmp_path).files == ("extra.js",)
    (tmp_path / "extra.css").write_text("")
    assert PageStyle(folder=tmp_path).files == ("extra.css", "extra.js")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"folder": Path("/nowhere")}, "folder must be the Path of a folder"),
        ({"folder": "style"}, "folder must be the Path of a folder"),
        ({"logo": "logo.svg"}, "logo must be the name of a file in folder"),
        ({"logo": "../test_page_style.py", "folder": Path(__file__).parent}, "logo must be the name of a file"),
        ({"logo": "test_page_style.py", "folder": Path(__file__).parent}, "logo must be an image"),
        ({"help": None}, "help must be a text"),
        ({"hud": "score"}, "hud must be a tuple of names"),
        ({"theme": "sepia"}, "theme must be one of auto, dark, light"),
        ({"colors": {"acent": "#fff"}}, "did you mean 'accent'"),
        ({"colors": {"accent": "red; background: url(//x)"}}, "accent must be a CSS color"),
    ],
)
def test_invalid_fields_are_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        PageStyle(**given)


@pytest.mark.parametrize("color", ["#fff", "#ffb454cc", "teal", "rgb(1 2 3 / 50%)", "oklch(70% 0.1 200)"])
def test_css_colors_are_accepted(color: str) -> None:
    assert PageStyle(colors={"accent": color}).colors == {"accent": color}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"pixel_aspect": 0}, "pixel_aspect must be a number from 0.1 to 10, got 0"),
        ({"pixel_aspect": True}, "pixel_aspect must be a number"),
        ({"scaling": "pixelated"}, "scaling must be one of smooth, sharp, got 'pixelated'"),
    ],
)
def test_invalid_presentation_of_frames_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        FrameFormat(**given)
