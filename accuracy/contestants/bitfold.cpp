// bitfold's own contestants: every op by every method that it takes, on each engine; sum with every
// accumulator and output type there is. All come from the registries, so a new op or method takes
// part by itself.
#include <bitfold/cpu.hpp>
#include <bitfold/cuda.hpp>

#include <fmt/format.h>

#include "../contestant.hpp"
#include "device.hpp"

namespace bitfold::accuracy {
namespace {

bool is_default(const reduction& r) {
  const reduction d = make_reduction(r.op(), r.method(), r.in());
  return r.acc() == d.acc() && r.out() == d.out();
}

contestant_info info_of(const reduction& r, const char* device) {
  const bitfold::op_info& what = bitfold::info(r.op());
  const bool any_order = r.method() && bitfold::info(*r.method()).ordering == ordering::independent;
  const std::string op(what.name), method(name(r.method())),
      acc(any_order ? "exact" : name(r.acc()));
  const std::string about = r.method() ? fmt::format("{}, method {}: {}", what.summary, method,
                                                     bitfold::info(*r.method()).summary)
                                       : std::string(what.summary);
  return {
      .id = fmt::format("bitfold/{}/{}/{}/{}/{}/{}", op, method, name(r.in()), acc, name(r.out()),
                        device),
      .name = "bitfold" + (r.op() == op_id::sum ? "" : " " + op) + (r.method() ? " " + method : ""),
      .family = "bitfold",
      .device = device,
      .about = about,
      .in = r.in(),
      .acc = acc,
      .out = r.out(),
      .op = r.op(),
      .promise = r,
      .bound = r,
      .main = is_default(r)};
}

view view_of(const array_view& x, const matrix& as) {
  return row_major(x.type, x.data,
                   {static_cast<std::int64_t>(as.rows), static_cast<std::int64_t>(as.columns)});
}

class on_cpu final : public contestant {
 public:
  explicit on_cpu(const reduction& r) : contestant(info_of(r, "cpu")) {
    const auto targets = cpu::available_targets();
    const auto add = [this](cpu::target t, int threads, bool timed) {
      ways_.push_back({threads, t});
      labels_.push_back(
          {fmt::format("{}, {} thread{}", cpu::name(t), threads ? threads : all_cores(),
                       (threads ? threads : all_cores()) == 1 ? "" : "s"),
           timed, threads});
    };
    if (r.method() == method_id::sequential) {  // it has no engine: the reference is called
      ways_ = {{1, {}}};
      labels_ = {{"1 thread", true, 1}};
      return;
    }
    add(targets.back(), 0, true);
    if (all_cores() > 1) add(targets.back(), 1, true);
    for (cpu::target t : targets)
      for (int threads : {1, 2, 3, 7, 64})
        if (threads != 1 || t != targets.back()) add(t, threads, false);
  }
  std::vector<variation> variations() const override { return labels_; }
  scalar run(const array_view& x, std::size_t way) override {
    return cpu::reduce(*info.promise, x.data, x.second(info.op), x.n, ways_[way]);
  }
  bool has_axes() const override { return bitfold::info(info.op).inputs == 1; }
  scalar run_along(const array_view& x, const matrix& as, std::size_t way) override {
    outputs_.resize(as.outputs() * size_of(info.out));
    cpu::reduce(*info.promise, view_of(x, as), {as.axis}, outputs_.data(), ways_[way]);
    return load_scalar(info.out, outputs_.data());
  }

