import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel, Field, RootModel, ValidationError

from realtime_engine.examples import CpuReferenceEngine, CpuStageModel
from realtime_engine.infra.controls import Controls, ControlState
from realtime_engine.infra.demo import Demo, FrameFormat
from realtime_engine.infra.video_input import VideoInput
from realtime_engine.testing import ManualClock


class Fields(BaseModel):
    prompt: str = ""
    seed: int | None = None


class Options(BaseModel):
    max_sessions: int = Field(2, ge=1)


class Pages(RootModel[int]):
    root: int = 0


def build(options):
    return CpuReferenceEngine(max_sessions=options.max_sessions)


def demo(**given):
    declared = {
        "name": "my-model",
        "title": "My model",
        "build": build,
        "controls": Controls(fields=Fields),
        "to_conditioning": lambda window: window.field_values,
        "options": Options,
        **given,
    }
    return Demo(**declared)


async def coroutine(options):
    return None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"name": "My Model"},
            "name must be lower-case letters, digits and hyphens, such as 'my-model', got 'My Model'",
        ),
        ({"name": "-a"}, "name must be lower-case"),
        ({"name": None}, "name must be lower-case"),
        ({"title": " "}, "title must be a non-empty text, got ' '"),
        ({"description": None}, "description must be of type str, got None"),
        ({"controls": None}, "controls must be of type Controls, got None"),
        ({"frames": "thwc"}, "frames must be of type FrameFormat, got 'thwc'"),
        ({"video_input": "yes"}, "video_input must be a VideoInput, True or None, got 'yes'"),
        ({"max_chunks": 0}, "max_chunks must be an integer of 1 or more, or None, got 0"),
        ({"max_chunks": True}, "max_chunks must be an integer of 1 or more, or None, got True"),
        ({"max_chunks": 2.5}, "max_chunks must be an integer of 1 or more, or None, got 2.5"),
        ({"build": CpuReferenceEngine(max_sessions=1)}, "build must be a plain function of the options, got"),
        ({"build": coroutine}, "build must be a plain function of the options, got"),
        ({"build": lambda: None}, "build must take one argument, the options: too many positional"),
        ({"build": lambda a, b: None}, "build must take one argument, the options: missing a required argument: 'b'"),
        ({"to_conditioning": lambda: {}}, "to_conditioning must take one argument, the control window"),
        ({"context": lambda: {}}, "context must take one argument, the fields"),
        ({"options": dict}, "options must be a subclass of pydantic.BaseModel"),
        ({"options": Options()}, "options must be a subclass of pydantic.BaseModel"),
        ({"options": Pages}, "options must be a subclass of pydantic.BaseModel with named fields"),
        ({"required_context": "prompt"}, "required_context must be a tuple of field names, got 'prompt'"),
        ({"required_context": ("promt",)}, "required_context: 'promt' is not a field of controls.fields; did you mean"),
        ({"required_context": ("a",), "controls": Controls()}, "'a' is not a field of controls.fields; there is none"),
        ({"page": "page"}, "page must be the Path of a folder with an index.html, got 'page'"),
        ({"page": Path("nowhere")}, "page must be the Path of a folder with an index.html"),
        ({"routes": "routes.py"}, "routes must be 'module:attribute', got 'routes.py'"),
        ({"routes": "a.b:c.d"}, "routes must be 'module:attribute'"),
    ],
)
def test_a_wrong_declaration_names_its_field(given, message):
    with pytest.raises(ValueError, match=message):
        demo(**given)


def test_a_right_declaration_stands(tmp_path):
    (tmp_path / "index.html").write_text("<!doctype html>")
    full = demo(
        page=tmp_path, routes="my_model.web:routes", required_context=("prompt",), context=dict, video_input=True
    )
    assert (full.frames, full.page, full.routes) == (FrameFormat("thwc", "uint8"), tmp_path, "my_model.web:routes")


@pytest.mark.parametrize("layout", ["hwc", "chw", "thwc", "tchw", "bcthw", "bvtchw"])
@pytest.mark.parametrize("value_range", ["uint8", "zero_one", "minus_one_one"])
def test_every_frame_format_can_be_declared(layout, value_range):
    assert demo(frames=FrameFormat(layout, value_range)).frames.layout == layout


