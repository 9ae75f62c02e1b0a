"""The commands."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from importlib import metadata

import typer

from ..infra.demo import Demo
from ..infra.signals import exit_code
from ..integrations.registry import DemoLoadError, load_demo
from .commands import DEMO_COMMANDS, DEMO_HELP, DemoCommand
from .console import CommandError, complain, configure_logging, out
from .list import print_demos, print_info
from .reload import serve_reloading, wants_reload, without_reload

_WRONG_USE = 2
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]  # of the command-line library under typer


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code. A user error prints one line and returns 2."""
    arguments = list(arguments) or ["--help"]
    try:
        if arguments[0] == "serve" and "--help" not in arguments and wants_reload(arguments, os.environ):
            return _serve_reloading(without_reload(arguments))
        app = build_app(_demo_of(arguments), arguments[0])
        result = app(arguments, prog_name="realtime-engine", standalone_mode=False)
    except (CommandError, DemoLoadError) as error:
        complain(str(error))
        return _WRONG_USE
    except _UsageError as error:
        complain(f"{error.format_message()} (see: {_command_of(error)} --help)")  # type: ignore[attr-defined]
        return _WRONG_USE
    except (KeyboardInterrupt, typer.Abort) as error:
        return exit_code(error)
    return result if isinstance(result, int) else 0


def build_app(demo: Demo | None, command: str = "serve") -> typer.Typer:
    """Create the commands; ``command`` gets flags for the options of ``demo`` and, if supported, for its fields."""
    app = typer.Typer(
        name="realtime-engine",
        help="Serve a stateful, chunk-generating model as an interactive demo in the browser.",
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_global_options)
    for known in DEMO_COMMANDS:
        own = demo if known.name == command else None
        app.command(known.name, help=known.help_for(own))(known.function(own))
    app.command("list", help="List the named demos.")(print_demos)
    app.command("info", help="Show the manifest, controls, fields and options of a demo.")(_info)
    return app


def _serve_reloading(arguments: Sequence[str]) -> int:
    configure_logging("info")
    command = next(command for command in DEMO_COMMANDS if command.name == "serve")
    return serve_reloading(arguments, list(_positional(arguments[1:], command.flags_with_value())))


def _command_of(error: Exception) -> str:
    """The command of a usage error, whose help is more specific than the general one."""
    context = getattr(error, "ctx", None)
    return "realtime-engine" if context is None else str(context.command_path)


def _show_version(asked: bool) -> None:
    if asked:
        out.print(f"realtime-engine {_version()}")
        raise typer.Exit


def _global_options(
    version: bool = typer.Option(
        False, "--version", is_eager=True, callback=_show_version, help="Show the version and exit."
    ),
) -> None:
    """Options before the command. ``--version`` is handled by its callback."""


def _version() -> str:
    try:
        return metadata.version("realtime-engine")
    except metadata.PackageNotFoundError:  # a checkout that is not installed
        return "0"


def _info(
    demo: str = typer.Argument(metavar="DEMO", help=DEMO_HELP),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
    build: bool = typer.Option(True, "--build/--no-build", help="Build the engine to show its manifest."),
) -> None:
    print_info(load_demo(demo), as_json=as_json, build=build)


def _demo_of(arguments: Sequence[str]) -> Demo | None:
    """The demo named in ``arguments``, loaded before parsing so that its options become flags.

    ``None`` if there is none, or several, whose options have no flags.
    """
    for command in DEMO_COMMANDS:
        if arguments[0] == command.name:
            spec = next(_positional(arguments[1:], command.flags_with_value()), None)
            demo = None if spec is None else load_demo(spec)
            specs = list(_positional(arguments[1:], command.flags_with_value(demo)))
            if not command.takes_several or len(specs) < 2:
                return demo
            _check_no_options(arguments[1:], command, demo)
            return None
    return None


def _check_no_options(arguments: Sequence[str], command: DemoCommand, demo: Demo | None) -> None:
    """Refuse the flags of the first demo's options: of several demos, the options keep their defaults.

    Raises:
        CommandError: there is such a flag.
    """
    for argument in arguments:
        flag = argument.partition("=")[0]
        if flag in command.option_flags(demo):
            raise CommandError(
                f"{flag} is an option of one demo, and cannot be set for several demos: serve that demo alone, or "
                "declare it in a file with this default"
            )


def _positional(arguments: Sequence[str], with_value: Collection[str]) -> Iterator[str]:
    skip = False
    for argument in arguments:
        if skip:
            skip = False
        elif argument.startswith("-"):
            skip = argument in with_value
        else:
            yield argument
