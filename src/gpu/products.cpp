// Products of matrices on a GPU: the plan, and the calls that run it.
#include "products.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <bitfold/cuda/plan.hpp>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "../arguments.hpp"
#include "few_products.hpp"
#include "launcher.hpp"
#include "product_passes.hpp"
#include "product_tiles.hpp"

namespace bitfold::gpu {
namespace {

using cuda::product_results;
using order::index;

// As the library likes vectors and matrices to begin.
constexpr index pitch_of(index n) { return std::max<index>(up_to(n, 16), 16); }

// ---- Digits -------------------------------------------------------------------------------------

digit_way way_of(int bits, index n) {
  if (bits <= 16 && n <= cuda::max_products_of_digits) {
    const int digits = bits <= 8 ? 1 : 2;
    return {digits, digits * digits, false, true};
  }
  // The product of the moduli is above twice any sum, and a little more for join's rounding.
  const double wanted = std::log2(2.05) + std::log2(static_cast<double>(std::max<index>(n, 1))) +
                        2 * (std::log2(63.0) + bits - 7);
  double have = 0;
  int count = 0;
  while (have < wanted) {
    if (count == cuda::max_moduli)
      throw error(errc::usage,
                  "a: rows of " + std::to_string(n) + " elements, more than a GPU's products have");
    have += std::log2(cuda::moduli[count++]);
  }
  return {count, count, bits > 29, false};
}

// ---- Parts --------------------------------------------------------------------------------------

/// How much is made at a time: matrices, rows and columns of results, elements of their sums.
struct part_sizes {
  index matrices, rows, columns, n;
};

class library_planner {
 public:
  library_planner(const product_problem& of, std::size_t memory, const device_facts& on)
      : of_(of),
        on_(on),
        way_(way_of(of.product.bits(), of.a.n)),
        a_(rows_of(of)),
        b_(columns_of(of)) {
    const index results = of.results.size();
    all_ = {1, of.a.vectors, of.b.vectors, std::max<index>(of.a.n, 1)};
    if (b_.one)
      all_.rows = a_.count;
    else if (a_.one)
      all_.columns = b_.count;
    else
      all_.matrices = results;
    part_ = all_;
    part_.n = std::min(part_.n, cuda::max_products_of_digits);
    // Some of the library's algorithms take memory; of few results they are not worth it.
    scratch_bytes_ =
        all_.rows * all_.columns * all_.matrices >= (1 << 16) ? std::size_t{8} << 20 : 0;
    measured_ = measured_bytes(a_.count + b_.count);
    scale_bytes_ = rounded_up(4 * (a_.count + b_.count));
    // Of very many vectors that takes more than the memory: beside it the smallest parts would be
    // millions.
    const std::size_t noted = measured_ + scale_bytes_ + a_.offset_bytes() + b_.offset_bytes(),
                      most = std::max(memory, noted + noted / 4);
    while ((batch_of(part_) > most_of_batch ||
            (noted + bytes_of(part_) > most && parts() < most_parts)) &&
           can_shrink())
      shrink();
  }

  plan made() {
    place_all();
    measure(a_);
    measure(b_);
    for (index m = 0; m < all_.matrices; m += part_.matrices)
      for (index c = 0; c < all_.columns; c += part_.columns)
        for (index r = 0; r < all_.rows; r += part_.rows)
          add_part(
              m, r, c,
              {std::min(part_.matrices, all_.matrices - m), std::min(part_.rows, all_.rows - r),
               std::min(part_.columns, all_.columns - c), part_.n});
    return std::move(plan_);
  }

  /// Nanoseconds, about: of digits, which are written and read, and of sums.
  double time() const {
    const products_numbers& by = on_.numbers->products;
    const double results = static_cast<double>(pitch_of(all_.rows) * pitch_of(all_.columns) *
                                               all_.matrices),
                 elements = static_cast<double>((a_.count + b_.count) * all_.n),
                 products = results * static_cast<double>(all_.n) * way_.sums,
                 bytes = bytes_read(a_) + bytes_read(b_) + elements * 2 * way_.digits +
                         results * 8 * way_.sums;
    return by.of_call_library + (products / by.library + bytes / by.bytes) / on_.processors;
  }

