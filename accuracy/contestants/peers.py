"""NumPy, PyTorch and Python's own fsum, for the accuracy suite: a helper process that answers on
standard output what it is asked on standard input, a line for a line, fields separated by tabs.

  list CPU CUDA       1 or 0 each; answers several lines, the last of them "ok":
                        found NAME VERSION
                        missing NAME WHY
                        sum KEY NAME FAMILY DEVICE IN ACC OUT MOST WAYS ABOUT
                      MOST: the longest array it is asked for, 0 for any; WAYS: thread counts, the
                      default first, or "-" for one way without threads of its own
  load TYPE BYTES     the array, from the start of file descriptor 3; "ok"
  run KEY THREADS     "ok" and the bits of the sum, in hex
  time KEY THREADS N  "ok" and N times in seconds, each the mean over at least 0.2 ms of calls

Whatever goes wrong is answered by "error" and a line of text. Another sum goes into peers()."""
import array
import importlib
import math
import os
import sys
import time

if sys.path and sys.path[0] == "":  # put there by -c: a numpy.py of the user's is not meant
    del sys.path[0]

ENOUGH = 200e-6  # seconds of a sample


class Sum:
    """One contestant: prepare(data, type) makes its own array, call(array) sums it, and bits(sum) are
    the bytes of what it gave."""

    def __init__(self, name, family, types, about, *, acc, device="cpu", most=0, threads=()):
        self.name, self.family, self.types, self.about = name, family, types, about
        self.acc, self.device, self.most, self.threads = acc, device, most, threads

    def set_up(self, threads):
        """Before every run: what its library keeps for all."""

    def seconds(self, x, times):
        self.call(x)
        calls = 1
        while True:
            took = self.clock(x, calls)
            if took >= ENOUGH or calls >= 1 << 20:
                break
            calls = math.ceil(calls * max(2, 1.2 * ENOUGH / max(took, 1e-9)))
        return [self.clock(x, calls) / calls for _ in range(times)]

    def clock(self, x, calls):
        begin = time.perf_counter()
        for _ in range(calls):
            self.call(x)
        return time.perf_counter() - begin


class Fsum(Sum):
    def __init__(self):
        super().__init__("Python fsum", "Python", ["f64"],
                         "math.fsum over an array.array: the exact sum, rounded once",
                         acc="exact", most=1 << 20, threads=[1])

    def prepare(self, data, kind):
        return array.array("d", bytes(data))

    call = staticmethod(math.fsum)

    def bits(self, value):
        return array.array("d", [value]).tobytes()


class NumPySum(Sum):
    def __init__(self, np):
        self.np = np
        super().__init__("NumPy sum", "NumPy", ["f16", "f32", "f64"], "numpy.sum(x)",
                         acc={"f16": "f32", "f32": "f32", "f64": "f64"}, threads=[1])

    def prepare(self, data, kind):
        kind = {"f16": "<f2", "f32": "<f4", "f64": "<f8"}[kind]
        return self.np.frombuffer(data, kind) if data else self.np.empty(0, kind)

    def call(self, x):
        return self.np.sum(x)

    def bits(self, value):
        return value.tobytes()


