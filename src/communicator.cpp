#include <bitfold/communicator.hpp>

#include <new>

namespace bitfold {
namespace {
constexpr std::align_val_t alignment{64};
}

void communicator::free_room::operator()(std::byte* at) const { ::operator delete(at, alignment); }

std::byte* communicator::room(std::size_t bytes) {
  if (room_bytes_ < bytes) {
    room_.reset();
    room_bytes_ = 0;
    room_.reset(static_cast<std::byte*>(::operator new(bytes, alignment)));
    room_bytes_ = bytes;
  }
  return room_.get();
}

}  // namespace bitfold
