from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import realtime_engine

SOURCES = Path(realtime_engine.__file__).parent
CONTRACT = {"AdmissionError", "EngineManifest", "RealtimeInterface", "SessionInit", "StepResult"}
ENGINES = {"ComposedEngine", "CpuReferenceEngine", "Lane", "ReplicaEngine", "Stage", "StageBatch", "StageModel"}
MESSAGES = {"Action", "Attach", "Chunk", "Detach", "InboxMsg", "Reset", "SetActive", "Stamps"}
EVENTS = {"ActiveChanged", "Attached", "Detached", "Failed", "Rejected", "ResetDone", "SessionEvent"}
QUEUES_AND_LOOP = {"Inbox", "Outbox", "OutboxSession", "default_serve", "run_engine", "ServeMonitor", "ServeSnapshot"}
ERRORS = {"EngineContractError", "OutboxClosed", "RealtimeEngineError", "SessionClaimedError", "StepFailure"}
CLOCKS = {"Clock", "MonotonicClock"}


def test_the_public_names_are_these_and_no_others():
    assert set(realtime_engine.__all__) == (CONTRACT | ENGINES | MESSAGES | EVENTS | QUEUES_AND_LOOP | ERRORS | CLOCKS)


def test_all_is_sorted_and_has_no_name_twice():
    assert list(realtime_engine.__all__) == sorted(set(realtime_engine.__all__))


@pytest.mark.parametrize("name", realtime_engine.__all__)
def test_every_name_is_there(name):
    assert getattr(realtime_engine, name) is not None


def test_the_package_is_typed():
    assert (SOURCES / "py.typed").exists()


def test_importing_it_imports_no_third_party_but_numpy():
    program = (
        "import json, sys\n"
        "before = set(sys.modules)\n"
        "import realtime_engine, realtime_engine.examples, realtime_engine.testing\n"
        "names = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(json.dumps(sorted(names - set(sys.stdlib_module_names))))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    foreign = {name for name in json.loads(done.stdout) if not name.startswith(("_cython", "cython_runtime"))}
    assert foreign == {"numpy", "realtime_engine"}


def imported_roots(path: Path) -> set[str]:
    """First parts of the absolute names that a file imports, those under TYPE_CHECKING and in functions included."""
    roots = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            roots.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            roots.add(node.module.partition(".")[0])
    return roots


def relative_imports(path: Path) -> set[str]:
    """What a file of a subpackage imports from beside that subpackage."""
    return {
        node.module.partition(".")[0]
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.level == 2 and node.module
    }


CORE = sorted((SOURCES / "core").rglob("*.py"))


@pytest.mark.parametrize("path", CORE, ids=lambda path: path.name)
def test_core_imports_the_standard_library_and_numpy_only(path):
    assert imported_roots(path) <= set(sys.stdlib_module_names) | {"numpy"}


@pytest.mark.parametrize("path", [path for path in CORE if path.parent.name == "core"], ids=lambda path: path.name)
def test_core_stands_on_nothing_of_the_package(path):
    assert relative_imports(path) == set()


def test_there_are_core_files_to_look_at():
    assert len(CORE) > 15
