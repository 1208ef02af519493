"""Evaluate a ranking: every held-out edge against every non-edge.

Other protocols rank against some of the non-edges, for contrast and always labelled
as such (:mod:`gelato.ranking.protocols`). Where
scoring every pair takes too long, ``estimate`` ranks a sample, and the result says so.
"""

from __future__ import annotations

import os
import time
from contextlib import nullcontext
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gelato.engines import Engine, use_engine, use_threads
from gelato.errors import InputError, UsageError
from gelato.graph import Graph, IntArray
from gelato.io.locking import locked_folder
from gelato.ranking import candidates as rules
from gelato.ranking import metrics
from gelato.ranking.candidates import AllPairs, Candidates
from gelato.ranking.counts import RankCounts, rank_counts
from gelato.ranking.estimate import LEVEL, Estimate, check_rate, estimate_ranking
from gelato.ranking.journal import Journal, Progress
from gelato.ranking.known_scores import refuse_known_answers
from gelato.ranking.node_metrics import summarise_nodes
from gelato.ranking.protocols import (
    Negatives,
    Protocol,
    check_protocol,
    draw_negatives,
    sample_negatives,
)
from gelato.ranking.scorers import RowScorer, Scoring, as_scorer
from gelato.splits import EdgeSplit, as_split
from gelato.text import LABELS, html_facts, percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Ranked = Literal["all", "sampled", "degree-corrected", "heart", "given", "estimated"]
Part = Literal["valid", "test"]
KnownEdges = Literal["train", "train+valid"]
VALIDATION_KNOWN = "VALIDATION EDGES KNOWN"


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Ranking quality of one model on one split; all numbers follow from counts.

    Parameters
    ----------
    counts : RankCounts
        Two counts per positive.
    protocol : {"all", "sampled", "degree-corrected", "heart", "given", "estimated"}
        Whether every negative was ranked, some of them (which is another question:
        see :mod:`gelato.ranking.protocols`), or a weighted sample.
    part : {"valid", "test"}
        Which held-out edges were the positives.
    split : str
        Fingerprint of the split.
    seconds : float
        Time taken, all parts of an evaluation that was resumed included.
    estimate : Estimate, optional
        What the counts rest on where they are estimated.
    per_node : dict, optional
        Measures of the lists of single nodes, where they were asked for: means over
        nodes, by their degree, and by the distance of the edges.
    own : RankCounts, optional
        Where each positive has negatives of its own: counts among these, from which
        MRR and hits follow. Everything else pools them.
    known_edges : {"train", "train+valid"}
        What the model walked on.
    """

    counts: RankCounts
    protocol: Ranked
    part: Part
    split: str
    seconds: float
    estimate: Estimate | None = None
    per_node: dict[str, Any] | None = None
    own: RankCounts | None = None
    known_edges: KnownEdges = "train"

    @property
    def ap(self) -> float:
        """Average precision."""
        return metrics.average_precision(self.counts)

    @property
    def auc(self) -> float:
        """Area under the ROC curve."""
        return metrics.area_under_roc(self.counts)

    @property
    def mrr(self) -> float:
        """Mean reciprocal rank."""
        return metrics.mean_reciprocal_rank(self.own or self.counts)

    @property
    def tied_share(self) -> float:
        """Share of positives that tie with a negative."""
        return metrics.tied_share(self.counts)

    @property
    def random_ap(self) -> float:
        """Average precision of a random order."""
        return metrics.random_precision(self.counts)

    @property
    def nearly_all_near(self) -> bool:
        """Whether most candidates are near, so that a pass costs what n^2 costs."""
        return self.counts.nearly_all_near

    @property
    def biased(self) -> bool:
        """Whether positives were ranked against some negatives only."""
        return self.protocol not in ("all", "estimated")

    @property
    def label(self) -> str:
        """What tables call these numbers; nothing for all pairs by training edges."""
        more = "" if self.known_edges == "train" else VALIDATION_KNOWN
        return ", ".join(filter(None, (LABELS.get(self.protocol, ""), more)))

    @property
    def estimated(self) -> bool:
        """Whether pairs that are not near were sampled, so that numbers are inexact."""
        return self.estimate is not None

    def interval(self, measure: str) -> tuple[float, float]:
        """Return the limits between which the exact value lies, 95 % sure.

        Parameters
        ----------
        measure : str
            ``"ap"``, ``"auc"``, ``"mrr"``, ``"prec@100%"`` or ``"hits@100"``, with
            the shares and numbers of ``to_dict()``.

        Returns
        -------
        low, high : float
            Twice the value itself where it is exact.
        """
        known = metrics.measures(self.counts)
        if self.own is not None:
            own = metrics.measures(self.own)
            known |= {k: v for k, v in own.items() if k == "mrr" or k[:5] == "hits@"}
        if measure not in known:
            raise UsageError(
                f"There is no measure {measure!r}.",
                hint=f"Measures are: {', '.join(known)}.",
            )
        if self.estimate is None:
            return known[measure], known[measure]
        return self.estimate.intervals[measure]

    def precision_at(self, ratio: float) -> float:
        """Precision at ``k = ceil(ratio * positives)`` (paper prec@100% is 1.0)."""
        return metrics.precision_at_ratio(self.counts, ratio)

    def hits_at(self, k: int) -> float:
        """Share of positives that score above the k-th best negative."""
        return metrics.hits_at(self.own or self.counts, k)

    def to_dict(self) -> dict[str, Any]:
        """Return every number as plain data, for JSON."""
        ratios, ks = metrics.PRECISION_RATIOS, metrics.HITS_KS
        basis = {} if self.estimate is None else {"estimate": self.estimate.to_dict()}
        lists = {} if self.per_node is None else {"per_node": self.per_node}
        return {
            "protocol": self.protocol,
            "biased": self.biased,
            "estimated": self.estimated,
            "part": self.part,
            "split": self.split,
            "known_edges": self.known_edges,  # what a model walks on here
            "positives": self.counts.num_positives,
            "negatives": self.counts.num_negatives,
            "near_pairs": self.counts.near_pairs,
            "ap": self.ap,
            "auc": self.auc,
            "mrr": self.mrr,
            "random_ap": self.random_ap,
            "tied_share": self.tied_share,
            "precision_at": {f"{r:.0%}": self.precision_at(r) for r in ratios},
            "hits_at": {str(k): self.hits_at(k) for k in ks},
            "seconds": self.seconds,
            **basis,
            **lists,
        }

    def plot(self) -> Figure:
        """Draw what a reader of the list meets: precision by rank, and by recall.

        Returns
        -------
        matplotlib.figure.Figure
            Notebooks show it; ``figure.savefig("file.svg")`` keeps it.
        """
        from matplotlib import rc_context
        from matplotlib.figure import Figure

        from gelato.drawing import GREY, PALETTE, STYLE

        total = self.counts.num_positives + self.counts.num_negatives
        most = min(total, max(10, 10 * self.counts.num_positives))
        ks = np.unique(np.geomspace(1, most, 80).astype(int))
        values = [metrics.precision_at(self.counts, int(k)) for k in ks]
        precision, recall = metrics.precision_recall_curve(self.counts)
        label = self.label or "every non-edge"
        with rc_context(STYLE):
            figure = Figure(figsize=(8.4, 3.4), layout="constrained")
            left, right = figure.subplots(1, 2)
            left.plot(ks, 100 * np.array(values), color=PALETTE[0])
            left.set(xscale="log", xlabel="k best pairs", ylabel="precision (%)")
            right.plot(100 * recall, 100 * precision, color=PALETTE[0])
            right.set(xlabel="recall (%)", ylabel="precision (%)")
            for axes in (left, right):
                axes.axhline(100 * self.random_ap, color=GREY, linestyle=":")
                axes.set_ylim(bottom=0)
            title = f"AP {percent(self.ap)} % ({self.part} edges, {label})"
            figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
        return figure

    def _repr_html_(self) -> str:
        label = self.label or "every non-edge"
        if self.estimate is not None:
            label = "ESTIMATE"
        total = self.counts.num_positives + self.counts.num_negatives
        rows = [
            ("ranked against", label),
            ("AP", f"{percent(self.ap)} %"),
            ("AP of a random order", f"{percent(self.random_ap)} %"),
            ("prec@100%", f"{percent(self.precision_at(1.0))} %"),
            ("AUC", f"{percent(self.auc)} %"),
            ("edges found among", f"{self.counts.num_positives:,} of {total:,} pairs"),
        ]
        return html_facts(f"Evaluation, {self.part} edges", rows)

    def __repr__(self) -> str:
        label = f"{self.label} negatives" if self.biased else self.label or "all pairs"
        limits = ""
        if self.estimate is not None:
            low, high = self.interval("ap")
            label = f"ESTIMATE from {self.estimate.rate:.3g} of the pairs not near"
            limits = f" ({LEVEL:.0%} interval {low:.2%} to {high:.2%})"
        return (
            f"Evaluation({label}: AP {self.ap:.2%}{limits}, AUC {self.auc:.2%}, "
            f"prec@100% {self.precision_at(1.0):.2%}, "
            f"{self.counts.num_positives:,} positives among "
            f"{self.counts.num_positives + self.counts.num_negatives:,} candidates)"
        )


def evaluate(
    model: Any,
    split: EdgeSplit,
    *,
    part: Part = "test",
    protocol: Protocol = "all",
    negatives: Any = None,
    candidates: Candidates | None = None,
    estimate: float | None = None,
    per_node: bool = False,
    known_edges: KnownEdges = "train",
    resume: str | os.PathLike[str] | None = None,
    seed: int = 0,
    threads: int | None = None,
    engine: Engine | str | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Rank the held-out edges of a split among all candidate pairs.

    Parameters
    ----------
    model : model, scorer, callable or matrix
        What scores pairs; a model uses the training edges of the split.
    split : EdgeSplit, or whatever ``gelato.read_graph`` reads
        Training, validation and test edges; a graph is split at random, as by
        :func:`gelato.split_edges`.
    part : {"test", "valid"}
        Whose edges are the positives.
    protocol : {"all", "sampled", "degree-corrected", "heart", "given"}
        Against what: every negative; or, for contrast and labelled, some of them as
        :mod:`gelato.ranking.protocols` has it.
    negatives : path, frame or array, optional
        The negatives of ``"given"``: pairs for all positives, or rows of source,
        target and a negative target of that positive.
    candidates : Candidates, optional
        A rule that restricts what is ranked; positives outside it are an error.
    estimate : float, optional
        Where scoring every pair takes too long: score exactly only the positives and
        pairs at most two training edges apart, and this share of all others, drawn
        at random. The result is labelled as an estimate and has intervals.
    per_node : bool
        Also measure the list of each node that has held-out edges, in the same pass:
        recall, precision, NDCG, VCMPR and hits at k, MAP, MRR.
    known_edges : {"train", "train+valid"}
        With ``"train+valid"`` a model that was fitted on training edges walks on
        validation edges, too, when it ranks test edges: a practice of OGB, labelled.
    resume : path, optional
        A folder that keeps counts so far. The same evaluation goes on from there
        after an interruption, and gives the same bits.
    seed : int
        Draws the negatives of ``protocol="sampled"`` and of an estimate.
    threads : int, optional
        Number of threads (:func:`gelato.use_threads`); does not change the result.
    engine : {"local", "ray"} or Engine, optional
        Where rows are scored (:func:`gelato.make_engine`); does not change
        the result. Threads of this process if not given.
    progress : callable, optional
        Called with (rows done, rows in all).

    Examples
    --------
    >>> import gelato
    >>> split = gelato.split_edges(gelato.load_dataset("citeseer"))
    >>> round(100 * gelato.evaluate(gelato.make("aa"), split).ap, 2)
    1.24
    """
    started = time.perf_counter()
    if part not in ("valid", "test"):
        raise UsageError(
            f"Unknown part {part!r}.", hint='Parts are "valid" and "test".'
        )
    check_protocol(protocol, negatives, restricted=candidates is not None)
    if estimate is not None:
        check_rate(estimate)
        _refuse_sampled_estimate(protocol)
    if per_node and (protocol != "all" or estimate is not None):
        raise UsageError(
            "per_node ranks every candidate of a node, not a sample of them.",
            hint='Leave out estimate, and take protocol="all".',
        )
    split = as_split(split)
    source = _honest(model, split)
    scorer = as_scorer(source, _known_graph(source, split, part, known_edges))
    rule = candidates_of(split, part) if candidates is None else candidates
    positives = check_positives(split, part, rule)
    journal = None if resume is None else Journal(resume)
    holding = nullcontext() if journal is None else locked_folder(journal.folder)
    run: dict[str, Any] = {"progress": progress}
    ranked: Ranked = protocol
    found = own = None
    with use_threads(threads), use_engine(engine), holding:
        if protocol == "sampled":
            drawn = Negatives(sample_negatives(rule, positives, seed=seed))
            counts, own = drawn.counts(scorer, positives, rule.num_nodes)
        elif protocol != "all":
            drawn = draw_negatives(protocol, split, part, seed=seed, given=negatives)
            counts, own = drawn.counts(scorer, positives, rule.num_nodes)
        elif estimate is not None:
            run |= {"journal": journal, "seed": seed}
            known = split.train_graph
            found = estimate_ranking(scorer, positives, rule, known, estimate, **run)
            counts, ranked = found.counts, "estimated"
        else:
            run |= {"journal": journal, "per_node": per_node}
            counts = rank_counts(scorer, positives, rule, **run)
    lists = None
    if counts.nodes is not None:
        lists = summarise_nodes(counts.nodes, split.train_graph, positives)
    seconds = time.perf_counter() - started
    seconds += 0.0 if journal is None else journal.seconds_before
    return Evaluation(
        counts,
        ranked,
        part,
        split.fingerprint,
        seconds,
        found,
        lists,
        own,
        known_edges,
    )


