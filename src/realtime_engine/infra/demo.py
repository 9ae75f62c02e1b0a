"""What a model author declares: everything between their model and a person in front of a browser."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from pydantic import BaseModel, RootModel

from ..core.contract import RealtimeInterface
from .controls import Controls, ControlWindow
from .controls.declaration import did_you_mean
from .video_input import VideoInput

Layout: TypeAlias = Literal["hwc", "chw", "thwc", "tchw", "bcthw", "bvtchw"]
ValueRange: TypeAlias = Literal["uint8", "zero_one", "minus_one_one"]


@dataclass(frozen=True)
class FrameFormat:
    """How a chunk's output becomes frames.

    Attributes:
        layout: order of its axes: b batch, v view, t time, c channel, h height, w width.
        value_range: ``uint8`` 0 to 255, ``zero_one`` floats 0 to 1, ``minus_one_one`` floats -1 to 1.

    Raises:
        ValueError: naming the field.
    """

    layout: Layout = "thwc"
    value_range: ValueRange = "uint8"

    def __post_init__(self) -> None:
        for name, known in (("layout", get_args(Layout)), ("value_range", get_args(ValueRange))):
            value = getattr(self, name)
            if value not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")


@dataclass(frozen=True, eq=False)
class Demo:
    """A model that people can open in a browser.

    Attributes:
        name: goes into addresses and commands: lower-case letters, digits and hyphens.
        title: for people.
        build: makes the engine out of the options (an instance of ``options``; ``None`` when that is ``None``). Heavy
            imports belong inside it.
        controls: what the demo reads of its players' hands.
        to_conditioning: what a player holds -> the engine's conditioning for that player's session. Called before
            each step, so it should be quick. The key ``"events"`` is kept for edges.
        frames: how a chunk's output becomes frames.
        description: a sentence or two for people.
        options: pydantic model of what the person who serves the demo chooses; the command line makes flags of it.
        required_context: names of fields that a client must have set before its session begins.
        context: fields -> what the session begins with. Without it, the fields that the client has set.
        page: folder of the demo's own page, with an ``index.html``; served under the demo's own prefix.
        routes: ``"module:attribute"`` of the demo's own routes, imported only when the demo is served.
        max_chunks: chunks after which a rollout finishes, counted from each attach or reset; ``None``: no limit.
        video_input: what the demo takes of its clients' video (``True``: a default :class:`VideoInput`); ``None`` or
            ``False``: none. Frames come to ``to_conditioning`` as ``window.video``.

    Raises:
        ValueError: naming the field, what was given and what was expected.
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
    page: Path | None = None
    routes: str | None = None
    video_input: VideoInput | bool | None = None
    max_chunks: int | None = None

    def __post_init__(self) -> None:
        self._check_texts()
        _check_kind("controls", self.controls, Controls)
        _check_kind("frames", self.frames, FrameFormat)
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
        """The engine, from ``options`` or else their defaults.

        Raises:
            TypeError: when ``options`` are not the demo's, or ``build`` returns something that is no engine.
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

    @property
    def takes_video(self) -> VideoInput | None:
        """What it takes of its clients' video, ``None`` if nothing."""
        if isinstance(self.video_input, VideoInput):
            return self.video_input
        return VideoInput() if self.video_input else None

    def missing_context(self, fields: BaseModel | None) -> tuple[str, ...]:
        """Names in ``required_context`` that nobody has set, or set to ``None`` or to nothing but spaces."""
        return tuple(name for name in self.required_context if not _is_given(fields, name))

    def attach_context(self, fields: BaseModel | None) -> Mapping[str, Any]:
        """What a session with these fields begins with."""
        if self.context is not None:
            return self.context(fields)
        return {} if fields is None else fields.model_dump(exclude_unset=True)

    def _check_texts(self) -> None:
        if not isinstance(self.name, str) or re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", self.name) is None:
            raise ValueError(
                f"name must be lower-case letters, digits and hyphens, such as 'my-model', got {self.name!r}"
            )
        if not isinstance(self.title, str) or not self.title.strip():
            raise ValueError(f"title must be a text for people, got {self.title!r}")
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
    """Whether ``text`` reads ``package.module:attribute``."""
    return isinstance(text, str) and re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*", text) is not None


def _is_stage_model(built: object) -> bool:
    """Whether it is the model that goes into an engine."""
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
    except ValueError:  # some built-in functions show no signature; the call will tell
        return


def _is_given(fields: BaseModel | None, name: str) -> bool:
    if fields is None or name not in fields.model_fields_set:
        return False
    value = getattr(fields, name)
    return value is not None and not (isinstance(value, str) and not value.strip())
