#include "base/pending_file.h"

#include <fmt/format.h>
#include <tsq/error.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace tsq {

PendingFile::PendingFile(std::string target)
    : target_(std::move(target)),
      path_(fmt::format("{}.tsq-{}.tmp", target_, ::getpid())),
      file_(std::fopen(path_.c_str(), "wb")) {
  if (file_ == nullptr) fail();
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
  if (error_ == 0 && std::fwrite(bytes, 1, size, file_) != size) fail();
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
