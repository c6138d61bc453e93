#include "explain.hpp"

namespace bitfold::gpu {
namespace {

std::string bytes(std::uint64_t n) { return std::to_string(n) + " bytes"; }

std::string results_of(const fold_kernel& k) {
  std::string text;
  for (const kernel_output& o : k.outputs) {
    text += (text.empty() ? "" : " + ") + std::string(name(o.op));
    if (info(o.op).takes_method) text += " by " + std::string(name(o.method));
    if (o.acc != k.in) text += " in " + std::string(name(o.acc));
  }
  return text;
}

std::string words_of(const pass& p) {
  const auto* const fold = std::get_if<fold_kernel>(&p.what);
  std::string text = std::string(name(p.what)) + ": ";
  if (fold) text += results_of(*fold) + "; ";
  text += std::to_string(p.blocks);
  if (p.rows_of_blocks > 1) text += " x " + std::to_string(p.rows_of_blocks);
  text += (p.blocks * p.rows_of_blocks == 1 ? " block of " : " blocks of ") +
          std::to_string(p.threads) + " threads";
  if (p.shared_bytes > 0) text += ", " + bytes(p.shared_bytes) + " of shared memory each";
  if (fold && takes_elements(fold->what))
    text += "; reads " + std::string(name(fold->in)) + (fold->two ? ", two inputs" : "") + ", " +
            bytes(p.bytes_read);
  else if (fold)
    text += "; reads states of " + bytes(fold->state_bytes);
  else if (p.bytes_read > 0)
    text += "; reads " + bytes(p.bytes_read);
  if (!p.line.empty()) text += "; chosen by \"" + std::string(p.line) + "\"";
  return text;
}

std::string words_of(const integer_product& p) {
  const auto shape = [](std::uint64_t a, std::uint64_t b) {
    return std::to_string(a) + " x " + std::to_string(b);
  };
  return "int8 " + shape(p.rows, p.n) + " by " + shape(p.n, p.columns) + ", " +
         std::to_string(p.count) + (p.count == 1 ? " time" : " times");
}

std::string words_of(const device_facts& on) {
  const tuning& by = *on.numbers;
  return (on.name.empty() ? "a GPU (none is here)" : on.name) + ", compute capability " +
         std::to_string(on.major) + "." + std::to_string(on.minor) + ", by the table " +
         std::string(by.name) +
         (by.measured.empty() ? " (not measured there)"
                              : " (measured: " + std::string(by.measured) + ")");
}

}  // namespace

std::string explain(const plan& p, const device_facts& on) {
  std::string text;
  int number = 0;
  for (const step& s : p.steps) {
    if (const pass* const one = std::get_if<pass>(&s))
      text += "pass " + std::to_string(++number) + ": " + words_of(*one) + "\n";
    else if (const fill* const f = std::get_if<fill>(&s))
      text += "fill: " + bytes(f->bytes) + "\n";
    else
      text += "cuBLASLt: " + words_of(std::get<integer_product>(s)) + "\n";
  }
  return text + "workspace: " + bytes(p.workspace) + "\nfor " + words_of(on) + "\n";
}

}  // namespace bitfold::gpu