class TorchSum(Sum):
    def __init__(self, torch, device, deterministic):
        self.torch, self.deterministic = torch, deterministic
        default = torch.get_num_threads()
        threads = [] if device == "cuda" else [1] if default == 1 else [default, 1]
        about = "torch.sum(x)"
        # On the CPU, the sums that threads hand over are stored in the type of the result.
        half = "f32" if device == "cuda" else "f32, {} between threads"
        if deterministic:
            about += " after torch.use_deterministic_algorithms(True)"
        super().__init__("PyTorch sum" + (", deterministic" if deterministic else ""), "PyTorch",
                         ["f16", "bf16", "f32", "f64"], about, device=device, threads=threads,
                         acc={"f16": half.format("f16"), "bf16": half.format("bf16"),
                              "f32": "f32", "f64": "f64"})

    def set_up(self, threads):
        self.torch.use_deterministic_algorithms(self.deterministic)
        if threads != "-":
            self.torch.set_num_threads(int(threads))

    def prepare(self, data, kind):
        torch = self.torch
        kind = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32,
                "f64": torch.float64}[kind]
        x = torch.frombuffer(data, dtype=kind) if data else torch.empty(0, dtype=kind)
        return x.to(self.device)

    def call(self, x):
        return self.torch.sum(x)

    def bits(self, value):
        return bytes(value.detach().cpu().reshape(1).view(self.torch.uint8).tolist())

    def clock(self, x, calls):
        if self.device == "cpu":
            return super().clock(x, calls)
        # In a CUDA graph, so that Python's gaps between launches don't count.
        cuda = self.torch.cuda
        if self.graph_of != (id(x), calls):
            self.graph = cuda.CUDAGraph()
            with cuda.graph(self.graph):
                for _ in range(calls):
                    self.call(x)
            self.graph_of = (id(x), calls)
            self.graph.replay()
        begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        begin.record()
        self.graph.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3

    def seconds(self, x, times):
        self.graph_of = None
        try:
            return super().seconds(x, times)
        finally:
            self.graph = None


def peers(cpu, cuda):
    """What is here: sums by key, and lines of `found` and `missing`."""
    sums, lines = {}, []

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
        sums["python/fsum"] = Fsum()
        np = module("numpy", "NumPy", "apt install python3-numpy, or pip install numpy")
        if np:
            sums["numpy/sum"] = NumPySum(np)
    torch = module("torch", "PyTorch", "pip install torch")
    if torch and cpu:
        sums["pytorch/sum/cpu"] = TorchSum(torch, "cpu", False)
        sums["pytorch/sum-deterministic/cpu"] = TorchSum(torch, "cpu", True)
    if torch and cuda:
        if torch.cuda.is_available():
            sums["pytorch/sum/cuda"] = TorchSum(torch, "cuda", False)
            sums["pytorch/sum-deterministic/cuda"] = TorchSum(torch, "cuda", True)
        else:
            lines.append(("missing", "PyTorch on the GPU", "torch.cuda.is_available() is False"))
    return sums, lines


def one_line(e):
    return " ".join(str(e).split()) or type(e).__name__


class Helper:
    def __init__(self):
        self.sums, self.kind, self.data, self.prepared = None, None, b"", {}

    def list(self, cpu, cuda):
        self.sums, lines = peers(cpu == "1", cuda == "1")
        for key, s in self.sums.items():
            for t in s.types:
                ways = " ".join(map(str, s.threads)) or "-"
                acc = s.acc if isinstance(s.acc, str) else s.acc[t]
                lines.append(("sum", key, s.name, s.family, s.device, t, acc, t, str(s.most), ways,
                              s.about))
        return "".join("\t".join(line) + "\n" for line in lines) + "ok"

    def load(self, kind, size):
        self.kind, self.data, self.prepared = kind, bytearray(int(size)), {}
        with open(os.dup(3), "rb") as file:
            file.seek(0)
            got = file.readinto(self.data) if self.data else 0
        if got != len(self.data):
            raise EOFError(f"{got} of {size} bytes")
        return "ok"

    def _ready(self, key, threads):
        s = self.sums[key]
        where = (type(s), s.device)
        if where not in self.prepared:
            self.prepared[where] = s.prepare(self.data, self.kind)
        s.set_up(threads)
        return s, self.prepared[where]

    def run(self, key, threads):
        s, x = self._ready(key, threads)
        return "ok\t" + s.bits(s.call(x))[::-1].hex()

    def time(self, key, threads, times):
        s, x = self._ready(key, threads)
        return "ok\t" + " ".join(map(repr, s.seconds(x, int(times))))


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
