"""Inputs and outputs of scripts that run a model without a server: prompts, images, videos, tensors and statistics."""

from .cache import Cache, local_path
from .errors import FetchError, InputError
from .images import INTERPOLATIONS, center_crop, cover, load_image, resize
from .model_input import to_array, to_tensor
from .outputs import STATS_SCHEMA, STATS_VERSION, output_path, read_stats, write_stats
from .prompts import load_prompt, load_prompts
from .videos import Video, load_first_frame, load_video

__all__ = [
    "INTERPOLATIONS",
    "STATS_SCHEMA",
    "STATS_VERSION",
    "Cache",
    "FetchError",
    "InputError",
    "Video",
    "center_crop",
    "cover",
    "load_first_frame",
    "load_image",
    "load_prompt",
    "load_prompts",
    "load_video",
    "local_path",
    "output_path",
    "read_stats",
    "resize",
    "to_array",
    "to_tensor",
    "write_stats",
]
