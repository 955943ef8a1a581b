#pragma once

#include "passes/context/pass_context.h"

/// Patterns of the table and of the recipe: what may be quantized, and what is not, whatever calibration
/// finds.
namespace tsq::passes {

/// swap_for_training by context.mapping_around: the model around a standalone module has made its layers
/// fake-quantize already, so that they are not fused (QT-19).
bool swap_around_for_training(ir::Model& model, const PassContext& context);

/// Replaces each match of a fusion row by the row's fused module, longest pattern first, then table order
/// (C-01, C-02, C-11).
///   bn = BatchNorm2d(conv); relu = ReLU(bn)   →   conv = ConvReLU2d(x)
bool fuse(ir::Model& model, const PassContext& context);

/// fuse for a model that will be trained (QT-05): batch norms stay operators of their fused module, nothing
/// is folded. A batch norm without factors or statistics, one of another width, and fused modules that have
/// no training form stay by themselves, where FX stops the whole model (QT-07, QT-08, QT-20).
///   bn = BatchNorm2d(conv); relu = ReLU(bn)   →   conv = ConvBnReLU2d(x)
bool fuse_for_training(ir::Model& model, const PassContext& context);

/// Methods beside forward that call layers come into the graph (ir::join_methods).
bool join_methods(ir::Model& model, const PassContext& context);

/// Throws Error(BadConfig) where input_quantized_idxs names an input that forward has not.
bool check_quantized_indexes(ir::Model& model, const PassContext& context);

/// Model::unmatched_entries: the entries of the mapping that no operator looks up.
bool find_unmatched_entries(ir::Model& model, const PassContext& context);

/// In recipe fx, layers to which the mapping gives a QConfig become the modules that their rows name for
/// training, which
/// fake-quantize the weight (QT-09, QT-10); Model::trained_qconfigs has their QConfigs. match reads the
/// mapping with the entries of float types for the training ones (QT-12). Regular expressions and the order
/// of calls choose no module, as in FX; they choose what is observed.
///   conv = ConvBnReLU2d(x)   →   conv = qat.ConvBnReLU2d(x)
bool swap_for_training(ir::Model& model, const PassContext& context);

/// Walks the graph in reverse order; the first row that matches wins (C-01 … C-10). Looks every operator's
/// QConfig up (B-04 … B-16). Every operator has a record from here on.
bool match(ir::Model& model, const PassContext& context);

/// Layers whose class has no reference module in the table (match::reference_module_of) stay float: convert
/// would swap nothing, and what is around them would be rounded in vain. So do those whose parameters are not
/// sound (operators::is_sound).
bool leave_unswapped(ir::Model& model, const PassContext& context);

/// Clamps (relu, relu6, hardtanh, clamp) join the match of the operator before them, whose range is then
/// observed after the clamp.
///   {conv}, {hardtanh}   →   {conv, hardtanh}
bool absorb_clamps(ir::Model& model, const PassContext& context);

/// Operators stay float for what they are (attention's products and softmax, averages of whole maps, tables
/// of short rows), and layers of whose output a logarithm or the like is computed.
///   log(clamp(linear(x))): {linear}   →   linear
bool leave_float_operators(ir::Model& model, const PassContext& context);

/// Operators without a weight that do not lie between quantized ones are not observed: they would be rounded
/// and gain no time. Filter banks that only float operators read are not, either. The graph alone tells.
///   sqrt, {add}, sqrt   →   sqrt, add, sqrt
bool find_islands(ir::Model& model, const PassContext& context);

/// Concatenations of values that others read too do not share one range with all of their inputs.
bool separate_concatenations(ir::Model& model, const PassContext& context);

/// Sums and products with a number do not share the range of what they are computed from. After
/// absorb_clamps: their kernels do not saturate, so that no clamp may join them.
bool separate_scalar_arithmetic(ir::Model& model, const PassContext& context);

/// In recipe best, fills Model::trained_qconfigs with the layers whose weights convert will round: of every
/// class that the table takes so, transposed convolutions and containers with a sum among them, and PReLUs.
bool mark_for_training(ir::Model& model, const PassContext& context);

}  // namespace tsq::passes
