// What to reduce and how: a run-time description shared by every engine, and the scalar it yields.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <bitfold/dtype.hpp>
#include <bitfold/error.hpp>
#include <bitfold/formats.hpp>
#include <bitfold/method.hpp>
#include <bitfold/op.hpp>

namespace bitfold {

/// Every way to ask for an operation: by each of its methods, and by none where it has a way of its
/// own.
inline std::vector<std::optional<method_id>> methods_of(op_id op) {
  std::vector<std::optional<method_id>> all;
  if (!info(op).takes_method) all.emplace_back();
  for (const method_info& m : all_methods)
    if (takes(op, m.id)) all.emplace_back(m.id);
  return all;
}

/// A reduction of elements of type in(), accumulated in acc(), rounded once to out(). Only
/// make_reduction makes one, so that each one there is can be run.
class reduction {
 public:
  /// What is computed.
  op_id op() const { return op_; }
  /// How it adds; empty where there is no choice.
  std::optional<method_id> method() const {
    return takes(op_, method_) ? std::optional(method_) : std::nullopt;
  }
  /// The type of the elements, of both inputs where there are two.
  dtype in() const { return in_; }
  /// The type in which is added. By method exact, which accumulates in none of these, the one that
  /// others have by default.
  dtype acc() const { return acc_; }
  /// The type of the result.
  dtype out() const { return out_; }
  /// What var and std subtract from the number of elements; 0 elsewhere.
  int ddof() const { return ddof_; }

  friend bool operator==(const reduction&, const reduction&) = default;

 private:
  reduction(op_id op, method_id method, dtype in, int ddof)
      : op_(op), method_(method), in_(in), acc_(in), out_(in), ddof_(ddof) {}
  friend reduction make_reduction(op_id, std::optional<method_id>, dtype, std::optional<dtype>,
                                  std::optional<dtype>, int);

  op_id op_;
  method_id method_;
  dtype in_, acc_, out_;
  int ddof_;
};

/// Says what is to be computed; every engine takes it. Cheap: nothing is looked up or compiled.
/// op: the operation.
/// method: how it adds; nothing is method tree, or no method where the operation takes none. By
/// exact the infinitely precise value is rounded once to the output type, where the operation has
/// an exact form; integers that go to integers are taken modulo 2^bits.
/// in: the type of the elements.
/// acc: the type in which is added. By default f32 for f16, bf16 and f32, else f64 of floats; i64
/// or u64 of integers where the operation's typing is `additive`, and f64 where it is `real`; f64
/// where it is `wide`. On request f64 instead of f32.
/// out: the type of the result. By default that of the elements; of integers the accumulator's; of
/// other typings what default_out says.
/// ddof: what var and std subtract from the number of elements they divide by.
/// Errors (errc::usage, naming the argument): a method that the operation does not take; an
/// accumulator for method exact, or one that is none of these (takes_acc); an output type that the
/// operation does not give (takes_out); ddof other than 0 for an operation but var and std, or
/// negative.
reduction make_reduction(op_id op, std::optional<method_id> method, dtype in,
                         std::optional<dtype> acc = {}, std::optional<dtype> out = {},
                         int ddof = 0);

/// One result: its type and its bits, right-aligned.
struct scalar {
  dtype type;
  std::uint64_t bits;
  friend bool operator==(const scalar&, const scalar&) = default;

  /// The value as a T, which is of this type or holds all of its values. Errors (errc::usage):
  /// another T.
  template <class T>
  T as() const;
};

/// The shortest decimal that reads back as the same value of this type; "nan", "inf", "-inf".
std::string to_string(scalar value);
/// The bits in hex at full width, most significant digit first, no prefix: f32 1.0 is "3f800000".
std::string to_hex(scalar value);
/// The scalar stored at p (size_of(type) bytes, at any alignment).
scalar load_scalar(dtype type, const void* p);
/// Writes the scalar's size_of(value.type) bytes to p, at any alignment.
void store_scalar(scalar value, void* p);

/// As to_string.
template <class Traits>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& out, scalar value) {
  return out << to_string(value);
}

namespace detail {
/// Whether T holds all values of S, both of them element types.
template <class T, class S>
constexpr bool holds_all() {
  using of_t = std::numeric_limits<T>;
  using of_s = std::numeric_limits<S>;
  if constexpr (std::is_same_v<T, S>)
    return true;
  else if constexpr (!std::is_arithmetic_v<T>)
    return false;  // float16, bfloat16
  else if constexpr (!std::is_arithmetic_v<S>)
    return !of_t::is_integer;
  else if constexpr (of_t::is_integer && !of_s::is_integer)
    return false;
  else
    return of_t::digits >= of_s::digits && (of_t::is_signed || !of_s::is_signed);
}
}  // namespace detail

template <class T>
T scalar::as() const {
  return visit(type, [this]<class S>(std::type_identity<S>) -> T {
    if constexpr (detail::holds_all<T, S>()) {
      S s;
      store_scalar(*this, &s);
      if constexpr (std::is_arithmetic_v<S>)
        return static_cast<T>(s);
      else if constexpr (std::is_same_v<T, S>)
        return s;
      else
        return arith::widen<T>(s);
    } else {
      throw error(errc::usage, "scalar: of type " + std::string(name(type)) + ", whose values a " +
                                   std::string(name(dtype_of<T>)) + " does not all hold");
    }
  });
}

}  // namespace bitfold
