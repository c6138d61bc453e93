// Functions of channels by their names; and what their arguments have to be.
#pragma once

#include <bitfold/channel_functions.hpp>
#include <bitfold/channels.hpp>
#include <string_view>
#include <type_traits>
#include <vector>

namespace bitfold::channel {

// A channel_function and its algebra are of one name.
#define BITFOLD_OTHER_CHANNEL_FUNCTIONS(FUNCTION) \
  FUNCTION(channel_norm_at_rest)                  \
  FUNCTION(channel_norm_backward)                 \
  FUNCTION(channel_norm_at_rest_backward)
#define BITFOLD_CHANNEL_FUNCTIONS(FUNCTION) \
  FUNCTION(channel_norm)                    \
  BITFOLD_OTHER_CHANNEL_FUNCTIONS(FUNCTION)

inline constexpr std::string_view names[] = {
#define BITFOLD_CHANNEL_FUNCTION(name) #name,
    BITFOLD_CHANNEL_FUNCTIONS(BITFOLD_CHANNEL_FUNCTION)
#undef BITFOLD_CHANNEL_FUNCTION
};
constexpr std::string_view name(channel_function f) { return names[static_cast<std::size_t>(f)]; }

/// Calls f(std::type_identity<function>{}).
template <class F>
decltype(auto) visit(channel_function which, F f) {
  switch (which) {
    case channel_function::channel_norm: break;
#define BITFOLD_CHANNEL_FUNCTION(name) \
  case channel_function::name: return f(std::type_identity<name>{});
      BITFOLD_OTHER_CHANNEL_FUNCTIONS(BITFOLD_CHANNEL_FUNCTION)
#undef BITFOLD_CHANNEL_FUNCTION
  }
  return f(std::type_identity<channel_norm>{});
}

/// Errors (errc::usage, naming the argument): see channels.hpp.
void check(channel_function f, const channels& input, const void* out);
void check(const channels& input, const channel_sums& to);

/// A pass over all elements: the sums of each channel, or of each statistic, whose are the same
/// where statistics are of one channel.
struct sums_pass {
  bool of_channels;
  bool weighted, plain;  ///< sums of g w, and of g; alike where there are no weights
  channel_sums to;
};
std::vector<sums_pass> passes_of(const channels& input, const channel_sums& to);

/// The elements as they lie, and the axes that such a pass sums along.
view view_of(const channels& input);
std::span<const int> axes_of(const channels& input, const sums_pass& p);

}  // namespace bitfold::channel
