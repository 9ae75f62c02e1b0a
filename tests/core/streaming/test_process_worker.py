from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from realtime_engine.core.streaming.errors import StreamingActorFailedError, StreamingWorkerError
from realtime_engine.core.streaming.process_worker import SHARED_MEMORY_PREFIX, ProcessWorker, WorkerTraceback

from .workers import TIMEOUT_S, Calculator, die_at_once, hang_at_once, make_nothing

SHARED_MEMORY = Path("/dev/shm")


def segments(pid: int | None = None) -> list[str]:
    """Names that a process, by default this one, has left in the file system."""
    return [path.name for path in SHARED_MEMORY.glob(f"{SHARED_MEMORY_PREFIX}{pid or os.getpid()}_*")]


@pytest.fixture(scope="module")
def worker() -> Iterator[ProcessWorker]:
    """One process for all tests that leave it alive."""
    with ProcessWorker(Calculator, shared_bytes=2**20) as made:
        yield made


def test_the_object_is_in_another_process_and_keeps_its_state(worker: ProcessWorker) -> None:
    before = worker.count()
    assert worker.double(21) == 42 and worker.double("ab") == "abab"
    assert worker.count() == before + 2
    assert worker.pid == worker.call("pid") != os.getpid()
    assert not worker.failed and not worker.closed and worker.failure_reason is None


def test_a_method_that_the_worker_has_too_is_called_by_name(worker: ProcessWorker) -> None:
    assert worker.call("close") == "the object's own"
    assert not worker.closed


ARRAYS = {
    "small": np.arange(5),
    "empty": np.zeros((0, 3)),
    "scalar": np.float32(3) + np.zeros(()),
    "large": np.arange(30_000, dtype=np.int64),
    "fortran": np.asfortranarray(np.arange(20_000.0).reshape(100, 200)),
    "strided": np.arange(200_000, dtype=np.int32)[::3],
    "transposed": np.arange(24_000.0).reshape(20, 30, 40).transpose(2, 0, 1),
    "larger than the memory": np.arange(400_000, dtype=np.int64),
    "structured": np.zeros(4_000, [("x", "f4"), ("y", "u1", 3)]),
}


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS.keys())
def test_arrays_arrive_as_they_were(worker: ProcessWorker, array: np.ndarray) -> None:
    came = worker.call("double", [array])[0]
    assert came.dtype == array.dtype and came.shape == array.shape
    assert np.array_equal(came, array)


def test_more_arrays_than_fit_arrive(worker: ProcessWorker) -> None:
    sent = [np.full(60_000, value, np.float64) for value in range(5)]  # 480 kB each, 1 MiB of memory
    came = worker.double(sent)
    assert [int(array[-1]) for array in came] == [0, 1, 2, 3, 4] * 2


def test_what_the_caller_gets_is_its_own(worker: ProcessWorker) -> None:
    first = worker.fill((200, 200), 1.0)
    second = worker.fill((200, 200), 2.0)
    assert (first == 1.0).all() and (second == 2.0).all()
    first += 5
    assert (worker.fill((200, 200), 3.0) == 3.0).all() and (first == 6.0).all()


def test_arguments_are_copies(worker: ProcessWorker) -> None:
    for value in (1.0, 2.0):
        worker.keep(np.full(10_000, value))
    worker.double(np.full(10_000, 9.0))
    assert worker.kept_sums() == [10_000.0, 20_000.0]


def test_a_read_only_array_stays_so(worker: ProcessWorker) -> None:
    array = np.arange(30_000)
    array.flags.writeable = False
    assert not worker.call("double", (array,))[0].flags.writeable


def test_an_exception_is_raised_unchanged(worker: ProcessWorker) -> None:
    with pytest.raises(ValueError, match="^too wet$") as caught:
        worker.fail("too wet")
    assert isinstance(caught.value.__cause__, WorkerTraceback)
    assert "in fail" in str(caught.value.__cause__)
    with pytest.raises(SystemExit):
        worker.leave()
    with pytest.raises(AttributeError, match="no_such_method"):
        worker.no_such_method()
    assert worker.double(1) == 2


def test_an_exception_that_cannot_travel_is_described(worker: ProcessWorker) -> None:
    with pytest.raises(StreamingWorkerError, match="Unpicklable: nobody takes this along") as caught:
        worker.fail_unpicklably()
    assert "in fail_unpicklably" in str(caught.value.__cause__)


def test_arguments_and_results_that_cannot_travel_are_errors_of_the_call(worker: ProcessWorker) -> None:
    with pytest.raises(TypeError, match="lock"):
        worker.double(threading.Lock())
    with pytest.raises(TypeError, match="lock"):
        worker.lock()
    assert worker.double(1) == 2


