"""The public names for authors of demos.

They come in five groups: the declaration of a demo, cameras, acceleration, timing ranges, and the inputs and outputs of
scripts around a model. Importing this module imports neither torch nor OpenCV nor PyAV. A name that needs one of them
imports it on first use, and raises :class:`MissingDependencyError`, which names the extra, if it is not installed.
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
    protocol_schema,
)
from .infra.controls.camera import (  # noqa: E402
    CameraRig,
    CameraSettings,
    CameraSystem,
    Intrinsics,
    PlayerClock,
    convert_poses,
    exp_se3,
    plucker_rays,
    relative_poses,
)
from .infra.demo import Demo, FrameFormat  # noqa: E402
from .infra.frame_format import guess_format, to_frames  # noqa: E402
from .infra.loading import report_loading  # noqa: E402
from .infra.mp4 import Mp4Writer  # noqa: E402
from .infra.page_style import PageStyle  # noqa: E402
from .infra.runner_io import (  # noqa: E402
    Cache,
    InputError,
    center_crop,
    cover,
    load_first_frame,
    load_image,
    load_prompt,
    load_prompts,
    load_video,
    output_path,
    read_stats,
    resize,
    to_array,
    to_tensor,
    write_stats,
)
from .infra.telemetry.cuda_ranges import RangeRecorder, range_events  # noqa: E402
from .infra.video_input import VideoInput  # noqa: E402

__all__ = [
    "ARROWS_AS_WASD",
    "Axis",
    "Cache",
    "CameraRig",
    "CameraSettings",
    "CameraSystem",
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
    "InputError",
    "Intrinsics",
    "KeyBinding",
    "MissingDependencyError",
    "Mp4Writer",
    "PageStyle",
    "PlayerClock",
    "PointerState",
    "Prewarm",
    "PrewarmStep",
    "RangeRecorder",
    "TensorSpec",
    "VideoInput",
    "WheelState",
    "center_crop",
    "convert_poses",
    "cover",
    "exp_se3",
    "guess_format",
    "load_first_frame",
    "load_image",
    "load_prompt",
    "load_prompts",
    "load_video",
    "output_path",
    "overlap_runner",
    "plucker_rays",
    "protocol_schema",
    "range_events",
    "read_stats",
    "relative_poses",
    "report_loading",
    "resize",
    "to_array",
    "to_frames",
    "to_tensor",
    "write_stats",
]
