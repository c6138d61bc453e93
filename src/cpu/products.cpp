// Products of matrices: operands become integers once, blocks of the result are shared out among
// threads, and each element is rounded once. Every sum on the way is exact (docs/products.md).
#include "products.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include <bitfold/product_sum.hpp>

#include "conversions.hpp"
#include "outer_products.hpp"
#include "product_operands.hpp"

namespace bitfold::cpu {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw error(errc::usage, what); }

using integers = prepared::integers;

// ---- Blocks of the result -----------------------------------------------------------------------

struct block {
  const integers &left, &right;
  std::uint64_t result, a, b;  // which matrices
  std::size_t row_panel, row_panels, column_panel, column_panels;
};

// A run of some panels.
struct panel_run {
  std::size_t begin, count;
  /// The i-th of those of at most `most` of n, and how many there are.
  static panel_run of(std::size_t n, std::size_t most, std::size_t i) {
    return {i * most, std::min(most, n - i * most)};
  }
  static std::size_t count_of(std::size_t n, std::size_t most) { return (n + most - 1) / most; }
};

// The sum of the products of two digits of rows of at most this length is below 2^127.
constexpr std::size_t max_short = std::size_t{1} << 13;
static_assert(2 * (max_product_bits - 1) + 13 <= 127);
__int128 short_sum(__int128 high, __int128 middle, __int128 low) {
  return high * (__int128{1} << 2 * digit_bits) + middle * (__int128{1} << digit_bits) + low;
}

// The products of operands that are made, or of one that is made a part at a time: then what its
// integers take is little, and they are still in the cache when they are multiplied.
class multiplication {
 public:
  // `diagonal`: row r of a meets column r of b alone.
  multiplication(const matrix_product& p, const integers& a, const integers& b,
                 const detail::product_layout& l, const detail::addend_layout* addend, void* out,
                 bool diagonal = false)
      : product_(p),
        diagonal_(diagonal),
        a_(a),
        b_(b),
        layout_(l),
        addend_(addend),
        kernels_(find_product_kernels(a.used)),
        two_(a.two_digits()),
        out_(static_cast<std::byte*>(out)),
        round_(kernels_.round(p.out())),
        read_addends_(reader_of(p.out(), a.used)) {
    // Two integers below 2^(bits - 1), or 2^28 of a low digit, which come twice in the middle sum.
    const int term_bits = two_ ? 2 * (digit_bits - 1) + 1 : 2 * (p.bits() - 1);
    run_ = p.bits() == 0 ? max_terms : std::size_t{1} << std::min(63 - term_bits, 30);
  }

  // `lazy`: of which operand each task makes a part at a time; none where both are made. It is one
  // of whose matrices each is of one result.
  void run(std::optional<side> lazy, const options& opts) const {
    if (lazy) return run_in_parts(*lazy, opts);
    const int threads = threads_of(opts);
    const std::size_t blocks = layout_.results.size() * down() * across(),
                      tasks = std::min(blocks, chunk_count(threads));
    parallel_for(tasks, threads, [&](std::size_t task) {
      const sum_array sums = new_sums();
      for (std::size_t i = blocks * task / tasks; i < blocks * (task + 1) / tasks; ++i)
        multiply(block_at(a_, b_, i / (down() * across()), rows_at(i % down()),
                          columns_at(i / down() % across())),
                 sums.get());
    });
  }

