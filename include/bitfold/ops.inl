// The folds and the operations made of them. Included by fold.hpp in namespace bitfold, and once
// per SIMD target by the CPU engine; `arith`, `order` and `method` are the namespaces of the same
// name there.
namespace fold {
#ifdef BITFOLD_ANOTHER_NAMESPACE
using bitfold::fold::accumulates;
using bitfold::fold::chosen;
using bitfold::fold::counts;
using bitfold::fold::element_kind;
using bitfold::fold::finish_parameters;
#endif

/// An element of two inputs.
template <class V>
struct pair_of {
  V x, y;
};
/// An element and its index, counted from where a kernel begins; rebase makes it count from the
/// start of the array.
template <class V, class I>
struct indexed_element {
  V x;
  I index;
};

#include <bitfold/fold.inl>

}  // namespace fold

/// Each operation of op.hpp is a struct NAME_op here: fold<M, T> is its fold for elements T by
/// method M (any M where it takes none).
namespace op {
using bitfold::fold::counts;
using bitfold::fold::element_kind;
using bitfold::fold::finish_parameters;
using fold::exact_average;
using fold::exact_sum;

#include <bitfold/ops/scale.inl>

#include <bitfold/ops/counts.inl>
#include <bitfold/ops/extrema.inl>
#include <bitfold/ops/logsumexp.inl>
#include <bitfold/ops/moments.inl>
#include <bitfold/ops/norms.inl>
#include <bitfold/ops/products.inl>
#include <bitfold/ops/sums.inl>
}  // namespace op

/// From names to folds: f(fold::chosen<F, A, Types>{}), F the fold of op by method m for elements
/// like T, accumulated in A.
struct algebra {
  template <class T, class A, class F>
  static decltype(auto) visit(op_id op, method_id m, F&& f) {
    switch (op) {
#define BITFOLD_OP(name, inputs, takes_method, has_exact, types, ...) \
  case op_id::name: return visit_method<op::name##_op, T, A, typing::types, takes_method>(m, f);
      BITFOLD_OPS(BITFOLD_OP)
#undef BITFOLD_OP
    }
    return visit_method<op::sum_op, T, A, typing::additive, true>(
        m, f);  // not reached: op is one of these
  }

 private:
  template <class Op, class T, class A, typing Types, bool Takes, class F>
  static decltype(auto) visit_method(method_id m, F& f) {
    if constexpr (!fold::accumulates<Types, A>()) {
      return f(
          fold::chosen<typename op::sum_op::template fold<method::tree, T>, A, typing::additive>{});
    } else if constexpr (requires { typename Op::exact; }) {
      if (m == method_id::exact)
        return f(fold::chosen<fold::exact_fold<typename Op::exact>, A, Types>{});
      return visit_ordered<Op, T, A, Types, Takes>(m, f);
    } else {
      return visit_ordered<Op, T, A, Types, Takes>(m, f);
    }
  }
  template <class Op, class T, class A, typing Types, bool Takes, class F>
  static decltype(auto) visit_ordered(method_id m, F& f) {
    if constexpr (Takes && !std::is_integral_v<A>) {
      switch (m) {
#define BITFOLD_METHOD(name, ...) \
  case method_id::name:           \
    return f(fold::chosen<typename Op::template fold<method::name, T>, A, Types>{});
        BITFOLD_METHODS(BITFOLD_METHOD)
#undef BITFOLD_METHOD
        case method_id::exact: break;  // not reached
      }
    }
    return f(fold::chosen<typename Op::template fold<method::tree, T>, A, Types>{});
  }
};
