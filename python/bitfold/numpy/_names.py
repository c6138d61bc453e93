"""What bitfold.numpy has from NumPy: nothing that adds up, and nothing that rounds but as IEEE 754 says of single operations."""

_TYPES = """
    ndarray generic number integer signedinteger unsignedinteger inexact floating bool bool_ str_ bytes_ object_
    int8 int16 int32 int64 uint8 uint16 uint32 uint64 intp uintp int_ uint intc uintc short ushort long ulong longlong ulonglong
    byte ubyte half single double float16 float32 float64 dtype finfo iinfo result_type promote_types can_cast issubdtype isdtype
    min_scalar_type pi e inf nan euler_gamma newaxis errstate seterr geterr ndindex ndenumerate s_ index_exp memmap random typing
"""
_ARRAYS = """
    array asarray asanyarray ascontiguousarray asfortranarray require copy copyto from_dlpack frombuffer fromfile fromfunction fromiter
    empty empty_like zeros zeros_like ones ones_like full full_like eye identity arange linspace diag diagonal tri tril triu tril_indices
    triu_indices diag_indices indices meshgrid mgrid ogrid load save savez savez_compressed loadtxt savetxt
    shape ndim size reshape ravel transpose permute_dims matrix_transpose swapaxes moveaxis rollaxis squeeze expand_dims atleast_1d
    atleast_2d atleast_3d broadcast_to broadcast_arrays broadcast_shapes concatenate concat stack vstack hstack dstack column_stack
    block split array_split hsplit vsplit dsplit unstack tile repeat delete insert append resize flip fliplr flipud roll rot90
    take take_along_axis put put_along_axis compress extract choose select place putmask fill_diagonal astype
    lib array_repr array_str array2string set_printoptions get_printoptions printoptions isscalar iterable
    may_share_memory shares_memory unravel_index ravel_multi_index
"""
_ORDER = """
    lexsort searchsorted nonzero flatnonzero argwhere where unique_all isin digitize
"""
_ELEMENTS = """
    add subtract multiply divide true_divide floor_divide remainder mod fmod divmod negative positive absolute abs fabs sign
    signbit copysign sqrt square reciprocal floor ceil trunc rint fix round around modf frexp ldexp nextafter spacing
    minimum maximum fmin fmax clip nan_to_num real equal not_equal less less_equal greater greater_equal isclose allclose array_equal
    array_equiv isfinite isinf isnan isneginf isposinf isreal isrealobj logical_and logical_or logical_xor logical_not
    bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_invert invert left_shift right_shift bitwise_left_shift
    bitwise_right_shift bitwise_count gcd lcm outer packbits unpackbits
"""
AS_NUMPY = frozenset(f"{_TYPES} {_ARRAYS} {_ORDER} {_ELEMENTS}".split())
