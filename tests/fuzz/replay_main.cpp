// Runs a fuzz target once over each file of the given directories: for machines without libFuzzer.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
  int count = 0;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      std::ifstream in(entry.path(), std::ios::binary);
      const std::string content{std::istreambuf_iterator<char>(in), {}};
      // A copy of exactly this size, so that ASan sees a read past the end.
      const auto copy = std::make_unique<std::uint8_t[]>(content.size());
      std::memcpy(copy.get(), content.data(), content.size());
      LLVMFuzzerTestOneInput(copy.get(), content.size());
      ++count;
    }
  }
  std::printf("%d inputs\n", count);
  return count > 0 ? 0 : 1;  // a corpus that is not found must not pass
}
