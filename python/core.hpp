// What the files of bitfold._core share: arrays as Python has them, described (arrays.cpp).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <bitfold/cpu.hpp>
#include <bitfold/reduction.hpp>
#include <bitfold/view.hpp>

namespace bitfold::python {

namespace nb = nanobind;

[[noreturn]] void refuse(const std::string& what);       ///< ValueError
[[noreturn]] void refuse_type(const std::string& what);  ///< TypeError
/// Python's error, if it is one of that type; others, such as an interrupt, go on.
void forget(PyObject* type);

/// A dtype, or bool: a byte, of which whatever is not 0 is true (see with_truths).
struct element_type {
  dtype stored = dtype::u8;
  bool is_bool = false;

  std::string_view name() const { return is_bool ? "bool" : bitfold::name(stored); }
  std::size_t index() const {
    return is_bool ? all_dtypes.size() : static_cast<std::size_t>(stored);
  }
  friend bool operator==(const element_type&, const element_type&) = default;
};
inline constexpr std::size_t element_types = all_dtypes.size() + 1;

/// The type of that name. Errors: TypeError, naming the argument.
element_type parse_type(std::string_view argument, nb::handle name);

/// The same of numbers: TypeError for bool.
dtype parse_number(std::string_view argument, nb::handle name);

/// DLPack's device types.
enum device_type : int { on_cpu = 1, on_cuda = 2, on_cuda_host = 3, on_cuda_managed = 13 };

/// Whether elements of these extents and strides lie one behind the other, in row-major order.
bool lies_in_a_row(std::span<const std::int64_t> extents, const std::int64_t* strides);

/// An array of any layout, on any device.
struct described {
  element_type type;
  view where;
  int device_type = on_cpu, device = 0;

  bool on_gpu() const { return device_type == on_cuda || device_type == on_cuda_managed; }
  std::uint64_t size() const;
  bool is_row_major() const {
    return lies_in_a_row({where.extent.data(), static_cast<std::size_t>(where.rank)},
                         where.stride.data());
  }
};

inline bool on_one_device(const described& x, const described& y) {
  return x.on_gpu() == y.on_gpu() && (!x.on_gpu() || x.device == y.device);
}

/// Whether every element lies at a multiple of its size.
bool is_aligned(const described& x);

/// Memory of a copy.
using own_memory = std::shared_ptr<const std::vector<std::byte>>;

/// _core.Array: a description, with what keeps the memory alive.
struct array {
  described of;
  nb::object owner = {};
  nb::ndarray<nb::ro> tensor = {};  // where it came by DLPack
  own_memory copy = {};             // where the elements were copied
  bool read_only = false;
};

class family;

/// What is taken for an argument.
enum class taking {
  arrays,    ///< of up to max_axes axes
  elements,  ///< of any number of axes, where they lie one behind the other: then as one axis
  results,   ///< elements, to be written
};

/// An argument of a call: an _core.Array, an array that the family reads, or what has Python's
/// buffer protocol, held until the call ends. Elements on a CPU that do not lie at multiples of
/// their size are copied. Errors, naming the argument: of results ValueError for those that are
/// read-only, and TypeError for those that would be copied.
class input {
 public:
  input(nb::handle from, const char* argument, const family* of = nullptr,
        taking what = taking::arrays);
  ~input();
  input(const input&) = delete;
  input& operator=(const input&) = delete;

  /// Whether it is there: not None, and an array whose elements are of one of the types.
  explicit operator bool() const { return there_; }
  const described& operator*() const { return of_; }
  const described* operator->() const { return &of_; }
  /// The array itself, beside which a family makes others.
  nb::handle object() const { return object_; }
  /// The copy, where there is one.
  const own_memory& copy() const { return copy_; }
  bool is_read_only() const { return held_ && buffer_.readonly; }

 private:
  input() = default;
  void find(nb::handle from, const char* argument, const family* of, taking what);
  void read_buffer(const char* argument);

  described of_;
  nb::handle object_;
  own_memory copy_;
  Py_buffer buffer_{};
  bool held_ = false, there_ = false;
};

/// Those of a buffer, which is there or TypeError.
const described& needed(const input& x, const char* argument);

/// Of short arrays the calls take less than giving the interpreter's lock away and waiting for it.
bool worth_the_lock(const described& x);
class without_lock {
 public:
  explicit without_lock(bool worth_it) {
    if (worth_it) released_.emplace();
  }

 private:
  std::optional<nb::gil_scoped_release> released_;
};
/// On as many threads as the library likes; on one in a child process, which has none of its
/// parent's threads, and their locks as they were, where the parent has used them.
cpu::options how_for(const described& x);
/// On so many of another library's threads; in a child process on one, as that library may have
/// used them.
cpu::options how_for(const described& x, int threads);

/// x, of bool on the CPU, with the bytes 0 and 1 alone: itself or, where others stand for true,
/// copied to `room`.
described with_truths(const described& x, std::vector<std::byte>& room, const cpu::options& opts);
/// Of each bool by itself: 0 or 1.
extern const reduction truth_of_one;
/// How many bytes are not 0, of bools that lie in a row on the CPU.
std::uint64_t count_truths(const described& x, const cpu::options& opts);

/// Row-major, of the extents of x.
described in_a_row(const described& x, const void* data);

/// What a DLPack tensor says of itself. Errors, naming the argument: TypeError for elements of
/// another type or for another device, ValueError for too many axes.
described described_by_dlpack(const nb::dlpack::dltensor& t, const char* argument, taking what);
/// The same, or nothing.
std::optional<described> described_by_dlpack(const nb::dlpack::dltensor& t);

inline nb::str str(std::string_view s) { return nb::str(s.data(), s.size()); }
nb::tuple shape_of(std::span<const std::int64_t> extents);
std::string string_argument(std::string_view argument, nb::handle text);

/// Whatever Python takes for an index. Errors, naming the argument: TypeError; ValueError beyond 64
/// bits.
std::int64_t integer(const char* argument, nb::handle x);

/// Once, before any call: how_for asks for it.
void look_after_forks();

void add_accumulator(nb::module_& m);
void add_arrays(nb::module_& m);
void add_calls(nb::module_& m);
void add_distributed(nb::module_& m);
void add_meeting(nb::module_& m);
void add_families(nb::module_& m);
void add_golden(nb::module_& m);
void add_products(nb::module_& m);
void add_requests(nb::module_& m);
void add_channels(nb::module_& m);
void add_rows(nb::module_& m);
void add_tensors(nb::module_& m);

}  // namespace bitfold::python
