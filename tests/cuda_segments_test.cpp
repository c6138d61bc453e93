// Segments and keys on a GPU: the reference's bits for lists of any lengths.
#include "cuda_cases.hpp"

using namespace bitfold;
using namespace bitfold::test;

namespace {

// Nodes of one tile, of two, or of as many as suit: those of long segments are folded ahead.
const std::vector<cuda::launch> shapes{{}, {.tiles = 1}, {.tiles = 2}};

// Those that every case of a type asks for; and each operation, of some types.
std::vector<list> lists_of(const lists_case& c) {
  using enum dtype;
  std::vector<list> lists{every_kind(c.type, c.two + 1)};
  if (c.type == f32 && std::ranges::find(c.lengths, 0) == c.lengths.end())
    lists.push_back(each_operation(c.type, c.two + 1));
  return lists;
}
// What the CPU's engine is asked for where the reference would take its time.
std::vector<list> lists_of_long(const lists_case& c) { return {everyday(c.type, c.two + 1)}; }

using lists_for = std::vector<list> (*)(const lists_case&);

void prepare_lists(const std::vector<lists_case>& cases, lists_for lists) {
  std::vector<gpu::plan> plans;
  for (const lists_case& c : cases)
    for (const list& all : lists(c))
      for (const cuda::launch& shape : shapes) {
        plans.push_back(
            gpu::plan_segments(all, c.two, c.n(), c.outputs(), shape, test::this_gpu()));
        plans.push_back(gpu::plan_keys(all, c.two, c.n(), c.outputs(), shape, test::this_gpu()));
      }
  prepare(plans);
}

std::string differing(const lists_case& c, lists_for lists) {
  const auto x = c.data(0), y = c.two ? c.data(1) : std::vector<std::byte>();
  const device_memory dx(x), dy(y), offsets(c.offsets()), keys(c.keys());
  const void* const second = c.two ? dy.p : nullptr;
  std::string which;
  for (const bool by_key : {false, true}) {
    const auto own_x = c.elements(x, by_key), own_y = c.two ? c.elements(y, by_key) : arrays();
    const auto run = [&](std::span<const reduction> some, const cuda::launch& shape) {
      return results_by(some, c.outputs(), [&](std::span<void* const> to) {
        const auto bytes_for =
            by_key ? cuda::by_key_workspace_bytes : cuda::segments_workspace_bytes;
        const std::size_t work = bytes_for(some, c.n(), c.outputs(), shape);
        const device_memory workspace(work);
        if (by_key)
          cuda::reduce_by_key(some, dx.p, second, c.n(), keys.as<std::int64_t>(), c.outputs(), to,
                              workspace.p, work, nullptr, shape);
        else
          cuda::reduce_segments(some, dx.p, second, c.n(), offsets.as<std::int64_t>(), c.outputs(),
                                to, workspace.p, work, nullptr, shape);
      });
    };
    for (const list& all : lists(c)) {
      const auto found = test::differing(all, results_of(all, own_x, own_y), shapes, run);
      if (!found.empty()) which += (by_key ? " by key" : " segments") + found;
    }
  }
  return which;
}

void check_lists(const std::vector<lists_case>& cases, lists_for lists) {
  prepare_lists(cases, lists);
  for (const lists_case& c : cases)
    check_case(c, [&](const lists_case& one) { return differing(one, lists); });
}

}  // namespace

TEST_CASE("cuda segments and keys: of any length", "[cuda][outputs]") {
  random_bits next{6};
  const auto types = types_of_test();
  std::vector<lists_case> cases;
  for (int round = 0; round < 400; ++round)
    if (const lists_case c = random_lists(next); std::ranges::find(types, c.type) != types.end())
      cases.push_back(c);
  check_lists(cases, lists_of);
}

