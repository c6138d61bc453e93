// Products of matrices: operands become integers once, blocks of the result are shared out among
// threads, and each element is rounded once. Every sum on the way is exact (docs/products.md).
#include "products.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "product_operands.hpp"
#include "product_rounding.hpp"

namespace bitfold::cpu {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw error(errc::usage, what); }

using integers = prepared::integers;

// The product of two elements of which one is not finite, as a bit: a NaN, inf or -inf.
enum special_bits : unsigned { plus = 1, minus = 2, not_a_number = 4 };
unsigned special_bit(double x) {
  if (std::isfinite(x)) return 0;
  return std::isnan(x) ? not_a_number : x > 0 ? plus : minus;
}
unsigned special_product(double a, double b) {
  return std::isfinite(a) && std::isfinite(b) ? 0 : special_bit(a * b);
}

// ---- Blocks of the result -----------------------------------------------------------------------

struct block {
  std::uint64_t result, a, b;  // which matrices
  std::size_t row_panel, row_panels, column_panel, column_panels;
};

class multiplication {
 public:
  multiplication(const matrix_product& p, const integers& a, const integers& b,
                 const detail::product_layout& l, const detail::addend_layout* addend, void* out)
      : product_(p),
        a_(a),
        b_(b),
        layout_(l),
        addend_(addend),
        kernels_(find_product_kernels(a.used)),
        two_(a.low != nullptr),
        out_(static_cast<std::byte*>(out)),
        round_(kernels_.round(p.out())) {
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
      std::vector<std::int64_t> sums((two_ ? 6 : 2) * rows * columns);  // high and low, of digits
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
    if (layout_.a.n == 0) std::fill(sums.begin(), sums.end(), 0);
    const auto sums_of = [&](std::size_t which, std::size_t at) {
      return tile_sums{sums.data() + 2 * which * rows * columns + at,
                       sums.data() + (2 * which + 1) * rows * columns + at,
                       static_cast<std::ptrdiff_t>(columns)};
    };
    for (std::size_t begin = 0; begin < layout_.a.n; begin += max_terms) {
      const std::size_t n = std::min(max_terms, layout_.a.n - begin);
      for (std::size_t c = 0; c < k.column_panels; ++c)
        for (std::size_t r = 0; r < k.row_panels; ++r) {
          const std::size_t at_a = a_.panel_at(k.a, k.row_panel + r) + a_.term_at(begin),
                            at_b = b_.panel_at(k.b, k.column_panel + c) + b_.term_at(begin),
                            at = r * static_cast<std::size_t>(a_.width) * columns +
                                 c * static_cast<std::size_t>(b_.width);
          const std::int32_t *ah = a_.high.get() + at_a, *bh = b_.high.get() + at_b;
          const panel_pair highest{ah, bh};
          if (a_.pairs) {
            kernels_.pairs.add(highest, (n + 1) / 2, begin == 0, sums_of(0, at));
            continue;
          }
          kernels_.add(&highest, 1, n, run_, begin == 0, sums_of(0, at));
          if (!two_) continue;
          const std::int32_t *al = a_.low.get() + at_a, *bl = b_.low.get() + at_b;
          const panel_pair middle[2] = {{ah, bl}, {al, bh}}, lowest{al, bl};
          kernels_.add(middle, 2, n, run_, begin == 0, sums_of(1, at));
          kernels_.add(&lowest, 1, n, run_, begin == 0, sums_of(2, at));
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
      }
    }
  }

  template <class Out>
  static void put(std::byte* row, std::size_t column, Out v) {
    std::memcpy(row + column * sizeof(Out), &v, sizeof v);
  }

  template <class Out>
  Out integer(const block_sums& s, std::size_t row, std::size_t column) const {
    const auto t = static_cast<std::uint64_t>(s.total(0, row, column));
    return product_.in() >= dtype::u8 ? arith::round_integer_to<Out>(t)
                                      : arith::round_integer_to<Out>(static_cast<std::int64_t>(t));
  }

  template <class Out>
  void write_floats(const block_sums& s, std::size_t r, std::size_t columns, std::byte* to) const {
    const block& k = s.where;
    const std::size_t row = k.row_panel * static_cast<std::size_t>(a_.width) + r,
                      first = k.column_panel * static_cast<std::size_t>(b_.width),
                      column = k.b * b_.padded() + first;
    double addends[block_columns]{};
    if (addend_)
      for (std::size_t c = 0; c < columns; ++c) addends[c] = addend<Out>(k, row, first + c);
    const int row_scale = a_.scales[k.a * a_.padded() + row];
    const bool has_kernel = !two_ && product_.in() != dtype::f64 &&
                            !(addend_ && std::is_same_v<Out, double>) &&
                            layout_.a.n < (std::size_t{1} << 28);
    if (has_kernel)
      write_by_kernel<Out>(s, r, columns, row_scale, &b_.scales[column], addends, to);
    else
      for (std::size_t c = 0; c < columns; ++c)
        put<Out>(to, c, one<Out>(s, r, c, -row_scale - b_.scales[column + c], addends[c]));
    if (!a_.any_special && !b_.any_special && !addend_) return;
    const bool special_row = a_.specials[k.a * a_.padded() + row];
    for (std::size_t c = 0; c < columns; ++c)
      if (special_row || b_.specials[column + c] || !std::isfinite(addends[c]))
        put<Out>(to, c, special<Out>(k, row, first + c, addends[c]));
  }

