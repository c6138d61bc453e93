"""What the benches of shapes in Python share: cases by name, as bench/shapes.hpp names them, and the file of results."""
import json


def text(extents, axes):
    return "x".join(map(str, extents)) + "_over_" + "".join(map(str, axes))


def result(who, dtype, extents, axes, size, seconds):
    """One case of `size` bytes."""
    return {"name": f"{who}/{dtype}/{text(extents, axes)}", "real_time": seconds * 1e6, "time_unit": "us",
            "bytes_per_second": size / seconds}


def write(path, context, results, key="benchmarks"):
    with open(path, "w") as f:
        f.write('{"context": ' + json.dumps(context) + f',\n"{key}": [\n' + ",\n".join(map(json.dumps, results)) + "\n]}\n")
