// The pickles of archives: each can be walked over, or is refused by a PickleFault.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "io/pickle_walk.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    (void)tsq::io::walk_pickle(bytes);
  } catch (const tsq::io::PickleFault&) {
  }
  try {
    tsq::io::check_source_positions(bytes);
  } catch (const tsq::io::PickleFault&) {
  }
  return 0;
}
