// What reductions over ranks (ranks.hpp) ask of a transport. bitfold has none of its own; mpi.hpp
// is one over MPI, which the caller compiles.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <bitfold/config.hpp>

namespace bitfold {

/// One rank of a group: a process, or a thread with an object of its own. All ranks call the same
/// functions in the same order. An implementation's errors are exceptions of any type, which leave
/// the reduction; its ranks may stand at different places then, and it is called no more.
class communicator {
 public:
  /// Bytes for another rank: never none.
  struct outgoing {
    int to = 0;
    std::span<const std::byte> bytes;
  };
  /// Room for bytes from another rank, as many as it sends.
  struct incoming {
    int from = 0;
    std::span<std::byte> bytes;
  };

  communicator() = default;
  virtual ~communicator() = default;
  communicator(const communicator&) = delete;
  communicator& operator=(const communicator&) = delete;

  virtual int rank() const = 0;  ///< 0 to size() - 1
  virtual int size() const = 0;  ///< how many ranks the group has

  /// The bytes of each rank, of one length, to every rank: `all` has size() times as many.
  virtual void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) = 0;

  /// Begins messages, whose bytes lie still until wait() has returned. From one rank to another
  /// they come in the order in which both list them, with one length. Each start() is followed by
  /// its wait() on every rank, and what the one sends the others receive in the same one. So
  /// start() may do all of it, and wait() nothing.
  virtual void start(std::span<const outgoing> send, std::span<const incoming> receive) = 0;
  /// Returns when all messages of the last start() have been sent and received.
  virtual void wait() = 0;

  /// Memory for messages, kept from one call to the next: a page that is new takes longer than the
  /// bytes that go through it. At least so many, at a multiple of 64 bytes; good until the next
  /// call, which may give the same.
  std::byte* room(std::size_t bytes);

 private:
  struct free_room {
    void operator()(std::byte* at) const;
  };
  std::unique_ptr<std::byte, free_room> room_;
  std::size_t room_bytes_ = 0;
};

}  // namespace bitfold
