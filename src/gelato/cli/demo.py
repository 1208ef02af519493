"""``gelato demo``: everything at once on the graph that comes with the package."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gelato import text
from gelato.cli.console import Console, make_facts, make_table
from gelato.cli.forecasts import (
    RANKING_KERNELS,
    SELECTING_KERNELS,
    TRAINING_KERNELS,
    tell_compilation,
)
from gelato.cli.options import OutputOptions, option
from gelato.cli.outputs import check_output_folder
from gelato.cli.progress import fit_model, training_facts
from gelato.cli.rankings import BIASED, links_table
from gelato.errors import UsageError

if TYPE_CHECKING:
    from gelato.ranking import Evaluation
    from gelato.splits import EdgeSplit

DATASET = "citeseer"
HEURISTICS = ("cn", "aa", "ra", "pa", "ac", "ease", "cos")
STACK, TRAINED = "stack", "gelato"
SEED = 1
# 80 columns are few.
_SHORT_SUMMARIES = {
    STACK: "trees on features of pairs",
    TRAINED: "learned edge weights, then ac",
}
_LINKS = 100
_FIRST = 25
_NEXT_STEPS = (
    ("look at them", "gelato check --edges FILE [--attributes FILE]"),
    ("find links", "gelato predict --edges FILE --top 100 -o links.csv"),
    ("measure", "gelato compare --edges FILE --models cn,aa,ra,ac"),
    ("train", "gelato fit --edges FILE --attributes FILE -o run"),
)


def demo(
    output: OutputOptions,
    folder: Path = option("--output -o FOLDER", "Where files go.", Path("demo-output")),
    example: bool = option(
        "--example",
        "Show the paper's worked example instead: why balanced test sets mislead.",
        False,
    ),
    train: bool = option(
        "--train/--no-train",
        "Also fit the stack and Gelato (two minutes), or take only seconds.",
        True,
    ),
    epochs: int | None = option(
        "--epochs N", "Epochs of the training (100, as the paper)."
    ),
) -> None:
    """Rank a citation graph by heuristics, the stack and Gelato, with a picture."""
    console = Console(output)
    if example:
        check_output_folder(folder)
        _worked_example(console, folder)
        return
    learning = _make_learning(epochs) if train else {}
    check_output_folder(folder)
    _compare(console, folder, learning)


def _make_learning(epochs: int | None) -> dict[str, Any]:
    """Return the models that learn, by name, not fitted yet."""
    from gelato.models.registry import make, preset

    if epochs is not None and epochs < 1:
        raise UsageError(f"--epochs is {epochs}, but must be at least 1.")
    parameters = preset(DATASET) | ({} if epochs is None else {"epochs": epochs})
    return {
        STACK: make(STACK, seed=SEED),
        TRAINED: make(TRAINED, **parameters, seed=SEED),
    }


def _compare(console: Console, folder: Path, learning: dict[str, Any]) -> None:
    from gelato import load_dataset, make, split_edges
    from gelato.drawing import save_figure
    from gelato.io import write_table
    from gelato.report.figures import draw_comparison

    graph = load_dataset(DATASET)
    split = split_edges(graph)
    kernels = {*RANKING_KERNELS, *SELECTING_KERNELS}
    tell_compilation(console, kernels | set(TRAINING_KERNELS if learning else ()))
    results = _measure(console, split)
    for name, model in learning.items():
        fit_model(console, name, model, split)
        _evaluate(name, model, split, results)
    exact, biased = results["all"], results["sampled"]
    names = sorted(exact, key=lambda name: exact[name].ap, reverse=True)
    best = learning.get(names[0]) or make(names[0]).fit(graph)
    links = best.predict(top=_LINKS)
    title = f"{DATASET}: {text.plural(len(split.test), 'held-out link')} among "
    title += f"{text.count(split.num_candidates('test'))} candidate pairs"
    figure = draw_comparison(exact, biased, title)
    written = [
        write_table(_rows(names, exact, biased), folder / "ranking.csv"),
        write_table(links, folder / "links.csv"),
        *save_figure(figure, folder / "ranking"),
    ]
    for name, model in learning.items():
        facts = {"training": training_facts(model)}
        tested = {"metrics": {"test": exact[name].to_dict()}}
        written.append(model.save(folder / name, metrics=facts | tested))
    trained = learning.get(TRAINED)
    console.show(title, "", _table(names, exact, biased))
    console.show(_moral(names[0], exact, biased))
    console.show(_first_text(names[0], exact[names[0]]))
    if trained is not None:
        console.show(f"\n{_training_text(trained)}")
        console.show(_control_text(exact[TRAINED], split))
    console.show(
        "", f"Links most likely missing, by {names[0]} from all known edges", ""
    )
    console.show(links_table(console, links, 5))
    _print_end(console, written)
    console.give(
        {
            "data": DATASET,
            "split": split.to_dict(),
            "ranking": _rows_as_records(names, exact, biased),
            "trained": None if trained is None else training_facts(trained),
            "links": links.to_dicts(),
            "files": [str(path) for path in written],
        }
    )


def _measure(console: Console, split: EdgeSplit) -> dict[str, dict[str, Evaluation]]:
    """Return evaluations by protocol and model."""
    from gelato import make

    results: dict[str, dict[str, Evaluation]] = {"all": {}, "sampled": {}}
    with console.progress("ranking every pair") as progress:
        for done, name in enumerate(HEURISTICS):
            progress(done, len(HEURISTICS))
            _evaluate(name, make(name).fit(split), split, results)
    return results


def _evaluate(
    name: str,
    model: Any,
    split: EdgeSplit,
    results: dict[str, dict[str, Evaluation]],
) -> None:
    from gelato import evaluate

    results["all"][name] = evaluate(model, split)
    results["sampled"][name] = evaluate(model, split, protocol="sampled")


def _first_text(best: str, result: Evaluation) -> str:
    """Say how many of the first test candidates are links, of all of them."""
    from gelato.ranking.metrics import precision_at

    links = _FIRST * precision_at(result.counts, _FIRST)
    told = text.plural(round(links), "held-out link")
    return f"Among the {_FIRST} candidates that {best} ranks first: {told}."


def _control_text(result: Evaluation, split: EdgeSplit) -> str:
    """Say what is left if nothing is learned: every learned weight is 1."""
    from gelato import evaluate, make
    from gelato.models.registry import preset

    names = ("eta", "alpha", "beta", "self_loops")
    chosen = {name: preset(DATASET)[name] for name in names}
    constant = evaluate(make("cos+ac", **chosen).fit(split), split).ap
    adds = (
        "training adds nothing" if constant >= result.ap else "training adds the rest"
    )
    return f"With all weights set to 1 its AP is {text.percent(constant)}: here {adds}."


def _training_text(model: Any) -> str:
    from gelato.models.registry import preset

    facts, paper = training_facts(model), preset(DATASET)["epochs"]
    assert facts is not None
    same = facts["epochs"] == paper
    return (
        f"{TRAINED} was trained for {text.plural(facts['epochs'], 'epoch')}"
        f"{', as in the paper,' if same else f' (the paper: {paper})'} in "
        f"{text.duration(facts['seconds'])};\nepoch {facts['best_epoch']} ranks the "
        "validation edges best and was kept."
    )


def _table(
    names: list[str], exact: Mapping[str, Evaluation], biased: Mapping[str, Evaluation]
) -> Any:
    from rich.text import Text

    from gelato.models.registry import entries

    summaries = {
        entry.name: entry.summary.partition(":")[0] for entry in entries()
    } | _SHORT_SUMMARIES
    table = make_table(
        "model", "in percent", "AP", "x random", "hits@100", f"{BIASED} AP", text=2
    )
    for place, name in enumerate(names):
        result = exact[name]
        style = "bold" if place == 0 else ""
        cells = [
            name,
            summaries[name],
            text.percent(result.ap),
            f"{text.times(result.ap / result.random_ap)}x",
            text.percent(result.hits_at(100)),
        ]
        inflated = Text(text.percent(biased[name].ap), style="dim")
        table.add_row(*(Text(cell, style=style) for cell in cells), inflated)
    chance = exact[names[0]].random_ap
    flattered = text.percent(biased[names[0]].random_ap)
    row = ("-", "random order", text.percent(chance), "1.0x", "", flattered)
    table.add_row(*(Text(cell, style="dim") for cell in row))
    return table


def _moral(
    best: str, exact: Mapping[str, Evaluation], biased: Mapping[str, Evaluation]
) -> str:
    return (
        f"\nAP ranks each held-out link against every non-link. {BIASED} AP, which is "
        f"often\nreported, takes as many sampled non-links as links: {best} then\n"
        f"looks {text.times(biased[best].ap / exact[best].ap)}x better."
    )


def _rows_as_records(
    names: list[str], exact: Mapping[str, Evaluation], biased: Mapping[str, Evaluation]
) -> list[dict[str, Any]]:
    return [
        {
            "model": name,
            "ap": exact[name].ap,
            "random_ap": exact[name].random_ap,
            "auc": exact[name].auc,
            "prec@100%": exact[name].precision_at(1.0),
            "hits@100": exact[name].hits_at(100),
            "mrr": exact[name].mrr,
            "biased_ap": biased[name].ap,
            "biased_auc": biased[name].auc,
            "seconds": exact[name].seconds,
        }
        for name in names
    ]


def _rows(
    names: list[str], exact: Mapping[str, Evaluation], biased: Mapping[str, Evaluation]
) -> dict[str, list[Any]]:
    records = _rows_as_records(names, exact, biased)
    return {key: [record[key] for record in records] for key in records[0]}


def _print_end(console: Console, written: list[Path]) -> None:
    console.show("", "Written", *(f"  {path}" for path in written))
    console.show("", "Next, with files of your own", make_facts(_NEXT_STEPS))


def _worked_example(console: Console, folder: Path) -> None:
    from gelato import worked_example
    from gelato.drawing import save_figure
    from gelato.report.figures import draw_example

    example = worked_example()
    written = save_figure(draw_example(example), folder / "worked-example")
    measured = example.to_dict()
    rows = [
        (
            label,
            text.count(negatives),
            f"{measured[name]['auc']:.2f}",
            f"{measured[name]['ap']:.2f}",
        )
        for name, label, negatives in (
            ("biased", f"{BIASED}: sampled", example.positives),
            ("unbiased", "all pairs", example.negatives),
        )
    ]
    console.show(
        f"A bad model: {example.false_first:,} false pairs stand above all "
        f"{example.positives:,} true ones.\n",
        make_table("measured against", "negatives", "AUC", "AP", rows=rows),
        "\nOnly average precision over all pairs shows that the model is bad.",
        "\nWritten",
        *(f"  {path}" for path in written),
    )
    console.give({**measured, "files": [str(path) for path in written]})
