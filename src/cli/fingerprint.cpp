#include "cli/fingerprint.hpp"

#include <bit>
#include <cstddef>

#include <bitfold/cpu.hpp>

#include "cpu/task.hpp"
#include "io/digest.hpp"

namespace bitfold::cli {
namespace {

static_assert(std::endian::native == std::endian::little, "a digest is of little-endian bytes");

// A digest runs on one thread. From this size on, the reductions do not wait for it, so that one
// large array keeps more than one core busy.
constexpr std::size_t large = std::size_t{32} << 20;

fingerprint measure(const fingerprint_job& job, bool with_digest) {
  const io::array *const x = job.inputs.x, *const y = job.inputs.y;
  const std::size_t bytes = x->bytes();
  fingerprint f;
  const auto digest = [&] {
    if (!with_digest && !job.reductions.empty())
      return;  // of what has no results it is all there is
    for (const io::array* a : {x, y}) {
      if (!a) continue;
      io::digest d;
      d.add(a->data, bytes);
      f.digests.push_back(d.hex());
    }
  };
  const auto reduce = [&] {
    if (job.reductions.empty()) return;
    f.results.resize(job.reductions.size());
    const numbers_of_operands numbers(*x, y);
    cpu::reduce(job.reductions, numbers.x(), numbers.y(), x->count, f.results);
  };
  if (bytes >= large) {
    cpu::parallel_for(2, 2, [&](std::size_t part) { part ? reduce() : digest(); });
  } else {
    digest();
    reduce();
  }
  return f;
}

}  // namespace

std::vector<fingerprint> fingerprints(std::span<const fingerprint_job> jobs, bool with_digest,
                                      int threads, progress& bar) {
  std::vector<fingerprint> all(jobs.size());
  cpu::limit_threads(threads);
  cpu::parallel_for(jobs.size(), cpu::max_threads, [&](std::size_t i) {
    all[i] = measure(jobs[i], with_digest);
    const auto& [x, y] = jobs[i].inputs;
    bar.finish(static_cast<double>(x->bytes() + (y ? y->bytes() : 0)));
  });
  return all;
}

}  // namespace bitfold::cli
