"""``gelato version``: the version, and what it runs on."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import gelato
from gelato.cli.console import Console, make_facts
from gelato.cli.options import OutputOptions

_LIBRARIES = ("numpy", "scipy", "numba", "torch", "scikit-learn", "polars")


def show_version(output: OutputOptions) -> None:
    """Print the version, and those of the libraries that results depend on."""
    console = Console(output)
    system = f"{platform.system()} {platform.machine()}"
    libraries = {name: _version(name) for name in _LIBRARIES}
    rows = [("Python", platform.python_version()), ("system", system)]
    console.show(
        f"gelato {gelato.__version__}", make_facts([*rows, *libraries.items()])
    )
    console.give(
        {
            "python": platform.python_version(),
            "system": system,
            "libraries": libraries,
        }
    )


def _version(name: str) -> str:
    """Return the version of an installed library, without importing it."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
