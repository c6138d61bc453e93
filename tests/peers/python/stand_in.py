"""What the stand-ins compute, plainly and in doubles or integers: by the operation's name, a function of one
or two lists."""
import math
from operator import mul, sub


def numbers(x):
    return [v for v in x if v == v]


def mean(x):
    return sum(x) / len(x)


def var(x):
    middle = mean(x)
    return mean([(v - middle) ** 2 for v in x])


def norm(x):
    return math.sqrt(sum(map(mul, x, x)))


def logsumexp(x):
    most = max(x)
    return most + math.log(sum(math.exp(v - most) for v in x))


def dot(x, y):
    return sum(map(mul, x, y))


def lines(x, shape, axis):
    """The rows (axis 1) or the columns (axis 0) of a list that is a matrix."""
    rows, columns = shape
    assert len(x) == rows * columns
    return [x[k * columns:(k + 1) * columns] for k in range(rows)] if axis == 1 else [x[k::columns] for k in range(columns)]


def transposed(x, shape):
    """The elements of the transpose of a list that is a matrix."""
    return [v for line in lines(x, shape, 0) for v in line]


def product(x, x_shape, y, y_shape):
    assert x_shape[1] == y_shape[0]
    return [dot(row, column) for row in lines(x, x_shape, 1) for column in lines(y, y_shape, 0)]


OPERATIONS = {
    "sum": sum, "prod": math.prod, "mean": mean, "min": min, "max": max, "any": any, "all": all, "var": var,
    "nansum": lambda x: sum(numbers(x)), "nanmean": lambda x: mean(numbers(x)),
    "nanmin": lambda x: min(numbers(x)), "nanmax": lambda x: max(numbers(x)),
    "argmin": lambda x: x.index(min(x)), "argmax": lambda x: x.index(max(x)),
    "count_nonzero": lambda x: sum(v != 0 for v in x), "std": lambda x: math.sqrt(var(x)),
    "count_distinct": lambda x: len(set(numbers(x))) + (len(numbers(x)) < len(x)), "logsumexp": logsumexp,
    "norm_1": lambda x: sum(map(abs, x)), "norm_2": norm, "norm_inf": lambda x: max(map(abs, x)), "dot": dot,
    "mse": lambda x, y: mean([v * v for v in map(sub, x, y)]),
    "mae": lambda x, y: mean(list(map(abs, map(sub, x, y)))),
    "cosine": lambda x, y: dot(x, y) / (norm(x) * norm(y)),
}
