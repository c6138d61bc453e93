// The family of torch's tensors.
#pragma once

#include "family.hpp"

#include <array>
#include <span>
#include <vector>

namespace bitfold::python {

struct exchange;  // DLPack's C exchange API (tensors.cpp)

class tensors final : public family {
 public:
  /// `own`: the types of tensors that are plain; `dtypes`: those of elements, by bitfold's names;
  /// `team`, `threads`: of the threads that the library itself computes on.
  tensors(nb::object api, std::vector<nb::object> own, const nb::dict& dtypes,
          nb::object empty_like, std::uintptr_t team, std::uintptr_t threads);

  /// Errors: RuntimeError for what has no elements in memory that DLPack can show.
  std::optional<described> read(nb::handle x, const char* argument, taking what) const override;
  memory make(const model& beside, element_type type,
              std::span<const std::int64_t> shape) const override;
  memory like(const model& beside, const described& x) const override;
  memory room(const model& beside, std::size_t bytes) const override;
  cuda::stream stream(const described& x) const override;
  team_of_threads threads() const override { return threads_; }

  /// A tensor of torch's own types, of a type and on a device that the library has.
  std::optional<described> plain(nb::handle x) const;
  nb::handle dtype_of(const described& x) const { return dtypes_[x.type.index()]; }

 private:
  memory placed(nb::object made, std::uint64_t bytes) const;

  const exchange& api_;
  nb::object keep_;
  std::vector<nb::object> own_;
  std::array<nb::object, element_types> dtypes_;
  nb::object empty_like_;
  team_of_threads threads_;
};

/// Its calls of torch's operators (operators.cpp, products.cpp).
void add_operators(nb::class_<tensors, family>& c);
void add_product_operators(nb::class_<tensors, family>& c);

}  // namespace bitfold::python
