// Whole arrays on a GPU: the reference's bits of every type, method, accumulator and output type,
// at lengths around every boundary, at any address, of special values, in many launch shapes; and
// in graphs.

#include "bench/gpu_time.hpp"
#include "cuda_cases.hpp"

using namespace bitfold;
using namespace bitfold::test;

TEST_CASE("cuda: sums of every type, method, accumulator and output type, at every boundary",
          "[cuda]") {
  for (const dtype t : types_of_test()) {
    const list all = all_sums(t);
    const auto lengths = boundary_lengths();
    prepare({all}, lengths, by_leaves_and_tiles);
    for (const kind k : all_kinds) {
      const auto data = make_data(t, k, 20'000, 1);
      on_device d(data);
      for (const std::size_t n : lengths) d.compare(all, n % 3, 0, n, by_leaves_and_tiles, name(k));
    }
  }
}

TEST_CASE("cuda: no launch shape moves a bit of a sum", "[cuda]") {
  const auto shapes = launch_shapes();
  REQUIRE(shapes.size() >= 20);
  for (const dtype t :
       types_of_test({dtype::f16, dtype::bf16, dtype::f32, dtype::f64, dtype::i8, dtype::u64})) {
    const list all = all_sums(t);
    const std::size_t longest = 1'300'001;
    const std::vector<std::size_t> lengths{1, 4097, 70'001, longest};
    prepare({all}, lengths, shapes);
    for (const kind k : {kind::near_one, kind::special}) {
      const auto data = make_data(t, k, longest + 3, 2);
      on_device d(data);
      for (const std::size_t n : lengths) d.compare(all, 3, 0, n, shapes, name(k));
    }
  }
}

TEST_CASE("cuda: every launch shape on a short array", "[cuda][racecheck]") {
  const std::size_t n = 70'001;
  for (const dtype t : types_of_test({dtype::f16, dtype::f64})) {
    const list all = all_sums(t);
    prepare({all}, {n}, launch_shapes());
    const auto data = make_data(t, kind::near_one, n, 6);
    on_device(data).compare(all, 0, 0, n, launch_shapes(), "");
  }
}

TEST_CASE("cuda: every element alignment", "[cuda]") {
  const std::size_t n = 50'001;
  for (const dtype t : types_of_test()) {
    const list all = all_sums(t);
    prepare({all}, {n}, by_leaves_and_tiles);
    const auto data = make_data(t, kind::near_one, n + 100, 3);
    on_device d(data);
    for (std::size_t first = 0; first < 17; ++first)
      d.compare(all, first, 0, n, by_leaves_and_tiles, "");
  }
}

TEST_CASE("cuda: the same graph, replayed, and the pool overload", "[cuda][racecheck]") {
  const std::size_t n = 3'000'001;
  const reduction r = make_reduction(op_id::sum, method_id::kahan, dtype::f32);
  const auto data = make_data(dtype::f32, kind::near_one, n, 4);
  const scalar want = reference(r, data.data(), n);
  const std::size_t bytes = cuda::workspace_bytes(r, n);
  REQUIRE(bytes > 0);
  const device_memory in(data), results(64), workspace(bytes);
  const speed::stream stream;
  int next = 0;
  const speed::graph graph(stream, 5, [&](gpu::stream s) {
    cuda::reduce(r, in.p, n, results.as<float>() + next++, workspace.p, bytes, s);
  });
  for (int replay = 0; replay < 20; ++replay) {
    set(results.p, 0, 64, stream);
    graph.launch();
    float out[5];
    get(out, results.p, sizeof out, stream);
    for (float f : out) REQUIRE(load_scalar(dtype::f32, &f) == want);
  }
  cuda::reduce(r, in.p, n, results.p, stream);
  float f;
  get(&f, results.p, sizeof f, stream);
  REQUIRE(load_scalar(dtype::f32, &f) == want);
  REQUIRE(cuda::reduce_host(r, data.data(), n) == want);
}
