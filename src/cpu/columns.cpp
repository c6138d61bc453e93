// Outputs side by side, on several threads.
#include "columns.hpp"

#include <bit>
#include <type_traits>

#include "narrow.hpp"
#include "short_rows.hpp"
#include "work.hpp"

namespace bitfold::cpu {
namespace {

// Of each task the states of all chunks of output 0, of output 1, ...
using chunk_states = std::vector<std::vector<std::byte>>;

partial state_at(const chunk_states& states, const work& w, std::size_t k, order::index at,
                 order::index n) {
  partial s;
  s.n = n;
  s.size = w.tasks[k].states.size;
  std::memcpy(s.bytes, &states[k][at * s.size], s.size);
  return s;
}

// All outputs side by side. A thread takes some strips of outputs, or one chunk of their elements.
// put(k, first, count, chunk, their states).
template <class Put>
void fold_columns(const work& w, const detail::layout& l, const column_plan& p, int threads,
                  Put put) {
  const order::index at_once = (p.strips - 1) / chunk_count(threads) + 1;
  const order::index shares = (p.strips - 1) / at_once + 1;
  const auto run = [&]<class Worker>(std::type_identity<Worker>, std::size_t item) {
    Worker mine(w.tasks, l, p);
    const order::index share = item % shares, chunk = item / shares, begin = chunk * p.chunk,
                       taken = std::min(p.chunk, l.n - begin);
    for (order::index s = share * at_once; s < std::min(p.strips, (share + 1) * at_once); ++s) {
      const column_plan::strip strip = p.strip_at(s);
      mine.run(strip.first, strip.count, begin, taken, [&](std::size_t k, const std::byte* states) {
        put(k, strip.first, static_cast<order::index>(strip.count), chunk, states);
      });
    }
  };
  parallel_for(shares * p.chunks, threads, [&](std::size_t item) {
    if (p.narrow)
      run(std::type_identity<narrow_worker>(), item);
    else
      run(std::type_identity<column_worker>(), item);
  });
}
chunk_states states_of_columns(const work& w, const detail::layout& l, const column_plan& p,
                               int threads) {
  chunk_states states(w.tasks.size());
  for (std::size_t k = 0; k < states.size(); ++k)
    states[k].resize(l.outputs * p.chunks * w.tasks[k].states.size);
  fold_columns(w, l, p, threads,
               [&](std::size_t k, order::index first, order::index count, order::index chunk,
                   const std::byte* partials) {
                 const std::size_t size = w.tasks[k].states.size;
                 for (order::index o = 0; o < count; ++o)
                   std::memcpy(&states[k][((first + o) * p.chunks + chunk) * size],
                               partials + o * size, size);
               });
  return states;
}

}  // namespace

void run_columns(const work& w, const detail::layout& l, const column_plan& p, int threads) {
  if (p.chunks == 1)
    return fold_columns(
        w, l, p, threads,
        [&](std::size_t k, order::index first, order::index count, order::index,
            const std::byte* states) { w.put_states(k, first, count, states, l.n); });
  const chunk_states states = states_of_columns(w, l, p, threads);
  for (std::size_t k = 0; k < states.size(); ++k)
    for (order::index o = 0; o < l.outputs; ++o) {
      const auto get = [&](order::index c) {
        return state_at(states, w, k, o * p.chunks + c, std::min(p.chunk, l.n - c * p.chunk));
      };
      const auto merge = [&](const partial& a, const partial& b) { return w.tasks[k].merge(a, b); };
      w.put_states(k, o, 1, order::fold(0, p.chunks, get, merge).bytes, l.n);
    }
}

void run_joined_columns(const work& w, const detail::layout& l, const column_plan& p,
                        std::uint64_t output, int threads) {
  const chunk_states states = states_of_columns(w, l, p, threads);
  // Many nodes in complete subtrees, several for each thread; and then these.
  const order::index nodes = l.outputs * p.chunks,
                     part = std::bit_ceil(nodes / chunk_count(threads) + 1),
                     parts = (nodes - 1) / part + 1;
  std::vector<partial> tops(parts);
  for (std::size_t k = 0; k < states.size(); ++k) {
    const auto get = [&](order::index c) { return state_at(states, w, k, c, p.chunk); };
    const auto merge = [&](const partial& a, const partial& b) { return w.tasks[k].merge(a, b); };
    parallel_for(parts, nodes < 1024 ? 1 : threads, [&](std::size_t i) {
      tops[i] = order::fold(i * part, std::min(part, nodes - i * part), get, merge);
    });
    const auto top = [&](order::index i) { return tops[i]; };
    w.put_states(k, output, 1, order::fold(0, parts, top, merge).bytes, l.outputs * l.n);
  }
}

void run_rows(const work& w, const detail::layout& l, int threads) {
  const order::index n = l.n,
                     max = n < max_tailed_row
                               ? short_rows::max
                               : static_cast<order::index>(w.tasks[0].kernels.batch.width),
                     blocks = (l.outputs - 1) / max + 1;
  const order::index shares = std::min(blocks, chunk_count(threads));
  const std::size_t size = size_of(l.type), second = l.y ? max * n * size : 0;
  parallel_for(shares, threads, [&](std::size_t share) {
    short_rows mine(w);
    // Rows whose elements lie apart are brought together.
    std::vector<std::byte> gathered(l.contiguous() ? 0 : max * n * size + second);
    std::ptrdiff_t offsets[2][short_rows::max];
    inputs rows[short_rows::max];
    for (order::index g = share * blocks / shares; g < (share + 1) * blocks / shares; ++g) {
      const order::index first = g * max, count = std::min(max, l.outputs - first);
      const std::byte *x = l.x, *y = l.y;
      if (gathered.empty()) {
        detail::offsets_of(l.kept, first, count, offsets[0], y ? offsets[1] : nullptr);
      } else {
        w.source.gather(first, count, 0, n, gathered.data(), n * size, second);
        x = gathered.data(), y = y ? x + second : nullptr;
        for (order::index i = 0; i < count; ++i)
          offsets[0][i] = offsets[1][i] = static_cast<std::ptrdiff_t>(i * n);
      }
      const auto bytes = static_cast<std::ptrdiff_t>(size);
      for (order::index i = 0; i < count; ++i)
        rows[i] = {x + offsets[0][i] * bytes, y ? y + offsets[1][i] * bytes : nullptr};
      mine.run(first, count, n, rows);
    }
  });
}

}  // namespace bitfold::cpu
