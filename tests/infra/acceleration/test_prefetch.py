from __future__ import annotations

import logging

import numpy as np
import pytest

from realtime_engine.infra.acceleration import FramePrefetcher, PrefetchEmptyError, PrefetchFullError

from .fake_cuda import CPU, Tensor


def values(tensor: Tensor) -> list[float]:
    return tensor.array.tolist()


def test_frames_come_out_in_order_on_the_host(cuda):
    prefetcher = FramePrefetcher()
    for number in range(5):
        prefetcher.put(cuda.tensor(number, number + 1))
        assert prefetcher.unread == 1
        got = prefetcher.get()
        assert values(got) == [number, number + 1]
        assert got.pinned and got.device == CPU
    assert prefetcher.unread == 0


def test_the_copy_to_the_host_is_on_a_stream_of_its_own_after_the_callers_work(cuda):
    prefetcher = FramePrefetcher()
    cuda.default_stream.seen.add("frames")
    prefetcher.put(cuda.tensor(1))
    (side,) = cuda.streams
    assert cuda.launched_on == [cuda.default_stream, side]
    assert "frames" in side.seen and "frames" not in cuda.host_seen
    prefetcher.get()
    assert "frames" in cuda.host_seen  # the host has waited for the copy
    prefetcher.put(cuda.tensor(1))
    assert cuda.streams == [side]


def test_the_source_may_be_overwritten_after_put(cuda):
    prefetcher, frames = FramePrefetcher(), cuda.tensor(1)
    prefetcher.put(frames)
    frames.add_(5)
    assert values(prefetcher.get()) == [1]


def test_it_is_bounded_and_what_is_being_read_is_not_overwritten(cuda):
    prefetcher = FramePrefetcher()
    prefetcher.put(cuda.tensor(1))
    reading = prefetcher.get()
    prefetcher.put(cuda.tensor(2))
    prefetcher.put(cuda.tensor(3))
    with pytest.raises(PrefetchFullError, match="2 puts are unread"):
        prefetcher.put(cuda.tensor(4))
    assert values(reading) == [1]
    assert values(prefetcher.get()) == [2]
    prefetcher.put(cuda.tensor(4))
    assert [values(prefetcher.get()) for _ in range(2)] == [[3], [4]]


def test_a_loop_that_puts_the_new_and_gets_the_one_before(cuda):
    prefetcher, got = FramePrefetcher(), []
    for number in range(6):
        prefetcher.put(cuda.tensor(number))
        if number:
            got += values(prefetcher.get())
    assert got == [0, 1, 2, 3, 4]


def test_deeper(cuda):
    prefetcher = FramePrefetcher(depth=4)
    for number in range(4):
        prefetcher.put(cuda.tensor(number))
    with pytest.raises(PrefetchFullError):
        prefetcher.put(cuda.tensor(9))
    assert [values(prefetcher.get()) for _ in range(4)] == [[0], [1], [2], [3]]


def test_nothing_to_get(cuda):
    prefetcher = FramePrefetcher()
    with pytest.raises(PrefetchEmptyError):
        prefetcher.get()
    prefetcher.put(cuda.tensor(1))
    reading = prefetcher.get()
    with pytest.raises(PrefetchEmptyError):
        prefetcher.get()
    prefetcher.put(cuda.tensor(2))
    assert values(reading) == [1]


def test_buffers_are_reused_and_remade_for_another_shape(cuda):
    prefetcher = FramePrefetcher()
    buffers = []
    for _ in range(6):
        prefetcher.put(cuda.tensor(1, 2))
        buffers.append(prefetcher.get())
    assert buffers[:3] == buffers[3:] and len({id(buffer) for buffer in buffers}) == 3
    prefetcher.put(cuda.tensor(1, 2, 3))
    assert values(prefetcher.get()) == [1, 2, 3]
    prefetcher.put(Tensor(cuda, np.array([7], np.uint8)))
    assert prefetcher.get().dtype == np.uint8


def test_a_put_that_fails_costs_no_buffer(cuda, monkeypatch):
    prefetcher = FramePrefetcher()
    frames = cuda.tensor(1)
    with monkeypatch.context() as patch:
        patch.setattr(cuda, "empty", lambda *_, **__: (_ for _ in ()).throw(MemoryError))
        for _ in range(5):
            with pytest.raises(MemoryError):
                prefetcher.put(frames)
    prefetcher.put(frames)
    prefetcher.put(frames)
    assert values(prefetcher.get()) == [1]


def test_a_depth_of_none_is_refused(cuda):
    with pytest.raises(ValueError, match="at least 1"):
        FramePrefetcher(depth=0)


def test_on_torch_itself_without_a_gpu(caplog):
    import torch

    prefetcher, frames = FramePrefetcher(), torch.arange(6, dtype=torch.bfloat16).reshape(2, 3).T
    for _ in range(3):
        prefetcher.put(frames)
        got = prefetcher.get()
        assert torch.equal(got, frames) and got.dtype == torch.bfloat16
        assert got.data_ptr() != frames.data_ptr()
    warnings = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert warnings == ["prefetch of frames falls back to eager: frames are on cpu, not on a CUDA device"]
