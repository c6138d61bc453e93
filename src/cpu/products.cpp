// Products of matrices: operands become integers once, blocks of the result are shared out among
// threads, and each element is rounded once. Every sum on the way is exact (docs/products.md).
#include "products.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include <bitfold/exact.hpp>

#include "product_operands.hpp"

namespace bitfold::cpu {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw error(errc::usage, what); }

using integers = prepared::integers;

// ---- One element --------------------------------------------------------------------------------

using exact::wide;
using exact::word;

template <class Out>
Out rounded(__int128 t, int e) {
  if (t == 0) return arith::round_to<Out>(0.0);
  const bool negative = t < 0;
  const wide m = negative ? -static_cast<wide>(t) : static_cast<wide>(t);
  const auto upper = static_cast<word>(m >> 64);
  const int zeros = upper ? std::countl_zero(upper) : 64 + std::countl_zero(static_cast<word>(m));
  const wide normal = m << zeros;
  const bool odd = static_cast<word>(normal) != 0;
  return arith::detail::round_odd_to<Out>(negative, static_cast<word>(normal >> 64) | (odd ? 1 : 0),
                                          e + 64 - zeros);
}

// Of two digits: high 2^58 + middle 2^29 + low. Of so many terms below 2^114 it is below 2^127.
constexpr std::size_t max_short = std::size_t{1} << 13;
static_assert(2 * (max_product_bits - 1) + 13 <= 127);
__int128 short_sum(__int128 high, __int128 middle, __int128 low) {
  return high * (__int128{1} << 2 * digit_bits) + middle * (__int128{1} << digit_bits) + low;
}
template <class Out>
Out rounded(__int128 high, __int128 middle, __int128 low, int e) {
  constexpr int words = 4;
  word sum[words]{};
  const auto add = [&](__int128 t, int shift) {
    const word sign = t < 0 ? ~word{0} : 0;
    const word parts[words] = {static_cast<word>(t), static_cast<word>(t >> 64), sign, sign};
    bool carry = false;
    for (int i = 0; i < words; ++i) {
      const word part =
          (parts[i] << shift) | (i > 0 && shift > 0 ? parts[i - 1] >> (64 - shift) : 0);
      sum[i] = exact::add_carry(sum[i], part, carry);
    }
  };
  add(high, 2 * digit_bits);
  add(middle, digit_bits);
  add(low, 0);
  const bool negative = sum[words - 1] >> 63;
  if (negative) {
    bool borrow = false;
    for (word& w : sum) w = exact::sub_borrow(0, w, borrow);
  }
  if (exact::bit_length(sum, words) == 0) return arith::round_to<Out>(0.0);
  return exact::leading(sum, words, e).template round<Out>(negative);
}

// The product of two elements of which one is not finite, as a bit: a NaN, inf or -inf.
enum special_bits : unsigned { plus = 1, minus = 2, not_a_number = 4 };
unsigned special_product(double a, double b) {
  const double p = a * b;
  if (std::isfinite(a) && std::isfinite(b)) return 0;
  return std::isnan(p) ? not_a_number : p > 0 ? plus : minus;
}

// ---- Blocks of the result -----------------------------------------------------------------------

struct block {
  std::uint64_t result, a, b;  // which matrices
  std::size_t row_panel, row_panels, column_panel, column_panels;
};

class multiplication {
 public:
  multiplication(const matrix_product& p, const integers& a, const integers& b,
                 const detail::product_layout& l, void* out)
      : product_(p),
        a_(a),
        b_(b),
        layout_(l),
        kernels_(find_product_kernels(a.used)),
        two_(a.low != nullptr),
        out_(static_cast<std::byte*>(out)) {
    for (std::size_t c = 0; c < block_columns; ++c)
      places_[c] = static_cast<std::size_t>(kernels_.sum_place(static_cast<int>(c)));
    // Two integers below 2^(bits - 1), or 2^28 of a low digit, which come twice in the middle sum.
    const int product_bits = two_ ? 2 * (digit_bits - 1) + 1 : 2 * (p.bits() - 1);
    run_ = p.bits() == 0 ? max_terms
                         : std::min(max_terms, std::size_t{1} << std::min(63 - product_bits, 30));
  }

