"""What strict lets through, asked for bits that depend on the batch, the layout or the place in
memory: a sample by itself against the same one among others. On CPUs.

    python python/tests/hunt_strict.py [OPERATOR ...]

asks everything, in some minutes (ATEN_CPU_CAPABILITY=avx2 or default: as other CPUs do it);
test_torch_strict.py asks a part.
"""

from __future__ import annotations

import functools
import itertools
import math
import sys
import warnings
from collections.abc import Iterable, Iterator

import torch
from torch.utils._pytree import tree_leaves, tree_map

import bitfold.torch
from bitfold.torch._strict import is_independent
from torch_helpers import same

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
OTHERS = (torch.complex64, torch.int64, torch.int32, torch.int16, torch.uint8, torch.bool)
ROWS, REPEATED = 5, 9
#: By torch, of such arguments, or by strict.
REFUSED = (AttributeError, IndexError, RuntimeError, TypeError, ValueError)
#: By the argument's name, and by its type.
OF_NAME = {
    "alpha": (1, -1, 0.3),
    "approximate": ("none", "tanh"),
    "exponent": (2, 3, -1, -2, 0.5, 0.7),
    "reduction": (0,),
    "rounding_mode": ("floor", "trunc", None),
    "value": (1, 0.3),
}
OF_TYPE = {
    "number": (0.7, 2),
    "float": (0.7, 2),
    "Optional[number]": (0.4, None),
    "Optional[float]": (0.4, None),
    "int": (1,),
    "bool": (False, True),
}
#: What draws, makes or reads other rows than a result's own, as the operator is meant to.
APART = """
rand bernoulli dropout uniform normal exponential multinomial binomial poisson cauchy geometric
rrelu empty resize set_ record_stream as_strided view_copy squeeze batch_dim _local_scalar
unique nonzero masked_s isin take select_scatter tril triu sort cum median mode kthvalue topk histc
bincount hash_tensor trace renorm diag linear
""".split()


def operators() -> Iterator[torch._ops.OpOverload]:
    """Those that strict lets through, of tensors, numbers and words."""
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        if not hasattr(packet, "overloads") or any(word in name for word in APART):
            continue
        for op in (getattr(packet, overload) for overload in packet.overloads()):
            kinds = {str(a.type) for a in op._schema.arguments}
            others = any("List" in kind or "Generator" in kind for kind in kinds)
            if op.is_view or others or any(a.is_out for a in op._schema.arguments):
                continue
            if "Tensor" in kinds and is_independent(op) and op.name() != "aten::where":
                yield op


