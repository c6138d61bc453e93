// bitfold/mpi.hpp, by mpirun with any number of ranks: the bits of one process, messages in several
// pieces, calls that differ, and MPI's own errors.
#include <bitfold/mpi.hpp>
#include <bitfold/ranks.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "data.hpp"

using namespace bitfold;

namespace {

using bytes = std::vector<std::byte>;

void expect(bool good, const std::string& what) {
  if (good) return;
  std::fprintf(stderr, "mpi_tests: failed: %s\n", what.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

template <class Call>
void expect_error(errc code, const std::string& start, Call call) {
  try {
    call();
  } catch (const error& e) {
    expect(e.code() == code && std::string(e.what()).starts_with(start),
           std::string(e.what()) + ", not " + start);
    return;
  }
  expect(false, "accepted: " + start);
}

constexpr cpu::options one_thread{.threads = 1};

// Rank r has r % 3 contributions, and the last one 2.
std::size_t count_of(int rank, int size) {
  return static_cast<std::size_t>(rank + 1 == size ? 2 : rank % 3);
}

// Every rank makes all contributions, and compares.
void check_bits(communicator& by, const reduction& r, std::size_t n) {
  std::vector<bytes> all;
  std::vector<contribution_node> nodes;
  std::vector<const void*> mine;
  std::size_t of_all = 0;
  for (int k = 0; k < by.size(); ++k) of_all += count_of(k, by.size());
  for (std::size_t k = 0; k < of_all; ++k)
    all.push_back(test::make_data(r.in(), test::kind::near_one, n, k));
  for (std::size_t k = 0; k < of_all; ++k) nodes.push_back({k, 1, all[k].data(), true});
  for (std::size_t first = 0, k = 0; k < static_cast<std::size_t>(by.size()); ++k) {
    const std::size_t count = count_of(static_cast<int>(k), by.size());
    for (std::size_t i = 0; i < count && static_cast<int>(k) == by.rank(); ++i)
      mine.push_back(all[first + i].data());
    first += count;
  }
  const std::string title = test::describe(r, n);
  const std::size_t size = size_of(r.out());
  bytes wanted(n * size), found(n * size), of_root(n * size);
  cpu::reduce_contributions(r, nodes, n, wanted.data(), one_thread);
  cpu::all_reduce(by, r, mine, n, found.data(), one_thread);
  expect(found == wanted, "all_reduce, " + title);
  const int root = by.size() - 1;
  cpu::reduce(by, r, mine, n, of_root.data(), root, one_thread);
  expect(of_root == (by.rank() == root ? wanted : bytes(n * size)), "reduce, " + title);
  const std::size_t part = n / static_cast<std::size_t>(by.size());
  const auto here = static_cast<std::size_t>(by.rank()) * part * size;
  cpu::reduce_scatter(by, r, mine, part, found.data(), one_thread);
  expect(std::equal(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(part * size),
                    wanted.begin() + static_cast<std::ptrdiff_t>(here)),
         "reduce_scatter, " + title);
}

void check_shares(communicator& by, std::size_t n) {
  const std::vector<reduction> reductions{make_reduction(op_id::sum, {}, dtype::f32),
                                          make_reduction(op_id::var, method_id::exact, dtype::f32),
                                          make_reduction(op_id::argmax, {}, dtype::f32)};
  const bytes x = test::make_data(dtype::f32, test::kind::near_one, n, 1);
  std::vector<scalar> wanted(3), found(3);
  cpu::reduce(reductions, x.data(), nullptr, n, wanted, one_thread);
  const auto cut = [&](int rank) {
    const auto k = static_cast<std::size_t>(rank), size = static_cast<std::size_t>(by.size());
    return n * k * k / (size * size);
  };
  const std::size_t begin = cut(by.rank()), end = cut(by.rank() + 1);
  cpu::reduce_shares(by, reductions, &x[0] + 4 * begin, nullptr, end - begin, found, one_thread);
  expect(found == wanted, "reduce_shares");
}

void check_disagreement(communicator& by) {
  if (by.size() == 1) return;
  const std::vector<float> x(100, 1.0f);
  std::vector<float> out(100);
  const reduction sum = make_reduction(op_id::sum, {}, dtype::f32);
  expect_error(errc::usage, "ranks: the calls differ: rank 0: all_reduce of 100 elements", [&] {
    cpu::all_reduce(by, sum, x.data(), by.rank() + 1 == by.size() ? 99 : 100, out.data());
  });
}

// Of MPI's, which are exceptions here. Each on a communicator of its own.
void check_errors() {
  mpi_communicator by(MPI_COMM_WORLD);
  expect_error(errc::usage, "most: 0 bytes", [] { mpi_communicator none(MPI_COMM_WORLD, 0); });
  if (by.size() == 1) return;
  bytes longer(64), shorter(32);
  const auto exchange = [](communicator& of, const bytes& sent, bytes& received) {
    const communicator::outgoing out{1, sent};
    const communicator::incoming in{0, received};
    of.start(of.rank() == 0 ? std::span(&out, 1) : std::span<const communicator::outgoing>(),
             of.rank() == 1 ? std::span(&in, 1) : std::span<const communicator::incoming>());
    of.wait();
  };
  {
    mpi_communicator one(MPI_COMM_WORLD);
    if (one.rank() == 1)
      expect_error(errc::communication, "MPI_Wait: ", [&] { exchange(one, longer, shorter); });
    else
      exchange(one, longer, shorter);
  }
  mpi_communicator another(MPI_COMM_WORLD);
  if (another.rank() == 1)
    expect_error(errc::communication, "MPI_Irecv: 32 bytes from rank 0, where 64 are expected",
                 [&] { exchange(another, shorter, longer); });
  else
    exchange(another, shorter, longer);
  mpi_communicator third(MPI_COMM_WORLD);
  expect_error(errc::communication, "MPI_Isend: ", [&] {
    const communicator::outgoing to_nobody{third.size(), longer};
    third.start({&to_nobody, 1}, {});
  });
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  // MPICH asks this one, too, what to do with an error of MPI_Wait.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  try {
    mpi_communicator whole(MPI_COMM_WORLD), pieces(MPI_COMM_WORLD, 100);
    expect(whole.rank() == pieces.rank() && whole.size() == pieces.size(), "rank and size");
    // A message of the caller's own, which waits for the end.
    int own = 0;
    const int next = (whole.rank() + 1) % whole.size();
    MPI_Request request;
    MPI_Irecv(&own, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
    for (communicator* by : std::initializer_list<communicator*>{&whole, &pieces}) {
      for (const dtype type : {dtype::bf16, dtype::f32, dtype::i16})
        for (const auto method : {method_id::tree, method_id::exact})
          check_bits(*by, make_reduction(op_id::sum, method, type), by == &whole ? 50000 : 3000);
      check_bits(*by, make_reduction(op_id::argmax, {}, dtype::f32), 100);
      check_shares(*by, 100000);
      check_disagreement(*by);
      expect(first_of(*by, 2) == 2 * static_cast<std::uint64_t>(by->rank()), "first_of");
    }
    check_errors();
    MPI_Send(&next, 1, MPI_INT, next, 0, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(own == whole.rank(), "the caller's own message");
  } catch (const std::exception& e) {
    expect(false, e.what());
  }
  MPI_Finalize();
}
