"""Everything that the file of a demo imports beside the engine itself.

The names come in four groups: the declaration of a demo, cameras, acceleration, and the inputs and outputs of scripts
around a model. Importing this module imports neither torch nor OpenCV nor PyAV; what needs them imports them when it
is used, and a missing one is a :class:`MissingDependencyError` that names the extra.
"""

from __future__ import annotations

from .infra.extras import MissingDependencyError, require

require("pydantic", "serve", "declare a demo")

from .infra.acceleration import (  # noqa: E402
    Compiled,
    CompilePolicy,
    CudaGraphDispatch,
    EncoderLifecycle,
    FramePrefetcher,
    Prewarm,
    PrewarmStep,
    TensorSpec,
    overlap_runner,
)
from .infra.controls import (  # noqa: E402
    ARROWS_AS_WASD,
    Axis,
    Controls,
    ControlWindow,
    GamepadState,
    KeyBinding,
    PointerState,
    WheelState,
)
from .infra.controls.camera import (  # noqa: E402
    CameraRig,
    CameraSettings,
    Intrinsics,
    PlayerClock,
    plucker_rays,
)
from .infra.demo import Demo, FrameFormat  # noqa: E402
from .infra.frame_format import guess_format, to_frames  # noqa: E402
from .infra.loading import report_loading  # noqa: E402
from .infra.mp4 import Mp4Writer  # noqa: E402
from .infra.runner_io import (  # noqa: E402
    cover,
    load_image,
    load_prompt,
    load_prompts,
    load_video,
    output_path,
    to_tensor,
    write_stats,
)
from .infra.video_input import VideoInput  # noqa: E402

__all__ = [
    "ARROWS_AS_WASD",
    "Axis",
    "CameraRig",
    "CameraSettings",
    "CompilePolicy",
    "Compiled",
    "ControlWindow",
    "Controls",
    "CudaGraphDispatch",
    "Demo",
    "EncoderLifecycle",
    "FrameFormat",
    "FramePrefetcher",
    "GamepadState",
    "Intrinsics",
    "KeyBinding",
    "MissingDependencyError",
    "Mp4Writer",
    "PlayerClock",
    "PointerState",
    "Prewarm",
    "PrewarmStep",
    "TensorSpec",
    "VideoInput",
    "WheelState",
    "cover",
    "guess_format",
    "load_image",
    "load_prompt",
    "load_prompts",
    "load_video",
    "output_path",
    "overlap_runner",
    "plucker_rays",
    "report_loading",
    "to_frames",
    "to_tensor",
    "write_stats",
]
