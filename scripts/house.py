"""Print the size and shape of the package, as numbers with their limits.

``python scripts/house.py [--list]`` counts files and lines by room, modules that
only one other module imports, stems that occur twice, and the modules that run in
one training step of Gelato and while a csv file becomes a Graph. The numbers are a
picture of the work, not a reason to squeeze lines; ``tests/test_house.py`` holds
those that have been reached.

The limits of files and lines were set for the house as it was planned. Rooms and files
that later work brought are counted apart; what it added to older files is not.
"""

from __future__ import annotations

import argparse
import ast
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "gelato"

# What a reader of the method reads, from the graph to Gelato's score.
METHOD = (
    "graph",
    "splits",
    "kernels",
    "ranking",
    "heuristics",
    "nn",
    "training",
    "models",
)
# Rooms and files of later work: the stack, the ridge walk, Gelato 2, more heuristics,
# networks, measures and ways in, and kernels that wait with compiling.
LATER = (
    "baselines/ncn.py",
    "baselines/refined_gae.py",
    "baselines/shared_layers/normed_net.py",
    "datasets/ogb.py",
    "heuristics/eigenvectors.py",
    "heuristics/linear.py",
    "heuristics/overlaps.py",
    "heuristics/recursive.py",
    "heuristics/series.py",
    "kernels/compiled.py",
    "kernels/pair_walks.py",
    "kernels/ridge_walks.py",
    "kernels/row_lists.py",
    "models/gelato2.py",
    "models/stack.py",
    "networkx_backend/",
    "nn/readout.py",
    "ranking/node_metrics.py",
    "ranking/node_ranks.py",
    "ranking/places.py",
    "stacking/",
)
# What is not here is shown without a limit.
LIMITS = {
    "files without later ones": 210,
    "lines without later ones": 46_000,
    "lines of the method without later ones": 17_000,
    "one importer, without later ones": 30,
    "stems that occur twice": 0,
    "modules of a training step": 15,
    "modules from csv to Graph": 8,
    "top-level imports of resource or fcntl": 0,
}
UNIX_ONLY = ("resource", "fcntl")


@dataclass(frozen=True)
class Module:
    """One file of the package.

    Parameters
    ----------
    name : str
        As it is imported; a package has the name of its folder.
    path : Path
        Where it is.
    tree : ast.Module
        What is in it.
    lines : int
        Lines, empty ones included.
    """

    name: str
    path: Path
    tree: ast.Module
    lines: int

    @property
    def is_door(self) -> bool:
        """Whether this is the ``__init__`` of a package."""
        return self.path.name == "__init__.py"

    @property
    def place(self) -> tuple[str, ...]:
        """Folders and file name below the package."""
        return self.path.relative_to(SOURCE).parts

    @property
    def room(self) -> str:
        """The folder below the package, or the file for one that is in none."""
        return self.place[0]

    @property
    def is_later(self) -> bool:
        """Whether it came with work that the limits do not speak of."""
        return "/".join(self.place).startswith(LATER)


