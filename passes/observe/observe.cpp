// Observers where row and QConfig ask for one (torch/ao/quantization/fx/prepare.py,
// insert_observers_for_model).
//   x → conv → y   becomes   x → observer → conv → observer → y

#include <unordered_map>
#include <utility>

#include "ir/analysis.h"
#include "operators/is_operator.h"
#include "passes/match/matches.h"
#include "passes/observe/dtype_checks.h"
#include "passes/observe/explain_observed.h"
#include "passes/observe/insert_observers.h"
#include "passes/observe/masks.h"
#include "passes/observe/passes.h"
#include "passes/observe/target_infos.h"

namespace tsq::passes {
namespace {

class Observe {
 public:
  Observe(Model& model, const PassContext& context)
      : model_(model),
        infos_(model, context),
        insertion_(model, infos_),
        report_(model, context),
        is_best_(context.options.recipe == Recipe::Best) {
    refuse_matches();
  }

  void run() {
    for (Node* node : ir::nodes_in_order(*model_.graph)) {
      if (node->kind() != c10::prim::Constant) visit(node);
    }
    report_.name_partners();
    // They name nodes, which later passes replace.
    model_.matches.clear();
    for (ir::NodeRecord& record : model_.records) record.match.reset();
  }

 private:
  /// What the backend does not take computes in float, which its neighbours are to know. A match is refused
  /// as a whole where it is refused under the QConfig of one of its operators.
  void refuse_matches() {
    for (const ir::Match& match : model_.matches) {
      for (const Node* node : match.nodes) {
        if (match_of(model_, node) != &match) continue;  // a later match has claimed it
        auto refused = refusals(infos_, match, qconfig_of(model_, node));
        if (refused.empty()) continue;
        first_refusals_[&match] = std::move(refused);
        infos_.refuse(match);
        break;
      }
    }
  }

  void visit(Node* node) {
    ir::record_for(model_, node);
    if (node->kind() == c10::prim::GetAttr) return;
    const OutputObserver output = observe_around(node);
    if (operators::is_operator(model_, node)) report_.add(node, findings(node, output));
  }

  OutputObserver observe_around(Node* node) {
    const ir::Match* match = match_of(model_, node);
    const MaybeQConfig qconfig = qconfig_of(model_, node);
    if (match == nullptr || !qconfig || !refusals(infos_, *match, qconfig).empty())
      return OutputObserver::None;
    // Read as float, a refused layer fits the DTypeConfigs that name a dtype for the weight alone. FX takes
    // it for observed then, and observes nothing.
    if (is_best_ && first_refusals_.contains(match) && !resolve(qconfig->activation).is_dynamic)
      return OutputObserver::None;
    ir::NodeRecord& record = *ir::record_of(model_, node);
    record.observed = true;
    record.is_root = node == match->root;
    if (record.is_root) insertion_.observe_inputs(node);
    return node == match->last ? insertion_.observe_output(node) : OutputObserver::None;
  }

  Findings findings(const Node* node, OutputObserver output) const {
    Findings found{.on_tensors = !has_no_tensor_arguments(node) && !handles_containers(node),
                   .is_mask = infos_.is_of_mask(node),
                   .gives_no_tensor = output == OutputObserver::NoTensor,
                   .has_nothing_to_share = output == OutputObserver::NothingToShare};
    const ir::Match* match = match_of(model_, node);
    const MaybeQConfig qconfig = qconfig_of(model_, node);
    if (match == nullptr || !qconfig) return found;
    const auto refused = first_refusals_.find(match);
    found.is_refused = refused != first_refusals_.end();
    found.refusals = found.is_refused ? refused->second : refusals_before_taken(infos_, *match, qconfig);
    return found;
  }

  Model& model_;
  TargetInfos infos_;
  ObserverInsertion insertion_;
  ObservationReport report_;
  std::unordered_map<const ir::Match*, std::vector<std::string>>
      first_refusals_;  ///< by what the user has configured
  bool is_best_;
};

}  // namespace

bool observe(Model& model, const PassContext& context) {
  Observe(model, context).run();
  return !model.observers.empty();
}

}  // namespace tsq::passes
