// What an array library does for a call on its arrays: it makes results and workspace, and says
// where the work runs.
#pragma once

#include "core.hpp"

#include <span>

#include <bitfold/cuda.hpp>

namespace bitfold::python {

/// An array as it was given, beside which others are made.
struct model {
  element_type type;
  nb::handle object;
};

/// An object of the library's, and where its elements lie.
struct memory {
  nb::object object;
  void* address = nullptr;
};

class results;

/// The bytes of elements of such a shape.
inline std::uint64_t room_of(element_type type, std::span<const std::int64_t> shape) {
  std::uint64_t bytes = size_of(type.stored);
  for (const std::int64_t extent : shape) bytes *= static_cast<std::uint64_t>(extent);
  return bytes;
}

/// Room for what a call needs besides its results.
struct workspace {
  void* address = nullptr;
  std::size_t size = 0;
};

/// Threads of another library's, and how many: null where it has none that are known.
struct team_of_threads {
  cpu::team team = nullptr;
  int (*count)() = nullptr;
};

class family {
 public:
  virtual ~family() = default;

  /// An array of the family's own, described; nothing where the family is of what _core.Array and
  /// Python's buffer protocol describe.
  virtual std::optional<described> read(nb::handle, const char* /*argument*/, taking) const {
    return std::nullopt;
  }
  /// Whether x may be read by the buffer protocol.
  virtual bool knows(nb::handle) const { return true; }
  /// This family, if it is NumPy's.
  virtual const results* numpy() const { return nullptr; }
  /// A result, in a row; beside that array, on its device.
  virtual memory make(const model& beside, element_type type,
                      std::span<const std::int64_t> shape) const = 0;
  /// Another as x, which lies in a row.
  virtual memory like(const model& beside, const described& x) const {
    return make(beside, x.type, {x.where.extent.data(), static_cast<std::size_t>(x.where.rank)});
  }
  /// Bytes of workspace on a GPU, and the stream on which the work is enqueued.
  virtual memory room(const model& beside, std::size_t bytes) const = 0;
  virtual cuda::stream stream(const described& x) const = 0;
  virtual team_of_threads threads() const { return {}; }
  /// A result as the user gets it.
  virtual nb::object shown(nb::object made, element_type, bool /*as_scalar*/) const { return made; }

  /// On x's GPU, on the stream and with a workspace of that size; or on the CPU, where x says how
  /// much work there is.
  template <class Size, class OnGpu, class OnCpu>
  void run(const described& x, const model& beside, Size size, OnGpu on_gpu, OnCpu on_cpu) const {
    if (!x.on_gpu()) {
      const team_of_threads t = threads();
      const without_lock free(worth_the_lock(x));
      if (!t.team) return on_cpu(how_for(x));
      const cpu::on_team with(t.team);
      return on_cpu(how_for(x, t.count()));
    }
    const cuda::current_device here(x.device);
    const std::size_t bytes = size();
    const memory held = bytes > 0 ? room(beside, bytes) : memory{};
    const cuda::stream where = stream(x);
    const nb::gil_scoped_release free;
    on_gpu(workspace{held.address, bytes}, where);
  }
};

inline constexpr auto no_room = [] { return std::size_t{0}; };

/// NumPy: its arrays and scalars, which are made without knowing them: of each type the 0-d array
/// that it was shown.
class results final : public family {
 public:
  explicit results(nb::object empty) : empty_(std::move(empty)) {}

  /// `cell`: a 0-d array of that type, or of one of its size, that exports its memory; `shown`: of
  /// the type that the user sees, the same memory.
  void add(nb::handle type, nb::object cell, nb::object shown);

  /// No array of a subclass, which may mean something else by its memory.
  bool knows(nb::handle x) const override;
  const results* numpy() const override { return this; }
  memory make(const model& beside, element_type type,
              std::span<const std::int64_t> shape) const override;
  memory room(const model&, std::size_t) const override;
  cuda::stream stream(const described&) const override { return nullptr; }
  nb::object shown(nb::object made, element_type type, bool as_scalar) const override;

  nb::object scalar_of(element_type type, std::uint64_t bits) const;

 private:
  struct one {
    nb::object stored, as, cell, shown, held;  // `held`: what keeps the cell's memory as it is
    void* data = nullptr;
  };
  const one& find(element_type type) const;

  nb::object empty_;
  nb::tuple nothing_ = nb::make_tuple();
  std::array<one, element_types> each_;
};

}  // namespace bitfold::python
