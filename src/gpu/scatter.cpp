// Scatters on a GPU: plans, and the calls that run them. Rows with one key each, and short lines,
// have kernels of their own; all other elements are sorted by the places that they go to.
#include "scatter.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <bitfold/cuda/plan.hpp>
#include <bitfold/cuda/scatter.hpp>
#include <bitfold/error.hpp>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>

#include "../scattering.hpp"
#include "groups.hpp"
#include "launcher.hpp"
#include "output_plan.hpp"
#include "request.hpp"
#include "sort.hpp"

namespace bitfold::gpu {
namespace {

constexpr index warp = order::lanes;
constexpr index shares(index n, index each) { return (n + each - 1) / each; }

[[noreturn]] void refuse(const std::string& what) { throw error(errc::usage, what); }

bool is_extremum(op_id op) { return op == op_id::max || op == op_id::min; }

// ---- What is put together -----------------------------------------------------------------------

// The reduction of a place's elements: of a mean their sum. Its result is of the type in which is
// computed; of an extremum of theirs.
reduction reduction_of(const scattering& how, dtype type) {
  const op_id op = how.op == op_id::mean ? op_id::sum : how.op;
  if (op != op_id::sum && op != op_id::prod && !is_extremum(op))
    refuse("op: " + std::string(name(op)) + " is none that scatters");
  if (how.method == method_id::exact && op == op_id::sum && !is_float(type))
    refuse("method: exact, of " + std::string(name(type)) + ", which scatters modulo 2^64");
  std::optional<dtype> out;
  if (!is_extremum(op))
    out = is_float(type)        ? type == dtype::f64 ? dtype::f64 : dtype::f32
          : is_signed_int(type) ? dtype::i64
                                : dtype::u64;
  return make_reduction(op, info(op).takes_method ? std::optional(how.method) : std::nullopt, type,
                        {}, out);
}
bool has_order(const reduction& r) { return r.method() != method_id::exact; }

// Kernels' `what`.
std::string definition_of(const reduction& r) {
  const method_id method = r.method().value_or(method_id::tree);
  return "using what = bitfold::cuda::scattered<op_id::" + std::string(name(r.op())) +
         ", method::" + std::string(name(method == method_id::exact ? method_id::tree : method)) +
         ", " + type_name(r.in()) + ", " + type_name(r.acc()) + ">;\n";
}
std::string largest_of(dtype type) {
  return "using what = bitfold::cuda::scattered_largest<" + type_name(type) + ", " +
         (type == dtype::f64 ? "double" : "float") + ">;\n";
}
instantiation kernel_of(std::string_view name, std::string_view header, const std::string& what,
                        const std::string& more = "") {
  return {name, header, what, "bitfold::cuda::" + std::string(name) + "<kernel::what" + more + ">"};
}
std::string held_to(std::size_t state) {
  return "static_assert(sizeof(what::state) == " + std::to_string(state) + ");\n";
}

cuda::meeting meeting_of(const scattering& how, const void* base) {
  return {base, how.with_base && base != nullptr, how.op == op_id::mean};
}

/// Keys that name no place: where they are left out, they go behind the last output.
void check_size(std::size_t n, std::size_t outputs) {
  constexpr std::size_t limit = (std::size_t{1} << 32) - 1;
  if (n >= limit || outputs >= limit) refuse("x: 2^32 - 1 elements or places, or more");
}
void add_lost(plan& to, place any_lost) {
  if (any_lost.from != base::nothing) to.steps.emplace_back(fill{any_lost, sizeof(std::uint32_t)});
}
constexpr place asked(bool asks) { return asks ? place{base::result, 1} : place{}; }

// ---- Rows ---------------------------------------------------------------------------------------

// Columns that a thread takes.
int columns_of_thread(const cuda::keyed_rows& of, dtype type) {
  const std::size_t size = size_of(type), wanted = size == 2 ? 4 : 16 / size;
  const bool fits =
      of.columns % wanted == 0 &&
      std::ranges::all_of(std::initializer_list<const void*>{of.x, of.met.base, of.out},
                          [&](const void* p) {
                            return reinterpret_cast<std::uintptr_t>(p) % (wanted * size) == 0;
                          });
  return fits ? static_cast<int>(wanted) : 1;
}

constexpr std::string_view of_rows = "bitfold/cuda/keyed_rows.cuh";

// Rows that are in the order of their outputs, whose offsets and order lie there. (`state` bytes.)
void add_rows(plan& to, const cuda::keyed_rows& of, dtype type, const std::string& what,
              std::size_t state, place offsets, place order, std::size_t workspace) {
  using rows = cuda::keyed_rows;
  const int many = columns_of_thread(of, type), beside = of.total <= 2 * of.outputs ? 4 : 1;
  const index columns = of.columns / static_cast<index>(many);
  const bool may_be_long = of.total > cuda::rows_of_node;
  const index room = of.total / (cuda::rows_of_node + 1);
  const place count = in_workspace(workspace), list = count.behind(sizeof(index)),
              states = in_workspace(workspace + rounded_up((1 + room) * sizeof(index)));
  const auto given = [](bool is) { return is ? "true" : "false"; };
  const std::string text = what + held_to(state) + "using given = bitfold::cuda::rows_given<" +
                           given(order.from != base::nothing) + ", " + given(of.list) + ", " +
                           given(of.weights) + ">;\n";
  const auto add = [&](instantiation k, index blocks, int threads) {
    pass& p = std::get<pass>(to.steps.emplace_back(
        pass{std::move(k), static_cast<unsigned>(std::min<index>(blocks, 1 << 30)),
             static_cast<unsigned>(threads)}));
    p.with.add(of)
        .set(offsetof(rows, offsets), offsets)
        .set(offsetof(rows, order), order)
        .add(std::array<std::uint64_t, 3>{});
    if (may_be_long) p.with.set(0, count).set(sizeof(void*), list).set(2 * sizeof(void*), states);
    return &p;
  };
  if (may_be_long) to.steps.emplace_back(fill{count, sizeof(index)});
  add(kernel_of("fold_keyed_rows", of_rows, text,
                ", kernel::given, " + std::to_string(many) + ", " + std::to_string(beside)),
      shares(shares(of.outputs, static_cast<index>(beside)) * columns, cuda::threads_on_rows),
      cuda::threads_on_rows)
      ->bytes_read = of.total * of.columns * size_of(type);
  if (!may_be_long) return;
  add(kernel_of("fold_nodes_of_rows", of_rows, text, ", kernel::given, " + std::to_string(many)),
      shares((of.total / cuda::rows_of_node + 1) * columns, cuda::threads_on_rows),
      cuda::threads_on_rows);
  add(kernel_of("fold_outputs_in_nodes", of_rows, text, ", kernel::given"),
      std::min<index>(room * shares(of.columns, warp), 1024),
      cuda::warps_on_nodes_of_rows * static_cast<int>(warp));
  to.workspace = std::max(to.workspace, static_cast<std::size_t>(states.bytes) +
                                            cuda::nodes_of_rows(of.total) * of.columns * state);
}

cuda::keys_on_axes keys_of_rows(const scattering& how, std::size_t n, std::int64_t stride,
                                std::size_t places) {
  cuda::keys_on_axes of = keys_in_a_row(n, places);
  of.all.dims[0].x = stride;
  if (!how.leaves_out) of.lost = 0;
  return of;
}

// By keys, which are sorted.
void add_rows_by_key(plan& to, const scattering& how, cuda::keyed_rows of, dtype type,
                     const std::string& what, std::size_t state, std::int64_t key_stride,
                     place any_lost, const tuning& by) {
  add_lost(to, any_lost);
  const sorted_keys sorted = add_keys(to, keys_of_rows(how, of.total, key_stride, of.outputs), {},
                                      of.outputs, any_lost, 0, by);
  add_rows(to, of, type, what, state, sorted.offsets, sorted.places, sorted.end);
  to.workspace = std::max(to.workspace, sorted.end);
}

std::size_t state_of(const reduction& r, const tuning& by) {
  const std::size_t first = 0;
  return groups_of({&r, 1}, {&first, 1}, by)[0].state_bytes();
}

// ---- Short lines --------------------------------------------------------------------------------

void add_lines(plan& to, const reduction& r, cuda::keyed_lines of, place any_lost) {
  const std::size_t size = size_of(r.in());
  of.together = std::max(
      1, std::min(cuda::elements_together / of.n, cuda::most_of_lines / std::max(of.places, 1)));
  of.per_element =
      static_cast<std::uint32_t>(((std::uint64_t{1} << 32) - 1) / static_cast<unsigned>(of.n) + 1);
  const auto together = static_cast<std::size_t>(of.together);
  const std::size_t bytes =
      cuda::bytes_of_lines(together * static_cast<std::size_t>(of.n),
                           together * static_cast<std::size_t>(of.places), size);
  add_lost(to, any_lost);
  pass p{kernel_of("fold_keyed_lines", "bitfold/cuda/keyed_lines.cuh", definition_of(r)),
         static_cast<unsigned>(
             std::min<index>(shares(of.lines, cuda::warps_on_lines * together), 1 << 20)),
         cuda::warps_on_lines * static_cast<unsigned>(warp), cuda::warps_on_lines * bytes};
  p.bytes_read = of.lines * static_cast<index>(of.n) * (size + sizeof(std::int64_t));
  p.with.add(of)
      .set(offsetof(cuda::keyed_lines, keys), {base::list})
      .set(offsetof(cuda::keyed_lines, any_lost), any_lost)
      .add(static_cast<int>(bytes));
  to.steps.emplace_back(std::move(p));
}

// ---- Elements -----------------------------------------------------------------------------------

struct scattered_views {
  const view &x, &keys;
  int axis;
  const view& base;
  std::size_t extent(const view& v, int k) const {
    return static_cast<std::size_t>(v.extent[static_cast<std::size_t>(k)]);
  }
  // Of base's axis, where it lies in a row.
  std::size_t behind(int k) const {
    std::size_t n = 1;
    while (++k < base.rank) n *= extent(base, k);
    return n;
  }
  std::int64_t key_stride(int k) const { return keys.stride[static_cast<std::size_t>(k)]; }
};

cuda::keys_on_axes keys_of_elements(const scattering& how, const scattered_views& all,
                                    std::size_t n, std::size_t outputs) {
  cuda::keys_on_axes of{};
  for (int k = 0; k < all.x.rank; ++k) {
    const std::uint64_t extent = all.extent(all.x, k);
    const std::int64_t x = all.key_stride(k),
                       y = k == all.axis ? 0 : static_cast<std::int64_t>(all.behind(k));
    if (extent == 1) continue;
    auto* const before = of.all.rank > 0 ? &of.all.dims[of.all.rank - 1] : nullptr;
    const auto length = static_cast<std::int64_t>(extent);
    if (before && before->x == length * x && before->y == length * y)
      *before = {before->extent * extent, x, y};
    else
      of.all.dims[of.all.rank++] = {extent, x, y};
  }
  if (of.all.rank == 0) of.all.dims[of.all.rank++] = {1, 0, 0};
  of.by = cuda::divisors_of(of.all);
  of.n = n;
  of.places = all.extent(all.base, all.axis);
  of.stride = all.behind(all.axis);
  of.lost = how.leaves_out ? outputs : 0;
  return of;
}

void add_elements(plan& to, const scattering& how, const reduction& r, const scattered_views& all,
                  place any_lost, void* out, const device_facts& on) {
  const std::size_t n = detail::elements_of(all.x), outputs = detail::elements_of(all.base);
  add_lost(to, any_lost);
  const sorted_keys sorted = add_keys(to, keys_of_elements(how, all, n, outputs), r.in(), outputs,
                                      any_lost, 0, *on.numbers);
  const place results = in_workspace(rounded_up(sorted.end));
  const cuda::output_elements from = cuda::elements_of_lists(r.in(), false, n, outputs);
  problem p{{&r, 1}, n, true};
  p.outputs = &from;
  p.offsets = sorted.offsets;
  p.x = sorted.x;
  p.results = {&results, 1};
  p.workspace = results.bytes + rounded_up(outputs * size_of(r.out()));
  plan folds = plan_of(p, {}, on);
  std::ranges::move(folds.steps, std::back_inserter(to.steps));
  to.workspace = std::max({to.workspace, folds.workspace, p.workspace});
  pass meet{
      kernel_of("meet_places", "bitfold/cuda/scattered.cuh",
                definition_of(r) + "using result = " + type_name(r.out()) + ";\n",
                ", kernel::result"),
      static_cast<unsigned>(std::min<index>(shares(outputs, cuda::threads_on_places), 1 << 20)),
      cuda::threads_on_places};
  meet.with.add_address(results)
      .add_address(sorted.offsets)
      .add(std::uint64_t{outputs})
      .add(meeting_of(how, all.base.data))
      .add(out);
  to.steps.emplace_back(std::move(meet));
}

// ---- Which way ----------------------------------------------------------------------------------

bool lies_in_a_row(const view& v) {
  std::int64_t stride = 1;
  for (int k = v.rank; k-- > 0;) {
    const auto i = static_cast<std::size_t>(k);
    if (v.extent[i] > 1 && v.stride[i] != stride) return false;
    stride *= v.extent[i];
  }
  return true;
}

// Whether every axis k has that.
template <class F>
bool each_axis(const view& v, F f) {
  for (int k = 0; k < v.rank; ++k)
    if (v.extent[static_cast<std::size_t>(k)] != 1 && !f(k)) return false;
  return true;
}

}  // namespace

plan plan_scatter(const scattering& how, const view& x, const view& keys, int axis,
                  const view& base, void* out, bool asks_for_lost, const device_facts& on) {
  plan made;
  const scattered_views all{x, keys, axis, base};
  const std::size_t n = detail::elements_of(x), outputs = detail::elements_of(base);
  check_size(n, outputs);
  const reduction r = reduction_of(how, x.type);
  check_methods({&r, 1});
  const place any_lost = asked(asks_for_lost && !how.leaves_out);
  if (outputs == 0) {
    add_lost(made, any_lost);
    return made;
  }
  const std::size_t places = all.extent(base, axis), length = all.extent(x, axis);
  bool whole = n > 0 && has_order(r);
  for (int k = 0; k < x.rank; ++k) whole &= k == axis || all.extent(x, k) == all.extent(base, k);
  constexpr std::size_t least_columns = 4;
  if (whole && size_of(x.type) > 1 && all.behind(axis) >= least_columns &&
      each_axis(x, [&](int k) { return k == axis || (k > axis && all.key_stride(k) == 0); })) {
    cuda::keyed_rows of{};
    of.x = x.data;
    of.columns = all.behind(axis);
    of.outputs = places;
    of.total = length;
    of.met = meeting_of(how, base.data);
    of.out = out;
    const auto i = static_cast<std::size_t>(axis);
    add_rows_by_key(made, how, of, x.type, definition_of(r), state_of(r, *on.numbers),
                    keys.stride[i], any_lost, *on.numbers);
    return made;
  }
  if (whole && all.behind(axis) == 1 && lies_in_a_row(keys) && length <= cuda::most_of_lines &&
      places <= cuda::most_of_lines && length * size_of(x.type) <= cuda::most_bytes_of_line) {
    cuda::keyed_lines of{};
    of.x = x.data;
    of.met = meeting_of(how, base.data);
    of.out = out;
    of.lines = n / length;
    of.n = static_cast<int>(length);
    of.places = static_cast<int>(places);
    add_lines(made, r, of, any_lost);
    return made;
  }
  add_elements(made, how, r, all, any_lost, out, on);
  return made;
}

plan plan_scatter_rows(const scattering& how, const listed_rows& x, const places_of_rows& to,
                       const void* base, void* out, std::int64_t* largest, bool asks_for_lost,
                       const device_facts& on) {
  plan made;
  check_size(x.count, to.count);
  const reduction r = reduction_of(how, x.type);
  check_methods({&r, 1});
  if (!has_order(r)) refuse("method: exact, which has no order");
  if (size_of(x.type) == 1) refuse("x: rows of elements of one byte");
  if (largest && (how.op != op_id::max || !is_float(x.type) || base))
    refuse("largest: of op max of floats, without a base");
  const place any_lost = asked(asks_for_lost && !how.leaves_out && to.keys);
  if (to.count == 0 || x.n == 0) {
    add_lost(made, any_lost);
    return made;
  }
  cuda::keyed_rows of{};
  of.x = x.x;
  of.columns = x.n;
  of.outputs = to.count;
  of.total = x.count;
  of.list = x.list;
  of.weights = x.weights;
  of.met = meeting_of(how, base);
  of.out = out;
  of.largest = largest;
  const std::string what = largest ? largest_of(x.type) : definition_of(r);
  const std::size_t state = largest ? (x.type == dtype::f64 ? 16 : 8) : state_of(r, *on.numbers);
  if (to.keys)
    add_rows_by_key(made, how, of, x.type, what, state, 1, any_lost, *on.numbers);
  else
    add_rows(made, of, x.type, what, state, {base::list}, {}, 0);
  return made;
}

}  // namespace bitfold::gpu

