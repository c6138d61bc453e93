import collections
import itertools
import os

import hypothesis

from samples import whole

# Before torch is loaded: its threads sleep where they wait for others, which in loops would take the cores from tests beside these.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# Inductor's helpers each load torch, which takes longer than the few kernels that they compile here.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
# And what torch warns of here, as it will be an error, is one, as it is where CI is set.
os.environ.setdefault("TORCHINDUCTOR_ERROR_ON_CUSTOM_OP_ALIASING", "1")

hypothesis.settings.register_profile("bitfold", deadline=None, derandomize=True, database=None, max_examples=200)
hypothesis.settings.load_profile("bitfold")


def pytest_addoption(parser):
    parser.addoption("--shard", default="1/1", metavar="K/N", help="of N parts of the tests the K-th alone")


def pytest_collection_modifyitems(config, items):
    """Of a test with many cases alike one in so many, always the same; all of them by BITFOLD_WHOLE=1. Of these one shard."""
    if not whole():
        keep(config, items, sampled(items))
    shard, shards = map(int, config.getoption("shard").split("/"))
    keep(config, items, [k % shards == shard - 1 for k in range(len(items))])


def keep(config, items, taken):
    config.hook.pytest_deselected(items=list(itertools.compress(items, (not t for t in taken))))
    items[:] = itertools.compress(items, taken)


def sampled(items):
    """Whether each is taken."""
    cases, taken = collections.Counter(), []
    for item in items:
        mark = item.get_closest_marker("sample")
        taken.append(mark is None or cases[item.function] % mark.args[0] == 0)
        cases[item.function] += 1
    return taken
