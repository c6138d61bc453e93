#include "measures.hpp"

#include <stdexcept>

namespace bitfold::accuracy {

trace trace_of(const reduction&, const void*, std::size_t) {
  throw std::logic_error("trace_of: not written yet");
}
double signed_error_in_ulps(scalar, const real&) { return 0; }
double correct_bits(scalar, const real&) { return 0; }

}  // namespace bitfold::accuracy