  // Of matrices of one row, each of one result; or of diagonals.
  void run_directly(const options& opts) const {
    const int threads = threads_of(opts);
    const direct_blocks blocks(b_, block_columns);
    const std::size_t parts = layout_.results.size() * blocks.size(),
                      tasks = std::min(parts, chunk_count(threads)), pitch = a_.layout.vectors,
                      least = kernels_.direct(product_.in()).least_columns;
    const std::vector<std::int32_t> rows =
        diagonal_ ? transposed_rows(least, threads) : std::vector<std::int32_t>();
    parallel_for(tasks, threads, [&](std::size_t task) {
      integers part(product_, side::right, b_.layout, b_.used, integers::way::directly);
      part.make_notes(block_columns);
      direct_sums with(part);
      std::int64_t sums[2 * block_columns];
      for (std::size_t i = parts * task / tasks; i < parts * (task + 1) / tasks; ++i) {
        const direct_sums::columns some = blocks[i % blocks.size()];
        const block k = block_at(a_, part, i / blocks.size(), {0, 1}, {some.first, some.count});
        part.first = static_cast<std::size_t>(k.b) * b_.panels + some.first;
        const std::size_t columns = std::max(some.count, least);
        std::int64_t *const high = sums, *const low = sums + columns;
        if (diagonal_)
          with.add_up_each(k.b, some, &rows[k.a * pitch * layout_.a.n + some.first], pitch, high,
                           low);
        else
          with.add_up(k.b, some, a_.high.get() + a_.panel_at(k.a, 0), high, low);
        part.note_specials();
        write_block({k, 1, columns, sums});
      }
    });
  }

 private:
  static constexpr std::size_t least_rows = 96;     // of a block, where there are so many
  static constexpr std::size_t block_columns = 64;  // a multiple of any tile's

  std::size_t block_rows() const {  // panels
    return (least_rows - 1) / static_cast<std::size_t>(a_.width) + 1;
  }
  std::size_t block_panels() const { return block_columns / static_cast<std::size_t>(b_.width); }
  std::size_t down() const { return panel_run::count_of(a_.panels, block_rows()); }
  std::size_t across() const { return panel_run::count_of(b_.panels, block_panels()); }
  panel_run rows_at(std::size_t i) const { return panel_run::of(a_.panels, block_rows(), i); }
  panel_run columns_at(std::size_t i) const { return panel_run::of(b_.panels, block_panels(), i); }

  int threads_of(const options& opts) const {
    const double work = static_cast<double>(layout_.results.size()) *
                        static_cast<double>(diagonal_ ? 1 : a_.padded()) *
                        static_cast<double>(b_.padded()) * static_cast<double>(layout_.a.n);
    return threads_for(opts, static_cast<std::size_t>(std::min(work, 1e15)) / 4);
  }

  // Of each matrix of a: term p of row r at [p * rows + r]; and behind them room for some more.
  std::vector<std::int32_t> transposed_rows(std::size_t more, int threads) const {
    const std::size_t n = layout_.a.n, rows = a_.layout.vectors,
                      runs = panel_run::count_of(rows, max_interleaved),
                      all = a_.layout.count() * runs, tasks = std::min(all, chunk_count(threads));
    std::vector<std::int32_t> to(a_.layout.count() * n * rows + more);
    parallel_for(tasks, threads, [&](std::size_t task) {
      for (std::size_t i = all * task / tasks; i < all * (task + 1) / tasks; ++i) {
        const std::size_t matrix = i / runs;
        const panel_run run = panel_run::of(rows, max_interleaved, i % runs);
        kernels_.interleave(a_.high.get() + a_.panel_at(matrix, run.begin), run.count, n, n,
                            to.data() + matrix * n * rows + run.begin, rows);
      }
    });
    return to;
  }

  void run_in_parts(side lazy, const options& opts) const {
    const bool left = lazy == side::left;
    const integers& of = left ? a_ : b_;
    const int threads = threads_of(opts);
    const std::size_t others = left ? across() : down(), results = layout_.results.size(),
                      most =
                          panels_of_part(of, left ? block_rows() : block_panels(), others, threads),
                      runs = panel_run::count_of(of.panels, most), parts = results * runs,
                      tasks = std::min(parts, chunk_count(threads));
    parallel_for(tasks, threads, [&](std::size_t task) {
      const sum_array sums = new_sums();
      integers part(product_, lazy, of.layout, of.used, of.how);
      part.make_room(most);
      for (std::size_t i = parts * task / tasks; i < parts * (task + 1) / tasks; ++i) {
        const panel_run run = panel_run::of(of.panels, most, i % runs);
        const auto at = layout_.results.offset_of(i / runs);
        part.make_part(static_cast<std::size_t>(left ? at.x : at.y) * of.panels + run.begin,
                       run.count);
        for (std::size_t k = 0; k < others; ++k)
          multiply(left ? block_at(part, b_, i / runs, run, columns_at(k))
                        : block_at(a_, part, i / runs, rows_at(k), run),
                   sums.get());
      }
    });
  }

