#include "product_tiles.hpp"

#include <bitfold/cuda/few_products.hpp>
#include <cstddef>
#include <cmath>
#include <utility>

#include "few_products.hpp"
#include "product_passes.hpp"

namespace bitfold::gpu {
namespace {

using cuda::tile_problem;
using cuda::tile_shape;
using detail::axes;
using order::index;

constexpr std::string_view header = "bitfold/cuda/product_tiles.cuh";

int digits_of(const matrix_product& p) { return (p.bits() + 7) / 8; }

struct operand {
  operand_vectors v;
  bool is_made = false;  ///< digits, ahead of the tiles
  place digits{};

  std::string reading() const {
    return std::string("bitfold::cuda::tile_reading::") + (is_made       ? "digits"
                                                           : v.across    ? "across"
                                                           : v.pack == 1 ? "along"
                                                                         : "packed");
  }
  // A step has no elements behind the last one but zeros.
  index digit_pitch() const { return up_to(v.of.n, cuda::longest_step); }
  index bytes_of_digits(int digits) const {
    return rounded_up(static_cast<index>(digits) * v.count * digit_pitch());
  }
  index scale_bytes() const { return rounded_up(4 * v.count); }

  cuda::product_vectors vectors() const {
    cuda::product_vectors to = v.of;
    to.digit_pitch = digit_pitch();
    to.digit_bytes = v.count * digit_pitch();
    return to;
  }
};

// Chosen after what was tried on an H200 (bench/results/product-tiles-h200.txt). Where a processor
// has two blocks, one's threads multiply while the other's wait: where vectors are short, or take
// long to read. Of long ones one block has more results, so that less is read for each.
tile_shape shape_of(index rows, index columns, index n, int digits, bool gathered) {
  if (rows <= 16) return {1, 2, 1, 8, digits < 3 ? 64 : 32, 2};
  if (columns <= 16) return {1, 2, 8, 1, digits < 3 ? 64 : 32, 2};
  if (digits < 3) return {2, 2, 2, 4, 64, 2};
  if (gathered || columns <= 32) return {2, 1, 2, 4, 64, 2};
  if (digits == 3) return {2, 2, 2, 4, 64, n <= 512 ? 2 : 1};
  if (n <= 256) return {2, 1, 2, 4, 64, 2};
  return {1, 2, 4, 4, 64, 1};
}

class tile_planner {
 public:
  tile_planner(const product_problem& of, std::size_t memory, const device_facts& on)
      : of_(of), digits_(digits_of(of.product)), a_{rows_of(of)}, b_{columns_of(of)} {
    rows_ = b_.v.one ? a_.v.count : a_.v.of.vectors;
    columns_ = !b_.v.one && a_.v.one ? b_.v.count : b_.v.of.vectors;
    matrices_ = a_.v.one || b_.v.one ? 1 : of.results.size();
    shape_ =
        shape_of(rows_, columns_, a_.v.of.n, digits_, a_.v.listed || b_.v.listed || a_.v.across);
    row_tiles_ = shares(rows_, static_cast<index>(shape_.rows()));
    column_tiles_ = shares(columns_, static_cast<index>(shape_.columns()));
    tiles_ = row_tiles_ * column_tiles_ * matrices_;
    // Digits that several tiles need are made once, where there is room for them.
    const index n = a_.v.of.n;
    a_.is_made = !a_.v.listed && n > 0 && column_tiles_ >= tiles_of_made;
    b_.is_made = !b_.v.listed && n > 0 && row_tiles_ >= tiles_of_made;
    const index most = cuda::most_elements_of_part(digits_);
    if (memory < least_bytes() + (n > most ? sum_bytes() : 0)) a_.is_made = b_.is_made = false;
    // Parts of rows, as long as all of them run at once.
    const index wanted = static_cast<index>(on.processors * shape_.blocks),
                room = memory >= least_bytes() + sum_bytes() ? n / least_part : 1,
                parts = std::max<index>(std::min(wanted / tiles_, room), 1);
    part_ = std::min(up_to(shares(std::max<index>(n, 1), parts), cuda::longest_step), most);
    parts_ = std::max<index>(shares(n, part_), 1);
  }

  plan made(std::size_t memory, const device_facts& on) {
    take_few(memory, on);
    place_all();
    for (const operand* x : {&a_, &b_})
      if (x->is_made)
        make_digits(*x);
      else if (beside_ || (few_columns_ > 0 && x->v.listed && !x->v.across))
        measure_few(*x);
      else
        add_measure(plan_, x->v);
    if (few_columns_ > 0)
      multiply_few();
    else
      multiply();
    if (is_summed()) finish();
    return std::move(plan_);
  }

