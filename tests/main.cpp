// The main of every Catch2 test. Two options of ours come before Catch2's:
//   --target=NAME  the CPU target that the tests force
//   --small        smaller sizes, as for narrower targets: under an emulator
//   --needs-gpu    there is nothing to test without a GPU
// What they ask for may not be here: then the tests are skipped, not passed, which is exit status
// 77 (ctest's SKIP_RETURN_CODE).
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

#include <algorithm>
#include <cstdio>
#include <string_view>

#include <bitfold/cuda.hpp>

#include "main.hpp"

namespace bitfold::test {
cpu::target forced_target = cpu::available_targets().back();
bool narrower = false;
}  // namespace bitfold::test

int main(int argc, char** argv) {
  using namespace bitfold;
  while (argc > 1) {
    const std::string_view option = argv[1];
    if (option == "--compile-for-others") return cuda::compile_for_others(argc > 2 ? argv[2] : "");
    if (option.starts_with("--target=")) {
      const auto t = cpu::parse_target(option.substr(9));
      const auto here = cpu::available_targets();
      if (!t || std::find(here.begin(), here.end(), *t) == here.end()) {
        std::printf("skipped: this machine or build has no CPU target %s\n", argv[1] + 9);
        return 77;
      }
      test::forced_target = *t;
      test::narrower = test::narrower || *t != here.back();
    } else if (option == "--small") {
      test::narrower = true;
    } else if (option == "--needs-gpu") {
      if (cuda::devices().empty()) {
        std::puts("skipped: no usable GPU");
        return 77;
      }
    } else {
      break;
    }
    argv[1] = argv[0];
    ++argv;
    --argc;
  }
  return Catch::Session().run(argc, argv);
}
