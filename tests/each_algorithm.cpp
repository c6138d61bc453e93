// In the place of cuBLASLt in a test on a GPU: that library, but products are by one algorithm
// after the other, as the test says, and not by that of the library's choice. These are: what its
// heuristic offers, and of each algorithm each tile with each number of stages, whole and with n
// split in parts.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <type_traits>
#include <vector>

namespace {

// What cublasLt.h says of them.
using handle = void*;
using description = void*;
using matrix = void*;
using preference = void*;
struct algorithm {
  std::uint64_t data[8];
  auto operator<=>(const algorithm&) const = default;
};
struct heuristic {
  algorithm chosen;
  std::size_t workspace;
  int state;
  float waves;
  int reserved[4];
};
constexpr int compute_in_int32 = 72, type_int8 = 3, type_int32 = 10;
constexpr int can_split = 0, tile_ids = 6, stages_ids = 13;                   // capabilities
constexpr int tile = 1, parts_of_n = 2, how_parts_are_added = 3, stages = 6;  // configuration
constexpr int added_in_place = 1, added_in_workspace = 2;
constexpr int most_workspace = 1;  // a preference

void* the_library() {
  static void* const opened = [] {
    for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"})
      if (void* const found = dlopen(name, RTLD_LAZY | RTLD_LOCAL)) return found;
    return static_cast<void*>(nullptr);
  }();
  return opened;
}
template <class... Parameters>
int call(const char* name, std::type_identity_t<Parameters>... arguments) {
  constexpr int not_initialized = 1;
  void* const function = the_library() ? dlsym(the_library(), name) : nullptr;
  return function ? reinterpret_cast<int (*)(Parameters...)>(function)(arguments...)
                  : not_initialized;
}

struct product {
  handle by;
  description what;
  matrix a, b, c, d;
  std::size_t workspace;
};

class all_of_them {
 public:
  explicit all_of_them(const product& p) : p_(p) {
    offered();
    std::array<int, 256> ids{};
    int count = 0;
    call<handle, int, int, int, int, int, int, int, int*, int*>(
        "cublasLtMatmulAlgoGetIds", p.by, compute_in_int32, type_int32, type_int8, type_int8,
        type_int32, type_int32, static_cast<int>(ids.size()), ids.data(), &count);
    for (int k = 0; k < count; ++k) configured(ids[static_cast<std::size_t>(k)]);
  }
  std::vector<algorithm> found() const { return {found_.begin(), found_.end()}; }

 private:
  void offered() {
    preference how = nullptr;
    if (call<preference*>("cublasLtMatmulPreferenceCreate", &how) != 0) return;
    call<preference, int, const void*, std::size_t>("cublasLtMatmulPreferenceSetAttribute", how,
                                                    most_workspace, &p_.workspace,
                                                    sizeof p_.workspace);
    std::array<heuristic, 64> results{};
    int count = 0;
    call<handle, description, matrix, matrix, matrix, matrix, preference, int, heuristic*, int*>(
        "cublasLtMatmulAlgoGetHeuristic", p_.by, p_.what, p_.a, p_.b, p_.c, p_.d, how,
        static_cast<int>(results.size()), results.data(), &count);
    call<preference>("cublasLtMatmulPreferenceDestroy", how);
    for (int k = 0; k < count; ++k) add(results[static_cast<std::size_t>(k)].chosen);
  }
  void configured(int id) {
    algorithm a{};
    if (call<handle, int, int, int, int, int, int, int, algorithm*>(
            "cublasLtMatmulAlgoInit", p_.by, compute_in_int32, type_int32, type_int8, type_int8,
            type_int32, type_int32, id, &a) != 0)
      return;
    std::int32_t splits = 0;
    (void)capability(a, can_split, &splits, sizeof splits);
    for (const std::uint32_t t : several(a, tile_ids))
      for (const std::uint32_t s : several(a, stages_ids)) {
        configure(a, tile, t);
        configure(a, stages, s);
        add(a);
        for (const int how : {added_in_place, added_in_workspace}) {
          algorithm split = a;
          configure(split, parts_of_n, 3);
          configure(split, how_parts_are_added, static_cast<std::uint32_t>(how));
          if (splits) add(split);
        }
      }
  }
  static std::size_t capability(const algorithm& of, int which, void* value, std::size_t size) {
    std::size_t written = 0;
    const int status = call<const algorithm*, int, void*, std::size_t, std::size_t*>(
        "cublasLtMatmulAlgoCapGetAttribute", &of, which, value, size, &written);
    return status == 0 ? written : 0;
  }
  static std::vector<std::uint32_t> several(const algorithm& of, int which) {
    std::vector<std::uint32_t> all(capability(of, which, nullptr, 0) / sizeof(std::uint32_t));
    if (!all.empty()) (void)capability(of, which, all.data(), all.size() * sizeof all[0]);
    if (all.empty()) all.push_back(0);
    return all;
  }
  static void configure(algorithm& a, int which, std::uint32_t value) {
    call<algorithm*, int, const void*, std::size_t>("cublasLtMatmulAlgoConfigSetAttribute", &a,
                                                    which, &value, sizeof value);
  }
  void add(const algorithm& a) {
    heuristic checked{};
    const int status =
        call<handle, description, matrix, matrix, matrix, matrix, const algorithm*, heuristic*>(
            "cublasLtMatmulAlgoCheck", p_.by, p_.what, p_.a, p_.b, p_.c, p_.d, &a, &checked);
    if (status == 0 && checked.workspace <= p_.workspace) found_.insert(a);
  }

