"""Finds and loads demos: built-in, from installed packages, or from a file."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from types import MappingProxyType, ModuleType

from ..core.errors import RealtimeEngineError, describe
from ..infra.controls.declaration import did_you_mean
from ..infra.demo import Demo, is_import_target

_log = logging.getLogger(__name__)

ENTRY_POINT_GROUP = "realtime_engine.demos"
BUILT_IN: Mapping[str, str] = MappingProxyType(
    {
        "compare": "realtime_engine.integrations.compare.demo:demo",
        "dream": "realtime_engine.integrations.dream.demo:demo",
        "dream-stages": "realtime_engine.integrations.dream_stages.demo:demo",
        "maze": "realtime_engine.integrations.maze.demo:demo",
        "mirror": "realtime_engine.integrations.mirror.demo:demo",
        "stages": "realtime_engine.integrations.maze_stages.demo:demo",
    }
)


class DemoLoadError(RealtimeEngineError):
    """The demo does not exist or cannot be loaded; the message says what to do."""


@dataclass(frozen=True)
class DemoSource:
    """The source of a named demo.

    Attributes:
        name: name of the demo.
        target: ``module:attribute``.
        origin: the distribution, or ``built in``, for display.
    """

    name: str
    target: str
    origin: str


@dataclass(frozen=True)
class ListedDemo:
    """A named demo after an attempt to load it: either ``demo`` or ``error`` is ``None``."""

    source: DemoSource
    demo: Demo | None = None
    error: str | None = None


def demo_sources() -> dict[str, DemoSource]:
    """The sources of all named demos, sorted by name, without importing them.

    Built-in demos take precedence over installed ones. Of two installed demos with the same name, the first is used.
    """
    sources = {name: DemoSource(name, target, "built in") for name, target in BUILT_IN.items()}
    for point in entry_points(group=ENTRY_POINT_GROUP):
        origin = point.dist.name if point.dist is not None else "installed"
        if point.name in sources:
            _log.warning(
                "demo %r of %s is ignored: the name is used by %s", point.name, origin, sources[point.name].origin
            )
            continue
        sources[point.name] = DemoSource(point.name, point.value, origin)
    return dict(sorted(sources.items()))


def list_demos() -> list[ListedDemo]:
    """All named demos, sorted by name, with the error of those that cannot be loaded."""
    return [_listed(source) for source in demo_sources().values()]


def load_demo(spec: str) -> Demo:
    """Load the demo named ``spec``, or the one in a file: ``path/to/file.py:attribute``.

    A file is loaded as a module, with its folder in ``sys.path``.

    Raises:
        DemoLoadError: the demo does not exist or cannot be loaded; the message suggests alternatives.
    """
    path, colon, attribute = spec.rpartition(":")
    if path.endswith(".py"):
        return _demo_in(_load_file(Path(path)), attribute, path)
    if spec.endswith(".py"):
        raise DemoLoadError(f"expected path/to/file.py:attribute, got {spec!r}; try {spec}:demo")
    if colon or "/" in spec:
        raise DemoLoadError(f"expected the name of a demo or path/to/file.py:attribute, got {spec!r}")
    sources = demo_sources()
    if spec not in sources:
        raise DemoLoadError(f"there is no demo named {spec!r}{did_you_mean(spec, sources)}")
    return _load_target(sources[spec])


def _listed(source: DemoSource) -> ListedDemo:
    try:
        return ListedDemo(source, demo=_load_target(source))
    except DemoLoadError as error:
        return ListedDemo(source, error=str(error))


def _load_target(source: DemoSource) -> Demo:
    if not is_import_target(source.target):
        raise DemoLoadError(f"demo {source.name!r} ({source.origin}): expected module:attribute, got {source.target!r}")
    module_name, _, attribute = source.target.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # an import may raise anything
        raise DemoLoadError(f"demo {source.name!r} ({source.origin}) cannot be imported: {describe(error)}") from error
    return _demo_in(module, attribute, module_name)


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise DemoLoadError(f"there is no file {str(path)!r}{_near_files(path)}")
    path = path.resolve()
    name = f"realtime_engine_demo_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    loaded = sys.modules.get(name)
    return loaded if loaded is not None else _execute(path, name)


def _execute(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise DemoLoadError(f"{path} cannot be loaded as a Python module")
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    is_named = sys.modules.setdefault(path.stem, module) is module  # so that routes="my_file:router" runs it only once
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # code of the demo may raise anything
        del sys.modules[name]
        if is_named:
            del sys.modules[path.stem]
        raise DemoLoadError(f"{path}{_line_in(path, error)} cannot be loaded: {describe(error)}") from error
    return module


def _line_in(path: Path, error: BaseException) -> str:
    """``", line 3"``: the last line of the file in the traceback of the error."""
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == str(path) else None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return "" if line is None else f", line {line}"


def _demo_in(module: ModuleType, attribute: str, where: str) -> Demo:
    demos = [name for name, value in vars(module).items() if isinstance(value, Demo)]
    if not hasattr(module, attribute):
        raise DemoLoadError(f"{where} has no attribute {attribute!r}; its demos: {', '.join(demos) or 'none'}")
    value = getattr(module, attribute)
    if not isinstance(value, Demo):
        found = f"{where}:{attribute} is of type {type(value).__name__}, expected Demo"
        raise DemoLoadError(f"{found}; its demos: {', '.join(demos) or 'none'}")
    return value


def _near_files(path: Path) -> str:
    if not path.parent.is_dir():
        return f"; there is no folder {str(path.parent)!r} either"
    names = [entry.name for entry in path.parent.glob("*.py")]
    near = difflib.get_close_matches(path.name, names, n=3)
    return f"; did you mean {' or '.join(repr(str(path.parent / name)) for name in near)}?" if near else ""