 private:
  std::vector<std::byte> outputs_;
  std::vector<cpu::options> ways_;
  std::vector<variation> labels_;
};

class on_gpu final : public contestant {
 public:
  explicit on_gpu(const reduction& r) : contestant(info_of(r, "cuda")) {
    ways_ = {{},
             {.overlap = false},
             {.threads = 32, .blocks = 1, .tiles = 1},
             {.threads = 64, .blocks = 1000, .tiles = 2},
             {.threads = 96, .blocks = 5, .tiles = 1},
             {.threads = 128, .blocks = 132, .tiles = 16},
             {.threads = 256, .blocks = 7, .tiles = 64},
             {.threads = 256, .blocks = 264, .tiles = 4},
             {.threads = 352, .blocks = 33, .tiles = 8},
             {.threads = 512, .blocks = 3, .tiles = 1024},
             {.threads = 512, .blocks = 528, .tiles = 1}};
  }
  std::vector<variation> variations() const override {
    std::vector<variation> all{{"default launch", true, 0},
                               {"default launch, no overlap", false, 0}};
    for (std::size_t i = all.size(); i < ways_.size(); ++i)
      all.push_back({fmt::format("{} threads x {} blocks x {} tiles", ways_[i].threads,
                                 ways_[i].blocks, ways_[i].tiles)});
    return all;
  }
  scalar run(const array_view& x, std::size_t way) override {
    const prepared p = prepare(x, way);
    p.enqueue(nullptr);
    return fetch(info.out, p.out);
  }
  std::vector<double> seconds(const array_view& x, std::size_t way, int times) override {
    return time_on_device(prepare(x, way).enqueue, times);
  }
  std::vector<cuda::request> requests(const array_view& x, const std::optional<matrix>& as,
                                      std::size_t way) const override {
    const reduction& r = *info.promise;
    // The second array lies behind the first, wherever that ends.
    const bool aligned = bitfold::info(r.op()).inputs == 1 || x.n * size_of(x.type) % 16 == 0;
    if (!as) return {cuda::request::array({&r, 1}, x.n, aligned, ways_[way])};
    const int axis = as->axis;
    return {cuda::request::axes({&r, 1}, view_of(x, *as), nullptr, {&axis, 1}, ways_[way])};
  }
  bool has_axes() const override { return bitfold::info(info.op).inputs == 1; }
  scalar run_along(const array_view& x, const matrix& as, std::size_t way) override {
    const prepared p = prepare_along(x, as, way);
    p.enqueue(nullptr);
    return fetch(info.out, p.out);
  }
  std::vector<double> seconds_along(const array_view& x, const matrix& as, std::size_t way,
                                    int times) override {
    return time_on_device(prepare_along(x, as, way).enqueue, times);
  }

 private:
  struct prepared {
    void* out;
    std::function<void(CUstream_st*)> enqueue;
  };
  prepared prepare(const array_view& x, std::size_t way) const {
    const reduction r = *info.promise;
    const cuda::launch shape = ways_[way];
    const std::size_t bytes = cuda::workspace_bytes(r, x.n, shape);
    constexpr std::size_t for_result = 256;
    const array_view there = on_device(x);
    auto* out = static_cast<std::byte*>(scratch(for_result + bytes));
    return {out, [=](CUstream_st* stream) {
              cuda::reduce(r, there.data, there.second(r.op()), there.n, out, out + for_result,
                           bytes, stream, shape);
            }};
  }
  prepared prepare_along(const array_view& x, const matrix& as, std::size_t way) const {
    const reduction r = *info.promise;
    const cuda::launch shape = ways_[way];
    const view there = view_of(on_device(x), as);
    const int axis = as.axis;
    const std::size_t bytes = cuda::workspace_bytes({&r, 1}, there, nullptr, {&axis, 1}, shape),
                      for_results = (as.outputs() * size_of(r.out()) + 255) / 256 * 256;
    auto* out = static_cast<std::byte*>(scratch(for_results + bytes));
    return {out, [=](CUstream_st* stream) {
              void* const to = out;
              cuda::reduce({&r, 1}, there, nullptr, {&axis, 1}, {&to, 1}, out + for_results, bytes,
                           stream, shape);
            }};
  }
  std::vector<cuda::launch> ways_;
};

template <class Add>
void for_each_reduction(Add add) {
  const auto add_sums = [&](method_id m, dtype in, std::optional<dtype> acc) {
    for (dtype out : all_dtypes)
      if (offers(op_id::sum, m, in, acc, out)) add(make_reduction(op_id::sum, m, in, acc, out));
  };
  for (const auto& m : all_methods)
    for (dtype in : all_dtypes) {
      if (m.ordering == ordering::independent) add_sums(m.id, in, {});
      for (dtype acc : all_dtypes) add_sums(m.id, in, acc);
    }
  for (op_id op : all_ops)
    for (const auto& m : methods_of(op))
      for (dtype in : all_dtypes)
        if (op != op_id::sum) add(make_reduction(op, m, in));
}

}  // namespace

void add_bitfold(contestants& c, bool cpu, bool cuda) {
  for_each_reduction([&](const reduction& r) {
    if (cpu) c.list.push_back(std::make_unique<on_cpu>(r));
    if (cuda && (!r.method() || bitfold::info(*r.method()).on_gpu()))
      c.list.push_back(std::make_unique<on_gpu>(r));
  });
}

}  // namespace bitfold::accuracy
