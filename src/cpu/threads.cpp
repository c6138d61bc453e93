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

thread_local team others = nullptr;
// The others of a team are expected to wait for work already.
constexpr std::size_t bytes_worth_one_of_a_team = std::size_t{1} << 16;

int count_cores() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}
std::atomic<int> allowed = 0;  // 0: one thread for each core
int most_at_once() {
  static const int cores = count_cores();
  const int n = allowed.load(std::memory_order_relaxed);
  return std::min(n ? n : cores, most_threads);
}

void relax() {
#if defined(__x86_64__) || defined(_M_X64)
  _mm_pause();
#endif
}
// For some tens of microseconds, in which the next call often comes, looks whether that is so: to
// sleep and to be woken takes as long.
template <class Ready>
bool comes_soon(Ready ready) {
  for (int round = 0; round < 64; ++round) {
    for (int k = 0; k < 16; ++k) {
      if (ready()) return true;
      relax();
    }
    std::this_thread::yield();
  }
  return ready();
}
// Helpers come and leave together, and hold the lock for a moment: whoever slept for it would be
// late.
void take(std::unique_lock<std::mutex>& lock) {
  for (int k = 0; k < 1000; ++k) {
    if (lock.try_lock()) return;
    relax();
  }
  lock.lock();
}

// Helpers are numbered from 1 on; 0 is any other thread.
thread_local int number = 0;

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
    while (made_ - busy_ < wanted_ && made_ < most_at_once() - 1 && make()) {
    }
    wake_two(lock);
    body(argument);
    take(lock);
    call** at = &first_;
    while (*at != &c) at = &(*at)->next;
    *at = c.next;
    wanted_ -= c.wanted;
    const auto all_left = [&] { return c.inside.load(std::memory_order_acquire) == 0; };
    if (all_left()) return;
    lock.unlock();
    if (comes_soon(all_left)) return;
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
      std::thread([this, k = made_ + 1] { work(k); }).detach();
    } catch (...) {
      return false;
    }
    ++made_;
    return true;
  }

  // Those that come wake others in turn.
  void wake_two(std::unique_lock<std::mutex>& lock) {
    const int wake = std::min({wanted_.load(), asleep_, 2});
    lock.unlock();
    for (int k = 0; k < wake; ++k) wake_.notify_one();
  }

  [[noreturn]] void work(int k) {
    number = k;
    const auto is_wanted = [this] { return wanted_ > 0 && busy_ < most_at_once() - 1; };
    for (std::unique_lock lock(lock_);;) {
      if (!is_wanted()) {
        lock.unlock();
        const bool soon = comes_soon(is_wanted);
        take(lock);
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
      take(lock);
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
  int made_ = 0, asleep_ = 0;
};

std::atomic<helpers*> all_helpers = nullptr;
// The child of a fork has none of its parent's threads.
[[maybe_unused]] const int told_of_forks =
    pthread_atfork(nullptr, nullptr, [] { all_helpers = nullptr; });

helpers& the_helpers() {
  helpers* there = all_helpers.load();
  if (!there) {
    auto made = std::make_unique<helpers>();
    if (all_helpers.compare_exchange_strong(there, made.get())) there = made.release();
  }
  return *there;
}

// A call's parts, in as many blocks of neighbours as there are threads. Each begins with a block of
// its own, the same one in the next call, whose elements may be in its core's cache, and then helps
// with the others'.
class shared_parts {
 public:
  shared_parts(std::size_t count, std::size_t threads, const std::function<void(std::size_t)>& f)
      : f_(f), blocks_(threads), of_(std::make_unique<block[]>(threads)) {
    for (std::size_t b = 0; b < threads; ++b) {
      of_[b].next = count * b / threads;
      of_[b].end = count * (b + 1) / threads;
    }
  }
  // On any thread, any number of times.
  static void work(void* on) {
    shared_parts& all = *static_cast<shared_parts*>(on);
    const detail::fp_environment guard;
    try {
      const std::size_t own = number ? static_cast<std::size_t>(number) : all.came_++;
      for (std::size_t k = 0; k < all.blocks_; ++k) {
        block& b = all.of_[(own + k) % all.blocks_];
        for (std::size_t i; b.next < b.end && (i = b.next++) < b.end;) all.f_(i);
      }
    } catch (...) {
      const std::scoped_lock one(all.lock_);
      if (!all.failed_) all.failed_ = std::current_exception();
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
  const std::size_t blocks_;
  const std::unique_ptr<block[]> of_;
  std::atomic<std::size_t> came_ = 0;  // of threads without a number
  std::mutex lock_;
  std::exception_ptr failed_;
};

}  // namespace

on_team::on_team(team t) : before_(std::exchange(others, t)) {}
on_team::~on_team() { others = before_; }

void limit_threads(int most) { allowed = most; }

int threads_for(const options& how, std::size_t bytes) {
  return how.threads == 1 || bytes < 2 * (others ? bytes_worth_one_of_a_team : bytes_worth_a_thread)
             ? 1
         : how.threads == 0 ? most_at_once()
                            : std::min(how.threads, most_threads);
}

void for_each_part(std::size_t count, int threads, const std::function<void(std::size_t)>& f) {
  const auto share = [&](int most) {
    return static_cast<int>(std::min(static_cast<std::size_t>(most), count));
  };
  threads = others ? share(threads) : share(std::min(threads, most_at_once()));
  if (threads <= 1) {
    const detail::fp_environment guard;
    for (std::size_t i = 0; i < count; ++i) f(i);
    return;
  }
  shared_parts parts(count, static_cast<std::size_t>(threads), f);
  if (others)
    others(shared_parts::work, &parts, static_cast<unsigned>(threads), 0);
  else
    the_helpers().run(shared_parts::work, &parts, threads - 1);
  parts.rethrow();
}

}  // namespace bitfold::cpu
