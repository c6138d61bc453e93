// Where the libraries lie that GPUs need, beside where the loader looks.
#pragma once

namespace bitfold::cli {

/// PyTorch brings NVRTC and cuBLASLt as packages of PyPI. Those of the Python environment that this
/// command was installed in, or else of the `python3` that PATH finds, are tried first.
void look_for_gpu_libraries();

}  // namespace bitfold::cli
