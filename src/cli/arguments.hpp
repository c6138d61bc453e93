// Arguments as they are given. CLI11 would read more into some: [w] as a list and {} as an empty
// one, ++ or the name of a subcommand as its end, even where a file has such a name and after --.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

namespace bitfold::cli {

/// The arguments less the program's name, in reverse, as CLI::App::parse takes them: whatever is no
/// option and no subcommand has a mark in front, which makes it plain text.
std::vector<std::string> marked(int argc, const char* const* argv);

/// Has every option of the subcommand, all of which were added, take the mark away first.
void take_marks(CLI::App& command);

/// The text of an error of CLI11's, without marks.
std::string without_marks(std::string text);

/// "; did you mean NAME?" of an option that the command has not, or of a choice that one of its
/// options has not; "" where nothing is near, or the error is another one.
std::string meant(const CLI::App& command, const CLI::ParseError& e);

/// What FILE may be.
inline constexpr std::string_view files_help =
    "A .npy, .npz or .safetensors file, the index of several such (.safetensors.index.json), or "
    "raw "
    "elements (--dtype)";

/// An option or positional of one or more files.
CLI::Option* add_files(CLI::App& command, const std::string& name, std::vector<std::string>& files,
                       const std::string& help);

}  // namespace bitfold::cli
