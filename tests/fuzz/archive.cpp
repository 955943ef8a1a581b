// Archives of PyTorch: what looks at them before LibTorch does passes each, or refuses it by a tsq::Error.
#include <tsq/error.h>

#include "fuzz/input.h"
#include "io/checked_archive.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const tsq::fuzz::MemoryFile file({reinterpret_cast<const char*>(data), size});
  try {
    tsq::io::check_archive(file.path(), tsq::ErrorCode::BadModel);
  } catch (const tsq::Error&) {
  }
  return 0;
}
