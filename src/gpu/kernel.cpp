#include "kernel.hpp"

namespace bitfold::gpu {
namespace {

std::string type_name(dtype t) {
  switch (t) {
    case dtype::f16: return "float16";
    case dtype::bf16: return "bfloat16";
    case dtype::f32: return "float";
    case dtype::f64: return "double";
    default:
      return (is_signed_int(t) ? "std::int" : "std::uint") + std::to_string(8 * size_of(t)) + "_t";
  }
}

std::string expression_of(const kernel& k) {
  const std::string of_elements = "<kernel::folds, kernel::source, double, ";
  switch (k.what) {
    case strategy::tiles:
      return "bitfold::cuda::fold_elements" + of_elements +
             "bitfold::cuda::alignment::" + (k.aligned ? "known" : "missing") +
             ", kernel::results>";
    case strategy::one_node:
      return "bitfold::cuda::fold_leaves" + of_elements + "true, kernel::results>";
    case strategy::leaf_nodes:
      return "bitfold::cuda::fold_leaves" + of_elements + "false, kernel::results>";
    case strategy::states: break;
  }
  return "bitfold::cuda::fold_nodes<kernel::folds, double, kernel::results>";
}

}  // namespace

kernel_source source_of(const kernel& k) {
  std::string outputs;
  for (const kernel_output& o : k.outputs) {
    outputs += outputs.empty() ? "" : ",\n                        ";
    outputs += "output<op_id::" + std::string(name(o.op)) +
               ", method::" + std::string(name(o.method)) + ", " + type_name(k.in) + ", " +
               type_name(o.acc) + ", " + type_name(o.out) + ">";
  }
  const std::string text =
      "#include <bitfold/cuda/fused.cuh>\n"
      "namespace kernel {\n"
      "using namespace bitfold;\n"
      "using namespace bitfold::cuda::own;\n"
      "using results = outputs<" +
      outputs +
      ">;\n"
      "using folds = results::folds;\n"
      "using source = cuda::stored_elements<" +
      (k.two ? "pairs_with_place, " : "with_place, ") + type_name(k.in) +
      ">;\n"
      "static_assert(sizeof(fold::settled<folds, double>) == " +
      std::to_string(k.state_bytes) +
      ");\n"
      "}  // namespace kernel\n";
  return {text, expression_of(k)};
}

std::string signature_of(const kernel& k) {
  std::string s{static_cast<char>(k.what), static_cast<char>(k.in),
                static_cast<char>(k.two | k.aligned << 1)};
  for (const kernel_output& o : k.outputs)
    s.append({static_cast<char>(o.op), static_cast<char>(o.method), static_cast<char>(o.acc),
              static_cast<char>(o.out)});
  return s;
}

}  // namespace bitfold::gpu
