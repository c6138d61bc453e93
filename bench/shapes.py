"""How the benches of shapes in Python name their cases, as bench/shapes.hpp does."""


def name(who, dtype, extents, axes):
    return f"{who}/{dtype}/" + "x".join(map(str, extents)) + "_over_" + "".join(map(str, axes))