TEST_CASE("cuda segments and keys: many, and long ones", "[cuda][outputs]") {
  random_bits next{7};
  std::vector<lists_case> cases, long_ones;
  for (const dtype t :
       types_of_test({dtype::f16, dtype::bf16, dtype::f32, dtype::f64, dtype::i8, dtype::u64}))
    for (const std::int64_t longest : {40, 3000, 400'000}) {
      lists_case c{.type = t, .specials = false, .lengths = {}, .outside = 8};
      for (int k = 0; k < 500; ++k)
        c.lengths.push_back(
            k == 250 ? longest
                     : static_cast<std::int64_t>(next() % (k % 7 ? 70 : 2000) * (next() % 2)));
      // Many neighbours of 16 leaves, which a warp does not take all at once; and what warps, nodes
      // and leaves end with.
      if (longest >= 3000) c.lengths.insert(c.lengths.end(), 33, 4096);
      if (longest > 3000)
        for (const std::int64_t n : {4097, 8192, 8193, 16'384, 32'768, 32'769, 65'537, 131'072, 32,
                                     33, 256, 257, 4095, 1, 0, 4097})
          c.lengths.push_back(n);
      for (const bool two : {false, true}) {
        c.two = two;
        (longest > 3000 ? long_ones : cases).push_back(c);
      }
    }
  check_lists(cases, lists_of);
  check_lists(long_ones, lists_of_long);
}

TEST_CASE("cuda segments and keys: a length for each kernel", "[cuda][outputs][racecheck]") {
  std::vector<lists_case> cases;
  for (const dtype t : types_of_test({dtype::f32}))
    for (const bool two : {false, true}) {
      lists_case c{.type = t, .two = two, .specials = false, .lengths = {}, .outside = 2};
      c.lengths = {33, 257, 4097, 1, 40'000, 31};
      c.lengths.insert(c.lengths.end(), 33, 4096);
      cases.push_back(c);
    }
  check_lists(cases, lists_of_long);
  check_lists(cases, [](const lists_case& c) {
    return lists{list{make_reduction(c.two ? op_id::dot : op_id::sum, method_id::tree, c.type)},
                 exact_lists(c.type, c.two + 1)[0]};
  });
}

TEST_CASE("cuda keys: none, which may be nowhere", "[cuda][outputs]") {
  const reduction r = make_reduction(op_id::sum, {}, dtype::f32);
  for (const std::size_t outputs : {1, 5, 1000}) {
    const device_memory out(4 * outputs);
    set(out.p, 0xa5, 4 * outputs);
    void* const to = out.p;
    const std::size_t bytes = cuda::by_key_workspace_bytes({&r, 1}, 0, outputs);
    const device_memory work(bytes);
    cuda::reduce_by_key({&r, 1}, nullptr, nullptr, 0, nullptr, outputs, {&to, 1}, work.p, bytes);
    std::vector<float> got(outputs, 1);
    get(got.data(), out.p, 4 * outputs);
    CHECK(got == std::vector<float>(outputs, 0));
  }
}

TEST_CASE("cuda segments and keys: few elements, very many outputs", "[cuda][outputs]") {
  const std::vector<std::int64_t> keys{999'999, 0, 7, 999'999, 500'000, 2'000'000};
  const std::vector<float> x{0x1p-30f, 2, 3, 1, 5, 6}, y{1, 1, 2, 3, 4, 5};
  const std::size_t n = keys.size(), outputs = 1'000'003;
  const device_memory dx(4 * n), dy(4 * n), d_keys(8 * n), out(4 * outputs);
  put(dx.p, x.data(), 4 * n);
  put(dy.p, y.data(), 4 * n);
  put(d_keys.p, keys.data(), 8 * n);
  for (const op_id op : {op_id::sum, op_id::dot}) {
    const reduction r = make_reduction(op, method_id::tree, dtype::f32);
    const bool two = op == op_id::dot;
    std::vector<float> want(outputs), got(outputs, 1);
    for (const std::size_t k :
         {std::size_t{0}, std::size_t{7}, std::size_t{500'000}, std::size_t{999'999}}) {
      std::vector<float> own_x, own_y;
      for (std::size_t i = 0; i < n; ++i)
        if (keys[i] == static_cast<std::int64_t>(k)) own_x.push_back(x[i]), own_y.push_back(y[i]);
      store_scalar(reference(r, own_x.data(), two ? own_y.data() : nullptr, own_x.size()),
                   &want[k]);
    }
    const std::size_t work = cuda::by_key_workspace_bytes({&r, 1}, n, outputs);
    const device_memory workspace(work);
    void* to = out.p;
    cuda::reduce_by_key({&r, 1}, dx.p, two ? dy.p : nullptr, n, d_keys.as<std::int64_t>(), outputs,
                        {&to, 1}, workspace.p, work);
    get(got.data(), out.p, 4 * outputs);
    CHECK(std::memcmp(got.data(), want.data(), 4 * outputs) == 0);
  }
}
