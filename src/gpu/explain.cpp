#include "explain.hpp"

namespace bitfold::gpu {
namespace {

std::string bytes(std::uint64_t n) { return std::to_string(n) + " bytes"; }

// The elements that a problem has, of all outputs together.
std::uint64_t elements_of(const problem& what) {
  if (!what.outputs) return what.n;
  return what.outputs->offsets ? what.outputs->total : what.outputs->outputs * what.outputs->n;
}

std::string results_of(const pass& step) {
  std::string text;
  for (const kernel_output& o : step.what.outputs) {
    text += (text.empty() ? "" : " + ") + std::string(name(o.op));
    if (info(o.op).takes_method) text += " by " + std::string(name(o.method));
    if (o.acc != step.what.in) text += " in " + std::string(name(o.acc));
  }
  return text;
}

}  // namespace

std::string explain(const plan& p, const problem& what) {
  std::string text;
  for (const pass& step : p.passes) {
    const kernel& k = step.what;
    text += "pass " + std::to_string(&step - p.passes.data() + 1) + ": " +
            std::string(name(k.what)) + ": " + results_of(step) + "; " +
            std::to_string(step.blocks) + (step.blocks == 1 ? " block of " : " blocks of ") +
            std::to_string(step.threads) + " threads";
    if (step.shared_bytes > 0) text += ", " + bytes(step.shared_bytes) + " of shared memory each";
    if (takes_elements(k.what))
      text += "; reads " + std::string(name(k.in)) + (k.two ? ", two inputs" : "") + ", " +
              bytes(elements_of(what) * size_of(k.in) * (k.two ? 2 : 1));
    else
      text += "; reads states of " + bytes(k.state_bytes);
    text += "\n";
  }
  return text + "workspace: " + bytes(p.workspace) + "\n";
}

}  // namespace bitfold::gpu
