// In the place of NVRTC (libnvrtc.so) in tests: the compiler of the tests makes a shared library of
// a kernel, which the emulated driver (driver.cpp) runs. EMULATED_GPU_FLAGS are flags for it. The
// headers are written once, and precompiled where a second kernel begins with one: to read them
// took half of a kernel's time.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

struct program_of {
  std::string text, expression, log, image;
  std::vector<std::pair<std::string, std::string>> headers;
};

std::string contents(const fs::path& p) {
  std::ifstream in(p, std::ios::binary);
  std::ostringstream all;
  all << in.rdbuf();
  return all.str();
}
void write(const fs::path& p, const std::string& text) {
  fs::create_directories(p.parent_path());
  std::ofstream(p, std::ios::binary) << text;
}

/// Runs the compiler in this folder; whether it succeeded.
bool run_compiler(const fs::path& folder, const std::string& arguments) {
  const char* const flags = std::getenv("EMULATED_GPU_FLAGS");
  const std::string command = "cd " + folder.string() +
                              " && " EMULATED_GPU_CXX
                              " -std=c++20 -O0 -w -D__CUDACC_RTC__ -ffp-contract=off -fPIC"
                              " -fno-threadsafe-statics " +  // whose guards are libstdc++'s
                              (flags ? flags : "") +
                              " " + arguments;
  return std::system(command.c_str()) == 0;
}

/// A new folder, or an empty path.
fs::path new_folder() {
  std::string made = (fs::temp_directory_path() / "emulated_compiler.XXXXXX").string();
  return mkdtemp(made.data()) ? fs::path(made) : fs::path();
}

/// The headers, which are the same for all kernels of a process.
class kept_headers {
 public:
  ~kept_headers() {
    std::error_code ignored;
    if (getpid() == made_by_) fs::remove_all(folder_, ignored);
  }
  /// The folder that has them for a kernel, whose text begins with `#include <header>`.
  fs::path folder_for(const program_of& p) {
    const std::lock_guard lock(guard_);
    if (folder_.empty()) write_all(p);
    const std::size_t begin = p.text.find('<') + 1;
    const std::string first = p.text.substr(begin, p.text.find('>') - begin);
    if (++asked_[first] ==
        2) {  // whole at once: a process forked from this one has the same folder
      const std::string made = first + ".gch", unfinished = made + "." + std::to_string(getpid());
      std::error_code ignored;
      if (run_compiler(folder_, "-I. -x c++-header " + first + " -o " + unfinished))
        fs::rename(folder_ / unfinished, folder_ / made, ignored);
    }
    return folder_;
  }

 private:
  void write_all(const program_of& p) {
    folder_ = new_folder();
    made_by_ = getpid();
    for (const auto& [name, text] : p.headers)
      if (name != "bitfold/cuda/device.cuh") write(folder_ / name, text);
    for (const char* name : {"device.cuh", "machine.hpp"})
      write(folder_ / "bitfold/cuda" / name, contents(fs::path(EMULATED_GPU_SOURCE) / name));
  }
  std::mutex guard_;
  fs::path folder_;
  pid_t made_by_ = 0;
  std::map<std::string, int> asked_;  ///< by the header that a kernel begins with
};

constexpr int compilation_failed = 6;

}  // namespace

extern "C" {

int nvrtcVersion(int* major, int* minor) { return *major = 13, *minor = 0, 0; }
int nvrtcGetNumSupportedArchs(int* count) { return *count = 1, 0; }
int nvrtcGetSupportedArchs(int* architectures) { return architectures[0] = 90, 0; }
int nvrtcCreateProgram(program_of** made, const char* text, const char*, int headers,
                       const char* const* contents, const char* const* names) {
  auto* const p = new program_of{text, {}, {}, {}, {}};
  for (int k = 0; k < headers; ++k) p->headers.emplace_back(names[k], contents[k]);
  return *made = p, 0;
}
int nvrtcDestroyProgram(program_of** done) {
  delete *done;
  return *done = nullptr, 0;
}
int nvrtcAddNameExpression(program_of* in, const char* expression) {
  return in->expression = expression, 0;
}
int nvrtcCompileProgram(program_of* p, int, const char* const*) {
  static kept_headers headers;
  const fs::path folder = new_folder();
  if (folder.empty()) return compilation_failed;
  write(folder / "kernel.cpp", p->text +
                                   "extern \"C\" void emulated_kernel(void** arguments) {\n"
                                   "  emulated::call(&" +
                                   p->expression + ", arguments);\n}\n");
  const bool compiled =
      run_compiler(folder, "-shared -nostdlib -I " + headers.folder_for(*p).string() +
                               " kernel.cpp -lgcc -o kernel.so > log 2>&1");
  p->log = contents(folder / "log");
  p->image = contents(folder / "kernel.so");
  fs::remove_all(folder);
  return compiled ? 0 : compilation_failed;
}
int nvrtcGetProgramLogSize(program_of* of, std::size_t* size) {
  return *size = of->log.size() + 1, 0;
}
int nvrtcGetProgramLog(program_of* of, char* log) { return of->log.copy(log, of->log.size()), 0; }
int nvrtcGetLoweredName(program_of*, const char*, const char** name) {
  return *name = "emulated_kernel", 0;
}
int nvrtcGetCUBINSize(program_of* of, std::size_t* size) { return *size = of->image.size(), 0; }
int nvrtcGetCUBIN(program_of* of, char* image) {
  return of->image.copy(image, of->image.size()), 0;
}
}
