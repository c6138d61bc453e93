"""What goes to places by index under the mode: for each place one reduction of bitfold's, which meets what lay there."""

import itertools

import pytest

torch = pytest.importorskip("torch")

import bitfold.torch  # noqa: E402
from torch_helpers import same  # noqa: E402

TYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.uint8)
OPS = {"sum": "sum", "mean": "sum", "prod": "prod", "amax": "max", "amin": "min"}


def made(shape, dtype):
    return torch.randn(shape).to(dtype) if dtype.is_floating_point else torch.randint(0, 100, shape).to(dtype)


def met(elements, there, reduce, method):
    """What one place has of its elements, a vector, and of what lay there, or None."""
    dtype = elements.dtype
    if reduce in ("amax", "amin"):
        every = elements if there is None else torch.cat([elements, there.reshape(1)])
        return getattr(torch.ops.bitfold, OPS[reduce])(every)
    wide = torch.int64 if not dtype.is_floating_point else torch.float64 if dtype is torch.float64 else torch.float32
    how = {"method": method} if OPS[reduce] == "sum" else {}
    result = getattr(torch.ops.bitfold, OPS[reduce])(elements, dtype=wide, **how)
    if there is not None:
        result = there.to(wide) * result if reduce == "prod" else there.to(wide) + result
    if reduce == "mean":
        count = elements.numel() + (there is not None)
        result = result // count if wide is torch.int64 else result / count
    return result.to(dtype)


def by_places(x, dim, index, src, reduce, include_self, method):
    y, lines = x.clone(), [range(n) for d, n in enumerate(index.shape) if d != dim]
    for line in itertools.product(*lines):
        at = list(line)
        at.insert(dim, slice(None))
        keys, values, to = index[tuple(at)], src[tuple(at)][: index.shape[dim]], y[tuple(at)]
        for place in keys.unique().tolist():
            to[place] = met(values[keys == place], to[place].clone() if include_self else None, reduce, method)
    return y


def cases():
    for k, (dtype, reduce, include_self) in enumerate(itertools.product(TYPES, OPS, (True, False))):
        shape = [(700,), (9, 40), (5, 4, 11)][k % 3]
        dim = k % len(shape)
        yield dtype, reduce, include_self, shape, dim, [1, 3, 60, 600][k % 4], ("tree", "kahan", "sequential")[k % 3]


@pytest.mark.parametrize("dtype, reduce, include_self, shape, dim, n, method", list(cases()))
def test_a_place_has_one_reduction(dtype, reduce, include_self, shape, dim, n, method):
    torch.manual_seed(n)
    x = made(shape, dtype)
    of = list(shape)
    of[dim] = n
    src, index = made(of, dtype), torch.randint(shape[dim], of)
    want = by_places(x, dim, index, src, reduce, include_self, method)
    apart = lambda t: t.transpose(0, -1).contiguous().transpose(0, -1)
    with bitfold.torch.deterministic(method):
        for y, k, s in ((x, index, src), (apart(x), index, apart(src)), (x, apart(index), src)):
            assert same(y.scatter_reduce(dim, k, s, reduce, include_self=include_self), want)
        y = x.clone()
        assert y.scatter_reduce_(dim, index, src, reduce, include_self=include_self) is y and same(y, want)
        if reduce == "sum" and include_self:
            assert same(x.scatter_add(dim, index, src), want) and same(x.clone().scatter_add_(dim, index, src), want)


@pytest.mark.parametrize("dtype, reduce, include_self, shape, dim, n, method", list(cases()))
def test_one_index_for_all_columns(dtype, reduce, include_self, shape, dim, n, method):
    torch.manual_seed(n)
    x, index = made(shape, dtype), torch.randint(shape[dim], (n,))
    of, view = list(shape), [1] * len(shape)
    of[dim], view[dim] = n, -1
    src = made(of, dtype)
    every = index.reshape(view).expand(of)
    want = by_places(x, dim, every, src, reduce, include_self, method)
    with bitfold.torch.deterministic(method):
        assert same(x.scatter_reduce(dim, every, src, reduce, include_self=include_self), want)
        if reduce != "sum":
            assert same(x.index_reduce(dim, index, src, reduce, include_self=include_self), want)
        elif include_self:
            assert same(x.index_add(dim, index, src), want) and same(x.clone().index_add_(dim, index.int(), src), want)
            for k in (index, index - shape[dim]):
                assert same(torch.ops.aten.index_put(x, [None] * dim + [k], src, True), want)
                assert same(torch.ops.aten.index_put_(x.clone(), [None] * dim + [k], src, True), want)


