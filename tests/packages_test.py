#!/usr/bin/env python3
"""What the packages of packaging/ say is what CMake and pyproject.toml say: the version, the licence, what is needed.
Usage: packages_test.py SOURCE"""
import json
import re
import sys
import unittest
from pathlib import Path

SOURCE = Path(sys.argv[1])
CMAKE, PYPROJECT, RECIPE, CONTAINER, SETUP = (
    (SOURCE / name).read_text() for name in
    ("CMakeLists.txt", "pyproject.toml", "packaging/conda/recipe.yaml", "packaging/Containerfile", "scripts/setup"))  # fmt: skip
PORT = json.loads((SOURCE / "packaging/vcpkg/vcpkg.json").read_text())
VERSION = re.search(r"^project\(bitfold VERSION ([\d.]+)", CMAKE, re.M)[1]
# What CMake asks for, by its names there: the names in conda-forge, vcpkg and Debian. Tests and benches are not packaged.
NAMES = {"hwy": ("libhwy", "highway", "libhwy-dev"), "xxhash.h": ("xxhash", "xxhash", "libxxhash-dev"),
         "libxxhash": ("xxhash", "xxhash", "libxxhash-dev"), "fmt": ("fmt", "fmt", "libfmt-dev"),
         "nlohmann_json": ("nlohmann_json", "nlohmann-json", "nlohmann-json3-dev"), "ZLIB": ("zlib", "zlib", "zlib1g-dev"),
         "CLI11": ("cli11", "cli11", "libcli11-dev"), "PkgConfig": ("pkg-config", "pkgconf", "pkg-config"),
         "mpfr": ("mpfr", "mpfr", "libmpfr-dev"), "gmp": ("gmp", "gmp", "libgmp-dev"),
         "Boost": ("libboost-headers", "boost-multiprecision", "libboost-dev")}  # fmt: skip
OF_THE_SYSTEM = {"Threads", "CUDAToolkit"}
LIBRARY_ALONE = {"hwy", "xxhash.h"}  # what a build without the command line asks for


def of_toml(key):
    return re.search(rf"^{key} = (.*)$", PYPROJECT, re.M)[1]


def of_recipe(section):
    """The entries of a list of the recipe, without templates."""
    body = re.search(rf"^  {section}:\n((?:    .*\n)+)", RECIPE, re.M)[1]
    return {line for line in re.findall(r"^    - (.*)$", body, re.M) if not line.startswith("${{")}


def of_port(dependencies):
    return {d if isinstance(d, str) else d["name"] for d in dependencies}


class Packages(unittest.TestCase):
    def test_version(self):
        self.assertIn(f'\n  version: "{VERSION}"\n', RECIPE)
        self.assertEqual(PORT["version"], VERSION)
        self.assertIn(f'org.opencontainers.image.version="{VERSION}"', CONTAINER)

    def test_licence_and_description(self):
        licence, description = of_toml("license"), of_toml("description")
        self.assertIn(f"\n  license: {json.loads(licence)}\n", RECIPE)
        self.assertEqual(PORT["license"], json.loads(licence))
        self.assertIn(f"org.opencontainers.image.licenses={licence}", CONTAINER)
        self.assertIn(f"\n  summary: {description}\n", RECIPE)
        self.assertEqual(PORT["description"], json.loads(description))
        self.assertIn(f"DESCRIPTION {description}", CMAKE)

    def test_what_python_needs(self):
        spaced = lambda requirements: {re.sub(r"(>=)", r" \1", r) for r in json.loads(requirements)}
        self.assertEqual(of_recipe("run"), spaced(of_toml("dependencies")) | {f"python {json.loads(of_toml('requires-python'))}"})
        self.assertLessEqual(spaced(of_toml("requires")), of_recipe("host"))
        self.assertIn(f"cmake >={re.match(r'cmake_minimum_required.VERSION ([0-9.]+)', CMAKE)[1]}", of_recipe("build"))

    def test_what_cmake_needs(self):
        text = CMAKE[: CMAKE.index("# ---- Install")] + (SOURCE / "accuracy/CMakeLists.txt").read_text()
        needed = set(re.findall(r"find_package\((\w+)", text)) | set(re.findall(r"pkg_check_modules\(\w+ REQUIRED IMPORTED_TARGET (\w+)", text))
        needed |= set(re.findall(r"find_(?:path|library)\(\w+ ([\w.]+) REQUIRED", text))
        self.assertEqual(needed - OF_THE_SYSTEM, set(NAMES))
        conda = {line.split()[0] for line in of_recipe("build") | of_recipe("host")}
        self.assertEqual(conda - {NAMES[n][0] for n in NAMES}, {"cmake", "ninja", "python", "pip", "scikit-build-core", "nanobind"})
        self.assertLessEqual({NAMES[n][0] for n in NAMES}, conda)
        base = {NAMES[n][1] for n in LIBRARY_ALONE}
        self.assertEqual(of_port(PORT["dependencies"]), base | {"vcpkg-cmake", "vcpkg-cmake-config"})
        self.assertEqual(of_port(PORT["features"]["tools"]["dependencies"]), {NAMES[n][1] for n in NAMES} - base)
        self.assertLessEqual({NAMES[n][2] for n in NAMES}, set(SETUP.split()))  # of which the image is built

    def test_the_image_has_what_is_compiled(self):
        copied = set(re.findall(r"^COPY (\S+) \S+$", CONTAINER, re.M))
        self.assertEqual({"accuracy", "bench", "cmake", "include", "scripts", "scripts/setup", "src"} - copied, set())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
