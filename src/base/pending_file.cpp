#include "base/pending_file.h"

#include <fmt/format.h>
#include <tsq/error.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tsq {

namespace {

/// A name beside the target that nothing else has taken. The target's own may be as long as names can be.
std::string name_beside(const std::string& target) {
  static std::atomic<unsigned> count{0};
  const std::string folder = target.substr(0, target.rfind('/') + 1);
  return fmt::format("{}.tsq-{}-{}.tmp", folder, ::getpid(), count++);
}

}  // namespace

PendingFile::PendingFile(std::string target) : target_(std::move(target)) {
  constexpr int kAttempts = 100;  // a process of the same number may have left files when it was killed
  for (int attempt = 0; attempt < kAttempts && file_ == nullptr; ++attempt) {
    path_ = name_beside(target_);
    file_ = std::fopen(path_.c_str(), "wbx");
    if (file_ == nullptr && errno != EEXIST) break;
  }
  if (file_ != nullptr) return;
  fail();
  path_.clear();  // it may be the file of another
}

PendingFile::~PendingFile() {
  if (file_ != nullptr) std::fclose(file_);
  if (!committed_) std::remove(path_.c_str());
}

void PendingFile::commit() {
  if (file_ != nullptr) {
    if (std::fflush(file_) != 0 || ::fsync(::fileno(file_)) != 0) fail();
    if (std::fclose(std::exchange(file_, nullptr)) != 0) fail();
  }
  if (error_ == 0 && std::rename(path_.c_str(), target_.c_str()) != 0) fail();
  if (error_ != 0) {
    throw Error(ErrorCode::BadOutput, fmt::format("cannot write '{}': {}", target_, std::strerror(error_)),
                "choose a path that can be written, with room for the file");
  }
  committed_ = true;
}

std::streamsize PendingFile::xsputn(const char* bytes, std::streamsize count) {
  const auto size = static_cast<std::size_t>(count);
  if (error_ == 0 && size > 0 && std::fwrite(bytes, 1, size, file_) != size) fail();
  return count;
}

int PendingFile::overflow(int byte) {
  const char one = static_cast<char>(byte);
  xsputn(&one, 1);
  return 0;
}

void PendingFile::fail() {
  if (error_ == 0) error_ = errno != 0 ? errno : EIO;
}

}  // namespace tsq
