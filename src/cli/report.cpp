// bitfold report
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bitfold/cuda.hpp>
#include <bitfold/error.hpp>

#include "accuracy/page/render.hpp"
#include "accuracy/report.hpp"
#include "accuracy/suite.hpp"
#include "cli/arguments.hpp"
#include "cli/common.hpp"
#include "cli/operands.hpp"
#include "cli/progress.hpp"
#include "io/digest.hpp"
#include "io/field.hpp"
#include "io/mapping.hpp"

namespace bitfold::cli {
namespace {

namespace fs = std::filesystem;
using accuracy::json;

struct report_arguments {
  std::string out, from, device = "all";
  std::vector<std::string> files, compare;
  bool quick = false, full = false, quiet = false;
  std::optional<double> heaviest;
  std::uint64_t seed = 1;
};

constexpr int interrupted = 130;  // as the shell has it: 128 + SIGINT

std::atomic<bool> stop = false;

// ---- What is kept of a run that did not end

// A file of lines: what the run is and when it began, then the rows of each unit as it is done. A
// line that an interrupt cut off is left out.
class kept_units {
 public:
  kept_units(fs::path path, const json& run, std::string date)
      : path_(std::move(path)), date_(std::move(date)) {
    std::ifstream in(path_);
    std::string line;
    json head;
    if (std::getline(in, line)) head = json::parse(line, nullptr, false);
    if (head.is_object() && head.contains("date") && head["date"].is_string() &&
        head.contains("run") && dumped(head["run"]) == dumped(run)) {
      date_ = head["date"].get<std::string>();
      while (std::getline(in, line)) {
        const json unit = json::parse(line, nullptr, false);
        if (unit.is_object() && unit.contains("unit") && unit["unit"].is_string() &&
            unit.contains("rows") && unit["rows"].is_object())
          rows_[unit["unit"].get<std::string>()] = unit["rows"];
      }
    }
    in.close();
    std::string text = dumped({{"date", date_}, {"run", run}}) + '\n';
    for (const auto& [key, rows] : rows_) text += line_of(key, rows);
    write_file(path_.string(), text);
    out_.open(path_, std::ios::app);
  }
  const json* find(const std::string& key) const {
    const auto it = rows_.find(key);
    return it == rows_.end() ? nullptr : &it->second;
  }
  std::size_t size() const { return rows_.size(); }
  // When the run began that this one goes on with; else now.
  const std::string& date() const { return date_; }
  void keep(const std::string& key, const json& rows) {
    out_ << line_of(key, rows) << std::flush;
    if (!out_) throw std::runtime_error(io::printable(path_.string()) + ": cannot be written");
  }
  void remove() {
    out_.close();
    fs::remove(path_);
  }

