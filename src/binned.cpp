#include "binned.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "dispatch.hpp"
#include "fp_environment.hpp"

namespace bitfold::detail {
namespace {

// Calls f(std::type_identity<S>{}), S the type of the sum.
template <class F>
decltype(auto) visit_sum(exact::term what, dtype type, F&& f) {
  return visit(type, [&]<class T>(std::type_identity<T>) -> decltype(auto) {
    if (exact::degree(what) == 1) return f(std::type_identity<exact::sum<T, 1>>{});
    return f(std::type_identity<exact::sum<T, 2>>{});
  });
}

// Calls f with the form of r; what has none gives Result{}.
template <class Result, class F>
Result with_form(const reduction& r, F&& f) {
  return dispatch<algebra>(r, [&]<class Chosen>(Chosen c) -> Result {
    if constexpr (Chosen::fold::ordering == ordering::independent)
      return f(c);
    else
      return Result{};  // not reached
  });
}

template <class Form, class Out, class T>
Out finished_form(fold::finish_parameters parameters, const void* const* sums) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return Form::template finish<Out>(
        parameters, *static_cast<const exact::sum_of<T, Form::terms[I]>*>(sums[I])...);
  }(std::make_index_sequence<std::size(Form::terms)>());
}

#define BITFOLD_OP(name, inputs, takes_method, has_exact, ...) \
  static_assert(has_exact == has_form<op::name##_op>, "the registry says it of " #name);
BITFOLD_OPS(BITFOLD_OP)
#undef BITFOLD_OP

}  // namespace

std::span<const exact::term> terms_of(const reduction& r) {
  return with_form<std::span<const exact::term>>(r, []<class Chosen>(Chosen) {
    return std::span<const exact::term>(Chosen::fold::form::terms);
  });
}

void clear_sum(exact::term what, dtype type, void* state) {
  visit_sum(what, type, [&]<class S>(std::type_identity<S>) { new (state) S; });
}

scalar finish_exact(const reduction& r, const void* const* sums, std::uint64_t n) {
  return with_form<scalar>(r, [&]<class Chosen>(Chosen) {
    using Form = typename Chosen::fold::form;
    return visit(r.in(), [&]<class T>(std::type_identity<T>) -> scalar {
      if (is_float(r.out())) {
        const auto v = finished_form<Form, exact::unrounded, T>({n, r.ddof()}, sums);
        return visit(r.out(), [&]<class Out>(std::type_identity<Out>) -> scalar {
          if constexpr (!std::is_integral_v<Out>)
            return as_scalar(exact::round<Out>(v));
          else
            return {};  // not reached
        });
      }
      // modulo 2^bits
      if constexpr (std::is_integral_v<T> && Chosen::types == typing::additive) {
        const auto v = finished_form<Form, std::uint64_t, T>({n, r.ddof()}, sums);
        return {r.out(),
                size_of(r.out()) == 8 ? v : v & ((std::uint64_t{1} << (8 * size_of(r.out()))) - 1)};
      }
      return {};  // not reached
    });
  });
}

exact_sums::exact_sums(std::span<const reduction> reductions) {
  for (const reduction& r : reductions) {
    if (!is_exact(r)) continue;
    type_ = r.in();
    for (const exact::term what : terms_of(r)) {
      if (std::any_of(sums_.begin(), sums_.end(),
                      [&](const term_sum& s) { return s.what == what; }))
        continue;
      sums_.push_back({what, {}});
      clear_sum(what, type_, sums_.back().state);
    }
  }
}

void exact_sums::merge(const exact_sums& o) {
  for (std::size_t k = 0; k < sums_.size(); ++k)
    visit_sum(sums_[k].what, type_, [&]<class S>(std::type_identity<S>) {
      reinterpret_cast<S*>(sums_[k].state)->merge(*reinterpret_cast<const S*>(o.sums_[k].state));
    });
}

scalar exact_sums::result(const reduction& r, std::uint64_t n) const {
  const fp_environment guard;
  std::vector<const void*> sums;
  for (const exact::term what : terms_of(r))
    sums.push_back(std::find_if(sums_.begin(), sums_.end(), [&](const term_sum& s) {
                     return s.what == what;
                   })->state);
  return finish_exact(r, sums.data(), n);
}

bool exact_sums::fits(const reduction& r) const {
  if (is_float(r.out())) return true;
  const exact::term what = terms_of(r)[0];
  const auto& s =
      *std::find_if(sums_.begin(), sums_.end(), [&](const term_sum& o) { return o.what == what; });
  return visit_sum(what, type_, [&]<class S>(std::type_identity<S>) {
    return visit(r.out(), [&]<class Out>(std::type_identity<Out>) {
      if constexpr (std::is_integral_v<Out> && std::is_integral_v<typename S::element>)
        return exact::fits<Out>(*reinterpret_cast<const S*>(s.state));
      else
        return true;
    });
  });
}

}  // namespace bitfold::detail
