"""From options to candidate pairs, and the held-out edges among them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gelato.cli import numbers
from gelato.cli.options import CandidateOptions
from gelato.errors import InputError, UsageError

if TYPE_CHECKING:
    from gelato.graph import Graph, IntArray
    from gelato.ranking.candidates import Candidates
    from gelato.ranking.evaluate import Part
    from gelato.splits import EdgeSplit


def make_candidates(
    options: CandidateOptions, graph: Graph, known: IntArray
) -> Candidates:
    """Return the candidates that the options ask for, without known pairs."""
    from gelato.io import read_nodes, read_pairs
    from gelato.ranking import candidates as rules

    kind, _, argument = options.candidates.partition(":")
    sides = options.left is not None or options.right is not None
    if sides and kind != "all":
        raise UsageError(
            f"--left and --right go with all pairs, not with {options.candidates!r}.",
            hint="Leave --candidates out.",
        )
    if sides:
        left, right = (
            range(graph.num_nodes) if path is None else read_nodes(path, graph)
            for path in (options.left, options.right)
        )
        return rules.between(graph, left, right, known)
    if kind == "hops" and argument.isdecimal():
        return rules.within_hops(graph, int(argument), known)
    if kind == "file" and argument:
        return rules.listed(graph, read_pairs(Path(argument), graph), known)
    if options.candidates != "all":
        raise UsageError(
            f"{options.candidates!r} is not a candidate rule.",
            hint="Rules are: all, hops:K (for example hops:2), file:FILE.",
        )
    return rules.all_pairs(graph, known)


def candidate_limits(
    options: CandidateOptions, graph: Graph, known: IntArray
) -> dict[str, Any]:
    """Return the options as arguments of a prediction.

    Not as ready-made candidates where it can be helped: a rule that can be applied to
    the training edges as well tells the precision to expect among them.
    """
    from gelato.io import read_nodes

    kind, _, argument = options.candidates.partition(":")
    if options.left is not None or options.right is not None:
        ids = graph.node_ids
        return {
            "between": tuple(
                ids.tolist() if path is None else ids[read_nodes(path, graph)].tolist()
                for path in (options.left, options.right)
            )
        }
    if kind == "hops" and argument.isdecimal():
        return {"within_hops": int(argument)}
    if kind == "file":
        return {"rule": make_candidates(options, graph, known)}
    return {}


def require_positives(split: EdgeSplit, part: Part) -> None:
    """Refuse a split whose part is empty, in the words of the command line."""
    if len(split.positives(part)):
        return
    edges = numbers.plural(split.graph.num_edges, "edge")
    raise InputError(
        f"The {part} part of the split has no edges: there is nothing to rank "
        f"(the graph has {edges}).",
        hint=f"Hold out more with --{part} SHARE, for example --{part} 0.3, or name "
        f"the edges with --{part}-edges FILE.",
    )


def keep_admitted(
    split: EdgeSplit, part: Part, rule: Candidates
) -> tuple[EdgeSplit, int]:
    """Return a split without the held-out edges that are no candidates, and how many.

    A narrow rule cannot find them, and the numbers then speak of the others only;
    whoever calls says so.
    """
    positives = split.positives(part)
    admitted = positives[rule.contains(positives)]
    outside = len(positives) - len(admitted)
    if not outside:
        return split, 0
    if not len(admitted):
        raise InputError(
            f"None of the {len(positives):,} {part} edges is a candidate.",
            hint="Widen the candidate rule.",
        )
    if part == "test":
        return replace(split, test=admitted), outside
    return replace(split, valid=admitted), outside
