// The list.
#include "../contestant.hpp"

namespace bitfold::accuracy {

contestants all_contestants(bool cpu, bool cuda) {
  contestants c;
  add_bitfold(c, cpu, cuda);
  add_products(c, cpu, cuda);
  if (cpu) {
    add_plain(c);
    add_ranks(c);
    add_openblas(c);
    add_xsum(c);
    add_reproblas(c);
  }
  add_python(c, cpu, cuda);
  if (cuda) add_cuda_peers(c);
  return c;
}

}  // namespace bitfold::accuracy
