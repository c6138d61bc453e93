#pragma once

#include <fstream>
#include <string>

namespace bitfold::bench {

/// As Linux names it, with its family and model where they are told: some names are those of
/// several generations.
inline std::string cpu_name() {
  std::string line, family, model;
  for (std::ifstream info("/proc/cpuinfo"); std::getline(info, line);) {
    const auto value = [&] { return line.substr(line.find(':') + 2); };
    if (line.starts_with("cpu family")) family = value();
    if (line.starts_with("model\t")) model = value();
    if (line.starts_with("model name"))
      return value() + (model.empty() ? "" : ", family " + family + " model " + model);
  }
  return "unknown";
}

}  // namespace bitfold::bench
