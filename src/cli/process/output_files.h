#pragma once

#include <filesystem>
#include <functional>
#include <initializer_list>
#include <list>
#include <string>
#include <vector>

#include "cli/process/scratch_directory.h"

namespace tsq::cli {

/// The files that a command writes. They are written in a directory of their own beside their place and moved
/// there together when all are whole: a fault, a signal or a full disk leaves no new file and every old one
/// as it was.
class OutputFiles {
 public:
  /// `inputs`: files that no output may replace; an empty name is none.
  OutputFiles(std::initializer_list<std::vector<std::string>> inputs);
  OutputFiles(const OutputFiles&) = delete;
  OutputFiles& operator=(const OutputFiles&) = delete;

  /// Claims `path`, before the long work. Throws Error(BadOutput) when it can be seen that writing there will
  /// fail.
  void claim(const std::string& path);
  /// `writer` gets the place where to write what shall become the claimed `path`.
  void write(const std::string& path, const std::function<void(const std::string& place)>& writer);
  /// Writes a text as the claimed `path`. Throws Error(BadOutput).
  void write_text(const std::string& path, const std::string& text);
  /// Moves all staged files to their places. Throws Error(BadOutput).
  void commit();

 private:
  struct Staged {
    std::filesystem::path from;
    std::filesystem::path to;
  };
  std::filesystem::path staging_directory(const std::filesystem::path& beside);

  std::vector<std::string> inputs_{};
  std::vector<std::filesystem::path> claimed_{};
  std::vector<Staged> staged_{};
  std::list<ScratchDirectory> directories_{};
};

}  // namespace tsq::cli
