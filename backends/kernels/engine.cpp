#include "backends/kernels/engine.h"

#include <fmt/format.h>
#include <tsq/engine_lock.h>
#include <tsq/error.h>

#include <algorithm>

#include "backends/kernels/first_row.h"

namespace tsq {
namespace {

/// LibTorch prints engines as X86 and FBGEMM; PyTorch's names are x86 and fbgemm.
std::string in_lower_case(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

const BackendEntry* shipped(const BackendConfig& backend) {
  return kernels::first_row(backend_entries(), [&](const BackendEntry& entry) {
    return entry.name == backend.name() || entry.table().name() == backend.name();
  });
}

}  // namespace

std::string engine_name_of(const BackendConfig& backend) {
  const BackendEntry* entry = shipped(backend);
  if (entry != nullptr && entry->name != "native") return std::string(entry->engine);
  return at::toString(engine_in_use());
}

at::QEngine engine_of(const BackendConfig& backend, bool must_have_kernels) {
  const std::string name = engine_name_of(backend);
  if (!name.empty()) return engine_from_name(name);
  if (must_have_kernels) {
    throw Error(ErrorCode::Unsupported,
                fmt::format("backend '{}' has no kernels in LibTorch: its result is the reference model",
                            backend.name()),
                "stop at the reference model, or lower for x86, fbgemm, qnnpack or onednn");
  }
  return engine_in_use();
}

bool is_made_for_this_processor(const BackendConfig& backend) {
#if defined(__aarch64__) || defined(__arm__)
  constexpr bool kIsArm = true;
#else
  constexpr bool kIsArm = false;
#endif
  return kIsArm || in_lower_case(engine_name_of(backend)) != "qnnpack";
}

at::QEngine engine_from_name(const std::string& name) {
  for (const at::QEngine engine : at::globalContext().supportedQEngines()) {
    if (in_lower_case(at::toString(engine)) == in_lower_case(name)) return engine;
  }
  throw Error(ErrorCode::Unsupported, fmt::format("this LibTorch has no quantized engine '{}'", name),
              "build LibTorch with it, or choose another backend");
}

std::string engine_name(at::QEngine engine) { return in_lower_case(at::toString(engine)); }

}  // namespace tsq
