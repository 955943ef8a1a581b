#pragma once

// Runs a TorchScript file as fast as LibTorch can, for programs that do not link tsq. They may copy this
// header together with tsq/engine_lock.h and tsq/runtime_library.h; the three need LibTorch alone.

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/script.h>
#include <tsq/engine_lock.h>
#include <tsq/runtime_library.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace tsq {

/// From here on freed memory stays in the process for the next call. By default, glibc returns large pieces
/// to the system, and the next call gets them back page by page, each with a page fault and filled with
/// zeros: at larger batches that takes up to half of the time of a call. The price is memory: the process
/// keeps as much as its largest call has needed. For the whole process; best called first in main. Does
/// nothing with another C library: mimalloc and jemalloc keep freed memory anyway. Programs that cannot call
/// it set in their environment
///     GLIBC_TUNABLES=glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=17179869184
inline void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);         // no piece, however large, is mapped and unmapped by itself
  mallopt(M_TRIM_THRESHOLD, -1);  // and the heap does not shrink
#endif
}

/// Throws std::runtime_error where a record claims more bytes than the file can hold: LibTorch takes memory
/// for what records claim. This is the cheap part of what tsq::check_model_file (tsq/try_load.h) looks at;
/// pickles and the lengths of storages are not among it, so that files of strangers are for that one.
inline void check_sizes_of_records(const std::string& path, caffe2::serialize::PyTorchStreamReader& reader) {
  constexpr std::uintmax_t kMostPacked = 1032;  // that deflate makes of a byte
  const std::uintmax_t bytes = std::filesystem::file_size(path);
  for (const std::string& record : reader.getAllRecords()) {
    if (reader.getRecordSize(record) <= bytes * kMostPacked) continue;
    throw std::runtime_error("'" + path + "' is damaged: its record '" + record +
                             "' claims more bytes than the file can hold; copy or export it again");
  }
}

/// What tsq wrote into a file, as JSON; empty for files of other tools. Looks at the sizes of all records.
inline std::string metadata_text(const std::string& path) {
  caffe2::serialize::PyTorchStreamReader reader(path);
  check_sizes_of_records(path, reader);
  constexpr const char* kRecord = "extra/tsq.json";
  if (!reader.hasRecord(kRecord)) return {};
  const auto [data, size] = reader.getRecord(kRecord);
  return {static_cast<const char*>(data.get()), size};
}

/// The engine that a file of tsq's was made for, in LibTorch's terms; the one in use where the file names
/// none.
inline at::QEngine engine_of_file(const std::string& path) {
  const std::string text = metadata_text(path);
  for (const at::QEngine engine : at::globalContext().supportedQEngines()) {
    std::string name = at::toString(engine);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    for (const char* colon : {"\"engine\":\"", "\"engine\": \""}) {
      if (text.find(colon + name + '"') != std::string::npos) return engine;
    }
  }
  return engine_in_use();
}

/// Loads libtsq_runtime if a file holds fused programs. Throws std::runtime_error where it cannot be loaded.
inline void load_library_of_file(const std::string& path) {
  if (has_runtime_library() || !holds_fused_programs(path)) return;
  const std::string reason = load_runtime_library();
  if (reason.empty()) return;
  throw std::runtime_error("'" + path + "' holds fused programs, which need " + kRuntimeLibrary + ": " +
                           reason +
                           "; put it beside the program or into the folder lib beside the program's, " +
                           "name its folder in LD_LIBRARY_PATH, or link it");
}

struct RunnerOptions {
  int threads{0};             ///< that a call computes with, set for the process; 0: LibTorch's own choice
  bool keep_memory{false};    ///< calls keep_freed_memory(), which concerns the whole process
  bool channels_last{false};  ///< four-dimensional tensors are passed in channels-last order
  /// Bytes that a call of a fused program may need, set for the process: one that would need more is refused
  /// before it allocates them. 0: what is set stays, and is at first 80 % of what is available.
  std::int64_t memory_limit{0};
};

/// A loaded model, called without gradients and under a hold of its engine (EngineHold).
///
/// Threads: any number of them may load Runners, call one Runner, and call Runners of different engines at
/// once, as long as the model's forward does not change its own attributes. Calls of one engine run side by
/// side; those of another engine wait for their turn, and none waits for ever. Results equal those of single
/// calls. That holds among Runners and other holders of an engine: what else the process runs with int8
/// weights follows the rules of tsq/engine_lock.h. Copies of a Runner share one module.
class Runner {
 public:
  /// Loads a file under a hold of its engine, for LibTorch packs int8 weights while it loads. Afterwards the
  /// engine that was set before is set again. For a file with fused programs libtsq_runtime is loaded before
  /// (tsq/runtime_library.h says from where). Throws std::runtime_error where it cannot be, where records
  /// claim more bytes than the file can hold, and what LibTorch throws.
  explicit Runner(const std::string& path, RunnerOptions options = {})
      : options_(options), engine_(engine_of_file(path)) {
    load_library_of_file(path);
    if (options_.memory_limit > 0) set_memory_limit(options_.memory_limit);
    if (options_.keep_memory) keep_freed_memory();
    if (options_.threads > 0) at::set_num_threads(options_.threads);
    const EngineHold hold(engine_);
    module_ = torch::jit::load(path, at::kCPU);
    module_.eval();
  }

  /// The result of forward. The results equal those of `module().forward(inputs)`.
  at::IValue operator()(std::vector<at::IValue> inputs) {
    const c10::InferenceMode no_gradients;
    if (options_.channels_last) to_channels_last(inputs);
    const EngineHold hold(engine_);
    return module_.forward(std::move(inputs));
  }

  /// Who calls it past the Runner takes a hold of engine() around the call.
  [[nodiscard]] torch::jit::Module& module() noexcept { return module_; }
  [[nodiscard]] at::QEngine engine() const noexcept { return engine_; }

 private:
  static void to_channels_last(std::vector<at::IValue>& inputs) {
    for (at::IValue& value : inputs) {
      if (value.isTensor() && value.toTensor().dim() == 4)
        value = value.toTensor().contiguous(at::MemoryFormat::ChannelsLast);
    }
  }

  RunnerOptions options_;
  at::QEngine engine_{at::QEngine::NoQEngine};
  torch::jit::Module module_{};
};

}  // namespace tsq
