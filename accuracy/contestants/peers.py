"""NumPy, PyTorch and Python's own fsum, for the accuracy suite: a helper process that answers on
standard output what it is asked on standard input, a line for a line, fields separated by tabs.

  list CPU CUDA          1 or 0 each; answers several lines, the last of them "ok":
                           found NAME VERSION
                           missing NAME WHY
                           op OP KEY NAME FAMILY DEVICE IN ACC OUT MOST WAYS AXES ABOUT
                         OP: bitfold's name of the operation; MOST: the longest array it is asked for,
                         0 for any; WAYS: thread counts, the default first, or "-" for one way without
                         threads of its own; AXES: 1 where it takes a shape, else 0
                           product KEY NAME FAMILY DEVICE IN ACC OUT WAYS ABOUT
  load TYPE BYTES INPUTS so many arrays of one length, one behind the other, from the start of file
                         descriptor 3; "ok"
  run KEY THREADS        "ok" and the bits of the result, in hex
  time KEY THREADS N     "ok" and N times in seconds, each the mean over at least 0.2 ms of calls
                         Both take, behind that, a shape: ROWS COLUMNS AXIS, the array as a matrix that is
                         reduced along this axis (0 or 1). The bits are then those of the first result.
  product KEY THREADS ROWS INNER COLUMNS LEFT RIGHT
                         The array as two matrices, one behind the other, of ROWS x INNER and INNER x COLUMNS
                         elements, each by rows (0) or by columns (1); "ok" and the bytes of the product, in hex
  time_product KEY THREADS N ROWS INNER COLUMNS LEFT RIGHT
                         as time

Whatever goes wrong is answered by "error" and a line of text. Another operation goes into the table of
its library, another library into peers()."""
import array
import importlib
import math
import os
import sys
import time

if sys.path and sys.path[0] == "":  # put there by -c: a numpy.py of the user's is not meant
    del sys.path[0]

ENOUGH = 200e-6  # seconds of a sample

INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")


def sum_of_integers(t):
    return "i64" if t[0] == "i" else "u64"


# The accumulator and the output of an operation for each element type, as bitfold's `typing`. The sums of
# f16 and bf16 are a library's own.
def adds(half):
    wide = {"f16": half, "bf16": half, "f32": "f32", "f64": "f64"}
    return lambda t: (wide[t], t) if t in wide else (sum_of_integers(t),) * 2


def averages(half):
    add = adds(half)
    return lambda t: ("f64", "f64") if t in INTEGERS else add(t)


def same(t):
    return "", t


def gives(out):
    return lambda t: ("", out)


class Library:
    """What its operations share: prepare(data, type) makes an array of its own, and bits(value) are the
    bytes of what an operation gave."""

    family, device, threads = "", "cpu", (1,)

    def set_up(self, threads):
        """Before every run: what is kept for all."""

    def products(self):
        """As operations(): of two matrices."""
        return {}

    def product_threads(self):
        return self.threads

    def seconds(self, call, times):
        call()
        calls = 1
        while True:
            took = self.clock(call, calls)
            if took >= ENOUGH or calls >= 1 << 20:
                break
            calls = math.ceil(calls * max(2, 1.2 * ENOUGH / max(took, 1e-9)))
        return [self.clock(call, calls) / calls for _ in range(times)]

    def clock(self, call, calls):
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        return time.perf_counter() - begin


class Operation:
    """call: of as many arrays as it has inputs. kind: a function from element type to accumulator and
    output type. axes: whether call takes an axis."""

    def __init__(self, package, call, name, types, kind, about, *, most=0, inputs=1, axes=False):
        self.package, self.call, self.name, self.types = package, call, name, types
        self.kind, self.about, self.most, self.inputs, self.axes = kind, about, most, inputs, axes


class Python(Library):
    family = "Python"

    def prepare(self, data, kind):
        return array.array("d", bytes(data))

    def bits(self, value):
        return array.array("d", [value]).tobytes()

    def operations(self):
        return {"python/fsum": ("sum", Operation(
            self, math.fsum, "Python fsum", ["f64"], lambda t: ("exact", t),
            "math.fsum over an array.array: the exact sum, rounded once", most=1 << 20))}


