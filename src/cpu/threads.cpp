// The threads that share a call's work, and how it is shared out.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include <pthread.h>
#if defined(__linux__)
#include <sched.h>
#endif
#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#endif

#include "../fp_environment.hpp"
#include "task.hpp"

namespace bitfold::cpu {
namespace {

thread_local team lent_team = nullptr;
// The threads of a lent team are expected to be awake, so that less work is worth one.
constexpr std::size_t bytes_worth_a_lent_thread = std::size_t{1} << 16;

int count_cores() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}
std::atomic<int> allowed = 0;  // 0: one thread for each core
int max_at_once() {
  static const int cores = count_cores();
  const int n = allowed.load(std::memory_order_relaxed);
  return std::min(n ? n : cores, max_threads);
}

void relax() {
#if defined(__x86_64__) || defined(_M_X64)
  _mm_pause();
#endif
}
// Polls for some tens of microseconds. The next call often comes within that time, and to sleep and
// be woken takes as long.
template <class Condition>
bool becomes_true_soon(Condition condition) {
  for (int round = 0; round < 64; ++round) {
    for (int k = 0; k < 16; ++k) {
      if (condition()) return true;
      relax();
    }
    std::this_thread::yield();
  }
  return condition();
}
// Helpers come and leave together and hold the lock for a moment only, so this spins first: a
// thread that sleeps for the lock is late.
void acquire(std::unique_lock<std::mutex>& lock) {
  for (int k = 0; k < 1000; ++k) {
    if (lock.try_lock()) return;
    relax();
  }
  lock.lock();
}

// Helpers are numbered from 1 on; 0 is any other thread.
thread_local int helper_number = 0;

// Threads that help with calls. They are made when they are first wanted, and wait for more until
// the process ends, of which nothing here takes notice: statics' destructors may call, too. Where
// no more threads can be made, fewer help.
class helpers {
 public:
  // Calls body(argument) here and on up to `wanted` helpers at once; returns when all have
  // returned.
  void run(void (*body)(void*), void* argument, int wanted) {
    call c{body, argument, wanted};
    std::unique_lock lock(lock_);
    c.next = std::exchange(first_, &c);
    wanted_ += wanted;
    while (count_ - busy_ < wanted_ && count_ < max_at_once() - 1 && make()) {
    }
    wake_two(lock);
    body(argument);
    acquire(lock);
    call** link = &first_;
    while (*link != &c) link = &(*link)->next;
    *link = c.next;
    wanted_ -= c.wanted;
    const auto all_left = [&] { return c.inside.load(std::memory_order_acquire) == 0; };
    if (all_left()) return;
    lock.unlock();
    if (becomes_true_soon(all_left)) return;
    lock.lock();
    left_.wait(lock, all_left);
  }

 private:
  struct call {
    void (*body)(void*);
    void* argument;
    int wanted;                   // helpers that have not come yet
    std::atomic<int> inside = 0;  // and those that have, and have not left
    call* next = nullptr;
  };

  bool make() {
    try {
      std::thread([this, k = count_ + 1] { work(k); }).detach();
    } catch (...) {
      return false;
    }
    ++count_;
    return true;
  }

  // Those that come wake others in turn.
  void wake_two(std::unique_lock<std::mutex>& lock) {
    const int wake = std::min({wanted_.load(), asleep_, 2});
    lock.unlock();
    for (int k = 0; k < wake; ++k) wake_.notify_one();
  }

  [[noreturn]] void work(int k) {
    helper_number = k;
    const auto is_wanted = [this] { return wanted_ > 0 && busy_ < max_at_once() - 1; };
    for (std::unique_lock lock(lock_);;) {
      if (!is_wanted()) {
        lock.unlock();
        const bool soon = becomes_true_soon(is_wanted);
        acquire(lock);
        if (!soon) {
          ++asleep_;
          wake_.wait(lock, is_wanted);
          --asleep_;
        }
        continue;
      }
      call* c = first_;
      while (c->wanted == 0) c = c->next;
      --c->wanted;
      --wanted_;
      ++c->inside;
      ++busy_;
      wake_two(lock);
      c->body(c->argument);
      acquire(lock);
      --busy_;
      if (c->inside.fetch_sub(1, std::memory_order_acq_rel) == 1)
        left_.notify_all();  // c may be gone
    }
  }

