#!/usr/bin/env python3
"""Products on a GPU: bitfold.matmul beside PyTorch's (cuBLAS, TF32 off), and convolutions and attention under bitfold.torch.deterministic() beside
torch's own (cuDNN, flash), each in turn with the other in one process: device time of the fastest of several, in us, and how many times as long
torch takes; and the largest error of products, beside f64's, over the largest result.
Usage: gpu_products.py [--cases REGEX] [--commit COMMIT] > bench/results/gpu-products-MACHINE.txt"""

import argparse
import re
import sys
from contextlib import nullcontext

import torch

import bitfold
import bitfold.torch

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--cases", default=".", help="those whose names this finds")
parser.add_argument("--commit", default="not said")
OPTIONS = parser.parse_args()
CASES = re.compile(OPTIONS.cases)
F = torch.nn.functional
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


def fastest(calls, most=20, milliseconds=300.0):
    """Of each call, in us of device time. Those under the mode enter it before the time begins."""
    best = [float("inf")] * len(calls)
    for mode, call in calls:
        with mode():
            call(), call()
    spent = 0.0
    for turn in range(most):
        for k, (mode, call) in enumerate(calls):
            with mode():
                torch.cuda.synchronize()
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                call()
                end.record()
                end.synchronize()
            best[k] = min(best[k], begin.elapsed_time(end))
            spent += begin.elapsed_time(end)
        if turn >= 4 and spent > milliseconds:
            break
    return [1000 * t for t in best]


def randn(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator("cuda").manual_seed(1), device="cuda", dtype=torch.float32).to(dtype)


def say(name, calls):
    if CASES.search(name):
        ours, theirs = fastest(calls())
        print(f"{name:62} {ours:9.1f} us {theirs / ours:7.2f} x torch's speed", flush=True)


def error(x, truth):
    return float((x.double() - truth).abs().max() / truth.abs().max())


def products():
    shapes = [(1024, 1024, 1024), (4096, 4096, 4096), (8192, 8192, 8192), (8192, 4096, 14336), (8192, 4096, 50257), (1, 4096, 4096), (16, 4096, 14336), (64, 4096, 14336)]
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        for m, k, n in shapes if dtype is not torch.float64 else shapes[:2]:
            a, b = randn(m, k, dtype=dtype), randn(n, k, dtype=dtype).t()
            say(f"matmul {str(dtype)[6:]} {m} x {k} x {n}", lambda: ((nullcontext, lambda: bitfold.matmul(a, b)), (nullcontext, lambda: a @ b)))
        for kind in ("normal", "column", "single"):
            name = f"error {str(dtype)[6:]} {kind} 1024 x 4096 x 1024"
            if not CASES.search(name):
                continue
            a, b = randn(1024, 4096, dtype=dtype), randn(4096, 1024, dtype=dtype)
            if kind == "column":
                a[:, ::511] *= 1000
            if kind == "single":
                a[:, 77] *= 1000
            truth = a.double() @ b.double() if dtype is not torch.float64 else None
            if truth is not None:
                print(f"{name:62} {error(bitfold.matmul(a, b), truth):9.1e}    torch's {error(a @ b, truth):.1e}", flush=True)


def beside_torch(name, f):
    say(name, lambda: ((bitfold.torch.deterministic, f), (nullcontext, f)))


def with_gradients(f, *inputs):
    inputs = [x.requires_grad_() for x in inputs]
    g = torch.ones_like(f(*inputs))
    return lambda: torch.autograd.grad(f(*inputs), inputs, g)


def layers():
    for dtype in (torch.float32, torch.bfloat16):
        q, k, v = (randn(16, 16, 2048, 128, dtype=dtype) for _ in range(3))
        name = f"attention {str(dtype)[6:]} 16 x 16 x 2048 x 128"
        attend = lambda: F.scaled_dot_product_attention(q, k, v)
        beside_torch(name, attend)
        both = with_gradients(F.scaled_dot_product_attention, q, k, v)
        beside_torch(name + " with gradients", both)
        for c, out, size, taps, stride in ((64, 64, 56, 3, 1), (256, 64, 56, 1, 1), (128, 128, 28, 3, 1), (512, 512, 7, 3, 1), (3, 64, 224, 7, 2)):
            x, w = randn(32, c, size, size, dtype=dtype), randn(out, c, taps, taps, dtype=dtype)
            convolve = lambda x, w: F.conv2d(x, w, padding=taps // 2, stride=stride)
            name = f"conv2d {str(dtype)[6:]} 32 x {c} x {size} x {size}, {out} of {taps} x {taps}"
            beside_torch(name, lambda: convolve(x, w))
            both = with_gradients(convolve, x, w)
            beside_torch(name + " with gradients", both)


def main():
    print(f"# {torch.cuda.get_device_name()}, PyTorch {torch.__version__}, TF32 off, commit {OPTIONS.commit}: python {' '.join(sys.argv)}", flush=True)
    products()
    layers()


if __name__ == "__main__":
    main()
