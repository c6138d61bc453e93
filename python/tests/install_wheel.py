"""A wheel of a finished build, installed into a fresh environment. Usage: install_wheel.py SOURCE BUILD WORK COMPILER_LAUNCHER"""
import pathlib
import shutil
import subprocess
import sys

source, build, work = map(pathlib.Path, sys.argv[1:4])
shutil.rmtree(work, ignore_errors=True)
work.mkdir(parents=True)


def run(*command, **options):
    print("+", *command, flush=True)
    return subprocess.run([str(c) for c in command], **options)


pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
# What is tested is not how fast it is.
run(*pip, "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", work, f"--config-settings=build-dir={work}/build",
    "--config-settings=cmake.build-type=Debug", "--config-settings=cmake.define.CMAKE_CXX_FLAGS_DEBUG=-O0",
    "--config-settings=cmake.define.BITFOLD_UNITY=ON",
    f"--config-settings=cmake.define.BITFOLD_PREBUILT={build}", f"--config-settings=cmake.define.CMAKE_CXX_COMPILER_LAUNCHER={sys.argv[4]}", source, check=True)
wheel, = work.glob("*.whl")
run(sys.executable, "-m", "venv", work / "fresh", check=True)
bin_ = work / "fresh/bin"
if run(bin_ / "python", "-m", "pip", "download", "--quiet", "--no-deps", "--dest", work / "numpy", "numpy").returncode:
    print("skipped: no NumPy from PyPI")
    sys.exit(77)
run(bin_ / "python", "-m", "pip", "install", "--quiet", "--no-compile", "--find-links", work / "numpy", wheel, check=True)
code = "import bitfold, doctest, sys; assert 'fresh' in bitfold.__file__; sys.exit(doctest.testmod(bitfold).failed)"
run(bin_ / "python", "-c", code, cwd=work, check=True)
told = run(bin_ / "bitfold", "--version", cwd=work, check=True, capture_output=True, text=True).stdout
version = run(bin_ / "python", "-c", "import bitfold; print(bitfold.__version__)", cwd=work, check=True, capture_output=True, text=True).stdout
assert version.strip() in told, (version, told)
assert version.strip() in wheel.name, wheel.name
