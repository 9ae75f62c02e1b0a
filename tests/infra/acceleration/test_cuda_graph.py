from __future__ import annotations

import logging
import sys
from typing import Any, NamedTuple

import numpy as np
import pytest

from realtime_engine.infra.acceleration import CudaGraphDispatch, GraphStatistics

from .fake_cuda import CPU, CaptureError, FakeCuda, Tensor


def doubled(x: Tensor, plus: float = 0.0) -> Tensor:
    return x * 2 + plus


def values(tensor: Tensor) -> list[float]:
    return tensor.array.tolist()


def settle(dispatch: CudaGraphDispatch, *args: Any, calls: int = 4, **kwargs: Any) -> None:
    for _ in range(calls):
        dispatch(*args, **kwargs)


def reasons(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno >= logging.WARNING]


class TestSteadyState:
    def test_every_call_is_answered_as_by_the_function_itself(self, cuda):
        dispatch = CudaGraphDispatch(doubled)
        for number in range(8):
            assert values(dispatch(cuda.tensor(number, 1), plus=0.5)) == [2 * number + 0.5, 2.5]
        assert dispatch.statistics() == GraphStatistics(eager=4, captures=1, replays=4, failures=0)
        assert dispatch.fallback_reason is None

    def test_the_function_is_not_called_by_a_replay(self, cuda):
        calls = []
        dispatch = CudaGraphDispatch(lambda x: calls.append(1) or x + 1, steady_after=1, warm_up=1)
        settle(dispatch, cuda.tensor(1), calls=10)
        assert len(calls) == 3  # eager, warm-up, capture

    def test_state_on_the_device_advances_once_a_call(self, cuda):
        state = cuda.tensor(0)

        def step(x: Tensor) -> Tensor:
            state.add_(1)
            return x + state

        dispatch = CudaGraphDispatch(step)
        assert [dispatch(cuda.tensor(10)).array[0] for _ in range(9)] == [11 + number for number in range(9)]

    def test_warm_up_is_on_a_side_stream_in_order_with_the_callers(self, cuda):
        dispatch = CudaGraphDispatch(doubled, steady_after=1, warm_up=1)
        x = cuda.tensor(1)
        dispatch(x)
        assert set(cuda.launched_on) == {cuda.default_stream}
        cuda.default_stream.seen.add("before")
        output = dispatch(x)
        (side,) = cuda.streams
        assert side in cuda.launched_on and "before" in side.seen
        assert output.used_on == [cuda.default_stream]  # its memory must not go back to the side stream too early
        dispatch(x)
        assert cuda.launched_on[-1] is cuda.default_stream

    def test_nested_arguments_and_results(self, cuda):
        class Pair(NamedTuple):
            a: Tensor
            b: Tensor

        def swap(given: dict[str, Any], *, pair: Pair) -> dict[str, Any]:
            return {"pair": Pair(pair.b + 0, pair.a + 0), "list": [given["x"] + 1, "text"]}

        dispatch = CudaGraphDispatch(swap, steady_after=0, warm_up=1)
        for number in range(4):
            result = dispatch({"x": cuda.tensor(number)}, pair=Pair(cuda.tensor(1), cuda.tensor(number)))
            assert values(result["pair"].a) == [number] and values(result["pair"].b) == [1]
            assert values(result["list"][0]) == [number + 1] and result["list"][1] == "text"
        assert dispatch.statistics().replays == 3


class TestBuffers:
    def test_outputs_are_the_same_buffer_every_time(self, cuda):
        dispatch = CudaGraphDispatch(doubled)
        settle(dispatch, cuda.tensor(0))
        first = dispatch(cuda.tensor(1))
        second = dispatch(cuda.tensor(2))
        assert first is second and values(first) == [4]

    def test_clones_are_the_callers_own(self, cuda):
        dispatch = CudaGraphDispatch(doubled, clone_outputs=True)
        settle(dispatch, cuda.tensor(0))
        first = dispatch(cuda.tensor(1))
        dispatch(cuda.tensor(2))
        assert values(first) == [2]

    def test_the_callers_tensor_is_only_read(self, cuda):
        dispatch = CudaGraphDispatch(doubled)
        x = cuda.tensor(3)
        settle(dispatch, x, calls=6)
        assert values(x) == [3]

    def test_an_expanded_argument_gets_a_buffer_that_can_be_written(self, cuda):
        x = Tensor(cuda, np.broadcast_to(np.float32(1), (3,)))
        dispatch = CudaGraphDispatch(doubled)
        settle(dispatch, x, calls=6)
        assert dispatch.statistics().replays == 2