  std::mutex lock_;
  std::condition_variable wake_, left_;
  call* first_ = nullptr;
  // Changed under the lock, too.
  std::atomic<int> wanted_ = 0, busy_ = 0;  // by all calls; with any call
  int count_ = 0, asleep_ = 0;
};

std::atomic<helpers*> all_helpers = nullptr;
// The child of a fork has none of its parent's threads.
[[maybe_unused]] const int fork_handler =
    pthread_atfork(nullptr, nullptr, [] { all_helpers = nullptr; });

helpers& shared_helpers() {
  helpers* existing = all_helpers.load();
  if (!existing) {
    auto created = std::make_unique<helpers>();
    if (all_helpers.compare_exchange_strong(existing, created.get())) existing = created.release();
  }
  return *existing;
}

// The chunks of a call, in one block of neighbours for each thread. A thread begins with its own
// block, which is the same in the next call, so that its core's cache may still hold the elements.
// Then it helps with the other blocks.
class shared_work {
 public:
  shared_work(std::size_t count, std::size_t threads, const std::function<void(std::size_t)>& f)
      : f_(f), block_count_(threads), blocks_(std::make_unique<block[]>(threads)) {
    for (std::size_t b = 0; b < threads; ++b) {
      blocks_[b].next = count * b / threads;
      blocks_[b].end = count * (b + 1) / threads;
    }
  }
  // On any thread, any number of times.
  static void work(void* argument) {
    shared_work& shared = *static_cast<shared_work*>(argument);
    const detail::fp_environment guard;
    try {
      const std::size_t first_block =
          helper_number ? static_cast<std::size_t>(helper_number) : shared.unnumbered_++;
      for (std::size_t k = 0; k < shared.block_count_; ++k) {
        block& b = shared.blocks_[(first_block + k) % shared.block_count_];
        for (std::size_t i; b.next < b.end && (i = b.next++) < b.end;) shared.f_(i);
      }
    } catch (...) {
      const std::scoped_lock one(shared.lock_);
      if (!shared.failed_) shared.failed_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (failed_) std::rethrow_exception(failed_);
  }

 private:
  struct alignas(64) block {
    std::atomic<std::size_t> next;
    std::size_t end;
  };
  const std::function<void(std::size_t)>& f_;
  const std::size_t block_count_;
  const std::unique_ptr<block[]> blocks_;
  std::atomic<std::size_t> unnumbered_ = 0;  // of threads without a number
  std::mutex lock_;
  std::exception_ptr failed_;
};

}  // namespace

on_team::on_team(team t) : previous_(std::exchange(lent_team, t)) {}
on_team::~on_team() { lent_team = previous_; }

void limit_threads(int max) { allowed = max; }

int threads_for(const options& opts, std::size_t bytes) {
  return opts.threads == 1 ||
                 bytes < 2 * (lent_team ? bytes_worth_a_lent_thread : bytes_worth_a_thread)
             ? 1
         : opts.threads == 0 ? max_at_once()
                             : std::min(opts.threads, max_threads);
}

void parallel_for(std::size_t count, int threads, const std::function<void(std::size_t)>& f) {
  const auto share = [&](int max) {
    return static_cast<int>(std::min(static_cast<std::size_t>(max), count));
  };
  threads = lent_team ? share(threads) : share(std::min(threads, max_at_once()));
  if (threads <= 1) {
    const detail::fp_environment guard;
    for (std::size_t i = 0; i < count; ++i) f(i);
    return;
  }
  shared_work work(count, static_cast<std::size_t>(threads), f);
  if (lent_team)
    lent_team(shared_work::work, &work, static_cast<unsigned>(threads), 0);
  else
    shared_helpers().run(shared_work::work, &work, threads - 1);
  work.rethrow();
}

}  // namespace bitfold::cpu
