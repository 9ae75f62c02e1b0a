"""The declaration of a demo: how a model becomes an interactive session in the browser."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from pydantic import BaseModel, RootModel

from ..core.contract import RealtimeInterface
from ..core.errors import brief
from .controls import Controls, ControlWindow
from .controls.declaration import did_you_mean
from .page_style import PageStyle
from .video_input import VideoInput

Layout: TypeAlias = Literal["hwc", "chw", "thwc", "tchw", "bcthw", "bvtchw"]
ValueRange: TypeAlias = Literal["uint8", "zero_one", "minus_one_one"]
Scaling: TypeAlias = Literal["smooth", "sharp"]


@dataclass(frozen=True)
class FrameFormat:
    """Layout and value range of the output of a chunk, and how the page shows a frame.

    Attributes:
        layout: order of the axes: b batch, v view, t time, c channel, h height, w width.
        value_range: ``uint8`` 0 to 255, ``zero_one`` floats 0 to 1, ``minus_one_one`` floats -1 to 1.
        pixel_aspect: width of a pixel over its height, such as 8 / 7 for a console of the 1980s. The page stretches
            the picture; recordings and JPEGs keep the pixels.
        scaling: how the page enlarges the picture: ``smooth``, or ``sharp`` for pixel graphics.

    Raises:
        ValueError: a field is invalid; the message names it.
    """

    layout: Layout = "thwc"
    value_range: ValueRange = "uint8"
    pixel_aspect: float = 1.0
    scaling: Scaling = "smooth"

    def __post_init__(self) -> None:
        for name, known in (("layout", Layout), ("value_range", ValueRange), ("scaling", Scaling)):
            value = getattr(self, name)
            if value not in get_args(known):
                raise ValueError(f"{name} must be one of {', '.join(get_args(known))}, got {value!r}")
        aspect = self.pixel_aspect
        if not isinstance(aspect, (int, float)) or isinstance(aspect, bool) or not 0.1 <= aspect <= 10:
            raise ValueError(f"pixel_aspect must be a number from 0.1 to 10, got {aspect!r}")


@dataclass(frozen=True, eq=False)
class Demo:
    """A model that is served as an interactive demo.

    Attributes:
        name: used in URLs and commands: lower-case letters, digits and hyphens.
        title: display name.
        build: creates the engine from the options (an instance of ``options``, or ``None`` without options). Import
            heavy packages inside it.
        controls: the controls that the demo reads.
        to_conditioning: maps the control window of a session to its conditioning. Called for each input, so it should
            be fast. The key ``"events"`` is reserved for edges.
        frames: layout and value range of the output.
        description: one or two sentences for the page.
        options: pydantic model of the options of the server operator; each becomes a flag of the command line.
        required_context: names of fields that a client must set before its session starts.
        context: maps the fields to the initial context of a session; by default, the fields that the client has set.
        style: additions to the generic page.
        page: folder of the demo's own page with an ``index.html``, served under the prefix of the demo.
        routes: ``"module:attribute"`` of the demo's own routes, imported only when the demo is served.
        video_input: accepted video of clients (``True`` for a default :class:`VideoInput`); ``None`` or ``False`` for
            none. ``to_conditioning`` gets the frames as ``window.video``.
        max_chunks: number of chunks after which a rollout finishes, counted from each attach or reset; ``None`` for no
            limit.

    Raises:
        ValueError: a field is invalid; the message names it, the value and what is expected.
    """

    name: str
    title: str
    build: Callable[[Any], RealtimeInterface]
    controls: Controls
    to_conditioning: Callable[[ControlWindow], Mapping[str, Any]]
    frames: FrameFormat = field(default_factory=FrameFormat)
    description: str = ""
    options: type[BaseModel] | None = None
    required_context: tuple[str, ...] = ()
    context: Callable[[Any], Mapping[str, Any]] | None = None
    style: PageStyle = field(default_factory=PageStyle)
    page: Path | None = None
    routes: str | None = None
    video_input: VideoInput | bool | None = None
    max_chunks: int | None = None

    def __post_init__(self) -> None:
        self._check_texts()
        _check_kind("controls", self.controls, Controls)
        _check_kind("frames", self.frames, FrameFormat)
        _check_kind("style", self.style, PageStyle)
        if self.video_input is not None and not isinstance(self.video_input, (VideoInput, bool)):
            raise ValueError(f"video_input must be a VideoInput, True or None, got {self.video_input!r}")
        if self.max_chunks is not None and (
            not isinstance(self.max_chunks, int) or isinstance(self.max_chunks, bool) or self.max_chunks < 1
        ):
            raise ValueError(f"max_chunks must be an integer of 1 or more, or None, got {self.max_chunks!r}")
        _check_function("build", self.build, "the options")
        _check_function("to_conditioning", self.to_conditioning, "the control window")
        if self.context is not None:
            _check_function("context", self.context, "the fields")
        self._check_options()
        self._check_required_context()
        self._check_own_page()

    def build_engine(self, options: BaseModel | None = None) -> RealtimeInterface:
        """Build the engine from ``options``, or from their defaults.

        Raises:
            TypeError: ``options`` has the wrong type, or ``build`` does not return an engine.
        """
        if options is None and self.options is not None:
            options = self.options()
        if options is not None and (self.options is None or not isinstance(options, self.options)):
            expected = "none" if self.options is None else self.options.__name__
            raise TypeError(f"demo {self.name!r} takes {expected} as options, got {options!r}")
        engine = self.build(options)
        if not isinstance(engine, RealtimeInterface):
            hint = "; wrap it: ComposedEngine(model)" if _is_stage_model(engine) else ""
            raise TypeError(
                f"build of demo {self.name!r} must return an engine with manifest, attach, step, finalize and detach, "
                f"got {engine!r}{hint}"
            )
        return engine

    def conditioning(self, window: ControlWindow) -> Mapping[str, Any]:
        """The conditioning for a control window. Raises what ``to_conditioning`` raises.

        Raises:
            TypeError: ``to_conditioning`` returned no mapping.
        """
        conditioning: object = self.to_conditioning(window)
        if not isinstance(conditioning, Mapping):
            raise TypeError(
                f"to_conditioning of demo {self.name!r} must return a mapping, such as {{'move': 1}}, "
                f"got {type(conditioning).__name__}: {brief(conditioning)}"
            )
        return conditioning

    @property
    def takes_video(self) -> VideoInput | None:
        """Accepted video of clients; ``None`` if the demo takes none."""
        if isinstance(self.video_input, VideoInput):
            return self.video_input
        return VideoInput() if self.video_input else None

    @property
    def takes_input(self) -> bool:
        """Whether it reads anything from its clients."""
        declared = self.controls
        devices = (declared.keys, declared.pointer, declared.wheel, declared.gamepad, declared.sticks, declared.fields)
        return any(devices) or self.takes_video is not None

    def missing_context(self, fields: BaseModel | None) -> tuple[str, ...]:
        """Names in ``required_context`` that are not set, or set to ``None`` or blank text."""
        return tuple(name for name in self.required_context if not _is_given(fields, name))

    def attach_context(self, fields: BaseModel | None) -> Mapping[str, Any]:
        """The initial context of a session with these fields."""
        if self.context is not None:
            return self.context(fields)
        return {} if fields is None else fields.model_dump(exclude_unset=True)

    def _check_texts(self) -> None:
        if not isinstance(self.name, str) or re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", self.name) is None:
            raise ValueError(
                f"name must be lower-case letters, digits and hyphens, such as 'my-model', got {self.name!r}"
            )
        if not isinstance(self.title, str) or not self.title.strip():
            raise ValueError(f"title must be a non-empty text, got {self.title!r}")
        _check_kind("description", self.description, str)

    def _check_options(self) -> None:
        model = self.options
        if model is not None and not (
            isinstance(model, type) and issubclass(model, BaseModel) and not issubclass(model, RootModel)
        ):
            raise ValueError(f"options must be a subclass of pydantic.BaseModel with named fields, got {model!r}")

    def _check_required_context(self) -> None:
        if not isinstance(self.required_context, tuple):
            raise ValueError(f"required_context must be a tuple of field names, got {self.required_context!r}")
        known = () if self.controls.fields is None else tuple(self.controls.fields.model_fields)
        for name in self.required_context:
            if name not in known:
                hint = did_you_mean(str(name), known)
                raise ValueError(f"required_context: {name!r} is not a field of controls.fields{hint}")

    def _check_own_page(self) -> None:
        if self.page is not None and not (isinstance(self.page, Path) and (self.page / "index.html").is_file()):
            raise ValueError(f"page must be the Path of a folder with an index.html, got {self.page!r}")
        if self.routes is not None and not is_import_target(self.routes):
            raise ValueError(f"routes must be 'module:attribute', got {self.routes!r}")


def is_import_target(text: object) -> bool:
    """Whether ``text`` has the form ``package.module:attribute``."""
    return isinstance(text, str) and re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*", text) is not None


def _is_stage_model(built: object) -> bool:
    """Whether ``built`` is a stage model, which an engine wraps."""
    return all(hasattr(built, name) for name in ("stages", "seed")) and not hasattr(built, "step")


def _check_kind(name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise ValueError(f"{name} must be of type {kind.__name__}, got {value!r}")


def _check_function(name: str, function: object, argument: str) -> None:
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise ValueError(f"{name} must be a plain function of {argument}, got {function!r}")
    try:
        inspect.signature(function).bind(None)
    except TypeError as error:
        raise ValueError(f"{name} must take one argument, {argument}: {error}") from None
    except ValueError:  # some built-in functions have no signature
        return


def _is_given(fields: BaseModel | None, name: str) -> bool:
    if fields is None or name not in fields.model_fields_set:
        return False
    value = getattr(fields, name)
    return value is not None and not (isinstance(value, str) and not value.strip())
