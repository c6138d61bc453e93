#include "tuning.hpp"

#include <algorithm>

namespace bitfold::gpu {
namespace {

// ---- sm_90 --------------------------------------------------------------------------------------

// Beside a line: what requests that it chooses take without it, over the time with it, on an H200
// (bench/results/tuning-h200.jsonl has each, and other numbers; of outputs on axes
// tuning-outputs-h200.jsonl; what is none of its requests has the number of a sweep before it). How
// many tiles an array may have, and what is enough, is a matter of how the last wave of blocks
// fills 132 processors.
constexpr array_line arrays_of_sm_90[] = {
    {"array: leaves in one block", 16, any_number, 16, 0},
    {"array: leaves of small states", 1024, 16, 8, 0},  // 0.99 to 1.07
    {"array: leaves", 1024, any_number, 16, 0},         // 1.15 to 1.73
    {"array: one block", 16, any_number, 16, 16},       // 1.00 to 1.00
    {"array: to 2300 tiles", 2300, any_number, 8, 8},   // 1.03 to 1.08
    {"array: to 3800 tiles", 3800, any_number, 4, 8},   // 1.02 to 1.12
    {"array: to 4500 tiles", 4500, any_number, 8, 16},
    {"array: to 6500 tiles", 6500, any_number, 4, 16},     // 1.05 to 1.15
    {"array: to 9000 tiles", 9000, any_number, 8, 32},     // 1.06 to 1.15
    {"array: to 18000 tiles", 18000, any_number, 4, 32},   // 1.05 to 1.34
    {"array: to 40000 tiles", 40000, any_number, 4, 64},   // 1.06 to 1.20
    {"array: to 70000 tiles", 70000, any_number, 4, 128},  // 1.00 to 1.03
    {"array: to 131071 tiles", 131071, any_number, 4, 64},
    {"array: more tiles", any_number, any_number, 4, 128},
};

constexpr outputs_line outputs_of_sm_90[] = {
    {.name = "outputs: row teams of small states",  // 1.04 to 1.05
     .by = strategy::row_teams,
     .most_state = 4,
     .threads = 64,
     .enough = 1 << 11,
     .most_blocks = 1 << 14},
    {.name = "outputs: row teams",  // 0.71 to 5.29
     .by = strategy::row_teams,
     .threads = 64,
     .enough = 1 << 12,
     .most_blocks = 1 << 14},
    {.name = "outputs: short columns",
     .by = strategy::short_columns,
     .most_elements = order::lanes,
     .most_state = 4,
     .threads = 128},
    {.name = "outputs: short columns, many",  // 0.56 to 1.44
     .by = strategy::short_columns,
     .most_elements = 2 * order::lanes,
     .most_state = 4,
     .least_outputs = 1 << 12,
     .threads = 128},
    // 1.9 (var) and 2.8 (argmax), of 64 f32 at any address against such columns
    {.name = "outputs: lines, neighbours of large states",  // 0.86 to 3.44
     .by = strategy::lines,
     .most_elements = 2 * order::lanes,
     .least_outputs = 1 << 15,
     .only_neighbours = true,
     .threads = 128},
    {.name = "outputs: short columns of large states",
     .by = strategy::short_columns,
     .most_elements = order::lanes,
     .threads = 128},
    {.name = "outputs: short columns of large states, many",
     .by = strategy::short_columns,
     .most_elements = 2 * order::lanes,
     .least_outputs = 1 << 12,
     .threads = 128},
    {.name = "outputs: columns of small states",  // 0.98 to 1.24
     .by = strategy::columns,
     .most_state = 4,
     .threads = 128,
     .enough = 1 << 16},
    {.name = "outputs: columns",  // 0.72 to 1.57
     .by = strategy::columns,
     .threads = 128,
     .enough = 1 << 16,
     .beside = 64},
    {.name = "outputs: patches",  // 0.58 to 17.7
     .by = strategy::patches,
     .least_leaves = 32,
     .threads = 256,
     .enough = 1 << 8,
     .more = 8,
     .most_blocks = 1 << 16},
    {.name = "outputs: across",  // 2.1 to 4.1
     .by = strategy::across,
     .least_leaves = 32,
     .threads = 256,
     .most_blocks = 1 << 16},
    {.name = "outputs: lines",  // 4.19 to 6.31
     .by = strategy::lines,
     .most_elements = order::lanes,
     .threads = 128},
    {.name = "outputs: lines, neighbours",  // 2.2 to 4.1
     .by = strategy::lines,
     .most_elements = order::leaf,
     .least_outputs = 1 << 15,
     .only_neighbours = true,
     .threads = 128},
    {.name = "outputs: threads, neighbours",  // 1.37 to 9.46
     .by = strategy::threads,
     .least_outputs = 32,
     .least_leaves = 1 << 15,
     .only_neighbours = true,
     .threads = 128,
     .enough = 1 << 17},
    {.name = "outputs: threads",  // 1.00 to 1.54
     .by = strategy::threads,
     .most_elements = order::lanes,
     .threads = 128,
     .enough = 1 << 19},
    {.name = "outputs: staged threads",  // 0.94 to 2.06
     .by = strategy::staged_threads,
     .most_elements = 2 * order::lanes,
     .least_outputs = 1 << 12,
     .threads = 64,
     .most_blocks = 1 << 14},
    {.name = "outputs: leaf teams of small states",  // 1.04 to 1.15
     .by = strategy::leaf_teams,
     .most_state = 4,
     .least_outputs = 1 << 12,
     .threads = 64,
     .enough = 1 << 11,
     .most_blocks = 1 << 14},
    {.name = "outputs: leaf teams, short",  // 1.20 to 1.55
     .by = strategy::leaf_teams,
     .most_elements = 4 * order::leaf,
     .threads = 64,
     .enough = 1 << 12,
     .most_blocks = 1 << 14},
    {.name = "outputs: leaf teams",  // 1.15 to 2.20
     .by = strategy::leaf_teams,
     .least_outputs = 1 << 10,
     .threads = 64,
     .enough = 1 << 12,
     .most_blocks = 1 << 14},
    {.name = "outputs: lines, apart",  // 3.2
     .by = strategy::lines,
     .most_elements = 2 * order::lanes,
     .least_outputs = 1 << 15,
     .threads = 128},
    {.name = "outputs: warps, neighbours",  // 1.03 to 1.41
     .by = strategy::warps,
     .most_elements = 1 << 13,
     .least_outputs = 1 << 10,
     .only_neighbours = true,
     .threads = 128,
     .enough = 1 << 11,
     .more = 1 << 13,
     .most_blocks = 1 << 13},
    // Of two inputs, of which a block's threads would be too many
    {.name = "outputs: warps, short",
     .by = strategy::warps,
     .most_elements = 2 * order::leaf,
     .least_outputs = 1 << 10,
     .threads = 128,
     .enough = 1 << 11,
     .more = 1 << 13,
     .most_blocks = 1 << 13},
    {.name = "outputs: blocks of small states",  // 0.97 to 1.27
     .by = strategy::blocks,
     .most_elements = 1 << 13,
     .most_state = 4,
     .least_outputs = 1 << 10,
     .threads = 128,
     .enough = 1 << 11,
     .most_blocks = 1 << 16},
    {.name = "outputs: warps",  // 0.85 to 1.21
     .by = strategy::warps,
     .most_elements = 1 << 13,
     .least_outputs = 1 << 10,
     .threads = 128,
     .enough = 1 << 11,
     .more = 1 << 13,
     .most_blocks = 1 << 13},
    {.name = "outputs: blocks, very many",  // 0.96 to 1.08
     .by = strategy::blocks,
     .least_outputs = 1 << 10,
     .threads = 64,
     .enough = 1 << 13,
     .most_blocks = 1 << 16},
    {.name = "outputs: blocks, many",  // 1.00 to 1.15
     .by = strategy::blocks,
     .least_outputs = 128,
     .threads = 128,
     .enough = 1 << 11,
     .most_blocks = 1 << 16},
    {.name = "outputs: blocks, long",  // 1.02 to 1.16
     .by = strategy::blocks,
     .least_leaves = 1 << 15,
     .threads = 128,
     .enough = 1 << 10,
     .most_blocks = 1 << 16},
    {.name = "outputs: blocks",
     .by = strategy::blocks,
     .threads = 256,
     .enough = 1 << 11,
     .most_blocks = 1 << 16},
};

// Blocks that a processor has no room for would wait for all others: as many as the kernels are
// fast with have room, whatever the compiler (tests/gpu_exact_kernels_test.cpp looks).
constexpr term_set element = only(exact::term::element), number = only(exact::term::number),
                   presence = only(exact::term::presence), magnitude = only(exact::term::magnitude),
                   difference = only(exact::term::difference), square = only(exact::term::square),
                   product = only(exact::term::product),
                   squared_difference = only(exact::term::squared_difference),
                   of_one_input = element | number | presence | magnitude | square;
constexpr exact_line terms_alone_of_sm_90[] = {
    {dtype::f16, element, 4, 512, 2, 1},
    {dtype::f16, number, 4, 512, 2, 1},
    {dtype::f16, presence, 4, 512, 2, 2},
    {dtype::f16, magnitude, 4, 512, 2, 1},
    {dtype::f16, difference, 2, 512, 2, 0},
    {dtype::f16, square, 2, 512, 2, 2},
    {dtype::f16, product, 4, 256, 2, 0},
    {dtype::f16, squared_difference, 1, 512, 2, 0},
    {dtype::f16, element | square, 2, 512, 1, 1},
    {dtype::bf16, element, 4, 512, 2, 2},
    {dtype::bf16, number, 4, 256, 5, 5},
    {dtype::bf16, presence, 4, 512, 2, 2},
    {dtype::bf16, magnitude, 4, 256, 5, 5},
    {dtype::bf16, difference, 1, 256, 3, 0},
    {dtype::bf16, square, 4, 256, 4, 4},
    {dtype::bf16, product, 4, 256, 4, 0},
    {dtype::bf16, squared_difference, 1, 256, 3, 0},
    {dtype::bf16, element | square, 4, 256, 3, 4},
    {dtype::f32, element, 4, 256, 4, 4},
    {dtype::f32, number, 4, 256, 4, 4},
    {dtype::f32, presence, 4, 512, 2, 2},
    {dtype::f32, magnitude, 4, 256, 4, 4},
    {dtype::f32, difference, 2, 256, 2, 0},
    {dtype::f32, square, 4, 256, 3, 2},
    {dtype::f32, product, 4, 256, 2, 0},
    {dtype::f32, squared_difference, 2, 256, 2, 0},
    {dtype::f32, element | square, 4, 128, 5, 5},
    // 224 threads' columns of halves leave the first-level cache 60 KiB, where the loads on their
    // way have their lines; 256 leave 28.
    {dtype::f64, element, 12, 224, 2, 2},
    {dtype::f64, number, 12, 224, 2, 2},
    {dtype::f64, presence, 4, 512, 2, 2},
    {dtype::f64, magnitude, 12, 224, 2, 2},
    {dtype::f64, difference, 4, 320, 1, 0},
    {dtype::f64, square, 8, 160, 3, 3},
    {dtype::f64, product, 4, 160, 3, 0},
    {dtype::f64, squared_difference, 2, 160, 3, 0},
    {dtype::f64, element | square, 8, 96, 2, 2},
};
constexpr exact_line terms_together_of_sm_90[] = {
    {dtype::f16, of_one_input & ~square, 2, 128, 6, 5},
    {dtype::f16, of_one_input, 2, 128, 4, 4},
    {dtype::f16, of_two_inputs, 1, 128, 5, 0},
    {dtype::bf16, of_one_input, 4, 128, 7, 5},
    {dtype::bf16, difference | squared_difference, 1, 128, 3, 0},
    {dtype::bf16, of_two_inputs, 1, 128, 4, 0},
    {dtype::f32, of_one_input, 4, 128, 5, 4},
    {dtype::f32, of_two_inputs, 1, 128, 4, 0},
    {dtype::f64, of_one_input, 8, 32, 12, 8},
    {dtype::f64, of_two_inputs, 2, 32, 12, 0},
};

constexpr sort_line sorts_of_sm_90[] = {
    // Of 65 shapes, against CUB at 2^20, 2^24 and 2^27 (bench/results/sort-h100.txt):
    {"sort: few keys of 4 bytes", 4, 0, 1 << 17, 256, 14, 3},
    {"sort: keys of 4 bytes", 4, 0, any_number, 512, 19, 2},  // 0.81, 0.95, 1.02
    {"sort: keys of 8 bytes", 8, 0, any_number, 512, 11, 2},  // 0.83, 0.95, 0.99
    // 0.90, 0.96, 0.99; with values of 2 bytes 0.84, 0.91, 0.92
    {"sort: keys of 4 bytes, values of 4", 4, 4, any_number, 384, 20, 2},
    {"sort: keys of 8 bytes, values of 4", 8, 4, any_number, 512, 11, 2},  // 0.87, 1.02, 1.04
    {"sort: values of 8 bytes", 8, 8, any_number, 512, 11, 2},
};

constexpr tuning sm_90 = {
    .name = "sm_90",
    .measured = "H100, H200",
    // All operations of one input, 2^28 elements, take 1.05 (f32), 1.32 (f16) and 1.14 times
    // (f64) as long with 12 folds and 192 bytes, and up to 3.3 times with 32 and 368; short arrays
    // 0.7 to 0.9 times.
    .most_folds = 8,
    .most_state_bytes = 128,
    .arrays = arrays_of_sm_90,
    .tiles_of_one_block = 16,
    .elements_of_one_block = 16384,
    .outputs = outputs_of_sm_90,
    .states_of_one_pass = 1 << 12,
    .segments = {"segments", 64, 32, 1 << 11, 1 << 16, 1 << 11, 1 << 12, 1 << 10},
    .exact = {.alone = terms_alone_of_sm_90,
              .together = terms_together_of_sm_90,
              .enough_threads = 128,
              .few_threads = 64,
              .some_threads = 128,
              .many_warps = 1 << 13,
              .least_chunk = 256,
              .least_of_runs = 2048,
              .stripe_bytes = std::size_t{1} << 17},
    .sorts = sorts_of_sm_90,
    .pattern_blocks_of_processor = 2,
    .rows_of_wide_packets = 4096,
    .parameter_blocks = 2048,
    // Of an H200: by either way products of 4096 x 4096 by 4096 x 4096, of 256 times 256 x 128 by
    // 128 x 2048 and 256 x 2048 by 2048 x 128, and of 64 x 4096 by 4096 x 14336
    // (bench/results/product-tiles-h200.txt); of 1 and 16 rows what gpu-products-h200.txt had, and
    // before it.
    .products = {.library = 5300,
                 .tiles = {500, 1700, 2100, 2180},
                 .bytes = 25,
                 .elements = 8,
                 .results = 2,
                 .of_call_library = 25000,
                 .of_call_tiles = 15000,
                 .of_step = 1800},
};

// ---- Others: sm_90's, until somebody measures them there ----------------------------------------

constexpr tuning as_sm_90(std::string_view name) {
  tuning t = sm_90;
  t.name = name;
  t.measured = {};
  return t;
}
constexpr tuning sm_80 = as_sm_90("sm_80"), sm_86 = as_sm_90("sm_86"), sm_89 = as_sm_90("sm_89"),
                 sm_100 = as_sm_90("sm_100"), sm_120 = as_sm_90("sm_120");

struct architecture {
  int major, minor;
  const tuning* numbers;
};
constexpr architecture architectures[] = {{8, 0, &sm_80}, {8, 6, &sm_86},   {8, 9, &sm_89},
                                          {9, 0, &sm_90}, {10, 0, &sm_100}, {12, 0, &sm_120}};

}  // namespace

const tuning& tuning_for(int major, int minor) {
  const auto* const above = std::find_if(
      std::begin(architectures) + 1, std::end(architectures),
      [&](const auto& a) { return a.major > major || (a.major == major && a.minor > minor); });
  return *(above - 1)->numbers;
}

}  // namespace bitfold::gpu
