#include "io/digest.hpp"

#include <new>

#include <fmt/format.h>
#include <xxhash.h>

namespace bitfold::io {

struct digest::state {
  XXH3_state_t* raw = XXH3_createState();
  ~state() { XXH3_freeState(raw); }
};

digest::digest() : state_(std::make_unique<state>()) {
  if (!state_->raw) throw std::bad_alloc();
  XXH3_128bits_reset(state_->raw);
}
digest::~digest() = default;

void digest::add(const void* bytes, std::size_t size) {
  XXH3_128bits_update(state_->raw, bytes, size);
}

std::string digest::hex() const {
  const XXH128_hash_t h = XXH3_128bits_digest(state_->raw);
  return fmt::format("{:016x}{:016x}", h.high64, h.low64);
}

}  // namespace bitfold::io
