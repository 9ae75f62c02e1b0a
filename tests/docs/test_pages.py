"""All pages wrap at one width, their links lead somewhere, and the site includes every one of them."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SITE_PAGES = sorted(DOCS.rglob("*.md"))
PAGES = [*SITE_PAGES, *(ROOT / f"{name}.md" for name in ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY"))]
WIDTH = 120
NAMES = {page: str(page.relative_to(ROOT)) for page in PAGES}
PUBLIC = {
    "engine": "realtime_engine",
    "streaming": "realtime_engine.core.streaming",
    "demo": "realtime_engine.demo",
    "client": "realtime_engine.client",
    "testing": "realtime_engine.testing",
}

each_page = pytest.mark.parametrize("page", PAGES, ids=NAMES.values())


def prose(page: Path) -> str:
    """The page without its code."""
    return re.sub(r"^```.*?^```$|^    .*?$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The identifiers of its headings, as GitHub and Python-Markdown make them."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


@each_page
def test_prose_wraps_at_one_width(page: Path) -> None:
    lines = [line for line in prose(page).splitlines() if not line.startswith("|")]
    assert [line for line in lines if len(line) > WIDTH] == []


@each_page
def test_relative_links_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", prose(page)):
        linked = (page.parent / target).resolve() if target else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), f"{target}#{anchor}"


@each_page
def test_pages_for_users_do_not_mention_infra(page: Path) -> None:
    if page.stem not in ("architecture", "CONTRIBUTING"):
        assert "realtime_engine.infra" not in page.read_text(encoding="utf-8")


def test_the_site_shows_every_page_once() -> None:
    yaml = pytest.importorskip("yaml")
    shown: list[str] = []

    def walk(entries: list[dict[str, object]]) -> None:
        for entry in entries:
            for value in entry.values():
                walk(value) if isinstance(value, list) else shown.append(str(value))

    walk(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    assert sorted(shown) == sorted(str(page.relative_to(DOCS)) for page in SITE_PAGES)


@pytest.mark.parametrize(("page", "package"), PUBLIC.items())
def test_the_reference_covers_every_public_package(page: str, package: str) -> None:
    assert re.findall(r"^::: (\S+)$", (DOCS / "reference" / f"{page}.md").read_text(), re.MULTILINE) == [package]
    assert importlib.import_module(package).__all__


def test_there_is_no_other_reference_page() -> None:
    assert {page.stem for page in (DOCS / "reference").glob("*.md")} == {*PUBLIC}
