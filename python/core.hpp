// What the files of bitfold._core share: arrays as Python has them, described.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <bitfold/cpu.hpp>
#include <bitfold/cuda.hpp>
#include <bitfold/reduction.hpp>
#include <bitfold/rows.hpp>
#include <bitfold/view.hpp>

namespace bitfold::python {

namespace nb = nanobind;

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

/// _core.Array: a description, with what keeps the memory alive.
struct array {
  described of;
  nb::object owner = {};
  nb::ndarray<nb::ro> tensor = {};  // where it came by DLPack
};

/// An argument of a call: an _core.Array, or what has Python's buffer protocol, held until the call
/// ends.
class input {
 public:
  input(nb::handle from, const char* argument, bool writable = false);
  ~input();
  input(const input&) = delete;
  input& operator=(const input&) = delete;

  /// Whether it is there: not None, and an array whose elements are of one of the types and lie at
  /// multiples of their size.
  explicit operator bool() const { return there_; }
  const described& operator*() const { return of_; }
  const described* operator->() const { return &of_; }

 private:
  void read_buffer(const char* argument);

  described of_;
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
/// copied to `room`. Long arrays without the interpreter's lock.
described with_truths(const described& x, std::vector<std::byte>& room);

/// The type of elements that DLPack describes so, if the library has it.
std::optional<element_type> type_of_dlpack(const nb::dlpack::dtype& t);

inline nb::str str(std::string_view s) { return nb::str(s.data(), s.size()); }
nb::tuple shape_of(std::span<const std::int64_t> extents);
std::string string_argument(std::string_view argument, nb::handle text);

/// Room from what the caller allocates with, on x's device, which is the current one for as long.
struct workspace {
  cuda::current_device here;
  nb::object keep;
  void* address = nullptr;
  std::size_t size;
  workspace(const described& x, nb::handle make, std::size_t bytes) : here(x.device), size(bytes) {
    if (bytes == 0) return;
    const nb::object both = make(nb::make_tuple(bytes), "u8");
    keep = both[0];
    address = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(both[1]));
  }
};

/// Errors: errc::usage for another name.
row_function row_function_named(std::string_view name);

void add_accumulator(nb::module_& m);
void add_golden(nb::module_& m);
void add_rows(nb::module_& m);
void add_tensors(nb::module_& m);

}  // namespace bitfold::python