  // As many as a cache holds, where one block of the other operand meets them, or several; and few
  // enough for all threads.
  static std::size_t panels_of_part(const integers& of, std::size_t most, std::size_t others,
                                    int threads) {
    const std::size_t bytes = others > 1 ? std::size_t{1} << 20 : std::size_t{1} << 18,
                      fit = bytes / std::max<std::size_t>(of.bytes_of_panel(), 1),
                      share = of.all_panels() / (4 * static_cast<std::size_t>(threads));
    return std::clamp<std::size_t>(std::min(fit, share), 1, most);
  }

  // High and low ones, of all digits; behind them room for the kernels.
  std::size_t sums_of_rows(std::size_t rows) const { return (two_ ? 6 : 2) * rows * block_columns; }
  using sum_array = std::unique_ptr<std::int64_t[], free_aligned>;
  sum_array new_sums() const {
    const std::size_t rows = std::min(block_rows(), a_.panels) * static_cast<std::size_t>(a_.width);
    const std::size_t bytes = sums_of_rows(rows) * sizeof(std::int64_t) + a_.by.room;
    return sum_array(new (std::align_val_t{64}) std::int64_t[bytes / sizeof(std::int64_t)]);
  }

  block block_at(const integers& left, const integers& right, std::size_t result,
                 const panel_run& rows, const panel_run& columns) const {
    const auto at = layout_.results.offset_of(result);
    return {left,
            right,
            result,
            static_cast<std::uint64_t>(at.x),
            static_cast<std::uint64_t>(at.y),
            rows.begin,
            rows.count,
            columns.begin,
            columns.count};
  }

  void multiply(const block& k, std::int64_t* sums) const {
    const integers &a = k.left, &b = k.right;
    const std::size_t rows = k.row_panels * static_cast<std::size_t>(a.width),
                      columns = k.column_panels * static_cast<std::size_t>(b.width);
    if (layout_.a.n == 0) std::fill_n(sums, (two_ ? 6 : 2) * rows * columns, 0);
    const auto sums_of = [&](std::size_t which, std::size_t at) {
      return tile_sums{sums + 2 * which * rows * columns + at,
                       sums + (2 * which + 1) * rows * columns + at,
                       static_cast<std::ptrdiff_t>(columns),
                       reinterpret_cast<std::byte*>(sums + sums_of_rows(rows))};
    };
    for (std::size_t begin = 0; begin < layout_.a.n; begin += a.by.most_terms) {
      const std::size_t n = std::min(a.by.most_terms, layout_.a.n - begin);
      for (std::size_t c = 0; c < k.column_panels; ++c)
        for (std::size_t r = 0; r < k.row_panels; ++r) {
          const std::size_t at_a = a.panel_at(k.a, k.row_panel + r) + a.term_at(begin),
                            at_b = b.panel_at(k.b, k.column_panel + c) + b.term_at(begin),
                            at = r * static_cast<std::size_t>(a.width) * columns +
                                 c * static_cast<std::size_t>(b.width);
          const std::int32_t *ah = a.high.get() + at_a, *bh = b.high.get() + at_b;
          const panel_pair highest{ah, bh};
          a.by.add(&highest, 1, n, run_, begin == 0, sums_of(0, at));
          if (!two_) continue;
          const std::int32_t *al = a.low.get() + at_a, *bl = b.low.get() + at_b;
          const panel_pair middle[2] = {{ah, bl}, {al, bh}}, lowest{al, bl};
          a.by.add(middle, 2, n, run_, begin == 0, sums_of(1, at));
          a.by.add(&lowest, 1, n, run_, begin == 0, sums_of(2, at));
        }
    }
    write_block({k, rows, columns, sums});
  }

  // The sums of a block: of the first digits, high and low, then of the others.
  struct block_sums {
    const block& where;
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

