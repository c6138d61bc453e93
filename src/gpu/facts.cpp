#include "facts.hpp"

#include <map>
#include <mutex>

#include "driver.hpp"

namespace bitfold::gpu {
namespace {

// CUdevice_attribute.
constexpr int processors = 16, capability_major = 75, capability_minor = 76,
              shared_of_processor = 81, max_shared_by_request = 97;

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
                          &tuning_for(major, minor)};
}

const device_facts& facts_of_current_device() { return facts_of_device(current_device().device); }

device_facts facts_of(capability of) {
  constexpr std::size_t kib = 1 << 10;
  const auto [major, minor] = of;
  const bool small = (major == 8 && minor != 0 && minor != 7) || major == 12;
  const std::size_t shared = small ? 100 * kib : major == 8 ? 164 * kib : 228 * kib;
  // A100, A10 and L40, H100, B200, GeForce RTX 5090.
  const int count = major == 8   ? (minor == 0   ? 108
                                    : minor == 9 ? 142
                                                 : 72)
                    : major == 9 ? 132
                    : major < 12 ? 148
                                 : 170;
  return {"", major, minor, shared - kib, shared, count, &tuning_for(major, minor)};
}

}  // namespace bitfold::gpu
