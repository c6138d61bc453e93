#include "facts.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <tuple>

#include "driver.hpp"

namespace bitfold::gpu {
namespace {

// CUdevice_attribute.
constexpr int processors = 16, threads_of_processor = 39, capability_major = 75,
              capability_minor = 76, shared_of_processor = 81, max_shared_by_request = 97,
              blocks_of_processor = 106;

/// What a multiprocessor has, and how many a common GPU has of them.
struct row {
  capability of;
  int threads, blocks, shared_kib;
  int processors;
};
constexpr row capabilities[] = {
    {{8, 0}, 2048, 32, 164, 108},   // A100
    {{8, 6}, 1536, 16, 100, 72},    // A10
    {{8, 7}, 1536, 16, 164, 16},    // Jetson AGX Orin
    {{8, 9}, 1536, 24, 100, 142},   // L40
    {{9, 0}, 2048, 32, 228, 132},   // H100
    {{10, 0}, 2048, 32, 228, 148},  // B200
    {{11, 0}, 1536, 24, 228, 20},   // Jetson Thor
    {{12, 0}, 1536, 24, 100, 170},  // GeForce RTX 5090
    {{12, 1}, 1536, 24, 100, 48},   // GB10
};

}  // namespace

const device_facts& facts_of_device(int device) {
  static std::mutex guard;
  // Never destroyed: a static's destructor may ask.
  static auto& known = *new std::map<int, device_facts>;
  const std::lock_guard lock(guard);
  if (const auto found = known.find(device); found != known.end()) return found->second;
  const driver& d = the_driver();
  const auto attribute = [&](int which) {
    int value = 0;
    check(d.cuDeviceGetAttribute(&value, which, device), "cuDeviceGetAttribute");
    return value;
  };
  char name[256] = "";
  check(d.cuDeviceGetName(name, sizeof name, device), "cuDeviceGetName");
  const int major = attribute(capability_major), minor = attribute(capability_minor);
  return known[device] = {name,
                          major,
                          minor,
                          static_cast<std::size_t>(attribute(max_shared_by_request)),
                          static_cast<std::size_t>(attribute(shared_of_processor)),
                          attribute(processors),
                          attribute(threads_of_processor),
                          attribute(blocks_of_processor),
                          &tuning_for(major, minor)};
}

const device_facts& facts_of_current_device() { return facts_of_device(current_device().device); }

device_facts facts_of(capability of) {
  constexpr std::size_t kib = 1 << 10;
  const auto* const above =
      std::find_if(std::begin(capabilities) + 1, std::end(capabilities), [&](const row& r) {
        return std::tie(r.of.major, r.of.minor) > std::tie(of.major, of.minor);
      });
  const row& r = *(above - 1);
  const std::size_t shared = static_cast<std::size_t>(r.shared_kib) * kib;
  return {"",           of.major, of.minor,
          shared - kib, shared,   r.processors,
          r.threads,    r.blocks, &tuning_for(of.major, of.minor)};
}

}  // namespace bitfold::gpu
