#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/files.h>

#include <nlohmann/json.hpp>
#include <string>

namespace tsq::io {

/// Where a lowered module carries its metadata until it is saved.
inline constexpr const char* kMetadataAttribute = "tsq_metadata";

/// Writes `path` whole or not at all, with `metadata` among the archive's extra files. Throws
/// Error(BadOutput).
void save_archive(const torch::jit::Module& module, const nlohmann::json& metadata, const std::string& path,
                  const ExtraFiles& extra_files);

}  // namespace tsq::io
