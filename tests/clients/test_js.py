"""The npm package: its types are current, its metadata agree, and it contains every module that it imports."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "clients" / "js"


def metadata() -> dict[str, object]:
    return dict(json.loads((PACKAGE / "package.json").read_text(encoding="utf-8")))


def test_the_types_follow_the_protocol_and_the_api() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "js_types.py"))
    current = (PACKAGE / "protocol.d.ts").read_text(encoding="utf-8")
    assert current == script["generated"](), "run scripts/js_types.py"


def test_the_version_is_that_of_the_python_package() -> None:
    declared = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert declared is not None
    assert metadata()["version"] == declared[1]


def test_the_example_page_has_twenty_lines() -> None:
    assert len((PACKAGE / "examples" / "page.html").read_text(encoding="utf-8").splitlines()) <= 20


def test_the_package_contains_all_that_it_imports(tmp_path: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        if os.environ.get("CI"):
            pytest.fail("npm is not on the PATH, and the package must be tested in CI")
        pytest.skip("npm is not on the PATH")
    command = [npm, "pack", "--json", "--pack-destination", str(tmp_path)]
    packed = subprocess.run(command, cwd=PACKAGE, capture_output=True, text=True, check=True, timeout=60)
    files = {entry["path"] for entry in json.loads(packed.stdout[packed.stdout.index("[") :])[0]["files"]}
    assert {"LICENSE", "README.md", "index.d.ts", "element.d.ts", "protocol.d.ts"} <= files
    assert not [name for name in files if "example" in name or "conformance" in name]
    for name in (name for name in files if name.endswith(".js")):
        text = (PACKAGE / name).read_text(encoding="utf-8")
        for imported in re.findall(r'^(?:import|export)[^;]*? from "(\./[^"]+)";$', text, re.MULTILINE):
            assert os.path.normpath(f"{os.path.dirname(name)}/{imported}") in files
