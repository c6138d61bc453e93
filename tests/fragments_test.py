#!/usr/bin/env python3
"""The C++ that the documents show: each block is a file of examples/ as it stands, which is compiled and run elsewhere, or a fragment
that compiles behind what it is said here to stand after.
Usage: fragments_test.py ROOT COMPILER"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

#: By the document and what its fragment begins with: the headers, and what is there before. `{}` is the fragment.
FRAGMENTS = {
    ("shapes.md", "const auto turned = permuted"): ("testing.hpp reduce.hpp", "int f(const view_of<float>& x) {{ {} return 0; }}"),
    ("shapes.md", "const scattering onto"): ("scatter.hpp", "void f(const view& x, const view& keys, const view& base, void* out) {{ {} }}"),
    ("shapes.md", "const std::size_t bytes"): (
        "cuda.hpp",
        "void f(std::span<const reduction> both, const view& x, std::span<const int> axes, std::span<void* const> out, void* work,"
        " cuda::stream stream) {{ {} }}",
    ),
    ("cuda.md", "const auto request"): ("cuda.hpp", "void f(std::span<const reduction> all, std::size_t n) {{ {} }}"),
    ("exact.md", "using namespace bitfold;"): ("reduce.hpp", "void f(std::span<const float> x) {{ {} }}"),
    ("exact.md", "bitfold::totals norm"): (
        "totals.hpp",
        "void f(const std::vector<std::vector<float>>& gradients, const totals& of_another_thread) {{ {} }}",
    ),
    ("exact.md", "bitfold::accumulator<double> sum"): (
        "accumulator.hpp",
        "void f(std::span<const double> first_half, const accumulator<double>& other_sum, std::span<const float> gradients,"
        " const accumulator<float>& sums, std::uint64_t n) {{ {} }}",
    ),
}
#: What only nvcc compiles; tests/own_cuda_test.cu makes the same calls.
OF_NVCC = {("own.md", "const auto pass = cuda::make_pass")}


def blocks(root):
    for page in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
        for m in re.finditer(r"^```cpp\n(.*?)^```$", page.read_text(), re.S | re.M):
            yield page.name, m[1]


def main(root, compiler):
    root = Path(root)
    examples = {f.read_text() for f in (root / "examples").iterdir() if f.suffix in (".cpp", ".hpp", ".cu")}
    headers, functions, known = set(), [], dict(FRAGMENTS)
    for page, code in blocks(root):
        if code in examples:
            continue
        body = re.sub(r"^#include .*\n", "", code, flags=re.M).strip()
        key = next((k for k in known if k[0] == page and body.startswith(k[1])), None)
        if any(k[0] == page and body.startswith(k[1]) for k in OF_NVCC):
            continue
        if not key:
            sys.exit(f"docs/{page}: this is no file of examples/, and is not known here:\n{code}")
        of, text = known.pop(key)
        headers |= set(of.split())
        functions.append(f"namespace fragment_{len(functions)} {{\n" + text.format(f"\n{body}\n") + "\n}")
    if known:
        sys.exit(f"no document has {sorted(known)}")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "fragments.cpp"
        lines = [f"#include <bitfold/{h}>" for h in sorted(headers)] + ["#include <iostream>", "using namespace bitfold;"]
        source.write_text("\n".join(lines + functions) + "\n")
        subprocess.run([compiler, "-std=c++20", "-ffp-contract=off", "-fsyntax-only", f"-I{root / 'include'}", source], check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
