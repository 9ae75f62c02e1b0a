"""The part of ``gpu_check`` that looks at ``realtime_engine.infra.acceleration``: one line for each promise.

Where there is no GPU, the lines show that the helpers fall back and give the same results.
"""

from __future__ import annotations

import statistics
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import torch

from realtime_engine.infra.acceleration import (
    Compiled,
    CompilePolicy,
    CudaGraphDispatch,
    EncoderLifecycle,
    FramePrefetcher,
    OverlapRunner,
    SynchronousRunner,
    TensorSpec,
    overlap_runner,
)
from realtime_engine.infra.telemetry.cuda_ranges import RangeRecorder

MIB = 2**20


class ManySmallKernels(torch.nn.Module):
    """As a denoiser of few pixels is: the host needs longer to launch a kernel than the GPU to run it."""

    def __init__(self, device: str, width: int = 256, layers: int = 60) -> None:
        super().__init__()
        generator = torch.Generator(device).manual_seed(3)
        weights = torch.randn(layers, width, width, device=device, generator=generator) / width**0.5
        self.weights = weights.to(torch.bfloat16)

    def forward(self, x: torch.Tensor, guided: bool = True) -> torch.Tensor:
        for weight in self.weights:
            x = torch.nn.functional.silu(x @ weight) + (x if guided else 0.5 * x)
            x = x / x.abs().amax()
        return x


def inputs(device: str, rows: int, count: int = 6) -> list[torch.Tensor]:
    generator = torch.Generator(device).manual_seed(rows)
    return [torch.randn(rows, 256, device=device, generator=generator).to(torch.bfloat16) for _ in range(count)]


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def median_ms(work: Callable[[], Any], device: str, rounds: int = 30) -> float:
    times = []
    for _ in range(rounds):
        synchronize(device)
        began = time.perf_counter()
        work()
        synchronize(device)
        times.append((time.perf_counter() - began) * 1e3)
    return statistics.median(times)


def check_graph(device: str) -> tuple[bool, str]:
    """Both branches and a second shape, bit for bit; and the time of a call."""
    model = ManySmallKernels(device)
    dispatch = CudaGraphDispatch(model, name="many small kernels")
    equal = 0
    for rows in (8, 12):
        for x in inputs(device, rows, count=9):
            for guided in (True, False):
                equal += torch.equal(dispatch(x, guided, branch=guided), model(x, guided))
    counted, x = dispatch.statistics(), inputs(device, 12, count=1)[0]
    text = f"{equal} of 36 calls equal bit for bit, {counted.captures} captures, {counted.replays} replays"
    if device == "cpu":
        return equal == 36 and counted.eager == 36, text
    eager = median_ms(lambda: model(x), device)
    replay = median_ms(lambda: dispatch(x, True, branch=True), device)
    text += f"; a call {eager:.2f} ms eager, {replay:.2f} ms replayed"
    return equal == 36 and (counted.captures, counted.replays) == (4, 20) and replay < 0.7 * eager, text


