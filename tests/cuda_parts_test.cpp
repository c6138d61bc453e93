// Arrays on a GPU that come in parts or pieces: the bits that they have at once. And bounds beside
// results.
#include <bitfold/bound.hpp>

#include "cuda_cases.hpp"

using namespace bitfold;
using namespace bitfold::test;

namespace {

// Has some memory, in launches of that shape; false: it is too little. Counts the parts.
bool compare_in_parts(const list& all, const std::vector<scalar>& want, const std::byte* x,
                      const std::byte* y, std::size_t n, std::size_t memory,
                      const cuda::launch& shape, int& parts) {
  std::optional<cuda::in_parts> of;
  try {
    of.emplace(all, n, memory, shape);
  } catch (const error& e) {
    CHECK(std::string(e.what()).starts_with("memory: " + std::to_string(memory)));
    return false;
  }
  const std::size_t size = size_of(all[0].in()), inputs = y ? 2 : 1;
  INFO(describe(all[0], n) << " in parts of " << of->elements() << describe(shape));
  const device_memory first(of->elements() * size), second(of->elements() * size),
      out(8 * all.size()), workspace(of->workspace_bytes());
  CHECK(inputs * of->elements() * size + of->workspace_bytes() <= memory);
  std::vector<void*> to;
  for (std::size_t k = 0; k < all.size(); ++k) to.push_back(out.as<std::byte>() + 8 * k);
  const auto add = [&] {
    of->add(first.p, y ? second.p : nullptr, to, workspace.p, of->workspace_bytes());
  };
  parts = 0;
  for (std::size_t at = 0; at < n; at += of->elements(), ++parts) {
    const std::size_t bytes = std::min(of->elements(), n - at) * size;
    set(first.p, 0x5a, of->elements() * size);
    put(first.p, x + at * size, bytes);
    if (y) put(second.p, y + at * size, bytes);
    add();
  }
  std::vector<std::byte> got(8 * all.size());
  get(got.data(), out.p, got.size());
  for (std::size_t k = 0; k < all.size(); ++k) {
    INFO(describe(all[k], n));
    CHECK(load_scalar(all[k].out(), got.data() + 8 * k) == want[k]);
  }
  CHECK_THROWS_WITH(add(), "x: a part after the last");
  return true;
}

// With ever less memory, until it is too little: the most parts.
int most_parts(const list& all, const std::byte* x, const std::byte* y, std::size_t n) {
  std::vector<scalar> want(all.size());
  cpu::reduce(all, x, y, n, want);
  const std::size_t bytes = (y ? 2 : 1) * n * size_of(all[0].in());
  int most = 0;
  for (const cuda::launch& shape : {cuda::launch{}, {.threads = 64, .blocks = 3, .tiles = 2}}) {
    int parts = 0;
    for (std::size_t memory = 2 * (bytes + cuda::workspace_bytes(all, n, shape)) + 4096;
         compare_in_parts(all, want, x, y, n, memory, shape, parts); memory = memory * 2 / 5)
      most = std::max(most, parts);
  }
  return most;
}

}  // namespace

