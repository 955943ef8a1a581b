#include "cli/process/output_files.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <tsq/error.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/pending_file.h"
#include "cli/process/given_paths.h"

namespace tsq::cli {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_output(const std::string& problem, const std::string& remedy = {}) {
  throw Error(ErrorCode::BadOutput, problem, remedy);
}

[[noreturn]] void refuse_place(const std::string& path, const std::string& reason,
                               const std::string& remedy = {}) {
  refuse_output(fmt::format("output '{}' cannot be written: {}", path, reason), remedy);
}

/// Something that is there may be replaced when it is a file, and a link only when it leads to one.
void check_what_is_there(const std::string& path) {
  std::error_code code;
  const fs::file_status status = fs::status(path, code);
  if (status.type() == fs::file_type::none) refuse_place(path, code.message(), "name another file");
  if (fs::is_directory(status))
    refuse_output(fmt::format("output '{}' is a directory", path), "name a file in it");
  if (fs::exists(status) && !fs::is_regular_file(status))
    refuse_output(fmt::format("output '{}' exists and is not a regular file", path), "name a file");
  if (path.ends_with('/'))
    refuse_output(fmt::format("output '{}' names a directory", path), "name a file in it");
  if (!fs::exists(status) && fs::is_symlink(fs::symlink_status(path, code)))
    refuse_output(fmt::format("output '{}' is a link to '{}', which does not exist", path,
                              fs::read_symlink(path, code).string()),
                  "remove the link, or name another file");
  if (fs::exists(status) && access(path.c_str(), W_OK) != 0)
    refuse_place(path, fmt::format("it exists: {}", std::strerror(errno)), "name another file, or delete it");
}

void check_directory(const std::string& path, const fs::path& directory) {
  std::error_code code;
  if (!fs::is_directory(directory, code)) {
    if (fs::exists(directory, code))
      refuse_place(path, fmt::format("'{}' is not a directory", directory.string()));
    refuse_place(path, fmt::format("directory '{}' does not exist", directory.string()), "create it first");
  }
  if (access(directory.c_str(), W_OK | X_OK) != 0)
    refuse_place(path, fmt::format("directory '{}': {}", directory.string(), std::strerror(errno)));
}

/// In a directory like /tmp nobody replaces the file of another user.
void check_owner(const std::string& path, const fs::path& place) {
  struct stat file {};
  struct stat directory {};
  if (stat(place.c_str(), &file) != 0 || stat(place.parent_path().c_str(), &directory) != 0) return;
  const uid_t user = geteuid();
  const bool may = user == 0 || user == file.st_uid || user == directory.st_uid;
  if ((directory.st_mode & S_ISVTX) != 0 && !may)
    refuse_place(path, "it belongs to another user", "name another file");
}

/// The file that `path` means, through symbolic links, so that a link is not replaced by a file.
fs::path place_of(const std::string& path) {
  check_what_is_there(path);
  std::error_code code;
  const fs::path absolute = fs::absolute(path, code);
  const fs::path place = code ? fs::path() : fs::weakly_canonical(absolute, code);
  if (code) refuse_place(path, code.message(), "name another file");
  check_directory(path, place.parent_path());
  check_owner(path, place);
  return place;
}

void refuse_input(const GivenPath& output, const fs::path& place, const std::vector<GivenPath>& inputs) {
  for (const GivenPath& input : inputs) {
    std::error_code code;
    if (fs::equivalent(place, input.file, code))
      refuse_output(fmt::format("output '{}' ({}) is the input '{}' ({})", output.file, output.option,
                                input.file, input.option),
                    "name another file: inputs are never replaced");
  }
}

/// The file would take the place of the one that gets what is printed, which would be lost.
void refuse_stream(const GivenPath& output, const fs::path& place) {
  struct stat file {};
  if (stat(place.c_str(), &file) != 0) return;
  for (const auto& [number, name] :
       {std::pair{STDOUT_FILENO, "standard output"}, std::pair{STDERR_FILENO, "standard error"}}) {
    struct stat stream {};
    if (fstat(number, &stream) == 0 && stream.st_dev == file.st_dev && stream.st_ino == file.st_ino)
      refuse_output(
          fmt::format("output '{}' ({}) is the file that {} goes to", output.file, output.option, name),
          "name another file");
  }
}

/// One directory may have several names.
bool are_one(const fs::path& one, const fs::path& other) {
  std::error_code code;
  return one == other ||
         (one.filename() == other.filename() && fs::equivalent(one.parent_path(), other.parent_path(), code));
}

}  // namespace

void claim_outputs(Session& session) {
  const GivenPaths given = given_paths(session.path_options);
  for (const GivenPath& output : given.outputs) {
    const fs::path place = place_of(output.file);
    refuse_input(output, place, given.inputs);
    refuse_stream(output, place);
    for (const ClaimedOutput& other : session.outputs) {
      if (are_one(other.place, place))
        refuse_output(fmt::format("two outputs are one file: '{}' and '{}' ({})", other.path, output.file,
                                  output.option),
                      "give each its own");
    }
    const ScratchDirectory can_be_made(place.parent_path());  // not in /proc, whatever its permissions say
    session.outputs.push_back({.path = output.file, .place = place});
  }
}

fs::path OutputFiles::staging_directory(const fs::path& beside) {
  for (const ScratchDirectory& directory : directories_) {
    if (directory.path().parent_path() == beside) return directory.path();
  }
  return directories_.emplace_back(beside).path();
}

void OutputFiles::write(const std::string& path, const std::function<void(const std::string&)>& writer) {
  const auto claimed = std::ranges::find(claimed_, path, &ClaimedOutput::path);
  if (claimed == claimed_.end())
    throw Error(ErrorCode::Internal, fmt::format("output '{}' is written by no option for outputs", path));
  // Not under its own name, which may be as long as names can be.
  const fs::path staging = staging_directory(claimed->place.parent_path());
  const std::string from = (staging / std::to_string(staged_.size())).string();
  staged_.push_back({.from = from, .to = claimed->place});
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

void OutputFiles::write_json(const std::string& path, const nlohmann::json& value) {
  // Names of files and of layers can hold any bytes; JSON stays valid UTF-8.
  write_text(path, value.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n');
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
