from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import realtime_engine

SOURCES = Path(realtime_engine.__file__).parent
CONTRACT = {"AdmissionError", "EngineManifest", "RealtimeInterface", "SessionInit", "StepResult"}
ENGINES = {"ComposedEngine", "ReplicaEngine"}
STAGES = {"Lane", "LaneStage", "Stage", "StageBatch", "StageModel"}
MESSAGES = {"Action", "Attach", "Chunk", "Detach", "InboxMsg", "Reset", "SetActive", "Stamps"}
EVENTS = {
    "ActiveChanged",
    "Attached",
    "Detached",
    "Failed",
    "Finished",
    "Rejected",
    "RejectionCode",
    "ResetDone",
    "SessionEvent",
}
QUEUES_AND_LOOP = {"Inbox", "Outbox", "OutboxSession", "default_serve", "run_engine", "ServeMonitor", "ServeSnapshot"}
ERRORS = {"EngineContractError", "OutboxClosed", "RealtimeEngineError", "SessionClaimedError", "StepFailure"}
CLOCKS = {"Clock", "MonotonicClock"}


def test_the_public_names_are_these_and_no_others():
    assert set(realtime_engine.__all__) == (
        CONTRACT | ENGINES | STAGES | MESSAGES | EVENTS | QUEUES_AND_LOOP | ERRORS | CLOCKS
    )


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


def import_with_path(folder: Path, *flags: str) -> str:
    """Import the package with ``folder`` on the path; returns standard error."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCES.parent), str(folder)])}
    program = [sys.executable, *flags, "-c", "import realtime_engine, realtime_engine.testing"]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=30)
    return done.stderr


@pytest.mark.parametrize("suffix", ["dist-info", "egg-info"])
def test_a_second_distribution_of_the_same_package_is_reported_once(tmp_path, suffix):
    metadata = tmp_path / f"reactor_realtime_engine-0.3.0.{suffix}"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: reactor-realtime-engine\nVersion: 0.3.0\n")
    warned = import_with_path(tmp_path)
    assert warned.count("RuntimeWarning") == 1
    assert "realtime-engine and reactor-realtime-engine both install the package realtime_engine" in warned
    assert "pip uninstall reactor-realtime-engine" in warned
    assert "RuntimeWarning" in import_with_path(tmp_path, "-W", "error").splitlines()[-1]


def test_no_second_distribution_is_no_warning(tmp_path):
    (tmp_path / "realtime_engine-0.1.0.dist-info").mkdir()
    (tmp_path / "reactor_realtime_engine-notes.txt").touch()
    assert import_with_path(tmp_path, "-W", "error") == ""


def test_importing_it_reads_no_metadata():
    program = "import sys, numpy; before = set(sys.modules); import realtime_engine; print(set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    assert "importlib.metadata" not in done.stdout  # its import takes longer than the package's own


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
