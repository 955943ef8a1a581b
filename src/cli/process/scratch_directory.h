#pragma once

#include <filesystem>

namespace tsq::cli {

/// A new directory `.tsq-XXXXXX` in `parent`, for files on their way. Gone with the object, and when a signal
/// ends the program.
class ScratchDirectory {
 public:
  /// Throws Error(BadOutput) when nothing can be written in `parent`.
  explicit ScratchDirectory(const std::filesystem::path& parent);
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace tsq::cli
