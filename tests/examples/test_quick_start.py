from __future__ import annotations

import subprocess
import sys

QUICK_START = """
from realtime_engine import ComposedEngine, SessionInit
from realtime_engine.examples import CpuStageModel

engine = ComposedEngine(CpuStageModel(max_sessions=2), pipeline=False)
engine.attach(SessionInit("alice", {"seed": 1, "prompt": "a castle"}))
engine.attach(SessionInit("bob", {"seed": 2, "prompt": "a desert"}))
results = engine.step({"alice": {"move": 1}, "bob": {"move": -1}})
for result in results:
    print(result.session_id, result.output.shape, result.stats)
engine.finalize([result.session_id for result in results])
engine.detach("alice"); engine.detach("bob")
"""


def run(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-W", "error", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_the_quick_start_runs_as_it_is_written():
    alice, bob = run("-c", QUICK_START).splitlines()
    assert alice.startswith("alice (2, 4, 4, 3) {'step_ms': ")
    assert bob.startswith("bob (2, 4, 4, 3) {'step_ms': ")


def test_the_module_runs_and_both_sessions_get_their_chunks():
    out = run("-m", "realtime_engine.examples.quick_start")
    for name in ("alice", "bob"):
        lines = [line for line in out.splitlines() if line.strip().startswith(name)]
        assert any("chunk (2, 4, 4, 3)" in line for line in lines)
        assert any("Attached" in line for line in lines)
        assert any("30 chunks" in line for line in lines)
    assert "'first key'" in out
