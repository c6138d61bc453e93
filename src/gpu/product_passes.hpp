// What plans of products by method `fixed` share: operands as kernels read them, and the passes
// that measure them.
#pragma once

#include <algorithm>
#include <bitfold/cuda/products.hpp>
#include <string>
#include <string_view>

#include "products.hpp"

namespace bitfold::gpu {

inline constexpr std::string_view products_header = "bitfold/cuda/products.cuh";

/// An operand as kernels read it.
struct operand_vectors {
  cuda::product_vectors of;
  order::index count;  ///< of all matrices
  bool one;            ///< all results have the same matrix of it
  bool across;         ///< vectors are neighbours, rather than elements
  int pack;
  dtype type;
  detail::axes elements;
  bool listed;  ///< elements, by their offsets
  place offsets{}, largest{}, specials{}, scales{};

  order::index offset_bytes() const {
    return listed ? rounded_up(4 * up_to(of.n, cuda::elements_of_quad)) : 0;
  }
};

/// Whether offsets of 32 bits say where elements lie along these axes.
bool are_near(const detail::axes& elements);
using stride_of = std::int64_t detail::axes::axis::*;
/// Whether all results have the same matrix of an operand.
bool is_one(const detail::axes& results, stride_of stride);
/// The vectors of both operands. Of several results, where both have one matrix, the left one's is
/// taken again for each.
operand_vectors rows_of(const product_problem& of);
operand_vectors columns_of(const product_problem& of);
cuda::product_output output_of(order::index rows, order::index columns,
                               const detail::addend_layout* addend, void* out);

/// Bytes of what is noted of vectors when they are measured: one behind the other, of a and of b.
constexpr std::size_t measured_bytes(order::index vectors) { return rounded_up(12 * vectors); }
/// Says where that is, from `begin` on.
void place_measures(operand_vectors& a, operand_vectors& b, place begin);

inline std::string element_of(dtype type) { return "using element = " + type_name(type) + ";\n"; }
/// A kernel's template arguments, one behind the other.
template <class... Values>
std::string arguments_of(std::string_view first, const Values&... others) {
  std::string all(first);
  const auto text = [](const auto& value) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, bool>)
      return std::string(value ? "true" : "false");
    else if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>)
      return value;
    else
      return std::to_string(value);
  };
  ((all += ", " + text(others)), ...);
  return all;
}
pass& add_product_pass(plan& to, std::string_view header, std::string_view name,
                       const std::string& definitions, const std::string& with, order::index blocks,
                       order::index rows_of_blocks, std::size_t shared = 0);
/// How integers become digits of 8 bits.
struct digit_way {
  int digits, sums;
  bool wide;   ///< integers lie in 64 bits: those of more than 29 bits
  bool bytes;  ///< digits to the base 256, of which all pairs are summed
  std::string type() const {
    return bytes ? "cuda::bytes<" + std::to_string(digits) + ">"
                 : "cuda::residues<" + std::to_string(digits) + ", " + (wide ? "true>" : "false>");
  }
  std::size_t integer_bytes() const { return wide ? 8 : 4; }
};
/// Whether a team's registers hold a vector: then it is measured where its digits are made.
bool is_read_once(const operand_vectors& v);
/// Adds the pass that makes digits, and notes scales.
void add_digits(plan& to, const operand_vectors& v, const digit_way& way, cuda::product_digits d,
                place digits, int bits, bool read_once);
/// Adds the pass that notes the largest magnitude of each vector, whose notes are zeros; before it
/// one that lists where elements are.
void add_measure(plan& to, const operand_vectors& v);
/// Adds the pass that lists where elements are, alone.
void add_list_of_offsets(plan& to, const operand_vectors& v);
void set_vectors(arguments& to, std::size_t at, const operand_vectors& v);

}  // namespace bitfold::gpu