  void run(const options& opts) const {
    const std::size_t rows = static_cast<std::size_t>(a_.width) * 16, columns = block_columns;
    const std::size_t row_panels = rows / static_cast<std::size_t>(a_.width),
                      column_panels = columns / static_cast<std::size_t>(b_.width);
    const std::size_t down = (a_.panels + row_panels - 1) / row_panels,
                      across = (b_.panels + column_panels - 1) / column_panels;
    const std::size_t results = layout_.results.size();
    const double work = static_cast<double>(results) * static_cast<double>(a_.padded()) *
                        static_cast<double>(b_.padded()) * static_cast<double>(layout_.a.n);
    const int threads = threads_for(opts, static_cast<std::size_t>(std::min(work, 1e15)) / 4);
    const std::size_t blocks = results * down * across,
                      tasks = std::min(blocks, chunk_count(threads));
    parallel_for(tasks, threads, [&](std::size_t task) {
      std::vector<std::int64_t> sums((two_ ? 6 : 2) * rows * columns);
      for (std::size_t i = blocks * task / tasks; i < blocks * (task + 1) / tasks; ++i) {
        const std::size_t result = i / (down * across), r = i % down, c = i / down % across;
        const auto at = layout_.results.offset_of(result);
        multiply({result, static_cast<std::uint64_t>(at.x), static_cast<std::uint64_t>(at.y),
                  r * row_panels, std::min(row_panels, a_.panels - r * row_panels),
                  c * column_panels, std::min(column_panels, b_.panels - c * column_panels)},
                 sums);
      }
    });
  }

 private:
  static constexpr std::size_t block_columns = 64;  // a multiple of any tile's
  static constexpr std::size_t max_terms = 512;     // that a block takes before the next ones

  void multiply(const block& k, std::vector<std::int64_t>& sums) const {
    const std::size_t rows = k.row_panels * static_cast<std::size_t>(a_.width),
                      columns = k.column_panels * static_cast<std::size_t>(b_.width);
    std::fill(sums.begin(), sums.end(), 0);  // high and low; of two digits three times
    const auto sums_of = [&](std::size_t which, std::size_t at) {
      return tile_sums{sums.data() + 2 * which * rows * columns + at,
                       sums.data() + (2 * which + 1) * rows * columns + at,
                       static_cast<std::ptrdiff_t>(columns)};
    };
    for (std::size_t begin = 0; begin < layout_.a.n; begin += max_terms) {
      const std::size_t n = std::min(max_terms, layout_.a.n - begin);
      for (std::size_t c = 0; c < k.column_panels; ++c)
        for (std::size_t r = 0; r < k.row_panels; ++r) {
          const std::size_t at_a = a_.panel_at(k.a, k.row_panel + r) +
                                   begin * static_cast<std::size_t>(a_.width),
                            at_b = b_.panel_at(k.b, k.column_panel + c) +
                                   begin * static_cast<std::size_t>(b_.width),
                            at = r * static_cast<std::size_t>(a_.width) * columns +
                                 c * static_cast<std::size_t>(b_.width);
          const std::int32_t *ah = a_.high.get() + at_a, *bh = b_.high.get() + at_b;
          const panel_pair highest{ah, bh};
          kernels_.add(&highest, 1, n, run_, sums_of(0, at));
          if (!two_) continue;
          const std::int32_t *al = a_.low.get() + at_a, *bl = b_.low.get() + at_b;
          const panel_pair middle[2] = {{ah, bl}, {al, bh}}, lowest{al, bl};
          kernels_.add(middle, 2, n, run_, sums_of(1, at));
          kernels_.add(&lowest, 1, n, run_, sums_of(2, at));
        }
    }
    visit(product_.out(),
          [&]<class Out>(std::type_identity<Out>) { write<Out>({k, rows, columns, sums.data()}); });
  }

  // The sums of a block: of the first digits, high and low, then of the others.
  struct block_sums {
    block where;
    std::size_t rows, columns;
    const std::int64_t* data;