  void write_block(const block_sums& s) const {
    visit(product_.out(), [&]<class Out>(std::type_identity<Out>) { write<Out>(s); });
  }

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
          out_ + ((k.result * (diagonal_ ? 1 : layout_.a.vectors) + row) * layout_.b.vectors +
                  first_column) *
                     sizeof(Out);
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
                      column = k.right.vector_at(k.b, first);
    // The row that meets the first column, and from there to the next.
    const std::size_t to_next = diagonal_ ? 1 : 0, first_row = diagonal_ ? first : row,
                      at_row = k.left.vector_at(k.a, first_row);
    const int *const row_scales = &k.left.scales[at_row], *const scales = &k.right.scales[column];
    double addends[block_columns];
    const bool special_addend = read_addends<Out>(k, row, first, columns, addends);
    int exponents[block_columns];
    for (std::size_t c = 0; c < columns; ++c) exponents[c] = -row_scales[c * to_next] - scales[c];
    const bool has_kernel = !two_ && product_.in() != dtype::f64 &&
                            !(addend_ && std::is_same_v<Out, double>) &&
                            layout_.a.n <= max_converted(product_.bits());
    if (has_kernel)
      write_by_kernel<Out>(s, r, columns, exponents, addends, to);
    else
      for (std::size_t c = 0; c < columns; ++c)
        put<Out>(to, c, one<Out>(s, r, c, exponents[c], addends[c]));
    if (!k.left.any_special && !k.right.any_special && !special_addend) return;
    for (std::size_t c = 0; c < columns; ++c)
      if (k.left.specials[at_row + c * to_next] || k.right.specials[column + c] ||
          !std::isfinite(addends[c]))
        put<Out>(to, c, special<Out>(k, first_row + c * to_next, first + c, addends[c]));
  }

  // Zeros where there are none; whether one is not finite.
  template <class Out>
  bool read_addends(const block& k, std::size_t row, std::size_t column, std::size_t n,
                    double* to) const {
    if (!addend_) return std::fill_n(to, n, 0), false;
    const auto size = static_cast<std::int64_t>(sizeof(Out));
    const std::int64_t step = addend_->column_stride * size;
    const std::byte* const from = addend_->data + step * static_cast<std::int64_t>(column) +
                                  size * (addend_->matrices.offset_of(k.result).x +
                                          static_cast<std::int64_t>(row) * addend_->row_stride);
    return !read_addends_(from, step, n, to);
  }

  template <class Out>
  void write_by_kernel(const block_sums& s, std::size_t r, std::size_t columns,
                       const int* exponents, const double* addends, std::byte* to) const {
    double sums[block_columns];
    const sum_converter convert = addend_                       ? kernels_.with_addends
                                  : std::is_same_v<Out, double> ? kernels_.as_nearest
                                                                : kernels_.as_odd;
    convert(s.high(0, r), s.low(0, r), columns, exponents, addends, sums);
    round_(sums, columns, to);
  }