  /// Nanoseconds, about. 0 of few, whose vectors are read once: no other way is as fast.
  double time(const products_numbers& by, const device_facts& on) const {
    if (columns_of_few(of_.product, rows_, columns_, a_.v.of.n) == columns_) return 0;
    const double processors = on.processors, n = static_cast<double>(a_.v.of.n),
                 blocks = static_cast<double>(tiles_ * parts_), part = static_cast<double>(part_),
                 of_tiles = std::ceil(blocks / processors) * part,
                 vectors = shape_.rows() * (a_.is_made ? read_only : 1) +
                           shape_.columns() * (b_.is_made ? read_only : 1),
                 products = of_tiles * shape_.rows() * shape_.columns() * digits_ * digits_,
                 bytes = (bytes_of(a_) + bytes_of(b_)) * n,
                 turns = std::ceil(blocks / (processors * shape_.blocks));
    return by.of_call_tiles +
           std::max({products / by.tiles[digits_ - 1], of_tiles * vectors / by.elements,
                     turns * part / shape_.step * by.of_step}) +
           (bytes / by.bytes + static_cast<double>(results()) / by.results) / processors;
  }

 private:
  static constexpr index least_part = 512;  // elements
  static constexpr index tiles_of_made = 4;
  static constexpr index few_blocks_of_processor = 8, warps_beside_of_processor = 32,
                         measured_part = 2048;
  static constexpr std::string_view few_header = "bitfold/cuda/few_products.cuh";
  // What reading a digit takes of what making it does, about.
  static constexpr double read_only = 0.25;

  // Through memory, of an element: it is measured, or digits are written and read.
  double bytes_of(const operand& x) const {
    return static_cast<double>(x.v.count) *
           (static_cast<double>(size_of(x.v.type)) + (x.is_made ? 2.0 * digits_ : 0.0));
  }

  // Few rows and columns of long vectors go without tiles: every block adds to their sums.
  void take_few(std::size_t memory, const device_facts& on) {
    const index n = a_.v.of.n, columns = columns_of_few(of_.product, rows_, columns_, n);
    if (columns == 0 || memory < least_bytes() + sum_bytes()) return;
    few_columns_ = columns;
    a_.is_made = b_.is_made = false;
    row_tiles_ = 1;
    column_tiles_ = shares(columns_, columns);
    tiles_ = column_tiles_ * matrices_;
    beside_ = !a_.v.one && !b_.v.one && lie_beside(of_);
    if (beside_) {  // a thread to a matrix
      const index warps = column_tiles_ * shares(matrices_, 32),
                  most = warps_beside_of_processor * static_cast<index>(on.processors);
      part_ = std::clamp<index>(shares(n * warps, most), 32, cuda::most_few_products);
      parts_ = shares(n, part_);
      return;
    }
    const index parts =
        std::max<index>(static_cast<index>(on.processors) * few_blocks_of_processor / tiles_, 1);
    part_ = std::min(up_to(shares(n, parts), cuda::threads_on_products),
                     cuda::threads_on_products * cuda::most_few_products);
    parts_ = shares(n, part_);
  }
  bool is_summed() const { return parts_ > 1 || few_columns_ > 0; }

  void place_all() {
    // What begins as zeros lies together.
    const std::size_t measures = measured_bytes(a_.v.count + b_.v.count),
                      sums = is_summed() ? sum_bytes() : 0;
    place_measures(a_.v, b_.v, in_workspace(0));
    sums_ = in_workspace(measures);
    a_.v.offsets = in_workspace(measures + sums);
    b_.v.offsets = a_.v.offsets.behind(a_.v.offset_bytes());
    place next = b_.v.offsets.behind(b_.v.offset_bytes());
    for (operand* x : {&a_, &b_})
      if (x->is_made) {
        x->v.scales = next;
        x->digits = next.behind(x->scale_bytes());
        next = x->digits.behind(x->bytes_of_digits(digits_));
      }
    plan_.workspace = least_bytes() + sums;
    plan_.steps.emplace_back(fill{in_workspace(0), measures + sums});
  }
  std::size_t least_bytes() const {
    std::size_t bytes =
        measured_bytes(a_.v.count + b_.v.count) + a_.v.offset_bytes() + b_.v.offset_bytes();
    for (const operand* x : {&a_, &b_})
      if (x->is_made) bytes += x->scale_bytes() + x->bytes_of_digits(digits_);
    return bytes;
  }
  std::size_t sum_bytes() const { return rounded_up(8 * results() * sum_words()); }
  index results() const { return rows_ * columns_ * matrices_; }
  index sum_words() const { return static_cast<index>(cuda::words_of_tile_sum(digits_)); }

  void make_digits(const operand& x) {
    const bool read_once = is_read_once(x.v);
    if (!read_once) add_measure(plan_, x.v);
    add_digits(plan_, x.v, {digits_, 0, false, true},
               {nullptr, 0, x.v.count, 0, x.v.of.n, x.digit_pitch(), x.v.count,
                x.v.count * x.digit_pitch(), 0},
               x.digits, of_.product.bits(), read_once);
  }

