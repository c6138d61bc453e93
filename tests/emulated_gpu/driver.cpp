// A GPU for tests, in the place of NVIDIA's driver (libcuda.so.1): kernels that compiler.cpp made
// run on the CPU, thread by thread, with the exchanges and barriers of a warp and a block. What a
// GPU leaves undefined stops the program: a barrier that not all threads reach, an exchange with a
// thread that has ended, shared memory beyond what was asked for. Nothing is said of its speed.

// A jump from one stack to another, which a fortified longjmp takes for an error.
#undef _FORTIFY_SOURCE

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "gpu/driver.hpp"
#include "machine.hpp"

namespace {

using bitfold::gpu::launch_configuration;

constexpr unsigned max_threads = 1024, warp = 32;
constexpr std::size_t stack_bytes = 256 << 10, max_shared = 227 << 10,
                      shared_without_asking = 48 << 10;
constexpr int invalid_value = 1, out_of_memory = 2, invalid_image = 200, not_found = 500,
              capture_unsupported = 900, relaxed = 2;

[[noreturn]] void stop(const char* what) {
  std::fprintf(stderr, "emulated GPU: %s\n", what);
  std::abort();
}

struct thread {
  enum { ready, at_barrier, exchanging, ended } state;
  bool begun;
  ucontext_t beginning;
  jmp_buf at;
  unsigned long value;
  unsigned mask;
  int from;
};

emulated::machine machine;
std::vector<thread> threads;
jmp_buf scheduler;
unsigned running;
void (*kernel)(void**);
void** arguments;

// (swapcontext would ask the system for the mask of signals each time: a third of all that a test
// takes.)
void pause_as(decltype(thread::state) state) {
  thread& t = threads[running];
  t.state = state;
  if (_setjmp(t.at) == 0) _longjmp(scheduler, 1);
}
void wait_for_the_block() { pause_as(thread::at_barrier); }
unsigned long exchange(unsigned long value, unsigned mask, int from) {
  thread& t = threads[running];
  t.value = value;
  t.mask = mask;
  t.from = from;
  pause_as(thread::exchanging);
  return t.value;
}
constexpr int ballot_of_all = -1;
unsigned ballot(bool condition) {
  return static_cast<unsigned>(exchange(condition, ~0u, ballot_of_all));
}
void run_thread() {
  kernel(arguments);
  pause_as(thread::ended);
}

void resume(unsigned k) {
  if (threads[k].state != thread::ready) return;
  running = k;
  machine.thread = {k, 0, 0};
  if (_setjmp(scheduler) != 0) return;
  if (std::exchange(threads[k].begun, true)) _longjmp(threads[k].at, 1);
  setcontext(&threads[k].beginning);
}

// Whether threads went on.
bool pass_barrier() {
  for (const thread& t : threads)
    if (t.state != thread::at_barrier && t.state != thread::ended) return false;
  bool any = false;
  for (thread& t : threads)
    if (t.state == thread::at_barrier) t.state = thread::ready, any = true;
  return any;
}
bool pass_exchanges() {
  bool any = false;
  for (unsigned first = 0; first < threads.size(); first += warp)
    for (unsigned lane = 0; lane < warp; ++lane) {
      if (threads[first + lane].state != thread::exchanging) continue;
      const unsigned mask = threads[first + lane].mask;
      bool all = mask >> lane & 1;
      for (unsigned k = 0; k < warp; ++k)
        if (mask >> k & 1) {
          const thread& t = threads[first + k];
          if (t.state == thread::ended) stop("an exchange with a thread that has ended");
          all = all && t.state == thread::exchanging && t.mask == mask;
        }
      if (!all) continue;
      unsigned long values[warp], bits = 0;
      for (unsigned k = 0; k < warp; ++k) {
        values[k] = threads[first + k].value;
        bits |= (values[k] & 1) << k;
      }
      for (unsigned k = 0; k < warp; ++k)
        if (mask >> k & 1) {
          thread& t = threads[first + k];
          t.state = thread::ready;
          if ((t.from == ballot_of_all) != (threads[first + lane].from == ballot_of_all))
            stop("one exchange with another");
          if (t.from != ballot_of_all && !(mask >> t.from & 1))
            stop("an exchange with a thread outside of its mask");
          t.value = t.from == ballot_of_all ? bits : values[t.from];
        }
      any = true;
    }
  return any;
}

void run_block(unsigned block, unsigned row, std::size_t shared_bytes) {
  static char* const stacks =
      static_cast<char*>(mmap(nullptr, max_threads * stack_bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (stacks == MAP_FAILED) stop("no memory for its threads");
  // Shared memory holds anything at first; what lies behind it is nobody's.
  constexpr std::size_t behind = 4096;
  std::vector<char> memory(16 + shared_bytes + behind, static_cast<char>(0xcd));
  machine.shared = memory.data() + (16 - reinterpret_cast<std::uintptr_t>(memory.data()) % 16) % 16;
  machine.block = {block, row, 0};
  for (unsigned k = 0; k < threads.size(); ++k) {
    thread& t = threads[k];
    t.state = thread::ready;
    t.begun = false;
    getcontext(&t.beginning);
    t.beginning.uc_stack = {stacks + k * stack_bytes, 0, stack_bytes};
    t.beginning.uc_link = nullptr;
    makecontext(&t.beginning, run_thread, 0);
  }
  for (;;) {
    // Forwards in one block, backwards in the next: an order that nobody may count on.
    const auto count = static_cast<unsigned>(threads.size());
    for (unsigned k = 0; k < count; ++k) resume(block % 2 ? count - 1 - k : k);
    if (pass_exchanges() || pass_barrier()) continue;
    for (const thread& t : threads)
      if (t.state != thread::ended) stop("threads wait for others that never come");
    break;
  }
  for (const char* p = machine.shared + shared_bytes; p < memory.data() + memory.size(); ++p)
    if (*p != static_cast<char>(0xcd)) stop("shared memory was written beyond its end");
}

}  // namespace

extern "C" {

int cuMemFree_v2(bitfold::gpu::address at);
int cuInit(unsigned) { return 0; }
int cuDriverGetVersion(int* version) { return *version = 13000, 0; }
int cuGetErrorString(int, const char** text) { return *text = "an error of the emulated GPU", 0; }
int cuDeviceGetCount(int* count) { return *count = 1, 0; }
int cuDeviceGet(int* device, int ordinal) { return *device = ordinal, 0; }
int cuDeviceGetName(char* name, int size, int) {
  return std::snprintf(name, static_cast<std::size_t>(size), "an emulated GPU"), 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 75    ? 9
           : attribute == 76  ? 0
           : attribute == 16  ? 4
           : attribute == 39  ? 2048
           : attribute == 81  ? 228 << 10
           : attribute == 106 ? 32
                              : max_shared;
  return 0;
}
int cuDevicePrimaryCtxRetain(bitfold::gpu::context* made, int) {
  return *made = reinterpret_cast<bitfold::gpu::context>(&machine), 0;
}
static thread_local bitfold::gpu::context current_context;
int cuCtxGetCurrent(bitfold::gpu::context* current) { return *current = current_context, 0; }
int cuCtxSetCurrent(bitfold::gpu::context next) { return current_context = next, 0; }
int cuCtxGetDevice(int* device) { return *device = 0, 0; }
int cuCtxGetId(bitfold::gpu::context, unsigned long long* id) { return *id = 1, 0; }

// What a test says of a graph's capture: none; one that refuses modules, unless the thread's mode
// is relaxed; or always.
static int capture;
void emulated_capture(int kind) { capture = kind; }
static thread_local int capture_mode;
int cuThreadExchangeStreamCaptureMode(int* mode) { return std::swap(*mode, capture_mode), 0; }

// The image is a shared library.
int cuModuleLoadData(bitfold::gpu::loaded_module* made, const void* image) {
  if (capture == 2 || (capture == 1 && capture_mode != relaxed)) return capture_unsupported;
  Elf64_Ehdr head;
  std::memcpy(&head, image, sizeof head);
  if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) return invalid_image;
  const std::size_t size = head.e_shoff + std::size_t{head.e_shnum} * head.e_shentsize;
  std::string path = "/tmp/emulated_kernel.XXXXXX";
  const int fd = mkstemp(path.data());
  if (fd < 0 || write(fd, image, size) != static_cast<ssize_t>(size)) return invalid_image;
  close(fd);
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  unlink(path.c_str());
  if (!library) return std::fprintf(stderr, "emulated driver: %s\n", dlerror()), invalid_image;
  *static_cast<emulated::machine**>(dlsym(library, "the_machine")) = &machine;
  return *made = static_cast<bitfold::gpu::loaded_module>(library), 0;
}
int cuModuleGetFunction(bitfold::gpu::function* found, bitfold::gpu::loaded_module in,
                        const char* name) {
  *found = static_cast<bitfold::gpu::function>(dlsym(in, name));
  return *found ? 0 : not_found;
}
int cuFuncGetAttribute(int* value, int, bitfold::gpu::function) { return *value = 0, 0; }
static std::map<bitfold::gpu::function, std::size_t> shared_asked_for;
int cuFuncSetAttribute(bitfold::gpu::function of, int attribute, int value) {
  const auto bytes = static_cast<std::size_t>(value);
  if (attribute != 8 || bytes > max_shared) return invalid_value;
  return shared_asked_for[of] = bytes, 0;
}

int cuLaunchKernelEx(const launch_configuration* how, bitfold::gpu::function what,
                     void** parameters, void**) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const unsigned count = how->block[0];
  if (count == 0 || count > max_threads || count % warp || how->grid[0] == 0 ||
      how->shared_bytes > std::max(shared_asked_for[what], shared_without_asking))
    return invalid_value;
  machine = {
      {},       {},    {count, 1, 1}, {how->grid[0], how->grid[1], 1}, nullptr, wait_for_the_block,
      exchange, ballot};
  threads.resize(count);
  kernel = reinterpret_cast<void (*)(void**)>(what);
  arguments = parameters;
  for (unsigned row = 0; row < how->grid[1]; ++row)
    for (unsigned b = 0; b < how->grid[0]; ++b) run_block(b, row, how->shared_bytes);
  return 0;
}

int cuStreamSynchronize(bitfold::gpu::stream) { return 0; }
int cuStreamCreate(bitfold::gpu::stream* made, unsigned) { return *made = nullptr, 0; }
int cuStreamDestroy_v2(bitfold::gpu::stream) { return 0; }
int cuMemGetInfo_v2(std::size_t* free, std::size_t* all) {
  return *free = *all = std::size_t{1} << 30, 0;
}
// There are no graphs and no clocks.
int cuStreamBeginCapture_v2(bitfold::gpu::stream, int) { return capture_unsupported; }
int cuStreamEndCapture(bitfold::gpu::stream, bitfold::gpu::graph*) { return capture_unsupported; }
int cuGraphInstantiateWithFlags(bitfold::gpu::runnable_graph*, bitfold::gpu::graph,
                                unsigned long long) {
  return capture_unsupported;
}
int cuGraphLaunch(bitfold::gpu::runnable_graph, bitfold::gpu::stream) {
  return capture_unsupported;
}
int cuGraphDestroy(bitfold::gpu::graph) { return 0; }
int cuGraphExecDestroy(bitfold::gpu::runnable_graph) { return 0; }
int cuEventCreate(bitfold::gpu::event*, unsigned) { return invalid_value; }
int cuEventDestroy_v2(bitfold::gpu::event) { return 0; }
int cuEventRecord(bitfold::gpu::event, bitfold::gpu::stream) { return invalid_value; }
int cuEventSynchronize(bitfold::gpu::event) { return invalid_value; }
int cuEventElapsedTime(float*, bitfold::gpu::event, bitfold::gpu::event) { return invalid_value; }
int cuMemAllocManaged(bitfold::gpu::address* made, std::size_t bytes, unsigned) {
  void* const p = std::aligned_alloc(256, (bytes + 256) / 256 * 256);
  return *made = reinterpret_cast<bitfold::gpu::address>(p), p ? 0 : out_of_memory;
}
// A file, which other processes may open.
struct shared_file {
  std::string path;
  std::size_t size;
};
static std::map<bitfold::gpu::address, shared_file> files;
static std::mutex of_files;
static int map_file(bitfold::gpu::address* made, const std::string& path, int fd,
                    std::size_t size) {
  void* const p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (p == MAP_FAILED) return out_of_memory;
  *made = reinterpret_cast<bitfold::gpu::address>(p);
  const std::lock_guard lock(of_files);
  files[*made] = {path, size};
  return 0;
}
int cuMemAlloc_v2(bitfold::gpu::address* made, std::size_t bytes) {
  std::string path = "/tmp/emulated_memory.XXXXXX";
  const int fd = mkstemp(path.data());
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes + 1)) != 0) return out_of_memory;
  return map_file(made, path, fd, bytes + 1);
}
int cuIpcGetMemHandle(bitfold::gpu::memory_handle* made, bitfold::gpu::address of) {
  const std::lock_guard lock(of_files);
  const auto found = files.find(of);
  if (found == files.end()) return invalid_value;
  std::snprintf(made->bytes, sizeof made->bytes, "%s", found->second.path.c_str());
  return 0;
}
int cuIpcOpenMemHandle_v2(bitfold::gpu::address* made, bitfold::gpu::memory_handle of, unsigned) {
  const int fd = open(of.bytes, O_RDWR);
  struct stat found;
  if (fd < 0 || fstat(fd, &found) != 0) return invalid_value;
  return map_file(made, "", fd, static_cast<std::size_t>(found.st_size));
}
int cuIpcCloseMemHandle(bitfold::gpu::address opened) { return cuMemFree_v2(opened); }
int cuMemAllocAsync(bitfold::gpu::address* made, std::size_t bytes, bitfold::gpu::stream) {
  return cuMemAllocManaged(made, bytes, 0);
}
int cuMemFree_v2(bitfold::gpu::address at) {
  const std::lock_guard lock(of_files);
  const auto found = files.find(at);
  if (found == files.end()) return std::free(reinterpret_cast<void*>(at)), 0;
  munmap(reinterpret_cast<void*>(at), found->second.size);
  if (!found->second.path.empty()) unlink(found->second.path.c_str());
  files.erase(found);
  return 0;
}
int cuMemFreeAsync(bitfold::gpu::address at, bitfold::gpu::stream) { return cuMemFree_v2(at); }
int cuMemcpyHtoDAsync_v2(bitfold::gpu::address to, const void* from, std::size_t bytes,
                         bitfold::gpu::stream) {
  return std::memcpy(reinterpret_cast<void*>(to), from, bytes), 0;
}
int cuMemcpyDtoHAsync_v2(void* to, bitfold::gpu::address from, std::size_t bytes,
                         bitfold::gpu::stream) {
  return std::memcpy(to, reinterpret_cast<const void*>(from), bytes), 0;
}

int cuMemsetD8Async(bitfold::gpu::address to, unsigned char value, std::size_t bytes,
                    bitfold::gpu::stream) {
  return std::memset(reinterpret_cast<void*>(to), value, bytes), 0;
}
}
