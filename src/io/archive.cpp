#include "io/archive.h"

#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <torch/csrc/jit/serialization/import.h>
#include <tsq/error.h>
#include <tsq/files.h>
#include <tsq/parse_json.h>
#include <tsq/try_load.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <ostream>
#include <streambuf>
#include <utility>

#include "backends/kernels/engine.h"
#include "backends/kernels/engine_packing.h"
#include "base/figures.h"
#include "base/known_engines.h"
#include "base/libtorch_error.h"
#include "base/pending_file.h"
#include "io/attribute_types.h"
#include "io/checked_archive.h"
#include "io/deflated.h"
#include "io/devices.h"
#include "io/file_kind.h"
#include "io/libraries.h"
#include "torchscript/float_model.h"

namespace tsq {
namespace {

constexpr const char* kMetadataFile = "tsq.json";

void check_readable(const std::string& path) {
  std::error_code code;
  const auto status = std::filesystem::status(path, code);
  if (!std::filesystem::exists(status))
    throw Error(ErrorCode::BadModel, fmt::format("model file '{}' does not exist", path), "check the path");
  if (std::filesystem::is_directory(status))
    throw Error(ErrorCode::BadModel, fmt::format("'{}' is a directory, not a model file", path),
                "give the .pt file");
  if (!std::filesystem::is_regular_file(status))
    throw Error(ErrorCode::BadModel, fmt::format("'{}' is not a regular file", path), "give the .pt file");
  if (std::filesystem::file_size(path, code) == 0)
    throw Error(ErrorCode::BadModel, fmt::format("model file '{}' is empty", path), "export the model again");
  if (::access(path.c_str(), R_OK) != 0)
    throw Error(ErrorCode::BadModel,
                fmt::format("model file '{}' cannot be read: {}", path, std::strerror(errno)),
                "check its permissions");
}

/// The operator or class that a file needs and this process lacks, by what LibTorch says of it; empty for
/// other texts.
std::string missing_name(std::string_view why) {
  constexpr std::string_view kOperator = "Unknown builtin op: ";
  constexpr std::string_view kClass = "Unknown type name '__torch__.torch.classes.";
  const auto after = [&](std::string_view words, std::string_view end) {
    const std::size_t begin = why.find(words);
    if (begin == std::string_view::npos) return std::string();
    const std::string_view rest = why.substr(begin + words.size());
    return std::string(rest.substr(0, rest.find_first_of(end)));
  };
  if (const std::string name = after(kOperator, " .\n"); !name.empty())
    return fmt::format("the operator '{}'", name);
  const std::string name = after(kClass, "'");
  return name.empty() ? std::string() : fmt::format("the class '{}'", name);
}

/// The name of an attribute as LibTorch writes a variable for it, "gr____e" of "größe", where it stopped;
/// empty where it does not tell.
std::string name_read(std::string_view why) {
  const std::size_t end = why.find(" = getattr(");
  if (end == std::string_view::npos) return {};
  const std::size_t begin = why.find_last_of(" \n", end - 1) + 1;  // npos + 1 is 0
  const std::string_view name = why.substr(begin, end - begin);
  return name.find("__") == std::string_view::npos ? std::string() : std::string(name);
}

constexpr const char* kRename = "give it another name in the model's source, and save the model again";

/// `exception` is what LibTorch threw when it read the file.
Error not_torchscript(const std::string& path, const std::exception& exception) {
  rethrow_out_of_memory(exception);
  const std::string why = reason_of(exception);
  // What torch.jit.save writes of a constant in oneDNN's own layout, no LibTorch reads.
  if (why.find("required keyword attribute 'value' is undefined") != std::string::npos) {
    return Error(
        ErrorCode::BadModel,
        fmt::format("'{}' was saved after torch.jit.optimize_for_inference, and no LibTorch can load it "
                    "({})",
                    path, why),
        "save the model before it is optimized; freezing it is fine");
  }
  // torch.jit.save writes such names as they are, and LibTorch's lexer does not know their letters.
  if (const std::string name = name_outside_ascii(without_stack(exception));
      !name.empty() && why.find("expected a valid token") != std::string::npos) {
    return Error(
        ErrorCode::BadModel,
        fmt::format("'{}' has the name '{}', and LibTorch cannot load names with letters outside of ASCII",
                    path, name),
        kRename);
  }
  // It writes such names of modules, parameters and buffers as octal numbers that it cannot read.
  if (why.find("ill formed octal specifier") != std::string::npos) {
    const std::string name = name_read(without_stack(exception));
    return Error(
        ErrorCode::BadModel,
        fmt::format("'{}' has a module, parameter or buffer whose name has letters outside of "
                    "ASCII{}, and LibTorch cannot load such names",
                    path, name.empty() ? "" : fmt::format(" ('{}', each '_' is one byte of them)", name)),
        kRename);
  }
  if (const std::string name = missing_name(without_stack(exception)); !name.empty()) {
    return Error(ErrorCode::BadModel, fmt::format("'{}' needs {}, which no loaded library has", path, name),
                 "load the library that has it first, by tsq::load_library or the command's --library");
  }
  if (const io::FileKind kind = io::kind_of_file(path); !kind.what.empty())
    return Error(ErrorCode::BadModel, fmt::format("'{}' is not a TorchScript file but {}", path, kind.what),
                 kind.remedy);
  return Error(
      ErrorCode::BadModel,
      fmt::format("'{}' is not a TorchScript file that LibTorch can load ({})", path, why),
      "give a file of torch.jit.save; torch.save of a module or of weights writes another kind of file");
}

constexpr const char* kWriteAgain = "write the file again with the tsq that made it";

/// The text of tsq's own record; none in files of other programs.
std::optional<std::string> metadata_in(const std::string& path,
                                       caffe2::serialize::PyTorchStreamReader& reader) {
  const std::string record = std::string("extra/") + kMetadataFile;
  if (!reader.hasRecord(record)) return std::nullopt;
  if (const std::size_t size = reader.getRecordSize(record); size > kLongestJson) {
    throw Error(ErrorCode::BadModel,
                fmt::format("'{}': its record '{}' has {}, and no more than {} are read", path, kMetadataFile,
                            readable_size(size), readable_size(kLongestJson)),
                kWriteAgain);
  }
  const auto [data, size] = reader.getRecord(record);
  return std::string(static_cast<const char*>(data.get()), size);
}

/// The members that tsq reads by their type.
void check_metadata(const std::string& path, const nlohmann::json& metadata) {
  using Type = nlohmann::json::value_t;
  constexpr std::array<std::pair<const char*, Type>, 17> kMembers{{{"tsq", Type::string},
                                                                   {"torch", Type::string},
                                                                   {"stage", Type::string},
                                                                   {"mode", Type::string},
                                                                   {"recipe", Type::string},
                                                                   {"backend", Type::string},
                                                                   {"engine", Type::string},
                                                                   {"target", Type::string},
                                                                   {"target_cpu", Type::string},
                                                                   {"weight_rounding", Type::string},
                                                                   {"effort", Type::string},
                                                                   {"float_dtype", Type::string},
                                                                   {"libraries", Type::array},
                                                                   {"kept_float", Type::object},
                                                                   {"training", Type::boolean},
                                                                   {"python_source", Type::boolean},
                                                                   {"preserved_attributes", Type::array}}};
  const auto fail = [&](const std::string& problem) {
    throw Error(ErrorCode::BadModel, fmt::format("'{}': its record '{}' {}", path, kMetadataFile, problem),
                kWriteAgain);
  };
  if (!metadata.is_object()) fail("holds no object");
  for (const auto& [key, type] : kMembers) {
    if (metadata.contains(key) && metadata[key].type() != type)
      fail(fmt::format("has a {} as '{}'", metadata[key].type_name(), key));
  }
}

/// The engine that a quantized file's weights are packed for while it is loaded.
std::optional<at::QEngine> engine_in(const nlohmann::json& metadata) {
  if (metadata.is_null() || metadata.value("stage", "") != "quantized") return std::nullopt;
  const std::string name = metadata.value("engine", "");
  return name.empty() || name == kNoEngine ? std::nullopt : std::optional(engine_from_name(name));
}

}  // namespace

void io::save_archive(const torch::jit::Module& module, const nlohmann::json& metadata,
                      const std::string& path, const ExtraFiles& extra_files) {
  PendingFile pending(path);
  torch::jit::ExtraFilesMap extra(extra_files.begin(), extra_files.end());
  if (!metadata.is_null()) extra[kMetadataFile] = metadata.dump();
  std::ostream stream(&pending);
  module.save(stream, extra);
  pending.commit();
}

void save(const torch::jit::Module& module, const std::string& path, const ExtraFiles& extra_files) {
  torchscript::check_not_empty(module);
  if (!module.hasattr(io::kMetadataAttribute)) return io::save_archive(module, nullptr, path, extra_files);
  const std::string text = module.attr(io::kMetadataAttribute).toStringRef();
  // The text is a file of its own in the archive; the module need not hold it again.
  torch::jit::Module without = module.copy();
  without.setattr(io::kMetadataAttribute, std::string());
  io::save_archive(without, text.empty() ? nlohmann::json() : nlohmann::json::parse(text), path, extra_files);
}

ExtraFiles read_extra_files(const std::string& path) {
  constexpr std::string_view kFolder = "extra/";
  check_readable(path);
  try {
    caffe2::serialize::PyTorchStreamReader reader(path);
    ExtraFiles files;
    for (const std::string& record : reader.getAllRecords()) {
      if (!record.starts_with(kFolder) || record.substr(kFolder.size()) == kMetadataFile) continue;
      const auto [data, size] = reader.getRecord(record);
      files[record.substr(kFolder.size())] = std::string(static_cast<const char*>(data.get()), size);
    }
    return files;
  } catch (const std::exception& error) {
    throw not_torchscript(path, error);
  }
}

nlohmann::json read_metadata(const std::string& path) {
  check_readable(path);
  std::optional<std::string> text;
  try {
    caffe2::serialize::PyTorchStreamReader reader(path);
    text = metadata_in(path, reader);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw not_torchscript(path, error);
  }
  if (!text) return nullptr;
  nlohmann::json metadata;
  try {
    metadata = parse_json(*text, fmt::format("'{}': its record '{}'", path, kMetadataFile));
  } catch (const Error& error) {
    throw Error(ErrorCode::BadModel, error.problem(), kWriteAgain);
  }
  check_metadata(path, metadata);
  return metadata;
}

std::optional<Plan> read_plan(const std::string& path) {
  const nlohmann::json metadata = read_metadata(path);
  if (!metadata.is_object() || !metadata.contains("plan")) return std::nullopt;
  const auto fail = [&](const std::string& problem) {
    return Error(ErrorCode::BadModel, fmt::format("'{}': the plan in its record {}", path, problem),
                 kWriteAgain);
  };
  const auto text = io::inflated(metadata["plan"]);
  if (!text) throw fail("is damaged");
  try {
    return Plan::from_dict(parse_json(*text, "plan"));
  } catch (const Error& error) {
    throw fail("cannot be read: " + error.problem());
  }
}

void check_model_file(const std::string& path) {
  check_readable(path);
  io::check_archive(path, ErrorCode::BadModel);
}

torch::jit::Module load(const std::string& path) {
  check_model_file(path);
  const nlohmann::json metadata = read_metadata(path);
  const std::optional<at::QEngine> engine = engine_in(metadata);
  // A file of another tool may hold weights to pack, too: for the engine in use.
  const kernels::EnginePacking packing(engine.value_or(engine_in_use()));
  try {
    io::load_runtime_for(path);
    torch::jit::Module module = torch::jit::load(path, at::kCPU);
    io::check_attributes(path, module);
    if (!metadata.is_null() && module.hasattr(io::kMetadataAttribute))
      module.setattr(io::kMetadataAttribute, metadata.dump());
    io::move_to_cpu(module);
    if (engine) packing.keep_for_process();
    return module;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw not_torchscript(path, error);
  }
}

std::vector<std::string> foreign_devices(const std::string& path) {
  check_readable(path);
  try {
    return io::devices_in_archive(path);
  } catch (const std::exception& error) {
    throw not_torchscript(path, error);
  }
}

}  // namespace tsq
