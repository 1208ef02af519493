"""Text files: their bytes, their cells, and whether the first row names columns.

Plain files (no quotes, no blank lines, every row complete) go through polars. All
others, and every file in which polars stumbles, go through Python's ``csv`` module,
which knows the line of each record. Both give the same cells. What is guessed
(encoding, delimiter, column names) is told.
"""

from __future__ import annotations

import csv
import difflib
import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gelato.errors import InputError
from gelato.text import plural

if TYPE_CHECKING:
    import polars as pl


def read_bytes(path: Path, most: int = -1) -> bytes:
    """Return the content of a file that exists, is a file and is not empty.

    Or only its first bytes, ``most`` of them.
    """
    try:
        if path.is_dir():
            raise InputError(
                f"{path} is a directory, not a file.", hint="Name a file inside it."
            )
        with path.open("rb") as file:
            data = file.read(most)
    except FileNotFoundError:
        raise InputError(f"There is no file {path}.", hint=_nearest(path)) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"{path} cannot be read: {reason}.", hint="Check the path and its rights."
        ) from error
    if not data:
        raise InputError(f"{path} is empty.", hint="Write or export the file again.")
    return data


def _nearest(path: Path) -> str:
    folder = path.parent
    try:
        names = sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return f"The folder {folder} does not exist either."
    near = difflib.get_close_matches(path.name, names, n=1, cutoff=0.5)
    if near:
        return f"Did you mean {folder / near[0]}?"
    return "Check the name and the folder."


def gunzip(data: bytes, path: Path) -> bytes:
    """Decompress gzip data, or say that it is damaged."""
    try:
        plain = gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(
            f"{path} is not a complete gzip file: {error}.",
            hint="Copy or download it again.",
        ) from error
    if not plain:
        raise InputError(f"{path} is empty.", hint="Write or export the file again.")
    return plain


def decode(data: bytes, path: Path) -> tuple[str, list[str]]:
    """Return text from UTF-8, UTF-16 or Windows-1252 (Latin-1), and notes.

    UTF-8 that is damaged in places raises with the line: read as another encoding,
    all its other letters would be wrong.
    """
    wide = _utf16(data)
    if wide is not None:
        return _decode_utf16(data, wide, path), [f"{path}: read as UTF-16"]
    head = data.removeprefix(b"\xef\xbb\xbf")
    zero = head.find(b"\0")
    if zero >= 0:
        raise InputError(
            f"{path}, line {_line_at(head, zero)}: a zero byte, so this is not text.",
            hint="Give a csv, tsv or txt file, or Parquet with the suffix .parquet.",
        )
    try:
        return head.decode("utf-8"), []
    except UnicodeDecodeError as error:
        line = _line_at(head, error.start)
        problem = f"{path}, line {line}: the byte 0x{head[error.start]:02x} is not"
    marked = head.decode("utf-8", errors="surrogateescape")
    letters = [letter for letter in marked if letter > "\x7f"]
    wrong = sum("\udc80" <= letter <= "\udcff" for letter in letters)
    if 2 * wrong < len(letters) or re.search(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]", head):
        raise InputError(
            f"{problem} UTF-8, although other parts of the file are text.",
            hint="Fix that line, or save the file as UTF-8 again.",
        )
    try:
        text, name = head.decode("cp1252"), "Windows-1252 (Latin-1)"
    except UnicodeDecodeError:
        text, name = head.decode("latin-1"), "Latin-1"
    return text, [f"{problem} UTF-8, so the file was read as {name}"]


def _utf16(data: bytes) -> str | None:
    """Return the name of the UTF-16 in which text is written, if it is."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    start = data[:2000]
    even, odd = start[::2].count(0), start[1::2].count(0)
    if len(start) >= 4 and max(even, odd) >= 0.3 * len(start) / 2 > 3 * min(even, odd):
        return "utf-16-le" if odd > even else "utf-16-be"
    return None


def _decode_utf16(data: bytes, name: str, path: Path) -> str:
    try:
        text = data.decode(name)
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} starts like UTF-16 text but is damaged: {error.reason}.",
            hint="Save the file as UTF-8.",
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(
            f"{path}, line {line}: a zero character, so this is not text.",
            hint="Save the file as UTF-8 text.",
        )
    return text


def _line_at(data: bytes, position: int) -> int:
    return data.count(b"\n", 0, position) + 1


_SIGNS = r"[=+\-@\t\r]"


def guarded(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame whose text cells no spreadsheet takes for formulas."""
    return _replaced(frame, rf"^('*{_SIGNS})", "'${1}")