  // One element, in units of 2^e.
  template <class Out>
  Out one(const block_sums& s, std::size_t r, std::size_t c, int e, double addend) const {
    const __int128 high = s.total(0, r, c);
    if (!two_ && addend == 0) return product::rounded<Out>(high, e);
    const __int128 middle = two_ ? s.total(1, r, c) : 0, low = two_ ? s.total(2, r, c) : 0;
    if (layout_.a.n <= max_short && addend == 0)
      return product::rounded<Out>(short_sum(high, middle, low), e);
    product::exact_sum sum(e);
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
    unsigned seen = product::special_bit(addend);
    for (std::size_t p = 0; p < layout_.a.n && seen < product::not_a_number; ++p)
      seen |=
          product::special_product(element(layout_.a, k.a, r, p), element(layout_.b, k.b, c, p));
    return product::special_result<Out>(seen);
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
  const bool diagonal_;
  const integers &a_, &b_;
  const detail::product_layout& layout_;
  const detail::addend_layout* const addend_;
  const product_kernels kernels_;
  const bool two_;
  std::byte* const out_;
  const sum_rounding round_;
  const element_reader read_addends_;
  std::size_t run_;
};

const integers* integers_of(const matrix_product& p, const operand& x, side s) {
  const char* const which = s == side::left ? "a" : "b";
  detail::expect_type(p, x.of(), which);
  if (!x.made()) return nullptr;
  const integers& made = x.made()->made();
  if (made.side != s) refuse(std::string(which) + ": prepared for the other side");
  if (made.product.bits() != p.bits() || p.method())
    refuse(std::string(which) + ": prepared for another product");
  return &made;
}

// Results of one vector of a and one of b, whose batch has an axis along which b's lie side by
// side: the diagonals of products, of which that axis is the rows and the columns. Nothing where
// they are not such.
std::optional<detail::product_layout> diagonals_of(view a, view b, contracted_axes of,
                                                   const detail::product_layout& l) {
  if (of.batch == 0 || of.a_vectors + of.b_vectors > 0 || l.results.size() == 0) return {};
  const auto last = static_cast<std::size_t>(of.batch - 1);
  const std::int64_t n = l.extents[last];
  for (view* x : {&a, &b}) {
    if (x->extent[last] == n) continue;
    x->extent[last] = n;
    x->stride[last] = 0;
  }
  // (layout_of counts what is off the diagonals, too, and refuses more than 2^60 products.)
  const double all = static_cast<double>(l.results.size()) * static_cast<double>(n) *
                     static_cast<double>(std::max<std::uint64_t>(l.a.n, 1));
  if (all > 0x1p59) return {};
  detail::product_layout d = detail::layout_of(a, b, {of.batch - 1, 1, 1});
  return are_side_by_side(d.b) ? std::optional(std::move(d)) : std::nullopt;
}

// `made_a`, `made_b`: null where an operand's integers are to be made. `diagonals`: l's results as
// such, or null.
void multiply(const matrix_product& p, const detail::product_layout& l, const integers* made_a,
              const integers* made_b, const view* addend, void* out, const options& opts,
              const detail::product_layout* diagonals = nullptr) {
  options chosen = opts;
  chosen.target = resolve_target(opts);
  std::optional<detail::addend_layout> added;
  if (addend) added = detail::layout_of(*addend, l);
  if (l.results.size() * l.a.vectors * l.b.vectors == 0) return;
  if (!out) refuse("out: a null pointer");
  const bool as_they_are = !made_a && !made_b;
  if (as_they_are && are_outer_products(p, l)) {
    multiply_outer(p, l, added ? &*added : nullptr, out, chosen);
    return report(*chosen.target);
  }
  if (diagonals && direct_sums::are_there(p, *chosen.target)) {
    integers a(p, side::left, diagonals->a, *chosen.target, integers::way::directly);
    const integers b(p, side::right, diagonals->b, *chosen.target, integers::way::directly);
    a.make_all(chosen);
    if (added) added->column_stride = added->matrices.dims[--added->matrices.rank].x;
    multiplication(p, a, b, *diagonals, added ? &*added : nullptr, out, true).run_directly(chosen);
    return report(*chosen.target);
  }
  if (as_they_are && l.a.vectors == 1 && direct_sums::are_there(p, *chosen.target)) {
    integers ia(p, side::left, l.a, *chosen.target, integers::way::directly);
    const integers ib(p, side::right, l.b, *chosen.target, integers::way::directly);
    if (ib.layout.count() == l.results.size()) {
      ia.make_all(chosen);
      multiplication(p, ia, ib, l, added ? &*added : nullptr, out).run_directly(chosen);
      return report(*chosen.target);
    }
  }
  std::optional<integers> own_a, own_b;
  const target t = *chosen.target;
  if (made_a && made_a->used != t) made_a = nullptr;
  if (made_b && made_b->used != t) made_b = nullptr;
  const integers* const made = made_a ? made_a : made_b;
  const integers::way how = made ? made->how : way_of(p, t, l.a.vectors, l.b.vectors, l.a.n);
  if (!made_a) own_a.emplace(p, side::left, l.a, t, how);
  if (!made_b) own_b.emplace(p, side::right, l.b, t, how);
  const integers &ia = own_a ? *own_a : *made_a, &ib = own_b ? *own_b : *made_b;
  const auto size = [](const integers& x) { return x.all_panels() * x.bytes_of_panel(); };
  const auto is_lazy = [&](const std::optional<integers>& own, const integers& other) {
    return own && own->layout.count() == l.results.size() && size(*own) >= size(other);
  };
  const std::optional<side> lazy = is_lazy(own_b, ia)   ? std::optional(side::right)
                                   : is_lazy(own_a, ib) ? std::optional(side::left)
                                                        : std::nullopt;
  if (own_a && lazy != side::left) own_a->make_all(chosen);
  if (own_b && lazy != side::right) own_b->make_all(chosen);
  multiplication(p, ia, ib, l, added ? &*added : nullptr, out).run(lazy, chosen);
  report(*chosen.target);
}

void multiply(const matrix_product& p, const operand& a, const operand& b, const view* addend,
              void* out, const options& opts) {
  const integers *made_a = integers_of(p, a, side::left), *made_b = integers_of(p, b, side::right);
  multiply(p, detail::layout_of(a.of(), b.of()), made_a, made_b, addend, out, opts);
}

// By the engine of reductions.
void multiply_by_dots(const matrix_product& p, const operand& a, const operand& b, void* out,
                      const options& opts) {
  (void)integers_of(p, a, side::left);
  (void)integers_of(p, b, side::right);
  (void)detail::layout_of(a.of(), b.of());
  const detail::dot_operands dots = detail::as_dots(a.of(), b.of());
  const reduction all[] = {detail::dot_of(p)};
  void* const to[] = {out};
  const int axis[] = {dots.axis()};
  reduce(all, dots.a, &dots.b, axis, to, opts);
}

}  // namespace