def modules() -> dict[str, Module]:
    """Return the modules of the package by name."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text("utf-8")
        found[name] = Module(name, path, ast.parse(text), text.count("\n"))
    return found


def sizes(every: dict[str, Module]) -> dict[str, tuple[int, int]]:
    """Return the number of files and of lines by room, largest first."""
    files: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for module in every.values():
        files[module.room] += 1
        lines[module.room] += module.lines
    return {room: (files[room], count) for room, count in lines.most_common()}


# ------------------------------------------------------------------ imports
def importers(every: dict[str, Module]) -> dict[str, set[str]]:
    """Return for every module the modules that name it.

    A name that is taken from a package's ``__init__`` belongs to the module that
    defines it, and the ``__init__`` which passes it on is no importer of its own;
    the package's front door is one, for its users. A module that is named as text
    (by the registry, by the verbs) counts like one that is imported.
    """
    found: dict[str, set[str]] = defaultdict(set)
    for module in every.values():
        if module.is_door and module.name != "gelato":
            continue
        for target in _named(module, every):
            if target != module.name:
                found[target].add(module.name)
    return found


def single_importers(every: dict[str, Module]) -> dict[str, str]:
    """Return the modules outside cli that one other module names, and which one."""
    found = importers(every)
    return {
        name: next(iter(found[name]))
        for name, module in every.items()
        if not module.is_door and module.room != "cli" and len(found[name]) == 1
    }


def _named(module: Module, every: dict[str, Module]) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in every)
        elif isinstance(node, ast.ImportFrom) and node.module in every:
            for alias in node.names:
                target = _origin(f"{node.module}.{alias.name}", every)
                yield target
                # A whole package: what its door passes on may be used.
                if every[target].is_door and target != "gelato":
                    yield from _passed_on(every[target], every).values()
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            place = node.value.partition(":")[0]
            for name in (place, f"gelato.{place}"):
                if name in every and "." in name and not every[name].is_door:
                    yield name


def _origin(name: str, every: dict[str, Module]) -> str:
    """Return the module that defines a dotted name, through the doors it passes."""
    if name in every:
        return name
    home, _, short = name.rpartition(".")
    return _passed_on(every[home], every).get(short, home)


def _passed_on(door: Module, every: dict[str, Module]) -> dict[str, str]:
    """Return the names that a package's ``__init__`` passes on, and their modules."""
    if not door.is_door:
        return {}
    return {
        alias.asname or alias.name: _origin(f"{node.module}.{alias.name}", every)
        for node in ast.walk(door.tree)
        if isinstance(node, ast.ImportFrom) and node.module in every
        for alias in node.names
        if node.module != door.name
    }


# ------------------------------------------------------------------ names, habits
def repeated_stems(every: dict[str, Module]) -> dict[str, list[str]]:
    """Return the stems that several files have, with their modules.

    Left out: ``__init__``, the verbs of ``cli/`` and what is inside the folder of a
    baseline, where every network has its ``model`` and ``scorer``.
    """
    verbs = set(_verbs(every))
    stems: dict[str, list[str]] = defaultdict(list)
    for module in every.values():
        in_baseline = module.room == "baselines" and len(module.place) > 2
        if not (module.is_door or module.name in verbs or in_baseline):
            stems[module.path.stem].append(module.name)
    return {stem: names for stem, names in stems.items() if len(names) > 1}


def _verbs(every: dict[str, Module]) -> Iterator[str]:
    """Yield the modules of the verbs that the command line lists."""
    for node in every["gelato.cli.app"].tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "VERBS":
            yield from (f"gelato.cli.{verb}" for verb in ast.literal_eval(node.value))


def looks_inside(every: dict[str, Module]) -> list[str]:
    """Return the places that call ``hasattr`` or ``inspect.signature``."""
    return [
        f"{module.path.relative_to(ROOT)}:{node.lineno}"
        for module in every.values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("hasattr", "inspect.signature", "signature")
    ]


def unix_imports(every: dict[str, Module]) -> list[str]:
    """Return the modules that import ``resource`` or ``fcntl`` when imported."""
    return [
        module.name
        for module in every.values()
        if any(name in UNIX_ONLY for name in _imported_at_once(module.tree))
    ]


