#include "kernels.hpp"

#include <algorithm>
#include <atomic>
#include <bitfold/error.hpp>
#include <cstdlib>
#include <exception>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "kernel_files.hpp"

namespace bitfold::gpu {
namespace {

std::atomic<std::uint64_t> found_count{0}, read_count{0}, compiled_count{0};

struct registry {
  std::shared_mutex guard;
  std::map<std::pair<unsigned long long, std::string>, function> loaded;
};
registry& the_registry() {
  // Never destroyed: a static's destructor may ask.
  static auto& r = *new registry;
  return r;
}

// All that its machine code depends on; of what is long, the digest. In a pack, which any compiler
// may have made, that one is left out: the bits are the same.
std::string key_of(const kernel_source& source, capability of, const std::string& compiler) {
  static const auto& headers = *new const std::string(digest_of(compiler_inputs()));
  return "sm_" + std::to_string(10 * of.major + of.minor) + " by " + compiler + ", " + headers +
         "\n" + source.expression + "\n" + source.text;
}
constexpr const char* any_compiler = "any NVRTC";

std::optional<kernel_files> pack_of_user() {
  const char* const directory = std::getenv("BITFOLD_KERNELS");
  return directory && *directory ? std::optional(kernel_files::of_pack(directory)) : std::nullopt;
}

machine_code kept_or_compiled(const kernel_source& source, capability of) {
  if (auto kept = kernel_files::of_user().find(key_of(source, of, compiler_name()))) {
    ++read_count;
    return *std::move(kept);
  }
  machine_code made = compile(source, of.major, of.minor);
  ++compiled_count;
  // Where it cannot be kept (kernel_files::why_unkept), it is compiled again by the next process.
  (void)kernel_files::of_user().store(key_of(source, of, compiler_name()), made);
  return made;
}

machine_code code_of(const kernel& k, capability of) {
  const kernel_source source = source_of(k);
  const auto pack = pack_of_user();
  if (!pack) return kept_or_compiled(source, of);
  if (auto code = pack->find(key_of(source, of, any_compiler))) {
    ++read_count;
    return *std::move(code);
  }
  if (const std::string reason = pack->why_unread(); !reason.empty())
    throw error(errc::usage, "cuda: BITFOLD_KERNELS: " + reason);
  try {
    return kept_or_compiled(source, of);
  } catch (const error& e) {
    throw error(e.code(), std::string(e.what()) + "; the pack " + pack->directory().string() +
                              " (BITFOLD_KERNELS) has no such kernel of this version of bitfold");
  }
}

// Kernels that may ask for more shared memory than a block has without asking: all that it can
// have, but for their static arrays.
bool may_need_more_memory(const kernel& k) {
  const auto* const fold = std::get_if<fold_kernel>(&k);
  return !fold || fold->what == strategy::staged_threads || fold->what == strategy::columns ||
         fold->what == strategy::patches;
}

// Lets this thread load modules while some stream is being captured.
class relaxed_capture {
 public:
  relaxed_capture() { check(exchange(&mode_), "cuThreadExchangeStreamCaptureMode"); }
  ~relaxed_capture() { exchange(&mode_); }
  relaxed_capture(const relaxed_capture&) = delete;
  relaxed_capture& operator=(const relaxed_capture&) = delete;

