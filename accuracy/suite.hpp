// The suite: which arrays every contestant reduces, and what is measured. It is a list of units,
// each a few seconds at most, so that a run can be interrupted between two of them and go on later.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "contestant.hpp"
#include "io/arrays.hpp"
#include "report.hpp"

namespace bitfold::accuracy {

struct suite_options {
  bool full = false;
  std::uint64_t seed = 1;
  std::vector<std::string> files;  ///< .npy and .safetensors; their float arrays take part
};

struct unit {
  std::string key;            ///< unique in a plan, stable between runs
  std::string what;           ///< for the progress bar
  double weight;              ///< about how long it takes, in any unit
  std::function<json()> run;  ///< its rows, as the lists of a report
};

/// A sum of small integers, which every order of additions gives exactly (inputs.hpp), that is
/// another one: the first of a variation.
struct wrong_sum {
  std::string variation, array;
  scalar expected, got;
};
/// Of a contestant in each of its variations; none of one that is right.
std::vector<wrong_sum> wrong_sums(contestant& c);

/// What is to be done, in order. The units refer to `who`. Errors (errc::bad_input): a file that
/// cannot be read, or has no float array.
std::vector<unit> plan(contestants& who, const suite_options& options);

/// The report without the rows that units give: everything that is known before.
json start_report(const contestants& who, const suite_options& options, const std::string& command);

/// Adds the rows of one unit.
void add_rows(json& report, const json& rows);

}  // namespace bitfold::accuracy
