# What device code includes: of include/bitfold/, and of the standard library.
set(device_headers
  arith.hpp arith.inl channel_functions.hpp channel_inputs.hpp config.hpp dtype.hpp exact.hpp fold.hpp fold.inl formats.hpp method.hpp method.inl
  op.hpp ops.inl order.hpp order.inl product_sum.hpp product_sum.inl row_functions.hpp row_inputs.hpp strict_math.hpp strides.hpp
  ops/counts.inl ops/extrema.inl ops/logsumexp.inl ops/moments.inl ops/norms.inl ops/products.inl
  ops/scale.inl ops/sums.inl cuda/across.cuh cuda/channel_sums.cuh cuda/channels.cuh cuda/columns.cuh
  cuda/contributions.cuh cuda/contributions.hpp cuda/device.cuh cuda/distinct.cuh
  cuda/distinct.hpp cuda/elements.cuh cuda/engine.cuh
  cuda/exact.cuh cuda/exact_adders.cuh cuda/exact_cells.cuh cuda/exact_finish.cuh
  cuda/exact_integers.cuh cuda/exact_levels.cuh cuda/exact_outputs.cuh cuda/exact_results.cuh
  cuda/exact_sizes.hpp cuda/few_products.cuh cuda/few_products.hpp cuda/folds.cuh cuda/fused.cuh cuda/keyed_lines.cuh cuda/keyed_rows.cuh
  cuda/keys.cuh cuda/linked.cuh cuda/linked.hpp cuda/outputs.cuh cuda/outputs.hpp cuda/packets.cuh
  cuda/patches.cuh cuda/places.cuh cuda/product_digits.cuh cuda/product_tiles.cuh cuda/product_tiles.hpp cuda/products.cuh cuda/products.hpp
  cuda/rows.cuh cuda/rows.hpp cuda/rows_across.cuh cuda/scatter.hpp cuda/scattered.cuh
  cuda/segments.cuh cuda/short_rows.cuh cuda/sort.cuh
  cuda/sort.hpp cuda/states.cuh cuda/sums_of_rows.cuh cuda/teams.cuh cuda/threads.cuh
  cuda/tile.hpp cuda/warps.cuh)
set(standard_headers
  algorithm array bit cfloat cmath compare cstddef cstdint cstdio cstdlib limits optional string_view
  type_traits utility)