 private:
  // What is not read once is measured first.
  double bytes_read(const operand_vectors& v) const {
    return static_cast<double>(v.count * all_.n * size_of(v.type)) * (is_read_once(v) ? 1 : 2);
  }

  // ---- Memory

  std::size_t digit_bytes_of(const part_sizes& p, index vectors) const {
    return rounded_up(p.matrices * static_cast<index>(way_.digits) * pitch_of(vectors) *
                      pitch_of(p.n));
  }
  std::size_t sum_bytes_of(const part_sizes& p) const {
    return rounded_up(4 * p.matrices * static_cast<index>(way_.sums) * pitch_of(p.rows) *
                      pitch_of(p.columns));
  }
  std::size_t bytes_of(const part_sizes& p) const {
    return digit_bytes_of(p, p.rows) + digit_bytes_of(p, p.columns) + sum_bytes_of(p) +
           scratch_bytes_;
  }
  // Kernels count the matrices of a batch along one side of their grid.
  index batch_of(const part_sizes& p) const {
    return p.matrices * static_cast<index>(way_.bytes ? 1 : way_.sums);
  }
  static constexpr index most_of_batch = 65535, least = 64, least_n = 1024;
  static constexpr index most_parts = 1 << 12;  // each takes some launches
  index parts() const {
    return shares(all_.matrices, part_.matrices) * shares(all_.rows, part_.rows) *
           shares(all_.columns, part_.columns) * shares(all_.n, part_.n);
  }
  bool can_shorten() const { return !way_.bytes && part_.n > least_n; }
  bool can_shrink() const {
    return part_.matrices > 1 || part_.rows > least || part_.columns > least || can_shorten() ||
           scratch_bytes_ > 0;
  }
  // Memory for the library's algorithms where that is much of it all; matrices; then whichever of
  // rows, columns and elements there is most of.
  void shrink() {
    if (bytes_of(part_) < 3 * scratch_bytes_) {
      scratch_bytes_ = 0;
      return;
    }
    const auto half = [](index& n, index each) { n = up_to((n + 1) / 2, each); };
    if (part_.matrices > 1) return half(part_.matrices, 1);
    const index largest = std::max(part_.rows, part_.columns);
    if (can_shorten() && (part_.n / 8 > largest || largest <= least))
      return half(part_.n, cuda::elements_of_tile);
    if (largest <= least)
      scratch_bytes_ = 0;
    else
      half(part_.rows >= part_.columns ? part_.rows : part_.columns, 16);
  }

  void place_all() {
    std::size_t end = 0;
    const auto take = [&](std::size_t bytes) {
      return in_workspace(std::exchange(end, end + rounded_up(bytes)));
    };
    const place largest = take(measured_);
    place_measures(a_, b_, largest);
    a_.scales = take(scale_bytes_);
    b_.scales = a_.scales.behind(4 * a_.count);
    a_.offsets = take(a_.offset_bytes());
    b_.offsets = take(b_.offset_bytes());
    digits_a_ = take(digit_bytes_of(part_, part_.rows));
    digits_b_ = take(digit_bytes_of(part_, part_.columns));
    sums_ = take(sum_bytes_of(part_));
    scratch_ = take(scratch_bytes_);
    plan_.workspace = end;
    if (!is_read_once(a_) || !is_read_once(b_)) plan_.steps.emplace_back(fill{largest, measured_});
  }

  // ---- Kernels

  pass& add_pass(std::string_view name, const std::string& definitions, const std::string& with,
                 index blocks) {
    return add_product_pass(plan_, products_header, name, definitions, with, blocks, 1);
  }
  index most_blocks() const { return static_cast<index>(on_.processors) * 32; }

  std::string way() const { return "using way = " + way_.type() + ";\n"; }

