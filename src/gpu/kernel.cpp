#include "kernel.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace bitfold::gpu {

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

namespace {

std::string alignment_of(const fold_kernel& k) {
  return std::string("bitfold::cuda::alignment::") + (k.two       ? "asked, "
                                                      : k.aligned ? "known, "
                                                                  : "missing, ");
}

std::string expression_of(const fold_kernel& k) {
  const std::string folds = "<kernel::folds, ", source = "kernel::source, ",
                    end = "kernel::accumulator, ", results = "kernel::results>";
  const auto number = [](int n) { return std::to_string(n) + ", "; };
  // Of what there is at least one of.
  const auto count = [&](int n) {
    if (n == 0)
      throw std::logic_error("a kernel by " + std::string(name(k.what)) + " for no number");
    return number(n);
  };
  const auto of = [&](const char* name, const std::string& more = "") {
    return "bitfold::cuda::" + std::string(name) + folds + source + end + more + results;
  };
  switch (k.what) {
    case strategy::tiles: return of("fold_elements", alignment_of(k));
    case strategy::tile_nodes:
      return "bitfold::cuda::fold_elements" + folds + source + end + alignment_of(k) +
             (k.two ? "bitfold::cuda::own::no_results>" : results);
    case strategy::one_node: return of("fold_leaves", "true, ");
    case strategy::leaf_nodes: return of("fold_leaves", "false, ");
    case strategy::states: return "bitfold::cuda::fold_nodes" + folds + end + results;
    case strategy::threads: return of("fold_outputs_by_threads");
    case strategy::lines:
      return of("fold_lines_by_threads", count(k.first_number) + number(k.second_number));
    case strategy::staged_threads: return of("fold_staged_rows");
    case strategy::columns: return of("fold_columns", count(k.first_number));
    case strategy::short_columns:
      return of("fold_short_columns", count(k.first_number) + count(k.second_number));
    case strategy::row_teams:
      return of("fold_rows_by_teams", count(k.first_number) + count(k.second_number));
    case strategy::leaf_teams: return of("fold_leaves_by_teams");
    case strategy::warps: return of("fold_outputs_by_warps");
    case strategy::blocks: return of("fold_outputs");
    case strategy::patches:
      return "bitfold::cuda::fold_patches" + folds + source + end + "std::uint" +
             std::to_string(8 * k.first_number) + "_t>";
    case strategy::across:
      return "bitfold::cuda::fold_leaves_across" + folds + source + end + count(k.first_number) +
             std::to_string(k.second_number) + ">";
    case strategy::longer_nodes:
      return "bitfold::cuda::fold_longer_nodes<kernel::folds, kernel::accumulator>";
    case strategy::output_states:
      return "bitfold::cuda::fold_nodes_of_outputs" + folds + end + results;
    case strategy::short_segments: return of("fold_short_segments");
    case strategy::segment_nodes: return of("fold_nodes_of_segments");
    case strategy::segment_states: break;
  }
  return "bitfold::cuda::fold_long_segments" + folds + end + results;
}

std::string source_type(const fold_kernel& k) {
  const std::string of = (k.two ? "<pairs_with_place, " : "<with_place, ") + type_name(k.in) + ">";
  switch (k.how) {
    case reading::array: return "cuda::stored_elements" + of;
    case reading::rows: return "cuda::row_elements" + of;
    case reading::runs: return "cuda::run_elements" + of;
    case reading::alike:
    case reading::alike_packets:
      return std::string(k.how == reading::alike ? "cuda::alike_pairs" : "cuda::alike_packets") +
             "<cuda::nothing_known<pairs_with_place>, " + type_name(k.in) + ">";
    case reading::anywhere: break;
  }
  return (k.two ? "cuda::found_pairs" : "cuda::found_elements") + of;
}

kernel_source source_of(const instantiation& k) {
  return {"#include <" + std::string(k.header) +
              ">\nnamespace kernel {\nusing namespace bitfold;\n" + k.definitions +
              "}  // namespace kernel\n",
          k.expression};
}

kernel_source source_of(const fold_kernel& k) {
  std::string outputs;
  for (const kernel_output& o : k.outputs) {
    outputs += outputs.empty() ? "" : ",\n                        ";
    outputs += "output<op_id::" + std::string(name(o.op)) +
               ", method::" + std::string(name(o.method)) + ", " + type_name(k.in) + ", " +
               type_name(o.acc) + ", " + type_name(o.out) + ">";
  }
  // What a kernel takes for the accumulator of all: the widest.
  const bool narrow = std::all_of(k.outputs.begin(), k.outputs.end(),
                                  [](const kernel_output& o) { return o.acc == dtype::f32; });
  const std::string text =
      "#include <bitfold/cuda/fused.cuh>\n"
      "#include <bitfold/cuda/outputs.cuh>\n"
      "namespace kernel {\n"
      "using namespace bitfold;\n"
      "using namespace bitfold::cuda::own;\n"
      "using results = outputs<" +
      outputs +
      ">;\n"
      "using folds = results::folds;\n"
      "using accumulator = " +
      (narrow ? "float" : "double") +
      ";\n"
      "using source = " +
      source_type(k) +
      ";\n"
      "static_assert(sizeof(fold::partial<folds, accumulator>) == " +
      std::to_string(k.state_bytes) +
      ");\n"
      "}  // namespace kernel\n";
  return {text, expression_of(k)};
}

std::string signature_of(const fold_kernel& k) {
  std::string s{static_cast<char>(k.what),         static_cast<char>(k.how),
                static_cast<char>(k.in),           static_cast<char>(k.two | k.aligned << 1),
                static_cast<char>(k.first_number), static_cast<char>(k.second_number)};
  for (const kernel_output& o : k.outputs)
    s.append({static_cast<char>(o.op), static_cast<char>(o.method), static_cast<char>(o.acc),
              static_cast<char>(o.out)});
  return s;
}
std::string signature_of(const instantiation& k) { return k.expression + '\n' + k.definitions; }

}  // namespace

instantiation fold_of(strategy what, int first_number, int second_number, std::string_view header,
                      std::string definitions) {
  fold_kernel k{};
  k.what = what;
  k.first_number = static_cast<std::uint8_t>(first_number);
  k.second_number = static_cast<std::uint8_t>(second_number);
  return {name(what), header, std::move(definitions), expression_of(k)};
}

kernel_source source_of(const kernel& k) {
  return std::visit([](const auto& one) { return source_of(one); }, k);
}
std::string signature_of(const kernel& k) {
  return std::visit([](const auto& one) { return signature_of(one); }, k);
}
std::string_view name(const kernel& k) {
  if (const auto* fold = std::get_if<fold_kernel>(&k)) return name(fold->what);
  return std::get<instantiation>(k).name;
}

}  // namespace bitfold::gpu
