"""Print the requirements of the project with some of its extras, one a line: python requirements.py serve,torch."""

from __future__ import annotations

import sys
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib


def requirements(project: Path, extras: list[str]) -> list[str]:
    """Requirements of ``pyproject.toml`` and of the named extras.

    Raises:
        ValueError: the project has no extra of that name.
    """
    table = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    optional = table["optional-dependencies"]
    unknown = [extra for extra in extras if extra not in optional]
    if unknown:
        raise ValueError(f"no such extra: {', '.join(unknown)} (there are: {', '.join(optional)})")
    return [*table["dependencies"], *(line for extra in extras for line in optional[extra])]


if __name__ == "__main__":
    try:
        lines = requirements(Path("pyproject.toml"), [extra.strip() for extra in sys.argv[1].split(",")])
    except ValueError as error:
        sys.exit(str(error))
    sys.stdout.write("".join(f"{line}\n" for line in lines))