  bool is_read_once(const operand_vectors& v) const {
    return part_.n >= v.of.n && gpu::is_read_once(v);
  }

  void measure(const operand_vectors& v) {
    if (!is_read_once(v)) add_measure(plan_, v);
  }

  struct digits_made {
    index first, count, begin, n;
    friend bool operator==(const digits_made&, const digits_made&) = default;
  };
  // `vectors`: of each matrix of digits.
  void make_digits(const operand_vectors& v, place to, const digits_made& which, index vectors,
                   std::optional<digits_made>& last) {
    if (last == which) return;
    last = which;
    const index pitch = pitch_of(which.n), digit = pitch_of(vectors) * pitch;
    add_digits(plan_, v, way_,
               {nullptr, which.first, which.count, which.begin, which.n, pitch, vectors, digit,
                digit * static_cast<index>(way_.digits)},
               to, of_.product.bits(), is_read_once(v));
  }

  void add_part(index matrix, index row, index column, const part_sizes& part) {
    for (index begin = 0; begin < all_.n; begin += part_.n) {
      const index n = std::min(part_.n, of_.a.n - begin);  // 0 of rows without elements
      make_digits(a_, digits_a_,
                  {matrix * of_.a.vectors + row, part.matrices * part.rows, begin, n}, part.rows,
                  last_a_);
      make_digits(b_, digits_b_,
                  {matrix * of_.b.vectors + column, part.matrices * part.columns, begin, n},
                  part.columns, last_b_);
      if (begin > 0) reduce(part);
      multiply(part, n, begin > 0);
    }
    join(matrix, row, column, part);
  }

  index sum_rows(const part_sizes& p) const {
    return pitch_of(p.rows) * static_cast<index>(way_.bytes ? way_.digits : 1);
  }
  index sum_columns(const part_sizes& p) const {
    return pitch_of(p.columns) * static_cast<index>(way_.bytes ? way_.digits : 1);
  }

  void multiply(const part_sizes& part, index n, bool adds) {
    const index pitch = pitch_of(n), rows = sum_rows(part), columns = sum_columns(part);
    plan_.steps.emplace_back(integer_product{digits_a_, digits_b_, sums_, rows, columns, pitch,
                                             batch_of(part), rows * pitch, columns * pitch, adds,
                                             scratch_, scratch_bytes_});
  }

  void reduce(const part_sizes& part) {
    const index each = sum_rows(part) * sum_columns(part), items = each * part.matrices;
    pass& p = add_pass("reduce_sums", way(), "kernel::way",
                       std::min(shares(items, cuda::threads_on_products), most_blocks()));
    p.with.add_address(sums_).add(each).add(part.matrices);
  }

  void join(index matrix, index row, index column, const part_sizes& part) {
    product_results r{};
    r.a = a_.of;
    r.b = b_.of;
    r.one_a = a_.one;
    r.one_b = b_.one;
    r.sum_rows = sum_rows(part);
    r.sum_columns = sum_columns(part);
    r.first_matrix = matrix;
    r.first_row = row;
    r.first_column = column;
    r.matrix_count = part.matrices;
    r.row_count = part.rows;
    r.column_count = part.columns;
    r.bits = of_.product.bits();
    r.out = output_of(of_.a.vectors, of_.b.vectors, of_.addend, of_.out);
    const index items = shares(part.columns, cuda::results_of_thread) * part.rows * part.matrices;
    pass& p = add_pass(
        "join_products",
        element_of(a_.type) + "using result = " + type_name(of_.product.out()) + ";\n" + way(),
        std::string("kernel::way, kernel::element, kernel::result, ") +
            (of_.addend ? "true" : "false"),
        std::min(shares(items, cuda::threads_on_products), most_blocks()));
    p.with.add(r).set(offsetof(product_results, sums), sums_);
    set_vectors(p.with, offsetof(product_results, a), a_);
    set_vectors(p.with, offsetof(product_results, b), b_);
  }

