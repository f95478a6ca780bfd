"""Asks the memory for rows before a kernel needs them.

Rows of a million users lie in no cache, and a loop that goes from one to the next waits for each. Told a few rows
ahead, the processor fetches them meanwhile; the numbers are the same.
"""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic

ROWS_AHEAD = 4
FLOATS_IN_A_LINE = 16  # of a cache: 64 bytes
_TO_READ_OR_WRITE, _KEEP, _DATA = 0, 3, 1  # what LLVM's prefetch is told beside the address


@intrinsic
def _fetch(context: Any, table: Any, row: Any, column: Any) -> Any:
    """Start to load the line of a matrix that holds this element; a place outside it does no harm."""
    signature = types.void(table, types.int64, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        matrix = context.make_array(signature.args[0])(context, builder, arguments[0])
        strides = cgutils.unpack_tuple(builder, matrix.strides)  # type: ignore[no-untyped-call]
        address = builder.ptrtoint(matrix.data, ir.IntType(64))
        for index, stride in zip(arguments[1:], strides, strict=True):
            address = builder.add(address, builder.mul(index, stride))
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        prefetch = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        how = [ir.Constant(number, value) for value in (_TO_READ_OR_WRITE, _KEEP, _DATA)]
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], prefetch)
        builder.call(function, [builder.inttoptr(address, byte), *how])
        return context.get_dummy_value()

    return signature, generate


@numba.njit(cache=True)
def ask_for(table: Any, row: Any) -> None:
    """Start to load a row."""
    for column in range(0, table.shape[1], FLOATS_IN_A_LINE):
        _fetch(table, row, column)  # type: ignore[call-arg]