def _honest(source: Any, split: EdgeSplit) -> Any:
    """Return what scores pairs; scores that have seen the answers are refused."""
    refuse_known_answers(source, split)
    owner = getattr(source, "__self__", None)
    if isinstance(owner, Scoring):  # a method of a model
        return owner
    if isinstance(source, Scoring | RowScorer) or not callable(source):
        return source

    @wraps(source)  # whoever looks at the signature sees the user's
    def score(rows: IntArray) -> Any:
        scores = source(rows)
        refuse_known_answers(scores, split)
        return scores

    return score


def _known_graph(
    source: Any, split: EdgeSplit, part: Part, known_edges: KnownEdges
) -> Graph:
    """Return the edges that a model may walk on."""
    if known_edges == "train":
        return split.train_graph
    if known_edges != "train+valid":
        raise UsageError(
            f"known_edges is {known_edges!r}, which is no part of a split.",
            hint='Take "train" or "train+valid".',
        )
    if part != "test" or not isinstance(source, Scoring):
        raise UsageError(
            "Validation edges can be known to a model that ranks test edges; not to "
            "given scores, nor while they are ranked themselves.",
            hint='Give a model, and part="test".',
        )
    return split.graph.with_edges(split.known("test"))


def _refuse_sampled_estimate(protocol: str) -> None:
    if protocol != "all":
        raise UsageError(
            f"The {protocol} protocol is not estimated: it scores few pairs anyway.",
            hint='Leave out estimate, or take protocol="all".',
        )


