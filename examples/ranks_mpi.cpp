#include <bitfold/mpi.hpp>
#include <bitfold/ranks.hpp>

#include <iostream>
#include <vector>

int main(int argc, char** argv) {
  using namespace bitfold;
  MPI_Init(&argc, &argv);
  {
    mpi_communicator world(MPI_COMM_WORLD);  // of whose ranks each makes the same calls

    // The mean of 6 gradients, each of which lies on one rank: those of rank 0 come first.
    std::vector<std::vector<float>> gradients;
    for (int k = 0; k < 6; ++k)
      if (k * world.size() / 6 == world.rank())
        gradients.emplace_back(1000, 1.0f / static_cast<float>(k + 1));
    std::vector<const void*> mine(gradients.size());
    for (std::size_t k = 0; k < mine.size(); ++k) mine[k] = gradients[k].data();
    std::vector<float> mean(1000);
    cpu::all_reduce(world, make_reduction(op_id::mean, {}, dtype::f32), mine, 1000, mean.data());

    // The norm of them all in a row, of which each rank has a share.
    std::vector<float> share;
    for (const auto& g : gradients) share.insert(share.end(), g.begin(), g.end());
    const reduction norm = make_reduction(op_id::norm_l2, method_id::exact, dtype::f32);
    scalar result{};
    cpu::reduce_shares(world, {&norm, 1}, share.data(), nullptr, share.size(), {&result, 1});

    // The same two lines by any number of ranks.
    if (world.rank() == 0)
      std::cout << to_hex(load_scalar(dtype::f32, &mean[0])) << "\n" << to_hex(result) << "\n";
  }
  MPI_Finalize();
}
