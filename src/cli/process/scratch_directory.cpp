#include "cli/process/scratch_directory.h"

#include <fmt/format.h>
#include <tsq/error.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "cli/process/interrupt.h"

namespace tsq::cli {

ScratchDirectory::ScratchDirectory(const std::filesystem::path& parent) {
  std::string name = (parent / ".tsq-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    throw Error(ErrorCode::BadOutput, fmt::format("nothing can be written in directory '{}': {}",
                                                  parent.string(), std::strerror(errno)));
  }
  remove_on_signal(name);
  path_ = name;
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code code;
  std::filesystem::remove_all(path_, code);
  keep_on_signal(path_);
}

}  // namespace tsq::cli
