"""``gelato explain``: why two nodes have their score."""

from __future__ import annotations

from pathlib import Path

from gelato.cli.console import Console
from gelato.cli.inputs import node_of
from gelato.cli.options import OutputOptions, argument, option
from gelato.cli.outputs import check_output_file
from gelato.cli.run_folders import load_run_model
from gelato.cli.settings import describe_model

_PICTURES = (".png", ".svg", ".pdf")


def explain(
    output: OutputOptions,
    folder: Path = argument("RUN", "A folder of 'gelato fit'."),
    source: str = argument("A", "A node's id."),
    target: str = argument("B", "Another node's id."),
    top: int = option("--top K", "How many walks to list.", 10),
    picture: Path | None = option("--picture FILE", "Draw it: .png, .svg or .pdf."),
) -> None:
    """Explain a score: the walks that it is the sum of, and what gave them weight.

    Ids that start with a dash come after two dashes: gelato explain run -- -1 7
    """
    console = Console(output)
    check_output_file(picture, _PICTURES)
    model = load_run_model(folder)
    ends = (node_of(model.graph_, text) for text in (source, target))
    why = model.explain(*ends, top=top)
    if picture is not None:
        from gelato.drawing import write_figure
        from gelato.report.figures import draw_explanation

        write_figure(draw_explanation(why), picture)
        console.note(f"wrote {picture}")
    console.show(*why.to_text().splitlines())
    console.give(
        {
            "run": str(folder),
            "model": describe_model(model.name, model),
            "explanation": why.to_dict(),
        }
    )
