// xsum, Radford Neal's exact sums by superaccumulators, where the build was given its source.
#include "../contestant.hpp"

#ifdef BITFOLD_XSUM_VERSION
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <algorithm>

#define restrict __restrict__  // its header is C
extern "C" {
#include <xsum.h>
}
#undef restrict

namespace bitfold::accuracy {
namespace {

struct small_accumulator {
  static constexpr const char* name = "small";
  xsum_small_accumulator a;
  small_accumulator() { xsum_small_init(&a); }
  void add(const double* x, std::size_t n) { xsum_small_addv(&a, x, static_cast<xsum_length>(n)); }
  double round() { return xsum_small_round(&a); }
};

struct large_accumulator {
  static constexpr const char* name = "large";
  xsum_large_accumulator a;
  large_accumulator() { xsum_large_init(&a); }
  void add(const double* x, std::size_t n) { xsum_large_addv(&a, x, static_cast<xsum_length>(n)); }
  double round() { return xsum_large_round(&a); }
};

template <class A, class T>
class exact final : public contestant {
 public:
  exact()
      : contestant(
            {.id = std::string("xsum/") + A::name + "/" + std::string(name(dtype_of<T>)),
             .name = std::string("xsum ") + A::name,
             .family = "xsum",
             .device = "cpu",
             .about = std::string("xsum_") + A::name + "_addv and _round: the exact sum, rounded" +
                      (std::is_same_v<T, double> ? " once"
                                                 : " to f64 and then to f32; widened by blocks"),
             .in = dtype_of<T>,
             .acc = "exact",
             .out = dtype_of<T>}) {}
  std::vector<variation> variations() const override { return {{"1 thread", true, 1}}; }
  scalar run(const array_view& x, std::size_t) override {
    const T* values = static_cast<const T*>(x.data);
    A sum;
    if constexpr (std::is_same_v<T, double>) {
      sum.add(values, x.n);
    } else {
      double wide[1024];
      for (std::size_t i = 0; i < x.n;) {
        const std::size_t k = std::min(x.n - i, std::size(wide));
        std::copy_n(values + i, k, wide);
        sum.add(wide, k);
        i += k;
      }
    }
    const T value = static_cast<T>(sum.round());
    return load_scalar(info.out, &value);
  }
};

}  // namespace

void add_xsum(contestants& out) {
  out.found.push_back({"xsum", BITFOLD_XSUM_VERSION});
  out.list.push_back(std::make_unique<exact<small_accumulator, double>>());
  out.list.push_back(std::make_unique<exact<large_accumulator, double>>());
  out.list.push_back(std::make_unique<exact<small_accumulator, float>>());
  out.list.push_back(std::make_unique<exact<large_accumulator, float>>());
}

}  // namespace bitfold::accuracy
#else
void bitfold::accuracy::add_xsum(contestants& out) {
  out.missing.push_back({"xsum", "not built in: configure with -DBITFOLD_XSUM_DIR=, its checkout"});
}
#endif
