// Files built by hand, and read back, for tests.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bytes {

/// Of a file; empty if there is none.
inline std::string content(const std::string& path) {
  std::ostringstream all;
  all << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(all).str();
}

/// Their names; none if there is no such folder.
inline std::set<std::string> files_in(const std::string& folder) {
  std::set<std::string> names;
  if (std::filesystem::exists(folder))
    for (const auto& file : std::filesystem::directory_iterator(folder))
      names.insert(file.path().filename());
  return names;
}

template <class T>
std::string of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// `size` bytes of an integer, least significant first.
inline std::string little_endian(std::uint64_t value, int size) {
  std::string out;
  for (int i = 0; i < size; ++i) out += static_cast<char>(value >> 8 * i);
  return out;
}

/// A npy file: this header text, padded to 64 bytes as NumPy does, and this body.
inline std::string npy_of(std::string header, const std::string& body, int major = 1) {
  const int length_size = major == 1 ? 2 : 4;
  while ((8 + static_cast<std::size_t>(length_size) + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  return std::string("\x93NUMPY", 6) + static_cast<char>(major) + '\0' +
         little_endian(header.size(), length_size) + header + body;
}
inline std::string npy(const std::string& descr, const std::string& shape, const std::string& body,
                       bool fortran = false) {
  return npy_of("{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") +
                    ", 'shape': " + shape + ", }",
                body);
}

/// A safetensors file.
inline std::string safetensors(const std::string& header, const std::string& body) {
  return little_endian(header.size(), 8) + header + body;
}
inline std::string tensor(const std::string& name, const std::string& type,
                          const std::string& shape, int begin, int end) {
  return "\"" + name + "\":{\"dtype\":\"" + type + "\",\"shape\":" + shape + ",\"data_offsets\":[" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}

/// A directory that goes away with the object.
class directory {
 public:
  directory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "bitfold-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~directory() { std::filesystem::remove_all(path_); }
  directory(const directory&) = delete;
  directory& operator=(const directory&) = delete;

  std::string path(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }

 private:
  std::filesystem::path path_;
};

}  // namespace bytes
