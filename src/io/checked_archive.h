#pragma once

#include <tsq/error.h>

#include <string>

namespace tsq::io {

/// By its first two bytes.
bool is_zip(const std::string& path);

/// Looks at a zip archive of PyTorch before LibTorch reads it, which trusts it: that the directory agrees
/// with the records, that storages are as long as the pickles say, that pickles can be followed (see
/// pickle_walk.h) and that what is packed does not become more than is sensible. Says nothing of files of
/// other kinds, nor of what LibTorch itself refuses. Throws Error(`code`) that names the file and the record.
void check_archive(const std::string& path, ErrorCode code);

}  // namespace tsq::io
