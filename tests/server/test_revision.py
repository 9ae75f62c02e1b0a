from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field

from realtime_engine.infra.controls import Controls, KeyBinding
from realtime_engine.server.revision import revision_of

from .support import in_process, paint_demo


class Drawn(BaseModel):
    number: int = Field(default_factory=iter(range(100)).__next__)


async def test_the_description_contains_the_revision() -> None:
    demo = paint_demo()
    async with in_process(demo) as served:
        described = [(await served.client.get("/api/demo")).json() for _ in range(2)]
    assert {each["revision"] for each in described} == {revision_of(demo)}


def test_the_same_demo_has_the_same_revision_whatever_its_defaults_draw() -> None:
    controls = Controls(fields=Drawn)
    assert controls.describe()["defaults"] != controls.describe()["defaults"]
    assert revision_of(paint_demo(controls=controls)) == revision_of(paint_demo(controls=controls))


def test_another_demo_has_another_revision(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("a page")
    changes = (
        {},
        {"name": "other"},
        {"title": "Other"},
        {"description": "Other."},
        {"controls": Controls(keys=(KeyBinding("KeyQ", "quit"),))},
        {"required_context": ("prompt",)},
        {"page": tmp_path},
    )
    assert len({revision_of(paint_demo(**change)) for change in changes}) == len(changes)


def test_another_version_of_the_page_has_another_revision(tmp_path: Path) -> None:
    revisions = set()
    for name, text in (("one", "import"), ("two", "export")):
        (tmp_path / name / "js").mkdir(parents=True)
        (tmp_path / name / "index.html").write_text("a page")
        (tmp_path / name / "js" / "app.js").write_text(text)
        (tmp_path / name / "picture.png").write_bytes(name.encode())
        revisions.add(revision_of(paint_demo(page=tmp_path / name)))
    assert len(revisions) == 2
