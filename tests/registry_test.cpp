// What the registry says that operations take and give, against what make_reduction makes, and
// whether that can be run.
#include <bitfold/cpu.hpp>
#include <bitfold/reference.hpp>

#include "catch.hpp"
#include "data.hpp"
#include "main.hpp"

using namespace bitfold;

namespace {

template <class List>
auto or_none(const List& list) {
  std::vector<std::optional<typename List::value_type>> all{std::nullopt};
  all.insert(all.end(), list.begin(), list.end());
  return all;
}

std::vector<std::optional<method_id>> methods_or_none() {
  std::vector<std::optional<method_id>> all{std::nullopt};
  for (const method_info& m : all_methods) all.emplace_back(m.id);
  return all;
}

// The reduction, or the argument that is refused.
struct made {
  std::optional<reduction> is;
  std::string refused;
};
made make(op_id op, std::optional<method_id> method, dtype in, std::optional<dtype> acc = {},
          std::optional<dtype> out = {}, int ddof = 0) {
  try {
    return {make_reduction(op, method, in, acc, out, ddof), {}};
  } catch (const error& e) {
    const std::string what = e.what();
    return {{}, e.code() == errc::usage ? what.substr(0, what.find(':')) : "another error"};
  }
}

std::string names(const std::vector<dtype>& types) {
  std::string text;
  for (const dtype t : types) text += (text.empty() ? "" : " ") + std::string(name(t));
  return text;
}

}  // namespace

TEST_CASE("registry: what is offered is made and can be run, and the rest is refused by its name") {
  const std::vector<std::byte> x(3 * 8, std::byte{1}), y(3 * 8, std::byte{2});
  const auto check = [&](op_id op, std::optional<method_id> method, dtype in,
                         std::optional<dtype> acc, std::optional<dtype> out, int ddof) {
    const made m = make(op, method, in, acc, out, ddof);
    std::string refused;
    if (method && !takes(op, *method))
      refused = "method";
    else if (takes_ddof(op) ? ddof < 0 : ddof != 0)
      refused = "ddof";
    else if (acc && !takes_acc(op, method, in, *acc))
      refused = "acc";
    else if (out && !takes_out(op, in, *out))
      refused = "out dtype";
    bool right = m.refused == refused && m.is.has_value() == offers(op, method, in, acc, out, ddof);
    if (m.is) {
      const void* const second = info(op).inputs == 2 ? y.data() : nullptr;
      const scalar got =
          cpu::reduce(*m.is, x.data(), second, 3, {.threads = 1, .target = test::forced_target});
      right &= m.is->acc() == acc.value_or(default_acc(op, in)) &&
               m.is->out() == out.value_or(default_out(op, in)) && got.type == m.is->out() &&
               got == reference(*m.is, x.data(), second, 3);
    }
    if (right) return;
    CAPTURE(name(op), name(method), name(in), acc ? name(*acc) : "", out ? name(*out) : "", ddof);
    CHECK(m.refused == refused);
    FAIL_CHECK("not what the registry says");
  };
  for (const op_id op : all_ops)
    for (const auto method : methods_or_none())
      for (const dtype in : all_dtypes) {
        for (const auto acc : or_none(all_dtypes))
          for (const auto out : or_none(all_dtypes)) check(op, method, in, acc, out, 0);
        for (const int ddof : {-1, 1}) check(op, method, in, {}, {}, ddof);
      }
  SUCCEED();
}

TEST_CASE("registry: accumulators and results, by types") {
  const std::string narrow = "f16 bf16 f32", floats = narrow + " f64", signs = "i8 i16 i32 i64",
                    unsigneds = "u8 u16 u32 u64", every = floats + " " + signs + " " + unsigneds;
  struct line {
    typing types;
    std::string in, accs, outs;  // itself: no outs
  };
  const line lines[] = {
      {typing::additive, narrow, "f32 f64", floats},
      {typing::additive, "f64", "f64", floats},
      {typing::additive, signs, "i64", every},
      {typing::additive, unsigneds, "u64", every},
      {typing::real, narrow, "f32 f64", floats},
      {typing::real, "f64 " + signs + " " + unsigneds, "f64", floats},
      {typing::wide, every, "f64", floats},
      {typing::same, every, "", ""},
      {typing::place, every, "", "i64"},
      {typing::count, every, "", "i64"},
      {typing::truth, every, "", "u8"},
  };
  for (const op_info& op : all_op_infos)
    for (const dtype in : all_dtypes) {
      CAPTURE(op.name, name(in));
      int found = 0;
      for (const line& l : lines) {
        if (l.types != op.types ||
            (" " + l.in + " ").find(" " + std::string(name(in)) + " ") == std::string::npos)
          continue;
        ++found;
        std::vector<dtype> accs, outs;
        for (const dtype t : all_dtypes) {
          if (make(op.id, {}, in, t).is) accs.push_back(t);
          if (make(op.id, {}, in, {}, t).is) outs.push_back(t);
        }
        CHECK(names(accs) == l.accs);
        CHECK(names(outs) == (l.outs.empty() ? name(in) : l.outs));
        CHECK(accumulates(op.id) == !accs.empty());
        if (!accs.empty()) CHECK(default_acc(op.id, in) == accs[0]);
      }
      CHECK(found == 1);
    }
  for (const op_id op : all_ops) {
    CAPTURE(name(op));
    for (const auto method : methods_of(op)) {
      const auto made_in = [&](dtype acc) {
        return make(op, method, dtype::f32, acc).is.has_value();
      };
      CHECK(takes_acc(op, method) == (made_in(dtype::f32) && made_in(dtype::f64)));
    }
    CHECK(takes_out(op) == (make(op, {}, dtype::f32, {}, dtype::f16).is.has_value() &&
                            make(op, {}, dtype::f32, {}, dtype::f64).is.has_value()));
    CHECK(takes_ddof(op) == make(op, {}, dtype::f32, {}, {}, 1).is.has_value());
    CHECK(takes_ddof(op) == (op == op_id::var || op == op_id::std));
  }
}

TEST_CASE("registry: numbers that name nothing are refused by their argument") {
  const auto t = dtype::f32, none = static_cast<dtype>(all_dtypes.size());
  CHECK(make(static_cast<op_id>(all_ops.size()), {}, t).refused == "op");
  CHECK(make(op_id::sum, static_cast<method_id>(all_methods.size()), t).refused == "method");
  CHECK(make(op_id::sum, {}, none).refused == "in");
  CHECK(make(op_id::sum, {}, t, none).refused == "acc");
  CHECK(make(op_id::sum, {}, t, {}, none).refused == "out dtype");
}