def check_state_and_chance(device: str) -> tuple[bool, str]:
    """State that is written in place advances once a call, and random numbers go on from replay to replay."""
    state = torch.zeros(1, device=device)

    def step(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        state.add_(1)
        return x + state, torch.rand(4, device=x.device)

    dispatch = CudaGraphDispatch(step, clone_outputs=True)
    results = [dispatch(torch.zeros(1, device=device)) for _ in range(12)]
    ages = [int(age) for age, _ in results]
    different = len({tuple(chance.tolist()) for _, chance in results})
    return ages == list(
        range(1, 13)
    ) and different == 12, f"ages {ages[0]} to {ages[-1]}, {different} of 12 draws differ"


def check_inference_mode(device: str) -> tuple[bool, str]:
    """Captured under inference mode; and a function that writes to its argument is noticed, its write not lost."""
    model = ManySmallKernels(device, layers=2)
    dispatch, writer = CudaGraphDispatch(model), CudaGraphDispatch(lambda x: x.add_(1).clone(), name="a writer")
    with torch.inference_mode():
        xs, written = inputs(device, 4, count=8), torch.zeros(1, device=device)
        equal = sum(torch.equal(dispatch(x), model(x)) for x in xs)
        sums = [int(writer(written)) for _ in range(8)]
    held = equal == 8 and sums == list(range(1, 9)) and int(written) == 8 and writer.statistics().captures == 0
    return held, f"{equal} of 8 equal; the writer counts to {int(written)}: {writer.fallback_reason}"


def check_failed_capture(device: str) -> tuple[bool, str]:
    """A capture that waits for the device; afterwards everything works, and no memory is lost."""

    def waits(x: torch.Tensor) -> torch.Tensor:
        scratch = torch.ones(MIB, device=x.device)
        return x * scratch.sum().item()

    x = torch.ones(4, device=device)
    waits(x)
    before = allocated(device)
    right, failures = True, 0
    for _ in range(3):
        dispatch = CudaGraphDispatch(waits, name="a function that waits")
        right &= all(torch.equal(dispatch(x), x * MIB) for _ in range(7))
        failures += dispatch.statistics().failures
    if device == "cpu":
        return right and dispatch.fallback_reason is not None, str(dispatch.fallback_reason)
    del dispatch
    torch.rand(4, device=device)  # raises if the generator believes that a capture is under way
    on_default = torch.cuda.current_stream() == torch.cuda.default_stream()
    held_by_stream = freed_after_record_stream()
    again, _ = check_graph_once(device)
    lost = allocated(device) - before
    text = (
        f"{failures} captures failed, results {'right' if right else 'WRONG'}; then: random numbers, "
        f"{'the' if on_default else 'NOT THE'} default stream, {'a new capture' if again else 'NO CAPTURE'}, "
        f"{lost / MIB:.1f} MiB lost, {held_by_stream / MIB:.1f} MiB held by a stream that was done"
    )
    return right and failures == 3 and on_default and again and lost < MIB and held_by_stream < MIB, text


def check_graph_once(device: str) -> tuple[bool, int]:
    dispatch = CudaGraphDispatch(lambda x: x * 2 + 1)
    right = all(torch.equal(dispatch(x), x * 2 + 1) for x in inputs(device, 2, count=6))
    return right, dispatch.statistics().replays


def freed_after_record_stream() -> int:
    """Bytes that torch still counts as in use of a tensor which another stream has used and is done with."""
    side, before = torch.cuda.Stream(), allocated("cuda")
    tensor = torch.ones(8 * MIB, device="cuda")
    tensor.record_stream(side)
    del tensor
    torch.cuda.synchronize()
    torch.empty(2 * MIB, device="cuda")  # torch looks at what other streams were using when it allocates
    return allocated("cuda") - before


def check_other_threads(device: str) -> tuple[bool, str]:
    """Another thread allocates on the device and pins memory while a capture is under way."""
    if device == "cpu":
        return True, "there is nothing to capture"
    done: list[str] = []

    def allocate() -> None:
        torch.ones(64 * MIB, device=device)
        torch.ones(16 * MIB).pin_memory()
        done.append("allocated")

    def model(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        if torch.cuda.is_current_stream_capturing():
            thread = threading.Thread(target=allocate)
            thread.start()
            thread.join()
        return y * 2

    dispatch = CudaGraphDispatch(model, name="a busy process")
    right = all(torch.equal(dispatch(x), (x + 1) * 2) for x in inputs(device, 2, count=8))
    held = right and done == ["allocated"] and dispatch.statistics().captures == 1
    return held, f"{dispatch.statistics().captures} capture while another thread {', '.join(done) or 'FAILED'}"


def check_overlap_runners(device: str, cycles_for: Callable[[float], int]) -> tuple[bool, str]:
    """The task and the caller's work, 10 ms each on the GPU: clearly less than their sum on a stream."""
    results = {}
    for kind in ("synchronous", "thread", "stream"):
        runner = overlap_runner(kind)
        runner.submit(lambda: torch.arange(1000, device=device).sum())
        results[kind] = int(runner.wait())
        runner.close()
    same = set(results.values()) == {499500}
    if device == "cpu":
        return same, f"{len(results)} runners, one result"
    burn = cycles_for(10.0)

    def both(runner: OverlapRunner) -> None:
        runner.submit(lambda: torch.cuda._sleep(burn))
        torch.cuda._sleep(burn)
        runner.wait()

    alone = median_ms(lambda: both(SynchronousRunner()), device, rounds=5)
    runner = overlap_runner("stream")
    beside = median_ms(lambda: both(runner), device, rounds=5)
    return (
        same and beside < 0.7 * alone,
        f"one result; 10 ms + 10 ms take {alone:.1f} ms one by one, {beside:.1f} beside",
    )


def check_prefetch(device: str, cycles_for: Callable[[float], int]) -> tuple[bool, str]:
    """Frames keep their values although their buffer is overwritten at once; and copies run beside the GPU's work."""
    made = torch.empty(24, 720, 1280, 3, dtype=torch.uint8, device=device)
    prefetcher, right = FramePrefetcher(), 0
    for number in range(6):
        prefetcher.put(made.fill_(number))
        made.fill_(255)
        right += int(prefetcher.get().eq(number).all())
    if device == "cpu":
        return right == 6, f"{right} of 6 right: {prefetcher.fallback_reason}"
    host = torch.empty(made.shape, dtype=made.dtype, pin_memory=True)
    copy = median_ms(lambda: host.copy_(made), device, rounds=10)
    burn, chunks = cycles_for(copy), 20

    def one_by_one() -> None:
        for _ in range(chunks):
            torch.cuda._sleep(burn)
            host.copy_(made)

    def prefetched() -> None:
        for number in range(chunks):
            torch.cuda._sleep(burn)
            prefetcher.put(made)
            if number:
                prefetcher.get()
        prefetcher.get()

    plain = median_ms(one_by_one, device, rounds=3) / chunks
    beside = median_ms(prefetched, device, rounds=3) / chunks
    text = f"{right} of 6 right; a chunk of {made.nbytes // MIB} MiB, {copy:.1f} ms to make and to copy: "
    return right == 6 and beside < 0.75 * plain, f"{text}{plain:.2f} ms one by one, {beside:.2f} prefetched"


def check_encoder(device: str) -> tuple[bool, str]:
    """What the encoder takes on the device is given back after each use."""
    alive: list[weakref.ref[Any]] = []
    peaks: list[int] = []

    def load() -> torch.nn.Module:
        encoder = torch.nn.Sequential(*(torch.nn.Linear(4096, 4096) for _ in range(4))).to(device)
        alive.append(weakref.ref(encoder))
        return encoder

    def encode(encoder: torch.nn.Module, text: str) -> torch.Tensor:
        peaks.append(allocated(device))
        return encoder(torch.full((8, 4096), float(len(text)), device=device))[:2]

    EncoderLifecycle(load, encode, cache_bytes=0).encode("cuBLAS takes a workspace at its first use, and keeps it")
    lifecycle = EncoderLifecycle(load, encode)
    before, reserved_before = allocated(device), reserved(device)
    embeddings = [lifecycle.encode(text) for text in ("a castle", "a desert of ice", "a castle")]
    gone = all(reference() is None for reference in alive)
    kept = allocated(device) - before
    text = f"{lifecycle.loads} loads for 3 prompts, {lifecycle.cached_bytes // 1024} KiB of embeddings kept"
    held = gone and lifecycle.loads == 2 and embeddings[0] is embeddings[2]
    if device == "cpu":
        return held, text
    back = reserved(device) - reserved_before
    text += f"; {max(peaks) / MIB:.0f} MiB while it encodes, {kept / MIB:.1f} MiB more than before afterwards"
    return held and kept < MIB and back <= 2 * MIB < max(peaks) - before, f"{text}, {back / MIB:.1f} MiB more reserved"


def check_compile(device: str) -> tuple[bool, str]:
    """Compiled code agrees with eager, or the plain function runs and the reason is told."""

    def blend(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.silu(x) * torch.sigmoid(y) + x.tanh() * y

    spec = TensorSpec((64, 512), device=device)
    compiled = Compiled(blend, CompilePolicy(fullgraph=True, dynamic=False, warm_up=[(spec, spec)]))
    began = time.perf_counter()
    compiled.warm_up()
    took = time.perf_counter() - began
    x, y = torch.randn(2, 64, 512, device=device).unbind()
    apart = float((compiled(x, y) - blend(x, y)).abs().max())
    if compiled.fallback_reason is not None:
        return apart == 0, f"fell back in {took:.1f} s: {compiled.fallback_reason[:100]}"
    eager, quick = (median_ms(lambda f=f: f(x, y), device) for f in (blend, compiled))
    return (
        apart < 1e-5,
        f"compiled in {took:.1f} s, {apart:.0e} apart; a call {eager:.3f} ms eager, {quick:.3f} compiled",
    )


def check_ranges(device: str, cycles_for: Callable[[float], int]) -> tuple[bool, str]:
    """A range of a stream is as long as the work, lies where it ran, and holds up neither the stream nor the host."""
    ranges = RangeRecorder()
    if device != "cuda":
        with ranges.cuda("first", torch):
            pass
        return len(ranges.collect()) == 1, "a range of the host in its place"
    ranges.calibrate(torch)
    cycles = [cycles_for(milliseconds) for milliseconds in (20.0, 10.0)]
    began = time.monotonic_ns()
    with ranges.cuda("first", torch) as first:
        torch.cuda._sleep(cycles[0])
    with ranges.cuda("second", torch, after=[first]):
        torch.cuda._sleep(cycles[1])
    enqueued_ms, early = (time.monotonic_ns() - began) / 1e6, len(ranges.collect())
    torch.cuda.synchronize()
    ended, timed = time.monotonic_ns(), ranges.collect()
    lengths = [(one.end_ns - one.begin_ns) / 1e6 for one in timed]
    inside = all(began - 2_000_000 <= one.begin_ns <= one.end_ns <= ended + 2_000_000 for one in timed)
    held = early == 0 and inside and abs(lengths[0] - 20) < 3 and abs(lengths[1] - 10) < 3 and enqueued_ms < 10
    text = f"20 and 10 ms of work: {lengths[0]:.1f} and {lengths[1]:.1f} ms, enqueued in {enqueued_ms:.1f} ms"
    return held, text


def allocated(device: str) -> int:
    synchronize(device)
    return torch.cuda.memory_allocated() if device == "cuda" else 0


def reserved(device: str) -> int:
    return torch.cuda.memory_reserved() if device == "cuda" else 0


def check_acceleration(device: str, cycles_for: Callable[[float], int]) -> bool:
    """Print the table; ``cycles_for`` gives the cycles of ``torch.cuda._sleep`` for milliseconds."""
    checks: dict[str, Callable[[], tuple[bool, str]]] = {
        "graph replay, two shapes": lambda: check_graph(device),
        "graph, state and chance": lambda: check_state_and_chance(device),
        "graph, inference mode": lambda: check_inference_mode(device),
        "graph, other threads": lambda: check_other_threads(device),
        "graph, failed captures": lambda: check_failed_capture(device),
        "overlap runners": lambda: check_overlap_runners(device, cycles_for),
        "prefetch": lambda: check_prefetch(device, cycles_for),
        "one-shot encoder": lambda: check_encoder(device),
        "timed ranges": lambda: check_ranges(device, cycles_for),
        "compile": lambda: check_compile(device),
    }
    held = True
    for name, check in checks.items():
        with torch.no_grad():
            ok, text = check()
        held &= ok
        print(f"{name:30}{'' if ok else 'NOT HELD: '}{text}")
    return held
