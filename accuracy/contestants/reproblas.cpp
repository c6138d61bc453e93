// ReproBLAS, sums whose bits don't depend on the order of the elements, where the build was given
// it.
#include "../contestant.hpp"

#ifdef BITFOLD_REPROBLAS_VERSION
#include <limits>

// As its reproBLAS.h declares them; that header is C.
extern "C" {
double reproBLAS_dsum(int n, const double* x, int step);
float reproBLAS_ssum(int n, const float* x, int step);
}

namespace bitfold::accuracy {
namespace {

template <class T>
class binned final : public contestant {
 public:
  binned(const char* function, T (*sum)(int, const T*, int))
      : contestant({.id = "reproblas/sum/" + std::string(name(dtype_of<T>)),
                    .name = "ReproBLAS sum",
                    .family = "ReproBLAS",
                    .device = "cpu",
                    .about = std::string(function) + ": a binned sum of the default fold, 3",
                    .in = dtype_of<T>,
                    .acc = "binned " + std::string(name(dtype_of<T>)),
                    .out = dtype_of<T>}),
        sum_(sum) {}
  std::vector<variation> variations() const override { return {{"1 thread", true, 1}}; }
  bool takes(std::size_t n) const override { return n <= std::numeric_limits<int>::max(); }
  scalar run(const array_view& x, std::size_t) override {
    const T value = sum_(static_cast<int>(x.n), static_cast<const T*>(x.data), 1);
    return load_scalar(info.out, &value);
  }

 private:
  T (*sum_)(int, const T*, int);
};

}  // namespace

void add_reproblas(contestants& out) {
  out.found.push_back({"ReproBLAS", BITFOLD_REPROBLAS_VERSION});
  out.list.push_back(std::make_unique<binned<float>>("reproBLAS_ssum", reproBLAS_ssum));
  out.list.push_back(std::make_unique<binned<double>>("reproBLAS_dsum", reproBLAS_dsum));
}

}  // namespace bitfold::accuracy
#else
void bitfold::accuracy::add_reproblas(contestants& out) {
  out.missing.push_back(
      {"ReproBLAS", "not built in: configure with -DBITFOLD_REPROBLAS_DIR=, its built checkout"});
}
#endif
