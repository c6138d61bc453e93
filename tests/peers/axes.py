"""What a library makes of arrays along axes, for tests/peers_axes_test.cpp.

  axes.py LIBRARY DIR    DIR/cases has a line for each array, fields separated by tabs:
                           NAME TYPE SHAPE ORDER STEPS AXES SECOND
                         DIR/NAME are the elements in memory, of this shape; ORDER puts its axes into another
                         order, STEPS (1, 2, -1, ...) takes some of the elements of each; DIR/NAME.y, of shape SECOND,
                         is the second input, which broadcasts. For each operation there is, DIR/NAME.OP are the results in
                         row-major order, in the type that bitfold gives too, and a line of DIR/results says NAME OP ACC, the
                         accumulator's type, or "none". Without the library: "skipped: why".
"""
import importlib
import os
import sys

INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
FOLDER = sys.argv[2]


def numbers(text):
    return [int(n) for n in text.split(",") if n]


# The accumulators of each type: those of f16 differ with the axis.
def adds(kind):
    return "i64" if kind[0] == "i" else "u64" if kind[0] == "u" else kind if kind in ("f32", "f64") else None


def averages(kind):
    return "f64" if kind in INTEGERS else adds(kind)


def exact(kind):
    return "none"


def floats(kind):
    return kind if kind in ("f32", "f64") else None


def doubles(kind):
    return "f64" if kind == "f64" else None


def with_numpy(np):
    def array(data, kind, shape):
        return np.frombuffer(data, "<" + kind[0] + str(int(kind[1:]) // 8)).reshape(shape)

    def place(f):  # NumPy has one axis of these, or all
        def call(x, axes):
            kept = [k for k in range(x.ndim) if k not in axes]
            x = x.transpose(kept + sorted(axes))
            return f(x.reshape([x.shape[k] for k in range(len(kept))] + [-1]), axis=-1)
        return call

    def along(f, **more):
        return lambda x, axes: f(x, axis=tuple(axes), **more)

    def norm(order):
        return place(lambda x, axis: np.linalg.norm(x, order, axis=axis))

    def logsumexp(x, axes):
        top = np.max(x, axis=tuple(axes), keepdims=True)
        return np.squeeze(top, tuple(axes)) + np.log(np.sum(np.exp(x - top), axis=tuple(axes)))

    one = [
        ("sum", along(np.sum), adds), ("nansum", along(np.nansum), adds), ("prod", along(np.prod), adds),
        ("mean", along(np.mean), averages), ("nanmean", along(np.nanmean), averages),
        ("min", along(np.min), exact), ("max", along(np.max), exact),
        ("nanmin", along(np.nanmin), exact), ("nanmax", along(np.nanmax), exact),
        ("argmin", place(np.argmin), exact), ("argmax", place(np.argmax), exact),
        ("any", along(np.any), exact), ("all", along(np.all), exact),
        ("count_nonzero", along(np.count_nonzero), exact),
        ("norm_l1", norm(1), averages), ("norm_l2", norm(2), averages), ("norm_inf", norm(np.inf), averages),
        ("var", along(np.var), averages), ("std", along(np.std), averages), ("logsumexp", logsumexp, doubles),
    ]
    two = [
        ("dot", lambda x, y, axes: np.sum(x * y, axis=tuple(axes)), floats),
        ("squared_distance", lambda x, y, axes: np.sum((x - y) ** 2, axis=tuple(axes)), floats),
        ("mse", lambda x, y, axes: np.mean((x - y) ** 2, axis=tuple(axes)), floats),
        ("mae", lambda x, y, axes: np.mean(np.abs(x - y), axis=tuple(axes)), floats),
    ]
    return array, lambda x, order, steps: x.transpose(order)[tuple(slice(None, None, s) for s in steps)], one, two, \
        lambda value: np.ascontiguousarray(value).tobytes()


def with_torch(torch):
    def array(data, kind, shape):
        kind = {"u8": "uint8", "bf16": "bfloat16"}.get(kind, kind.replace("f", "float").replace("i", "int"))
        return torch.frombuffer(bytearray(data), dtype=getattr(torch, kind)).reshape(shape)

    def layout(x, order, steps):
        x = x.permute(order)
        for axis, step in enumerate(steps):
            x = x.flip(axis) if step < 0 else x
            at = [slice(None)] * x.ndim
            at[axis] = slice(None, None, abs(step))
            x = x[tuple(at)]
        return x

    def along(f, **more):
        return lambda x, axes: f(x, dim=tuple(axes), **more)

    def last(f):
        def call(x, axes):
            kept = [k for k in range(x.ndim) if k not in axes]
            return f(x.permute(kept + sorted(axes)).flatten(len(kept)), dim=-1)
        return call

    norm = torch.linalg.vector_norm
    one = [
        ("sum", along(torch.sum), adds), ("nansum", along(torch.nansum), floats), ("prod", last(torch.prod), adds),
        ("mean", along(torch.mean), floats),
        ("min", along(torch.amin), exact), ("max", along(torch.amax), exact),
        ("argmin", last(torch.argmin), exact), ("argmax", last(torch.argmax), exact),
        ("count_nonzero", along(torch.count_nonzero), exact),
        ("norm_l1", lambda x, axes: norm(x, 1, tuple(axes)), floats),
        ("norm_l2", lambda x, axes: norm(x, 2, tuple(axes)), floats),
        ("norm_inf", lambda x, axes: norm(x, float("inf"), tuple(axes)), floats),
        ("var", along(torch.var, correction=0), floats), ("std", along(torch.std, correction=0), floats),
        ("logsumexp", along(torch.logsumexp), doubles),
    ]
    two = [
        ("dot", lambda x, y, axes: torch.sum(x * y, dim=tuple(axes)), floats),
        ("squared_distance", lambda x, y, axes: torch.sum((x - y) ** 2, dim=tuple(axes)), floats),
        ("mse", lambda x, y, axes: torch.mean((x - y) ** 2, dim=tuple(axes)), floats),
        ("mae", lambda x, y, axes: torch.mean((x - y).abs(), dim=tuple(axes)), floats),
    ]
    return array, layout, one, two, lambda value: bytes(value.contiguous().flatten().view(torch.uint8).tolist())


def main():
    library = sys.argv[1]
    try:
        module = importlib.import_module(library)
    except Exception as e:
        print("skipped:", library + ":", e)
        return
    array, layout, one, two, raw = {"numpy": with_numpy, "torch": with_torch}[library](module)

    def read(name, kind, shape):
        with open(os.path.join(FOLDER, name), "rb") as file:
            return array(file.read(), kind, numbers(shape))

    results = []
    with open(os.path.join(FOLDER, "cases")) as cases:
        lines = [line.rstrip("\n").split("\t") for line in cases]
    for name, kind, shape, order, steps, axes, second in lines:
        if library == "numpy" and kind == "bf16" or library == "torch" and kind in ("u16", "u32", "u64"):
            continue
        x, y = layout(read(name, kind, shape), numbers(order), numbers(steps)), read(name + ".y", kind, second)
        for table, inputs in ((one, (x,)), (two, (x, y))):
            for op, call, accumulator in table:
                acc = accumulator(kind)
                if not acc:
                    continue
                value = call(*inputs, numbers(axes))
                with open(os.path.join(FOLDER, name + "." + op), "wb") as file:
                    file.write(raw(value))
                results.append("\t".join((name, op, acc)))
    with open(os.path.join(FOLDER, "results"), "w") as file:
        file.write("".join(line + "\n" for line in results))


main()
