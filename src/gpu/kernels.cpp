#include "kernels.hpp"

#include <atomic>
#include <bitfold/error.hpp>
#include <exception>
#include <future>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <system_error>
#include <thread>

#include "kernel_files.hpp"

namespace bitfold::gpu {
namespace {

std::atomic<std::uint64_t> found{0}, read{0}, compiled{0};

struct registry {
  std::shared_mutex guard;
  std::map<std::pair<context, std::string>, function> loaded;
};
registry& the_registry() {
  // Never destroyed: a static's destructor may ask.
  static auto& r = *new registry;
  return r;
}

// All that its machine code depends on; of what is long, the digest.
std::string key_of(const kernel_source& source, const device_facts& device) {
  static const std::string compiler = digest_of(compiler_identity());
  return "sm_" + std::to_string(10 * device.major + device.minor) + " by " + compiler + "\n" +
         source.expression + "\n" + source.text;
}

machine_code code_of(const kernel& k, const device_facts& device) {
  const kernel_source source = source_of(k);
  const std::string key = key_of(source, device);
  const kernel_files files = kernel_files::of_user();
  if (auto kept = files.find(key)) {
    ++read;
    return *std::move(kept);
  }
  machine_code made = compile(source, device.major, device.minor);
  ++compiled;
  files.store(key, made);  // where it cannot be kept, it is compiled again next time
  return made;
}

function load_code(const machine_code& code, const device_facts& device) {
  const driver& d = the_driver();
  module in = nullptr;
  if (const int result = d.cuModuleLoadData(&in, code.image.data()); result != 0) {
    int version = 0;
    d.cuDriverGetVersion(&version);
    const char* text = nullptr;
    d.cuGetErrorString(result, &text);
    throw error(errc::cuda,
                "cuModuleLoadData: " + std::string(text ? text : "an error") +
                    ", of code by NVRTC " + compiler_version() + " for " + device.name +
                    "; the driver is of CUDA " + std::to_string(version / 1000) + "." +
                    std::to_string(version % 1000 / 10) +
                    ": where that is the older one, install a newer driver or an older NVRTC");
  }
  function f = nullptr;
  check(d.cuModuleGetFunction(&f, in, code.name.c_str()), "cuModuleGetFunction");
  return f;
}

function find(const kernel& k, const current& where) {
  registry& r = the_registry();
  const std::shared_lock lock(r.guard);
  const auto at = r.loaded.find({where.in, signature_of(k)});
  return at == r.loaded.end() ? nullptr : at->second;
}

// Two threads may load the same kernel at once: the second one's is used by nobody.
function keep(const kernel& k, const current& where, function f) {
  registry& r = the_registry();
  const std::lock_guard lock(r.guard);
  return r.loaded.try_emplace({where.in, signature_of(k)}, f).first->second;
}

}  // namespace

function load(const kernel& k, const current& where, stream on) {
  if (const function f = find(k, where)) {
    ++found;
    return f;
  }
  int capturing = 0;
  check(the_driver().cuStreamIsCapturing(on, &capturing), "cuStreamIsCapturing");
  if (capturing)
    throw error(errc::usage,
                "cuda: a kernel that is asked for the first time cannot be loaded while a graph is "
                "captured: run the same call once before, or prepare it");
  const device_facts& device = facts_of_device(where.device);
  return keep(k, where, load_code(code_of(k, device), device));
}

void prepare(std::span<const kernel> all, const current& where) {
  const device_facts& device = facts_of_device(where.device);
  std::vector<std::pair<const kernel*, std::future<machine_code>>> wanted;
  for (const kernel& k : all) {
    if (find(k, where)) continue;
    const auto compile_it = [&k, &device] { return code_of(k, device); };
    try {
      wanted.emplace_back(&k, std::async(std::launch::async, compile_it));
    } catch (const std::system_error&) {  // no more threads: in turn
      wanted.emplace_back(&k, std::async(std::launch::deferred, compile_it));
    }
  }
  std::exception_ptr failed;
  for (auto& [k, code] : wanted) {
    try {
      keep(*k, where, load_code(code.get(), device));
    } catch (...) {
      if (!failed) failed = std::current_exception();
    }
  }
  if (failed) std::rethrow_exception(failed);
}

load_counts counts_of_loads() { return {found, read, compiled}; }

}  // namespace bitfold::gpu
