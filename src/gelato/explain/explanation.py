"""Why a pair has its score, as data and as text; nothing is computed here."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from gelato.text import plain, plural, printable

Kind = Literal["walks", "attributes", "closed form", "score only"]
# The text is for a terminal; the data hold the rest.
_SHOWN_MIDDLE = 5
_SHOWN_EDGES = 8


@dataclass(frozen=True)
class Walk:
    """One walk from source to target.

    Parameters
    ----------
    nodes : tuple of ids
        Its nodes in order; the same node twice in a row is a self-loop.
    contribution : float
        What it adds to the score.
    through_pair : bool
        Whether it steps along the pair itself.
    part : str
        Which heuristic counts it, where the score combines several.
    """

    nodes: tuple[Hashable, ...]
    contribution: float
    through_pair: bool
    part: str = ""


@dataclass(frozen=True)
class MiddleNode:
    """What all walks contribute that have a node at an inner place (1 is the first)."""

    node: Hashable
    place: int
    contribution: float


@dataclass(frozen=True)
class AttributeEffect:
    """How much an attribute raises (or lowers) the weight of an edge."""

    name: str
    source_value: float
    target_value: float
    effect: float


@dataclass(frozen=True)
class WalkEdge:
    """A step of the listed walks.

    Parameters
    ----------
    source, target : ids
    weight : float
        What walks count.
    own_weight : float
        The graph's own weight; 0 where the pair is no edge of it.
    similarity : float or None
        Similarity of the attributes, where the graph has some.
    is_edge, is_similar, is_loop : bool
        An edge of the graph; a similarity pair; a self-loop that the model adds.
    contribution : float
        What the listed walks contribute that use it.
    effects : tuple of AttributeEffect
        The attributes that moved the weight, strongest first, where it was learned.
    """

    source: Hashable
    target: Hashable
    weight: float
    own_weight: float
    similarity: float | None
    is_edge: bool
    is_similar: bool
    is_loop: bool
    contribution: float
    effects: tuple[AttributeEffect, ...] = ()


@dataclass(frozen=True)
class SharedAttribute:
    """An attribute of both nodes, and what it contributes to their cosine."""

    name: str
    source_value: float
    target_value: float
    contribution: float


@dataclass(frozen=True)
class Explanation:
    """The score of one pair, taken apart.

    ``walk_score + longer + chance`` is the score where ``kind`` is "walks" or "closed
    form";
    the contributions of ``shared``, plus ``shared_rest``, are ``similarity``, which is
    the score where ``kind`` is "attributes".

    Parameters
    ----------
    source, target : ids
    score : float
    kind : {"walks", "attributes", "closed form", "score only"}
        What the score is made of, as far as the model tells.
    known_edges : int
        How many edges were walked on: all that are known, as for predictions.
    known : bool
        Whether the pair is an edge already; walks then run along it, too.
    walks : tuple of Walk
        The strongest, best first.
    steps : int
        Edges of a walk (the largest number, where heuristics are combined).
    num_walks : int
        How many walks there are.
    walk_score : float
        What all walks together contribute.
    covered : float
        Share of ``walk_score`` that the listed walks make up.
    through_pair : float
        What walks contribute that step along the pair itself.
    chance : float
        The closed-form term: what two nodes of these degrees have without any walk
        (0 for common neighbours and their kin).
    longer : float
        What walks of more steps contribute, where all lengths count: they are not
        told apart.
    middle : tuple of MiddleNode
        The nodes that contribute most, for each inner place.
    edges : tuple of WalkEdge
        The steps of the listed walks, strongest first.
    shared : tuple of SharedAttribute
        What contributes most to the cosine of both nodes' attributes.
    shared_rest : float
        What the attributes contribute that are not listed.
    similarity : float or None
        The cosine; None without attributes.
    common_neighbours : int
    source_degree, target_degree : float
    notes : tuple of str
        How to read the above.
    """

    source: Hashable
    target: Hashable
    score: float
    known_edges: int
    kind: Kind
    known: bool
    common_neighbours: int
    source_degree: float
    target_degree: float
    similarity: float | None = None
    walks: tuple[Walk, ...] = ()
    steps: int = 0
    num_walks: int = 0
    walk_score: float = 0.0
    covered: float = 0.0
    through_pair: float = 0.0
    chance: float = 0.0
    longer: float = 0.0
    middle: tuple[MiddleNode, ...] = ()
    edges: tuple[WalkEdge, ...] = ()
    shared: tuple[SharedAttribute, ...] = ()
    shared_rest: float = 0.0
    notes: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; ids that JSON has no type for become text."""
        told: dict[str, Any] = plain(self)
        return told

    def to_text(self) -> str:
        """Return a text for people; unprintable characters of ids are escaped."""
        return "\n".join(_lines(self))

    def __str__(self) -> str:
        return self.to_text()


