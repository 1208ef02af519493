"""``gelato evaluate``: how well a model ranks the held-out edges."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gelato import text
from gelato.cli.console import Console
from gelato.cli.forecasts import (
    MEMORY,
    RANKING_KERNELS,
    give_forecasts,
    refuse_large_files,
    respect_memory,
    tell_compilation,
    tell_long_run,
)
from gelato.cli.inputs import (
    LoadedGraph,
    between,
    keep_admitted,
    load_split,
    make_candidates,
    require_positives,
)
from gelato.cli.long_runs import (
    LongOptions,
    check_long,
    forecast_ranking,
    respect_time,
)
from gelato.cli.options import (
    RUN_FOLDER,
    CandidateOptions,
    DataOptions,
    ModelOptions,
    OutputOptions,
    RunOptions,
    SplitOptions,
    option,
)
from gelato.cli.outputs import check_output_file
from gelato.cli.progress import Interrupted, choose_untrained, fit_model, is_trained
from gelato.cli.rankings import (
    ESTIMATE,
    estimate_text,
    evaluation_table,
    node_tables,
    tell_biases,
    tell_sizes,
)
from gelato.cli.run_folders import load_run_model, refuse_beside_run, split_of_run
from gelato.cli.settings import describe_model, make_model, model_title
from gelato.errors import UsageError

if TYPE_CHECKING:
    from gelato.choosing import Choice
    from gelato.ranking import Candidates, Evaluation
    from gelato.splits import EdgeSplit

# Candidates that are worth a word on what their ranking cost.
_LARGE = 1_000_000

PROTOCOL = option(
    "--protocol NAME",
    "all: against every non-edge. sampled: the BIASED numbers of the field, against as "
    "many random non-edges as edges. degree-corrected: the same, drawn by degree. "
    "heart: against hard non-edges of each edge. given: those of --negatives. Several "
    "with commas; both: all,sampled.",
    "all",
)

NEGATIVES = option(
    "--negatives FILE",
    "Negatives for --protocol given: rows of two nodes, or of source and target of a "
    "held-out edge and a negative target.",
)


def evaluate(
    data: DataOptions,
    split: SplitOptions,
    model: ModelOptions,
    rule: CandidateOptions,
    run: RunOptions,
    long: LongOptions,
    output: OutputOptions,
    folder: Path | None = RUN_FOLDER,
    protocol: str = PROTOCOL,
    negatives: Path | None = NEGATIVES,
    part: str = option("--part NAME", "Rank the test or valid edges.", "test"),
    per_node: bool = option(
        "--per-node",
        "Also measure the list of each node that has held-out edges: recall, "
        "precision, NDCG, VCMPR and hits at k, MAP, MRR, degrees of what is suggested; "
        "by degree and distance with --json.",
        False,
    ),
    known_edges: str = option(
        "--known-edges NAME",
        "What the model walks on when it ranks: train, or train+valid, as OGB allows "
        "for test edges (labelled).",
        "train",
    ),
    save_split: Path | None = option("--save-split FILE", "Keep the split (.parquet)."),
    memory: str | None = MEMORY,
) -> None:
    """Measure a model: rank held-out edges among all non-edges.

    Without --model, one that learns nothing is chosen by the validation edges (ac where
    there are none, or where they are ranked themselves).
    """
    from gelato.engines import use_threads

    console = Console(output)
    check_output_file(save_split, (".parquet",))
    protocols = protocols_of(protocol, negatives)
    limit = check_long(long, protocols)
    if part not in ("test", "valid"):
        raise UsageError(
            f"There is no part {part!r} to rank.", hint="Parts are: test, valid."
        )
    choice = None
    if folder is None:
        name = model.model or "ac"
        made = make_model(name, model)
        refuse_large_files(memory, data)
        loaded, full_split = load_split(data, split, console)
        require_positives(full_split, part)  # type: ignore[arg-type]
        if part == "test" and not run.dry_run:
            choice = _choose(console, full_split, model, rule)
        if choice is not None:
            name, made = choice.name, choice.model
    else:
        refuse_beside_run(folder, data, split, model)
        made = load_run_model(folder)
        name, full_split = made.name, split_of_run(made, folder, part)
        loaded = LoadedGraph(full_split.graph, str(folder))
    console.note(*loaded.graph.notes)
    known = full_split.known(part)  # type: ignore[arg-type]
    candidates = make_candidates(rule, full_split.train_graph, known)
    used, left_out = keep_admitted(full_split, part, candidates)  # type: ignore[arg-type]
    stored = folder is not None
    job = _Job(console, name, made, stored, used, part, candidates, long)
    job = replace(
        job,
        per_node=per_node,
        known_edges=known_edges,
        negatives=negatives,
        restricted=rule != CandidateOptions(),
    )
    if run.dry_run:
        job.forecast()
        return
    threads = respect_memory(
        console,
        memory,
        made,
        full_split,
        stored=stored,
        candidates=candidates,
        positives=job.num_positives,
    )
    respect_time(limit, made, used, name=name, **job.options)
    with use_threads(threads):
        results = job.run(protocols, full_split)
    _tell_density(console, results)
    if save_split is not None:
        full_split.save(save_split)
    restricted = rule != CandidateOptions()
    _print(job, loaded, results, left_out, restricted=restricted)
    if choice is not None:
        console.show(f"\nchosen: {choice.reason}")
        parts = {"validation": full_split.valid, "test": full_split.test}
        tell_sizes(console, {part: len(edges) for part, edges in parts.items()})
    console.give(
        {
            "data": loaded.to_dict(),
            "split": full_split.to_dict(),
            "model": describe_model(name, made),
            "choice": None if choice is None else choice.to_dict(),
            "candidates": {
                "rule": rule.candidates,
                "count": candidates.count,
                "positives_left_out": left_out,
            },
            "results": [result.to_dict() for result in results],
        }
    )


def _choose(
    console: Console, split: EdgeSplit, model: ModelOptions, rule: CandidateOptions
) -> Choice | None:
    """Choose by the validation edges, where neither model nor parameters are named."""
    from gelato.splits.edge_split import only_links

    if model != replace(ModelOptions(), seed=model.seed) or not len(split.valid):
        return None
    allowed = replace(split, graph=between(split.graph, rule))
    return choose_untrained(console, only_links(allowed), model.seed)


def _tell_density(console: Console, results: list[Evaluation]) -> None:
    """Say so where telling near pairs from far ones spared nothing worth while."""
    counts = results[0].counts
    if counts.nearly_all_near and counts.num_negatives >= _LARGE:
        console.note(
            f"{text.count(counts.near_pairs or 0)} candidates are joined by walks: "
            "nearly all, so that every pair was visited."
        )


def protocols_of(given: str, negatives: Path | None = None) -> tuple[str, ...]:
    """Return the protocols that an option names."""
    from gelato.ranking.protocols import check_protocol

    names = "all,sampled" if given == "both" else given
    found = tuple(dict.fromkeys(name.strip() for name in names.split(",")))
    for name in found:
        file = negatives if name == "given" else None
        check_protocol(name, file, restricted=False)
    if negatives is not None and "given" not in found:
        check_protocol(found[0], negatives, restricted=False)
    return found


@dataclass(frozen=True)
class _Job:
    """A model, a split and candidates: what is measured, or forecast.

    A ``stored`` model comes from a folder and is fitted already.
    """

    console: Console
    name: str
    model: Any
    stored: bool
    split: EdgeSplit
    part: str
    candidates: Candidates
    long: LongOptions
    per_node: bool = False
    known_edges: str = "train"
    negatives: Path | None = None
    restricted: bool = False

    @property
    def num_positives(self) -> int:
        return len(self.split.positives(self.part))  # type: ignore[arg-type]

    @property
    def options(self) -> dict[str, Any]:
        """What forecasts need to know."""
        return {
            "candidates": self.candidates,
            "positives": self.num_positives,
            "stored": self.stored,
            "estimate": self.long.estimate,
        }

    def forecast(self) -> None:
        tell_compilation(self.console, RANKING_KERNELS)
        coming = forecast_ranking(self.model, self.split, **self.options)
        told = "is trained first: see gelato fit --dry-run"
        give_forecasts(self.console, {self.name: coming or told})
        if coming is not None and not self.stored and is_trained(self.model):
            self.console.note("the training comes first: see gelato fit --dry-run.")

    def run(
        self, protocols: tuple[str, ...], full_split: EdgeSplit
    ) -> list[Evaluation]:
        """Fit the model unless it is stored, and rank; an interruption says more."""
        kept = self.long.resume
        try:
            if not self.stored:
                fit_model(
                    self.console,
                    self.name,
                    self.model,
                    full_split,
                    folder=kept,
                    resume=bool(kept),
                )
            return [self._rank(protocol) for protocol in protocols]
        except KeyboardInterrupt as stop:
            hint = "With --resume FOLDER a ranking goes on where it was interrupted."
            if kept is not None:
                hint = (
                    f"What is done is in {kept}: the same command goes on from there."
                )
            raise Interrupted(hint) from stop

    def _rank(self, protocol: str) -> Evaluation:
        from gelato.ranking import evaluate

        tell_compilation(self.console, RANKING_KERNELS)
        special: dict[str, Any] = {}
        plain = self.restricted or protocol in ("all", "sampled")
        if protocol == "all":
            special = {"estimate": self.long.estimate, "resume": self.long.resume}
            special["per_node"] = self.per_node
            tell_long_run(
                self.console,
                self.model,
                self.split.train_graph,
                self.candidates,
                positives=self.num_positives,
                estimate=self.long.estimate,
            )
        with self.console.progress(f"ranking with {self.name}") as progress:
            result = evaluate(
                self.model,
                self.split,
                part=self.part,  # type: ignore[arg-type]
                protocol=protocol,  # type: ignore[arg-type]
                candidates=self.candidates if plain else None,
                negatives=self.negatives if protocol == "given" else None,
                known_edges=self.known_edges,  # type: ignore[arg-type]
                progress=progress,
                **special,
            )
        if result.per_node is not None:
            result.per_node["lists"] = self._list_degrees()
        return result

    def _list_degrees(self) -> dict[str, Any]:
        from gelato.ranking.node_metrics import list_degrees
        from gelato.ranking.scorers import as_scorer

        graph = self.split.train_graph
        positives = self.split.positives(self.part)  # type: ignore[arg-type]
        scorer = as_scorer(self.model, graph)
        return list_degrees(scorer, self.candidates, graph, positives)


def _print(
    job: _Job,
    loaded: LoadedGraph,
    results: list[Evaluation],
    left_out: int,
    *,
    restricted: bool,
) -> None:
    console, split = job.console, job.split
    seed = "" if split.seed is None else f", seed {split.seed}"
    console.show(
        f"{model_title(job.name, job.model)} on {loaded.name}: "
        f"{text.plural(job.num_positives, f'{job.part} edge')} among "
        f"{text.count(job.candidates.count)} candidate pairs "
        f"({split.kind} split{seed})\n",
        evaluation_table(results, restricted=restricted),
    )
    for result in results:
        if result.per_node is not None:
            console.show("", *node_tables(result.per_node))
    if left_out:
        total = left_out + job.num_positives
        console.show(
            f"\n{left_out:,} of {total:,} {job.part} edges are no candidates: the "
            "numbers speak of the others only."
        )
    for result in results:
        if result.estimate is not None:
            console.show(f"\n{ESTIMATE}: {estimate_text(result.estimate)}")
    tell_biases(console, [result.protocol for result in results])
