# What device code includes: of include/bitfold/, and of the standard library.
set(device_headers
  arith.hpp arith.inl config.hpp dtype.hpp exact.hpp fold.hpp fold.inl method.hpp method.inl op.hpp
  ops.inl order.hpp order.inl strict_math.hpp ops/counts.inl ops/extrema.inl ops/logsumexp.inl
  ops/moments.inl ops/norms.inl ops/products.inl ops/scale.inl ops/sums.inl
  row_functions.hpp row_inputs.hpp strides.hpp
  cuda/columns.cuh cuda/device.cuh cuda/elements.cuh cuda/engine.cuh cuda/folds.cuh cuda/fused.cuh
  cuda/outputs.cuh cuda/outputs.hpp cuda/places.cuh cuda/rows.cuh cuda/rows.hpp cuda/segments.cuh
  cuda/states.cuh cuda/sums_of_rows.cuh cuda/teams.cuh cuda/threads.cuh cuda/tile.hpp cuda/warps.cuh)
set(standard_headers
  algorithm array bit cfloat cmath compare cstddef cstdint cstdio cstdlib limits optional string_view
  type_traits utility)
