#include "config/names/observer_classes.h"
#include "observers/observer_kind.h"

namespace tsq {
namespace {

/// Counts the tensors that come to the end of a branch. What is empty has no range, and does not count.
constexpr const char* kBranchSource = R"(
def observe(self, x_orig: Tensor) -> Tensor:
    if x_orig.numel() != 0:
        self.tensors = self.tensors + 1
    return x_orig
)";

ObserverState branch_state(const ResolvedObserver& /*config*/) { return {{"tensors", int64_t{0}}}; }

bool saw_branch(const torch::jit::Module& observer) { return observer.attr("tensors").toInt() > 0; }

void merge_branch(torch::jit::Module& into, const torch::jit::Module& from) {
  into.setattr("tensors", into.attr("tensors").toInt() + from.attr("tensors").toInt());
}

}  // namespace

const ObserverKind branch_observer{.name = observer_classes::kBranch,
                                   .source = kBranchSource,
                                   .state = branch_state,
                                   .saw_data = saw_branch,
                                   .merge = merge_branch};

}  // namespace tsq
