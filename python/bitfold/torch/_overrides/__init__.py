"""What torch's own operators become: functions of the same arguments, made of bitfold's reductions and of torch's
elementwise operators, which give each element bits of its own.

`OVERRIDES` has them by the name of the operator and overload. Each takes the method first. They run below autograd, so that
torch's own formulas for gradients, which are made of such operators too, stay as they are.
"""

from . import reductions, softmax, normalisation, losses, by_index, products, convolution, attention  # in the order of the table in docs/pytorch.md
from .by_index import ACCUMULATING, IN_PLACE, index_put, put
from .common import BY_A_NUMBER, COMPOSITE, GRADIENTS, HEADINGS, OVERRIDES, QUICK