def unguarded(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame with the apostrophes of :func:`guarded` taken away."""
    return _replaced(frame, rf"^'('*{_SIGNS})", "${1}")


def _replaced(frame: pl.DataFrame, pattern: str, value: str) -> pl.DataFrame:
    import polars as pl

    return frame.with_columns(pl.col(pl.String).str.replace(pattern, value))


# Preferred delimiter by suffix; the rest are tried in this order. A space only counts
# in files whose suffix does not promise another delimiter.
_BY_SUFFIX = {".csv": ",", ".tsv": "\t"}
_DELIMITERS = "\t,;|"
_EXCEL = re.compile(r"sep=(.)[ \t]*\n", re.IGNORECASE)
_COMMENT = re.compile(r"[#%]+([ \t]|$)")
# A comma that is neither a decimal one ("1,5") nor followed by a blank ("Doe, Ann").
_OUTER_COMMA = re.compile(r"(?<!\d),(?! )|,(?![ \d])")
_SAMPLE = 50
# Rows held as Python lists at a time: more of them only slow the collector down.
_BLOCK = 20_000


@dataclass(frozen=True)
class Delimited:
    """All rows of a delimited file as text, the header (if any) still among them."""

    frame: pl.DataFrame
    lines: Sequence[int]
    delimiter: str
    notes: tuple[str, ...]


def parse_delimited(
    text: str, name: str, suffix: str, delimiter: str | None = None
) -> Delimited:
    """Split text into rows and cells; an empty cell is null.

    Parameters
    ----------
    text : str
        The whole file.
    name : str
        What to call the file in messages.
    suffix : str
        ``.csv``, ``.tsv`` or other; it says which delimiter to expect.
    delimiter : str, optional
        One character; a space means any run of blanks. ``None`` detects it.
    """
    text = text.replace("\r\n", "\n")
    text, skipped = _without_comments(text)
    comments = plural(skipped, "comment line")
    notes = [f"{name}: skipped {comments} at the top"] if skipped else []
    named = _EXCEL.match(text)  # Excel's own way to name the delimiter
    if named is not None:
        text, skipped = text[named.end() :], skipped + 1
        delimiter = delimiter or named[1]
    if not text.strip():
        raise InputError(f"{name} has no rows.", hint="Write or export the file again.")
    if delimiter is None:
        delimiter = detect_delimiter(text, suffix)
        if delimiter != _BY_SUFFIX.get(suffix, delimiter):
            notes.append(f"{name}: cells are separated by {delimiter!r}")
    if delimiter == " " and '"' not in text:
        text, delimiter = _collapse_blanks(text), "\t"
    frame = _parse_plain(text, delimiter)
    lines: Sequence[int]
    if frame is None:
        frame, lines = _parse_carefully(text, delimiter, name, skipped)
    else:
        lines = range(skipped + 1, skipped + 1 + frame.height)
    if "'" in text:
        frame = unguarded(frame)
    return Delimited(frame, lines, delimiter, tuple(notes))


def detect_delimiter(text: str, suffix: str) -> str:
    """Return the delimiter that splits the first lines into equal numbers of cells."""
    expected = _BY_SUFFIX.get(suffix)
    candidates = expected + _DELIMITERS if expected else _DELIMITERS + " "
    head = text.split("\n", _SAMPLE + 1)[: _SAMPLE + 1]
    # The last line may be one half of a quoted cell: leave it out where possible.
    sample = "\n".join(head[:-1] if len(head) > 1 else head)
    even = [d for d in candidates if len(w := _widths(sample, d)) == 1 and max(w) > 1]
    if even[:1] == [","] and ";" in even and not _OUTER_COMMA.search(sample):
        return ";"
    if even:
        return even[0]
    first = next((line for line in head if line.strip()), "")
    # Uneven rows are told later, by line; here the first row decides.
    return next((d for d in candidates if d in first.strip()), expected or ",")


def _widths(sample: str, delimiter: str) -> set[int]:
    if delimiter == " ":
        return {len(line.split()) for line in sample.split("\n") if line.strip()}
    rows = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter)
    try:
        return {len(row) for row in rows if row}
    except csv.Error:
        return set()


def _without_comments(text: str) -> tuple[str, int]:
    """Drop the lines at the top that start with '# ' or '% ', as SNAP and KONECT do."""
    skipped = start = 0
    while start < len(text):
        end = text.find("\n", start)
        if not _COMMENT.match(text[start : end if end >= 0 else len(text)]):
            break
        skipped += 1
        start = len(text) if end < 0 else end + 1
    return text[start:], skipped


def _collapse_blanks(text: str) -> str:
    return re.sub(r"[ \t]*\n[ \t]*", "\n", re.sub(r"[ \t]+", "\t", text.strip(" \t")))


def _parse_plain(text: str, delimiter: str) -> pl.DataFrame | None:
    """Parse with polars, or return None where its answer might not be exact."""
    body = text.removesuffix("\n")
    if '"' in body or "\r" in body or "\n\n" in body or body[:1] == "\n":
        return None
    import polars as pl

    try:
        frame = pl.read_csv(
            body.encode("utf-8"),
            has_header=False,
            separator=delimiter,
            quote_char=None,
            infer_schema=False,
        )
    except (pl.exceptions.PolarsError, ValueError, TypeError):
        return None
    # Too many cells raise, too few become null: the delimiters tell whether any miss.
    rows = body.count("\n") + 1
    complete = body.count(delimiter) == rows * (frame.width - 1)
    if not complete or frame.height != rows:
        return None
    # In a single column a line of blanks looks like a cell.
    if frame.width == 1 and frame.to_series().str.strip_chars().eq("").any():
        return None
    # Counted from 1 by some versions of polars and from 0 by others.
    frame.columns = [f"column_{k + 1}" for k in range(frame.width)]
    return frame


def _parse_carefully(
    text: str, delimiter: str, name: str, skipped: int
) -> tuple[pl.DataFrame, list[int]]:
    """Parse with Python's csv module, which tells the line of every record."""
    import polars as pl

    lines: list[int] = []
    blocks: list[pl.DataFrame] = []
    block: list[list[str]] = []
    width = 0
    for line, row in _records(text, delimiter, name, skipped):
        width = width or len(row)
        if len(row) != width:
            raise InputError(
                f"{name}, line {line}: {plural(len(row), 'cell')}, but line {lines[0]} "
                f"has {width}.",
                hint="Give every row the same number of cells, or check the delimiter.",
            )
        lines.append(line)
        block.append(row)
        if len(block) == _BLOCK:
            blocks.append(_frame_of(block))
            block = []
    if block:
        blocks.append(_frame_of(block))
    if not blocks:
        raise InputError(f"{name} has no rows.", hint="Write or export the file again.")
    return pl.concat(blocks), lines


def _frame_of(rows: list[list[str]]) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame(
        [
            pl.Series(f"column_{k}", [cell or None for cell in column], dtype=pl.String)
            for k, column in enumerate(zip(*rows, strict=True), start=1)
        ]
    )


def _records(
    text: str, delimiter: str, name: str, skipped: int
) -> Iterator[tuple[int, list[str]]]:
    try:
        reader = csv.reader(
            io.StringIO(text, newline=""), delimiter=delimiter, strict=True
        )
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{delimiter!r} cannot be a delimiter: {error}.",
            hint="Give one character, for example ';'.",
        ) from None
    start = skipped + 1
    try:
        for row in reader:
            # A line of blanks holds no cell; a row of empty cells has delimiters.
            if row and (len(row) > 1 or row[0].strip()):
                yield start, row
            start = skipped + reader.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"{name}, line {start}: {error}.",
            hint="Look for a quotation mark that is not closed or not doubled.",
        ) from None