def test_a_wrong_frame_format_names_what_there_is():
    with pytest.raises(ValueError, match="layout must be one of hwc, chw, .*, got 'whc'"):
        FrameFormat("whc")
    with pytest.raises(ValueError, match="value_range must be one of uint8, zero_one, minus_one_one, got None"):
        FrameFormat(value_range=None)


def test_the_engine_is_built_from_the_options_or_their_defaults():
    assert demo().build_engine().manifest().max_sessions == 2
    assert demo().build_engine(Options(max_sessions=5)).manifest().max_sessions == 5


def test_a_demo_without_options_is_built_from_none():
    plain = demo(options=None, build=lambda options: CpuReferenceEngine(max_sessions=1 if options is None else 9))
    assert plain.build_engine().manifest().max_sessions == 1


def test_options_without_a_default_must_be_given():
    class Needed(BaseModel):
        weights: str

    with pytest.raises(ValidationError, match="weights"):
        demo(options=Needed).build_engine()


@pytest.mark.parametrize(("options", "expected"), [(Options, "Options"), (None, "none")])
def test_options_of_another_kind_are_refused(options, expected):
    with pytest.raises(TypeError, match=f"demo 'my-model' takes {expected} as options, got Fields"):
        demo(options=options).build_engine(Fields())


def test_what_is_no_engine_is_refused():
    with pytest.raises(TypeError, match="build of demo 'my-model' must return an engine with manifest, .*, got 3"):
        demo(build=lambda options: 3).build_engine()


def test_a_model_without_its_engine_is_to_be_wrapped():
    with pytest.raises(TypeError, match=r"got <.*CpuStageModel.*>; wrap it: ComposedEngine\(model\)$"):
        demo(build=lambda options: CpuStageModel(max_sessions=1)).build_engine()


@pytest.mark.parametrize(
    ("fields", "missing"),
    [
        (None, ("prompt", "seed")),
        (Fields(), ("prompt", "seed")),
        (Fields(prompt="ice"), ("seed",)),
        (Fields(prompt="  ", seed=0), ("prompt",)),
        (Fields(prompt="ice", seed=None), ("seed",)),
        (Fields(prompt="ice", seed=0), ()),
    ],
)
def test_context_is_missing_until_a_client_has_set_it(fields, missing):
    assert demo(required_context=("prompt", "seed")).missing_context(fields) == missing


def test_a_session_begins_with_the_fields_that_were_set_or_with_what_the_demo_makes_of_them():
    assert demo().attach_context(Fields(seed=3)) == {"seed": 3}
    assert demo().attach_context(None) == {}
    made = demo(context=lambda fields: {"prompt": fields.prompt.upper()})
    assert made.attach_context(Fields(prompt="ice")) == {"prompt": "ICE"}


def test_a_client_fills_the_required_context_by_its_messages():
    declared = demo(required_context=("prompt",))
    state = ControlState(declared.controls, ManualClock())
    assert declared.missing_context(state.window().fields) == ("prompt",)
    state.receive({"v": 1, "type": "controls", "seq": 0, "fields": {"prompt": "ice"}})
    window = state.window()
    assert declared.missing_context(window.fields) == ()
    assert declared.attach_context(window.fields) == {"prompt": "ice"}
    assert declared.to_conditioning(window) == {"prompt": "ice", "seed": None}


@pytest.mark.parametrize(
    ("given", "taken"),
    [(None, None), (False, None), (True, VideoInput()), (VideoInput("ring", 4), VideoInput("ring", 4))],
)
def test_a_demo_takes_the_video_that_it_declares(given, taken):
    assert demo(video_input=given).takes_video == taken


def test_declaring_a_demo_imports_nothing_heavy():
    code = (
        "import sys, realtime_engine.infra.demo, realtime_engine.integrations.registry\n"
        "heavy = {'torch', 'cv2', 'av', 'aiortc', 'fastapi', 'uvicorn', 'realtime_engine.integrations.maze'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