  static void set(arguments& to, std::size_t at, const operand& x) {
    set_vectors(to, at, x.v);
    if (x.is_made) to.set(at + offsetof(cuda::product_vectors, digits), x.digits);
  }
  pass& add(std::string_view name, const std::string& definitions, const std::string& with,
            index blocks, index rows_of_blocks = 1, std::size_t shared = 0) {
    return add_product_pass(plan_, header, name, definitions, with, blocks, rows_of_blocks, shared);
  }
  std::string definitions() const {
    return element_of(a_.v.type) + "using result = " + type_name(of_.product.out()) +
           ";\nusing way = cuda::tile_digits<" + std::to_string(digits_) +
           (of_.product.bits() <= 23 ? ", true>;\n" : ", false>;\n");
  }
  static constexpr std::string_view types = "kernel::way, kernel::element, kernel::result";

  void add_problem(pass& p) const {
    tile_problem to{};
    to.a = a_.vectors();
    to.b = b_.vectors();
    to.one_a = a_.v.one;
    to.one_b = b_.v.one;
    to.row_count = rows_;
    to.column_count = columns_;
    to.row_tiles = row_tiles_;
    to.column_tiles = column_tiles_;
    to.part = part_;
    to.bits = of_.product.bits();
    to.out = output_of(a_.v.of.vectors, b_.v.of.vectors, of_.addend, of_.out);
    p.with.add(to);
    set(p.with, offsetof(tile_problem, a), a_);
    set(p.with, offsetof(tile_problem, b), b_);
    if (is_summed()) p.with.set(offsetof(tile_problem, sums), sums_);
  }

  void multiply() {
    pass& p =
        add("multiply_tiles", definitions(),
            arguments_of(types, of_.addend != nullptr, parts_ > 1, a_.reading(), b_.reading(),
                         shape_.row_fragments, shape_.column_fragments, shape_.warps_down,
                         shape_.warps_across, shape_.step, shape_.blocks),
            tiles_, parts_, static_cast<std::size_t>(cuda::shared_bytes_of_tile(shape_, digits_)));
    p.threads = static_cast<unsigned>(shape_.threads());
    add_problem(p);
    p.bytes_read = (a_.v.count + b_.v.count) * a_.v.of.n * size_of(a_.v.type);
  }
  void multiply_few() {
    const std::string with = arguments_of("kernel::way, kernel::element", rows_, few_columns_);
    pass& p = beside_ ? add_product_pass(plan_, few_header, "multiply_few_beside", definitions(),
                                         with, blocks_of_warps(matrices_, column_tiles_, parts_), 1)
                      : add_product_pass(plan_, few_header, "multiply_few", definitions(), with,
                                         tiles_, parts_, 16 * (rows_ + few_columns_));
    add_problem(p);
    if (beside_) p.with.add(matrices_);
    p.bytes_read = (a_.v.count + b_.v.count) * a_.v.of.n * size_of(a_.v.type);
  }
  void measure_few(const operand& x) {
    if (x.v.listed) add_list_of_offsets(plan_, x.v);
    const index matrices = x.v.count / x.v.of.vectors,
                vectors = std::min<index>(x.v.of.vectors, few_columns_),
                tiles = shares(x.v.of.vectors, vectors), part = beside_ ? part_ : measured_part;
    pass& p = add_product_pass(plan_, few_header, "measure_few", element_of(x.v.type),
                               arguments_of("kernel::element", vectors, beside_),
                               blocks_of_warps(matrices, tiles, shares(x.v.of.n, part)), 1);
    p.with.add(x.v.of);
    set_vectors(p.with, 0, x.v);
    p.with.add(matrices).add(part);
    p.bytes_read = x.v.count * x.v.of.n * size_of(x.v.type);
  }
  // Of few: a warp takes a matrix, or 32 that lie side by side.
  index blocks_of_warps(index matrices, index tiles, index parts) const {
    return shares(tiles * (beside_ ? shares(matrices, 32) : matrices) * parts,
                  cuda::threads_on_products / 32);
  }
  void finish() {
    pass& p = add("finish_tiles", definitions(), arguments_of(types, of_.addend != nullptr),
                  shares(results(), cuda::threads_on_products));
    add_problem(p);
    p.with.add(results());
  }

  const product_problem& of_;
  const int digits_;
  operand a_, b_;
  tile_shape shape_{};
  index rows_, columns_, matrices_, row_tiles_, column_tiles_, tiles_, part_, parts_;
  index few_columns_ = 0;  ///< that a block takes of few; 0: tiles
  bool beside_ = false;    ///< of few: of matrices that lie side by side
  place sums_;
  plan plan_;
};

}  // namespace

bool can_be_tiles(const product_problem& of, const device_facts& on) {
  return on.major >= 8 && digits_of(of.product) <= cuda::most_tile_digits &&
         size_of(of.product.in()) < 8 && of.a.n <= cuda::most_elements_of_tiles;
}

plan plan_tiles(const product_problem& of, std::size_t memory, const device_facts& on) {
  return tile_planner(of, memory, on).made(memory, on);
}

double time_of_tiles(const product_problem& of, const device_facts& on) {
  return tile_planner(of, static_cast<std::size_t>(-1), on).time(on.numbers->products, on);
}

}  // namespace bitfold::gpu
