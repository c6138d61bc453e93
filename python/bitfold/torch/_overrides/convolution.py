"""Convolutions and their gradients, as products of filters and patches (docs/products.md).

Patches are taken as they lie in the input, where that can be. Elsewhere they are copied a few samples, or a few rows of the output, at a time. Elements
of a product depend on their own row and column alone, so that it does not show.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch._prims_common import suggest_memory_format

from .. import _engine
from .._engine import FLOATS
from .common import NUMBERS, among, covers, fold, heading, parts, together

heading("convolutions")

#: Elements of patches that are in memory at one time: no more, but for those of one row of the output along its first axis; and, for the weight's
#: gradient, LEAST_OF_COLUMNS columns, or those of one channel of the input. (On a CPU a product makes integers of its smaller operand, besides.)
MOST_OF_PATCHES = {"cpu": 1 << 20, "cuda": 1 << 27}
LEAST_OF_COLUMNS = 128
#: Channels that are worth being taken side by side; and taps that a GPU has it for (bitfold::cuda::most_few_elements).
LEAST_SIDE_BY_SIDE, MOST_TAPS_OF_GPU = 16, 32


class _Axis(NamedTuple):
    """Where the patches lie along an axis of the input: element `first` + i * `step` + j * `spread` is number j of patch i. Outside are zeros."""

    first: int
    step: int
    patches: int
    spread: int
    taps: int

    def margins(self, size: int) -> tuple[int, int]:
        """What they reach over its two ends."""
        if not (self.taps and self.patches):
            return 0, 0
        last = self.first + (self.patches - 1) * self.step + (self.taps - 1) * self.spread
        return max(0, -self.first), max(0, last + 1 - size)

    def part(self, begin: int, end: int) -> _Axis:
        return self._replace(first=self.first + begin * self.step, patches=end - begin)


def _patches(x: Tensor, axes: Sequence[_Axis], groups: int) -> Tensor:
    """A view of x, of samples and channels, or of a padded copy: samples, groups, channels of a group, taps, patches."""
    margins = [axis.margins(n) for axis, n in zip(axes, x.shape[2:])]
    if any(map(any, margins)):
        x = torch.nn.functional.pad(x, [m for pair in reversed(margins) for m in pair])
    samples, channel, *along = x.stride()
    each = x.shape[1] // groups
    offset = sum((axis.first + low) * stride for axis, (low, _), stride in zip(axes, margins, along) if axis.taps and axis.patches)
    shape = [x.shape[0], groups, each, *(axis.taps for axis in axes), *(axis.patches for axis in axes)]
    strides = [samples, each * channel, channel, *(s * a.spread for s, a in zip(along, axes)), *(s * a.step for s, a in zip(along, axes))]
    return x.as_strided(shape, strides, x.storage_offset() + offset)


def _columns(patches: Tensor, dims: int, last: bool) -> Tensor:
    """Of each sample and group a matrix, whose columns are the patches. `last`: channels lie behind the taps, as they do in the input's memory."""
    samples, groups, channels, *rest = patches.shape
    shape = samples, groups, channels * math.prod(rest[:dims]), math.prod(rest[dims:])
    if not last:
        return patches.reshape(shape)
    return patches.permute(0, 1, *range(3 + dims, 3 + 2 * dims), *range(3, 3 + dims), 2).reshape(*shape[:2], shape[3], shape[2]).mT


def _product(method: str, a: Tensor, b: Tensor, addend: Tensor | None = None) -> Tensor:
    """In the type of a. `addend`: a column, of one number for each row of a."""
    if a.dtype not in FLOATS:  # modulo a power of two, as torch has it
        result = _engine.product(a, b).to(a.dtype)
        return result if addend is None else result + addend
    if addend is not None and method == "exact":  # one term more
        a, b, addend = torch.cat([a, addend], -1), torch.cat([b, b.new_ones([*b.shape[:-2], 1, b.shape[-1]])], -2), None
    return _engine.product(a, b, addend, method, a.dtype)


