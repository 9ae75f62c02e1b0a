"""The table of fields of docs/writing-a-demo.md agrees with the page's form and with the values of the model."""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest
from PIL import Image
from pydantic import BaseModel, Field

from realtime_engine.infra.controls.declaration import Controls
from realtime_engine.infra.controls.fields import FieldValues

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "docs" / "writing-a-demo.md").read_text().partition("\n## Fields\n")[2].partition("\n## ")[0]
SENT: Mapping[str, Any] = {
    "fog": 0.25,
    "walls": 3,
    "limit": 7,
    "lights": False,
    "theme": "ice",
    "name": "Ada",
    "prompt": "a reef",
    "story": "Once.\nTwice.",
    "start": "data:image/png;base64,AAAA",
    "seed": 12,
}


class Row(NamedTuple):
    name: str
    declaration: str
    kind: str
    shown: str
    value: str


def rows() -> list[Row]:
    found = []
    for line in re.findall(r"^\| `\w+: .*$", SECTION, re.MULTILINE):
        declaration, kind, shown, value = (cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("| ")))
        declaration = declaration.strip("`").replace("\\|", "|")
        found.append(Row(declaration.partition(":")[0], declaration, kind.strip("`"), shown, value))
    return found


def fields() -> type[BaseModel]:
    scope: dict[str, Any] = {"BaseModel": BaseModel, "Field": Field, "Literal": Literal}
    source = "class Fields(BaseModel):\n" + "".join(f"    {row.declaration}\n" for row in rows())
    exec(compile(source, "fields", "exec", dont_inherit=True), scope)  # annotations are evaluated as in a demo file
    model: type[BaseModel] = scope["Fields"]
    return model


@pytest.fixture(scope="module")
def form() -> dict[str, dict[str, Any]]:
    """What the page reads from the declarations, by name."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node.js is not installed")
    described = Controls(fields=fields()).describe()
    script = (
        f"import {{ readFields }} from {json.dumps((ROOT / 'web/js/schema.js').as_uri())};"
        f"console.log(JSON.stringify(readFields({json.dumps(described['fields'])})));"
    )
    ended = subprocess.run(
        [node, "--input-type=module", "-e", script], capture_output=True, text=True, timeout=30, check=True
    )
    return {field["name"]: field for field in json.loads(ended.stdout)}


def test_every_kind_of_the_form_is_in_the_table() -> None:
    (typedef,) = re.findall(r"@typedef \{(.*)\} FieldKind", (ROOT / "web/js/schema.js").read_text())
    assert {row.kind for row in rows()} == set(re.findall(r'"(\w+)"', typedef))


def test_each_declaration_is_shown_as_its_kind(form: dict[str, dict[str, Any]]) -> None:
    assert {name: field["kind"] for name, field in form.items()} == {row.name: row.kind for row in rows()}


def test_sliders_are_the_numbers_with_few_steps(form: dict[str, dict[str, Any]]) -> None:
    (most,) = re.findall(r"MAX_SLIDER_STEPS = ([\d_]+)", (ROOT / "web/js/field.js").read_text())
    assert f"more than {int(most):,} steps" in SECTION
    for row in rows():
        if row.kind == "number":
            field = form[row.name]
            is_slider = {"min", "max"} <= field.keys() and (field["max"] - field["min"]) / field["step"] <= int(most)
            assert row.shown.startswith("A slider" if is_slider else "A number box"), row.name


def test_the_delays_are_those_of_the_form() -> None:
    (delays,) = re.findall(r"const DEBOUNCE_MS = \{(.*)\}", (ROOT / "web/js/form.js").read_text())
    milliseconds = {kind: int(value) for kind, value in re.findall(r"(\w+): (\d+)", delays)}
    for row in rows():
        for seconds in re.findall(r"([\d.]+) s after the last key", row.shown):
            assert float(seconds) * 1000 == milliseconds[row.kind], row.name


def test_the_model_receives_the_stated_type() -> None:
    values = FieldValues(fields())
    values.commit(values.stage(dict(SENT)))
    assert values.value is not None
    for row in rows():
        received = getattr(values.value, row.name)
        assert received == SENT[row.name]
        assert row.value.startswith(f"`{type(received).__name__}`"), row.name


def test_the_image_is_decoded() -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```$", SECTION, re.DOTALL | re.MULTILINE)
    scope: dict[str, Any] = {}
    exec(block, scope)
    file = io.BytesIO()
    Image.new("RGBA", (8, 4), (255, 0, 0, 255)).save(file, "PNG")
    url = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
    pixels = scope["pixels_of"](url, 16, 9)
    np.testing.assert_array_equal(pixels, np.full((9, 16, 3), (255, 0, 0), np.uint8))
