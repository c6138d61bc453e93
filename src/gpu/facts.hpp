// What a plan knows of a GPU.
#pragma once

#include <string>

#include "tuning.hpp"

namespace bitfold::gpu {

/// Compute capability.
struct capability {
  int major, minor;
};

struct device_facts {
  std::string name;
  int major, minor;              ///< its compute capability
  std::size_t max_shared_bytes;  ///< that a block can ask for
  std::size_t shared_bytes;      ///< of a processor
  int processors;                ///< multiprocessors
  const tuning* numbers;         ///< the table for it
};

/// Asked of the driver once for each device. Errors: errc::no_device.
const device_facts& facts_of_device(int device);
const device_facts& facts_of_current_device();  ///< of this thread
/// Of GPUs of that capability (NVIDIA, CUDA C++ Programming Guide, Compute Capabilities), of which
/// none need be here; with as many processors as a common one has.
device_facts facts_of(capability of);

}  // namespace bitfold::gpu
