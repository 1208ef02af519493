"""Columns of an attribute table into attributes, lined up with the nodes of a graph.

Numbers are scaled, dates become days, words one attribute each. How a column is read
follows from its content, and every choice is reported. A cell that does not fit raises
with its place; nothing is skipped silently. Matrices of numbers are taken as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from gelato.errors import InputError, UsageError
from gelato.graph import Attributes, FloatArray, Graph, IntArray
from gelato.io.report import ColumnChoice
from gelato.io.tables import (
    Table,
    missing_numbers,
    number_notes,
    to_dates,
    to_float,
    to_numbers,
)
from gelato.text import plural

if TYPE_CHECKING:
    import polars as pl

# Below this share of filled cells a CSR matrix is smaller and faster than an array.
_DENSE_FROM = 0.25
# From here on, columns that are treated alike share a note.
_MANY_COLUMNS = 5
# A column with a larger share of the squared length than this drowns the others.
_MOST_OF_ALL = 0.95
# Columns with at most this many values are categories even if no value repeats.
_FEW = 20
# No scaled number is larger than this.
_BOUND = 3.0


@dataclass(frozen=True)
class NodeData:
    """Attributes and labels, one row per node."""

    attributes: Attributes | None = None
    names: tuple[str, ...] | None = None
    labels: IntArray | None = None
    choices: tuple[ColumnChoice, ...] = ()
    notes: tuple[str, ...] = ()
    scales: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def encode_table(
    table: Table,
    nodes: IntArray,
    num_nodes: int,
    *,
    skip: tuple[str, ...],
    labels: str | None,
    encode: Mapping[str, str],
) -> NodeData:
    """Encode the columns of a table whose row i describes node ``nodes[i]``.

    Nodes without a row get zeros, and the label -1.
    """
    for name in encode:
        if name != "*":
            table.column(name, "encode")
    notes: list[str] = []
    rows = _distinct_rows(table, nodes, notes)
    blocks: list[sp.csr_array] = []
    names: list[str] = []
    choices: list[ColumnChoice] = []
    sizes: dict[str, float] = {}
    scales: dict[str, tuple[float, float]] = {}
    for name in table.frame.columns:
        if name in skip or name == labels:
            continue
        encoded, choice = encode_column(table, name, encode)
        choices.append(choice)
        if encoded is not None:
            blocks.append(encoded.matrix)
            sizes[name] = float(np.square(encoded.matrix.data, dtype=np.float64).sum())
            names.extend(encoded.names)
            notes.extend(encoded.notes)
            scales |= encoded.scales
    attributes = None
    if names:
        stacked = sp.csr_array(sp.hstack(blocks, format="csr", dtype=np.float32))
        attributes = compact(_placed(stacked, rows, nodes, num_nodes))
    found = None if labels is None else _labels(table, labels, rows, nodes, num_nodes)
    told = (*_told(choices), *notes, *_overwhelming(sizes))
    kept = tuple(names) or None
    return NodeData(attributes, kept, found, tuple(choices), told, scales)


def join_tables(parts: Sequence[NodeData]) -> NodeData:
    """Return the attributes of several tables side by side.

    An attribute that more than one of them has is numbered from the second on.
    """
    names: list[str] = []
    blocks, scales = [], {}
    labels: IntArray | None = None
    for number, part in enumerate(parts, start=1):
        for name in part.names or ():
            own = name if name not in names else f"{name} ({number})"
            names.append(own)
            if name in part.scales:
                scales[own] = part.scales[name]
        if part.attributes is not None:
            blocks.append(sp.csr_array(part.attributes))
        if part.labels is not None:
            labels = part.labels if labels is None else np.maximum(labels, part.labels)
    joined = sp.csr_array(sp.hstack(blocks, format="csr")) if blocks else None
    return NodeData(
        None if joined is None else compact(joined),
        tuple(names) or None,
        labels,
        tuple(choice for part in parts for choice in part.choices),
        tuple(note for part in parts for note in part.notes),
        scales,
    )


def _told(choices: Sequence[ColumnChoice]) -> list[str]:
    """Say what became of the columns; many that were treated alike share a note."""
    alike: dict[tuple[str, int, str], list[str]] = {}
    for choice in choices:
        treated = (choice.kind, choice.width, choice.reason)
        alike.setdefault(treated, []).append(choice.name)
    notes = []
    for (kind, width, reason), names in alike.items():
        fate = f"read as {kind}, {plural(width, 'attribute')}"
        fate = "not used" if kind == "drop" else fate
        if len(names) < _MANY_COLUMNS:
            notes += [f"column {name!r} {fate}: {reason}" for name in names]
            continue
        each = "" if kind == "drop" else " each"
        ends = f"{names[0]!r} to {names[-1]!r}"
        notes.append(f"{len(names):,} columns, {ends}, {fate}{each}: {reason}")
    return notes


def _overwhelming(sizes: Mapping[str, float]) -> list[str]:
    """Warn of a column beside which cosine similarity hardly sees the others."""
    total = sum(sizes.values())
    return [
        f"the numbers of column {name!r} drown all other attributes "
        f"({100 * size / total:.3g} % of the squared length), so that similarity sees "
        f"little else: let them be scaled (encode {name}=numeric), or leave the column "
        f"out (encode {name}=drop)"
        for name, size in sizes.items()
        if len(sizes) > 1 and size > _MOST_OF_ALL * total
    ]


def _placed(
    matrix: sp.csr_array, rows: IntArray, nodes: IntArray, num_nodes: int
) -> sp.csr_array:
    """Move row ``rows[i]`` to row ``nodes[rows[i]]`` of a matrix over all nodes."""
    ones = np.ones(len(rows), dtype=np.float32)
    shape = (num_nodes, matrix.shape[0])
    return sp.csr_array(sp.csr_array((ones, (nodes[rows], rows)), shape=shape) @ matrix)


def compact(matrix: sp.csr_array) -> Attributes:
    """Return a matrix as CSR if few cells are filled, else as an array."""
    cells = matrix.shape[0] * matrix.shape[1]
    matrix.eliminate_zeros()
    if matrix.nnz < _DENSE_FROM * cells:
        matrix.sort_indices()
        return matrix
    return matrix.toarray()


def _distinct_rows(table: Table, nodes: IntArray, notes: list[str]) -> IntArray:
    """Return the first row of every node; further ones must say the same."""
    _, first, inverse = np.unique(nodes, return_index=True, return_inverse=True)
    repeated = np.flatnonzero(first[inverse] != np.arange(len(nodes)))
    for row in repeated.tolist():
        origin = int(first[inverse[row]])
        if _differ(table, origin, row):
            raise InputError(
                f"{table.place(row)}: the attributes of {table.frame[row, 0]!r} differ "
                f"from those at {_short(table, origin)}.",
                hint="Keep one row per node.",
            )
    if len(repeated):
        merged = plural(len(repeated), "repeated equal row")
        notes.append(f"{table.name}: merged {merged}")
    return np.sort(first).astype(np.int64)


def _short(table: Table, row: int) -> str:
    return f"row {row + 1}" if table.lines is None else f"line {table.lines[row]}"


def _differ(table: Table, one: int, other: int) -> bool:
    """Tell whether two rows differ in a column other than white space and the id."""
    pairs = zip(table.frame.row(one)[1:], table.frame.row(other)[1:], strict=True)
    return any(_cell(a) != _cell(b) for a, b in pairs)


def _cell(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _labels(
    table: Table, column: str, rows: IntArray, nodes: IntArray, num_nodes: int
) -> IntArray:
    """Return class numbers: integers stay, other values follow their sorted order."""
    series = table.frame[column]
    texts = as_text(series)
    plain = to_numbers(series, decimal_comma=table.decimal_comma)
    numbers = plain.fill_null(np.nan).to_numpy().astype(np.float64)
    filled = np.array([text is not None for text in texts], dtype=bool)
    whole = np.isfinite(numbers) & (np.abs(numbers) < 2.0**53)
    if bool(np.all(~filled | (whole & (np.floor(numbers) == numbers)))):
        codes = np.where(filled, np.nan_to_num(numbers), -1).astype(np.int64)
    else:
        classes = {text: k for k, text in enumerate(sorted({t for t in texts if t}))}
        codes = np.array([classes[t] if t else -1 for t in texts], dtype=np.int64)
    labels = np.full(num_nodes, -1, dtype=np.int64)
    labels[nodes[rows]] = codes[rows]
    return labels


def as_matrix(attributes: Any) -> Any:
    """Return a numeric matrix as CSR or array, or None if it is a table."""
    if sp.issparse(attributes):
        return sp.csr_array(attributes)
    if isinstance(attributes, np.ndarray) and attributes.dtype.kind in "iufb":
        return attributes
    return None


def matrix_nodes(
    edge_ids: npt.NDArray[Any], num_rows: int, ids: Any
) -> list[Any] | None:
    """Return the id of every row of an attribute matrix (None: rows 0..n-1).

    Without ids, row i belongs to node i, so that all ids must be row numbers.
    """
    if ids is not None:
        if isinstance(ids, str | int):
            raise InputError(
                f"The attributes are a matrix, which has no column {ids!r}.",
                hint="Give id= one id per row of the matrix.",
            )
        listed = list(ids)
        if len(listed) != num_rows:
            raise InputError(
                f"There are {len(listed)} ids for {num_rows} rows of attributes.",
                hint="Give one id per row of the matrix.",
            )
        return listed
    numbers = edge_ids.dtype.kind == "i"
    if len(edge_ids) and (
        not numbers or edge_ids.min() < 0 or edge_ids.max() >= num_rows
    ):
        raise InputError(
            f"A matrix of {num_rows} rows describes the nodes 0 to {num_rows - 1}, but "
            f"the edges name {edge_ids.tolist()[-1]!r}.",
            hint="Give the ids of its rows with id=, or a table with an id column.",
        )
    return None


@dataclass(frozen=True)
class Encoded:
    """The attributes of one column: an (rows, width) CSR matrix and their names."""

    matrix: sp.csr_array
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()
    scales: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def encode_numeric(table: Table, series: pl.Series) -> Encoded:
    """Scale numbers, so that no column drowns the others; see :func:`find_scale`."""
    values, missing, notes = _finite_numbers(table, series)
    scale = find_scale(values[~missing])
    return _numeric(series.name, values, missing, scale, notes)


def encode_raw(table: Table, series: pl.Series) -> Encoded:
    """Keep numbers as they are."""
    values, missing, notes = _finite_numbers(table, series)
    return _numeric(series.name, values, missing, None, notes)


def encode_date(table: Table, series: pl.Series) -> Encoded:
    """Turn dates into scaled days, and years and months where they repeat."""
    import polars as pl

    found = to_dates(series)
    moments = series if found is None else found[0]
    missing = moments.is_null().to_numpy() if found else missing_numbers(series)
    wrong = missing & ~missing_numbers(series)
    if found is None or wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            f"{table.place(row)}: {series[row]!r} in column {series.name!r} is not a "
            "date.",
            hint="Write dates as YYYY-MM-DD, or encode the column as 'category'.",
        )
    days = moments.dt.epoch("us").cast(pl.Float64).fill_null(np.nan).to_numpy()
    values = days / 86_400e6
    notes = []
    if found[1] != "%Y-%m-%d":
        first, either, other = found[1].partition(" or ")
        doubt = f", though {other} would fit as well" if either else ""
        sure = "; write dates as YYYY-MM-DD to be sure" if either else ""
        notes.append(f"column {series.name!r}: dates read as {first}{doubt}{sure}")
    parts = [
        _numeric(series.name, values, missing, find_scale(values[~missing]), notes)
    ]
    years, months = moments.dt.year(), moments.dt.month()
    for name, part in (("year", years), ("month", months)):
        if 1 < years.n_unique() <= _FEW and 1 < part.n_unique() <= _FEW:
            texts = part.cast(pl.String).alias(f"{series.name}.{name}")
            parts.append(encode_category(table, texts))
    return Encoded(
        sp.csr_array(sp.hstack([part.matrix for part in parts], format="csr")),
        tuple(name for part in parts for name in part.names),
        tuple(note for part in parts for note in part.notes),
        parts[0].scales,
    )


def find_scale(values: FloatArray) -> tuple[float, float] | None:
    """Return the centre and the spread of numbers, None where they are 0 and 1 only.

    The centre is the median; the spread that of the middle half, or, where these are
    all equal, the median distance of the others. Outliers thus move neither.
    """
    if not len(values) or np.isin(values, (0.0, 1.0)).all():
        return None
    low, centre, high = np.percentile(values, (25, 50, 75)).tolist()
    spread = high - low
    if spread == 0:
        others = np.abs(values[values != centre] - centre)
        spread = float(np.median(others)) if len(others) else 1.0
    return centre, spread


def scaled(values: FloatArray, scale: tuple[float, float]) -> FloatArray:
    """Return numbers around 0, most of them within -1 and 1, and none beyond 3."""
    centred = (values - scale[0]) / scale[1]
    return np.asarray(centred / np.sqrt(1 + np.square(centred / _BOUND)))


def unscaled(values: FloatArray, scale: tuple[float, float]) -> FloatArray:
    """Return the numbers that :func:`scaled` turned into these."""
    share = np.clip(values / _BOUND, -1 + 1e-7, 1 - 1e-7)
    return np.asarray(scale[0] + scale[1] * values / np.sqrt(1 - np.square(share)))


def rescale(graph: Graph, like: Graph) -> Graph:
    """Return a graph whose numbers are scaled as those of another one.

    For new nodes to look to a model as the nodes did that it was fitted on.
    """
    ours = (like.reading or {}).get("scales") or {}
    theirs = (graph.reading or {}).get("scales") or {}
    names, attributes = graph.attribute_names or (), graph.attributes
    columns = [k for k, name in enumerate(names) if ours.get(name) != theirs.get(name)]
    if attributes is None or not columns:
        return graph
    matrix = sp.csc_array(attributes)
    blocks = [matrix[:, [k]] for k in range(matrix.shape[1])]
    for k in columns:
        values = blocks[k].toarray().ravel().astype(np.float64)
        if names[k] in theirs:
            values = unscaled(values, theirs[names[k]])
        if names[k] in ours:
            values = scaled(values, ours[names[k]])
        blocks[k] = sp.csc_array(values[:, None].astype(np.float32))
    joined = sp.csr_array(sp.hstack(blocks, format="csr", dtype=np.float32))
    scales = {name: ours[name] for name in names if name in ours}
    note = (
        f"numbers scaled as in the first graph: {', '.join(names[k] for k in columns)}"
    )
    return replace(
        graph,
        attributes=joined if sp.issparse(attributes) else joined.toarray(),
        reading={**(graph.reading or {}), "scales": scales},
        notes=(*graph.notes, note),
    )


def _finite_numbers(
    table: Table, series: pl.Series
) -> tuple[FloatArray, npt.NDArray[np.bool_], list[str]]:
    """Return the numbers of a column, which of them are missing, and notes."""
    numbers = to_numbers(_booleans(series), decimal_comma=table.decimal_comma)
    missing = missing_numbers(series)
    values = numbers.fill_null(np.nan).to_numpy().astype(np.float64)
    with np.errstate(over="ignore"):
        wrong = ~np.isfinite(values.astype(np.float32)) & ~missing
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            f"{table.place(row)}: {series[row]!r} in column {series.name!r} is not a "
            "finite number (of single precision).",
            hint="Fix the cell, or choose another encoding for the column.",
        )
    return values, missing, number_notes(_booleans(series), numbers)


def _numeric(
    name: str,
    values: FloatArray,
    missing: npt.NDArray[np.bool_],
    scale: tuple[float, float] | None,
    notes: Sequence[str],
) -> Encoded:
    """Return numbers as an attribute, and a second one that marks missing ones."""
    count = int(missing.sum())
    median = float(np.median(values[~missing])) if count < len(values) else 0.0
    filled = np.where(missing, median, values)
    if scale is not None:
        filled = scaled(filled, scale)
    columns, names = [filled], [name]
    if 0 < count < len(values):
        columns.append(missing.astype(np.float64))
        names.append(f"{name}=missing")
        told = f"{plural(count, 'missing number')} read as the median, {median:.6g}"
        notes = [*notes, f"column {name!r}: {told}, and marked"]
    matrix = sp.csr_array(np.column_stack(columns).astype(np.float32))
    scales = {} if scale is None else {name: scale}
    return Encoded(matrix, tuple(names), tuple(notes), scales)


def _booleans(series: pl.Series) -> pl.Series:
    import polars as pl

    if series.dtype != pl.String:
        return series
    text = series.str.strip_chars().str.to_lowercase()
    if not text.is_in(["true", "false"]).any():
        return series
    return (
        pl.select(
            pl.when(text == "true")
            .then(pl.lit("1"))
            .when(text == "false")
            .then(pl.lit("0"))
            .otherwise(series)
        )
        .to_series()
        .alias(series.name)
    )


def encode_category(table: Table, series: pl.Series) -> Encoded:
    """Give every value an attribute of its own; a missing value has none."""
    cells = ([] if cell is None else [cell] for cell in as_text(series))
    return _multi_hot(cells, series)


def encode_list(table: Table, series: pl.Series) -> Encoded:
    """Give every item an attribute of its own; a node may have several."""
    return _multi_hot(split_cells(series), series)


def encode_text(table: Table, series: pl.Series) -> Encoded:
    """Give every word an attribute of its own (a binary bag of words)."""
    from sklearn.feature_extraction.text import CountVectorizer

    texts = [cell or "" for cell in as_text(series)]
    try:
        vectorizer = CountVectorizer(binary=True, dtype=np.float32)
        matrix = vectorizer.fit_transform(texts)
    except ValueError:  # no word in any cell
        note = f"column {series.name!r}: no words found, so it gives no attributes"
        return Encoded(sp.csr_array((len(series), 0), dtype=np.float32), (), (note,))
    words = vectorizer.get_feature_names_out()
    names = tuple(f"{series.name}:{word}" for word in words)
    return Encoded(sp.csr_array(matrix), names)


def encode_vector(table: Table, series: pl.Series) -> Encoded:
    """Keep lists of numbers of one length as that many attributes."""
    rows = series.to_list()
    width = max((len(row) for row in rows if row is not None), default=0)
    values = np.zeros((len(rows), width), dtype=np.float32)
    missing = 0
    for place, row in enumerate(rows):
        if row is None:
            missing += 1
            continue
        with np.errstate(over="ignore"):
            filled = np.array([to_float(item) for item in row]).astype(np.float32)
        if len(filled) != width or not np.all(np.isfinite(filled)):
            raise InputError(
                f"{table.place(place)}: column {series.name!r} needs {width} finite "
                "numbers here.",
                hint="Give every node a vector of the same length.",
            )
        values[place] = filled
    names = tuple(f"{series.name}[{k}]" for k in range(width))
    note = f"column {series.name!r}: {plural(missing, 'missing vector')} read as 0"
    matrix = sp.csr_array(values)
    return Encoded(matrix, names, (note,) if missing else ())


def as_text(series: pl.Series) -> list[str | None]:
    """Return stripped text, empty cells as None."""
    listed = series.to_list()
    texts = (None if v is None or v != v else str(v).strip() for v in listed)
    return [text or None for text in texts]


def split_cells(series: pl.Series) -> list[list[str]]:
    """Return the items of every cell: of a list, or of text split at ';' or '|'."""
    listed = series.to_list()
    split: list[list[str]] = []
    for cell in listed:
        if cell is None:
            split.append([])
        elif isinstance(cell, str):
            split.append(cell.replace("|", ";").split(";"))
        elif isinstance(cell, Iterable):
            split.append([str(item) for item in cell if item is not None])
        else:
            split.append([str(cell)])
    return [[item.strip() for item in cell if item.strip()] for cell in split]


def _multi_hot(cells: Iterable[Sequence[str]], series: pl.Series) -> Encoded:
    distinct = [list(dict.fromkeys(cell)) for cell in cells]
    vocabulary = sorted({item for cell in distinct for item in cell})
    position = {item: k for k, item in enumerate(vocabulary)}
    indices = np.array([position[item] for cell in distinct for item in cell], np.int32)
    indptr = np.concatenate([[0], np.cumsum([len(cell) for cell in distinct])])
    data = np.ones(len(indices), dtype=np.float32)
    shape = (len(distinct), len(vocabulary))
    matrix = sp.csr_array((data, indices, indptr.astype(np.int64)), shape=shape)
    matrix.sort_indices()
    return Encoded(matrix, tuple(f"{series.name}={item}" for item in vocabulary))


KINDS = ("numeric", "numeric-raw", "date", "category", "text", "list", "drop")
_BOOLEANS = frozenset({"true", "false"})
_ENCODERS: Mapping[str, Callable[[Table, pl.Series], Encoded]] = {
    "numeric": encode_numeric,
    "numeric-raw": encode_raw,
    "date": encode_date,
    "vector": encode_vector,
    "category": encode_category,
    "text": encode_text,
    "list": encode_list,
}


def encode_column(
    table: Table, name: str, encode: Mapping[str, str]
) -> tuple[Encoded | None, ColumnChoice]:
    """Return the attributes of a column (None if dropped) and the choice made."""
    series = table.frame[name]
    wanted = encode.get(name)
    numbers = encode.get("*", "numeric")  # how all columns of numbers are encoded
    for kind in (wanted, numbers):
        if kind is not None and kind not in KINDS:
            raise UsageError(
                f"Column {name!r} cannot be encoded as {kind!r}.",
                hint=f"Choose one of: {', '.join(KINDS)}.",
            )
    kind, reason = (wanted, "as asked") if wanted else _find_kind(table, series)
    if kind == "numeric" and not wanted and reason:
        kind = numbers
    if kind == "drop":
        return None, ColumnChoice(name, "drop", 0, reason)
    if kind.startswith("numeric") and _holds_lists(series):
        kind = "vector"
    if kind == "numeric" and not reason:
        _refuse_few_words(table, series)
    encoded = _ENCODERS[kind](table, series)
    if encoded.scales:
        reason += ", scaled"
    if encoded.matrix.shape[1] and _is_constant(encoded):
        reason += "; constant, so it tells no nodes apart"
    shown = "numeric" if kind == "vector" else kind
    return encoded, ColumnChoice(name, shown, len(encoded.names), reason)


def _is_constant(encoded: Encoded) -> bool:
    matrix = encoded.matrix
    if matrix.shape[0] < 2 or matrix.shape[1] > 1:
        return False
    column = matrix.toarray()  # one attribute: a single column
    return bool((column == column[0]).all())


def _holds_lists(series: pl.Series) -> bool:
    import polars as pl

    return isinstance(series.dtype, pl.List | pl.Array)


def _find_kind(table: Table, series: pl.Series) -> tuple[str, str]:
    import polars as pl

    dtype = series.dtype
    if series.null_count() == len(series):
        return "drop", "all values missing"
    if isinstance(dtype, pl.List | pl.Array):
        inner = dtype.inner
        if inner.is_float():
            return "numeric", "vectors of numbers"
        return "list", "lists"
    if dtype == pl.Boolean:
        return "numeric", "true and false as 1 and 0"
    if dtype.is_numeric():
        return "numeric", "numbers"
    if dtype in (pl.Categorical, pl.Enum):
        return "category", "categories"
    if dtype in (pl.Date, pl.Datetime):
        return "date", "dates as days"
    if dtype == pl.Object and _all_collections(series):
        return "list", "lists"
    if dtype in (pl.String, pl.Object):
        return _find_text_kind(table, series)
    return "drop", f"{dtype} is neither number nor text; convert it to keep it"


def _all_collections(series: pl.Series) -> bool:
    values = (value for value in series.to_list() if value is not None)
    return all(isinstance(value, list | tuple | set | frozenset) for value in values)


def _find_text_kind(table: Table, series: pl.Series) -> tuple[str, str]:
    parsed = to_numbers(series, decimal_comma=table.decimal_comma)
    if parsed.null_count() == 0 and parsed.is_finite().all():  # in most tables
        return "numeric", "numbers"
    missing = missing_numbers(series)
    filled = int((~missing).sum())
    if filled == 0:
        return "drop", "all values missing"
    if _is_boolean(series):
        return "numeric", "true and false as 1 and 0"
    numbers = int((parsed.is_not_null().to_numpy() & ~missing).sum())
    if numbers == filled:
        return "numeric", "numbers"
    if filled >= 10 and numbers >= 0.9 * filled:
        return "numeric", ""  # nearly all: _refuse_few_words names the odd cell
    dates = to_dates(series)
    if dates is not None and not (dates[0].is_null().to_numpy() & ~missing).any():
        return "date", "dates as days"
    return _find_word_kind(series, [cell for cell in as_text(series) if cell])


def _is_boolean(series: pl.Series) -> bool:
    """Tell whether every cell that is not empty says true or false."""
    import polars as pl

    if series.dtype != pl.String:
        return {(cell or "true").lower() for cell in as_text(series)} <= _BOOLEANS
    text = series.str.strip_chars().str.to_lowercase()
    return bool(text.is_in(["", *_BOOLEANS]).fill_null(True).all())


def _find_word_kind(series: pl.Series, cells: list[str]) -> tuple[str, str]:
    distinct = len(set(cells))
    several = sum(len(items) > 1 for items in split_cells(series))
    if 2 * several >= len(cells):
        return "list", "most cells hold several items"
    words = sum(len(cell.split()) for cell in cells) / len(cells)
    if words >= 3 and 2 * distinct > len(cells):
        return "text", f"{words:.0f} words per cell, few cells equal"
    if distinct <= _FEW or 2 * distinct <= len(cells):
        return "category", plural(distinct, "different value")
    return "drop", (
        f"{distinct:,} different values in {len(cells):,} rows look like names; "
        "encode it as 'category' or 'text' to keep it"
    )


def _refuse_few_words(table: Table, series: pl.Series) -> None:
    """Raise where a column of numbers has a few other cells, naming the first."""
    numbers = to_numbers(series, decimal_comma=table.decimal_comma)
    wrong = numbers.is_null().to_numpy() & ~missing_numbers(series)
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"{table.place(row)}: {series[row]!r} in column {series.name!r}, where "
            "nearly all cells are numbers.",
            hint="Fix the cell, or encode the column as 'category' or 'drop'.",
        )
