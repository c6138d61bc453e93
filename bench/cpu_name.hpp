#pragma once

#include <fstream>
#include <string>

namespace bitfold::bench {

/// As Linux names it.
inline std::string cpu_name() {
  std::string line;
  for (std::ifstream info("/proc/cpuinfo"); std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

}  // namespace bitfold::bench
