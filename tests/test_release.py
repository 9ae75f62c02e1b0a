"""scripts/release refuses a version without a dated section in the changelog."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
CHANGELOG = "# Changelog\n\n## 1.2.0 - 2026-01-31\n\n### Fixed\n\n- A fault.\n\n## 1.1.0 - 2025-12-24\n\n- First.\n"


@pytest.fixture
def release() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "release"))


def check(release: dict[str, Any], folder: Path, changelog: str, version: str) -> None:
    (folder / "CHANGELOG.md").write_text(changelog)
    function = release["check_changelog"]
    function.__globals__["ROOT"] = folder
    function(version)


def test_the_declared_version_has_a_dated_section(release: dict[str, Any]) -> None:
    release["check_changelog"](release["declared_version"]())


@pytest.mark.parametrize("version", ["1.2.0", "1.1.0"])
def test_a_dated_section_with_entries_passes(release: dict[str, Any], tmp_path: Path, version: str) -> None:
    check(release, tmp_path, CHANGELOG, version)


@pytest.mark.parametrize(
    ("changelog", "version"),
    [
        (CHANGELOG, "1.3.0"),
        (CHANGELOG, "1.2"),
        (CHANGELOG.replace("1.2.0 - 2026-01-31", "1.2.0"), "1.2.0"),
        (CHANGELOG.replace("- A fault.", ""), "1.2.0"),
    ],
    ids=["no section", "prefix of a version", "no date", "no entry"],
)
def test_anything_else_is_refused(release: dict[str, Any], tmp_path: Path, changelog: str, version: str) -> None:
    with pytest.raises(release["ReleaseError"], match=re.escape(f"no section '## {version} - YYYY-MM-DD'")):
        check(release, tmp_path, changelog, version)
