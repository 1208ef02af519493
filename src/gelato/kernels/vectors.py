"""Loops written as vector instructions: all the hand-written LLVM of the package.

Running sums stay in vector registers here, where the optimiser of plain loops writes
them back to memory after every row. A loop stays written by hand while
``benchmarks/tiles.py`` shows it at least 1.5 times as fast as the same loop in plain
numba. All arrays are contiguous.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from gelato.kernels.compiled import compile_all

# Only compiled kernels can call what stands here, and numba is loaded anyway.
compile_all()

# A tile of 6 x 16 numbers fills the vector registers of common processors.
ROWS, COLUMNS = 6, 16
# Eight 256-bit registers of float32. Narrower tiles read the index lists more often,
# wider ones spill: 64 was the fastest of 16, 32, 64 and 128.
TILE = 64
# Columns of a row whose statistics are gathered at once.
LANES = 8

_INDEX = ir.IntType(64)
# Allows one fused instruction where the processor has it.
_FUSED = {"flags": ("contract",)}


def _whole(value: int) -> Any:
    return ir.Constant(_INDEX, value)


class _Writer:
    """Writes instructions on ``lanes`` numbers at a time."""

    def __init__(
        self, context: Any, builder: Any, signature: Any, args: Any, lanes: int
    ) -> None:
        self.context, self.builder, self.lanes = context, builder, lanes
        self.types = signature.args
        self.arrays: list[Any] = [
            make_array(kind)(context, builder, arg)
            if isinstance(kind, types.Array)
            else None
            for kind, arg in zip(signature.args, args, strict=True)
        ]

    def number(self, argument: int, place: Any) -> Any:
        """Load one number of an array."""
        return self.builder.load(self.builder.gep(self.arrays[argument].data, [place]))

    def index(self, argument: int, place: Any) -> Any:
        """Load one number of an array of indices."""
        signed = self.types[argument].dtype.signed
        extend = self.builder.sext if signed else self.builder.zext
        return extend(self.number(argument, place), _INDEX)

    def load(self, argument: int, offset: Any) -> Any:
        """Load the numbers of an array from ``offset`` on."""
        place, align = self._place(argument, offset)
        return self.builder.load(place, align=align)

    def store(self, argument: int, offset: Any, vector: Any) -> None:
        """Store a vector at an array's ``offset``."""
        place, align = self._place(argument, offset)
        self.builder.store(vector, place, align=align)

    def _place(self, argument: int, offset: Any) -> tuple[Any, int]:
        kind = self.types[argument].dtype
        vector = ir.VectorType(self.context.get_data_type(kind), self.lanes)
        address = self.builder.gep(self.arrays[argument].data, [offset])
        place = self.builder.bitcast(address, vector.as_pointer())
        return place, int(kind.bitwidth // 8)

    def width(self, argument: int) -> Any:
        """Return the columns of a matrix."""
        return self.builder.extract_value(self.arrays[argument].shape, 1)

    def spread(self, number: Any) -> Any:
        """Return a number in every lane."""
        blank = ir.Constant(ir.VectorType(number.type, self.lanes), ir.Undefined)
        zero, lane = ir.Constant(ir.IntType(32), 0), ir.IntType(32)
        first = self.builder.insert_element(blank, number, zero)
        pattern = ir.Constant(ir.VectorType(lane, self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(first, blank, pattern)

    def double(self, vector: Any) -> Any:
        """Return numbers in double precision."""
        wide = ir.VectorType(ir.DoubleType(), self.lanes)
        return vector if vector.type == wide else self.builder.fpext(vector, wide)

    def loop(
        self,
        start: Any,
        stop: Any,
        carried: list[Any],
        body: Callable[[Any, list[Any]], list[Any]],
    ) -> list[Any]:
        """Run ``carried = body(k, carried)`` for ``start <= k < stop``."""
        builder = self.builder
        entry = builder.block
        loop, done = (builder.append_basic_block(name) for name in ("loop", "end"))
        builder.cbranch(builder.icmp_signed("<", start, stop), loop, done)

        builder.position_at_end(loop)
        k = builder.phi(_INDEX)
        values = [builder.phi(value.type) for value in carried]
        grown = body(k, values)
        following = builder.add(k, _whole(1))
        k.add_incoming(start, entry)
        k.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed("<", following, stop), loop, done)

        builder.position_at_end(done)
        results = [builder.phi(value.type) for value in carried]
        for phis in (values, results):
            for phi, first, again in zip(phis, carried, grown, strict=True):
                phi.add_incoming(first, entry)
                phi.add_incoming(again, loop)
        return results


def _make_tile(rows: int) -> Any:
    """Return a compiled function for tiles of a fixed number of rows.

    It adds ``sum_k left[i * row_step + k * inner_step] * right[k]`` to row i of
    ``out`` (rows, COLUMNS), for ``k < count``; ``right`` is (count, COLUMNS).
    """

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        write = _Writer(context, builder, signature, args, COLUMNS)
        row_step, inner_step, count = args[2], args[3], args[5]
        offsets = [builder.mul(row_step, _whole(i)) for i in range(rows)]

        def body(k: Any, totals: list[Any]) -> list[Any]:
            row = write.load(4, builder.mul(k, _whole(COLUMNS)))
            start = builder.mul(k, inner_step)
            grown = []
            for total, offset in zip(totals, offsets, strict=True):
                factor = write.number(1, builder.add(start, offset))
                product = builder.fmul(write.spread(factor), row, **_FUSED)
                grown.append(builder.fadd(total, product, **_FUSED))
            return grown

        places = [_whole(i * COLUMNS) for i in range(rows)]
        before = [write.load(0, place) for place in places]
        totals = write.loop(_whole(0), count, before, body)
        for place, total in zip(places, totals, strict=True):
            write.store(0, place, total)
        return context.get_dummy_value()

    @intrinsic
    def tile(
        typing_context: Any,
        out: Any,
        left: Any,
        row_step: Any,
        inner_step: Any,
        right: Any,
        count: Any,
    ) -> Any:
        number = types.int64
        return types.void(out, left, number, number, right, number), emit

    return tile


six_rows, one_row = _make_tile(ROWS), _make_tile(1)

# Products of bfloat16: two numbers make a word of 32 bits, and one instruction adds
# both products to a sum in float32. Its tile takes 16 of 32 registers for sums.
HAS_BFLOAT = bool(binding.get_host_cpu_features().get("avx512bf16"))
"""Whether this processor has that instruction; without, the tile cannot be compiled."""
if HAS_BFLOAT:
    binding.initialize_native_asmparser()  # the instruction is given as text
BFLOAT_ROWS, BFLOAT_COLUMNS = 8, 32
_WORDS = 16  # to a register


def _make_bfloat_tile(rows: int) -> Any:
    """Return what :func:`_make_tile` returns, for words of two bfloat16 as uint32.

    ``out`` is float32 (rows, BFLOAT_COLUMNS); row k of the right factor begins at
    ``right[k * right_step]``.
    """
    parts = range(0, BFLOAT_COLUMNS, _WORDS)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        write = _Writer(context, builder, signature, args, _WORDS)
        row_step, inner_step, right_step, count = args[2], args[3], args[5], args[6]
        offsets = [builder.mul(row_step, _whole(i)) for i in range(rows)]
        sums, words = (
            ir.VectorType(kind, _WORDS) for kind in (ir.FloatType(), ir.IntType(32))
        )
        # By name, as the types that LLVM's own function takes differ by version.
        function = ir.FunctionType(sums, [sums, words, words])
        add = ir.InlineAsm(function, "vdpbf16ps $3, $2, $0", "=v,0,v,v")

        def body(k: Any, totals: list[Any]) -> list[Any]:
            first = builder.mul(k, right_step)
            right = [write.load(4, builder.add(first, _whole(j))) for j in parts]
            start = builder.mul(k, inner_step)
            grown: list[Any] = []
            for offset in offsets:
                left = write.spread(write.number(1, builder.add(start, offset)))
                own = totals[len(grown) : len(grown) + len(parts)]
                grown += [
                    builder.call(add, [total, left, row])
                    for total, row in zip(own, right, strict=True)
                ]
            return grown

        places = [_whole(i * BFLOAT_COLUMNS + j) for i in range(rows) for j in parts]
        before = [write.load(0, place) for place in places]
        totals = write.loop(_whole(0), count, before, body)
        for place, total in zip(places, totals, strict=True):
            write.store(0, place, total)
        return context.get_dummy_value()

    @intrinsic
    def tile(
        typing_context: Any,
        out: Any,
        left: Any,
        row_step: Any,
        inner_step: Any,
        right: Any,
        right_step: Any,
        count: Any,
    ) -> Any:
        number = types.int64
        return types.void(out, left, number, number, right, number, number), emit

    return tile


bfloat_rows, bfloat_row = _make_bfloat_tile(BFLOAT_ROWS), _make_bfloat_tile(1)


@intrinsic
def add_rows(
    typing_context: Any,
    out: Any,
    table: Any,
    indices: Any,
    values: Any,
    start: Any,
    stop: Any,
) -> Any:
    """Add ``values[i] * table[indices[i]]`` for ``start <= i < stop`` to ``out``.

    ``out`` is ``(TILE,)``, ``table`` ``(rows, TILE)``; ``values`` may be None for ones.
    """

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        write = _Writer(context, builder, signature, args, TILE)

        def body(k: Any, totals: list[Any]) -> list[Any]:
            row = write.load(1, builder.mul(write.index(2, k), _whole(TILE)))
            if write.arrays[3] is not None:
                row = builder.fmul(row, write.spread(write.number(3, k)))
            return [builder.fadd(totals[0], row)]

        before = write.load(0, _whole(0))
        (total,) = write.loop(args[4], args[5], [before], body)
        write.store(0, _whole(0), total)
        return context.get_dummy_value()

    return types.void(out, table, indices, values, start, stop), emit


@intrinsic
def gather(
    typing_context: Any,
    states: Any,
    indices: Any,
    start: Any,
    stop: Any,
    relation: Any,
    lane: Any,
    sums: Any,
    squares: Any,
    high: Any,
    low: Any,
) -> Any:
    """Add messages ``relation * states[indices[i]]``, ``start <= i < stop``, to sums.

    Handles columns ``lane .. lane + 7``. ``sums``, ``squares`` (double precision),
    ``high`` and ``low`` hold the statistics so far.
    """

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        write = _Writer(context, builder, signature, args, LANES)
        lane, width = args[5], write.width(0)
        relation = write.load(4, lane)

        def body(k: Any, values: list[Any]) -> list[Any]:
            row = builder.mul(write.index(1, k), width)
            message = builder.fmul(relation, write.load(0, builder.add(row, lane)))
            wide = write.double(message)
            square = builder.fmul(wide, wide, **_FUSED)
            larger = builder.fcmp_ordered(">", message, values[2])
            smaller = builder.fcmp_ordered("<", message, values[3])
            return [
                builder.fadd(values[0], wide),
                builder.fadd(values[1], square, **_FUSED),
                builder.select(larger, message, values[2]),
                builder.select(smaller, message, values[3]),
            ]

        before = [write.load(argument, lane) for argument in range(6, 10)]
        found = write.loop(args[2], args[3], before, body)
        for argument, value in enumerate(found, start=6):
            write.store(argument, lane, value)
        return context.get_dummy_value()

    number = types.int64
    statistics = (sums, squares, high, low)
    signature = types.void(
        states, indices, number, number, relation, number, *statistics
    )
    return signature, emit


@intrinsic
def scatter(
    typing_context: Any,
    states: Any,
    gradients: Any,
    indices: Any,
    start: Any,
    stop: Any,
    relation: Any,
    lane: Any,
    plain: Any,
    slope: Any,
    high: Any,
    by_high: Any,
    low: Any,
    by_low: Any,
    by_relation: Any,
) -> Any:
    """Add gradients to those of the rows that :func:`gather` takes messages from.

    The gradient of a message is ``plain + slope * message``, plus ``by_high`` where
    the message equals ``high`` and ``by_low`` where it equals ``low``. Adds that of
    the relation to ``by_relation``.
    """

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        write = _Writer(context, builder, signature, args, LANES)
        lane, width = args[6], write.width(0)
        relation = write.load(5, lane)
        base, slope, high, by_high, low, by_low = (
            write.load(argument, lane) for argument in range(7, 13)
        )
        nothing = ir.Constant(relation.type, None)

        def body(k: Any, values: list[Any]) -> list[Any]:
            row = builder.add(builder.mul(write.index(2, k), width), lane)
            state = write.load(0, row)
            message = builder.fmul(relation, state)
            gradient = builder.fadd(
                base, builder.fmul(slope, message, **_FUSED), **_FUSED
            )
            for extreme, share in ((high, by_high), (low, by_low)):
                equal = builder.fcmp_ordered("==", message, extreme)
                gradient = builder.fadd(gradient, builder.select(equal, share, nothing))
            back = builder.fmul(relation, gradient, **_FUSED)
            write.store(1, row, builder.fadd(write.load(1, row), back, **_FUSED))
            own = builder.fmul(state, gradient, **_FUSED)
            return [builder.fadd(values[0], own, **_FUSED)]

        (total,) = write.loop(args[3], args[4], [write.load(13, lane)], body)
        write.store(13, lane, total)
        return context.get_dummy_value()

    number = types.int64
    vectors = (plain, slope, high, by_high, low, by_low, by_relation)
    signature = types.void(
        states, gradients, indices, number, number, relation, number, *vectors
    )
    return signature, emit