 private:
  static std::string line_of(const std::string& key, const json& rows) {
    return dumped({{"unit", key}, {"rows", rows}}) + '\n';
  }
  static std::string dumped(const json& x) {
    return x.dump(-1, ' ', false, json::error_handler_t::replace);
  }
  fs::path path_;
  std::string date_;
  std::map<std::string, json> rows_;
  std::ofstream out_;
};

// ---- The folder

void make_folder(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed)
    throw std::runtime_error(fmt::format("--out {}: cannot be made: {}",
                                         io::printable(folder.string()), failed.message()));
}

// Two runs would mix what they keep there. The lock is the folder's own, so that nothing is left
// behind, and ends with the process. A file system without locks goes without.
class folder_lock {
 public:
  explicit folder_lock(const fs::path& folder)
      : fd_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (fd_ < 0 || ::flock(fd_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
    ::close(fd_);
    throw std::runtime_error(fmt::format("--out {}: another `bitfold report` is writing there",
                                         io::printable(folder.string())));
  }
  folder_lock(const folder_lock&) = delete;
  ~folder_lock() {
    if (fd_ >= 0) ::close(fd_);
  }

 private:
  const int fd_;
};

// ---- The ways to run

void write_page(const json& report, const fs::path& path) {
  write_file(path.string(), accuracy::render(accuracy::report_text(report)));
}

int status_of(const json& report) { return report["findings"].empty() ? 0 : failure; }

int render_again(const report_arguments& args) {
  const json report = accuracy::read_report(args.from);
  const fs::path folder = args.out.empty() ? fs::path(args.from).parent_path() : fs::path(args.out);
  refuse_overwriting("--out", (folder / "report.html").string(), {args.from});
  if (!folder.empty()) make_folder(folder);
  write_page(report, folder / "report.html");
  write_out(io::printable((folder / "report.html").string()) + '\n');
  return status_of(report);
}

int compare_two(const report_arguments& args) {
  const auto result = accuracy::compare(accuracy::read_report(args.compare[0]),
                                        accuracy::read_report(args.compare[1]));
  write_out(result.text);
  return result.worse ? failure : 0;
}

/// All but the steps that weigh more, of which the lightest of a study and a type stays.
void leave_out_heavier(std::vector<accuracy::unit>& units, double heaviest) {
  const auto kind_of = [](const accuracy::unit& u) {  // study/type/...
    return u.key.substr(0, u.key.find('/', u.key.find('/') + 1));
  };
  std::map<std::string, double> least;
  for (const auto& u : units) {
    double& weight = least.try_emplace(kind_of(u), u.weight).first->second;
    weight = std::min(weight, u.weight);
  }
  std::set<std::string> kept;
  std::erase_if(units, [&](const accuracy::unit& u) {
    if (u.weight <= heaviest) return false;
    return u.weight > least.at(kind_of(u)) || !kept.insert(kind_of(u)).second;
  });
}

int measure(const report_arguments& args) {
  refuse_twice(groups_of(args.files, 1));
  const bool have_gpu = !cuda::devices().empty(), have_compiler = !cuda::compiler().empty();
  const std::string no_compiler =
      "no kernel can be compiled without NVRTC: install a CUDA toolkit 12 or 13, or PyPI's "
      "nvidia-cuda-nvrtc, which PyTorch brings";
  if (args.device == "cuda" && !have_gpu)
    throw error(errc::no_device, "--device cuda: no usable GPU");
  if (args.device == "cuda" && !have_compiler)
    throw error(errc::no_device, "--device cuda: " + no_compiler);
  const bool cpu = args.device != "cuda", gpu = args.device != "cpu" && have_gpu && have_compiler;
  const accuracy::suite_options options{args.full, args.seed, args.files};
  accuracy::contestants who = accuracy::all_contestants(cpu, gpu);
  if (args.device == "all" && have_gpu && !have_compiler)
    who.missing.push_back({"the GPU", no_compiler});
  auto units = accuracy::plan(who, options);
  if (args.heaviest) leave_out_heavier(units, *args.heaviest);

  std::string command = fmt::format("bitfold report --{} --device {} --seed {}",
                                    args.full ? "full" : "quick", args.device, args.seed);
  if (args.heaviest) command += fmt::format(" --heaviest {}", *args.heaviest);
  for (const auto& file : args.files) command += ' ' + file;
  json report = accuracy::start_report(who, options, command);
  json run = report;  // all but the date, and what the files hold
  run.erase("date");
  for (const auto& file : args.files) {
    io::digest d;
    const auto arrays = io::read_arrays(file);
    for (const auto& a : arrays) d.add(a.data, a.bytes());
    io::check_mapped_files();
    run["files"].push_back(d.hex());
  }

  const fs::path folder = args.out;
  for (const auto name : {"report.json", "report.html", "report.partial.jsonl"})
    refuse_overwriting("--out", (folder / name).string(), args.files);
  make_folder(folder);
  const folder_lock lock(folder);
  kept_units kept(folder / "report.partial.jsonl", run, report["date"].get<std::string>());
  report["date"] = kept.date();
  if (kept.size() > 0)
    complain(fmt::format("going on with an interrupted run: {} of {} steps are done", kept.size(),
                         units.size()));
  double total = 0;
  for (const auto& u : units) total += u.weight;
  progress bar(total, args.quiet ? progress::style::none : progress::style::kept);
  for (const auto& u : units)
    if (kept.find(u.key)) bar.skip(u.weight);
  std::signal(SIGINT, [](int) {
    stop = true;
    std::signal(SIGINT, SIG_DFL);  // the second one ends it at once
  });
  for (const auto& u : units) {
    if (const json* rows = kept.find(u.key)) {
      accuracy::add_rows(report, *rows);
      continue;
    }
    if (stop) {
      bar.leave();
      complain("interrupted; the same command goes on from here");
      return interrupted;
    }
    bar.start(u.what);
    const json rows = u.run();
    io::check_mapped_files();
    kept.keep(u.key, rows);
    accuracy::add_rows(report, rows);
    bar.finish(u.weight);
  }
  bar.end();
  accuracy::add_headlines(report);
  write_file((folder / "report.json").string(), accuracy::report_text(report));
  write_page(report, folder / "report.html");
  kept.remove();
  write_out(accuracy::summary(report));
  write_out(fmt::format("\n{}\n{}\n", io::printable((folder / "report.json").string()),
                        io::printable((folder / "report.html").string())));
  return status_of(report);
}

int report(const report_arguments& args) {
  if (!args.compare.empty()) return compare_two(args);
  if (!args.from.empty()) return render_again(args);
  if (args.out.empty()) throw error(errc::usage, "--out: is required to measure (a folder)");
  return measure(args);
}

}  // namespace

subcommand add_report(CLI::App& app) {
  const auto args = std::make_shared<report_arguments>();
  CLI::App* command = app.add_subcommand(
      "report",
      "Measure accuracy and speed of all methods and peers, as report.json and report.html");
  auto* files = add_files(
      *command, "FILE", args->files,
      ".npy, .npz or .safetensors files, or indices of such, whose float arrays take part too");
  auto* out = command->add_option("--out", args->out, "The folder for report.json and report.html");
  auto* quick = command->add_flag("--quick", args->quick, "A few minutes (the default)");
  auto* full = command->add_flag("--full", args->full, "Longer arrays, more of everything");
  quick->excludes(full);
  auto* device = command->add_option("--device", args->device, "Whose contestants take part")
                     ->check(CLI::IsMember({"all", "cpu", "cuda"}))
                     ->capture_default_str();
  // Up to what any reader of JSON keeps exactly.
  auto* seed = command->add_option("--seed", args->seed, "The seed of the first sample")
                   ->check(whole_number(std::uint64_t{1} << 53))
                   ->capture_default_str();
  // For tests: without the steps that weigh more, but for one of each kind.
  auto* heaviest = command->add_option("--heaviest", args->heaviest)->group("");
  auto* from = command->add_option("--from", args->from,
                                   "Make report.html of this report.json, without measuring");
  auto* compare =
      command->add_option("--compare", args->compare, "Two report.json side by side")->expected(2);
  add_quiet(*command, args->quiet);
  for (auto* option : {quick, full, device, seed, files, heaviest}) {
    from->excludes(option);
    compare->excludes(option);
  }
  compare->excludes(from)->excludes(out);
  command->footer(
      "A run that was interrupted goes on where it was when the same command is given again.\n"
      "Exit status: 1 where bitfold broke a promise (or, with --compare, where bits or bounds of "
      "the\n"
      "second run are worse), 130 after an interrupt, else as everywhere.");
  return {command, [args] { return report(*args); }};
}

}  // namespace bitfold::cli