namespace bitfold::cuda {
namespace {

const gpu::device_facts& here() { return gpu::facts_of_current_device(); }

void run(const gpu::plan& p, const void* x, const void* list, void* out, std::uint32_t* any_lost,
         void* workspace, std::size_t workspace_size, stream where) {
  check_workspace(workspace, workspace_size, p.workspace);
  void* const results[] = {out, any_lost};
  gpu::run(p, {x, nullptr, list, workspace, results}, where);
}

void check(const view& x, const view& keys, int axis, const view& base) {
  detail::check_scatter(x, keys, axis, base);
  if (!gpu::lies_in_a_row(x)) throw error(errc::usage, "x: does not lie in a row");
  if (!gpu::lies_in_a_row(base)) throw error(errc::usage, "base: does not lie in a row");
}

}  // namespace

std::size_t scatter_workspace_bytes(const scattering& how, const view& x, const view& keys,
                                    int axis, const view& base) {
  check(x, keys, axis, base);
  return gpu::plan_scatter(how, x, keys, axis, base, nullptr, true, here()).workspace;
}

void scatter(const scattering& how, const view& x, const view& keys, int axis, const view& base,
             void* out, std::uint32_t* any_lost, void* workspace, std::size_t workspace_size,
             stream s) {
  check(x, keys, axis, base);
  (void)gpu::the_driver();
  run(gpu::plan_scatter(how, x, keys, axis, base, out, any_lost != nullptr, here()), x.data,
      keys.data, out, any_lost, workspace, workspace_size, s);
}

std::size_t scatter_rows_workspace_bytes(const scattering& how, const listed_rows& x,
                                         const places_of_rows& to, bool largest) {
  std::int64_t none = 0;
  return gpu::plan_scatter_rows(how, x, to, nullptr, nullptr, largest ? &none : nullptr, true,
                                here())
      .workspace;
}

void scatter_rows(const scattering& how, const listed_rows& x, const places_of_rows& to,
                  const void* base, void* out, std::int64_t* largest, std::uint32_t* any_lost,
                  void* workspace, std::size_t workspace_size, stream s) {
  (void)gpu::the_driver();
  run(gpu::plan_scatter_rows(how, x, to, base, out, largest, any_lost != nullptr, here()), x.x,
      to.keys ? to.keys : to.offsets, out, any_lost, workspace, workspace_size, s);
}

}  // namespace bitfold::cuda