    const std::int64_t* high(std::size_t which, std::size_t row) const {
      return data + (2 * which * rows + row) * columns;
    }
    const std::int64_t* low(std::size_t which, std::size_t row) const {
      return data + ((2 * which + 1) * rows + row) * columns;
    }
    __int128 total(std::size_t which, std::size_t row, std::size_t column) const {
      return (static_cast<__int128>(high(which, row)[column]) << 32) + low(which, row)[column];
    }
  };

  template <class Out>
  void write(const block_sums& s) const {
    const block& k = s.where;
    const std::size_t first_row = k.row_panel * static_cast<std::size_t>(a_.width),
                      first_column = k.column_panel * static_cast<std::size_t>(b_.width);
    const std::size_t rows = std::min<std::size_t>(s.rows, layout_.a.vectors - first_row),
                      columns = std::min<std::size_t>(s.columns, layout_.b.vectors - first_column);
    for (std::size_t r = 0; r < rows; ++r) {
      const std::size_t row = first_row + r;
      std::byte* const to =
          out_ +
          ((k.result * layout_.a.vectors + row) * layout_.b.vectors + first_column) * sizeof(Out);
      if constexpr (std::is_integral_v<Out>) {
        for (std::size_t c = 0; c < columns; ++c) put<Out>(to, c, integer<Out>(s, r, c));
      } else {
        if (is_float(product_.in()))
          write_floats<Out>(s, r, columns, to);
        else
          for (std::size_t c = 0; c < columns; ++c) put<Out>(to, c, integer<Out>(s, r, c));
        if (a_.any_special || b_.any_special)
          for (std::size_t c = 0; c < columns; ++c)
            if (a_.specials[k.a * a_.padded() + row] ||
                b_.specials[k.b * b_.padded() + first_column + c])
              put<Out>(to, c, special<Out>(k, row, first_column + c));
      }
    }
  }

  template <class Out>
  static void put(std::byte* row, std::size_t column, Out v) {
    std::memcpy(row + column * sizeof(Out), &v, sizeof v);
  }

  template <class Out>
  Out integer(const block_sums& s, std::size_t row, std::size_t column) const {
    const auto t = static_cast<std::uint64_t>(s.total(0, row, places_[column]));
    return product_.in() >= dtype::u8 ? arith::round_integer_to<Out>(t)
                                      : arith::round_integer_to<Out>(static_cast<std::int64_t>(t));
  }

  template <class Out>
  void write_floats(const block_sums& s, std::size_t r, std::size_t columns, std::byte* to) const {
    const block& k = s.where;
    const int row =
        -a_.scales[k.a * a_.padded() + k.row_panel * static_cast<std::size_t>(a_.width) + r];
    const int* const scales =
        b_.scales.data() + k.b * b_.padded() + k.column_panel * static_cast<std::size_t>(b_.width);
    if (two_ || product_.in() == dtype::f64 || layout_.a.n >= (std::size_t{1} << 28)) {
      for (std::size_t c = 0; c < columns; ++c) {
        const __int128 high = s.total(0, r, places_[c]);
        const int e = row - scales[c];
        if (!two_) {
          put<Out>(to, c, rounded<Out>(high, e));
          continue;
        }
        const __int128 middle = s.total(1, r, places_[c]), low = s.total(2, r, places_[c]);
        put<Out>(to, c,
                 layout_.a.n <= max_short ? rounded<Out>(short_sum(high, middle, low), e)
                                          : rounded<Out>(high, middle, low, e));
      }
      return;
    }
    int exponents[block_columns]{};
    double sums[block_columns];
    for (std::size_t c = 0; c < columns; ++c) exponents[places_[c]] = -scales[c];
    const sum_converter convert =
        std::is_same_v<Out, double> ? kernels_.as_nearest : kernels_.as_odd;
    convert(s.high(0, r), s.low(0, r), s.columns, row, exponents, sums);
    for (std::size_t c = 0; c < columns; ++c)
      put<Out>(to, c, arith::round_to<Out>(sums[places_[c]]));
  }

