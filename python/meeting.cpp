// Processes of one host that meet in memory which all of them have mapped: each leaves a message
// for all, and has those of the others (bitfold.torch.distributed).
#include "core.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstring>
#include <thread>

namespace bitfold::python {
namespace {

using namespace nb::literals;
using clock = std::chrono::steady_clock;

constexpr std::size_t message_bytes = 512;
// Of a rank, for every other call: whoever is at the next one has read all of this one.
struct alignas(64) message {
  std::atomic<std::uint32_t> number;  // of the call
  std::uint32_t size;
  char text[message_bytes];
};

void sleep_until_it_changes(std::atomic<std::uint32_t>& word, std::uint32_t from) {
  constexpr timespec at_most{0, 2'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT, from, &at_most, nullptr, 0);
}
void wake_all(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// A rank holds a lock on its byte of the file as long as it is there.
bool is_there(int file, int rank) {
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return fcntl(file, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

class meeting {
 public:
  meeting(std::uintptr_t address, int file, int rank, int ranks, double seconds)
      : at_(reinterpret_cast<message*>(address)),
        file_(file),
        rank_(rank),
        ranks_(ranks),
        seconds_(seconds),
        // To be woken takes longer than most wait; but not where ranks want one another's
        // processors.
        awake_(std::thread::hardware_concurrency() >= 2 * static_cast<unsigned>(ranks) ? 200 : 2) {}

  static std::size_t bytes(int ranks) {
    return 2 * static_cast<std::size_t>(ranks) * sizeof(message);
  }

  /// Nothing, where the messages of all are alike.
  nb::object exchange_alike(const nb::bytes& mine) {
    nb::list all = exchange(mine);
    for (nb::handle one : all)
      if (!one.equal(mine)) return all;
    return nb::none();
  }

  nb::list exchange(const nb::bytes& mine) {
    if (mine.size() > message_bytes) refuse("mine: more than 512 bytes");
    message& m = of(rank_, ++calls_);
    m.size = static_cast<std::uint32_t>(mine.size());
    std::memcpy(m.text, mine.c_str(), mine.size());
    m.number.store(calls_, std::memory_order_release);
    wake_all(m.number);
    {
      const nb::gil_scoped_release free;
      for (int k = 0; k < ranks_; ++k) wait_for(k);
    }
    nb::list all;
    for (int k = 0; k < ranks_; ++k) {
      const message& one = of(k, calls_);
      all.append(nb::bytes(one.text, one.size));
    }
    return all;
  }

 private:
  message& of(int rank, std::uint32_t call) {
    return at_[static_cast<std::size_t>(call % 2) * static_cast<std::size_t>(ranks_) +
               static_cast<std::size_t>(rank)];
  }
  void wait_for(int rank) {
    std::atomic<std::uint32_t>& number = of(rank, calls_).number;
    const auto begin = clock::now();
    do
      for (int k = 0; k < 500; ++k)
        if (number.load(std::memory_order_acquire) == calls_) return;
    while (clock::now() - begin < awake_);
    for (std::uint32_t now; (now = number.load(std::memory_order_acquire)) != calls_;) {
      sleep_until_it_changes(number, now);
      if (number.load(std::memory_order_acquire) == calls_) return;
      const double waited = std::chrono::duration<double>(clock::now() - begin).count();
      if (waited > 0.01 && !is_there(file_, rank) && number.load() != calls_)
        throw std::runtime_error("bitfold: rank " + std::to_string(rank) +
                                 " has ended, or had an error amid a call");
      if (waited > seconds_)
        throw std::runtime_error("bitfold: rank " + std::to_string(rank) + " did not come within " +
                                 std::to_string(seconds_) + " seconds");
      const nb::gil_scoped_acquire with;
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }
  }

  message* const at_;
  const int file_, rank_, ranks_;
  const double seconds_;
  const std::chrono::microseconds awake_;
  std::uint32_t calls_ = 0;
};

}  // namespace

void add_meeting(nb::module_& m) {
  nb::class_<meeting>(m, "Meeting", "Processes of one host, which leave one another messages.")
      .def(nb::init<std::uintptr_t, int, int, int, double>(), "address"_a, "file"_a, "rank"_a,
           "ranks"_a, "seconds"_a,
           "address: of bytes(ranks) zeros that all have mapped, of a file, on whose byte of its "
           "number each holds a lock.")
      .def_static("bytes", &meeting::bytes, "ranks"_a)
      .def("exchange", &meeting::exchange, "mine"_a,
           "The messages of all, of up to 512 bytes each.")
      .def("exchange_alike", &meeting::exchange_alike, "mine"_a,
           "The same; None where all are alike.");
}

}  // namespace bitfold::python