# Words that columns are called by, in the languages that files came in so far. They
# only decide where no cell of the first row occurs again below it.
_USUAL = """
source target src dst tgt from to start end head tail origin destination left right in
out weight time timestamp date year score value count distance rating amount node vertex
edge link type label user item customer client product article movie film book song
artist author paper publication friend person people individual colleague coworker
member employee manager boss supervisor follower followee following followed sender
receiver recipient caller callee buyer seller supplier vendor company firm organization
organisation citing cited reference protein gene drug disease compound chemical parent
child father mother student teacher patient doctor country city town airport station
stop player team actor character group event page website domain url host ego alter
partner subject object relation predicate interactor species term word name entity
account email mail phone device store shop tag topic category skill course school
university
kunde kundin produkt artikel bestellung von nach quelle ziel mitarbeiter mitarbeiterin
vorgesetzter vorgesetzte chef freund freundin absender empfänger knoten kante gewicht
datum autor autorin buch lieferant firma stadt land
expéditeur destinataire cliente produit ami amie auteur
origen destino producto amigo usuario artículo origine destinazione utente prodotto
"""
_WORDS = frozenset(_USUAL.split())
_AFFIXES = frozenset({"id", "ids", "no", "nr", "number", "key", "code", "index", "doi"})
_ID_NAMES = frozenset({"id", "ids", "nodeid", "key", "vertex", "node", "name"})
_LETTERS = frozenset(["uv", "ij", "ab", "xy", "st", "pq", "kl", "nm", "mn"])
_TOKENS = re.compile(r"[^\W\d_]+")
_CAMEL = re.compile(r"(?<=[a-zß-ÿ])(?=[A-Z])")
_HEAD = 1000
# Properties that all ids of a column may share, and a name above them lack.
_MARKS = (r"\d", "@", "[./:-]", r"\s", r"^\p{Lu}", r"^\P{Ll}+$")


