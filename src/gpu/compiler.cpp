#include "compiler.hpp"

#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <bitfold/error.hpp>
#include <cstdlib>
#include <vector>

#include "compiler_processes.hpp"
#include "headers.hpp"
#include "kernel_files.hpp"
#include "shared_library.hpp"

namespace bitfold::gpu {
namespace {

struct program_of;
using program = program_of*;

// clang-format off
#define BITFOLD_COMPILER_FUNCTIONS(FUNCTION)                                                  \
  FUNCTION(nvrtcVersion, (int* major, int* minor))                                            \
  FUNCTION(nvrtcGetNumSupportedArchs, (int* count))                                           \
  FUNCTION(nvrtcGetSupportedArchs, (int* architectures))                                      \
  FUNCTION(nvrtcCreateProgram, (program* made, const char* text, const char* name, int headers, \
                                const char* const* contents, const char* const* names))       \
  FUNCTION(nvrtcDestroyProgram, (program* done))                                              \
  FUNCTION(nvrtcAddNameExpression, (program in, const char* expression))                      \
  FUNCTION(nvrtcCompileProgram, (program what, int count, const char* const* options))        \
  FUNCTION(nvrtcGetProgramLogSize, (program of, std::size_t* size))                           \
  FUNCTION(nvrtcGetProgramLog, (program of, char* log))                                       \
  FUNCTION(nvrtcGetLoweredName, (program in, const char* expression, const char** name))      \
  FUNCTION(nvrtcGetCUBINSize, (program of, std::size_t* size))                                \
  FUNCTION(nvrtcGetCUBIN, (program of, char* image))
// clang-format on

struct compiler {
#define BITFOLD_FUNCTION(name, parameters) int(*name) parameters;
  BITFOLD_COMPILER_FUNCTIONS(BITFOLD_FUNCTION)
#undef BITFOLD_FUNCTION
  int major, minor;
  std::vector<int> architectures;
};

// `--fmad=false`: no contraction; the rest of IEEE's arithmetic is NVRTC's default.
constexpr const char* options[] = {"--std=c++20", "--fmad=false", "--device-int128",
                                   "-default-device", "--disable-warnings"};

std::string& given_place() {
  static auto& path = *new std::string;
  return path;
}
std::vector<std::string> places() { return places_of("nvrtc", "BITFOLD_NVRTC", given_place()); }

std::string path_of(const compiler& c) {
  Dl_info found;
  return ::dladdr(reinterpret_cast<const void*>(c.nvrtcVersion), &found) && found.dli_fname
             ? found.dli_fname
             : "";
}

// NVRTC opens a library of its own by its name alone when it first compiles: that of a package,
// which lies where no loader looks, is opened ahead, and stays open.
void open_builtins_of(const compiler& c) {
  const std::string path = path_of(c);
  const auto folder = path.rfind('/');
  if (folder == std::string::npos) return;
  const std::string name =
      "libnvrtc-builtins.so." + std::to_string(c.major) + "." + std::to_string(c.minor);
  (void)::dlopen((path.substr(0, folder + 1) + name).c_str(), RTLD_LAZY | RTLD_GLOBAL);
}

compiler open_compiler() {
  const shared_library library(places());
  if (!library)
    throw error(errc::no_device,
                "cuda: no kernel can be compiled: install NVRTC (libnvrtc, of a CUDA toolkit 12 or "
                "13, or of PyPI's nvidia-cuda-nvrtc) where the loader finds it, or name it in "
                "BITFOLD_NVRTC");
  compiler c{};
#define BITFOLD_FUNCTION(name, parameters)                                  \
  if (!library.find(#name, c.name))                                         \
    throw error(errc::no_device, "cuda: NVRTC is too old: it has no " #name \
                                 "; install that "                          \
                                 "of a CUDA toolkit 12 or 13");
  BITFOLD_COMPILER_FUNCTIONS(BITFOLD_FUNCTION)
#undef BITFOLD_FUNCTION
  int count = 0;
  if (c.nvrtcVersion(&c.major, &c.minor) != 0 || c.nvrtcGetNumSupportedArchs(&count) != 0)
    throw error(errc::no_device, "cuda: NVRTC does not say its version");
  c.architectures.resize(static_cast<std::size_t>(count));
  if (c.nvrtcGetSupportedArchs(c.architectures.data()) != 0)
    throw error(errc::no_device, "cuda: NVRTC does not say which GPUs it knows");
  open_builtins_of(c);
  return c;
}

const compiler& the_compiler() {
  // Never destroyed: a static's destructor may ask. Tried again where it failed.
  static const auto& opened = *new const compiler(open_compiler());
  return opened;
}

// A program that is destroyed at the end.
class running_program {
 public:
  running_program(const compiler& with, const kernel_source& source) : with_(with) {
    std::vector<const char*> contents, names;
    for (const header& h : device_headers) {
      contents.push_back(h.text);
      names.push_back(h.name);
    }
    check(with.nvrtcCreateProgram(&program_, source.text.c_str(), "kernel.cu",
                                  static_cast<int>(names.size()), contents.data(), names.data()),
          "nvrtcCreateProgram");
  }
  ~running_program() { with_.nvrtcDestroyProgram(&program_); }
  running_program(const running_program&) = delete;
  running_program& operator=(const running_program&) = delete;

  operator program() const { return program_; }
  /// Errors: errc::cuda, naming the call, with what the compiler says.
  void check(int result, const char* call) const {
    if (result != 0)
      throw error(errc::cuda,
                  std::string(call) + ": error " + std::to_string(result) + first_error());
  }

 private:
  std::string first_error() const {
    std::size_t size = 0;
    if (!program_ || with_.nvrtcGetProgramLogSize(program_, &size) != 0 || size == 0) return "";
    std::string log(size, '\0');
    with_.nvrtcGetProgramLog(program_, log.data());
    const std::size_t begin = log.find("error");
    if (begin == std::string::npos) return "";
    const std::size_t line = log.rfind('\n', begin) + 1;
    return ": " + log.substr(line, log.find_first_of(std::string_view("\n\0", 2), begin) - line);
  }

  const compiler& with_;
  program program_ = nullptr;
};

}  // namespace

std::string compiler_version() {
  const compiler& c = the_compiler();
  return std::to_string(c.major) + "." + std::to_string(c.minor);
}

namespace {

// The library's file, as it is now: what else has this path has another size or time.
std::string state_of(const std::string& path) {
  struct stat s;
  if (path.empty() || ::stat(path.c_str(), &s) != 0) return {};
  return std::to_string(s.st_size) + " bytes of " + std::to_string(s.st_mtim.tv_sec) + "." +
         std::to_string(s.st_mtim.tv_nsec);
}

// What was found the last time is kept among the kernels, by all that says where to look; its name
// is the path, and the state of the file, and what the compiler is called.
std::string find_name() {
  std::string key = "compiler";
  for (const std::string& place : places()) key += "\n" + place;
  if (const char* const more = std::getenv("LD_LIBRARY_PATH")) key.append("\n").append(more);
  const kernel_files files = kernel_files::of_user();
  if (const auto known = files.find(key))
    if (const std::string state = state_of(known->name) + "\n";
        state.size() > 1 && known->image.starts_with(state))
      return known->image.substr(state.size());
  const compiler& c = the_compiler();
  const std::string path = path_of(c), state = state_of(path),
                    name = "NVRTC " + compiler_version() + " (" +
                           state.substr(0, state.find(" of ")) + ")";
  if (!state.empty()) files.store(key, {path, state + "\n" + name});
  return name;
}

}  // namespace

void look_for_compiler_at(const std::string& path) { given_place() = path; }

const std::string& compiler_name() {
  static const auto& name = *new const std::string(find_name());  // tried again where it failed
  return name;
}

std::string compiler_inputs() {
  std::string all;
  for (const char* option : options) all.append(" ").append(option);
  for (const header& h : device_headers)
    all.append("\n").append(h.name).append("\n").append(h.text);
  return all;
}

namespace {

// The architecture to compile for: the GPU's, or else the newest that the compiler knows of those
// before it with the same major number, whose code runs there. Errors: errc::no_device.
int target_for(const compiler& c, int major, int minor) {
  const std::string capability = std::to_string(major) + "." + std::to_string(minor);
  if (major < 8)
    throw error(errc::no_device,
                "cuda: a GPU of compute capability " + capability + "; bitfold wants 8.0 or newer");
  int best = 0;
  for (const int a : c.architectures)
    if (a / 10 == major && a % 10 <= minor) best = std::max(best, a);
  if (best == 0)
    throw error(errc::no_device, "cuda: NVRTC " + compiler_version() + " does not know a GPU of " +
                                     "compute capability " + capability +
                                     ": install that of another CUDA toolkit");
  return best;
}

machine_code compile_here(const compiler& c, const kernel_source& source, int major, int minor) {
  const std::string target = std::to_string(target_for(c, major, minor));
  const running_program p(c, source);
  p.check(c.nvrtcAddNameExpression(p, source.expression.c_str()), "nvrtcAddNameExpression");
  const std::string for_it = "--gpu-architecture=sm_" + target;
  std::vector<const char*> all(std::begin(options), std::end(options));
  all.push_back(for_it.c_str());
  p.check(c.nvrtcCompileProgram(p, static_cast<int>(all.size()), all.data()),
          "nvrtcCompileProgram");
  const char* name = nullptr;
  p.check(c.nvrtcGetLoweredName(p, source.expression.c_str(), &name), "nvrtcGetLoweredName");
  machine_code made{name, {}};
  std::size_t size = 0;
  p.check(c.nvrtcGetCUBINSize(p, &size), "nvrtcGetCUBINSize");
  made.image.resize(size);
  p.check(c.nvrtcGetCUBIN(p, made.image.data()), "nvrtcGetCUBIN");
  return made;
}

}  // namespace

machine_code compile(const kernel_source& source, int major, int minor) {
  static std::atomic<int> here{0};
  struct counted {
    counted() { ++here; }
    ~counted() { --here; }
  };
  const compiler& c = the_compiler();
  if (here > 0)
    if (auto made = compile_elsewhere(source, major, minor, path_of(c))) return *std::move(made);
  const counted one;
  return compile_here(c, source, major, minor);
}

}  // namespace bitfold::gpu
