#pragma once

#include <cstdio>
#include <streambuf>
#include <string>

namespace tsq {

/// Bytes into a file beside the target, which take the target's place at commit. A failed write is kept and
/// told at commit: LibTorch's archive writer ends the program when its stream fails while it is destroyed.
class PendingFile : public std::streambuf {
 public:
  explicit PendingFile(std::string target);
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;
  ~PendingFile() override;

  /// Throws Error(BadOutput) where something could not be written; the target is then as it was.
  void commit();

 private:
  std::streamsize xsputn(const char* bytes, std::streamsize count) override;
  int overflow(int byte) override;
  void fail();

  std::string target_;
  std::string path_;
  std::FILE* file_{nullptr};
  int error_{0};
  bool committed_{false};
};

}  // namespace tsq