class TestBranches:
    def test_each_has_a_graph_and_buffers_of_its_own(self, cuda):
        dispatch = CudaGraphDispatch(lambda x, guided: x + 100 if guided else x + 1)
        for _ in range(4):
            dispatch(cuda.tensor(0), True, branch="conditional")
            dispatch(cuda.tensor(0), False, branch="unconditional")
        conditional = dispatch(cuda.tensor(1), True, branch="conditional")
        unconditional = dispatch(cuda.tensor(2), False, branch="unconditional")
        assert (values(conditional), values(unconditional)) == ([101], [3])
        assert dispatch.statistics().captures == 2

    def test_reset_drops_one_or_all(self, cuda):
        dispatch = CudaGraphDispatch(doubled, steady_after=0, warm_up=1)
        for branch in ("a", "b"):
            settle(dispatch, cuda.tensor(1), branch=branch, calls=2)
        dispatch.reset("a")
        settle(dispatch, cuda.tensor(1), branch="a", calls=2)
        settle(dispatch, cuda.tensor(1), branch="b", calls=2)
        assert dispatch.statistics().captures == 3
        dispatch.reset(every=True)
        settle(dispatch, cuda.tensor(1), branch="b", calls=2)
        assert dispatch.statistics().captures == 4


class TestSignature:
    @pytest.mark.parametrize(
        "change",
        [
            lambda cuda: ((cuda.tensor(1, 2, 3),), {}),
            lambda cuda: ((Tensor(cuda, np.array([1, 2], np.float64)),), {}),
            lambda cuda: ((Tensor(cuda, np.zeros(4, np.float32)[::2]),), {}),
            lambda cuda: ((cuda.tensor(1, 2),), {"plus": 1.5}),
            lambda cuda: ((cuda.tensor(1, 2),), {"plus": 1}),
            lambda cuda: ((cuda.tensor(1, 2), 1.0), {}),
            lambda cuda: ((cuda.tensor(1, 2),), {"plus": -0.0}),
        ],
        ids=["shape", "dtype", "stride", "value", "type", "structure", "minus zero"],
    )
    def test_another_one_is_captured_anew(self, cuda, change):
        dispatch = CudaGraphDispatch(doubled)
        settle(dispatch, cuda.tensor(1, 2), plus=0.0, calls=6)
        args, kwargs = change(cuda)
        expected = values(doubled(*args, **kwargs))
        for _ in range(6):
            assert values(dispatch(*args, **kwargs)) == expected
        assert dispatch.statistics() == GraphStatistics(eager=8, captures=2, replays=4, failures=0)

    def test_torchs_modes_are_part_of_it(self, cuda):
        dispatch = CudaGraphDispatch(doubled)
        settle(dispatch, cuda.tensor(1), calls=5)
        with cuda.inference_mode():
            settle(dispatch, cuda.tensor(1), calls=5)
        assert dispatch.statistics().captures == 2

    def test_objects_count_by_identity(self, cuda):
        class Cache:
            offset = 5.0

        dispatch = CudaGraphDispatch(lambda x, cache: x + cache.offset)
        cache = Cache()
        settle(dispatch, cuda.tensor(1), cache, calls=5)
        assert dispatch.statistics().replays == 1
        dispatch(cuda.tensor(1), Cache())
        assert dispatch.statistics().replays == 1

    def test_one_that_never_settles_is_never_captured(self, cuda):
        dispatch = CudaGraphDispatch(doubled)
        for number in range(10):
            dispatch(cuda.tensor(1), plus=float(number))
        assert dispatch.statistics() == GraphStatistics(eager=10, captures=0, replays=0, failures=0)
        assert cuda.graphs == []


