"""Which headers are public, and on which page of the reference each is: grouped by what a user does."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Page:
    file: str
    title: str
    text: str
    headers: tuple
    example: str = ""


PAGES = [
    Page(
        "cpp-reduce",
        "Reduce an array",
        "Arrays in the memory of the host, whose elements lie one behind the other. [exact.md](../docs/exact.md) says "
        "which method to choose.",
        ("reduce.hpp", "source.hpp", "cpu.hpp", "bound.hpp"),
        "examples/cpu.cpp",
    ),
    Page(
        "cpp-shapes",
        "Axes, segments, keys, windows",
        "Many outputs of one array. [shapes.md](../docs/shapes.md) explains what they share. `reduce` itself is on "
        "[another page](cpp-reduce.md).",
        ("axes.hpp", "view.hpp", "strides.hpp", "scatter.hpp"),
        "examples/shapes.cpp",
    ),
    Page(
        "cpp-requests",
        "Operations, methods and types",
        "What can be asked for: an operation by a method, of elements of a type. [operations.md](../docs/operations.md) "
        "has what each computes.",
        ("reduction.hpp", "op.hpp", "method.hpp", "dtype.hpp", "error.hpp"),
    ),
    Page(
        "cpp-exact",
        "Exact sums as values",
        "What is filled in pieces and rounded once. [exact.md](../docs/exact.md) explains it.",
        ("accumulator.hpp", "totals.hpp"),
        "examples/exact.cpp",
    ),
    Page(
        "cpp-rows",
        "Functions of rows and channels",
        "Softmax, norms and their gradients. [rows.md](../docs/rows.md) explains them.",
        ("rows.hpp", "row_inputs.hpp", "channels.hpp", "channel_inputs.hpp"),
        "examples/rows.cpp",
    ),
    Page(
        "cpp-products",
        "Products of matrices",
        "Each element has bits of its own row and column alone. [products.md](../docs/products.md) explains them.",
        ("matmul.hpp",),
        "examples/products.cpp",
    ),
    Page(
        "cpp-cuda",
        "On a GPU",
        "Arrays in device memory. [cuda.md](../docs/cuda.md) says what is needed and when kernels are compiled. "
        "Functions of rows, scatters, products and contributions on a GPU are on the pages of these.",
        ("cuda.hpp", "cuda/reduce.cuh"),
        "examples/cuda.cpp",
    ),
    Page(
        "cpp-ranks",
        "Over several processes",
        "Ranks, contributions and shares. [distributed.md](../docs/distributed.md) explains them.",
        ("ranks.hpp", "communicator.hpp", "mpi.hpp", "contributions.hpp", "shares.hpp", "linked.hpp"),
        "examples/ranks_mpi.cpp",
    ),
    Page(
        "cpp-testing",
        "Test bits",
        "Comparisons for tests, the slow reference that every engine is held to, and the canonical order itself. "
        "[regression.md](../docs/regression.md) shows the first of these.",
        ("testing.hpp", "testing_catch2.hpp", "reference.hpp", "order.hpp"),
        "examples/testing.cpp",
    ),
    Page(
        "cpp-own",
        "Operations of your own",
        "[own.md](../docs/own.md) explains them, with programs. `transform`, `indexed` and `in_order` are "
        "[sources](cpp-reduce.md).",
        ("own.hpp", "fold.hpp"),
        "examples/own_order.cpp",
    ),
]

#: Headers that are not for users to include.
INTERNAL = {
    "arith.hpp",
    "channel_functions.hpp",
    "config.hpp",
    "exact.hpp",
    "formats.hpp",
    "product_sum.hpp",
    "row_functions.hpp",
    "strict_math.hpp",
}

#: What is public of headers that are internal but for that.
ONLY = {"fold.hpp": ["fold::counts"], "strides.hpp": ["max_axes"], "own.hpp": []}

#: What is not for users in headers that else are.
WITHOUT = {
    "source.hpp": ["array_source", "pair_source", "transform_source", "indexed_source", "in_order_source"],
    "method.hpp": ["visit"],
    "matmul.hpp": ["cpu::prepared::integers", "cpu::prepared::made", "cpu::operand::made"],
    "reduce.hpp": ["default_output"],
}
