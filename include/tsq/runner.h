#pragma once

// Runs a TorchScript file as fast as stock LibTorch can: one header, which a program that does not link tsq
// may copy. It needs LibTorch alone.

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/script.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>
#include <vector>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace tsq {

/// From here on freed memory stays in the process for the next call. As it comes, glibc gives large pieces
/// back to the system, which hands them out again page by page, each with a fault and filled with zeros: at
/// larger batches that takes up to half of the time of a call. Costs memory: what the largest call took stays
/// taken. For the whole process; best called first in main. Does nothing with another C library: mimalloc and
/// jemalloc keep freed memory anyway. Programs that cannot call it set in their environment
///     GLIBC_TUNABLES=glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=17179869184
inline void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);         // no piece, however large, is mapped and unmapped by itself
  mallopt(M_TRIM_THRESHOLD, -1);  // and the heap does not shrink
#endif
}

/// The engine that a file of tsq's was made for, in LibTorch's terms; the current one where the file names
/// none.
inline at::QEngine engine_of_file(const std::string& path) {
  caffe2::serialize::PyTorchStreamReader reader(path);
  constexpr const char* kRecord = "extra/tsq.json";
  if (!reader.hasRecord(kRecord)) return at::globalContext().qEngine();
  const auto [data, size] = reader.getRecord(kRecord);
  const std::string text(static_cast<const char*>(data.get()), size);
  for (const at::QEngine engine : at::globalContext().supportedQEngines()) {
    std::string name = at::toString(engine);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    for (const char* colon : {"\"engine\":\"", "\"engine\": \""}) {
      if (text.find(colon + name + '"') != std::string::npos) return engine;
    }
  }
  return at::globalContext().qEngine();
}

struct RunnerOptions {
  int threads{0};             ///< that one call computes with; 0: LibTorch's own choice
  bool keep_memory{true};     ///< calls keep_freed_memory()
  bool channels_last{false};  ///< four-dimensional tensors are passed in channels-last order
};

/// A loaded model, called without gradients. Several threads may call one Runner at once.
class Runner {
 public:
  /// Loads a file with its engine set, for LibTorch packs int8 weights while it loads. Throws what LibTorch
  /// throws.
  explicit Runner(const std::string& path, RunnerOptions options = {}) : options_(options) {
    if (options_.keep_memory) keep_freed_memory();
    if (options_.threads > 0) at::set_num_threads(options_.threads);
    at::globalContext().setQEngine(engine_of_file(path));
    engine_ = at::globalContext().qEngine();
    module_ = torch::jit::load(path, at::kCPU);
    module_.eval();
  }

  /// The result of forward. The results equal those of `module().forward(inputs)`.
  at::IValue operator()(std::vector<at::IValue> inputs) {
    const c10::InferenceMode no_gradients;
    if (at::globalContext().qEngine() != engine_) at::globalContext().setQEngine(engine_);
    if (options_.channels_last) to_channels_last(inputs);
    return module_.forward(std::move(inputs));
  }

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
