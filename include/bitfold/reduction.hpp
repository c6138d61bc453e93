// What to reduce and how: a run-time description shared by every engine, and the scalar it yields.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <bitfold/dtype.hpp>
#include <bitfold/error.hpp>
#include <bitfold/method.hpp>
#include <bitfold/op.hpp>

namespace bitfold {

/// A reduction of elements of type `in`, accumulated in `acc`, rounded once to `out`.
struct reduction {
  op_id op;
  method_id method;
  dtype in;
  dtype acc;
  dtype out;
};

/// The defaults: accumulators are f32 for f16, bf16 and f32, f64 for f64, i64 or u64 for integers;
/// the output type is the input type for floats and the accumulator type for integers.
/// Errors (errc::usage, naming the argument): for floats, acc is not f32 or f64 or is narrower than
/// `in`, or the output is an integer; for integers, acc is not the 64-bit integer they accumulate in.
reduction make_reduction(op_id op, method_id method, dtype in, std::optional<dtype> acc = {},
                         std::optional<dtype> out = {});

/// One result: its type and its bits, right-aligned.
struct scalar {
  dtype type;
  std::uint64_t bits;
  friend bool operator==(const scalar&, const scalar&) = default;
};

/// The shortest decimal that reads back as the same value of this type; "nan", "inf", "-inf".
std::string to_string(scalar value);
/// The bits in hex at full width, most significant digit first, no prefix: f32 1.0 is "3f800000".
std::string to_hex(scalar value);
/// The scalar stored at p (size_of(type) bytes).
scalar load_scalar(dtype type, const void* p);
void store_scalar(scalar value, void* p);

}  // namespace bitfold
