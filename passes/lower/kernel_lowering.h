#pragma once

#include <tsq/error.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/choices/offers.h"
#include "backends/kernels/fault_conditions.h"
#include "ir/analysis.h"
#include "ir/model.h"
#include "passes/context/pass_context.h"
#include "passes/lower/weight_packing.h"

/// What the passes share that put kernels in the place of operators.
namespace tsq::passes {

/// Whether a kernel that reads and returns quantized tensors may take an operator's place: a single reader
/// has its output, and it neither stays in float nor has a kernel that returns float.
[[nodiscard]] bool may_have_kernel(const ir::Model& model, const ir::Node* op);

/// The kernel that stands for `op`, in front of `before`; it has the scope and the source range of `op`.
ir::Value* insert_kernel(ir::Model& model, const ir::Node* op, std::string_view kernel,
                         const std::vector<ir::Value*>& inputs, ir::Node* before);

/// The same, where the kernel stands for `op` and the quantize node after it. The report says so.
void replace_by_kernel(ir::Model& model, const ir::Node* op, std::string_view kernel,
                       const std::vector<ir::Value*>& inputs, ir::Node* quantize);

/// The record of an operator names the kernel that it became. `weights`: those of a kernel that computes in
/// float ("4-bit").
void set_kernel(ir::Model& model, const ir::Node* op, std::string_view kernel, ir::Placement placement,
                std::string_view weights = {});
/// The same for a kernel with weights of this dtype, which computes in float where they are float16.
void set_dynamic_kernel(ir::Model& model, const ir::Node* op, std::string_view kernel,
                        c10::ScalarType weight_dtype);

/// The record of an operator that became no kernel says why, and its entry of the report does.
void set_no_kernel(ir::Model& model, const ir::Node* op, ir::Placement placement, ir::Reason reason,
                   std::string sentence, std::string remedy = {});
/// The same for an operator between dequantize and quantize.
void keep_between_roundings(ir::Model& model, const ir::Node* op, ir::Reason reason, std::string_view why,
                            std::string remedy = {});

using kernels::Refusal;
/// The same for an operator that reads float values again: rounding alone would cost time and accuracy.
void leave_without_kernel(ir::Model& model, const ir::Node* op, const Refusal& refusal);

/// Why every kernel refuses an operator, where the plan says so: it is placed as Reference.
[[nodiscard]] std::optional<Refusal> refusal_in_plan(const ir::Model& model, const ir::Node* op);

/// What a pass whose kernels read packed weights works with: a copy of the model, and the weights that it
/// asks for.
class KernelLowering {
 public:
  KernelLowering(ir::Model& model, const PassContext& context, const PackingRefusals& refusals)
      : model_(model), context_(context), refusals_(refusals), packing_(model, context.target) {}

  [[nodiscard]] bool has_changed() const { return has_changed_; }
  bool pack_all(PackingRefusals& refusals) { return packing_.pack_all(refusals); }

 protected:
  /// A kernel as it is about to be used.
  [[nodiscard]] kernels::KernelUse use_of(const ir::Node* op, std::string_view kernel,
                                          std::optional<kernels::Operand> input = std::nullopt,
                                          const ir::Weighted* weighted = nullptr) const {
    return {.target = context_.target,
            .model = model_,
            .op = op,
            .kernel = kernel,
            .input = input,
            .weighted = weighted};
  }

  /// The weight as the kernel of a table's row reads it, packed in front of `before`; with more columns that
  /// are zero, for a linear layer.
  template <typename Row>
  ir::Value* packed_for(const ir::Node* op, const Row& row, const ir::Weighted& weighted,
                        const std::string& path, ir::Node* before, int64_t zero_columns = 0) {
    return packing_.packed(weighted, {.op = op,
                                      .kernel = row.kernel,
                                      .prepack = row.prepack,
                                      .path = path,
                                      .before = before,
                                      .zero_columns = zero_columns});
  }

  /// What refuses a kernel with a packed weight: what the tables say, or what packing has met that no rule
  /// foresaw.
  template <typename Row>
  [[nodiscard]] std::optional<Refusal> refusal_of(const kernels::Offer<Row>& offer,
                                                  const ir::Weighted* weighted) const {
    if (offer.refusal || weighted == nullptr) return offer.refusal;
    const std::string* why = passes::refusal_of(refusals_, offer.row->prepack, *weighted);
    return why == nullptr ? std::nullopt : std::optional(kernels::refusal_of_packing(*why));
  }

  /// The only reader of an operator's output, where it is of the same block; null otherwise.
  static ir::Node* only_user(const ir::Node* op);

  ir::Model& model_;
  const PassContext& context_;
  const PackingRefusals& refusals_;
  WeightPacking packing_;
  bool has_changed_{false};
};

/// Runs `Pass`, a KernelLowering with a function `run`, which asks for packed weights. Where the engine
/// refuses some of them, it starts again and knows of that. Throws Error(Internal) where that does not end.
template <typename Pass>
bool lower_with_refusals(ir::Model& model, const PassContext& context) {
  PackingRefusals refusals;
  while (true) {
    ir::Model tried = model.copy();
    const std::size_t known = refusals.size();
    Pass pass(tried, context, refusals);
    pass.run();
    if (pass.pack_all(refusals)) {
      ir::eliminate_dead_code(*tried.graph);
      model = std::move(tried);
      return pass.has_changed();
    }
    if (refusals.size() == known)
      throw Error(ErrorCode::Internal, "the engine refuses a weight that it refused before");
  }
}

}  // namespace tsq::passes