def is_column_name(cell: str) -> bool:
    """Tell whether a cell reads like the name of a column: "source", "Person A"."""
    words = [word.casefold() for word in _TOKENS.findall(_CAMEL.sub(" ", cell))]
    plain = [word for word in words if len(word) > 1]
    if not plain or len(plain) > 4:
        return False
    named = [word for word in plain if word in _WORDS or word.rstrip("s") in _WORDS]
    affixes = [word for word in plain if word in _AFFIXES]
    return bool(named or affixes) and 2 * len([*named, *affixes]) >= len(plain)


def edge_names(
    frame: pl.DataFrame,
    ends: tuple[int, int],
    known: Collection[str],
    columns: Collection[str],
) -> tuple[bool, str]:
    """Tell whether the first row of an edge table names its columns, and why.

    Parameters
    ----------
    frame : DataFrame
        All rows as text.
    ends : (int, int)
        The columns of the two ends.
    known, columns : collections of str
        The first column and the first row of the attribute table, if there is one.
    """
    cells = ["" if cell is None else cell.strip() for cell in frame.row(0)]
    names = [cells[k] for k in ends if k < len(cells)]
    if sum(is_column_name(cell) for cell in cells) >= 2 and not _alike(frame, names):
        return True, "they are usual names of columns"
    if frame.height < 2 or len(names) < 2 or not all(names):
        return False, "it is like the others"
    start = [text for k in ends for text in _texts(frame[:_HEAD], k)]
    if names == ["0", "1"] and not any(_is_value(text) for text in start):
        return True, "numbers above names"
    if _names_above_values(frame, cells):
        return True, "words above numbers"
    if any(_is_value(cell) for cell in cells):
        return False, "it holds a number"
    again = next((name for name in names if _occurs(name, frame, ends)), None)
    if again is not None:
        return False, f"{again!r} occurs again below"
    below = [_texts(frame, k) for k in ends]
    seen = Counter(text for column in below for text in column)
    found = _by_attributes(names, seen, known, columns)
    return found or _by_words(frame, names, below, seen)


def _by_attributes(
    names: list[str],
    seen: Counter[str],
    known: Collection[str],
    columns: Collection[str],
) -> tuple[bool, str] | None:
    if any(name in known and name not in columns for name in names):
        return False, "it names a row of the attribute table"
    if any(name in columns for name in names):
        return True, "the attribute table has such a column"
    if known and 10 * sum(text in known for text in seen) >= 8 * len(seen):
        return True, "the attribute table has no such rows"
    return None