def _contract(patches: Tensor, filters: Tensor, bias: Tensor | None, dims: int, last: bool) -> Tensor | None:
    """The product of each filter and each patch without copies of patches, where the device has it: samples, all filters, places. `last`: filters
    lie behind places in memory, and channels behind taps, as they do in the input."""
    samples, groups, channels, *along = patches.shape
    taps, places = range(3, 3 + dims), range(3 + dims, 3 + 2 * dims)
    if last and groups > 1:  # of a filter each, of one channel: dot products side by side
        patches = patches.squeeze(2).permute(0, *[p - 1 for p in places], 1, *[t - 1 for t in taps])  # samples, places, groups; taps
        near = filters.flatten(0, 2)[(None,) * (1 + dims)]
        some = _engine.contract(near, patches, 2 + dims, 0, 0, None if bias is None else bias.reshape(-1, 1, 1))
        return None if some is None else some.movedim(-1, 1)
    if last:
        patches = patches.permute(0, 1, *places, *taps, 2).squeeze(1)  # samples, places; taps, channels
        some = _engine.contract(patches, filters.movedim(2, -1), 1, dims, 1, bias)
        return None if some is None else some.movedim(-1, 1)
    patches = patches.permute(0, 1, *places, 2, *taps)  # samples, groups, places; channels, taps
    if groups > 1:
        bias = None if bias is None else bias.reshape(groups, -1, 1)
        some = _engine.contract(filters.unsqueeze(0), patches, 2, 1, dims, bias)
        return None if some is None else some.flatten(1, 2)
    bias = None if bias is None else bias.reshape(-1, 1)
    return _engine.contract(filters, patches.squeeze(1), 1, 1, dims, bias)


def _correlate(method: str, x: Tensor, filters: Tensor, bias: Tensor | None, axes: Sequence[_Axis], out: Tensor) -> Tensor:
    """The product of each filter and each patch, plus the bias: in `out`, or in a tensor of its strides that can stand for it. `filters`: groups,
    filters of a group, channels of a group, taps; `out`: samples, channels, patches, of any strides."""
    groups, dims = filters.shape[0], len(axes)
    last = _is_last(x) and (groups == 1 or _are_side_by_side(x, filters))
    if _engine.contracts(x, 2 + 2 * dims + (groups > 1)) and method != "exact":
        some = _contract(_patches(x, axes, groups), filters, bias, dims, last and (x.is_cpu or groups > 1))
        if some is not None:
            return some if some.stride() == out.stride() else out.copy_(some)
    last = last and groups == 1
    rows = (filters.movedim(2, -1) if last else filters).flatten(2)
    bias = None if bias is None else bias.reshape(groups, -1, 1)
    first, *others = axes
    for n, i in parts(x.shape[0], first.patches, groups * rows.shape[2] * math.prod(axis.patches for axis in others), MOST_OF_PATCHES[x.device.type]):
        patches = _patches(x[n], [first.part(i.start, i.stop), *others], groups)
        to = out[n, :, i]
        to.copy_(_product(method, rows, _columns(patches, dims, last), bias).reshape(to.shape))
    return out


