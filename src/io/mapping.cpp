#include "io/mapping.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <system_error>

#include <bitfold/error.hpp>

#include "io/field.hpp"

namespace bitfold::io {

// Where the signal handler looks for the address. Regions are used again but never freed, so that
// it can walk their list at any time, without a lock.
struct mapping::region {
  std::atomic<const std::byte*> begin = nullptr;  // nullptr while it is of no mapping
  std::atomic<std::size_t> size = 0;
  std::atomic<bool> broken = false;
  const mapping* owner = nullptr;  // under the lock, as is all use of a region outside the handler
  region* next = nullptr;

  static inline std::atomic<region*> first = nullptr;
  static inline std::mutex lock;

  static void on_bus_error(int signal, siginfo_t* info, void* context);
};
static_assert(std::atomic<const std::byte*>::is_always_lock_free);

namespace {

struct sigaction before;  // what was to be done on SIGBUS
std::size_t page_size;

}  // namespace

// On any thread. Everything here is a system call or a lock-free atomic.
void mapping::region::on_bus_error(int signal, siginfo_t* info, void* context) {
  const int error_number = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (region* r = info->si_code > 0 ? first.load() : nullptr; r; r = r->next) {
    const auto begin = reinterpret_cast<std::uintptr_t>(r->begin.load());
    const std::size_t size = r->size.load();
    // Had the region changed hands between the two, its begin would have too.
    if (reinterpret_cast<std::uintptr_t>(r->begin.load()) != begin) continue;
    if (begin == 0 || address < begin || address - begin >= size) continue;
    r->broken = true;
    // Zeros from this page on: where it has ended, all that follows has.
    const std::uintptr_t page = address / page_size * page_size;
    if (::mmap(reinterpret_cast<void*>(page), begin + size - page, PROT_READ,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
      break;
    errno = error_number;
    return;
  }
  if (before.sa_flags & SA_SIGINFO) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  } else {
    ::sigaction(signal, &before, nullptr);
    ::raise(signal);  // taken when this returns
  }
  errno = error_number;
}

mapping::region* mapping::free_region() {
  for (region* r = region::first; r; r = r->next)
    if (!r->owner) return r;
  auto* const r = new region;
  r->next = region::first;
  return region::first = r;
}

mapping::mapping(const std::filesystem::path& path)
    // Without O_NONBLOCK, opening a pipe would wait for its writer.
    : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (fd_ < 0) bad_file(errno);
  try {
    struct stat info;
    if (::fstat(fd_, &info) != 0) bad_file(errno);
    if (S_ISDIR(info.st_mode)) bad("file", "is a directory");
    if (!S_ISREG(info.st_mode)) bad("file", "is not a regular file");
    const auto size = static_cast<std::size_t>(info.st_size);
    if (size == 0) {  // mmap refuses length 0
      char byte;
      const ssize_t more = ::read(fd_, &byte, 1);
      if (more < 0) bad_file(errno);
      // As files of /proc do.
      if (more > 0) bad("file", "says that it is empty, but is not; a copy can be read");
      return;
    }
    const std::lock_guard guard(region::lock);
    region_ = free_region();
    void* const p = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd_, 0);
    if (p == MAP_FAILED) bad_file(errno);
    ::madvise(p, size, MADV_SEQUENTIAL);  // a hint: failure changes nothing
    bytes_ = {static_cast<const std::byte*>(p), size};
    region_->owner = this;
    region_->broken = false;
    region_->size = size;
    region_->begin = bytes_.data();
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

mapping::~mapping() {
  if (region_) {
    const std::lock_guard guard(region::lock);
    region_->begin = nullptr;
    region_->owner = nullptr;
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
  ::close(fd_);
}

void mapping::check() const {
  if (!region_) return;
  // Within its last page, a file becomes shorter without a signal.
  struct stat info;
  if (::fstat(fd_, &info) != 0) bad_file(errno);
  if (static_cast<std::size_t>(info.st_size) < bytes_.size())
    bad("file", "became shorter while it was read");
  if (region_->broken)
    bad("file", "could not be read: it was shorter for a while, or its disk failed");
}

void check_mapped_files() {
  const std::lock_guard guard(mapping::region::lock);
  for (const mapping::region* r = mapping::region::first; r; r = r->next) {
    if (!r->owner) continue;
    try {
      r->owner->check();
    } catch (const error& e) {
      throw error(e.code(), printable(r->owner->path_.string()) + ": " + e.what());
    }
  }
}

void survive_shorter_files() {
  page_size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  struct sigaction action{};
  action.sa_sigaction = mapping::region::on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  struct sigaction old;
  ::sigaction(SIGBUS, nullptr, &old);
  if (!(old.sa_flags & SA_SIGINFO) || old.sa_sigaction != action.sa_sigaction) before = old;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace bitfold::io
