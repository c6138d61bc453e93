// What bitfold throws: one line of text and what kind of mistake it was.
#pragma once

#include <stdexcept>
#include <string>

namespace bitfold {

/// What kind of mistake it was.
enum class errc {
  usage = 2,      ///< an argument that makes no sense (names the argument)
  bad_input = 3,  ///< a file or buffer that is not what it says it is (names the file and field)
  no_device = 4,  ///< no such device, or what it needs is not installed (says what)
  cuda = 5,       ///< NVIDIA's driver or compiler reported an error (names the call)
  communication = 6,  ///< a transport between ranks reported an error (names the call)
};

/// The one exception type. what() is a single line. The numeric value of code() is also the exit
/// status of the command line.
class error : public std::runtime_error {
 public:
  /// what: one line, which begins with the argument, field or file that is wrong.
  error(errc code, const std::string& what) : std::runtime_error(what), code_(code) {}
  /// What kind of mistake it was; as a number the exit status.
  errc code() const noexcept { return code_; }

 private:
  errc code_;
};

}  // namespace bitfold