def test_index_put_of_several_indices():
    x, i, j = torch.randn(6, 7, 20), torch.randint(-6, 6, (4, 1)), torch.randint(-7, 7, (50,))
    values = torch.randn(4, 50, 20)
    at = (i % 6 * 7 + j % 7).reshape(-1, 1).expand(-1, 20)
    want = by_places(x.reshape(42, 20), 0, at, values.reshape(200, 20), "sum", True, "tree").reshape(x.shape)
    with bitfold.torch.deterministic():
        assert same(x.index_put((i, j), values, accumulate=True), want)
        one = torch.ones(20)
        assert same(x.index_put((i, j), one, accumulate=True), x.index_put((i, j), one.expand(4, 50, 20).contiguous(), accumulate=True))


def test_an_index_out_of_bounds_writes_nothing_in_place():
    for shape in ((50,), (5, 40), (40, 5)):
        x = torch.randn(shape)
        for wrong in (-1, shape[0]):
            index = torch.randint(shape[0], shape)
            index.view(-1)[-1] = wrong
            y = x.clone()
            with bitfold.torch.deterministic(), pytest.raises(RuntimeError):
                y.scatter_add_(0, index, torch.ones(shape))
            assert same(x, y)


def test_many_threads_and_long_lines():
    before = torch.get_num_threads()
    x, index, src = torch.randn(90_000), torch.randint(90_000, (300_000,)), torch.randn(300_000)
    rows, keys, g = torch.randn(3000, 70), torch.randint(3000, (9000,)), torch.randn(9000, 70)
    try:
        with bitfold.torch.deterministic():
            results = []
            for threads in (1, 2, 5):
                torch.set_num_threads(threads)
                results.append((x.scatter_add(0, index, src), rows.index_add(0, keys, g), rows.scatter_add(0, index[: 300 * 70].reshape(300, 70) % 3000, g)))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(map(same, other, results[0]))


@pytest.mark.parametrize("length, width", [(1, 3), (4, 1), (16, 64), (300, 7), (3, 50_000)])
@pytest.mark.parametrize("mode", range(3))  # of sums, means and maxima
def test_bags_of_one_length_are_as_among_others(mode, length, width):
    """In both ways that bags have, one of them shorter: what it has, and what the others have."""
    torch.manual_seed(length)
    for dtype, method, last in itertools.product((torch.float32, torch.bfloat16, torch.float64), ("tree", "kahan"), (False, True)):
        table = torch.randn(40, width).to(dtype)
        table[3], table[5, :1], table[6], table[7] = float("nan"), float("inf"), -0.0, 0.0
        tokens = torch.randint(0, 40, (7 * length,))
        tokens[0], tokens[-1] = 6, 7
        weights = torch.randn(len(tokens)).to(dtype) if mode == 0 else None
        offsets = torch.arange(0, len(tokens) + last, length)

        def bags(n, offsets, weights=weights):
            return torch.ops.aten._embedding_bag(table, tokens[:n], offsets, False, mode, False, None if weights is None else weights[:n], last)

        n = len(tokens) - 1
        shorter = torch.cat([offsets[:-1], torch.tensor([n])]) if last else offsets
        with bitfold.torch.deterministic(method=method):
            y, bag, sizes, which = bags(len(tokens), offsets)
            of_others, other_bag, other_sizes, other_which = bags(n, shorter)
        assert same(y[:6], of_others[:6]) and same(bag[:n], other_bag) and sizes.tolist() == [length] * 7
        assert other_sizes.tolist() == [length] * 6 + [length - 1]
        assert mode != 2 or same(which[:6], other_which[:6])


@pytest.mark.parametrize("second", [1, 2])  # where the second bag begins
def test_bags_of_indices_in_rows_are_those_of_the_flat_indices(second):
    table, tokens, offsets = torch.randn(5, 3), torch.tensor([[0, 1], [2, 3]]), torch.tensor([0, second])
    with bitfold.torch.deterministic():
        assert same(*(torch.embedding_bag(table, t, offsets)[0] for t in (tokens, tokens.flatten())))
