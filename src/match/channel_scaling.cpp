#include "match/channel_scaling.h"

#include <algorithm>
#include <cmath>

#include "ir/analysis.h"
#include "operators/clamp_bounds.h"
#include "operators/traits.h"
#include "operators/weighted.h"

namespace tsq::match {
namespace {

using ir::Model;
using ir::Node;
using ir::Value;

/// Whether a reader is a float operator. What puts the value elsewhere hands it on to readers that are not
/// seen.
bool reads_in_float(const Model& model, const Node* reader) {
  const ir::NodeRecord* record = ir::record_of(model, reader);
  if (ir::is_observer(reader) || ir::is_opaque(model, reader) || (record != nullptr && record->observed))
    return false;
  if (ir::is_module_call(reader)) return true;
  const c10::FunctionSchema* schema = reader->maybeSchema();
  return schema != nullptr && !schema->is_mutable();
}

}  // namespace

at::Tensor weight_of(const Model& model, const Node* layer, const Equalizable& kind) {
  if (kind.weight != nullptr) return *parameter_after(model, kind.weight);
  return ir::weighted_of(ir::call_of(model, layer))->weight;
}

const ir::Weighted* equalizable_layer(const Model& model, const Node* node) {
  if (!ir::is_module_call(node) || !scalable(model, node)) return nullptr;
  const QConfig* qconfig = ir::observed_qconfig(model, node);
  if (qconfig == nullptr) return nullptr;
  const ResolvedObserver weight = resolve(qconfig->weight);
  const bool has_row_scales = weight.qscheme == c10::QScheme::PER_CHANNEL_SYMMETRIC && weight.ch_axis == 0 &&
                              weight.group_size == 0 && weight.dtype == c10::ScalarType::QInt8;
  return has_row_scales ? ir::weighted_of(ir::call_of(model, node)) : nullptr;
}

bool commutes_with_scaling(const Model& model, const Node* node) {
  const auto bounds = operators::clamp_bounds(model, node);
  return bounds && (bounds->lowest == 0 || std::isinf(bounds->lowest)) && std::isinf(bounds->highest);
}

bool is_leaky(const Model& model, const Node* node) {
  return operators::is_one_of(model, node, {"prelu", "leaky_relu"});
}

bool is_affine_batch_norm(const Model& model, const Node* node) {
  if (!ir::is_module_call(node) || ir::is_opaque(model, node)) return false;
  const ir::ModuleCall& call = ir::call_of(model, node);
  if (!call.module || !call.members.empty() || !ir::is_batch_norm(call)) return false;
  const auto parameters = operators::batch_norm_parameters(*call.module);
  return parameters && parameters->weight.defined() && parameters->bias.defined();
}

Node* observer_after(const Model& model, const Node* layer) {
  auto readers = operators::readers_of_numbers(layer->output());
  while (readers.size() == 1) {
    Node* user = readers.front();
    if (user->owningBlock() != layer->owningBlock()) return nullptr;
    if (ir::is_observer(user)) return user;
    if (!commutes_with_scaling(model, user)) return nullptr;
    readers = operators::readers_of_numbers(user->output());
  }
  return nullptr;
}

bool is_read_in_float(const Model& model, const Node* observer) {
  const auto readers = ir::users(observer->output());
  return !readers.empty() &&
         std::ranges::all_of(readers, [&](const Node* reader) { return reads_in_float(model, reader); });
}

}  // namespace tsq::match