TEST_CASE("cuda: arrays that come in parts have the bits that they have at once", "[cuda]") {
  const std::size_t lengths[] = {1, 255, 100'003, 1'500'001};
  for (const dtype t : some_types())
    for (const int inputs : {1, 2}) {
      // Each term that exact ones sum, by itself: its states take much room; what has an order, of
      // some types all of it; and both.
      std::vector<list> lists{all_exact(t, inputs)};
      if (is_float(t)) lists = exact_lists(t, inputs);
      if (t == dtype::f32) lists.push_back(all_operations(t, inputs));
      lists.push_back(everyday(t, inputs));
      lists.back().insert(lists.back().end(), lists[0].begin(), lists[0].end());
      prepare(lists, {255, 100'003, 1'500'001}, {{}, {.threads = 64, .blocks = 3, .tiles = 2}},
              {true});
      for (const std::size_t n : lengths) {
        const auto data = make_data(t, kind::any_bits, 2 * n, 5);
        const auto* const x = data.data();
        for (const list& all : lists)
          CHECK(most_parts(all, x, inputs == 2 ? x + n * size_of(t) : nullptr, n) >=
                (n > 1'000'000 ? 3 : 1));
      }
    }
  const reduction sorts[] = {make_reduction(op_id::count_distinct, {}, dtype::f32)},
                  sum[] = {make_reduction(op_id::sum, method_id::tree, dtype::f32)};
  CHECK_THROWS_WITH(cuda::in_parts(sorts, 1000, 100),
                    "count_distinct: sorts all elements at once, and so not in parts");
  CHECK_THROWS_WITH(cuda::in_parts(sum, 1'000'000, 1000),
                    "memory: 1000 bytes are too few for a part of the elements");
}

// Short, so that racecheck has time for it.
TEST_CASE("cuda: a short array that comes in parts", "[cuda][racecheck]") {
  const std::size_t n = 100'003;
  const auto data = make_data(dtype::f32, kind::any_bits, n, 6);
  list all = everyday(dtype::f32, 1), exact = exact_lists(dtype::f32, 1)[0];
  all.insert(all.end(), exact.begin(), exact.end());
  CHECK(most_parts(all, data.data(), nullptr, n) > 1);
}

TEST_CASE("cuda: several arrays have the exact reduction of one", "[cuda][exact]") {
  // Of many sizes, empty and unaligned ones among them; more than a pass takes; longer than a
  // stripe.
  random_bits next{24};
  for (const dtype t : types_of_test({dtype::f16, dtype::bf16, dtype::f32, dtype::f64}))
    for (const kind k : all_kinds)
      for (const std::size_t pieces : {1, 7, 400}) {
        std::vector<std::size_t> sizes;
        std::size_t n = 0;
        for (std::size_t i = 0; i < pieces; ++i) {
          sizes.push_back(i % 9 == 3 ? 0 : i % 100 == 1 ? 70'001 + next() % 1000 : next() % 2000);
          n += sizes.back();
        }
        const auto data = make_data(t, k, n, 25);
        const device_memory in(data), out(64);
        std::vector<cuda::piece> pieces_there;
        for (std::size_t first = 0; const std::size_t size : sizes) {
          pieces_there.push_back({in.as<std::byte>() + first * size_of(t), size});
          first += size;
        }
        std::swap(pieces_there.front(), pieces_there.back());
        for (const list& some : exact_lists(t, 1)) {
          const reduction& r = some[0];
          if (t != dtype::f32 && t != dtype::f64 && r.op() != op_id::sum) continue;
          INFO(describe(r, n) << " " << name(k) << " pieces=" << pieces);
          const std::size_t size = cuda::pieces_workspace_bytes(r, pieces_there);
          const device_memory workspace(size + 16);
          cuda::reduce_pieces(r, pieces_there, out.p, workspace.p, size);
          std::byte host[8];
          get(host, out.p, 8);
          CHECK(load_scalar(r.out(), host) == cpu::reduce(r, data.data(), nullptr, n));
        }
      }
  const reduction sum = make_reduction(op_id::sum, method_id::exact, dtype::f32);
  const device_memory out(64);
  const cuda::piece none[] = {{nullptr, 0}};
  cuda::reduce_pieces(sum, none, out.p, nullptr, cuda::pieces_workspace_bytes(sum, none));
}

TEST_CASE("cuda: bounds beside results, which are the CPU's", "[cuda]") {
  for (const dtype t : types_of_test({dtype::f32, dtype::i32}))
    for (const std::size_t n : {std::size_t{1}, std::size_t{1000}, std::size_t{70'001}}) {
      const auto data = make_data(t, kind::near_one, 2 * n, 8);
      for (const int inputs : {1, 2}) {
        list all = each_operation(t, inputs);
        if (inputs == 1)
          for (const auto& m : all_methods)
            if (m.on_gpu()) all.push_back(make_reduction(op_id::sum, m.id, t));
        std::erase_if(all, [](const reduction& r) { return !has_error_bound(r.op(), r.method()); });
        const void* const y = inputs == 2 ? data.data() + n * size_of(t) : nullptr;
        const auto want = cpu::reduce_with_bounds(all, data.data(), y, n),
                   got = cuda::reduce_host_with_bounds(all, data.data(), y, n);
        REQUIRE(got.size() == all.size());
        for (std::size_t k = 0; k < all.size(); ++k) {
          INFO(describe(all[k], n));
          CHECK(got[k].value == want[k].value);
          CHECK(got[k].bound == want[k].bound);
        }
      }
    }
}