def candidates_of(split: EdgeSplit, part: Part) -> AllPairs:
    """Return all pairs that the protocol ranks for a part of a split."""
    return rules.all_pairs(split.graph, split.known(part))


def check_positives(split: EdgeSplit, part: Part, rule: Candidates) -> IntArray:
    """Return the positives of a part, or say why they cannot be ranked."""
    positives = split.positives(part)
    if not len(positives):
        raise InputError(
            f"The {part} part of the split has no edges: there is nothing to rank.",
            hint=f"Hold out a larger share: split_edges(graph, {part}=...).",
        )
    outside = ~rule.contains(positives)
    if np.any(outside):
        u, v = positives[int(np.argmax(outside))]
        raise InputError(
            f"{np.count_nonzero(outside):,} of {len(positives):,} {part} edges are not "
            f"candidates, for example {_named(split.graph, u, v)}.",
            hint="Widen the candidate rule, or split only edges that it admits.",
        )
    if rule.count == len(positives):
        raise InputError(
            f"All {rule.count:,} candidates are {part} edges: there are no negatives.",
            hint="Ranking needs pairs that are not links; is the graph complete?",
        )
    return positives


def _named(graph: Graph, u: int, v: int) -> str:
    return f"({graph.node_ids[u]}, {graph.node_ids[v]})"
