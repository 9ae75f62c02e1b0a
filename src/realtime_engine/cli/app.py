"""The commands."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from typing import Any

import typer

from ..infra.demo import Demo
from ..integrations.registry import DemoLoadError, load_demo
from .console import LEVELS, complain, configure_logging, out
from .errors import CommandError
from .flags import config_from, config_parameters, flag_of, option_parameters, options_from, variable_of, with_default
from .listing import print_demos, print_info
from .serving import serve_demo

_WRONG_USE = 2
_INTERRUPTED = 130
_DEMO_HELP = "Name of a demo (see: realtime-engine list), or a file: path/to/file.py:demo"
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]  # of the command-line library under typer


def run(arguments: Sequence[str]) -> int:
    """Run one command; returns the exit code. Everything that a person can get wrong is one line and exit code 2."""
    arguments = list(arguments) or ["--help"]
    try:
        result = build_app(_demo_to_serve(arguments))(arguments, prog_name="realtime-engine", standalone_mode=False)
    except (CommandError, DemoLoadError) as error:
        complain(str(error))
        return _WRONG_USE
    except _UsageError as error:
        complain(f"{error.format_message()} (see: {_command_of(error)} --help)")  # type: ignore[attr-defined]
        return _WRONG_USE
    except (KeyboardInterrupt, typer.Abort):
        return _INTERRUPTED
    return result if isinstance(result, int) else 0


def build_app(demo: Demo | None) -> typer.Typer:
    """The commands; ``serve`` has flags for the options of ``demo``."""
    app = typer.Typer(
        name="realtime-engine",
        help="Serve a stateful, chunk-generating model to people in front of browsers.",
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_whatever_command)
    app.command("serve", help=_serve_help(demo))(_serve_command(demo))
    app.command("list", help="Show the demos that go by a name.")(print_demos)
    app.command("info", help="Show what a demo is, reads and takes.")(_info)
    return app


def _command_of(error: Exception) -> str:
    """The command that was used wrongly: its help tells more than that of all commands."""
    context = getattr(error, "ctx", None)
    return "realtime-engine" if context is None else str(context.command_path)


def _show_version(asked: bool) -> None:
    if asked:
        out.print(f"realtime-engine {_version()}")
        raise typer.Exit


def _whatever_command(
    version: bool = typer.Option(
        False, "--version", is_eager=True, callback=_show_version, help="Show the version and exit."
    ),
) -> None:
    """What may stand before every command; the option has done its work by now."""


def _version() -> str:
    try:
        return metadata.version("realtime-engine")
    except metadata.PackageNotFoundError:  # run from a checkout that was never installed
        return "0"


def _serve_help(demo: Demo | None) -> str:
    about = f"Serve {demo.title}. {demo.description}" if demo is not None else "Serve a demo."
    more = "" if demo is not None else "serve DEMO --help shows the demo's own options too, which come after its name. "
    return f"{about.strip()}\n\n{more}Each option can also be set in the environment: REALTIME_ENGINE_PORT is --port."


def _serve_command(demo: Demo | None) -> Callable[..., int]:
    """A function with one argument for each flag, which is what typer reads."""
    options = demo.options if demo is not None else None

    def serve(**values: Any) -> int:
        configure_logging(_checked_level(values["log_level"]))
        served = demo or load_demo(values["demo"])
        config = config_from(values)
        return serve_demo(served, config, None if options is None else options_from(options, values))

    own = [] if options is None else option_parameters(options)
    parameters = [_demo_parameter(), *own, *config_parameters(), _level_parameter()]
    serve.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    serve.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return serve


def _demo_parameter() -> inspect.Parameter:
    argument = typer.Argument(metavar="DEMO", help=_DEMO_HELP)
    return inspect.Parameter("demo", inspect.Parameter.KEYWORD_ONLY, default=argument, annotation=str)


def _level_parameter() -> inspect.Parameter:
    flag = "--log-level"
    text = with_default(f"How much is logged: {', '.join(LEVELS)}.", "info")
    more: dict[str, Any] = {"rich_help_panel": "Server", "metavar": "LEVEL", "show_envvar": False}
    more["show_default"] = False
    option = typer.Option("info", flag, envvar=variable_of(flag), help=text, **more)
    return inspect.Parameter("log_level", inspect.Parameter.KEYWORD_ONLY, default=option, annotation=str)


def _checked_level(level: str) -> str:
    if level.lower() not in LEVELS:
        raise CommandError(f"--log-level must be one of {', '.join(LEVELS)}, got {level!r}")
    return level.lower()


def _info(
    demo: str = typer.Argument(metavar="DEMO", help=_DEMO_HELP),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
    build: bool = typer.Option(True, "--build/--no-build", help="Build the engine, which alone knows its manifest."),
) -> None:
    print_info(load_demo(demo), as_json=as_json, build=build)


def _demo_to_serve(arguments: Sequence[str]) -> Demo | None:
    """The demo that ``arguments`` ask to be served, so that its options are known before they are read."""
    if arguments[0] != "serve":
        return None
    spec = next(_positional(arguments[1:]), None)
    return None if spec is None else load_demo(spec)


def _positional(arguments: Sequence[str]) -> Iterator[str]:
    with_value = {flag for flag in _server_flags() if flag != flag_of("open")}
    skip = False
    for argument in arguments:
        if skip:
            skip = False
        elif argument.startswith("-"):
            skip = argument in with_value
        else:
            yield argument


def _server_flags() -> Iterator[str]:
    for parameter in [*config_parameters(), _level_parameter()]:
        yield from parameter.default.param_decls