def _imported_at_once(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield child.module or ""
        elif not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _imported_at_once(child)


# ------------------------------------------------------------------ what runs
def step_modules() -> list[str]:
    """Return the modules that run in one training step of Gelato."""
    import gelato

    graph = _small_graph()
    split = gelato.split_edges(graph, valid=0.1, test=0.1, seed=0)

    def fit() -> None:
        gelato.make("gelato", eta=0.5, epochs=1, batches=2, seed=0).fit(split)

    fit()  # imports and compiles
    return _modules_run(fit, within=("gelato.training.loop", "_step"))


def reading_modules() -> list[str]:
    """Return the modules that run while csv files become a Graph."""
    import gelato

    with tempfile.TemporaryDirectory() as folder:
        edges, people = Path(folder, "edges.csv"), Path(folder, "people.csv")
        edges.write_text("source,target\na,b\nb,c\nc,d\nd,a\n")
        people.write_text("id,age,town\na,30,Rome\nb,41,Oslo\nc,28,Rome\nd,35,Bern\n")

        def read() -> None:
            gelato.read_graph(edges, attributes=people)

        read()  # imports
        return _modules_run(read)


def _small_graph() -> Any:
    import numpy as np

    import gelato

    random = np.random.default_rng(0)
    edges = random.integers(40, size=(120, 2))
    attributes = random.random((40, 5))
    return gelato.Graph.from_edges(
        edges[edges[:, 0] != edges[:, 1]], attributes=attributes
    )


def _modules_run(
    work: Callable[[], None], within: tuple[str, str] | None = None
) -> list[str]:
    """Return the modules of gelato whose functions run, in all threads.

    Parameters
    ----------
    work : callable
        What is watched.
    within : (module, function), optional
        Count only while this function runs.
    """
    seen: set[str] = set()
    inside = 0 if within else 1  # how many calls of the function are under way
    met = False

    def note(frame: FrameType, event: str, _: Any) -> None:
        nonlocal inside, met
        if event not in ("call", "return"):
            return
        name = frame.f_globals.get("__name__", "")
        function = frame.f_code.co_name
        if (name, function) == within:
            inside += 1 if event == "call" else -1
            met = True
        is_door = frame.f_code.co_filename.endswith("__init__.py")
        if inside and name.startswith("gelato.") and not is_door:
            seen.add(name)

    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    if within and not met:
        raise LookupError(f"{'.'.join(within)} did not run: has it been renamed?")
    return sorted(seen)


# ------------------------------------------------------------------ output
def numbers(every: dict[str, Module]) -> dict[str, list[str] | int]:
    """Return what is counted: a number, or the things that make it up."""
    method = [module for module in every.values() if module.room in METHOD]
    single = single_importers(every)
    return {
        "files": len(every),
        "files without later ones": len(_earlier(every.values())),
        "lines": _lines(every.values()),
        "lines without later ones": _lines(_earlier(every.values())),
        "lines of the method": _lines(method),
        "lines of the method without later ones": _lines(_earlier(method)),
        "modules with one importer": [
            f"{name}, by {importer}" for name, importer in single.items()
        ],
        "one importer, without later ones": [
            name for name in single if not every[name].is_later
        ],
        "stems that occur twice": [
            f"{stem}: {', '.join(names)}"
            for stem, names in repeated_stems(every).items()
        ],
        "modules of a training step": step_modules(),
        "modules from csv to Graph": reading_modules(),
        "calls of hasattr and inspect.signature": looks_inside(every),
        "top-level imports of resource or fcntl": unix_imports(every),
    }


def _earlier(some: Iterable[Module]) -> list[Module]:
    return [module for module in some if not module.is_later]


def _lines(some: Iterable[Module]) -> int:
    return sum(module.lines for module in some)


def main() -> int:
    """Print the rooms, then every number beside its limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="name what is counted")
    options = parser.parse_args()
    every = modules()
    print(f"{'room':<22}{'files':>7}{'lines':>9}")
    for room, (files, lines) in sizes(every).items():
        print(f"{room:<22}{files:>7,}{lines:>9,}")
    print(f"\n{'':<42}{'now':>8}{'limit':>8}")
    for what, found in numbers(every).items():
        count = found if isinstance(found, int) else len(found)
        limit = LIMITS.get(what)
        said = "" if limit is None else f"{limit:>8,}"
        over = "  over" if limit is not None and count > limit else ""
        print(f"{what:<42}{count:>8,}{said}{over}")
        if options.list and not isinstance(found, int):
            print(*(f"    {thing}" for thing in found), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