def _by_words(
    frame: pl.DataFrame, names: list[str], below: list[list[str]], seen: Counter[str]
) -> tuple[bool, str]:
    if _alike(frame, names):
        return False, "it is written like the others"
    if any(is_column_name(name) for name in names):
        return True, "they are usual names of columns"
    if "".join(names).casefold() in _LETTERS and any(len(text) > 1 for text in seen):
        return True, "letters above longer names"
    if any(map(_lacks_mark, names, below)):
        return True, "they are written unlike the rows below"
    parts = {part for text in seen for part in _TOKENS.findall(text)}
    if any(len(p) > 2 and p in parts for name in names for p in _TOKENS.findall(name)):
        return False, "parts of it occur again below"
    alone = sum(seen[u] == 1 == seen[v] for u, v in zip(*below, strict=False))
    # In doubt words are names: all that could be lost is an edge that touches no other.
    words = all(name.isalpha() for name in names)
    if (words and not alone) or 10 * (alone + 1) <= len(below[0]) + 2:
        return True, "they do not occur below, as nearly all others do"
    return False, "it is like the others"


def _occurs(name: str, frame: pl.DataFrame, ends: tuple[int, int]) -> bool:
    columns = (frame.to_series(k)[1:].str.strip_chars() for k in ends)
    return any((column == name).any() for column in columns)


def _texts(frame: pl.DataFrame, column: int) -> list[str]:
    return frame.to_series(column)[1:].fill_null("").str.strip_chars().to_list()


def _alike(frame: pl.DataFrame, names: list[str]) -> bool:
    """Tell whether most ids below begin like those in the first row, up to digits.

    That is what makes an edge of ``node1,node2`` above ``node7,node1``.
    """
    stems = {re.sub(r"(\d+|[\W_][^\W_])$", "", name) for name in names}
    if any(len(stem) < 1 or stem == name for stem in stems for name in names):
        return False
    below = [text for k in (0, 1) for text in _texts(frame[:_HEAD], k) if text]
    lengths = {len(text) for text in below}
    if not below or not all(min(lengths) <= len(n) <= max(lengths) for n in names):
        return False
    return 2 * sum(text.startswith(tuple(stems)) for text in below) > len(below)


def _lacks_mark(name: str, below: list[str]) -> bool:
    import polars as pl

    texts = pl.Series([text for text in below[:_HEAD] if text], dtype=pl.String)
    own = pl.Series([name])
    marks = _MARKS if len(texts) > 3 else _MARKS[:1]
    return len(texts) > 0 and any(
        texts.str.contains(mark).all() and not own.str.contains(mark).item()
        for mark in marks
    )


def row_names(
    frame: pl.DataFrame, known: Collection[str], ids: int = 1
) -> tuple[bool, str]:
    """Tell whether the first row of a table about known nodes names its columns.

    ``ids`` is how many columns, from the first, hold ids: 1 in a table of attributes
    or a list of nodes, 2 in a table of pairs. A first row that may name a node which
    does not exist stays a row, so that the node is reported and not lost.
    """
    cells = ["" if cell is None else cell.strip() for cell in frame.row(0)]
    if any(cell in known for cell in cells[:ids]):
        return False, "it names a node"
    words = [is_column_name(c) or c.casefold() in _ID_NAMES for c in cells[:ids]]
    if all(words):
        if len(words) == 1:
            return True, f"{cells[0]!r} is a usual name of a column"
        return True, "they are usual names of columns"
    if not cells[0] and len(cells) > 1:
        return True, "a cell above ids is left empty"
    below = {text for k in range(min(ids, frame.width)) for text in _texts(frame, k)}
    found = sum(text in known for text in below)
    if below and (found == len(below) or 10 * found >= 9 * len(below) >= 90):
        return True, "no node is called so, and those below are nodes"
    if _names_above_values(frame, cells):
        return True, "words above numbers"
    return False, "it is like the others"


def _names_above_values(frame: pl.DataFrame, cells: list[str]) -> bool:
    """Tell whether no first cell is a value, though a whole column below holds some."""
    if frame.height < 2 or any(_is_value(cell) for cell in cells):
        return False
    for cell, column in zip(cells, frame[1:_HEAD].iter_columns(), strict=True):
        filled = column.drop_nulls().str.strip_chars().to_list()
        if cell and filled and all(_is_value(text) for text in filled):
            return True
    return False


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


_VALUE = re.compile(
    r"[-+]?\d[\d.,' \u2019\u00a0\u202f]*(e[-+]?\d+)?"
    r"|\d{1,4}[-./]\d{1,2}[-./]\d{1,4}([T ][\d:.]+Z?)?",
    re.IGNORECASE,
)


def _is_value(cell: str) -> bool:
    """Tell whether a cell is written like a number or a date."""
    return _is_number(cell) or _VALUE.fullmatch(cell) is not None
