// A communicator over MPI: of the caller's mpi.h and library, as bitfold is linked to none. Any
// level of threads will do by which the calling thread may call MPI.
#pragma once

#include <bitfold/config.hpp>

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <bitfold/communicator.hpp>
#include <bitfold/error.hpp>

namespace bitfold {

/// The ranks of a communicator of MPI's, of which it has a duplicate: messages never meet the
/// caller's own. Errors (errc::communication) name MPI's function and have its text.
class mpi_communicator final : public communicator {
 public:
  /// Called by all of its ranks at once, between MPI_Init and MPI_Finalize. `most` bytes, at the
  /// most, go in one message of MPI's, whose counts are ints; more go in several.
  explicit mpi_communicator(MPI_Comm of, std::size_t most = std::size_t{1} << 30) : most_(most) {
    if (most == 0 || most > static_cast<std::size_t>(std::numeric_limits<int>::max()))
      throw error(errc::usage, "most: " + std::to_string(most) + " bytes are no int above 0");
    check(MPI_Comm_dup(of, &own_), "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(own_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(own_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(own_, &size_), "MPI_Comm_size");
  }
  ~mpi_communicator() override {
    int ended = 1;
    if (MPI_Finalized(&ended) == MPI_SUCCESS && !ended && own_ != MPI_COMM_NULL)
      MPI_Comm_free(&own_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    if (mine.size() <= most_) {
      const int count = static_cast<int>(mine.size());
      check(MPI_Allgather(mine.data(), count, MPI_BYTE, all.data(), count, MPI_BYTE, own_),
            "MPI_Allgather");
      return;
    }
    std::vector<outgoing> send;
    std::vector<incoming> receive;
    for (int r = 0; r < size_; ++r) {
      const auto of_rank = all.subspan(static_cast<std::size_t>(r) * mine.size(), mine.size());
      if (r == rank_) {
        std::memcpy(of_rank.data(), mine.data(), mine.size());
      } else {
        send.push_back({r, mine});
        receive.push_back({r, of_rank});
      }
    }
    start(send, receive);
    wait();
  }

  void start(std::span<const outgoing> send, std::span<const incoming> receive) override {
    for (const incoming& m : receive)
      each_piece(m.bytes, [&](std::span<std::byte> bytes, MPI_Request* request) {
        lengths_.push_back(static_cast<int>(bytes.size()));
        check(MPI_Irecv(bytes.data(), lengths_.back(), MPI_BYTE, m.from, tag, own_, request),
              "MPI_Irecv");
      });
    for (const outgoing& m : send)
      each_piece(m.bytes, [&](std::span<const std::byte> bytes, MPI_Request* request) {
        check(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, m.to, tag, own_,
                        request),
              "MPI_Isend");
      });
  }

  void wait() override {
    // One by one, each of which asks this communicator what to do with an error. (Of several at
    // once MPICH asks another one.)
    std::exception_ptr failed;
    for (std::size_t k = 0; k < requests_.size(); ++k) {
      if (failed) {
        give_up(requests_[k]);
        continue;
      }
      try {
        wait_for(k);
      } catch (...) {
        failed = std::current_exception();
      }
    }
    requests_.clear();
    lengths_.clear();
    if (failed) std::rethrow_exception(failed);
  }

 private:
  static constexpr int tag = 0;

  // Nobody writes to its memory, or reads that, from here on.
  static void give_up(MPI_Request& request) {
    if (request == MPI_REQUEST_NULL) return;
    MPI_Cancel(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  void wait_for(std::size_t k) {
    MPI_Status status;
    check(MPI_Wait(&requests_[k], &status), "MPI_Wait");
    if (k >= lengths_.size()) return;  // a send; receives come first
    int length = 0;
    check(MPI_Get_count(&status, MPI_BYTE, &length), "MPI_Get_count");
    if (length != lengths_[k])
      throw error(errc::communication, "MPI_Irecv: " + std::to_string(length) +
                                           " bytes from rank " + std::to_string(status.MPI_SOURCE) +
                                           ", where " + std::to_string(lengths_[k]) +
                                           " are expected");
  }

  template <class Byte, class F>
  void each_piece(std::span<Byte> bytes, F begin) {
    for (std::size_t at = 0; at < bytes.size(); at += most_) {
      requests_.push_back(MPI_REQUEST_NULL);
      begin(bytes.subspan(at, std::min(most_, bytes.size() - at)), &requests_.back());
    }
  }
  static void check(int result, const char* function) {
    if (result == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (MPI_Error_string(result, text, &length) != MPI_SUCCESS) length = 0;
    throw error(errc::communication,
                std::string(function) + ": " + std::string(text, static_cast<std::size_t>(length)));
  }

  std::size_t most_;
  MPI_Comm own_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  std::vector<MPI_Request> requests_;
  std::vector<int> lengths_;  // of those that receive
};

}  // namespace bitfold