  const product& p_;
  std::set<algorithm> found_;
};

/// What was said of each matrix, and what was found for products of such ones.
std::map<matrix, std::vector<std::int64_t>> said_of;
std::map<std::vector<std::int64_t>, std::vector<algorithm>> known;

const std::vector<algorithm>& all_for(const product& p) {
  std::vector<std::int64_t> key = {static_cast<std::int64_t>(p.workspace)};
  for (const matrix m : {p.a, p.b, p.d})
    key.insert(key.end(), said_of[m].begin(), said_of[m].end());
  std::vector<algorithm>& all = known[key];
  if (all.empty()) all = all_of_them(p).found();
  return all;
}

std::size_t wanted, most;
std::set<algorithm> taken;

}  // namespace

extern "C" {

/// Products that follow take the algorithm of this number, counted from 0 on again behind the last.
void each_algorithm_take(std::size_t number) { wanted = number; }
/// How many there are at most for a product so far, and how many were taken.
std::size_t each_algorithm_most() { return most; }
std::size_t each_algorithm_taken() { return taken.size(); }

int cublasLtCreate(handle* made) { return call<handle*>("cublasLtCreate", made); }
int cublasLtMatmulDescCreate(description* made, int compute, int scale) {
  return call<description*, int, int>("cublasLtMatmulDescCreate", made, compute, scale);
}
int cublasLtMatmulDescDestroy(description done) {
  return call<description>("cublasLtMatmulDescDestroy", done);
}
int cublasLtMatmulDescSetAttribute(description of, int which, const void* value, std::size_t size) {
  return call<description, int, const void*, std::size_t>("cublasLtMatmulDescSetAttribute", of,
                                                          which, value, size);
}
int cublasLtMatrixLayoutCreate(matrix* made, int type, std::uint64_t rows, std::uint64_t columns,
                               std::int64_t pitch) {
  const int status = call<matrix*, int, std::uint64_t, std::uint64_t, std::int64_t>(
      "cublasLtMatrixLayoutCreate", made, type, rows, columns, pitch);
  said_of[*made] = {type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns),
                    pitch};
  return status;
}
int cublasLtMatrixLayoutDestroy(matrix done) {
  return call<matrix>("cublasLtMatrixLayoutDestroy", done);
}
int cublasLtMatrixLayoutSetAttribute(matrix of, int which, const void* value, std::size_t size) {
  std::int64_t number = 0;
  std::memcpy(&number, value, size);
  said_of[of].insert(said_of[of].end(), {which, number});
  return call<matrix, int, const void*, std::size_t>("cublasLtMatrixLayoutSetAttribute", of, which,
                                                     value, size);
}
int cublasLtMatmul(handle by, description what, const void* alpha, const void* a, matrix of_a,
                   const void* b, matrix of_b, const void* beta, const void* c, matrix of_c,
                   void* d, matrix of_d, const void*, void* workspace, std::size_t size, void* on) {
  const product asked{by, what, of_a, of_b, of_c, of_d, size};
  const std::vector<algorithm>& all = all_for(asked);
  most = std::max(most, all.size());
  constexpr int not_supported = 15;
  // Some that pass the library's check do not take these addresses.
  for (std::size_t k = 0; k < all.size(); ++k) {
    const algorithm& next = all[(wanted + k) % all.size()];
    const int status =
        call<handle, description, const void*, const void*, matrix, const void*, matrix,
             const void*, const void*, matrix, void*, matrix, const void*, void*, std::size_t,
             void*>("cublasLtMatmul", by, what, alpha, a, of_a, b, of_b, beta, c, of_c, d, of_d,
                    &next, workspace, size, on);
    if (status == 0) return taken.insert(next), 0;
  }
  return not_supported;
}
}