class TestFallback:
    def test_a_failed_capture_is_not_kept_and_leaves_torch_usable(self, cuda, caplog):
        def waits(x: Tensor) -> Tensor:
            y = x + 1
            return y * (2 if y.item() > 0 else 3)

        dispatch = CudaGraphDispatch(waits)
        for number in range(8):
            assert values(dispatch(cuda.tensor(number))) == [2 * (number + 1)]
        assert dispatch.statistics() == GraphStatistics(eager=8, captures=0, replays=0, failures=1)
        assert cuda.random() == 0.5
        assert cuda.cuda.current_stream() is cuda.default_stream and cuda.capturing is None
        (reason,) = reasons(caplog)
        assert "waits falls back to eager: the capture failed: CaptureError: operation failed" in reason
        other = CudaGraphDispatch(doubled)
        settle(other, cuda.tensor(1), calls=6)
        assert other.statistics().replays == 2

    def test_what_the_function_raises_while_it_is_captured_falls_back_too(self, cuda):
        def moody(x: Tensor) -> Tensor:
            if cuda.capturing is not None:
                raise ValueError("not now")
            return x + 1

        dispatch = CudaGraphDispatch(moody, name="the moody one")
        for number in range(6):
            assert values(dispatch(cuda.tensor(number))) == [number + 1]
        assert dispatch.fallback_reason == "the capture failed: ValueError: not now"

    def test_what_the_function_raises_eagerly_comes_out(self, cuda):
        dispatch = CudaGraphDispatch(lambda x: 1 / 0)
        for _ in range(5):
            with pytest.raises(ZeroDivisionError):
                dispatch(cuda.tensor(1))

    def test_a_failure_is_logged_once_and_only_its_branch_is_given_up(self, cuda, caplog):
        dispatch = CudaGraphDispatch(lambda x, fails: x + (x.item() if fails else 1))
        for branch, fails in [("a", True), ("b", True), ("c", False)]:
            settle(dispatch, cuda.tensor(1), fails, branch=branch, calls=6)
        assert dispatch.statistics() == GraphStatistics(eager=16, captures=1, replays=2, failures=2)
        assert len(reasons(caplog)) == 1

    def test_reset_gives_a_branch_another_try(self, cuda):
        fails = [True]
        dispatch = CudaGraphDispatch(lambda x: x + (x.item() if fails[0] else 1))
        settle(dispatch, cuda.tensor(1), calls=6)
        fails[0] = False
        dispatch.reset()
        settle(dispatch, cuda.tensor(1), calls=6)
        assert dispatch.statistics().replays == 2

    def test_writing_to_an_argument_is_noticed_and_not_lost(self, cuda, caplog):
        def writes(x: Tensor) -> Tensor:
            x.add_(1)
            return x + 0

        dispatch = CudaGraphDispatch(writes)
        x = cuda.tensor(0)
        assert [values(dispatch(x)) for _ in range(6)] == [[number] for number in range(1, 7)]
        assert values(x) == [6]
        assert reasons(caplog)[0].endswith("it writes to its tensor arguments")

    def test_outputs_that_require_grad_are_not_captured(self, cuda):
        def trained(x: Tensor) -> Tensor:
            y = x + 1
            y.requires_grad = True
            return y

        dispatch = CudaGraphDispatch(trained)
        settle(dispatch, cuda.tensor(1), calls=6)
        assert "inference_mode" in (dispatch.fallback_reason or "")

    def test_tensors_elsewhere_run_eagerly(self, cuda, caplog):
        dispatch = CudaGraphDispatch(lambda *xs: xs[0] + 1)
        settle(dispatch, cuda.tensor(1, device=CPU), calls=6)
        settle(dispatch, cuda.tensor(1), cuda.tensor(1, device=CPU), calls=6)
        assert dispatch.statistics() == GraphStatistics(eager=12, captures=0, replays=0, failures=0)
        assert len(reasons(caplog)) == 1 and "they are on cpu:0" in reasons(caplog)[0]
        settle(dispatch, cuda.tensor(1), calls=6)
        assert dispatch.statistics().replays == 2

    def test_memory_that_cannot_be_had_falls_back(self, cuda, monkeypatch):
        monkeypatch.setattr(FakeCuda, "empty_strided", lambda *_, **__: (_ for _ in ()).throw(MemoryError("full")))
        dispatch = CudaGraphDispatch(doubled)
        settle(dispatch, cuda.tensor(1), calls=6)
        assert dispatch.fallback_reason == "the capture failed: MemoryError: full"

    def test_without_a_gpu(self, monkeypatch, caplog):
        torch = FakeCuda(available=False)
        monkeypatch.setitem(sys.modules, "torch", torch)
        dispatch = CudaGraphDispatch(doubled)
        assert values(dispatch(torch.tensor(1, device=CPU))) == [2]
        settle(dispatch, torch.tensor(1, 2, device=CPU), calls=6)
        assert reasons(caplog) == [f"CUDA graph of {doubled.__qualname__} falls back to eager: there is no CUDA device"]


def test_arguments_are_checked(cuda):
    with pytest.raises(ValueError, match="warm_up at least 1, not 0 and 0"):
        CudaGraphDispatch(doubled, steady_after=0, warm_up=0)


def test_the_fake_refuses_what_a_gpu_refuses(cuda):
    with pytest.raises(CaptureError, match="previous error"):
        with cuda.cuda.graph(cuda.cuda.CUDAGraph(), stream=cuda.default_stream, capture_error_mode="thread_local"):
            cuda.tensor(1).item()
    with pytest.raises(AssertionError):
        cuda.random()


def test_on_torch_itself_without_a_gpu():
    import torch

    if torch.cuda.is_available():
        pytest.skip("scripts/gpu_check looks at this")
    dispatch = CudaGraphDispatch(torch.nn.Linear(3, 2))
    x = torch.ones(1, 3)
    with torch.inference_mode():
        results = [dispatch(x) for _ in range(5)]
    assert all(torch.equal(result, results[0]) for result in results)
    assert dispatch.fallback_reason == "there is no CUDA device"
