"""``gelato data``: the benchmark graphs, and graphs drawn for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gelato.cli import numbers
from gelato.cli.grouping import grouped
from gelato.cli.making import make
from gelato.cli.options import OutputOptions
from gelato.cli.screen import Screen, make_facts, make_table
from gelato.errors import MissingDataError

if TYPE_CHECKING:
    from gelato.datasets import DatasetFacts

DatasetName = Annotated[
    str, typer.Argument(metavar="NAME", help="A graph of 'gelato data list'.")
]

# Origin to what it means for the user.
_WHERE = {
    "folder": "the folder of GELATO_DATA",
    "package": "part of gelato",
    "cache": "fetched earlier",
    "download": "not here yet: gelato data fetch",
}


def add(app: typer.Typer) -> None:
    """Register the verb and what it can do."""
    group = typer.Typer(
        help="List, describe, find or fetch the benchmark graphs; or draw a graph.",
        rich_markup_mode="rich",
    )
    group.command("list")(grouped(list_graphs))
    group.command("show")(grouped(show))
    group.command("path")(grouped(print_path))
    group.command("fetch")(grouped(fetch))
    group.command("make")(grouped(make))
    app.add_typer(group, name="data")


def list_graphs(output: OutputOptions) -> None:
    """List the benchmark graphs and where each would come from."""
    from gelato.datasets import list_datasets

    screen = Screen(output)
    datasets = list_datasets()
    rows = [
        (
            facts.name,
            numbers.count(facts.nodes),
            numbers.count(facts.edges),
            numbers.count(facts.attributes),
            _WHERE[facts.origin],
        )
        for facts in datasets
    ]
    table = make_table("dataset", "nodes", "edges", "attributes", "where", rows=rows)
    table.columns[4].justify = "left"
    screen.show(table)
    screen.give({"datasets": [facts.to_dict() for facts in datasets]})


def show(name: DatasetName, output: OutputOptions) -> None:
    """Describe a benchmark graph: size, source, licence, file."""
    screen = Screen(output)
    facts = _facts(name)
    screen.show(
        make_facts(
            [
                ("name", facts.name),
                ("what it is", facts.description),
                ("nodes", numbers.count(facts.nodes)),
                ("edges", numbers.count(facts.edges)),
                ("attributes", numbers.count(facts.attributes)),
                ("source", facts.source),
                ("licence", facts.licence),
                ("where", _WHERE[facts.origin]),
                ("file", facts.path or "-"),
            ]
        )
    )
    screen.give(facts.to_dict())


def print_path(name: DatasetName, output: OutputOptions) -> None:
    """Print the file of a benchmark graph that is on this machine."""
    screen = Screen(output)
    facts = _facts(name)
    if facts.path is None:
        raise MissingDataError(
            f"The graph {name!r} is not on this machine.",
            hint=f"Fetch it with: gelato data fetch {name}",
        )
    screen.show(facts.path)
    screen.give({"name": name, "path": facts.path})


def fetch(name: DatasetName, output: OutputOptions) -> None:
    """Fetch a benchmark graph if need be, check it, and print its file."""
    from gelato.datasets import dataset_path, load_dataset

    screen = Screen(output)
    path = dataset_path(name, progress=screen.note)
    load_dataset(name)  # compares the content with what the name stands for
    screen.show(str(path))
    screen.give({"name": name, "path": str(path)})


def _facts(name: str) -> DatasetFacts:
    from gelato.datasets import list_datasets
    from gelato.datasets.catalog import find

    find(name)  # suggests near names
    return next(facts for facts in list_datasets() if facts.name == name)
