"""The commands that take a demo, with flags for its options and fields."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import typer
from pydantic import BaseModel

from ..infra.control_log import ControlLog, LogError, read_log
from ..infra.demo import Demo
from ..infra.signals import exit_code
from ..integrations.registry import load_demo
from ..server import ServerConfig
from .bench import BenchConfig, bench_demo
from .console import LEVELS, CommandError, configure_logging, err
from .flags import (
    config_from,
    config_parameters,
    field_parameters,
    fields_from,
    option_parameters,
    options_from,
    parameter,
    with_default,
)
from .run import RunConfig, run_demo
from .serve import ServeConfig, serve_demo, serve_gallery

DEMO_HELP = "Name of a demo (see: realtime-engine list), or a file: path/to/file.py:demo"


@dataclass(frozen=True)
class DemoCommand:
    """A command of the form ``NAME DEMO [FLAGS]``.

    Attributes:
        name: name of the command.
        config: dataclass of its settings, with one flag for each field.
        panel: heading of the settings in the help.
        about: help text without a demo.
        about_demo: help text with a demo; ``{demo}`` is its title.
        takes_fields: whether the fields of the demo have flags.
        takes_several: whether it takes several demos.
        act: runs the command with the demos and the values of all flags; returns the exit code.
    """

    name: str
    config: type
    panel: str
    about: str
    about_demo: str
    takes_fields: bool
    takes_several: bool
    act: Callable[[Sequence[Demo], Mapping[str, Any]], int]

    def help_for(self, demo: Demo | None) -> str:
        """The help text."""
        about = self.about if demo is None else f"{self.about_demo.format(demo=demo.title)} {demo.description}"
        more = ""
        if demo is None:
            more = f"{self.name} DEMO --help shows the demo's own options too, which come after its name. "
        variable = (
            "REALTIME_ENGINE_PORT is --port"
            if issubclass(self.config, ServerConfig)
            else "REALTIME_ENGINE_OUT is --out"
        )
        return f"{about.strip()}\n\n{more}Each option can also be set in the environment: {variable}."

    def function(self, demo: Demo | None) -> Callable[..., int]:
        """A function with one parameter for each flag, as expected by typer."""

        def command(**values: Any) -> int:
            configure_logging(_checked_level(values["log_level"]))
            try:
                demos = [demo] if demo is not None else [load_demo(spec) for spec in _listed(values["demo"])]
                return self.act(demos, values)
            except KeyboardInterrupt as error:  # for typer, every one is a SIGINT
                return exit_code(error)

        parameters = [_demo_parameter(self.takes_several), *self._own(demo), *self._settings()]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return command

    def flags_with_value(self, demo: Demo | None = None) -> set[str]:
        """Flags that take a value, those of the options of ``demo`` included."""
        settings = (each for each in [*self._own(demo), *self._settings()] if each.annotation is not bool)
        return {flag for setting in settings for flag in setting.default.param_decls}

    def option_flags(self, demo: Demo | None) -> set[str]:
        """Flags of the options of ``demo``."""
        return {flag for option in self._own(demo) for name in option.default.param_decls for flag in name.split("/")}

    def _settings(self) -> list[inspect.Parameter]:
        return [*config_parameters(self.config, self.panel), _level_parameter(self.panel)]

    def _own(self, demo: Demo | None) -> list[inspect.Parameter]:
        if demo is None:
            return []
        own = [] if demo.options is None else option_parameters(demo.options, self.config, self.name)
        if self.takes_fields and demo.controls.fields is not None:
            own += field_parameters(demo.controls.fields, self.config, demo.options)
        return own


def _serve(demos: Sequence[Demo], values: Mapping[str, Any]) -> int:
    config = config_from(values)
    if len(demos) > 1:
        return serve_gallery(demos, config, share=values["share"])
    return serve_demo(demos[0], config, _options(demos[0], values), share=values["share"])


def _run(demos: Sequence[Demo], values: Mapping[str, Any]) -> int:
    (demo,) = demos
    config: RunConfig = _settings(RunConfig, values)
    log = _log(config.controls)
    if log.demo not in (None, demo.name):
        err.print(f"{config.controls} was recorded with demo {log.demo!r}, not {demo.name!r}", markup=False)
    return run_demo(demo, config, _options(demo, values, log.options), _fields(demo, values), log)


def _bench(demos: Sequence[Demo], values: Mapping[str, Any]) -> int:
    (demo,) = demos
    return bench_demo(demo, _settings(BenchConfig, values), _options(demo, values), _fields(demo, values))


DEMO_COMMANDS = (
    DemoCommand(
        "serve",
        ServeConfig,
        "Server",
        "Serve a demo, or several with a gallery.",
        "Serve {demo}.",
        False,
        True,
        _serve,
    ),
    DemoCommand(
        "run",
        RunConfig,
        "Run",
        "Run a demo without a server, from a control log to an MP4.",
        "Run {demo} without a server.",
        True,
        False,
        _run,
    ),
    DemoCommand(
        "bench",
        BenchConfig,
        "Bench",
        "Measure how many sessions of a demo are served in time.",
        "Measure how many sessions of {demo} are served in time.",
        True,
        False,
        _bench,
    ),
)


def _settings(config: type, values: Mapping[str, Any]) -> Any:
    try:
        return config(**{field.name: values[field.name] for field in fields(config)})
    except ValueError as error:
        raise CommandError(str(error)) from error


def _options(demo: Demo, values: Mapping[str, Any], base: Mapping[str, Any] | None = None) -> BaseModel | None:
    if demo.options is None:
        return None
    given = {name: values.get(name) for name in demo.options.model_fields}
    return options_from(demo.options, given, base)


def _fields(demo: Demo, values: Mapping[str, Any]) -> dict[str, Any]:
    return {} if demo.controls.fields is None else fields_from(demo.controls.fields, values)


def _log(path: str | None) -> ControlLog:
    if path is None:
        return ControlLog()
    try:
        return read_log(path)
    except LogError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"--controls: cannot read {path}: {error.strerror or error}") from error


def _demo_parameter(takes_several: bool) -> inspect.Parameter:
    argument = typer.Argument(metavar="DEMO", help=DEMO_HELP)
    kind = list[str] if takes_several else str
    return inspect.Parameter("demo", inspect.Parameter.KEYWORD_ONLY, default=argument, annotation=kind)


def _listed(specs: str | list[str]) -> list[str]:
    return [specs] if isinstance(specs, str) else specs


def _level_parameter(panel: str) -> inspect.Parameter:
    text = with_default(f"Log level: {', '.join(LEVELS)}.", "info")
    return parameter("log_level", str, "info", "--log-level", text, rich_help_panel=panel, metavar="LEVEL")


def _checked_level(level: str) -> str:
    if level.lower() not in LEVELS:
        raise CommandError(f"--log-level must be one of {', '.join(LEVELS)}, got {level!r}")
    return level.lower()
