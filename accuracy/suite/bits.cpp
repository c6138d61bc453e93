// Who can add, and whose bits move.
#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include <fmt/format.h>

#include <bitfold/cuda.hpp>

#include "accuracy/build_info.hpp"
#include "accuracy/suite.hpp"
#include "io/digest.hpp"
#include "studies.hpp"

namespace bitfold::accuracy {
namespace {

// The first `outputs` rows of an array, or the same as columns.
array batch_of(const shape& s, const std::vector<std::byte>& all_rows, std::size_t outputs) {
  const std::size_t size = size_of(s.type);
  std::vector<std::byte> bytes(
      all_rows.begin(), all_rows.begin() + static_cast<std::ptrdiff_t>(outputs * s.length * size));
  if (!s.rows)
    for (std::size_t o = 0; o < outputs; ++o)
      for (std::size_t i = 0; i < s.length; ++i)
        std::memcpy(&bytes[(i * outputs + o) * size], &all_rows[(o * s.length + i) * size], size);
  return array(s.type, std::move(bytes));
}

std::vector<to_run> whole(const std::vector<array>& arrays) {
  std::vector<to_run> all;
  for (const array& a : arrays) all.push_back({a.view});
  return all;
}

}  // namespace

std::vector<wrong_sum> wrong_sums(contestant& c) {
  if (c.info.op != op_id::sum) return {};
  const dtype t = c.info.in;
  std::vector<array> arrays;
  std::vector<scalar> expected;
  for (std::size_t n : {0, 1, 2, 1000, 4097, 200003})
    for (bool negative : {false, true}) {
      if (negative && !is_float(t) && !is_signed_int(t)) continue;
      const exact_input in = small_integers(n, n + negative, negative);
      array a(t, pack(in.x, t));
      if (!c.suits(a.view)) continue;
      expected.push_back(load_scalar(c.info.out, pack({&in.sum, 1}, c.info.out).data()));
      arrays.push_back(std::move(a));
    }
  std::vector<wrong_sum> wrong;
  compile_ahead({&c}, whole(arrays), which_ways::all);
  const auto ways = c.variations();
  for (std::size_t way = 0; way < ways.size(); ++way)
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      const array_view& x = arrays[i].view;
      scalar got = c.run(x, way);
      if (got == expected[i]) got = c.run(x, way);  // each time
      if (got == expected[i]) continue;
      wrong.push_back({ways[way].label, fmt::format("{}[{}]", name(t), x.n), expected[i], got});
      break;
    }
  return wrong;
}

report_rows run_integers(contestant& c) {
  report_rows out;
  attempts attempt("small integers");
  attempt(c, [&] {
    for (const wrong_sum& w : wrong_sums(c))
      out.wrong.push_back(
          {c.info.id, w.variation, w.array, to_string(w.expected), to_string(w.got)});
  });
  out.failures = std::move(attempt.failures);
  return out;
}

namespace {

constexpr std::size_t lengths_of_bits[] = {7, 1000, 4099, 70001, 300007};

// For this contestant, and where its turn has come for the next ones, too: one's few kernels would
// keep few processors busy.
void compile_bits_ahead(bits_of_many& all, std::size_t which) {
  constexpr std::size_t together = 64;
  if (which < all.compiled) return;
  const std::size_t end = std::min(all.who.size(), which + together);
  std::vector<cuda::request> wanted;
  for (std::size_t k = which; k < end; ++k) {
    const contestant_info& i = all.who[k]->info;
    std::vector<to_run> arrays;  // but for their elements
    for (const std::size_t n : lengths_of_bits)
      arrays.push_back({{i.in, nullptr, n, 0, info(i.op).inputs}});
    add_requests(wanted, *all.who[k], arrays, which_ways::all);
  }
  if (!wanted.empty()) cuda::request::prepare(wanted);
  all.compiled = end;
}

}  // namespace

