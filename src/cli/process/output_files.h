#pragma once

#include <filesystem>
#include <functional>
#include <list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/process/scratch_directory.h"
#include "cli/process/session.h"

namespace tsq::cli {

/// Claims the outputs that the command line names, before any work. Throws Error(BadOutput) when it can be
/// seen that writing one will fail, or replace an input or another output, UsageError for an empty name.
void claim_outputs(Session& session);

/// The files that a command writes. They are written in a directory of their own beside their place and moved
/// there together when all are whole: a fault, a signal or a full disk leaves no new file and every old one
/// as it was.
class OutputFiles {
 public:
  explicit OutputFiles(const Session& session) : claimed_(session.outputs) {}
  OutputFiles(const OutputFiles&) = delete;
  OutputFiles& operator=(const OutputFiles&) = delete;

  /// `writer` gets the place where to write what shall become the claimed `path`.
  void write(const std::string& path, const std::function<void(const std::string& place)>& writer);
  /// Writes a text as the claimed `path`. Throws Error(BadOutput).
  void write_text(const std::string& path, const std::string& text);
  /// Writes a JSON value as the claimed `path`. Throws Error(BadOutput).
  void write_json(const std::string& path, const nlohmann::json& value);
  /// Moves all staged files to their places. Throws Error(BadOutput).
  void commit();

 private:
  struct Staged {
    std::filesystem::path from;
    std::filesystem::path to;
  };
  std::filesystem::path staging_directory(const std::filesystem::path& beside);

  std::vector<ClaimedOutput> claimed_;
  std::vector<Staged> staged_{};
  std::list<ScratchDirectory> directories_{};
};

}  // namespace tsq::cli
