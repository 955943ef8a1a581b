#include "backends/kernels/engine.h"

#include <fmt/format.h>
#include <tsq/engine_lock.h>
#include <tsq/error.h>

#include <algorithm>

#include "base/known_engines.h"

namespace tsq {
namespace {

/// LibTorch prints engines as X86 and FBGEMM; PyTorch's names are x86 and fbgemm.
std::string in_lower_case(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

}  // namespace

at::QEngine engine_of(const BackendConfig& backend, bool must_have_kernels) {
  if (must_have_kernels && backend.engine() == kNoEngine && backend.falls_back_to_libtorch()) {
    throw Error(ErrorCode::Unsupported,
                fmt::format("backend '{}' has no kernels in LibTorch: its result is the reference model",
                            backend.name()),
                "stop at the reference model, or lower for x86, fbgemm, qnnpack or onednn");
  }
  return engine_from_name(std::string(backend.engine()));
}

at::QEngine engine_from_name(const std::string& name) {
  if (name == kNoEngine) return engine_in_use();
  for (const at::QEngine engine : at::globalContext().supportedQEngines()) {
    if (in_lower_case(at::toString(engine)) == in_lower_case(name)) return engine;
  }
  throw Error(ErrorCode::Unsupported, fmt::format("this LibTorch has no quantized engine '{}'", name),
              "build LibTorch with it, or choose another backend");
}

std::string engine_name(at::QEngine engine) { return in_lower_case(at::toString(engine)); }

}  // namespace tsq
