// What is reduced together: files, or pairs of them, and their arrays.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <bitfold/error.hpp>
#include <bitfold/op.hpp>

#include "cli/common.hpp"
#include "cli/progress.hpp"
#include "io/arrays.hpp"
#include "io/field.hpp"

namespace bitfold::cli {

/// One file, or two.
using file_names = std::span<const std::string>;

/// "a", or "a and b".
std::string text_of(file_names files);

/// How many inputs these operations take. Throws (errc::usage) where they differ, naming `option`,
/// or where so many files are no pairs.
std::size_t inputs_of(const std::vector<op_id>& ops, const char* option, std::size_t files);

/// The files, or pairs of them, that are reduced one after the other.
std::vector<file_names> groups_of(file_names files, std::size_t inputs);

/// Files that are read, and the shards that they name, which output may not overwrite.
class input_files {
 public:
  explicit input_files(const std::vector<std::string>& files);
  /// Throws (errc::usage) where `out`, which `option` names, is one of them by whatever path. What
  /// is no regular file is not overwritten.
  void refuse_overwriting(std::string_view option, const std::string& out) const;

 private:
  std::map<std::string, std::string> places_;                  // to each a path
  std::map<std::pair<dev_t, ino_t>, std::string> identities_;  // of those that are there
};

/// The same of a few.
void refuse_overwriting(std::string_view option, const std::string& out,
                        const std::vector<std::string>& files);

/// A passing progress of the bytes of these files, and of the shards that they name.
class bytes_read : public progress {
 public:
  bytes_read(file_names files, bool quiet);
  /// Nothing more is read of these.
  void end_of(file_names files);

 private:
  double read_ = 0;
};

/// Throws (errc::usage) where a path, or a pair of them, stands there twice.
void refuse_twice(const std::vector<file_names>& groups);

/// Calls f, whose errors are about that array of these files.
template <class F>
auto within(file_names files, const std::string& tensor, F f) {
  try {
    return f();
  } catch (const error& e) {
    throw about(text_of(files), tensor, e);
  }
}

/// An array, or two of one name and type.
template <class Array>
struct operands {
  const Array* x;
  const Array* y;  ///< null for operations of one input
};

/// What is reduced of one or two arrays, as io::numbers_of has it.
class numbers_of_operands {
 public:
  numbers_of_operands(const io::array& x, const io::array* y) : x_(io::numbers_of(x)) {
    if (y) y_ = io::numbers_of(*y);
  }
  dtype type() const { return x_.type; }
  const void* x() const { return x_.data; }
  const void* y() const { return y_ ? y_->data : nullptr; }

 private:
  io::numbers x_;
  std::optional<io::numbers> y_;
};

template <class T>
void check_same(file_names files, const std::string& tensor, const char* field, const T& x,
                const T& y) {
  if (x != y)
    within(files, tensor,
           [&] { throw error(errc::usage, fmt::format("{}: {} and {}", field, x, y)); });
}
template <class Array>
void check_same_shape(file_names files, const operands<Array>& o) {
  check_same(files, o.x->name, "shape", io::shape_text(o.x->shape), io::shape_text(o.y->shape));
}

/// Each array of the first file, with that of the same name of the second if there is one. Throws
/// (errc::usage) where one of two has none, or another type.
template <class Array>
std::vector<operands<Array>> operands_of(file_names files, const std::vector<Array>& xs,
                                         const std::vector<Array>* ys) {
  std::vector<operands<Array>> all;
  for (const Array& x : xs) all.push_back({&x, nullptr});
  if (!ys) return all;

  const auto missing = [&](std::size_t in, const std::string& name) {
    const std::string what =
        name.empty() ? "array without a name" : "tensor " + io::in_quotes(name);
    throw error(errc::usage, fmt::format("{}: no {}, which {} has", io::printable(files[in]), what,
                                         io::printable(files[1 - in])));
  };
  std::map<std::string_view, const Array*> by_name;
  for (const Array& y : *ys) by_name[y.name] = &y;
  for (operands<Array>& o : all) {
    const auto found = by_name.extract(o.x->name);
    if (found.empty()) missing(1, o.x->name);
    o.y = found.mapped();
    check_same(files, o.x->name, "dtype", name(o.x->type), name(o.y->type));
  }
  if (!by_name.empty()) missing(0, std::string(by_name.begin()->first));
  return all;
}

}  // namespace bitfold::cli
