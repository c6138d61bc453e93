#include "exact_kernels.hpp"

#include <algorithm>
#include <bit>

#include "../binned.hpp"

namespace bitfold::gpu {
namespace {

using cuda::adder;

adder adder_of(dtype type, term what, term_set among) {
  using enum term;
  if (what == presence) return adder::counts;
  const bool is_simple = what == element || what == number || what == magnitude;
  switch (type) {
    case dtype::f16: return is_simple || what == difference ? adder::registers : adder::levels;
    case dtype::bf16:
      return is_simple                           ? adder::floats
             : what == square || what == product ? adder::bins
                                                 : adder::levels;
    case dtype::f32: return is_simple || what == product ? adder::bins : adder::levels;
    default:
      return is_simple && among != (only(element) | only(square)) ? adder::bins : adder::levels;
  }
}

std::string name_of(term what) {
  constexpr const char* names[] = {"element",    "number", "presence", "magnitude",
                                   "difference", "square", "product",  "squared_difference"};
  return std::string("exact::term::") + names[static_cast<int>(what)];
}

// Calls f with a constant for the term, and the type.
template <class F>
auto with(dtype type, term what, F f) {
  return visit(type, [&]<class T>(std::type_identity<T> t) {
    return exact::visit(what, [&](auto w) { return f(w, t); });
  });
}

std::size_t bytes_of_column(adder by, dtype type, term what) {
  return with(type, what,
              [&]<term What, class T>(std::integral_constant<term, What>,
                                      std::type_identity<T>) -> std::size_t {
                if constexpr (!std::is_integral_v<T>) {
                  if (by == adder::floats) return cuda::bytes_of_column<adder::floats, What, T>();
                  if constexpr (requires { cuda::bin_layout<What, T>::count; })
                    if (by == adder::bins) return cuda::bytes_of_column<adder::bins, What, T>();
                  if (by == adder::levels) return cuda::bytes_of_column<adder::levels, What, T>();
                }
                return 0;
              });
}

std::string type_of(adder by, dtype type, term what, int threads) {
  const std::string end = ", " + std::to_string(threads) + ">", t = type_name(type);
  switch (by) {
    case adder::registers: return "cuda::in_registers<" + name_of(what) + end;
    case adder::floats: return "cuda::in_floats<" + name_of(what) + end;
    case adder::bins: return "cuda::in_bins<" + name_of(what) + ", " + t + end;
    case adder::counts: return "cuda::counting_terms<" + t + end;
    case adder::levels: break;
  }
  return "cuda::in_levels<" + name_of(what) + ", " + t + end;
}

std::vector<term> terms_in(term_set all) {
  std::vector<term> terms;
  for (; all; all &= all - 1) terms.push_back(static_cast<term>(std::countr_zero(all)));
  return terms;
}

// How many blocks a processor has shared memory for.
int blocks_by_memory(const exact_kernel& k, const device_facts& on) {
  constexpr std::size_t of_system = 1024;
  return static_cast<int>(on.shared_bytes / (cuda::whole_rows(k.shared) + of_system));
}

exact_kernel kernel_of(const exact_line& by, term_set terms, const device_facts& on) {
  exact_kernel k{by.type,   terms_in(terms),     by.packs, by.threads, 0, 0,
                 by.blocks, by.blocks_of_pieces, {}};
  k.elements = static_cast<std::size_t>(k.packs * k.threads) * (16 / size_of(k.type));
  std::string adders = type_name(k.type);
  std::size_t column = 0;
  int cells = 0;
  for (const term what : k.terms) {
    const adder a = adder_of(k.type, what, terms);
    adders += ",\n                              " + type_of(a, k.type, what, k.threads);
    column += bytes_of_column(a, k.type, what);
    cells += cells_of(k.type, what);
  }
  k.shared = cuda::bytes_of_cells(cells) + static_cast<std::size_t>(k.threads) * column;
  k.definitions = "using sums = cuda::adder_list<" + adders +
                  ">;\nstatic_assert(sums::cells == " + std::to_string(cells) +
                  " && sums::room == " + std::to_string(k.shared) + ");\n";
  // More would take registers from each thread for nothing.
  for (int* const blocks : {&k.blocks, &k.blocks_of_pieces})
    *blocks = std::clamp(blocks_by_memory(k, on), 1, std::max(*blocks, 1));
  return k;
}

// Each thread keeps a state of its own.
exact_kernel kernel_of_integers(dtype type, term_set terms, const device_facts& on) {
  exact_kernel k{
      type, terms_in(terms), 1, cuda::integer_threads, 4 * cuda::integer_threads, 0, 0, 0, {}};
  k.blocks = std::min(k.terms.size() > 1 ? 5 : 8, on.threads / k.threads);
  int cells = 0;
  std::string sums = type_name(type);
  for (const term what : k.terms) {
    sums += ", " + name_of(what);
    cells += cells_of(type, what);
  }
  k.definitions = "using sums = cuda::integer_sums<" + sums +
                  ">;\nstatic_assert(sums::cells == " + std::to_string(cells) + ");\n";
  return k;
}

// Of those terms alone; and the first that has them all.
const exact_line* find_line(const exact_numbers& in, dtype type, term_set terms) {
  const auto found = std::ranges::find_if(
      in.alone, [&](const exact_line& l) { return l.type == type && l.terms == terms; });
  return found == in.alone.end() ? nullptr : &*found;
}
const exact_line& find_line_of_some(const exact_numbers& in, dtype type, term_set terms) {
  return *std::ranges::find_if(in.together, [&](const exact_line& l) {
    return l.type == type && (l.terms & terms) == terms;
  });
}

}  // namespace

std::vector<term> terms_of(const problem& p, std::span<const std::size_t> which) {
  std::vector<term> terms;
  for (const std::size_t k : which)
    for (const term what : detail::terms_of(p.reductions[k]))
      if (std::find(terms.begin(), terms.end(), what) == terms.end()) terms.push_back(what);
  return terms;
}

int cells_of(dtype type, term what) {
  return visit(type, [&]<class T>(std::type_identity<T>) { return cuda::cells_of_term<T>(what); });
}
std::size_t bytes_of_sum(dtype type) {
  return visit(type, []<class T>(std::type_identity<T>) { return sizeof(cuda::summed<T>); });
}
std::size_t bytes_of_warp(dtype type, std::size_t sums) {
  return visit(type, [&]<class T>(std::type_identity<T>) {
    return cuda::bytes_of_warp<T>(static_cast<int>(sums));
  });
}

exact_kernel kernel_for(dtype type, std::span<const term> terms, const device_facts& on) {
  const exact_numbers& in = on.numbers->exact;
  term_set all = 0;
  for (const term what : terms) all |= only(what);
  if (all & ~of_two_inputs) all &= ~of_two_inputs;
  if (!is_float(type)) return kernel_of_integers(type, all, on);
  exact_kernel best{};
  const auto choose = [&](const exact_line* by, term_set set, std::size_t times) {
    if (!by) return;
    if (exact_kernel k = kernel_of(*by, set, on); k.shared * times <= on.max_shared_bytes)
      best = std::move(k);
  };
  for (term_set set = all; set; set = (set - 1) & all) {
    const std::size_t count = terms_in(set).size();
    if (count > best.terms.size()) {
      const exact_line& some = find_line_of_some(in, type, set);
      const auto threads = static_cast<std::size_t>(some.threads);
      choose(&some, set, count > 1 ? std::max<std::size_t>(1, in.enough_threads / threads) : 1);
    }
    if (count >= best.terms.size()) choose(find_line(in, type, set), set, 1);
  }
  if (best.terms.empty()) {  // which the device refuses
    const term_set first = all & ~(all - 1);
    best = kernel_of(*find_line(in, type, first), first, on);
  }
  return best;
}

int blocks_at_once(const exact_kernel& k, int threads, int blocks, const device_facts& on) {
  // Each quarter of a processor has registers for as many warps.
  constexpr int quarters = 4, warp = 32;
  const int warps = up_to(blocks * (k.threads / warp), quarters),
            by_registers = warps / (threads / warp), by_threads = on.threads / threads;
  return on.processors *
         std::max(1, std::min({by_registers, by_threads, blocks_by_memory(k, on), on.blocks}));
}

std::string definition_of_terms(dtype type, std::span<const term> terms) {
  std::string list = type_name(type);
  int most = 0;
  for (const term what : terms) {
    list += ", " + name_of(what);
    most = std::max(most, cells_of(type, what));
  }
  return "using terms = cuda::exact_terms<" + list +
         ">;\nstatic_assert(terms::most_cells == " + std::to_string(most) +
         " && cuda::bytes_of_warp<" + type_name(type) + ">(" + std::to_string(terms.size()) +
         ") == " + std::to_string(bytes_of_warp(type, terms.size())) + ");\n";
}

std::string definition_of_results(const problem& p, std::span<const std::size_t> which) {
  std::string list;
  for (const std::size_t k : which) {
    const reduction& r = p.reductions[k];
    list += list.empty() ? "" : ",\n                                   ";
    list +=
        "cuda::exact_output<op_id::" + std::string(name(r.op())) + ", " + type_name(r.out()) + ">";
  }
  return "using results = cuda::exact_results<" + list + ">;\n";
}

std::string definition_of_state(dtype type, term what) {
  return "using results = cuda::exact_results<cuda::exact_state<" + type_name(type) + ", " +
         name_of(what) + ">>;\n";
}

}  // namespace bitfold::gpu
