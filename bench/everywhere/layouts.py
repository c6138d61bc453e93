"""How the elements of an array lie in memory: the same values in another layout. Each is made of values in a row."""
import torch


def _channels_behind(x):
    return x.movedim(1, -1).contiguous().movedim(-1, 1)


def _wider(x, start, step):
    """The last axis cut out of a longer one."""
    whole = x.new_zeros((*x.shape[:-1], start + step * x.shape[-1]))
    part = whole[..., start::step]
    part.copy_(x)
    return part


LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.transpose(-1, -2).contiguous().transpose(-1, -2),
    "channels_last": _channels_behind,  # (n, h, w, c) in memory
    "attention": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),  # heads that were split off: (b, s, h, d) in memory
    "sliced": lambda x: _wider(x, 1, 1),  # x[..., 1:]
    "every_other": lambda x: _wider(x, 0, 2),  # x[..., ::2]
    "expanded": lambda x: x[:1].clone().expand(x.shape),  # one row for all: other values than the rest have
    "flipped": lambda x: x,  # x[..., ::-1], which NumPy has alone
}


def array_of(x, layout):
    """A NumPy array of x's memory."""
    return x.numpy()[..., ::-1] if layout == "flipped" else x.numpy()


def in_a_row(x):
    """The same values in the layout that all have in common."""
    return x.clone(memory_format=torch.contiguous_format) if isinstance(x, torch.Tensor) else x.copy("C")
