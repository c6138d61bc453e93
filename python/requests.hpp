// What is asked for, and what it comes to for elements of a type.
#pragma once

#include "core.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace bitfold::python {

/// What a call throws, with the argument's name in Python.
template <class Call>
decltype(auto) renaming(Call call) {
  try {
    return call();
  } catch (const error& e) {
    const std::string_view what = e.what();
    for (const auto& [ours, theirs] :
         {std::pair<std::string_view, std::string_view>{"out dtype:", "dtype:"},
          {"n:", "x:"},
          {"output ", "x: output "}})
      if (what.starts_with(ours))
        throw error(e.code(), std::string(theirs) + std::string(what.substr(ours.size())));
    throw;
  }
}

op_id parse_op_or_refuse(nb::handle given);
std::optional<method_id> parse_method_or_none(nb::handle given);

/// What is asked for, of elements of a type yet to come.
class request {
 public:
  request(op_id op, std::optional<method_id> method, std::optional<dtype> acc,
          std::optional<dtype> out, int ddof)
      : op_(op), method_(method), acc_(acc), out_(out), ddof_(ddof) {}

  op_id op() const { return op_; }
  const reduction& of(element_type in);
  /// Whether there is one.
  bool offers(element_type in) const;
  /// An operation that only asks of each byte whether it is 0, and gives the same of bools; nothing
  /// where there is none. `of_some`: where no output is of no elements.
  const std::optional<reduction>& by_truth(bool of_some) {
    auto& known = by_truth_[of_some];
    if (!known) known = made_by_truth(of_some);
    return *known;
  }
  bool asks_for_truth() const {
    return op_ == op_id::any || op_ == op_id::all || op_ == op_id::count_nonzero;
  }
  /// Whether it is of elements that are converted to floats first, as there is no exact product.
  bool multiplies_as_floats(element_type in) const;
  bool counts_truths() {
    const auto& r = by_truth(false);
    return r && r->op() == op_id::count_nonzero;
  }
  element_type result(element_type in);

 private:
  std::optional<reduction> made_by_truth(bool of_some);

  static constexpr element_type of_bool{dtype::u8, true};
  op_id op_;
  std::optional<method_id> method_;
  std::optional<dtype> acc_, out_;
  int ddof_;
  std::array<std::optional<std::optional<reduction>>, 2> by_truth_;
  std::array<std::optional<reduction>, element_types> known_;
};

/// What one call makes: of a Request its result, of a list of them a tuple. It keeps what the list
/// gives. Errors: TypeError for what is no Request.
class asked {
 public:
  explicit asked(request& one) : one_(&one) {}
  explicit asked(nb::handle given);
  bool is_one() const { return one_ != nullptr; }
  std::span<request* const> each() const {
    return is_one() ? std::span<request* const>(&one_, 1) : list_;
  }

 private:
  request* one_ = nullptr;
  std::vector<request*> list_;
  std::vector<nb::object> kept_;
};

}  // namespace bitfold::python
