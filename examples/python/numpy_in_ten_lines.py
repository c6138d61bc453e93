import bitfold
import numpy as np

x = np.random.default_rng(0).standard_normal((64, 1000)).astype(np.float32)
rows = bitfold.sum(x, axis=1)
assert rows[7] == bitfold.sum(x[7])  # the bits of a row do not depend on the batch it is in
assert bitfold.same_bits(rows, bitfold.sum(np.asfortranarray(x), axis=1))  # nor on the layout, the threads, the machine
mean, spread = bitfold.reduce(x, ["mean", ("std", {"ddof": 1})], axis=0)  # in one pass over the data
assert bitfold.sum(x, method="exact") == bitfold.sum(x[::-1], method="exact")  # the true value, whatever the order
print(rows[:3], mean.shape, spread.dtype, bitfold.ulp_distance(bitfold.sum(x), bitfold.sum(x, method="kahan")))
