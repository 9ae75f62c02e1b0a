from __future__ import annotations

from pathlib import Path

import numpy as np

from realtime_engine.core.contract import SessionInit
from realtime_engine.core.streaming import StreamingEngine
from realtime_engine.integrations.dream_stages.demo import demo
from realtime_engine.integrations.registry import load_demo


def test_it_is_a_built_in_demo_with_the_flags_of_the_dream(weights_file: Path) -> None:
    assert load_demo("dream-stages") is demo
    assert demo.options is load_demo("dream").options
    options = demo.options(
        weights=weights_file, max_sessions=2, width=120, height=80, fps=10, frames_per_chunk=2, rows="occupied"
    )
    engine = demo.build_engine(options)
    assert isinstance(engine, StreamingEngine)
    manifest = engine.manifest()
    assert (manifest.max_sessions, manifest.chunk_shape, manifest.rate_hz) == (2, (2, 80, 120, 3), 5.0)
    engine.attach(SessionInit("a", {"seed": 1, "theme": "ember"}))
    (result,) = engine.step({"a": {"theme": "ember", "forward": 1.0}})
    assert result.output.shape == (2, 80, 120, 3) and result.output.dtype == np.uint8
    engine.close()
