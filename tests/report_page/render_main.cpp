// render_page REPORT.json OUT.html [--without-plots]: the page alone, for the tests.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include <bitfold/error.hpp>

#include "accuracy/page/render.hpp"

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  std::ifstream in(argv[1], std::ios::binary);
  const std::string report((std::istreambuf_iterator<char>(in)), {});
  try {
    std::ofstream out(argv[2], std::ios::binary);
    out << (argc > 3 ? bitfold::accuracy::render(report, argv[1], "")
                     : bitfold::accuracy::render(report, argv[1]));
    return out.flush() ? 0 : 1;
  } catch (const bitfold::error& e) {
    std::fprintf(stderr, "render_page: %s\n", e.what());
    return static_cast<int>(e.code());
  }
}