def _weight_gradient(method: str, g: Tensor, x: Tensor, axes: Sequence[_Axis], groups: int) -> Tensor:
    """Groups, channels of g in a group, channels of x in a group, taps: the product of each channel of g, over samples and places, and of what a
    tap of a channel of x has met there."""
    taps = [axis.taps for axis in axes]
    patches = _patches(x, axes, groups)
    patches = patches.permute(1, *range(2, 3 + len(taps)), 0, *range(3 + len(taps), patches.dim()))  # groups, channels, taps, samples, places
    out = g.new_empty([groups, g.shape[1] // groups, *patches.shape[1 : 2 + len(taps)]])
    if _engine.contracts(g, 2 + 2 * len(axes) + (groups > 1)) and method != "exact":
        some = _contract_gradient(g, patches, groups, len(axes))
        if some is not None:
            return some.reshape(out.shape)
    rows = g.flatten(2).unflatten(1, (groups, -1)).permute(1, 2, 0, 3).flatten(2)
    length, all_taps = rows.shape[2], math.prod(taps)
    for some, c in _columns_at_once(groups, out.shape[2], all_taps * length, all_taps, MOST_OF_PATCHES[x.device.type]):
        to = out[some, :, c]
        columns = patches[some, c].reshape(to.shape[0], to.shape[2] * all_taps, length)
        to.copy_(_product(method, rows[some], columns.mT).reshape(to.shape))
    return out


def _contract_gradient(g: Tensor, patches: Tensor, groups: int, dims: int) -> Tensor | None:
    """`patches`: groups, channels of a group, taps, samples, places. The same without copies, where the device has it."""
    near = g.unflatten(1, (groups, -1)).permute(1, 2, 0, *range(3, 3 + dims))  # groups, channels; samples, places
    if groups > 1:
        return _engine.contract(near, patches, 1, 1, 1 + dims)
    return _engine.contract(near.squeeze(0), patches.squeeze(0), 0, 1, 1 + dims)


def _columns_at_once(groups: int, channels: int, of_a_channel: int, taps: int, most: int) -> Iterator[tuple[slice, slice]]:
    """Of groups, and of channels of a group, in the weight's gradient."""
    if groups > 1 and channels * of_a_channel <= most:
        padded = of_a_channel * max(channels, 64 // taps)  # few columns take as much as some more
        yield from ((some, slice(0, channels)) for some, _ in parts(groups, 1, padded, most))
        return
    at_once = max(most // max(of_a_channel, 1), -(-LEAST_OF_COLUMNS // taps))
    for group, c in itertools.product(range(groups), range(0, channels, at_once)):
        yield slice(group, group + 1), slice(c, min(c + at_once, channels))


# ---- What torch asks for


class _Convolution(NamedTuple):
    """How an input's places and an output's belong together, whichever of the two is computed. The output of a transposed convolution is the
    input's gradient of another; `near` is what lies as that other one's output, `far` as its input."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    def axes(self, near: Sequence[int], taps: Sequence[int]) -> list[_Axis]:
        """The patches of `far`."""
        return [_Axis(-p, s, n, d, k) for p, s, n, d, k in zip(self.padding, self.stride, near, self.dilation, taps)]

    def forward(self, method: str, far: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> Tensor:
        """In `out`, or in a tensor that can stand for it."""
        taps = weight.shape[2:]
        return _correlate(method, far, _grouped(weight, self.groups), bias, self.axes(out.shape[2:], taps), out)

    def backward(self, method: str, near: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> Tensor:
        """Of each place of `far`, over the taps that meet it at all: these are the same ones at every place of a phase of the stride. In `out`, or
        in a tensor that can stand for it."""
        filters = _grouped(weight, self.groups).transpose(1, 2)
        phases = [list(self._phases(d, n, k)) for d, (n, k) in enumerate(zip(out.shape[2:], weight.shape[2:]))]
        for phase in itertools.product(*phases):
            places, taps, axes = zip(*phase)
            meeting = filters[(..., *taps)].flip([3 + d for d in range(len(axes))])
            to = out[(..., *places)]
            some = _correlate(method, near, meeting, bias, axes, to)
            if some is to:
                continue
            if to.shape == out.shape:  # the only phase
                return some
            to.copy_(some)
        return out

    def _phases(self, d: int, size: int, taps: int) -> Iterator[tuple[slice, slice, _Axis]]:
        """Along an axis: the places, the taps that meet them, and where the patches of `near` lie for these, the last first."""
        stride, dilation = self.stride[d], self.dilation[d]
        period = stride // math.gcd(stride, dilation)
        for place in range(min(stride, size)):
            reached = place + self.padding[d]
            meets = [k for k in range(taps) if (reached - k * dilation) % stride == 0]
            first, spread = ((reached - meets[-1] * dilation) // stride, period * dilation // stride) if meets else (0, 1)
            axis = _Axis(first, 1, len(range(place, size, stride)), spread, len(meets))
            yield slice(place, None, stride), slice(meets[0], None, period) if meets else slice(0, 0), axis

    def weight(self, method: str, near: Tensor, far: Tensor, shape: Sequence[int]) -> Tensor:
        return _weight_gradient(method, near, far, self.axes(near.shape[2:], shape[2:]), self.groups).reshape(shape)


def _grouped(weight: Tensor, groups: int) -> Tensor:
    return weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:])


def _is_last(x: Tensor) -> bool:
    """Whether channels lie last."""
    return x.dim() > 3 and x.movedim(1, -1).is_contiguous() and not x.is_contiguous()


def _layout(x: Tensor, weight: Tensor) -> torch.memory_format:
    """Of a result, as torch has it: channels last where they are so in one of the two."""
    formats = [suggest_memory_format(t) for t in (x, weight)]
    return next((f for f in formats if f is not torch.contiguous_format), torch.contiguous_format)


def _are_side_by_side(x: Tensor, filters: Tensor) -> bool:
    """Whether channels that lie last are each convolved with a filter of its own, several at once. `filters`: as of _correlate."""
    groups, of_a_group, channels, *taps = filters.shape
    is_there = x.is_cpu or x.is_cuda and math.prod(taps) <= MOST_TAPS_OF_GPU
    return is_there and x.dtype in FLOATS and x.dtype is not torch.float64 and of_a_group == channels == 1 and groups >= LEAST_SIDE_BY_SIDE


def _laid(x: Tensor, layout: torch.memory_format, groups: int) -> Tensor:
    """As patches are read fastest: of groups a channel's places one behind the other. An expanded tensor is one of few elements in many places: as it is."""
    if groups == 1 and layout is torch.contiguous_format or 0 in x.stride():
        return x
    return x.contiguous(memory_format=torch.contiguous_format if groups > 1 else layout)


def _laid_for(method: str, x: Tensor, layout: torch.memory_format, weight: Tensor, groups: int) -> Tensor:
    """The same for products of filters, some of which take channels side by side."""
    if method != "exact" and layout is not torch.contiguous_format and _are_side_by_side(x, _grouped(weight, groups)):
        return _laid(x, layout, 1)
    return _laid(x, layout, groups)


def _asked(op: str, x: Tensor, weight: Tensor, bias: Tensor | None, stride, padding, dilation, transposed, output_padding, groups) -> tuple[_Convolution, list[int]]:
    """The convolution, and the shape of what it gives. Errors: RuntimeError where torch has one."""
    given = [x, weight] if bias is None else [x, weight, bias]
    together(op, *given)
    among((*FLOATS, *NUMBERS), op, *given)
    dims = weight.dim() - 2
    if not 1 <= dims <= 3 or x.dim() != weight.dim() or len({t.dtype for t in given}) > 1:
        raise RuntimeError(f"{op}: an input of {x.dtype}, {list(x.shape)}, and a weight of {weight.dtype}, {list(weight.shape)}")
    wide = lambda v: tuple(v) * (dims if len(v) == 1 else 1)
    stride, padding, dilation, more = map(wide, (stride, padding, dilation, output_padding))
    lists = stride, padding, dilation, more
    if any(len(v) != dims for v in lists) or groups < 1 or min(*stride, *dilation) < 1 or min(*padding, *more) < 0:
        raise RuntimeError(f"{op}: stride {stride}, padding {padding}, dilation {dilation}, output_padding {more}, groups {groups}")
    inputs, outputs = (weight.shape[0], weight.shape[1] * groups) if transposed else (weight.shape[1] * groups, weight.shape[0])
    if x.shape[1] != inputs or weight.shape[0] % groups or (bias is not None and list(bias.shape) != [outputs]):
        raise RuntimeError(f"{op}: {x.shape[1]} channels, a weight of {list(weight.shape)}, groups {groups}")
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, weight.shape[2:])]
    if transposed:
        out = [(n - 1) * s - 2 * p + r + m for n, s, p, r, m in zip(x.shape[2:], stride, padding, reach, more)]
    else:
        out = [(n + 2 * p - r) // s + 1 for n, s, p, r in zip(x.shape[2:], stride, padding, reach)]
    if min(*weight.shape, *out) < 1 or min(x.shape[1:]) < 1 or transposed and any(m >= max(s, d) for m, s, d in zip(more, stride, dilation)):
        raise RuntimeError(f"{op}: an output of {out}")
    return _Convolution(stride, padding, dilation, groups), [x.shape[0], outputs, *out]


@covers("convolution")
def _convolution(method, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    how, shape = _asked("convolution", x, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
    layout = _layout(x, weight)
    out = torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=layout)
    if not _engine.is_real(x):
        return out
    return (how.backward if transposed else how.forward)(method, _laid_for(method, x, layout, weight, groups), weight, bias, out)


@covers("_convolution")
def _convolution_by_libraries(method, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups, *libraries):
    return _convolution(method, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


@covers("convolution_backward")
def _convolution_backward(method, grad, x, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, output_mask):
    how, shape = _asked("convolution_backward", x, weight, None, stride, padding, dilation, transposed, output_padding, groups)
    if grad.dtype is not x.dtype or list(grad.shape) != shape or grad.device != x.device:
        raise RuntimeError(f"convolution_backward: a gradient of {grad.dtype}, {list(grad.shape)}, where the output is of {x.dtype}, {shape}")
    layout = _layout(x, weight)
    gradients = [torch.empty(t.shape, dtype=x.dtype, device=x.device, memory_format=layout) if wanted else None for t, wanted in zip((x, weight), output_mask)]
    of_x, of_weight = gradients
    if _engine.is_real(x):
        grad = _laid_for(method, grad, layout, weight, groups)
        if of_x is not None:
            of_x = (how.forward if transposed else how.backward)(method, grad, weight, None, of_x)
        if of_weight is not None:
            beside = x.is_cuda and _is_last(x) and _is_last(grad) and _are_side_by_side(x, _grouped(weight, groups))
            if groups > 1 and not beside:
                grad, x = _laid(grad, layout, groups), _laid(x, layout, groups)
            near, far = (x, grad) if transposed else (grad, x)
            of_weight.copy_(how.weight(method, near, far, weight.shape))
    of_bias = fold(method, "sum", grad, dim=[0, *range(2, grad.dim())], keepdim=False) if output_mask[2] else None
    return of_x, of_weight, of_bias
