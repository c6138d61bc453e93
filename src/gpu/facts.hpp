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
  int threads, blocks;           ///< that a processor holds at once
  const tuning* numbers;         ///< the table for it
};

/// Asked of the driver once for each device. Errors: errc::no_device.
const device_facts& facts_of_device(int device);
const device_facts& facts_of_current_device();  ///< of this thread
/// Of GPUs of that capability, of which none need be here: as the table of compute capabilities in
/// NVIDIA's CUDA Programming Guide has it, which says nothing of processors; there are as many as a
/// common one has. A capability that the table does not have is taken for the nearest below. They
/// decide how work is shared out, and no bit.
device_facts facts_of(capability of);

}  // namespace bitfold::gpu