  // Of a row and a column of which one has an element that is not finite: what its products are.
  template <class Out>
  Out special(const block& k, std::size_t r, std::size_t c) const {
    unsigned seen = 0;
    for (std::size_t p = 0; p < layout_.a.n && seen < not_a_number; ++p)
      seen |= special_product(element(layout_.a, k.a, r, p), element(layout_.b, k.b, c, p));
    const double infinity = std::numeric_limits<double>::infinity();
    return seen == plus    ? arith::round_to<Out>(infinity)
           : seen == minus ? arith::round_to<Out>(-infinity)
                           : arith::canonical_nan<Out>;
  }
  static double element(const detail::operand_layout& l, std::uint64_t matrix, std::size_t vector,
                        std::size_t p) {
    return visit(l.type, [&]<class T>(std::type_identity<T>) -> double {
      T x;
      std::memcpy(&x, l.address(matrix, vector, p), sizeof x);
      return arith::widen<double>(x);
    });
  }

  const matrix_product& product_;
  const integers &a_, &b_;
  const detail::product_layout& layout_;
  const product_kernels kernels_;
  const bool two_;
  std::byte* const out_;
  std::size_t run_;
  std::size_t places_[block_columns];  // of a block's columns among its sums
};

void check_prepared(const matrix_product& p, const integers& x, side s) {
  const char* const which = s == side::left ? "a" : "b";
  if (x.side != s) refuse(std::string(which) + ": prepared for the other side");
  if (x.product.in() != p.in() || x.product.bits() != p.bits() || p.method())
    refuse(std::string(which) + ": prepared for another product");
}

void multiply(const matrix_product& p, const view& a, const view& b, const integers* made_a,
              const integers* made_b, void* out, const options& opts) {
  check_type(p, a, "a");
  check_type(p, b, "b");
  const detail::product_layout l = detail::layout_of(a, b);
  options chosen = opts;
  chosen.target = resolve_target(opts);
  if (l.results.size() * l.a.vectors * l.b.vectors == 0) return;
  if (!out) refuse("out: a null pointer");
  std::unique_ptr<integers> own_a, own_b;
  const auto made = [&](side s, const view& x, const integers* given,
                        std::unique_ptr<integers>& own) -> const integers& {
    if (given && given->used == *chosen.target) return *given;
    own = make_integers(p, s, x, chosen);
    return *own;
  };
  const integers &ia = made(side::left, a, made_a, own_a),
                 &ib = made(side::right, b, made_b, own_b);
  multiplication(p, ia, ib, l, out).run(chosen);
  report(*chosen.target);
}

}  // namespace

product_kernels find_product_kernels(target t) {
  switch (t) {
    case target::scalar: break;
    case target::avx2: return find_kernels_of<target::avx2>(product_request{});
    case target::avx512: return find_kernels_of<target::avx512>(product_request{});
  }
  return find_kernels_of<target::scalar>(product_request{});
}

void matmul(const matrix_product& p, const view& a, const view& b, void* out, const options& opts) {
  if (has_integers(p)) return multiply(p, a, b, nullptr, nullptr, out, opts);
  check_type(p, a, "a");
  check_type(p, b, "b");
  (void)detail::layout_of(a, b);
  const detail::dot_operands dots = detail::as_dots(a, b);
  const reduction r =
      make_reduction(op_id::dot, p.method().value_or(method_id::tree), p.in(), {}, p.out());
  const reduction all[] = {r};
  void* const to[] = {out};
  const int axis[] = {std::max(dots.a.rank, dots.b.rank) - 1};
  reduce(all, dots.a, &dots.b, axis, to, opts);
}

void matmul(const matrix_product& p, const prepared& a, const view& b, void* out,
            const options& opts) {
  check_prepared(p, a.made(), side::left);
  multiply(p, a.of(), b, &a.made(), nullptr, out, opts);
}
void matmul(const matrix_product& p, const view& a, const prepared& b, void* out,
            const options& opts) {
  check_prepared(p, b.made(), side::right);
  multiply(p, a, b.of(), nullptr, &b.made(), out, opts);
}
void matmul(const matrix_product& p, const prepared& a, const prepared& b, void* out,
            const options& opts) {
  check_prepared(p, a.made(), side::left);
  check_prepared(p, b.made(), side::right);
  multiply(p, a.of(), b.of(), &a.made(), &b.made(), out, opts);
}

}  // namespace bitfold::cpu
