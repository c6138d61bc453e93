"""Other people's tests of reductions, with bitfold's in place of NumPy's (numpy_with_bitfold.py).

Usage: run.py [--array-api-tests FOLDER]    a checkout of https://github.com/data-apis/array-api-tests, with its submodule

NumPy's own tests are those that it installs. Each that is left out stands below with its reason.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import numpy

HERE = Path(__file__).parent
NUMPY_TESTS = {
    "_core/tests/test_multiarray.py": "TestArgmax or TestArgmin or TestMinMax or TestStats",
    "lib/tests/test_nanfunctions.py": "nansum or nanmean or nanmin or nanmax or NanFunctions_MinMax or SumProd",
    "_core/tests/test_numeric.py": "TestNonarrayArgs or TestNonzeroAndCountNonzero or TestStdVar",
}
LEFT_OUT = {
    "test_allnans and MinMax": "asks for NumPy's RuntimeWarning: bitfold gives the same values and warns of nothing",
    "test_subclass": "asks for a subclass of ndarray to come back: bitfold's results are plain arrays",
    "TestNonarrayArgs and test_mean and not keyword": "asks for NumPy's RuntimeWarning, of no elements",
    "TestNonarrayArgs and (test_std or test_var) and not keyword": "asks for NumPy's RuntimeWarning, of no elements",
    "mean_keyword_keepdims_false": "asks for the bits of NumPy's var with mean=, whose order is another one",
    "TestStats and test_ddof_too_big": "asks for NumPy's RuntimeWarning",
    "TestMinMax and (test_scalar or test_axis) and test_multiarray": "asks for AxisError: bitfold raises ValueError, its base",
    "test_correction": "asks for NumPy's words where both ddof and correction are given: bitfold's are others",
}
ARRAY_API_TESTS = ["test_statistical_functions.py", "test_utility_functions.py", "test_searching_functions.py"]


def pytest(where, *arguments, **environment):
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "numpy_with_bitfold", *map(str, arguments)],
                          cwd=where, env=os.environ | {"PYTHONPATH": path} | environment).returncode


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--array-api-tests", type=Path, metavar="FOLDER")
    given = options.parse_args()
    failed = False
    left_out = " or ".join(f"({name})" for name in LEFT_OUT)
    for name, reason in LEFT_OUT.items():
        print(f"left out: {name}: {reason}")
    folder = Path(numpy.__file__).parent
    for file, which in NUMPY_TESTS.items():
        print(f"NumPy {numpy.__version__}, {file}", flush=True)
        failed |= pytest(HERE, folder / file, "-k", f"({which}) and not ({left_out})", "-W", "ignore::pytest.PytestWarning") != 0
    if given.array_api_tests:
        print("array-api-tests", flush=True)
        tests = [given.array_api_tests / "array_api_tests" / file for file in ARRAY_API_TESTS]
        failed |= pytest(given.array_api_tests, *tests, ARRAY_API_TESTS_MODULE="numpy_with_bitfold") != 0
    return int(failed)


sys.exit(main())
