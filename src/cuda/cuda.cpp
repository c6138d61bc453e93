#include <bitfold/cuda.hpp>

#include <cuda_runtime_api.h>

#include "../dispatch.hpp"
#include "kernels.hpp"

namespace bitfold::cuda {
namespace {

void check(cudaError_t err, const char* call) {
  if (err != cudaSuccess)
    throw error(errc::cuda, std::string(call) + ": " + cudaGetErrorString(err));
}

// Whether the current device starts a kernel before the one ahead of it has ended.
bool overlaps() {
  int device = 0, major = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
        "cudaDeviceGetAttribute");
  return major >= 9;
}

void check_arguments(const reduction& r, const void* x, const void* y, std::size_t n, const void* out) {
  if (r.method() == method_id::sequential)
    throw error(errc::usage, "method: sequential runs on the CPU only");
  detail::check_inputs(r, x, y, n);
  for (const void* data : {x, y})
    if (reinterpret_cast<std::uintptr_t>(data) % size_of(r.in()))
      throw error(errc::usage, "data: not aligned to its element");
  if (out == nullptr) throw error(errc::usage, "out: null pointer");
  if (devices().empty()) throw error(errc::no_device, "cuda: no usable GPU on this machine");
}

void run(const reduction& r, const void* x, const void* y, std::size_t n, void* out, const plan& p,
         void* workspace, stream where, bool overlap) {
  const auto aligned = [](const void* q) { return reinterpret_cast<std::uintptr_t>(q) % 16 == 0; };
  const arguments a{{x, y, r.in(), aligned(x) && aligned(y)},
                    n,
                    {out, r.out(), r.op(), r.ddof()},
                    workspace,
                    where,
                    overlap && p.nodes > 1 && overlaps()};
  if (detail::ordering_of(r) == ordering::sorted) {
    if (const char* err = launch_distinct(a)) throw error(errc::cuda, std::string("launch: ") + err);
    return;
  }
  using launcher = const char* (*)(const reduction&, const plan&, const arguments&);
  const launcher go = with_kernel<launcher>(r, []<class F, class T, class A>() -> launcher {
    return launch_part<kernel_choice<F, T, A>::in>;
  });
  if (const char* err = go(r, p, a)) throw error(errc::cuda, std::string("launch: ") + err);
}

// From the host's copy, which the call has taken before it returns.
void run_empty(const reduction& r, void* out, stream where) {
  const scalar s = detail::empty_result(r);
  std::byte bytes[8];
  store_scalar(s, bytes);
  for (std::size_t i = 0; i < size_of(r.out()); ++i)
    check(cudaMemsetAsync(static_cast<std::byte*>(out) + i, static_cast<int>(bytes[i]), 1, where),
          "cudaMemsetAsync");
}

}  // namespace

bool built() { return true; }

std::vector<std::string> devices() {
  static const std::vector<std::string> found = [] {
    std::vector<std::string> out;
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess) {
      cudaGetLastError();  // no driver or no GPU: not an error of the caller's
      return out;
    }
    for (int i = 0; i < count; ++i) {
      cudaDeviceProp p;
      if (cudaGetDeviceProperties(&p, i) == cudaSuccess) out.emplace_back(p.name);
    }
    return out;
  }();
  return found;
}

std::size_t workspace_bytes(const reduction& r, std::size_t n, const launch& shape) {
  return make_plan(r, n, shape).workspace;
}

void reduce(const reduction& r, const void* x, const void* y, std::size_t n, void* out, void* workspace,
            std::size_t workspace_size, stream where, const launch& shape) {
  check_arguments(r, x, y, n, out);
  const plan p = make_plan(r, n, shape);
  if (n == 0) return run_empty(r, out, where);
  if (workspace_size < p.workspace)
    throw error(errc::usage, "workspace_size: " + std::to_string(workspace_size) + " bytes, need " +
                                 std::to_string(p.workspace));
  if (p.workspace > 0 && (workspace == nullptr || reinterpret_cast<std::uintptr_t>(workspace) % 16))
    throw error(errc::usage, "workspace: null or not 16-byte aligned");
  run(r, x, y, n, out, p, workspace, where, shape.overlap);
}
void reduce(const reduction& r, const void* data, std::size_t n, void* out, void* workspace,
            std::size_t workspace_size, stream where, const launch& shape) {
  reduce(r, data, nullptr, n, out, workspace, workspace_size, where, shape);
}

void reduce(const reduction& r, const void* x, const void* y, std::size_t n, void* out, stream where,
            const launch& shape) {
  check_arguments(r, x, y, n, out);
  const plan p = make_plan(r, n, shape);
  if (n == 0) return run_empty(r, out, where);
  void* workspace = nullptr;
  if (p.workspace > 0) check(cudaMallocAsync(&workspace, p.workspace, where), "cudaMallocAsync");
  try {
    run(r, x, y, n, out, p, workspace, where, shape.overlap);
  } catch (...) {
    if (workspace) cudaFreeAsync(workspace, where);
    throw;
  }
  if (workspace) check(cudaFreeAsync(workspace, where), "cudaFreeAsync");
}
void reduce(const reduction& r, const void* data, std::size_t n, void* out, stream where,
            const launch& shape) {
  reduce(r, data, nullptr, n, out, where, shape);
}

scalar reduce_host(const reduction& r, const void* x, const void* y, std::size_t n, int device,
                   const launch& shape) {
  if (device < 0 || static_cast<std::size_t>(device) >= devices().size())
    throw error(errc::no_device, "cuda: no GPU number " + std::to_string(device) + "; " +
                                     std::to_string(devices().size()) + " usable");
  // Frees on every way out, and gives the caller's device back.
  struct memory {
    void* p = nullptr;
    explicit memory(std::size_t bytes) {
      const cudaError_t err = cudaMalloc(&p, bytes);
      if (err != cudaSuccess) cudaGetLastError();  // not sticky: leave nothing for the next call
      check(err, "cudaMalloc");
    }
    ~memory() { cudaFree(p); }
  };
  struct current_device {
    int before = 0;
    explicit current_device(int d) {
      check(cudaGetDevice(&before), "cudaGetDevice");
      check(cudaSetDevice(d), "cudaSetDevice");
    }
    ~current_device() { cudaSetDevice(before); }
  };
  const current_device guard(device);
  const std::size_t bytes = n * size_of(r.in());
  const memory first(bytes + 16), second(y ? bytes + 16 : 16), out(16), workspace(workspace_bytes(r, n, shape) + 16);
  check(cudaMemcpy(first.p, x, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  if (y) check(cudaMemcpy(second.p, y, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  reduce(r, first.p, y ? second.p : nullptr, n, out.p, workspace.p, workspace_bytes(r, n, shape), nullptr, shape);
  std::byte result[8] = {};
  check(cudaMemcpy(result, out.p, size_of(r.out()), cudaMemcpyDeviceToHost), "cudaMemcpy");
  return load_scalar(r.out(), result);
}

scalar reduce_host(const reduction& r, const void* data, std::size_t n, int device,
                   const launch& shape) {
  return reduce_host(r, data, nullptr, n, device, shape);
}

}  // namespace bitfold::cuda