def test_calls_from_many_threads_do_not_mix(worker: ProcessWorker) -> None:
    with ThreadPoolExecutor(4) as pool:
        shapes = [(100 + number, 50) for number in range(40)]
        arrays = list(pool.map(lambda shape: worker.fill(shape, float(shape[0])), shapes))
    assert [(array.shape, float(array.min()), float(array.max())) for array in arrays] == [
        (shape, float(shape[0]), float(shape[0])) for shape in shapes
    ]


def test_segments_have_no_name_while_the_worker_runs(worker: ProcessWorker) -> None:
    with ProcessWorker(Calculator) as other:
        assert (other.fill((100, 100), 1.0) == 1).all()
        assert segments() == []


def test_a_killed_child_fails_the_call_and_the_worker() -> None:
    worker = ProcessWorker(Calculator, name="denoiser")
    with pytest.raises(StreamingActorFailedError, match="'denoiser' has failed: its process died .signal 9."):
        worker.die()
    assert worker.failed and worker.failure_reason == "its process died (signal 9)"
    with pytest.raises(StreamingActorFailedError, match="signal 9"):
        worker.double(1)
    worker.close()
    assert worker.closed and worker.failed
    assert segments() == []


def test_a_close_in_the_middle_of_a_call_cuts_it_off() -> None:
    worker = ProcessWorker(Calculator)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(worker.hang)
        while worker._calls.acquire(blocking=False):
            worker._calls.release()
        worker.close(timeout=0.05)
        with pytest.raises(StreamingActorFailedError, match="is closed"):
            call.result(TIMEOUT_S)
    assert worker.closed and not worker.failed
    worker.close()
    with pytest.raises(StreamingActorFailedError, match="is closed"):
        worker.double(1)
    assert segments() == []


@pytest.mark.parametrize(
    ("factory", "error", "text"),
    [
        (make_nothing, LookupError, "no weights here"),
        (die_at_once, StreamingActorFailedError, "exit code 7"),
        (hang_at_once, TimeoutError, "not ready within 0.3 s"),
    ],
)
def test_an_object_that_cannot_be_made_leaves_nothing(factory: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        ProcessWorker(factory, start_timeout=0.3 if factory is hang_at_once else TIMEOUT_S)  # type: ignore[arg-type]
    assert segments() == []


def test_arguments_are_checked() -> None:
    with pytest.raises(ValueError, match="shared_bytes must be an integer of 1 or more, got 0"):
        ProcessWorker(Calculator, shared_bytes=0)
    with pytest.raises(ValueError, match="factory must be picklable.*<lambda>"):
        ProcessWorker(lambda: None)
    gc.collect()


@pytest.mark.skipif(not SHARED_MEMORY.is_dir(), reason="shared memory is elsewhere here")
def test_too_little_shared_memory_is_an_error_before_the_start() -> None:
    too_much = shutil.disk_usage(SHARED_MEMORY).total + 2**20
    with pytest.raises(OSError, match=f"no room for {too_much} bytes of shared memory in /dev/shm"):
        ProcessWorker(Calculator, shared_bytes=too_much)
    assert segments() == []


PROGRAM = """
import os, signal
from realtime_engine.core.streaming.process_worker import ProcessWorker
from tests.core.streaming.workers import Calculator

if __name__ == "__main__":
    worker = ProcessWorker(Calculator)
    assert (worker.fill((200, 200), 2.0) == 2).all()
    {last}
"""


def run_program(folder: Path, last: str) -> tuple[int, str, list[str]]:
    """Exit code and output of a program with a worker in it that ends in this way, and the names that it left."""
    root = Path(__file__).parents[3]
    (folder / "program.py").write_text(PROGRAM.format(last=last))
    command = [sys.executable, "-W", "error", str(folder / "program.py")]
    paths = {"PYTHONPATH": os.pathsep.join((str(root), str(root / "src")))}
    with subprocess.Popen(
        command, env={**os.environ, **paths}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as program:
        output, _ = program.communicate(timeout=TIMEOUT_S)  # ends when its child, which has the pipe too, is gone
    return program.returncode, output, segments(program.pid)


@pytest.mark.parametrize("last", ["pass", "os.kill(worker.pid, signal.SIGKILL)"])
def test_a_program_that_forgets_to_close_ends_without_a_word(tmp_path: Path, last: str) -> None:
    assert run_program(tmp_path, last) == (0, "", [])


def test_a_program_that_is_killed_takes_its_worker_along_and_leaves_nothing(tmp_path: Path) -> None:
    assert run_program(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)") == (-signal.SIGKILL, "", [])


def test_a_program_from_standard_input_can_have_workers() -> None:
    root = Path(__file__).parents[3]
    paths = {"PYTHONPATH": os.pathsep.join((str(root), str(root / "src")))}
    program = subprocess.run(
        [sys.executable, "-W", "error", "-"],
        input=PROGRAM.format(last="worker.close(); print(__file__)"),
        env={**os.environ, **paths},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (program.returncode, program.stdout, program.stderr) == (0, "<stdin>\n", "")
