"""Other people's tests of reductions, with bitfold's in place of NumPy's (numpy_with_bitfold.py).

Usage: run.py [--array-api-tests FOLDER]    a checkout of https://github.com/data-apis/array-api-tests, with its submodule; it wants
                                            pip install -r FOLDER/requirements.txt

NumPy's own tests are those that it installs. Each that is left out stands below with its reason.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import numpy

HERE = Path(__file__).parent
NUMPY_TESTS = {  # test_ufunc.py's test_sum asks for NumPy's RuntimeWarning, of an overflow; what else there sums does so by ufuncs
    "_core/tests/test_einsum.py": ["test_einsum_sums"],
    "_core/tests/test_multiarray.py": ["TestArgmax", "TestArgmin", "TestMinMax", "TestStats"],
    "_core/tests/test_numeric.py": ["TestKeepdims", "TestNonarrayArgs", "TestNonzero", "TestStdVar"],
    "lib/tests/test_function_base.py": ["TestAll", "TestAmax", "TestAmin", "TestAny", "TestProd"],
    "lib/tests/test_nanfunctions.py": ["nansum", "nanmean", "nanmin", "nanmax", "NanFunctions_MinMax", "SumProd"],
}
LEFT_OUT = {
    "test_allnans and MinMax": "asks for NumPy's RuntimeWarning: bitfold gives the same values and warns of nothing",
    "test_subclass": "asks for a subclass of ndarray to come back: bitfold's results are plain arrays",
    "TestKeepdims and test_raise": "asks for a TypeError of a subclass of ndarray whose own sum takes no keepdims, and which is called",
    "TestNonarrayArgs and test_mean and not keyword": "asks for NumPy's RuntimeWarning, of no elements",
    "TestNonarrayArgs and (test_std or test_var) and not keyword": "asks for NumPy's RuntimeWarning, of no elements",
    "mean_keyword_keepdims_false": "asks for the bits of NumPy's var with mean=, whose order is another one",
    "TestStats and test_ddof_too_big": "asks for NumPy's RuntimeWarning",
    "TestMinMax and (test_scalar or test_axis) and test_multiarray": "asks for AxisError: bitfold raises ValueError, its base",
    "test_count_nonzero_axis and not all_dtypes": "asks for AxisError, likewise",
    "test_correction": "asks for NumPy's words where both ddof and correction are given: bitfold's are others",
}
ARRAY_API_TESTS = {
    "test_statistical_functions.py": ["test_max", "test_mean", "test_min", "test_prod", "test_std", "test_sum", "test_var"],
    "test_searching_functions.py": ["test_argmax", "test_argmin", "test_count_nonzero"],
    "test_utility_functions.py": ["test_all", "test_any"],
}
ARRAY_API_LEFT_OUT = {
    "test_cumulative_sum and test_cumulative_prod": "bitfold has no scans: NumPy's own would be tested",
    "test_nonzero, test_nonzero_zerodim_error, test_where, test_searchsorted and test_searchsorted_with_scalars": "no reductions: likewise",
    "test_diff and test_diff_append_prepend": "no reductions: likewise",
}


def pytest(where, *arguments, **environment):
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "numpy_with_bitfold", *map(str, arguments)],
                          cwd=where, env=os.environ | {"PYTHONPATH": path} | environment).returncode


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--array-api-tests", type=Path, metavar="FOLDER")
    options.add_argument("--max-examples", type=int, default=1000, metavar="N",
                         help="their own option, of which most of these draw a tenth (default: 1000)")
    given = options.parse_args()
    failed = False
    left_out = " or ".join(f"({name})" for name in LEFT_OUT)
    for name, reason in LEFT_OUT.items():
        print(f"left out: {name}: {reason}")
    folder = Path(numpy.__file__).parent
    for file, which in NUMPY_TESTS.items():
        print(f"NumPy {numpy.__version__}, {file}", flush=True)
        failed |= pytest(HERE, folder / file, "-k", f"({' or '.join(which)}) and not ({left_out})", "-W", "ignore::pytest.PytestWarning",
                         ASKED_FOR=" ".join(which)) != 0
    if given.array_api_tests:
        for name, reason in ARRAY_API_LEFT_OUT.items():
            print(f"left out: {name}: {reason}")
        import bitfold

        commit = subprocess.run(["git", "-C", given.array_api_tests, "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
        print(f"array-api-tests {commit}, bitfold {bitfold.__version__}, NumPy {numpy.__version__}, {sys.implementation.name} "
              f"{sys.version.split()[0]}", flush=True)
        tests = [f"array_api_tests/{file}::{test}" for file, names in ARRAY_API_TESTS.items() for test in names]
        failed |= pytest(given.array_api_tests.resolve(), *tests, "--disable-deadline", "--derandomize", f"--max-examples={given.max_examples}",
                         ARRAY_API_TESTS_MODULE="numpy_with_bitfold") != 0
    return int(failed)


sys.exit(main())
