#include "compiler.hpp"

#include <bitfold/error.hpp>
#include <vector>

#include "headers.hpp"
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

compiler open_compiler() {
  const shared_library library(
      {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so"});
  if (!library)
    throw error(errc::no_device,
                "cuda: no kernel can be compiled: install NVRTC (libnvrtc, of a CUDA toolkit 12 or "
                "13) where the loader finds it");
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

const std::string& compiler_identity() {
  static const auto& identity = *new const std::string([] {
    std::string all = "NVRTC " + compiler_version();
    for (const char* option : options) all.append(" ").append(option);
    for (const header& h : device_headers)
      all.append("\n").append(h.name).append("\n").append(h.text);
    return all;
  }());
  return identity;
}

machine_code compile(const kernel_source& source, int major, int minor) {
  const compiler& c = the_compiler();
  const int architecture = 10 * major + minor;
  bool known = false;
  for (const int a : c.architectures) known = known || a == architecture;
  const std::string target = std::to_string(architecture);
  if (!known)
    throw error(errc::no_device, "cuda: NVRTC " + compiler_version() + " does not know a GPU of " +
                                     "compute capability " + std::to_string(major) + "." +
                                     std::to_string(minor) +
                                     ": install that of another CUDA toolkit");
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

}  // namespace bitfold::gpu
