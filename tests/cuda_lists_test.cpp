// Lists of operations on a GPU: the reference's bits of every operation, alone and in company, in
// any launch shape.

#include "companies.hpp"
#include "cuda_cases.hpp"

using namespace bitfold;
using namespace bitfold::test;

namespace {

// By leaves, in one block or in several; which need two kernels more.
constexpr std::size_t in_one_block = 1024, in_several = 40'000;

bool is_one_of(dtype t, const std::vector<dtype>& types) {
  return std::ranges::find(types, t) != types.end();
}
// For all of whose operations there are kernels of tiles, too.
std::vector<dtype> types_by_tiles() { return types_of_test({dtype::f32}); }

}  // namespace

TEST_CASE("cuda: every operation, method and accumulator, in company, at every boundary",
          "[cuda][ops]") {
  auto all = stretches();
  for (const std::size_t n : {20'001, 40'000, 40'001, 40'192}) all.push_back({2, n});
  for (const dtype t : types_of_test()) {
    const bool by_tiles = is_one_of(t, types_by_tiles()), few = !by_tiles && t != dtype::f64;
    const auto& shapes = by_tiles ? by_leaves_and_tiles : by_leaves;
    const std::vector<list> lists{all_operations(t, 1), all_operations(t, 2)};
    prepare(lists, {in_one_block, by_tiles ? std::size_t{20'001} : 1, few ? 1 : in_several},
            shapes);
    for (const kind k : {kind::near_one, kind::special}) {
      const auto data = make_data(t, k, in_several + 300, 11);
      on_device d(data);
      for (const auto& [first, n] : all)
        for (const list& some : lists)
          if (by_tiles || n <= in_one_block || (n >= in_several && !few))
            d.compare(n ? some : defined_of_none(some), first, n % 2 ? 16 : 5, n, shapes, name(k));
    }
  }
}

TEST_CASE("cuda: no launch shape moves a bit of any operation", "[cuda][ops]") {
  const auto shapes = launch_shapes();
  for (const dtype t : types_by_tiles()) {
    const std::vector<list> lists{all_operations(t, 1), all_operations(t, 2)};
    const std::vector<std::size_t> lengths{40'000, 700'003};
    prepare(lists, lengths, shapes, {true});
    const auto data = make_data(t, kind::near_one, lengths[1] + 16, 11);
    on_device d(data);
    for (const std::size_t n : lengths)
      for (const list& all : lists) d.compare(all, 0, 16, n, shapes, "");
  }
}

TEST_CASE("cuda: each operation alone, at every boundary", "[cuda][ops]") {
  for (const dtype t : types_of_test({dtype::f32})) {
    std::vector<list> lists;
    for (const int inputs : {1, 2})
      for (const reduction& r : each_operation(t, inputs)) lists.push_back({r});
    prepare(lists, {in_one_block, in_several}, by_leaves);
    for (const kind k : {kind::near_one, kind::special}) {
      const auto data = make_data(t, k, in_several + 300, 12);
      on_device d(data);
      auto all = stretches();
      all.push_back({2, in_several});
      for (const auto& [first, n] : all)
        for (const list& one : lists)
          if ((n <= in_one_block || n >= in_several) && (n > 0 || !defined_of_none(one).empty()))
            d.compare(one, first, n % 2 ? 16 : 5, n, by_leaves, name(k));
    }
  }
}

TEST_CASE("cuda: operations that one kernel folds for each other", "[cuda][ops]") {
  for (const dtype t : types_by_tiles()) {
    std::vector<list> lists = companies(t, 1);
    lists.erase(lists.begin());  // all that there are
    prepare(lists, {in_one_block, in_several}, by_leaves);
    for (const kind k : {kind::near_one, kind::special}) {
      const auto data = make_data(t, k, 40'194, 13);
      on_device d(data);
      for (const std::size_t n : {1, 2, 17, 255, 257, 1000, 40'001, 40'192})
        for (const list& all : lists) d.compare(all, 1, 0, n, by_leaves, name(k));
    }
  }
}

TEST_CASE("cuda: any set of operations, of any length, in any launch shape", "[cuda][ops]") {
  const std::size_t most = 300'007;
  random_bits next{32};
  const auto all_shapes = launch_shapes();
  for (const dtype t : {dtype::f16, dtype::f32, dtype::f64, dtype::i16}) {
    // Drawn for all types, whichever are asked for.
    std::vector<list> lists;
    for (const int inputs : {1, 2}) {
      const list all = all_operations(t, inputs);
      list& some = lists.emplace_back();
      while (some.size() < (inputs == 1 ? 10 : 5)) some.push_back(all[next() % all.size()]);
    }
    if (!is_one_of(t, types_of_test())) continue;
    prepare(lists, {in_one_block, in_several}, all_shapes);
    for (const kind k : {kind::any_bits, kind::special, kind::near_one}) {
      const auto data = make_data(t, k, 2 * most, 33);
      on_device d(data);
      std::vector<std::size_t> lengths{257, 1023, 4099, 70'000, most - 7};
      for (std::size_t n = 1; n <= 72; ++n) lengths.push_back(n);  // of lanes and rows
      for (int i = 0; i < 16; ++i) lengths.push_back(next() % 20'000 + 1);
      for (const list& some : lists)
        for (const std::size_t n : lengths) {
          std::vector<cuda::launch> shapes = by_leaves;
          for (int i = 0; n > 72 && i < 8; ++i)
            shapes.push_back(all_shapes[next() % all_shapes.size()]);
          d.compare(some, n % 8, most, n, shapes, name(k),
                    [&](const reduction& r, const void* x, const void* y) {
                      return cpu::reduce(r, x, y, n);
                    });
        }
    }
  }
}

// What is enough for compute-sanitizer's racecheck: each strategy of whole arrays.
TEST_CASE("cuda: operations on a short array", "[cuda][ops][racecheck]") {
  for (const dtype t : types_by_tiles()) {
    const std::vector<list> lists{all_operations(t, 1), all_operations(t, 2)};
    const std::vector<std::size_t> lengths{100, 2100, 9'001};
    const std::vector<cuda::launch> shapes{{}, {64, 3, 2, true}};
    prepare(lists, lengths, shapes);
    const auto data = make_data(t, kind::near_one, 2 * 9'001 + 2, 11);
    on_device d(data);
    for (const std::size_t n : lengths)
      for (const list& all : lists) d.compare(all, 1, 9'002, n, shapes, "");
  }
  // Nodes of many tiles, and many nodes.
  const std::size_t n = 300'000;
  const auto data = make_data(dtype::f32, kind::near_one, n + 1, 13);
  on_device(data).compare(everyday(dtype::f32, 1), 1, 0, n,
                          {{.threads = 128, .tiles = 1024}, {.threads = 64, .tiles = 1}}, "");
}
