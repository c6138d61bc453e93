// To be preloaded: a machine of STAND_IN_CPUS processors, where only STAND_IN_THREADS threads can
// be made.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace {
int setting(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}
std::atomic<int> made = 0;
}  // namespace

extern "C" int sched_getaffinity(pid_t, std::size_t size, cpu_set_t* set) noexcept {
  std::memset(set, 0, size);
  for (int i = 0; i < setting("STAND_IN_CPUS", 8) && i < static_cast<int>(size) * 8; ++i)
    CPU_SET_S(static_cast<std::size_t>(i), size, set);
  return 0;
}

extern "C" long sysconf(int name) noexcept {
  static const auto next = reinterpret_cast<long (*)(int)>(dlsym(RTLD_NEXT, "sysconf"));
  return name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF ? setting("STAND_IN_CPUS", 8)
                                                                      : next(name);
}

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*run)(void*), void* argument) noexcept {
  static const auto next =
      reinterpret_cast<int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>(
          dlsym(RTLD_NEXT, "pthread_create"));
  return ++made > setting("STAND_IN_THREADS", 1 << 20) ? EAGAIN
                                                       : next(thread, attributes, run, argument);
}