  template <class Out>
  double addend(const block& k, std::size_t row, std::size_t column) const {
    const std::int64_t at = addend_->matrices.offset_of(k.result).x +
                            static_cast<std::int64_t>(row) * addend_->row_stride +
                            static_cast<std::int64_t>(column) * addend_->column_stride;
    Out c;
    std::memcpy(&c, addend_->data + at * static_cast<std::int64_t>(sizeof c), sizeof c);
    return arith::widen<double>(c);
  }

  template <class Out>
  void write_by_kernel(const block_sums& s, std::size_t r, std::size_t columns, int row_scale,
                       const int* scales, const double* addends, std::byte* to) const {
    int exponents[block_columns];
    double sums[block_columns];
    for (std::size_t c = 0; c < columns; ++c) exponents[c] = -scales[c];
    const sum_converter convert = addend_                       ? kernels_.with_addends
                                  : std::is_same_v<Out, double> ? kernels_.as_nearest
                                                                : kernels_.as_odd;
    convert(s.high(0, r), s.low(0, r), columns, -row_scale, exponents, addends, sums);
    round_(sums, columns, to);
  }

  // One element, in units of 2^e.
  template <class Out>
  Out one(const block_sums& s, std::size_t r, std::size_t c, int e, double addend) const {
    const __int128 high = s.total(0, r, c);
    if (!two_ && addend == 0) return rounded<Out>(high, e);
    const __int128 middle = two_ ? s.total(1, r, c) : 0, low = two_ ? s.total(2, r, c) : 0;
    if (layout_.a.n <= max_short && addend == 0)
      return rounded<Out>(short_sum(high, middle, low), e);
    exact_sum sum(e);
    sum.add(high, two_ ? 2 * digit_bits : 0);
    sum.add(middle, digit_bits);
    sum.add(low, 0);
    if (std::isfinite(addend)) sum.add(addend);
    return sum.round<Out>();
  }

  // Of a row, a column and an addend of which one is not finite: what the products are that are
  // not, and the addend.
  template <class Out>
  Out special(const block& k, std::size_t r, std::size_t c, double addend) const {
    unsigned seen = special_bit(addend);
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
  const detail::addend_layout* const addend_;
  const product_kernels kernels_;
  const bool two_;
  std::byte* const out_;
  const sum_rounding round_;
  std::size_t run_;
};

const integers* integers_of(const matrix_product& p, const operand& x, side s) {
  const char* const which = s == side::left ? "a" : "b";
  check_type(p, x.of(), which);
  if (!x.made()) return nullptr;
  const integers& made = x.made()->made();
  if (made.side != s) refuse(std::string(which) + ": prepared for the other side");
  if (made.product.bits() != p.bits() || p.method())
    refuse(std::string(which) + ": prepared for another product");
  return &made;
}

void multiply(const matrix_product& p, const operand& a, const operand& b, const view* addend,
              void* out, const options& opts) {
  const integers *made_a = integers_of(p, a, side::left), *made_b = integers_of(p, b, side::right);
  const detail::product_layout l = detail::layout_of(a.of(), b.of());
  options chosen = opts;
  chosen.target = resolve_target(opts);
  if (l.results.size() * l.a.vectors * l.b.vectors == 0) return;
  if (!out) refuse("out: a null pointer");
  std::optional<detail::addend_layout> added;
  if (addend) added = detail::layout_of(*addend, l, a.of(), b.of());
  std::unique_ptr<integers> own_a, own_b;
  const auto made = [&](side s, const view& x, const integers* given,
                        std::unique_ptr<integers>& own) -> const integers& {
    if (given && given->used == *chosen.target) return *given;
    own = make_integers(p, s, x, chosen);
    return *own;
  };
  const integers &ia = made(side::left, a.of(), made_a, own_a),
                 &ib = made(side::right, b.of(), made_b, own_b);
  multiplication(p, ia, ib, l, added ? &*added : nullptr, out).run(chosen);
  report(*chosen.target);
}

// By the engine of reductions.
void multiply_by_dots(const matrix_product& p, const operand& a, const operand& b, void* out,
                      const options& opts) {
  (void)integers_of(p, a, side::left);
  (void)integers_of(p, b, side::right);
  (void)detail::layout_of(a.of(), b.of());
  const detail::dot_operands dots = detail::as_dots(a.of(), b.of());
  const reduction all[] = {
      make_reduction(op_id::dot, p.method().value_or(method_id::tree), p.in(), {}, p.out())};
  void* const to[] = {out};
  const int axis[] = {std::max(dots.a.rank, dots.b.rank) - 1};
  reduce(all, dots.a, &dots.b, axis, to, opts);
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

void matmul(const matrix_product& p, operand a, operand b, void* out, const options& opts) {
  if (has_integers(p))
    multiply(p, a, b, nullptr, out, opts);
  else
    multiply_by_dots(p, a, b, out, opts);
}

void matmul(const matrix_product& p, operand a, operand b, const view& addend, void* out,
            const options& opts) {
  if (p.method() || !is_float(p.in()))
    refuse("addend: with method fixed and floats alone, not with " +
           std::string(product_method_name(p.method())) + " and " + std::string(name(p.in())));
  if (addend.type != p.out())
    refuse("addend: of type " + std::string(name(addend.type)) + ", not " +
           std::string(name(p.out())));
  multiply(p, a, b, &addend, out, opts);
}

}  // namespace bitfold::cpu