 private:
  static int exchange(int* mode) { return the_driver().cuThreadExchangeStreamCaptureMode(mode); }
  int mode_ = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED; then what it was
};

function load_code(const kernel& k, const machine_code& code, const device_facts& device) {
  const driver& d = the_driver();
  const relaxed_capture relaxed;
  loaded_module made = nullptr;
  if (const int result = d.cuModuleLoadData(&made, code.image.data()); result != 0) {
    // CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED to CUDA_ERROR_CAPTURED_EVENT
    if (result >= 900 && result <= 907)
      throw error(errc::usage,
                  "cuda: a kernel that is asked for the first time cannot be loaded while a graph "
                  "is captured: run the same call once before, or prepare it");
    int version = 0;
    d.cuDriverGetVersion(&version);
    throw error(errc::cuda, "cuModuleLoadData: " + text_of(d, result) + ", of code by NVRTC " +
                                compiler_version() + " for " + device.name +
                                "; the driver is of CUDA " + std::to_string(version / 1000) + "." +
                                std::to_string(version % 1000 / 10) +
                                ": where that is the older one, install a newer driver or an "
                                "older NVRTC");
  }
  function f = nullptr;
  check(d.cuModuleGetFunction(&f, made, code.name.c_str()), "cuModuleGetFunction");
  constexpr int static_shared_size_bytes = 1, max_dynamic_shared_size_bytes = 8;
  if (may_need_more_memory(k)) {
    int own = 0;
    check(d.cuFuncGetAttribute(&own, static_shared_size_bytes, f), "cuFuncGetAttribute");
    check(d.cuFuncSetAttribute(f, max_dynamic_shared_size_bytes,
                               static_cast<int>(device.max_shared_bytes) - own),
          "cuFuncSetAttribute");
  }
  return f;
}

// Two threads may load the same kernel at once: the second one's is used by nobody.
function keep(const kernel& k, const current& where, function f) {
  registry& r = the_registry();
  const std::lock_guard lock(r.guard);
  return r.loaded.try_emplace({where.id, signature_of(k)}, f).first->second;
}

}  // namespace

function find(const kernel& k, const current& where) {
  registry& r = the_registry();
  const std::shared_lock lock(r.guard);
  const auto at = r.loaded.find({where.id, signature_of(k)});
  if (at == r.loaded.end()) return nullptr;
  ++found_count;
  return at->second;
}

function load(const kernel& k, const current& where) {
  if (const function f = find(k, where)) return f;
  const device_facts& device = facts_of_device(where.device);
  return keep(k, where, load_code(k, code_of(k, {device.major, device.minor}), device));
}

namespace {

// Calls f(k) for k < count, by as many threads as there are processors; then throws what the first
// of them threw, if any did.
template <class F>
void for_each_at_once(std::size_t count, F f) {
  std::atomic<std::size_t> next{0};
  std::mutex guard;
  std::exception_ptr failed;
  const auto do_some = [&] {
    for (std::size_t k; (k = next++) < count;) try {
        f(k);
      } catch (...) {
        const std::lock_guard lock(guard);
        if (!failed) failed = std::current_exception();
      }
  };
  std::vector<std::future<void>> workers;
  const std::size_t threads =
      std::min<std::size_t>(count, std::max(std::thread::hardware_concurrency(), 1u));
  try {
    for (std::size_t k = 1; k < threads; ++k)
      workers.push_back(std::async(std::launch::async, do_some));
  } catch (const std::system_error&) {  // no more threads: those that there are do all
  }
  do_some();
  for (auto& w : workers) w.get();
  if (failed) std::rethrow_exception(failed);
}

std::vector<const kernel*> different(std::span<const kernel> all) {
  std::map<std::string, const kernel*> wanted;
  for (const kernel& k : all) wanted.try_emplace(signature_of(k), &k);
  std::vector<const kernel*> kernels;
  for (const auto& [signature, k] : wanted) kernels.push_back(k);
  return kernels;
}

}  // namespace

void prepare(std::span<const kernel> all, const current& where) {
  std::vector<const kernel*> kernels = different(all);
  std::erase_if(kernels, [&](const kernel* k) { return find(*k, where) != nullptr; });
  const device_facts& device = facts_of_device(where.device);
  std::vector<machine_code> codes(kernels.size());
  std::exception_ptr failed;
  try {
    for_each_at_once(kernels.size(), [&](std::size_t k) {
      codes[k] = code_of(*kernels[k], {device.major, device.minor});
    });
  } catch (...) {
    failed = std::current_exception();
  }
  for (std::size_t i = 0; i < kernels.size(); ++i)
    if (!codes[i].image.empty()) keep(*kernels[i], where, load_code(*kernels[i], codes[i], device));
  if (failed) std::rethrow_exception(failed);
}

std::size_t make_ahead(std::span<const kernel> all, capability of, const kernel_files* pack) {
  const kernel_files own = kernel_files::of_user();
  const kernel_files& files = pack ? *pack : own;
  // By its key: kernels that differ in how they are launched may be of one text.
  std::map<std::string, kernel_source> sources;
  for (const kernel& k : all) {
    kernel_source source = source_of(k);
    std::string key = key_of(source, of, pack ? any_compiler : compiler_name());
    sources.try_emplace(std::move(key), std::move(source));
  }
  std::vector<const std::pair<const std::string, kernel_source>*> wanted;
  for (const auto& one : sources) wanted.push_back(&one);
  for_each_at_once(wanted.size(), [&](std::size_t k) {
    const auto& [key, source] = *wanted[k];
    if (files.find(key)) return;
    auto code = own.find(key_of(source, of, compiler_name()));
    if (const std::string reason =
            files.store(key, code ? *code : compile(source, of.major, of.minor));
        !reason.empty())
      throw error(errc::usage, reason);
  });
  return wanted.size();
}

load_counts counts_of_loads() { return {found_count, read_count, compiled_count}; }

}  // namespace bitfold::gpu