def _lines(why: Explanation) -> Iterator[str]:
    source, target = printable(why.source), printable(why.target)
    state = "already an edge" if why.known else "not an edge"
    basis = plural(why.known_edges, "known edge")
    yield f"{source} and {target} score {why.score:.6g} ({state}), from all {basis}"
    facts = [f"{why.common_neighbours:,} common neighbours"]
    if why.similarity is not None:
        facts.append(f"attribute similarity {why.similarity:.3f}")
    facts.append(f"degrees {why.source_degree:g} and {why.target_degree:g}")
    yield f"  {', '.join(facts)}"
    if why.kind in ("walks", "closed form"):
        yield from _walk_lines(why)
    if why.shared:
        yield from _shared_lines(why)
    for note in why.notes:
        yield f"note: {note}"


def _walk_lines(why: Explanation) -> Iterator[str]:
    count = f"{why.num_walks:,} walk{'s'[: why.num_walks != 1]}"
    rest = f"{_signed(why.chance)} by chance alone"
    if why.longer:
        rest = f"{_signed(why.longer)} from longer walks"
    yield f"  = {why.walk_score:.6g} from {count} {rest}"
    if not why.walks:
        return
    yield ""
    yield f"strongest walks ({len(why.walks)} of {why.num_walks:,}, {why.covered:.1%})"
    for walk in why.walks:
        path = " - ".join(map(printable, walk.nodes))
        marks = [f" [{walk.part}]"] if walk.part else []
        marks += [" (through the pair itself)"] if walk.through_pair else []
        yield f"  {walk.contribution:<12.6g} {path}{''.join(marks)}"
    if why.through_pair:
        yield f"  {why.through_pair:<12.6g} of all walks step along the pair itself"
    for place in sorted({middle.place for middle in why.middle}):
        here = [middle for middle in why.middle if middle.place == place]
        yield ""
        yield f"all walks, summed by their {_ordinal(place + 1)} node"
        for middle in here[:_SHOWN_MIDDLE]:
            yield f"  {middle.contribution:<12.6g} {printable(middle.node)}"
    yield ""
    yield "edges of these walks"
    for edge in why.edges[:_SHOWN_EDGES]:
        yield from _edge_lines(edge)
    if len(why.edges) > _SHOWN_EDGES:
        yield f"  and {len(why.edges) - _SHOWN_EDGES:,} more"


def _edge_lines(edge: WalkEdge) -> Iterator[str]:
    source, target = printable(edge.source), printable(edge.target)
    if edge.is_loop:
        yield f"  weight {edge.weight:<8.4g} {source}: self-loop"
        return
    about = f"own weight {edge.own_weight:g}" if edge.is_edge else "similarity pair"
    if edge.is_edge and edge.is_similar:
        about += ", similarity pair too"
    if edge.similarity is not None:
        about += f", similarity {edge.similarity:.3f}"
    yield f"  weight {edge.weight:<8.4g} {source} - {target} ({about})"
    for effect in edge.effects:
        yield (
            f"    {effect.effect:+.4f} {printable(effect.name)} "
            f"({effect.source_value:g} and {effect.target_value:g})"
        )


def _shared_lines(why: Explanation) -> Iterator[str]:
    yield ""
    yield f"shared attributes (they sum to the similarity {why.similarity:.4f})"
    for shared in why.shared:
        yield (
            f"  {shared.contribution:<12.6g} {printable(shared.name)} "
            f"({shared.source_value:g} and {shared.target_value:g})"
        )
    if why.shared_rest:
        yield f"  {why.shared_rest:<12.6g} all others"


def _ordinal(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"{number}th")


def _signed(value: float) -> str:
    return f"- {-value:.6g}" if value < 0 else f"+ {value:.6g}"
