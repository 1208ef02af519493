"""Statistics of gathered rows and their gradients, eight numbers at a time.

A node's messages are rows anywhere in a table. Their sum, sum of squares, largest and
smallest value stay in vector registers while the rows are visited; plain loops would
write them back after every row. Sums are in double precision, so that they do not
depend on the order of the rows: equal neighbourhoods then give equal states.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

LANES = 8
_INDEX = ir.IntType(64)


class _Writer:
    """Writes vector instructions; all arrays are contiguous, rows of ``width``."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any) -> None:
        self.builder = builder
        self.values = [
            make_array(kind)(context, builder, arg).data
            if isinstance(kind, types.Array)
            else arg
            for kind, arg in zip(signature.args, args, strict=True)
        ]
        self.types = signature.args
        self.context = context

    def place(self, argument: int, offset: Any) -> Any:
        """Return the address of eight numbers of an array."""
        kind = self.context.get_data_type(self.types[argument].dtype)
        vector = ir.VectorType(kind, LANES)
        address = self.builder.gep(self.values[argument], [offset])
        return self.builder.bitcast(address, vector.as_pointer())

    def load(self, argument: int, offset: Any) -> Any:
        """Load eight numbers."""
        return self.builder.load(
            self.place(argument, offset), align=self._bytes(argument)
        )

    def store(self, argument: int, offset: Any, value: Any) -> None:
        """Store eight numbers."""
        place = self.place(argument, offset)
        self.builder.store(value, place, align=self._bytes(argument))

    def _bytes(self, argument: int) -> int:
        return int(self.types[argument].dtype.bitwidth // 8)

    def double(self, vector: Any) -> Any:
        """Return numbers in double precision."""
        wide = ir.VectorType(ir.DoubleType(), LANES)
        return vector if vector.type == wide else self.builder.fpext(vector, wide)

    def row(self, k: Any, indices: int, start: Any, width: Any, lane: Any) -> Any:
        """Return the offset of the row that entry ``start + k`` names."""
        builder = self.builder
        place = builder.gep(self.values[indices], [builder.add(start, k)])
        index = builder.sext(builder.load(place), _INDEX)
        return builder.add(builder.mul(index, width), lane)

    def loop(
        self, count: Any, carried: list[Any], body: Callable[[Any, list[Any]], Any]
    ) -> list[Any]:
        """Run ``body(k, carried) -> carried`` for k below ``count``, at least once."""
        builder = self.builder
        entry = builder.block
        loop, done = (builder.append_basic_block(name) for name in ("rows", "end"))
        builder.branch(loop)
        builder.position_at_end(loop)
        k = builder.phi(_INDEX)
        values = [builder.phi(value.type) for value in carried]
        following = body(k, values)
        last = builder.block
        k_next = builder.add(k, ir.Constant(_INDEX, 1))
        k.add_incoming(ir.Constant(_INDEX, 0), entry)
        k.add_incoming(k_next, last)
        for phi, first, again in zip(values, carried, following, strict=True):
            phi.add_incoming(first, entry)
            phi.add_incoming(again, last)
        builder.cbranch(builder.icmp_signed("<", k_next, count), loop, done)
        builder.position_at_end(done)
        return list(following)


@intrinsic
def gather(
    typing_context: Any,
    states: Any,
    indices: Any,
    start: Any,
    count: Any,
    relation: Any,
    lane: Any,
    sums: Any,
    squares: Any,
    high: Any,
    low: Any,
) -> Any:
    """Add the messages ``relation * states[indices[start + k]]`` to statistics.

    Handles columns ``lane .. lane + 7``; ``count`` is at least 1. ``sums``,
    ``squares`` (double precision), ``high`` and ``low`` hold the statistics so far.
    """
    number = types.int64
    signature = types.void(
        states, indices, number, number, relation, number, sums, squares, high, low
    )

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        write = _Writer(context, builder, signature, args)
        start, count, lane = args[2], args[3], args[5]
        width = builder.extract_value(
            make_array(signature.args[0])(context, builder, args[0]).shape, 1
        )
        relation = write.load(4, lane)
        contract = {"flags": ("contract",)}

        def body(k: Any, values: list[Any]) -> list[Any]:
            state = write.load(0, write.row(k, 1, start, width, lane))
            message = builder.fmul(relation, state)
            wide = write.double(message)
            square = builder.fmul(wide, wide, **contract)
            larger = builder.fcmp_ordered(">", message, values[2])
            smaller = builder.fcmp_ordered("<", message, values[3])
            return [
                builder.fadd(values[0], wide),
                builder.fadd(values[1], square, **contract),
                builder.select(larger, message, values[2]),
                builder.select(smaller, message, values[3]),
            ]

        before = [write.load(argument, lane) for argument in (6, 7, 8, 9)]
        for argument, value in enumerate(write.loop(count, before, body), start=6):
            write.store(argument, lane, value)
        return context.get_dummy_value()

    return signature, emit


@intrinsic
def scatter(
    typing_context: Any,
    states: Any,
    gradients: Any,
    indices: Any,
    start: Any,
    count: Any,
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
    """Add a node's gradients to those of the rows its messages came from.

    The gradient of a message is ``plain + slope * message``, plus ``by_high`` where
    the message equals ``high`` and ``by_low`` where it equals ``low``. Adds that of
    the relation to ``by_relation``.
    """
    number = types.int64
    vectors = (plain, slope, high, by_high, low, by_low, by_relation)
    signature = types.void(
        states, gradients, indices, number, number, relation, number, *vectors
    )

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        write = _Writer(context, builder, signature, args)
        start, count, lane = args[3], args[4], args[6]
        width = builder.extract_value(
            make_array(signature.args[0])(context, builder, args[0]).shape, 1
        )
        relation = write.load(5, lane)
        base, slope, high, by_high, low, by_low = (
            write.load(argument, lane) for argument in range(7, 13)
        )
        nothing = ir.Constant(relation.type, None)
        contract = {"flags": ("contract",)}

        def body(k: Any, values: list[Any]) -> list[Any]:
            row = write.row(k, 2, start, width, lane)
            state = write.load(0, row)
            message = builder.fmul(relation, state)
            gradient = builder.fadd(
                base, builder.fmul(slope, message, **contract), **contract
            )
            for extreme, share in ((high, by_high), (low, by_low)):
                equal = builder.fcmp_ordered("==", message, extreme)
                more = builder.select(equal, share, nothing)
                gradient = builder.fadd(gradient, more)
            back = builder.fmul(relation, gradient, **contract)
            write.store(1, row, builder.fadd(write.load(1, row), back, **contract))
            own = builder.fmul(state, gradient, **contract)
            return [builder.fadd(values[0], own, **contract)]

        (total,) = write.loop(count, [write.load(13, lane)], body)
        write.store(13, lane, total)
        return context.get_dummy_value()

    return signature, emit
