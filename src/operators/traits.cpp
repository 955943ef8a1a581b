#include "operators/traits.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <unordered_map>

#include "ir/analysis.h"
#include "runtime/program/table_rows.h"

namespace tsq::operators {
namespace {

using enum Values;

constexpr std::uint32_t kSame = KeepsShape | KeepsLayout | KeepsDtype;  // rank, shape, layout, dtype
constexpr std::uint32_t kActivation = Elementwise | kSame;
constexpr std::uint32_t kBinary = ElementwiseOfTwo | KeepsRank | KeepsLayout;
constexpr std::uint32_t kPool = KeepsRank | KeepsDtype;
constexpr std::uint32_t kReshape = KeepsOrder | KeepsDtype | IsView;
constexpr std::uint32_t kClamp = kActivation | Monotone | CommutesWithRounding;
constexpr std::uint32_t kNumberByNumber = Elementwise | KeepsShape | KeepsLayout;

constexpr std::array kOperators{
    // The same values in the same order.
    OperatorTraits{.name = "view", .values = Rearranged, .traits = kReshape},
    OperatorTraits{.name = "view_as", .values = Rearranged, .traits = kReshape},
    OperatorTraits{.name = "reshape", .values = Rearranged, .traits = kReshape},
    OperatorTraits{.name = "reshape_as", .values = Rearranged, .traits = kReshape},
    OperatorTraits{.name = "flatten", .values = Rearranged, .traits = kReshape},
    OperatorTraits{.name = "unflatten", .values = Rearranged, .traits = kReshape},
    OperatorTraits{.name = "ravel", .values = Rearranged, .traits = kReshape},
    OperatorTraits{.name = "unsqueeze", .values = Rearranged, .traits = kReshape},
    OperatorTraits{.name = "squeeze", .values = Rearranged, .traits = kReshape},
    OperatorTraits{
        .name = "contiguous", .values = Rearranged, .traits = KeepsShape | KeepsOrder | KeepsDtype},
    OperatorTraits{.name = "clone", .values = Rearranged, .traits = kSame | KeepsOrder},
    OperatorTraits{.name = "alias", .values = Rearranged, .traits = kSame | KeepsOrder | IsView},
    OperatorTraits{.name = "detach", .values = Rearranged, .traits = kSame | KeepsOrder | IsView},

    // The same values in another order.
    OperatorTraits{.name = "transpose",
                   .also = {"swapaxes", "swapdims"},
                   .values = Rearranged,
                   .traits = KeepsRank | KeepsDtype | IsView},
    OperatorTraits{.name = "permute", .values = Rearranged, .traits = KeepsRank | KeepsDtype | IsView},
    OperatorTraits{.name = "movedim",
                   .also = {"moveaxis"},
                   .values = Rearranged,
                   .traits = KeepsRank | KeepsDtype | IsView},
    OperatorTraits{.name = "t", .values = Rearranged, .traits = KeepsRank | KeepsDtype | IsView},
    OperatorTraits{.name = "flip", .values = Rearranged, .traits = KeepsShape | KeepsDtype},
    OperatorTraits{.name = "roll", .values = Rearranged, .traits = KeepsShape | KeepsDtype},
    OperatorTraits{.name = "rot90", .values = Rearranged, .traits = KeepsRank | KeepsDtype},
    OperatorTraits{.name = "pixel_shuffle", .values = Rearranged, .traits = KeepsRank | KeepsDtype},
    OperatorTraits{.name = "pixel_unshuffle", .values = Rearranged, .traits = KeepsRank | KeepsDtype},
    OperatorTraits{.name = "channel_shuffle", .values = Rearranged, .traits = KeepsShape | KeepsDtype},

    // Some of the values, by their place.
    OperatorTraits{.name = "slice", .values = Selected, .traits = KeepsRank | KeepsDtype | IsView},
    OperatorTraits{.name = "select", .values = Selected, .traits = KeepsDtype | IsView},
    OperatorTraits{.name = "narrow", .values = Selected, .traits = KeepsRank | KeepsDtype | IsView},
    OperatorTraits{.name = "diagonal", .values = Selected, .traits = KeepsDtype | IsView},
    OperatorTraits{.name = "chunk", .values = Selected, .traits = KeepsRank | KeepsDtype | IsView},
    OperatorTraits{.name = "split", .values = Selected, .traits = KeepsRank | KeepsDtype | IsView},
    OperatorTraits{.name = "split_with_sizes", .values = Selected, .traits = KeepsRank | KeepsDtype | IsView},
    OperatorTraits{.name = "tensor_split", .values = Selected, .traits = KeepsRank | KeepsDtype | IsView},
    OperatorTraits{.name = "unbind", .values = Selected, .traits = KeepsDtype | IsView},
    OperatorTraits{.name = "index", .values = Selected, .traits = KeepsDtype},
    OperatorTraits{.name = "index_select", .values = Selected, .traits = KeepsRank | KeepsDtype},
    OperatorTraits{.name = "gather", .values = Selected, .traits = KeepsRank | KeepsDtype},
    OperatorTraits{.name = "expand", .values = Selected, .traits = KeepsDtype | IsView},
    OperatorTraits{.name = "expand_as", .values = Selected, .traits = KeepsDtype | IsView},
    OperatorTraits{.name = "broadcast_to", .values = Selected, .traits = KeepsDtype | IsView},
    OperatorTraits{.name = "repeat", .values = Selected, .traits = KeepsDtype},
    OperatorTraits{.name = "tile", .values = Selected, .traits = KeepsDtype},
    OperatorTraits{.name = "repeat_interleave", .values = Selected, .traits = KeepsDtype},
    OperatorTraits{.name = "upsample_nearest1d", .values = Selected, .traits = kPool},
    OperatorTraits{.name = "upsample_nearest2d", .values = Selected, .traits = kPool | KeepsLayout},
    OperatorTraits{.name = "upsample_nearest3d", .values = Selected, .traits = kPool},
    OperatorTraits{.name = "_upsample_nearest_exact1d", .values = Selected, .traits = kPool},
    OperatorTraits{.name = "_upsample_nearest_exact2d", .values = Selected, .traits = kPool | KeepsLayout},
    OperatorTraits{.name = "_upsample_nearest_exact3d", .values = Selected, .traits = kPool},
    OperatorTraits{.name = "reflection_pad1d", .values = Selected, .traits = kPool},
    OperatorTraits{.name = "reflection_pad2d", .values = Selected, .traits = kPool},
    OperatorTraits{.name = "reflection_pad3d", .values = Selected, .traits = kPool},
    OperatorTraits{.name = "replication_pad1d", .values = Selected, .traits = kPool},
    OperatorTraits{.name = "replication_pad2d", .values = Selected, .traits = kPool},
    OperatorTraits{.name = "replication_pad3d", .values = Selected, .traits = kPool},

    // Values of several operands.
    OperatorTraits{.name = "cat",
                   .also = {"concat", "concatenate"},
                   .values = Joined,
                   .traits = KeepsRank | KeepsLayout},
    OperatorTraits{.name = "stack", .values = Joined},

    // Some of the values, by comparing them.
    OperatorTraits{.name = "max_pool1d", .values = Chosen, .traits = kPool},
    OperatorTraits{.name = "max_pool2d", .values = Chosen, .traits = kPool | KeepsLayout},
    OperatorTraits{.name = "max_pool3d", .values = Chosen, .traits = kPool},
    OperatorTraits{.name = "amax", .values = Chosen, .traits = KeepsDtype},
    OperatorTraits{.name = "amin", .values = Chosen, .traits = KeepsDtype},
    OperatorTraits{.name = "maximum", .values = Chosen, .traits = kBinary},
    OperatorTraits{.name = "minimum", .values = Chosen, .traits = kBinary},

    // Constants among the values, or another dtype.
    OperatorTraits{.name = "pad", .values = Filled, .traits = kPool},
    OperatorTraits{
        .name = "constant_pad_nd",
        .also = {"ZeroPad1d", "ZeroPad2d", "ZeroPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d"},
        .values = Filled,
        .traits = kPool},
    OperatorTraits{.name = "masked_fill", .values = Filled, .traits = KeepsDtype},
    OperatorTraits{.name = "tril", .values = Filled, .traits = KeepsShape | KeepsDtype},
    OperatorTraits{.name = "triu", .values = Filled, .traits = KeepsShape | KeepsDtype},
    OperatorTraits{.name = "to", .values = Converted, .traits = KeepsShape | KeepsOrder | KeepsLayout},
    OperatorTraits{.name = "type_as", .values = Converted, .traits = KeepsShape | KeepsOrder | KeepsLayout},

    // Nothing in evaluation.
    OperatorTraits{.name = "identity", .traits = kActivation | IsIdentity},
    OperatorTraits{.name = "dropout", .traits = kActivation | IsIdentity},
    OperatorTraits{.name = "alpha_dropout", .traits = kActivation | IsIdentity},
    OperatorTraits{.name = "feature_dropout",
                   .also = {"Dropout1d", "Dropout2d", "Dropout3d"},
                   .traits = kActivation | IsIdentity},
    OperatorTraits{.name = "feature_alpha_dropout", .traits = kActivation | IsIdentity},

    // Clamps.
    OperatorTraits{.name = "relu", .traits = kClamp, .clamp = Clamp{.lowest = {.number = 0}}},
    OperatorTraits{
        .name = "relu6", .traits = kClamp, .clamp = Clamp{.lowest = {.number = 0}, .highest = {.number = 6}}},
    OperatorTraits{.name = "hardtanh",
                   .traits = kClamp,
                   .clamp = Clamp{.lowest = {.argument = "min_val"}, .highest = {.argument = "max_val"}}},
    OperatorTraits{.name = "clamp",
                   .also = {"clip"},
                   .traits = kClamp,
                   .clamp = Clamp{.lowest = {.argument = "min"}, .highest = {.argument = "max"}}},
    OperatorTraits{.name = "clamp_min", .traits = kClamp, .clamp = Clamp{.lowest = {.argument = "min"}}},
    OperatorTraits{.name = "clamp_max", .traits = kClamp, .clamp = Clamp{.highest = {.argument = "max"}}},

    // Activations.
    OperatorTraits{.name = "leaky_relu", .traits = kActivation | Monotone | KeepsSmall},
    OperatorTraits{.name = "prelu", .traits = KeepsShape | KeepsLayout},
    OperatorTraits{.name = "elu", .traits = kActivation | Monotone | KeepsSmall},
    OperatorTraits{.name = "celu", .traits = kActivation | Monotone | KeepsSmall},
    OperatorTraits{.name = "selu", .traits = kActivation | Monotone | KeepsSmall},
    OperatorTraits{.name = "softplus", .traits = kActivation | Monotone},
    OperatorTraits{.name = "log_sigmoid", .traits = Elementwise | Monotone | KeepsShape | KeepsDtype},
    OperatorTraits{.name = "sigmoid", .traits = kActivation | Monotone},
    OperatorTraits{.name = "tanh", .traits = kActivation | Monotone | KeepsSmall},
    OperatorTraits{.name = "hardsigmoid",
                   .traits = kActivation | Monotone,
                   .saturates = Saturation{.lowest = -3, .highest = 3}},
    OperatorTraits{.name = "hardswish", .traits = kActivation, .saturates = Saturation{.lowest = -3}},
    OperatorTraits{.name = "silu", .traits = kActivation},
    OperatorTraits{.name = "mish", .traits = kActivation},
    OperatorTraits{.name = "gelu", .traits = kActivation},
    OperatorTraits{.name = "hardshrink", .traits = kActivation | Monotone},
    OperatorTraits{.name = "softshrink", .traits = kActivation | Monotone},

    // Functions of a number.
    OperatorTraits{.name = "neg", .traits = kActivation | PassesFactors | KeepsSmall},
    OperatorTraits{.name = "abs", .traits = kActivation | KeepsSmall},
    OperatorTraits{.name = "sign", .traits = kActivation | Monotone},
    OperatorTraits{.name = "floor", .traits = kActivation | Monotone},
    OperatorTraits{.name = "ceil", .traits = kActivation | Monotone},
    OperatorTraits{.name = "round", .traits = kActivation | Monotone},
    OperatorTraits{.name = "trunc", .traits = kActivation | Monotone},
    OperatorTraits{.name = "square", .traits = kActivation | KeepsSmall},
    OperatorTraits{.name = "exp", .traits = kActivation | Monotone},
    OperatorTraits{.name = "expm1", .traits = kActivation | Monotone | KeepsSmall},
    OperatorTraits{.name = "sin", .traits = kActivation},
    OperatorTraits{.name = "cos", .traits = kActivation},
    OperatorTraits{.name = "sinh", .traits = kActivation | Monotone | KeepsSmall},
    OperatorTraits{.name = "atan", .traits = kActivation | Monotone | KeepsSmall},
    OperatorTraits{.name = "erf", .traits = kActivation | Monotone | KeepsSmall},
    OperatorTraits{.name = "erfc", .traits = kActivation},
    OperatorTraits{.name = "log", .traits = kActivation | Monotone, .steep_in = 0},
    OperatorTraits{.name = "log2", .traits = kActivation | Monotone, .steep_in = 0},
    OperatorTraits{.name = "log10", .traits = kActivation | Monotone, .steep_in = 0},
    OperatorTraits{.name = "log1p", .traits = kActivation | Monotone, .steep_in = 0},
    OperatorTraits{.name = "sqrt", .traits = kActivation | Monotone, .steep_in = 0},
    OperatorTraits{.name = "rsqrt", .traits = kActivation, .steep_in = 0},
    OperatorTraits{.name = "reciprocal", .traits = kActivation, .steep_in = 0},
    OperatorTraits{.name = "asin", .traits = kActivation | Monotone, .steep_in = 0},
    OperatorTraits{.name = "acos", .traits = kActivation, .steep_in = 0},
    OperatorTraits{.name = "asinh", .traits = kActivation | Monotone, .steep_in = 0},
    OperatorTraits{.name = "acosh", .traits = kActivation | Monotone, .steep_in = 0},
    OperatorTraits{.name = "atanh", .traits = kActivation | Monotone, .steep_in = 0},
    OperatorTraits{.name = "erfinv", .traits = kActivation | Monotone, .steep_in = 0},
    OperatorTraits{.name = "logit", .traits = kActivation | Monotone, .steep_in = 0},
    OperatorTraits{.name = "lgamma", .traits = kActivation, .steep_in = 0},
    OperatorTraits{.name = "digamma", .traits = kActivation, .steep_in = 0},

    // Functions of two.
    OperatorTraits{.name = "add", .traits = kBinary},
    OperatorTraits{.name = "sub", .also = {"subtract"}, .traits = kBinary},
    OperatorTraits{.name = "rsub", .traits = kBinary},
    OperatorTraits{.name = "mul", .also = {"multiply"}, .traits = kBinary | PassesFactors},
    OperatorTraits{
        .name = "div", .also = {"divide", "true_divide", "truediv"}, .traits = kBinary, .steep_in = 1},
    OperatorTraits{.name = "xlogy", .traits = kBinary, .steep_in = 1},

    // Sums and products over dimensions.
    OperatorTraits{.name = "matmul", .traits = PassesFactors},
    OperatorTraits{.name = "bmm", .traits = PassesFactors | KeepsRank},
    OperatorTraits{.name = "mm", .traits = PassesFactors | KeepsRank},
    OperatorTraits{.name = "mean", .traits = PassesFactors},
    OperatorTraits{.name = "sum", .traits = PassesFactors},
    OperatorTraits{.name = "cumsum", .traits = PassesFactors | KeepsShape},
    OperatorTraits{.name = "avg_pool1d", .traits = kPool | PassesFactors},
    OperatorTraits{.name = "avg_pool2d", .traits = kPool | PassesFactors | KeepsLayout},
    OperatorTraits{.name = "avg_pool3d", .traits = KeepsRank | PassesFactors},
    OperatorTraits{.name = "adaptive_avg_pool1d", .traits = kPool | PassesFactors},
    OperatorTraits{.name = "adaptive_avg_pool2d", .traits = kPool | PassesFactors | KeepsLayout},
    OperatorTraits{.name = "adaptive_avg_pool3d", .traits = kPool | PassesFactors},
    OperatorTraits{.name = "softmax", .traits = KeepsShape | KeepsDtype},
    OperatorTraits{.name = "log_softmax", .traits = KeepsShape | KeepsDtype},
    OperatorTraits{.name = "layer_norm", .traits = KeepsShape | KeepsDtype},
    OperatorTraits{.name = "group_norm", .traits = KeepsShape | KeepsDtype},
    OperatorTraits{
        .name = "batch_norm", .also = {"BatchNorm1d", "BatchNorm2d", "BatchNorm3d"}, .traits = kSame},
    OperatorTraits{.name = "instance_norm",
                   .also = {"InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"},
                   .traits = KeepsShape | KeepsDtype},

    // Questions.
    OperatorTraits{.name = "size", .traits = ReadsShapeOnly},
    OperatorTraits{.name = "dim", .traits = ReadsShapeOnly},
    OperatorTraits{.name = "numel", .traits = ReadsShapeOnly},
    OperatorTraits{.name = "len", .traits = ReadsShapeOnly},

    // Of quantized tensors.
    OperatorTraits{.name = "quantize_per_tensor", .traits = kNumberByNumber},
    OperatorTraits{.name = "dequantize", .traits = kNumberByNumber},
    OperatorTraits{.name = "int_repr", .traits = kNumberByNumber},
    OperatorTraits{.name = "_make_per_tensor_quantized_tensor", .traits = kNumberByNumber},
    OperatorTraits{.name = "quantized::elu", .traits = Elementwise | KeepsShape | KeepsDtype},
    OperatorTraits{.name = "quantized::hardswish", .traits = kActivation},
    OperatorTraits{.name = "quantized::leaky_relu", .traits = kActivation},
    OperatorTraits{.name = "quantized::add", .traits = kBinary},
    OperatorTraits{.name = "quantized::add_relu", .traits = kBinary},
    OperatorTraits{.name = "quantized::mul", .traits = kBinary},
    OperatorTraits{.name = "quantized::mul_relu", .traits = kBinary},
};

/// A name without what PyTorch's spellings of one operator differ in: "LeakyReLU", "leaky_relu_" →
/// "leakyrelu".
std::string plain(std::string_view name) {
  std::string letters;
  for (const char c : name) {
    if (c != '_') letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return letters;
}

/// A name without the namespaces that operators, functions and modules have; empty where it has another.
std::string_view without_namespace(std::string_view name) {
  for (const std::string_view prefix :
       {"aten::", "torch.nn.functional.", "torch.nn.", "torch.", "operator."}) {
    if (name.starts_with(prefix)) {
      name.remove_prefix(prefix.size());
      break;
    }
  }
  return name.find_first_of(".:") == std::string_view::npos ? name : std::string_view();
}

using Rows = std::unordered_map<std::string, const OperatorTraits*>;

Rows rows_by_name() {
  Rows rows;
  for (const OperatorTraits& row : all()) {
    const bool has_namespace = row.name.find(':') != std::string_view::npos;
    rows.emplace(has_namespace ? std::string(row.name) : plain(row.name), &row);
    for (const std::string_view other : row.also) {
      if (!other.empty()) rows.emplace(plain(other), &row);
    }
  }
  return rows;
}

/// Whether a node reads a tensor, or a list of them: operators of one name may work on lists and numbers.
bool reads_tensor(const ir::Node* node) {
  return !node->inputs().empty() && ir::holds_tensor(node->input(0));
}

/// Whether an overload is another operator: view(dtype) reads the bytes of a tensor as numbers of another
/// kind, and clamps between tensors depend on what these hold.
bool is_other_operator(const ir::Node* node, const OperatorTraits& row) {
  if (node->kind() == c10::aten::view) return node->input(1)->type()->kind() == c10::TypeKind::IntType;
  return row.clamp && std::ranges::any_of(node->inputs().slice(1), ir::holds_tensor);
}

/// The name of PyTorch's module that is called; empty of others.
std::string_view module_name(const ir::Model& model, const ir::Node* call) {
  const std::string_view type = ir::call_of(model, call).type.name;
  return type.starts_with("torch.nn.") && !ir::is_opaque(model, call) ? type : std::string_view();
}

/// Of an operator with or without a row, as `plain` spells it; empty of what works on lists and numbers.
std::string plain_name(const ir::Model& model, const ir::Node* node) {
  if (ir::is_module_call(node)) return plain(without_namespace(module_name(model, node)));
  if (node->kind() == c10::prim::CallFunction) return plain(ir::functional_name(node));
  const bool makes_tensor = node->outputs().size() == 1 && ir::holds_tensor(node->output());
  if (!makes_tensor && !reads_tensor(node)) return {};
  return plain(without_namespace(node->kind().toQualString()));
}

}  // namespace

std::span<const OperatorTraits> all() {
  static const TableRows<OperatorTraits> kAll("traits", kOperators);
  return kAll.rows();
}

const OperatorTraits* find(std::string_view name) {
  static const Rows kRows = rows_by_name();
  if (const auto found = kRows.find(std::string(name)); found != kRows.end()) return found->second;
  const auto found = kRows.find(plain(without_namespace(name)));
  return found == kRows.end() ? nullptr : found->second;
}

const OperatorTraits* traits_of(const ir::Node* node) {
  if (node->kind() == c10::prim::CallFunction) return find(ir::functional_name(node));
  const OperatorTraits* row = reads_tensor(node) ? find(node->kind().toQualString()) : nullptr;
  return row == nullptr || is_other_operator(node, *row) ? nullptr : row;
}

const OperatorTraits* traits_of(const ir::Model& model, const ir::Node* node) {
  if (!ir::is_module_call(node)) return traits_of(node);
  return find(module_name(model, node));
}

bool is_one_of(const ir::Model& model, const ir::Node* node, std::initializer_list<std::string_view> names) {
  if (const OperatorTraits* row = traits_of(model, node))
    return std::ranges::find(names, row->name) != names.end();
  const std::string name = plain_name(model, node);
  return !name.empty() && find(name) == nullptr && std::ranges::find(names, name, plain) != names.end();
}

bool is_of_attention(const ir::Model& model, const ir::Node* node) {
  return is_one_of(model, node, {"matmul", "bmm", "softmax", "layer_norm", "group_norm", "gelu"});
}

std::vector<ir::Node*> readers_of_numbers(const ir::Value* value) {
  std::vector<ir::Node*> readers;
  for (const torch::jit::Use& use : value->uses()) {
    if (!has(traits_of(use.user), ReadsShapeOnly)) readers.push_back(use.user);
  }
  return readers;
}

bool is_in_place(std::string_view name) { return name.ends_with('_') && !name.ends_with("__"); }

bool has(const OperatorTraits* row, Trait trait) { return row != nullptr && row->has(trait); }

bool moves_values(const OperatorTraits* row) {
  return row != nullptr && (row->values == Rearranged || row->values == Selected);
}

bool only_reshapes(const OperatorTraits* row) {
  return row != nullptr && row->values == Rearranged && row->has(KeepsOrder);
}

bool commutes_with_rounding(const OperatorTraits* row) {
  return has(row, CommutesWithRounding) || moves_values(row) ||
         (row != nullptr && (row->values == Joined || row->values == Chosen));
}

bool keeps_qparams(const OperatorTraits* row) {
  return commutes_with_rounding(row) && row->values != Joined && !row->has(ElementwiseOfTwo);
}

bool keeps_rank(const OperatorTraits* row) {
  return has(row, KeepsRank) && row->values != Joined && !row->has(ElementwiseOfTwo);
}

bool is_elementwise(const OperatorTraits* row) { return has(row, Elementwise); }

}  // namespace tsq::operators
