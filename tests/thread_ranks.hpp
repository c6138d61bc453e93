// Ranks that are threads: the plainest communicator. It counts the bytes of messages, and reads one
// as late as it may, so that bytes which are changed too early are seen.
#pragma once

#include <bitfold/communicator.hpp>

#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace bitfold::test {

/// What threads share that are ranks of one group.
struct thread_group {
  explicit thread_group(int ranks) : size(ranks), gathered(static_cast<std::size_t>(ranks)) {}

  const int size;
  std::mutex mutex;
  std::condition_variable changed;
  bool has_ended = false;  // a rank, by an exception
  std::vector<std::vector<std::byte>> gathered;
  int came = 0;
  std::uint64_t meetings = 0;
  std::map<std::pair<int, int>, std::deque<std::span<const std::byte>>> messages;  // from, to

  template <class Ready>
  void wait(std::unique_lock<std::mutex>& lock, Ready ready) {
    changed.wait(lock, [&] { return has_ended || ready(); });
    if (!ready()) throw std::runtime_error("another rank has ended");
  }
  void meet(std::unique_lock<std::mutex>& lock) {
    const std::uint64_t before = meetings;
    if (++came == size) {
      came = 0;
      ++meetings;
      changed.notify_all();
    }
    wait(lock, [&] { return meetings != before; });
  }
};

class thread_rank final : public communicator {
 public:
  thread_rank(thread_group& group, int rank) : group_(group), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return group_.size; }

  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    std::unique_lock lock(group_.mutex);
    group_.gathered[static_cast<std::size_t>(rank_)].assign(mine.begin(), mine.end());
    group_.meet(lock);
    for (std::size_t r = 0; const auto& of_rank : group_.gathered) {
      if (of_rank.size() != mine.size() || all.size() != mine.size() * group_.gathered.size())
        throw std::runtime_error("all_gather: of different lengths");
      std::memcpy(&all[mine.size() * r++], of_rank.data(), mine.size());
    }
    group_.meet(lock);
  }

  void start(std::span<const outgoing> send, std::span<const incoming> receive) override {
    if (started_) throw std::runtime_error("start: before wait");
    started_ = true;
    ++exchanges;
    receive_.assign(receive.begin(), receive.end());
    const std::unique_lock lock(group_.mutex);
    for (const outgoing& m : send) {
      check(m.to, m.bytes);
      group_.messages[{rank_, m.to}].push_back(m.bytes);
      sent += m.bytes.size();
    }
    group_.changed.notify_all();
  }

  void wait() override {
    if (!started_) throw std::runtime_error("wait: before start");
    started_ = false;
    std::unique_lock lock(group_.mutex);
    group_.meet(lock);  // all have started, and folded what they fold meanwhile
    for (const incoming& m : receive_) {
      check(m.from, m.bytes);
      auto& waiting = group_.messages[{m.from, rank_}];
      if (waiting.empty() || waiting.front().size() != m.bytes.size())
        throw std::runtime_error("a message of another length than it has");
      std::memcpy(m.bytes.data(), waiting.front().data(), m.bytes.size());
      waiting.pop_front();
      received += m.bytes.size();
    }
    group_.meet(lock);
    for (const auto& [between, waiting] : group_.messages)
      if (!waiting.empty()) throw std::runtime_error("a message that nobody takes");
    group_.meet(lock);
  }

  std::uint64_t sent = 0, received = 0;  // bytes of messages
  int exchanges = 0;

 private:
  template <class Bytes>
  void check(int other, const Bytes& bytes) const {
    if (other < 0 || other >= group_.size || other == rank_ || bytes.empty())
      throw std::runtime_error("a message of no bytes, or to no other rank");
  }
  thread_group& group_;
  const int rank_;
  bool started_ = false;
  std::vector<incoming> receive_;
};

/// Calls body(thread_rank&) on a thread for each rank; what each of them threw, or "".
template <class Body>
std::vector<std::string> on_ranks(int size, Body body) {
  thread_group group(size);
  std::vector<std::string> thrown(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r)
    threads.emplace_back([&group, &body, &to = thrown[static_cast<std::size_t>(r)], r] {
      thread_rank by(group, r);
      try {
        body(by);
      } catch (const std::exception& e) {
        to = e.what();
        const std::unique_lock lock(group.mutex);
        group.has_ended = true;
        group.changed.notify_all();
      }
    });
  for (std::thread& t : threads) t.join();
  return thrown;
}

}  // namespace bitfold::test
