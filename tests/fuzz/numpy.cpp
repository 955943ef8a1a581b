// `.npy` and `.npz` files: each is read, or refused by a tsq::Error.
#include <tsq/error.h>

#include "fuzz/input.h"
#include "io/numpy_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const tsq::fuzz::MemoryFile file({reinterpret_cast<const char*>(data), size});
  try {
    if (tsq::io::is_npy(file.path())) {
      (void)tsq::io::read_npy(file.path());
    } else if (tsq::io::is_npz(file.path())) {
      (void)tsq::io::read_npz(file.path());
    }
  } catch (const tsq::Error&) {
  }
  return 0;
}