report_rows run_bits(bits_of_many& all, std::size_t which, std::uint64_t seed, int repeats) {
  contestant& c = *all.who[which];
  std::vector<array> arrays;
  const int inputs = info(c.info.op).inputs;
  for (const char* input : {"uniform", "normal", "condition-1e8"})
    for (const std::size_t n : lengths_of_bits) {
      if (c.info.op != op_id::sum && input != std::string_view("normal")) continue;
      const dtype t = c.info.in;
      const maker one = is_float(t) ? from(input_named(input), n, t) : integers(n, t);
      const maker make = inputs == 2 ? twice(one) : one;
      array a(t, make(is_float(t) ? seed : seed + n), inputs);
      if (c.suits(a.view)) arrays.push_back(std::move(a));
    }
  if (arrays.empty()) return {};
  compile_bits_ahead(all, which);
  std::vector<scalar> expected;
  if (c.info.promise)
    for (const array& a : arrays) expected.push_back(reference_of(*c.info.promise, a.view));
  const auto digest_of = [](const std::vector<scalar>& results) {
    io::digest d;
    for (const scalar& s : results) d.add(&s.bits, size_of(s.type));
    return d.hex();
  };
  const auto gpus = cuda::devices();
  report_rows out;
  const auto ways = c.variations();
  attempts attempt("bits");
  for (std::size_t way = 0; way < ways.size(); ++way) {
    std::set<std::string> digests;
    std::string first;
    for (int k = 0; k < repeats; ++k) {
      std::vector<scalar> got;
      if (!attempt(c, [&] {
            for (const array& a : arrays) got.push_back(c.run(a.view, way));
          }))
        break;
      const std::string d = digest_of(got);
      if (digests.empty()) first = d;
      digests.insert(d);
      for (std::size_t i = 0; i < expected.size(); ++i)
        if (got[i] != expected[i])
          out.findings.push_back(finding(c, "bits",
                                         fmt::format("{}, array {} of {} elements, repeat {}",
                                                     ways[way].label, i, arrays[i].view.n, k + 1),
                                         to_hex(expected[i]), to_hex(got[i])));
    }
    if (attempt.failed(c)) break;
    out.bits.push_back({
        .contestant = c.info.id,
        .device_name = c.info.device == "cuda" ? gpus.at(0) : build::cpu_model(),
        .variation = ways[way].label,
        .arrays = arrays.size(),
        .repeats = static_cast<std::uint64_t>(repeats),
        .digest = first,
        .distinct = digests.size(),
        .equal = c.info.promise ? std::optional(digests.size() == 1 && first == digest_of(expected))
                                : std::nullopt,
    });
  }
  out.failures = std::move(attempt.failures);
  return out;
}

report_rows run_batches(const std::vector<contestant*>& everyone, const shape& s,
                        std::uint64_t seed) {
  std::vector<std::size_t> sizes;
  for (const std::size_t outputs : {1, 2, 64, 1024})
    if (outputs * s.length <= s.elements_of_batch) sizes.push_back(outputs);
  if (sizes.size() < 2) return {};
  const auto all_rows = from(input_named("normal"), sizes.back() * s.length, s.type)(seed);
  std::vector<array> batches;
  for (const std::size_t outputs : sizes) batches.push_back(batch_of(s, all_rows, outputs));
  report_rows out;
  const std::string where = fmt::format("batches: {} of {} {}", s.layout(), s.length, name(s.type));
  std::vector<to_run> all;
  for (std::size_t k = 0; k < sizes.size(); ++k) all.push_back({batches[k].view, s.of(sizes[k])});
  compile_ahead(everyone, all, which_ways::timed);
  attempts attempt(where);
  for (contestant* c : everyone) {
    std::optional<scalar> expected;
    if (c->info.promise)
      expected = reference_of(*c->info.promise, {s.type, all_rows.data(), s.length, 0});
    const auto ways = c->variations();
    for (std::size_t way = 0; way < ways.size(); ++way) {
      if (!ways[way].timed) continue;
      std::vector<scalar> got;
      if (!attempt(*c, [&] {
            for (std::size_t k = 0; k < sizes.size(); ++k)
              got.push_back(c->run_along(batches[k].view, s.of(sizes[k]), way));
          }))
        break;
      std::optional<std::uint64_t> changed;
      std::set<std::uint64_t> results;
      for (std::size_t k = 0; k < sizes.size(); ++k) {
        results.insert(got[k].bits);
        if (!changed && got[k] != got[0]) changed = sizes[k];
        if (expected && got[k] != *expected)
          out.findings.push_back(finding(
              *c, "bits", fmt::format("{}, the first of {}, {}", where, sizes[k], ways[way].label),
              to_hex(*expected), to_hex(got[k])));
      }
      out.batches.push_back({
          .contestant = c->info.id,
          .in = std::string(name(s.type)),
          .layout = s.layout(),
          .length = s.length,
          .variation = ways[way].label,
          .batches = sizes.size(),
          .largest = sizes.back(),
          .distinct = results.size(),
          .changed = changed,
      });
    }
  }
  out.failures = std::move(attempt.failures);
  return out;
}

}  // namespace bitfold::accuracy