class NumPy(Library):
    family = "NumPy"

    def __init__(self, np):
        self.np = np

    def prepare(self, data, kind):
        kind = "<" + kind[0] + str(int(kind[1:]) // 8)
        return self.np.frombuffer(data, kind) if data else self.np.empty(0, kind)

    def bits(self, value):
        return self.np.asarray(value).tobytes()

    def products(self):
        return {"numpy/matmul": Operation(self, self.np.matmul, "NumPy matmul", ("f16", "f32", "f64"), adds("f32"),
                                          "numpy.matmul(a, b)", inputs=2)}

    def product_threads(self):
        return ()  # those of its BLAS, which it has no call for

    def operations(self):
        np = self.np
        floats = ("f16", "f32", "f64")
        numbers = floats + INTEGERS
        add, average = adds("f32"), averages("f32")
        deviation = averages("f32, terms in f16")  # the differences from the mean and their squares
        norm = np.linalg.norm
        table = [
            ("sum", np.sum, numbers, add, "numpy.sum(x)"),
            ("nansum", np.nansum, numbers, add, "numpy.nansum(x)"),
            ("prod", np.prod, numbers, add, "numpy.prod(x)"),
            ("mean", np.mean, numbers, average, "numpy.mean(x)"),
            ("nanmean", np.nanmean, numbers, average, "numpy.nanmean(x)"),
            ("min", np.min, numbers, same, "numpy.min(x)"),
            ("max", np.max, numbers, same, "numpy.max(x)"),
            ("nanmin", np.nanmin, numbers, same, "numpy.nanmin(x)"),
            ("nanmax", np.nanmax, numbers, same, "numpy.nanmax(x)"),
            ("argmin", np.argmin, numbers, gives("i64"), "numpy.argmin(x)"),
            ("argmax", np.argmax, numbers, gives("i64"), "numpy.argmax(x)"),
            ("any", np.any, numbers, gives("u8"), "numpy.any(x)"),
            ("all", np.all, numbers, gives("u8"), "numpy.all(x)"),
            ("count_nonzero", np.count_nonzero, numbers, gives("i64"), "numpy.count_nonzero(x)"),
            ("count_distinct", lambda x: np.unique(x).size, numbers, gives("i64"), "numpy.unique(x).size"),
            ("sum_squares", lambda x: np.dot(x, x), floats, add, "numpy.dot(x, x)"),
            ("norm_l1", lambda x: norm(x, 1), numbers, average, "numpy.linalg.norm(x, 1)"),
            ("norm_l2", norm, numbers, average, "numpy.linalg.norm(x)"),
            ("norm_inf", lambda x: norm(x, np.inf), numbers, average, "numpy.linalg.norm(x, inf)"),
            ("var", np.var, numbers, deviation, "numpy.var(x)"),
            ("std", np.std, numbers, deviation, "numpy.std(x)"),
            ("dot", np.dot, floats, add, "numpy.dot(x, y)"),
        ]
        return {f"numpy/{op}": (op, Operation(self, call, f"NumPy {op}", types, kind, about,
                                              inputs=2 if op == "dot" else 1, axes=op == "sum"))
                for op, call, types, kind, about in table}


class Torch(Library):
    family = "PyTorch"

    def __init__(self, torch, device, deterministic):
        self.torch, self.device, self.deterministic = torch, device, deterministic
        default = torch.get_num_threads()
        self.threads = () if device == "cuda" else (1,) if default == 1 else (default, 1)

    def set_up(self, threads):
        self.torch.use_deterministic_algorithms(self.deterministic)
        if threads != "-":
            self.torch.set_num_threads(int(threads))

    def prepare(self, data, kind):
        torch = self.torch
        kind = getattr(torch, kind.replace("f", "float").replace("i", "int"))
        x = torch.frombuffer(data, dtype=kind) if data else torch.empty(0, dtype=kind)
        return x.to(self.device)

    def bits(self, value):
        return bytes(value.detach().cpu().reshape(-1).view(self.torch.uint8).tolist())

    def products(self):
        if self.deterministic:
            return {}
        about = "torch.matmul(a, b)" + (", cuBLAS" if self.device == "cuda" else "")
        return {f"pytorch/matmul/{self.device}": Operation(
            self, self.torch.matmul, "PyTorch matmul", ("f16", "bf16", "f32", "f64"), adds(""), about, inputs=2)}

    def product_threads(self):
        if self.device == "cuda":
            return self.threads
        default = self.threads[0]
        return (default, *(n for n in (1, 2, 3, 4) if n != default))

    def operations(self):
        torch, norm = self.torch, self.torch.linalg.vector_norm
        floats, wide = ("f16", "bf16", "f32", "f64"), ("f32", "f64")
        numbers = floats + ("i32", "i64")
        # On the CPU, the sums that threads hand over are stored in the type of the result.
        half = "f32" if self.device == "cuda" else "f32, 16 bits between threads"
        add, average = adds(half), averages(half)
        loss = torch.nn.functional
        table = [("sum", torch.sum, numbers, add, "torch.sum(x)")]
        if not self.deterministic:
            table += [
                ("nansum", torch.nansum, floats, add, "torch.nansum(x)"),
                ("prod", torch.prod, numbers, add, "torch.prod(x)"),
                ("mean", torch.mean, floats, average, "torch.mean(x)"),
                ("nanmean", torch.nanmean, floats, average, "torch.nanmean(x)"),
                ("min", torch.min, numbers, same, "torch.min(x)"),
                ("max", torch.max, numbers, same, "torch.max(x)"),
                ("argmin", torch.argmin, numbers, gives("i64"), "torch.argmin(x), any of equal ones"),
                ("argmax", torch.argmax, numbers, gives("i64"), "torch.argmax(x), any of equal ones"),
                ("any", torch.any, numbers, gives("u8"), "torch.any(x)"),
                ("all", torch.all, numbers, gives("u8"), "torch.all(x)"),
                ("count_nonzero", torch.count_nonzero, numbers, gives("i64"), "torch.count_nonzero(x)"),
                ("sum_squares", lambda x: torch.dot(x, x), wide, add, "torch.dot(x, x)"),
                ("norm_l1", lambda x: norm(x, 1), floats, average, "torch.linalg.vector_norm(x, 1)"),
                ("norm_l2", norm, floats, average, "torch.linalg.vector_norm(x)"),
                ("norm_inf", lambda x: norm(x, math.inf), floats, average,
                 "torch.linalg.vector_norm(x, inf)"),
                ("var", lambda x: torch.var(x, correction=0), floats, average, "torch.var(x, correction=0)"),
                ("std", lambda x: torch.std(x, correction=0), floats, average, "torch.std(x, correction=0)"),
                ("logsumexp", lambda x: torch.logsumexp(x, 0), wide, average, "torch.logsumexp(x, 0)"),
                ("dot", torch.dot, wide, add, "torch.dot(x, y)"),
                ("mse", loss.mse_loss, wide, average, "torch.nn.functional.mse_loss(x, y)"),
                ("mae", loss.l1_loss, wide, average, "torch.nn.functional.l1_loss(x, y)"),
                ("cosine", lambda x, y: loss.cosine_similarity(x, y, dim=0), wide, average,
                 "torch.nn.functional.cosine_similarity(x, y, dim=0)"),
            ]
        mode = ", deterministic" if self.deterministic else ""
        after = " after torch.use_deterministic_algorithms(True)" if self.deterministic else ""
        two = ("dot", "mse", "mae", "cosine")
        return {f"pytorch/{op}{mode.replace(', ', '-')}/{self.device}":
                (op, Operation(self, call, f"PyTorch {op}{mode}", types, kind, about + after,
                               inputs=2 if op in two else 1, axes=op == "sum"))
                for op, call, types, kind, about in table}

    def clock(self, call, calls):
        if self.device == "cpu":
            return super().clock(call, calls)
        # In a CUDA graph, so that Python's gaps between launches don't count.
        cuda = self.torch.cuda
        if self.graph_of != calls:
            self.graph = cuda.CUDAGraph()
            with cuda.graph(self.graph):
                for _ in range(calls):
                    call()
            self.graph_of = calls
            self.graph.replay()
        begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        begin.record()
        self.graph.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3

    def seconds(self, call, times):
        self.graph_of = None
        try:
            return super().seconds(call, times)
        finally:
            self.graph = None


def peers(cpu, cuda):
    """What is here: (op, Operation) by key, products by key, and lines of `found` and `missing`."""
    libraries, lines = [], []

    def module(name, shown, package):
        try:
            found = importlib.import_module(name)
        except ImportError as e:
            why = f"python3 has no module {name}: {package}" if e.name == name else one_line(e)
            lines.append(("missing", shown, why))
            return None
        except Exception as e:
            lines.append(("missing", shown, f"import {name}: {one_line(e)}"))
            return None
        lines.append(("found", shown, found.__version__))
        return found

    if cpu:
        lines.append(("found", "Python", sys.version.split()[0]))
        libraries.append(Python())
        np = module("numpy", "NumPy", "apt install python3-numpy, or pip install numpy")
        if np:
            libraries.append(NumPy(np))
    torch = module("torch", "PyTorch", "pip install torch")
    if torch and cpu:
        libraries += [Torch(torch, "cpu", False), Torch(torch, "cpu", True)]
    if torch and cuda:
        if torch.cuda.is_available():
            libraries += [Torch(torch, "cuda", False), Torch(torch, "cuda", True)]
        else:
            lines.append(("missing", "PyTorch on the GPU", "torch.cuda.is_available() is False"))
    return ({key: found for l in libraries for key, found in l.operations().items()},
            {key: found for l in libraries for key, found in l.products().items()}, lines)


def one_line(e):
    return " ".join(str(e).split()) or type(e).__name__


class Helper:
    def __init__(self):
        self.operations, self.products, self.kind, self.arrays, self.prepared = {}, {}, None, [], {}

    def list(self, cpu, cuda):
        self.operations, self.products, lines = peers(cpu == "1", cuda == "1")
        for key, (op, o) in self.operations.items():
            ways = " ".join(map(str, o.package.threads)) or "-"
            for t in o.types:
                acc, out = o.kind(t)
                lines.append(("op", op, key, o.name, o.package.family, o.package.device, t, acc, out,
                              str(o.most), ways, str(int(o.axes)), o.about))
        for key, o in self.products.items():
            ways = " ".join(map(str, o.package.product_threads())) or "-"
            for t in o.types:
                acc, out = o.kind(t)
                lines.append(("product", key, o.name, o.package.family, o.package.device, t, acc, out, ways, o.about))
        return "".join("\t".join(line) + "\n" for line in lines) + "ok"

    def load(self, kind, size, inputs):
        self.kind, self.prepared = kind, {}
        data = bytearray(int(size))
        with open(os.dup(3), "rb") as file:
            file.seek(0)
            got = file.readinto(data) if data else 0
        if got != len(data):
            raise EOFError(f"{got} of {size} bytes")
        part = len(data) // int(inputs)
        self.arrays = [memoryview(data)[k * part:(k + 1) * part] for k in range(int(inputs))]
        return "ok"

    def _prepared(self, o, threads):
        where = (type(o.package), o.package.device)
        if where not in self.prepared:
            self.prepared[where] = [o.package.prepare(a, self.kind) for a in self.arrays]
        o.package.set_up(threads)
        return self.prepared[where]

    def _ready(self, key, threads, shape):
        o = self.operations[key][1]
        arrays = self._prepared(o, threads)[:o.inputs]
        if shape:
            rows, columns, axis = map(int, shape)
            x = arrays[0].reshape(rows, columns)
            return o, lambda: o.call(x, axis=axis)
        return o, lambda: o.call(*arrays)

    def run(self, key, threads, *shape):
        o, call = self._ready(key, threads, shape)
        value = call().reshape(-1)[0] if shape else call()
        return "ok\t" + o.package.bits(value)[::-1].hex()

    def time(self, key, threads, times, *shape):
        o, call = self._ready(key, threads, shape)
        return "ok\t" + " ".join(map(repr, o.package.seconds(call, int(times))))


    def _product(self, key, threads, shape):
        o = self.products[key]
        x, = self._prepared(o, threads)
        rows, inner, columns, left, right = map(int, shape)

        def matrix(part, m, n, by_columns):
            return part.reshape(n, m).T if by_columns else part.reshape(m, n)

        a = matrix(x[:rows * inner], rows, inner, left)
        b = matrix(x[rows * inner:], inner, columns, right)
        return o, lambda: o.call(a, b)

    def product(self, key, threads, *shape):
        o, call = self._product(key, threads, shape)
        return "ok\t" + o.package.bits(call()).hex()

    def time_product(self, key, threads, times, *shape):
        o, call = self._product(key, threads, shape)
        return "ok\t" + " ".join(map(repr, o.package.seconds(call, int(times))))


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    helper = Helper()
    for line in sys.stdin:
        name, *arguments = line.rstrip("\n").split("\t")
        try:
            answer = getattr(helper, name)(*arguments)
        except Exception as e:
            answer = f"error\t{type(e).__name__}: {one_line(e)}"
        print(answer, file=answers, flush=True)


main()
