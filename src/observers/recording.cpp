#include <ATen/ATen.h>
#include <ATen/core/List.h>

#include "config/names/observer_classes.h"
#include "observers/observer_kind.h"

namespace tsq {
namespace {

/// RecordingObserver: keeps a copy of every tensor, for debugging; has no qparams (M-19).
constexpr const char* kRecordingSource = R"(
def observe(self, x: Tensor) -> Tensor:
    self.tensor_val.append(x.clone())
    return x

def get_tensor_value(self) -> List[Tensor]:
    return self.tensor_val
)";

ObserverState recording_state(const ResolvedObserver& config) {
  return {{"dtype", static_cast<int64_t>(config.dtype)}, {"tensor_val", c10::List<at::Tensor>()}};
}

bool saw_tensors(const torch::jit::Module& observer) {
  return !observer.attr("tensor_val").toTensorList().empty();
}

void merge_recording(torch::jit::Module& into, const torch::jit::Module& from) {
  c10::List<at::Tensor> recorded = into.attr("tensor_val").toTensorList();
  recorded.append(from.attr("tensor_val").toTensorList());
}

}  // namespace

const ObserverKind recording_observer{.name = observer_classes::kRecording,
                                      .source = kRecordingSource,
                                      .state = recording_state,
                                      .saw_data = saw_tensors,
                                      .merge = merge_recording};

}  // namespace tsq
