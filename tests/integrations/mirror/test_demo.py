from __future__ import annotations

import subprocess
import sys

import numpy as np

from realtime_engine.core.contract import SessionInit
from realtime_engine.infra.controls import ControlState, ControlWindow
from realtime_engine.infra.video_input import VideoWindow
from realtime_engine.integrations.mirror.demo import Options, demo
from realtime_engine.integrations.mirror.effects import EFFECTS
from realtime_engine.integrations.registry import load_demo


def window(**fields: object) -> ControlWindow:
    state = ControlState(demo.controls)
    assert not state.receive({"v": 1, "type": "controls", "seq": 1, "fields": fields})
    return state.window()


def test_it_is_found_by_its_name_and_takes_video() -> None:
    assert load_demo("mirror") is demo
    assert demo.takes_video is not None and demo.takes_video.max_side == 640


def test_what_a_visitor_chooses_reaches_the_model() -> None:
    made = demo.to_conditioning(window(effect="posterise", strength=0.25, mirrored=False))
    assert made == {"video": None, "effect": "posterise", "strength": 0.25, "mirrored": False}


def test_every_effect_can_be_chosen_and_no_other() -> None:
    for effect in EFFECTS:
        window(effect=effect)
    state = ControlState(demo.controls)
    (reply,) = state.receive({"v": 1, "type": "controls", "seq": 1, "fields": {"effect": "blur"}})
    assert reply["error"]["code"] == "bad_field"


def test_the_engine_is_as_the_options_say() -> None:
    engine = demo.build_engine(Options(max_sessions=2, width=64, height=32, fps=20))
    manifest = engine.manifest()
    assert (manifest.max_sessions, manifest.chunk_shape, manifest.rate_hz) == (2, (1, 32, 64, 3), 20.0)
    engine.attach(SessionInit("a"))
    (made,) = engine.step({"a": {**demo.to_conditioning(window()), "video": VideoWindow()}})
    assert made.output.shape == (1, 32, 64, 3) and made.output.dtype == np.uint8


def test_declaring_it_imports_nothing_heavy() -> None:
    code = (
        "import sys, realtime_engine.integrations.mirror.demo\n"
        "sys.exit(', '.join(sorted({'torch', 'cv2', 'av', 'aiortc', 'fastapi'} & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
