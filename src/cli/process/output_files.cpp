#include "cli/process/output_files.h"

#include <fmt/format.h>
#include <tsq/error.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/pending_file.h"

namespace tsq::cli {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_output(const std::string& problem, const std::string& remedy = {}) {
  throw Error(ErrorCode::BadOutput, problem, remedy);
}

/// The file that `path` means, through symbolic links, so that a link is not replaced by a file.
fs::path real_place(const std::string& path) {
  std::error_code code;
  const fs::path place = fs::weakly_canonical(fs::absolute(path, code), code);
  if (code) refuse_output(fmt::format("output '{}' has no usable path: {}", path, code.message()));
  return place;
}

}  // namespace

OutputFiles::OutputFiles(std::initializer_list<std::vector<std::string>> inputs) {
  for (const std::vector<std::string>& files : inputs)
    inputs_.insert(inputs_.end(), files.begin(), files.end());
}

void OutputFiles::claim(const std::string& path) {
  if (path.empty()) refuse_output("an output has an empty name");
  std::error_code code;
  if (fs::is_directory(path, code))
    refuse_output(fmt::format("output '{}' is a directory", path), "name a file in it");
  if (path.ends_with('/'))
    refuse_output(fmt::format("output '{}' names a directory", path), "name a file in it");
  const fs::path place = real_place(path);
  if (fs::exists(place, code) && !fs::is_regular_file(place, code)) {
    refuse_output(fmt::format("output '{}' exists and is not a regular file", path), "name a file");
  }
  const fs::path parent = place.parent_path();
  if (!fs::is_directory(parent, code)) {
    refuse_output(
        fmt::format("output '{}' cannot be written: directory '{}' does not exist", path, parent.string()),
        "create it first");
  }
  if (access(parent.c_str(), W_OK | X_OK) != 0) {
    refuse_output(fmt::format("output '{}' cannot be written: directory '{}': {}", path, parent.string(),
                              std::strerror(errno)));
  }
  for (const std::string& input : inputs_) {
    if (fs::equivalent(place, input, code)) {
      refuse_output(fmt::format("output '{}' is the input '{}'", path, input),
                    "name another file: inputs are never replaced");
    }
  }
  for (const fs::path& other : claimed_) {
    if (other == place)
      refuse_output(fmt::format("two outputs have the name '{}'", path), "give each its own");
  }
  claimed_.push_back(place);
}

fs::path OutputFiles::staging_directory(const fs::path& beside) {
  for (const ScratchDirectory& directory : directories_) {
    if (directory.path().parent_path() == beside) return directory.path();
  }
  return directories_.emplace_back(beside).path();
}

void OutputFiles::write(const std::string& path, const std::function<void(const std::string&)>& writer) {
  const fs::path place = real_place(path);
  const std::string from = (staging_directory(place.parent_path()) / place.filename()).string();
  staged_.push_back({.from = from, .to = place});
  try {
    writer(from);
  } catch (const Error& e) {
    // The user knows nothing of the staging directory.
    std::string problem = e.problem();
    if (const auto at = problem.find(from); at != std::string::npos) problem.replace(at, from.size(), path);
    throw Error(e.code(), problem, e.remedy(), e.where());
  }
}

void OutputFiles::write_text(const std::string& path, const std::string& text) {
  write(path, [&](const std::string& place) {
    PendingFile file(place);
    file.sputn(text.data(), static_cast<std::streamsize>(text.size()));
    file.commit();
  });
}

void OutputFiles::commit() {
  for (const Staged& file : staged_) {
    std::error_code code;
    fs::rename(file.from, file.to, code);
    if (code)
      refuse_output(fmt::format("output '{}' cannot be written: {}", file.to.string(), code.message()));
  }
  staged_.clear();
}

}  // namespace tsq::cli