  const product_problem& of_;
  const device_facts& on_;
  const digit_way way_;
  operand_vectors a_, b_;
  part_sizes all_, part_;
  std::size_t scratch_bytes_ = 0, measured_ = 0, scale_bytes_ = 0;
  place digits_a_, digits_b_, sums_, scratch_;
  std::optional<digits_made> last_a_, last_b_;
  plan plan_;
};

}  // namespace

bool can_contract(const product_problem& of) {
  return (of.a.elements.rank <= 1 || are_near(of.a.elements)) &&
         (of.b.elements.rank <= 1 || are_near(of.b.elements));
}

plan plan_product(const product_problem& of, std::size_t memory, const device_facts& on,
                  product_way way) {
  if (way != product_way::library && is_of_few(of)) return plan_few(of, on);
  if (way == product_way::tiles && can_be_tiles(of, on)) return plan_tiles(of, memory, on);
  library_planner by_library(of, memory, on);
  const bool by_tiles = way == product_way::fastest && can_be_tiles(of, on) &&
                        time_of_tiles(of, on) < by_library.time();
  return by_tiles ? plan_tiles(of, memory, on) : by_library.made();
}

}  // namespace bitfold::gpu

namespace bitfold::cuda {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw error(errc::usage, what); }

void check_operand(const matrix_product& p, const view& x, const char* which) {
  detail::expect_type(p, x, which);
  detail::check_aligned(which, x.data, size_of(x.type));
}

bool is_fixed(const matrix_product& p) { return !p.method() && is_float(p.in()); }

// What a product asks of the engine of reductions, by other methods than `fixed` and of integers.
struct by_dots {
  by_dots(const matrix_product& p, const view& a, const view& b)
      : of(detail::as_dots(a, b)), what(detail::dot_of(p)), axis{of.axis()} {}
  detail::dot_operands of;
  reduction what;
  std::array<int, 1> axis;
};

gpu::plan plan_of(const matrix_product& p, const view& a, const view& b, const view* addend,
                  void* out, std::size_t memory) {
  const detail::product_layout l = detail::layout_of(a, b);
  std::optional<detail::addend_layout> added;
  if (addend) added = detail::layout_of(*addend, l);
  const gpu::device_facts& on = gpu::facts_of_current_device();
  if (l.results.size() * l.a.vectors * l.b.vectors == 0) return {};
  return gpu::plan_product({p, l, added ? &*added : nullptr, out}, memory, on);
}

void check(const matrix_product& p, const view& a, const view& b, const view* addend) {
  check_operand(p, a, "a");
  check_operand(p, b, "b");
  if (!addend) return;
  detail::expect_addend(p, *addend);
  detail::check_aligned("addend", addend->data, size_of(addend->type));
}

}  // namespace

std::size_t matmul_workspace_bytes(const matrix_product& p, const view& a, const view& b,
                                   const view* addend, std::size_t memory) {
  check(p, a, b, addend);
  (void)matmul_extents(a, b);
  if (is_fixed(p)) return plan_of(p, a, b, addend, nullptr, memory).workspace;
  const by_dots dots(p, a, b);
  return workspace_bytes({&dots.what, 1}, dots.of.a, &dots.of.b, dots.axis);
}

void matmul(const matrix_product& p, const view& a, const view& b, const view* addend, void* out,
            void* workspace, std::size_t workspace_size, stream where) {
  check(p, a, b, addend);
  const std::vector<std::int64_t> extents = matmul_extents(a, b);
  if (!is_fixed(p)) {
    const by_dots dots(p, a, b);
    reduce({&dots.what, 1}, dots.of.a, &dots.of.b, dots.axis, {&out, 1}, workspace, workspace_size,
           where);
    return;
  }
  const gpu::plan made = plan_of(p, a, b, addend, out, workspace_size);
  if (made.steps.empty()) return;
  if (!out) refuse("out: a null pointer");
  detail::check_aligned("out", out, size_of(p.out()));
  check_workspace(workspace, workspace_size, made.workspace);
  gpu::run(made, {.workspace = workspace}, where);
}

}  // namespace bitfold::cuda
