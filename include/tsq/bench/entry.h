#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tsq::bench {

/// What a loaded float file is made into before it runs.
enum class Form {
  AsSaved,
  Frozen,     ///< torch::jit::freeze
  Optimized,  ///< torch::jit::optimize_for_inference: frozen, and joined into kernels of oneDNN
};

/// What becomes of memory that a model frees.
enum class Memory {
  Kept,    ///< it stays in the process, for the next call
  System,  ///< as the C library has it: large pieces go back to the system and are faulted in again
};

/// A file and how it is to run: `model.pt@onednn,threads=2`.
struct Setting {
  std::string path{};
  std::optional<Form> form{};           ///< without: float files optimized, others as saved
  std::optional<std::string> engine{};  ///< without: the one that the file names
  int threads{0};                       ///< 0: as the command line says
  std::optional<int64_t> batch{};       ///< without: as the command line says
  Memory memory{Memory::Kept};
  bool channels_last{false};
};

/// Reads `PATH[@WORD,…]`. Words: an engine; as_saved, frozen or optimized; threads=N; batch=N; memory=kept or
/// memory=system; channels_last. An @ that a dot or a slash follows belongs to the path. Throws
/// Error(BadConfig).
Setting setting_from(const std::string& text);

/// One thing that is measured: a setting with one batch size, called by one or several threads at once.
struct Entry {
  Setting setting{};
  std::optional<int64_t> batch{};  ///< rows of a call; without: samples as they are in the data
  int concurrency{1};
  bool is_optional{false};  ///< left out where it cannot run: nobody asked for it by name
};

/// The names under which reports show an entry and `--compare` finds it again: "model.pt optimized, batch
/// 16".
std::string name_of(const Entry& entry);

/// What one can ask for with one command line.
struct Choice {
  std::vector<Setting> settings{};
  std::vector<int64_t> batches{};  ///< empty: samples as they are
  std::vector<int> concurrency{1};
  int threads{0};
};

/// All entries of a choice, batch by batch. `is_float[i]`: whether file i is a float model; one whose form is
/// left open appears optimized (that is what int8 has to beat; optional, for LibTorch cannot freeze every
/// model, and a file without tsq's record may be another tool's int8 model) and as saved.
std::vector<Entry> entries_of(const Choice& choice, const std::vector<bool>& is_float);

/// The position of the entry that another is compared with: the first of the same batch size and
/// concurrency, or the first of all.
std::size_t baseline_of(const std::vector<Entry>& entries, std::size_t position);

nlohmann::json to_json(const Entry& entry);
/// Of what to_json wrote.
Entry entry_from(const nlohmann::json& json);

}  // namespace tsq::bench
