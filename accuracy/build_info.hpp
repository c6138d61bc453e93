// What this binary was built from and what machine it runs on, for reports.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace bitfold::accuracy::build {

extern const std::string_view version;   ///< bitfold's
extern const std::string_view commit;    ///< "unknown" outside of a git checkout
extern const std::string_view compiler;  ///< "GCC 12.2.0"
extern const std::string_view cuda;      ///< nvcc's version; empty without nvcc

std::string cpu_model();  ///< "AMD EPYC ..."
/// Bytes of the CPU's caches of the last level, all together; none where the system does not tell.
std::optional<std::uint64_t> cpu_cache();
std::string system_name();  ///< "Debian GNU/Linux 12 (bookworm)"

}  // namespace bitfold::accuracy::build
