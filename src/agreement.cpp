#include "agreement.hpp"

#include <bitfold/error.hpp>

#include <algorithm>
#include <cstring>
#include <type_traits>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace bitfold::detail {
namespace {

// Of a rank, as it is sent: for ranks of one byte order and one version of it, which also stands
// for what a call sends after it.
struct header {
  std::uint32_t magic = 0x6b726662, version = 1;
  std::uint64_t count = 0, first = 0, length = 0;  // the last: of the whole line
  XXH128_hash_t digest = {};                       // of the whole line
  std::uint8_t is_refused = 0, is_numbered = 0, ends = 0;
  char text[512 - 51] = {};  // as much of the line as goes in, or why the call is refused
  std::string shown() const {
    const char* const end = std::find(std::begin(text), std::end(text), '\0');
    return std::string(text, end) + (length > sizeof text ? "..." : "");
  }
};
static_assert(sizeof(header) == 512 && std::is_trivially_copyable_v<header>);

header header_of(const rank_call& c) {
  header h;
  h.count = c.count;
  h.first = c.first;
  h.is_numbered = c.is_numbered;
  h.ends = c.ends;
  h.length = c.line.size();
  h.digest = XXH3_128bits(c.line.data(), c.line.size());
  std::memcpy(h.text, c.line.data(), std::min(c.line.size(), sizeof h.text));
  return h;
}

header refusal_of(const std::exception_ptr& refused) {
  rank_call c;
  try {
    std::rethrow_exception(refused);
  } catch (const std::exception& e) {
    c.line = e.what();
  } catch (...) {
    c.line = "an exception of another type";
  }
  header h = header_of(c);
  h.is_refused = 1;
  return h;
}

bool alike(const header& a, const header& b) {
  return a.length == b.length && XXH128_isEqual(a.digest, b.digest) != 0;
}

// What differs: each call once, with the first rank that makes it.
std::string different_calls(const std::vector<header>& all) {
  constexpr std::size_t most = 4;
  std::vector<std::size_t> firsts;
  for (std::size_t r = 0; r < all.size(); ++r)
    if (std::ranges::none_of(firsts, [&](std::size_t k) { return alike(all[k], all[r]); }))
      firsts.push_back(r);
  std::string text;
  for (std::size_t k = 0; k < std::min(most, firsts.size()); ++k)
    text += (k ? "; rank " : "rank ") + std::to_string(firsts[k]) + ": " + all[firsts[k]].shown();
  return text + (firsts.size() > most ? "; and others" : "");
}

}  // namespace

void check_ranks(const communicator& by) {
  if (by.size() < 1 || by.rank() < 0 || by.rank() >= by.size())
    throw error(errc::usage,
                "by: rank " + std::to_string(by.rank()) + " of " + std::to_string(by.size()));
}

std::vector<rank_call> agreed(communicator& by, const rank_call& mine, std::exception_ptr refused) {
  check_ranks(by);
  const header sent = refused ? refusal_of(refused) : header_of(mine);
  std::vector<header> all(static_cast<std::size_t>(by.size()));
  by.all_gather(std::as_bytes(std::span(&sent, 1)), std::as_writable_bytes(std::span(all)));
  if (refused) std::rethrow_exception(refused);
  std::vector<rank_call> calls;
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].magic != sent.magic || all[r].version != sent.version)
      throw error(errc::usage, "ranks: what rank " + std::to_string(r) +
                                   " sent is no call by this version of bitfold");
    if (all[r].is_refused)
      throw error(errc::usage,
                  "ranks: rank " + std::to_string(r) + " refuses its call: " + all[r].shown());
    calls.push_back({{}, all[r].count, all[r].first, all[r].is_numbered != 0, all[r].ends != 0});
  }
  if (!std::ranges::all_of(all, [&](const header& h) { return alike(h, all[0]); }))
    throw error(errc::usage, "ranks: the calls differ: " + different_calls(all));
  return calls;
}

}  // namespace bitfold::detail