product_kernels find_product_kernels(target t) { return find_kernels_for(t, product_request{}); }

// One column is one row of the transposed product, of which a tile has fewer.
void multiply_either_way(const matrix_product& p, const operand& a, const operand& b,
                         const view* addend, void* out, const options& opts) {
  const view &x = a.of(), &y = b.of();
  const auto is_matrix = [](const view& v) { return v.rank > 1 && v.rank <= max_axes; };
  const bool vector = y.rank == 1,
             one = vector || (is_matrix(y) && y.extent[static_cast<std::size_t>(y.rank - 1)] == 1);
  // An addend that is a row lies along an axis that is another's then.
  const bool turns = !addend || vector || is_matrix(*addend);
  if (!is_matrix(x) || !one || !turns || a.made() || b.made())
    return multiply(p, a, b, addend, out, opts);
  detail::expect_type(p, x, "a");
  detail::expect_type(p, y, "b");
  (void)matmul_extents(x, y);  // what is wrong is said of a and b
  const view left = detail::transposed(y), right = detail::transposed(x);
  if (!addend) return multiply(p, left, right, nullptr, out, opts);
  const view added = vector ? *addend : detail::transposed(*addend);
  multiply(p, left, right, &added, out, opts);
}

void matmul(const matrix_product& p, operand a, operand b, void* out, const options& opts) {
  if (has_integers(p))
    multiply_either_way(p, a, b, nullptr, out, opts);
  else
    multiply_by_dots(p, a, b, out, opts);
}

void matmul(const matrix_product& p, operand a, operand b, const view& addend, void* out,
            const options& opts) {
  detail::expect_addend(p, addend);
  multiply_either_way(p, a, b, &addend, out, opts);
}

void contract(const matrix_product& p, const view& a, const view& b, contracted_axes axes,
              const view* addend, void* out, const options& opts) {
  detail::expect_contractible(p, a, b);
  if (addend) detail::expect_addend(p, *addend);
  const detail::product_layout l = detail::layout_of(a, b, axes);
  const auto diagonals = diagonals_of(a, b, axes, l);
  multiply(p, l, nullptr, nullptr, addend, out, opts, diagonals ? &*diagonals : nullptr);
}

}  // namespace bitfold::cpu