@functools.cache
def numbers(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    x = 3 * torch.randn(*shape, 2, generator=generator, dtype=torch.float64)
    for first, special in ((2, 0.0), (9, math.inf), (14, -math.inf)):
        x.view(-1)[first + seed :: 23] = special
    if dtype.is_complex:
        return torch.view_as_complex(x).to(dtype)
    x = x[..., 0] if dtype.is_floating_point else x[..., 0].nan_to_num(0, 7, -7)
    return x > 0 if dtype is torch.bool else (x.abs() if dtype is torch.uint8 else x).to(dtype)


def choices(a) -> tuple | None:
    optional = a.has_default_value() or "Optional" in str(a.type)
    default = (a.default_value,) if optional else None
    return OF_NAME.get(a.name) or OF_TYPE.get(str(a.type)) or default


def calls(
    op: torch._ops.OpOverload, dtype: torch.dtype, columns: int, most: int
) -> Iterator[tuple[list, dict, list[bool]]]:
    """Arguments, options, and which of the tensors have a row for each sample: the others are
    shared. A number in a tensor may be f32."""
    arguments = [a for a in op._schema.arguments if str(a.type) != "Tensor"]
    if any(choices(a) is None for a in arguments):
        return
    shapes = {"rows": (ROWS, columns), "column": (ROWS, 1), "row": (columns,), "number": ()}
    n = len(op._schema.arguments) - len(arguments)
    batched = {"rows", "column"}
    of_kinds = (kinds for kinds in itertools.product(shapes, repeat=n) if batched & set(kinds))
    entropy = "binary_cross_entropy" in op._schema.name
    if entropy:  # of shapes that differ aten's own reads what lies behind a tensor
        of_kinds = (("rows",) * n,)
    for kinds in itertools.islice(of_kinds, most):
        for k in range(max((len(choices(a)) for a in arguments), default=1)):
            of_number = dtype if k % 2 or not dtype.is_floating_point else torch.float32
            types = [of_number if kind == "number" else dtype for kind in kinds]
            tensors = iter([numbers(shapes[kinds[i]], types[i], i) for i in range(n)])
            of = {}
            for a in op._schema.arguments:
                tensor = str(a.type) == "Tensor"
                value = next(tensors) if tensor else choices(a)[k % len(choices(a))]
                if tensor and a.name in ("condition", "mask"):
                    value = value.real > 0
                if tensor and entropy and dtype.is_floating_point:
                    value = value.abs().clamp(0, 1)
                of[a.name] = value
            named = {a.name for a in op._schema.arguments if a.kwarg_only}
            yield (
                [v for name, v in of.items() if name not in named],
                {k: v for k, v in of.items() if k in named},
                [kind in batched for kind in kinds],
            )


def tensors_of(x) -> list[torch.Tensor]:
    return [t for t in tree_leaves(x) if isinstance(t, torch.Tensor)]


def run(op, args: list, kwargs: dict) -> list[torch.Tensor]:
    """Errors: those of the operator, and NotCovered."""
    if op._schema.is_mutable:
        args = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
    return tensors_of(op(*args, **kwargs))


def alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    """The same bits, but for which NaN it is."""
    if same(a, b) or not a.is_floating_point():
        return same(a, b)
    return same(a.isnan(), b.isnan()) and same(a.nan_to_num(7), b.nan_to_num(7))


def in_columns(t):
    """The same numbers, in another layout."""
    return t.mT.contiguous().mT if isinstance(t, torch.Tensor) and t.dim() > 1 else with_gaps(t)


def with_gaps(t):
    return torch.stack([t, t], -1)[..., 0] if isinstance(t, torch.Tensor) and t.dim() else t


def differences(
    op: torch._ops.OpOverload, dtypes: Iterable[torch.dtype], columns: Iterable[int], most: int = 20
) -> tuple[int, list[str]]:
    """How many calls strict let through, and those of other bits alone or in another layout."""
    passed, found = 0, []
    for dtype, n in itertools.product(dtypes, columns):
        for args, kwargs, batched in calls(op, dtype, n, most):
            try:
                whole = run(op, args, kwargs)
            except REFUSED:
                continue
            passed += 1
            shown = [tuple(a.shape) if isinstance(a, torch.Tensor) else a for a in args]
            told = f"{op.name()} {dtype} {shown} {kwargs}"
            for row in (0, ROWS - 1):
                which = iter(batched)
                alone = [
                    a[row : row + 1].clone() if isinstance(a, torch.Tensor) and next(which) else a
                    for a in args
                ]
                try:
                    results = run(op, alone, kwargs)
                except REFUSED:
                    break  # whose values name places, or do not broadcast
                if any(
                    w.dim() and len(w) == ROWS and not alike(w[row : row + 1], r)
                    for w, r in zip(whole, results)
                ):
                    found.append(f"{told}: row {row} alone")
            for layout in (in_columns, with_gaps) if not op._schema.is_mutable else ():
                results = run(op, [layout(a) for a in args], kwargs)
                if not all(map(alike, whole, results)):
                    found.append(f"{told}: {layout.__name__}")
    return passed, found


# ---- torch's own samples -------------------------------------------------------------------------


def outcome(info, args, seeds: list[torch.Tensor]) -> list[torch.Tensor]:
    """Results, and gradients where there are any. `seeds`: gradients of the results, made if there
    are none, else spread over them."""
    torch.manual_seed(0)
    outs = tensors_of(info.op(*args[:1], *args[1], **args[2]))
    leaves = [t for t in tensors_of(args) if t.requires_grad]
    rooted, grads = [t for t in outs if t.requires_grad], ()
    seeds += [torch.randn(t.shape, dtype=torch.float64).to(t.dtype) for t in rooted[len(seeds) :]]
    if rooted and leaves:
        spread = [
            s.repeat([n // m for n, m in zip(t.shape, s.shape, strict=True)])
            for t, s in zip(rooted, seeds, strict=True)
        ]
        try:
            grads = torch.autograd.grad(rooted, leaves, spread, allow_unused=True)
        except (bitfold.torch.NotCovered, RuntimeError):
            pass
    return [t.detach() for t in (*outs, *grads) if t is not None]


def near(a: torch.Tensor, b: torch.Tensor) -> bool:
    a, b = (torch.view_as_real(t.resolve_conj()) if t.is_complex() else t for t in (a, b))
    a, b = a.double(), b.double()
    zero = 1e-6 * float(a.abs().nan_to_num(0, 0, 0).max())
    return torch.allclose(a, b, rtol=0.05, atol=zero, equal_nan=True)


#: Whose results of a row repeated are near to the row's, by other sums.
SPREAD = ("as_strided", "batch_norm", "group_norm", "instance_norm", "jiterator", "linalg", "fft")


def sample_differences(info, dtype: torch.dtype, most: int = 25) -> list[str]:
    """Of samples repeated along a dimension, where their results are repeated likewise."""
    differentiable = info.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    with bitfold.torch.deterministic():
        samples = list(info.sample_inputs("cpu", dtype, requires_grad=differentiable))
    found = []
    for sample in samples[:: max(1, len(samples) // most)]:
        given = (sample.input, sample.args, sample.kwargs)
        tensors = [t for t in tensors_of(given) if t.layout is torch.strided]
        try:
            wanted = outcome(info, given, seeds := [])
        except Exception:
            continue
        ways = set()
        for t, d in ((t, d) for t in tensors for d in range(-t.dim(), 0)):
            ways.add((d, tuple(u is t for u in tensors)))
            ways.add((d, tuple(u.dim() >= -d and u.shape[d] == t.shape[d] for u in tensors)))
        for dim, which in ways:
            ids = {id(t) for t, meant in zip(tensors, which) if meant}
            repeat = lambda t: (
                torch.cat([t.detach()] * REPEATED, dim).requires_grad_(t.requires_grad)
                if id(t) in ids
                else t
            )
            try:
                results = outcome(info, tree_map(repeat, given), seeds)
            except Exception:
                continue
            for a, b in zip(wanted, results) if len(wanted) == len(results) else ():
                if a.dim() != b.dim() or b.numel() != REPEATED * a.numel() or not a.numel():
                    continue
                along = [d for d in range(a.dim()) if b.shape[d] == REPEATED * a.shape[d]]
                parts = b.chunk(REPEATED, along[0]) if along else ()
                if all(near(a, p) for p in parts) and not all(alike(a, p) for p in parts):
                    shapes = [tuple(t.shape) for t in tensors]
                    found.append(f"{info.name} {dtype} {shapes} {which} along {dim}")
    return found


def main(names: list[str]) -> int:
    from torch.testing._internal.common_methods_invocations import op_db

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    found = []
    with bitfold.torch.deterministic(strict=True):
        for op in operators():
            if not names or op._schema.name.removeprefix("aten::") in names:
                found += differences(op, (*FLOATS, *OTHERS), (1, 19, 70))[1]
        for info in op_db:
            if names and info.name not in names or any(w in info.name for w in (*APART, *SPREAD)):
                continue
            for dtype in {*FLOATS, torch.complex64, torch.int64} & info.supported_dtypes("cpu"):
                found += sample_differences(info, dtype)
    print("\n".join(found))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
