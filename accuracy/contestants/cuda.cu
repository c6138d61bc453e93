// The ladder's kernels, and all contestants on the GPU that are not bitfold's.
#include "cuda.hpp"

#include <bitfold/cuda.hpp>

#include "bench/ladder/ladder.hpp"

namespace bitfold::accuracy {
namespace {

class rung_sum final : public on_stream {
 public:
  // "road" is the ladder's name in the report's format and in results since the first.
  rung_sum(const ladder::rung& r, dtype t)
      : on_stream({.id = "road/" + std::string(r.name) + "/" + std::string(name(t)),
                   .name = std::string(r.title),
                   .family = "road",
                   .device = "cuda",
                   .about = std::string(r.change),
                   .in = t,
                   .acc = std::string(name(t)),
                   .out = t}),
        rung_(r) {}
  bool takes(std::size_t n) const override { return ladder::supports(rung_, info.in, n); }

 protected:
  // Where a rung works in place, every timed launch but the first sums what the one before left
  // there: other values in the same time.
  job prepare(const array_view& x) override {
    const dtype t = info.in;
    const void* const data = x.data;
    const std::size_t n = x.n;
    auto* const result =
        static_cast<std::byte*>(scratch(for_result + ladder::workspace_bytes(rung_, t, n)));
    ladder::prepare(rung_, t, data, n, result + for_result, nullptr);
    return {result, [=, &rung = rung_](cudaStream_t s) {
              ladder::launch(rung, t, data, n, result, result + for_result, s);
            }};
  }

 private:
  const ladder::rung& rung_;
};

}  // namespace

void add_ladder(contestants& out) {
  for (const ladder::rung& r : ladder::all_rungs())
    for (dtype t : {dtype::f32, dtype::i32}) out.list.push_back(std::make_unique<rung_sum>(r, t));
}

void add_cuda_peers(contestants& out) {
  if (cuda::devices().empty()) {
    for (const char* name : {"CUB", "cuBLAS", "the ladder's kernels"})
      out.missing.push_back({name, "no usable GPU on this machine"});
    return;
  }
  add_cub(out);
  add_cublas(out);
  add_ladder(out);
}

}  // namespace bitfold::accuracy
