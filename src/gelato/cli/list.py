"""``gelato list``: the names that other verbs take."""

from __future__ import annotations

from gelato import text
from gelato.cli.console import Console, make_table
from gelato.cli.options import OutputOptions


def list_names(output: OutputOptions) -> None:
    """List the models and the benchmark graphs."""
    from gelato.datasets import list_datasets
    from gelato.models.registry import entries

    console = Console(output)
    models, datasets = entries(), list_datasets()
    console.show(
        make_table(
            "model",
            "looks at",
            "what it is",
            rows=[(entry.name, entry.kind, entry.summary) for entry in models],
            text=3,
        ),
        "",
        make_table(
            "dataset",
            "what it is",
            "nodes",
            "edges",
            rows=[
                (
                    facts.name,
                    facts.description,
                    text.count(facts.nodes),
                    text.count(facts.edges),
                )
                for facts in datasets
            ],
            text=2,
        ),
    )
    console.give(
        {
            "models": [
                {"name": entry.name, "kind": entry.kind, "summary": entry.summary}
                for entry in models
            ],
            "datasets": [facts.to_dict() for facts in datasets],
        }
    )
