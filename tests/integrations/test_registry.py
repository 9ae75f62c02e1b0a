import importlib
import logging
import re
import sys

import pytest

from realtime_engine.integrations import registry
from realtime_engine.integrations.registry import DemoLoadError, demo_sources, list_demos, load_demo

DEMO = """
from realtime_engine.examples import CpuReferenceEngine
from realtime_engine.infra.controls import Controls
from realtime_engine.infra.demo import Demo

demo = Demo(
    name="{name}",
    title="A test",
    build=lambda options: CpuReferenceEngine(max_sessions=1),
    controls=Controls(),
    to_conditioning=lambda window: {{}},
)
number = 3
"""


@pytest.fixture(autouse=True)
def imports_stay_here(monkeypatch):
    """Whatever a test imports or makes importable is forgotten after it."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = set(sys.modules)
    yield
    for name in set(sys.modules) - known:
        if name.startswith(("realtime_engine_demo_", "fake_", "my_model")):
            del sys.modules[name]


@pytest.fixture
def demo_file(tmp_path):
    path = tmp_path / "my_model.py"
    path.write_text(DEMO.format(name="my-model"))
    return path


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Makes a distribution with demos importable, as an installer would."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))

    def installed(distribution, **demos):
        info = site / f"{distribution}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        lines = [f"{name} = {target}" for name, target in demos.items()]
        (info / "entry_points.txt").write_text("\n".join(["[realtime_engine.demos]", *lines]) + "\n")
        return site

    return installed


def test_what_is_built_in():
    names = ("compare", "dream", "dream-stages", "maze", "mirror", "stages")
    packages = {"dream-stages": "dream_stages", "stages": "maze_stages"}
    targets = {name: f"realtime_engine.integrations.{packages.get(name, name)}.demo:demo" for name in names}
    assert targets == registry.BUILT_IN
    assert {demo_sources()[name].origin for name in registry.BUILT_IN} == {"built in"}


def test_a_built_in_demo_is_imported_when_it_is_asked_for(monkeypatch, tmp_path):
    (tmp_path / "fake_built_in.py").write_text(DEMO.format(name="table"))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "BUILT_IN", {"table": "fake_built_in:demo"})
    assert "table" in demo_sources()
    assert "fake_built_in" not in sys.modules
    assert load_demo("table").name == "table"


def test_a_file_holds_a_demo(demo_file):
    assert load_demo(f"{demo_file}:demo").name == "my-model"


def test_a_file_may_be_named_from_the_working_directory(demo_file, monkeypatch):
    monkeypatch.chdir(demo_file.parent)
    assert load_demo("my_model.py:demo") is load_demo(f"{demo_file}:demo")


def test_files_of_one_name_are_told_apart(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.py").write_text(DEMO.format(name=name))
    assert [load_demo(f"{tmp_path / name / 'model.py'}:demo").name for name in ("one", "two")] == ["one", "two"]


def test_a_file_may_import_its_neighbours_and_find_itself(tmp_path):
    (tmp_path / "fake_neighbour.py").write_text("NAME = 'from-neighbour'\n")
    source = "import sys, fake_neighbour\n" + DEMO.format(name="x").replace('"x"', "fake_neighbour.NAME")
    (tmp_path / "model.py").write_text(source + "assert sys.modules[__name__].demo is demo\n")
    assert load_demo(f"{tmp_path / 'model.py'}:demo").name == "from-neighbour"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("{folder}/my_modle.py:demo", "there is no file '{folder}/my_modle.py'; did you mean '{folder}/my_model.py'?"),
        ("{folder}/zzz.py:demo", "there is no file '{folder}/zzz.py'"),
        ("{folder}/no/my_model.py:demo", "there is no folder '{folder}/no' either"),
        ("{folder}/my_model.py", "expected path/to/file.py:attribute, got '{folder}/my_model.py'; try"),
        ("{folder}/my_model.py:dmo", "{folder}/my_model.py has no attribute 'dmo'; its demos: demo"),
        ("{folder}/my_model.py:", "{folder}/my_model.py has no attribute ''; its demos: demo"),
        ("{folder}/my_model.py:number", "my_model.py:number is of type int, expected Demo; its demos: demo"),
        ("some.module:demo", "expected the name of a demo or path/to/file.py:attribute, got 'some.module:demo'"),
        ("folder/name", "expected the name of a demo or path/to/file.py:attribute, got 'folder/name'"),
        ("mazes", "there is no demo named 'mazes'; did you mean 'maze'?"),
        ("", "there is no demo named ''; there is compare, dream, dream-stages"),
    ],
)
def test_what_cannot_be_found_is_named_with_what_there_is(demo_file, monkeypatch, spec, message):
    monkeypatch.setattr(registry, "entry_points", lambda group: ())
    folder = demo_file.parent
    with pytest.raises(DemoLoadError, match=re.escape(message.format(folder=folder))):
        load_demo(spec.format(folder=folder))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 1\n\nraise KeyError('gone')\n", "model.py, line 3 cannot be loaded: KeyError: 'gone'"),
        (
            "import fake_not_there\n",
            "model.py, line 1 cannot be loaded: ModuleNotFoundError: No module named 'fake_not",
        ),
        ("x = 1\ndef (:\n", "model.py, line 2 cannot be loaded: SyntaxError"),
        ("import sys\nsys.exit(3)\n", "model.py, line 2 cannot be loaded: SystemExit: 3"),
        (DEMO.format(name="Bad Name"), "cannot be loaded: ValueError: name must be lower-case letters"),
    ],
)
def test_a_file_that_fails_says_where_and_why_and_can_be_tried_again(tmp_path, source, message):
    path = tmp_path / "model.py"
    path.write_text(source)
    with pytest.raises(DemoLoadError, match=re.escape(message)):
        load_demo(f"{path}:demo")
    path.write_text(DEMO.format(name="mended") + "# longer than before, so that no cached bytecode fits\n")
    assert load_demo(f"{path}:demo").name == "mended"


def test_an_installed_package_brings_a_demo(install):
    site = install("fake-dist", fakeworld="fake_world:demo")
    (site / "fake_world.py").write_text(DEMO.format(name="fakeworld"))
    assert demo_sources()["fakeworld"].origin == "fake-dist"
    assert "fake_world" not in sys.modules
    assert load_demo("fakeworld").name == "fakeworld"


def test_a_broken_package_does_not_break_the_others(install):
    site = install(
        "fake-dist", good="fake_good:demo", broken="fake_broken:demo", odd="fake_good", number="fake_good:number"
    )
    (site / "fake_good.py").write_text(DEMO.format(name="good"))
    (site / "fake_broken.py").write_text("1 / 0\n")
    listed = {entry.source.name: entry for entry in list_demos()}
    assert list(listed) == sorted(listed)
    assert listed["good"].demo.name == "good" and listed["good"].error is None
    assert listed["broken"].demo is None
    assert listed["broken"].error == (
        "demo 'broken' (fake-dist) cannot be imported: ZeroDivisionError: division by zero"
    )
    assert listed["odd"].error == "demo 'odd' (fake-dist): expected module:attribute, got 'fake_good'"
    assert listed["number"].error == "fake_good:number is of type int, expected Demo; its demos: demo"


def test_an_ignored_demo_is_logged(install, caplog):
    install("fake-dist", maze="fake_world:demo")
    with caplog.at_level(logging.WARNING, registry.__name__):
        assert {demo_sources()[name].origin for name in registry.BUILT_IN} == {"built in"}
    assert "demo 'maze' of fake-dist is ignored: the name is used by built in" in caplog.text


def test_a_file_that_holds_its_routes_is_executed_once(tmp_path):
    path = tmp_path / "fake_pond.py"
    path.write_text("runs = []\nruns.append(1)\n" + DEMO.format(name="pond"))
    demo = load_demo(f"{path}:demo")
    module = importlib.import_module("fake_pond")
    assert module.demo is demo and module.runs == [1]
