// A digest of bytes: XXH3-128 (Collet, github.com/Cyan4973/xxHash), as fast as memory and the same
// on every machine. It finds changes, not forgeries: it is not a cryptographic hash.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace bitfold::io {

class digest {
 public:
  digest();
  ~digest();
  void add(const void* bytes, std::size_t size);
  /// 32 hex digits, most significant first, of everything added so far.
  std::string hex() const;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace bitfold::io
