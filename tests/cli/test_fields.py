from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from pydantic import BaseModel, Field

from realtime_engine.cli.errors import CommandError
from realtime_engine.cli.fields import field_parameters, fields_from
from realtime_engine.cli.running import RunConfig

from .test_flags import parse


class Fields(BaseModel):
    prompt: str = ""
    image: str | None = Field(None, json_schema_extra={"contentMediaType": "image/*"})
    strength: float = 0.5
    sizes: list[int] = Field(default_factory=list)
    trace: bool = False
    width: int = 3


class Options(BaseModel):
    width: int = 640


def given(*arguments: str) -> dict[str, Any]:
    return fields_from(Fields, parse(field_parameters(Fields, RunConfig, Options), *arguments))


def test_only_what_was_given_is_set() -> None:
    assert given() == {}
    assert given("--prompt", "ice", "--strength", "0.25", "--sizes", "[1, 2]") == {
        "prompt": "ice",
        "strength": 0.25,
        "sizes": [1, 2],
    }


def test_names_that_are_taken_say_that_they_are_fields() -> None:
    assert given("--field-trace", "--field-width", "4") == {"trace": True, "width": 4}


def test_text_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "prompts.txt").write_text("\n a castle \nanother\n")
    assert given("--prompt", f"@{tmp_path}/prompts.txt") == {"prompt": "a castle"}
    with pytest.raises(CommandError, match="cannot read /nowhere: No such file"):
        given("--prompt", "@/nowhere")


def test_a_picture_goes_as_the_page_sends_it(tmp_path: Path) -> None:
    path = tmp_path / "one.png"
    Image.new("RGB", (4, 4), "red").save(path)
    head, _, data = given("--image", str(path))["image"].partition(",")
    assert head == "data:image/png;base64" and base64.b64decode(data) == path.read_bytes()
    assert given("--image", "data:image/png;base64,AAAA") == {"image": "data:image/png;base64,AAAA"}
    path.write_text("no picture")
    with pytest.raises(CommandError, match=r"one\.png: it is not a picture"):
        given("--image", str(path))


def test_json_that_is_none_is_named() -> None:
    with pytest.raises(CommandError, match="--sizes: expected JSON, got 'one'"):
        given("--sizes", "one")
