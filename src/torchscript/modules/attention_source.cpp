#include "torchscript/modules/attention_source.h"

#include <fmt/format.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/frontend/sugared_value.h>
#include <torch/csrc/jit/ir/constants.h>

#include <cmath>

#include "ir/edit.h"
#include "torchscript/modules/source_resolver.h"

namespace tsq::torchscript {
namespace {

using torch::jit::Graph;
using torch::jit::Module;
using torch::jit::Node;

constexpr const char* kMethod = "tsq_plain_forward";

/// A class has a method only as long as it is compiled.
class MethodForNow {
 public:
  explicit MethodForNow(c10::ClassTypePtr type) : type_(std::move(type)) {}
  MethodForNow(const MethodForNow&) = delete;
  MethodForNow& operator=(const MethodForNow&) = delete;
  ~MethodForNow() {
    if (type_ && type_->findMethod(kMethod) != nullptr) type_->unsafeRemoveMethod(kMethod);
  }

 private:
  c10::ClassTypePtr type_;
};

/// Compiles a function, or, with `self`, a method of its class. Null where a module's attributes are others
/// than those of torch.nn.
std::shared_ptr<Graph> compiled(const std::string& source, const c10::ClassTypePtr& self = nullptr) {
  torch::jit::CompilationUnit unit;
  const c10::QualifiedName prefix("__torch__.tsq.plain");
  const torch::jit::SimpleSelf methods(self);
  const MethodForNow guard(self);
  try {
    const auto functions = unit.define(prefix, source, source_resolver(), self ? &methods : nullptr);
    auto graph = torch::jit::toGraphFunction(*functions.back()).graph()->copy();
    if (!self) ir::inline_calls(*graph);
    return graph;
  } catch (const std::exception&) {
    return nullptr;
  }
}

bool is_none(const Module& module, const std::string& name) {
  return module.attr(name, c10::IValue()).isNone();
}

bool is_true(const Module& module, const std::string& name) { return module.attr(name, false).toBool(); }

/// What follows the projections q, k and v of `query`, `key` and `value`: each is [..., heads, length,
/// width]. The numbers are the heads and the scale of the scores. The masks are those of torch.nn: true
/// leaves a position out, numbers are added. A mask for each head is [batch * heads, length, length]; it
/// keeps no dimension for one sample, which may come without a batch.
constexpr const char* kAttention = R"(
  bias: Optional[Tensor] = None
  if attn_mask is not None:
    if attn_mask.dtype == 11:
      attn_mask = torch.zeros_like(attn_mask, dtype=q.dtype).masked_fill(attn_mask, float('-inf'))
    else:
      attn_mask = attn_mask.to(q.dtype)
    if attn_mask.dim() == 3:
      attn_mask = attn_mask.unflatten(0, [-1, {0}]).squeeze(0)
    bias = attn_mask
  if key_padding_mask is not None:
    if key_padding_mask.dtype == 11:
      key_padding_mask = torch.zeros_like(key_padding_mask, dtype=q.dtype).masked_fill(key_padding_mask, float('-inf'))
    else:
      key_padding_mask = key_padding_mask.to(q.dtype)
    padding = key_padding_mask.unsqueeze(-2).unsqueeze(-2)
    if bias is not None:
      padding = bias + padding
    bias = padding
  weights: Optional[Tensor] = None
  if need_weights:
    scores = torch.matmul(q, k.transpose(-2, -1)) * {1:.17g}
    if bias is not None:
      scores = scores + bias
    all_weights = torch.softmax(scores, -1)
    attended = torch.matmul(all_weights, v)
    if average_attn_weights:
      weights = all_weights.mean([-3])
    else:
      weights = all_weights
  else:
    attended = torch.scaled_dot_product_attention(q, k, v, bias)
)";

/// Weights, biases and choices of multi-head attention, as expressions.
struct Attention {
  std::array<std::string, 3> weights{};  ///< of the projections of query, key and value
  std::array<std::string, 3> biases{};
  std::string out_weight{};
  std::string out_bias{};
  int64_t embed_dim{};
  int64_t heads{};
  bool batch_first{};
};

/// The lines that compute `output` and `weights`.
std::string lines_of(const Attention& all) {
  const int64_t width = all.embed_dim / all.heads;
  // Without a batch the same dimensions, counted from the end or the beginning, are meant.
  const std::string_view to_heads = all.batch_first ? "transpose(-3, -2)" : "movedim(0, -2)";
  const std::string_view from_heads = all.batch_first ? "transpose(-3, -2)" : "movedim(-2, 0)";
  constexpr std::array<std::string_view, 3> kNames{"q", "k", "v"};
  constexpr std::array<std::string_view, 3> kInputs{"query", "key", "value"};
  std::string text = "  assert attn_mask is not None or not is_causal, 'is_causal needs attn_mask'\n";
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    text += fmt::format("  {} = torch.linear({}, {}, {}).unflatten(-1, [{}, {}]).{}\n", kNames[i], kInputs[i],
                        all.weights[i], all.biases[i], all.heads, width, to_heads);
  }
  text += fmt::format(kAttention, all.heads, 1.0 / std::sqrt(static_cast<double>(width))).substr(1);
  return text + fmt::format("  output = torch.linear(attended.{}.flatten(-2), {}, {})\n", from_heads,
                            all.out_weight, all.out_bias);
}

/// LibTorch refuses to run what has no such heads.
bool has_equal_heads(const Attention& all) { return all.heads > 0 && all.embed_dim % all.heads == 0; }

/// The rows of a packed projection.
void take_packed(Attention& all, const std::string& weight, const std::string& bias) {
  for (std::size_t i = 0; i < all.weights.size(); ++i) {
    const auto rows = fmt::format("[{}:{}]", static_cast<int64_t>(i) * all.embed_dim,
                                  static_cast<int64_t>(i + 1) * all.embed_dim);
    all.weights[i] = weight + rows;
    all.biases[i] = bias == "None" ? bias : bias + rows;
  }
}

std::shared_ptr<Graph> multihead_attention(const Module& module) {
  if (!is_none(module, "bias_k") || !is_none(module, "bias_v") || is_true(module, "add_zero_attn"))
    return nullptr;
  Attention all{.out_weight = "self.out_proj.weight",
                .out_bias = "self.out_proj.bias",
                .embed_dim = module.attr("embed_dim").toInt(),
                .heads = module.attr("num_heads").toInt(),
                .batch_first = is_true(module, "batch_first")};
  if (!has_equal_heads(all)) return nullptr;
  take_packed(all, "self.in_proj_weight", is_none(module, "in_proj_bias") ? "None" : "self.in_proj_bias");
  if (is_none(module, "in_proj_weight"))
    all.weights = {"self.q_proj_weight", "self.k_proj_weight", "self.v_proj_weight"};
  return compiled(
      fmt::format(
          "def {}(self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Optional[Tensor] = "
          "None, need_weights: bool = True, attn_mask: Optional[Tensor] = None, average_attn_weights: "
          "bool = True, is_causal: bool = False) -> Tuple[Tensor, Optional[Tensor]]:\n{}  return output, "
          "weights\n",
          kMethod, lines_of(all)),
      module.type());
}

bool is_scripted_attention(const Module& module) {
  return module.hasattr("num_heads") && module.hasattr("embed_dim") && module.hasattr("out_proj");
}

/// "torch.relu(x)"; empty for a function of the user's.
std::string activation_of(const Module& layer, const std::string& x) {
  const int64_t known = layer.attr("activation_relu_or_gelu").toInt();
  if (known == 1) return fmt::format("torch.relu({})", x);
  if (known == 2) return fmt::format("torch.gelu({})", x);
  const bool is_module = layer.hasattr("activation") && layer.attr("activation").isModule();
  return is_module ? fmt::format("self.activation.forward({})", x) : std::string();
}

std::shared_ptr<Graph> encoder_layer(const Module& module) {
  const bool is_scripted = module.hasattr("norm_first") && module.hasattr("activation_relu_or_gelu") &&
                           is_scripted_attention(module.attr("self_attn").toModule());
  const std::string activation = is_scripted ? activation_of(module, "self.linear1.forward(y)") : "";
  if (activation.empty()) return nullptr;
  const std::string attend =
      "self.self_attn.forward(y, y, y, src_key_padding_mask, False, src_mask, True, False)[0]";
  const std::string feed_forward = fmt::format("self.linear2.forward({})", activation);
  const std::string body =
      is_true(module, "norm_first")
          ? fmt::format(
                "  y = self.norm1.forward(src)\n  x = src + {}\n  y = self.norm2.forward(x)\n  return x + "
                "{}\n",
                attend, feed_forward)
          : fmt::format(
                "  y = src\n  y = self.norm1.forward(src + {})\n  return self.norm2.forward(y + {})\n",
                attend, feed_forward);
  return compiled(fmt::format("def {}(self, src: Tensor, src_mask: Optional[Tensor] = None, "
                              "src_key_padding_mask: Optional[Tensor] = None, is_causal: bool = False):\n{}",
                              kMethod, body),
                  module.type());
}

/// Where torch.nn would make nested tensors of samples of different lengths, what is left out becomes zero.
constexpr const char* kLeftOut = R"(
  if src_key_padding_mask is not None and mask is None and src.dim() == 3:
    left_out = src_key_padding_mask
    if left_out.dtype != 11:
      left_out = left_out != 0
    if torch._nested_tensor_from_mask_left_aligned(src, left_out.logical_not()):
      x = x.masked_fill(left_out.unsqueeze(-1), 0.)
)";

std::shared_ptr<Graph> encoder(const Module& module) {
  if (!module.hasattr("layers") || !module.hasattr("use_nested_tensor")) return nullptr;
  std::string text = fmt::format(
      "def {}(self, src: Tensor, mask: Optional[Tensor] = None, src_key_padding_mask: Optional[Tensor] = "
      "None, "
      "is_causal: Optional[bool] = None):\n  x = src\n",
      kMethod);
  for (const auto& layer : module.attr("layers").toModule().named_children()) {
    const auto name = layer.value.type()->name();
    const bool is_known = name && symbol(name->qualifiedName()).name == "torch.nn.TransformerEncoderLayer";
    if (!is_known) return nullptr;
    text += fmt::format("  x = getattr(self.layers, '{}').forward(x, mask, src_key_padding_mask, False)\n",
                        layer.name);
  }
  if (is_true(module, "use_nested_tensor")) text += std::string(kLeftOut).substr(1);
  const bool has_norm = module.hasattr("norm") && module.attr("norm").isModule();
  return compiled(text + (has_norm ? "  return self.norm.forward(x)\n" : "  return x\n"), module.type());
}

constexpr const char* kOfOperators = R"(
def heads_of(x: Tensor, weight: Tensor, bias: Tensor, heads: int, index: int) -> Tensor:
  width = weight.size(0) // 3
  rows = torch.linear(x, weight[index * width:(index + 1) * width], bias[index * width:(index + 1) * width])
  return rows.unflatten(-1, [heads, width // heads]).transpose(-3, -2)

def bias_of(mask: Tensor, mask_type: Optional[int], like: Tensor) -> Tensor:
  left_out = mask.to(dtype=11)
  if mask_type is not None:
    if mask_type == 1:
      left_out = left_out.unsqueeze(1).unsqueeze(1)
  return torch.zeros_like(left_out, dtype=like.dtype).masked_fill(left_out, float('-inf'))

def _native_multi_head_attention(query: Tensor, key: Tensor, value: Tensor, embed_dim: int, num_head: int, qkv_weight: Tensor, qkv_bias: Tensor, proj_weight: Tensor, proj_bias: Tensor, mask: Optional[Tensor], need_weights: bool, average_attn_weights: bool, mask_type: Optional[int]) -> Tuple[Tensor, Tensor]:
  q = heads_of(query, qkv_weight, qkv_bias, num_head, 0)
  k = heads_of(key, qkv_weight, qkv_bias, num_head, 1)
  v = heads_of(value, qkv_weight, qkv_bias, num_head, 2)
  bias: Optional[Tensor] = None
  if mask is not None:
    bias = bias_of(mask, mask_type, q)
  weights = q
  if need_weights:
    scores = torch.matmul(q, k.transpose(-2, -1)) * (1.0 / (embed_dim // num_head) ** 0.5)
    if bias is not None:
      scores = scores + bias
    weights = torch.softmax(scores, -1)
    attended = torch.matmul(weights, v)
    if average_attn_weights:
      weights = weights.mean([1])
  else:
    attended = torch.scaled_dot_product_attention(q, k, v, bias)
  return torch.linear(attended.transpose(-3, -2).flatten(-2), proj_weight, proj_bias), weights

def attend(y: Tensor, embed_dim: int, num_heads: int, qkv_weight: Tensor, qkv_bias: Tensor, proj_weight: Tensor, proj_bias: Tensor, mask: Optional[Tensor], mask_type: Optional[int]) -> Tensor:
  return _native_multi_head_attention(y, y, y, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False, False, mask_type)[0]

def feed(y: Tensor, use_gelu: bool, weight_1: Tensor, bias_1: Tensor, weight_2: Tensor, bias_2: Tensor) -> Tensor:
  hidden = torch.linear(y, weight_1, bias_1)
  if use_gelu:
    hidden = torch.gelu(hidden)
  else:
    hidden = torch.relu(hidden)
  return torch.linear(hidden, weight_2, bias_2)

def _transformer_encoder_layer_fwd(src: Tensor, embed_dim: int, num_heads: int, qkv_weight: Tensor, qkv_bias: Tensor, proj_weight: Tensor, proj_bias: Tensor, use_gelu: bool, norm_first: bool, eps: float, norm_weight_1: Tensor, norm_bias_1: Tensor, norm_weight_2: Tensor, norm_bias_2: Tensor, weight_1: Tensor, bias_1: Tensor, weight_2: Tensor, bias_2: Tensor, mask: Optional[Tensor], mask_type: Optional[int]) -> Tensor:
  x = src
  if norm_first:
    y = torch.layer_norm(x, [embed_dim], norm_weight_1, norm_bias_1, eps)
    x = x + attend(y, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, mask_type)
    y = torch.layer_norm(x, [embed_dim], norm_weight_2, norm_bias_2, eps)
    x = x + feed(y, use_gelu, weight_1, bias_1, weight_2, bias_2)
  else:
    x = x + attend(x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, mask_type)
    x = torch.layer_norm(x, [embed_dim], norm_weight_1, norm_bias_1, eps)
    x = x + feed(x, use_gelu, weight_1, bias_1, weight_2, bias_2)
    x = torch.layer_norm(x, [embed_dim], norm_weight_2, norm_bias_2, eps)
  return x
)";

/// The place of an argument of F.multi_head_attention_forward in its call, where the function is the first.
enum FunctionArgument : std::size_t {
  kEmbedDim = 4,
  kNumHeads = 5,
  kInBias = 7,
  kBiasK = 8,
  kBiasV = 9,
  kAddZeroAttn = 10,
  kOutBias = 13,
  kSeparate = 18,
  kStaticK = 22,
  kStaticV = 23,
  kFunctionArguments = 26
};

}  // namespace

std::shared_ptr<Graph> plain_forward(const Module& module, Symbol type) {
  if (type.name == "torch.nn.MultiheadAttention" && is_scripted_attention(module))
    return multihead_attention(module);
  if (type.name == "torch.nn.TransformerEncoderLayer" && module.hasattr("self_attn"))
    return encoder_layer(module);
  return type.name == "torch.nn.TransformerEncoder" ? encoder(module) : nullptr;
}

std::shared_ptr<Graph> plain_operator(const ir::Node* node) {
  const std::string_view kind = node->kind().toQualString();
  if (kind != "aten::_transformer_encoder_layer_fwd" && kind != "aten::_native_multi_head_attention")
    return nullptr;
  torch::jit::CompilationUnit unit;
  unit.define(std::nullopt, kOfOperators, source_resolver(), nullptr);
  auto graph = torch::jit::toGraphFunction(unit.get_function(node->kind().toUnqualString())).graph()->copy();
  ir::inline_calls(*graph);
  Node* result = graph->outputs().at(0)->node();
  if (node->outputs().size() == 1 || result->kind() != c10::prim::TupleConstruct) return graph;
  graph->eraseOutput(0);
  for (torch::jit::Value* each : result->inputs()) graph->registerOutput(each);
  return graph;
}

std::shared_ptr<Graph> plain_function(const ir::Node* call) {
  if (call->inputs().size() != kFunctionArguments) return nullptr;
  const auto constant = [&](FunctionArgument index) { return torch::jit::toIValue(call->input(index)); };
  const auto heads = constant(kNumHeads);
  const auto embed_dim = constant(kEmbedDim);
  const auto is_separate = constant(kSeparate);
  const auto adds_zero = constant(kAddZeroAttn);
  const auto is_int = [](const auto& value) { return value && value->isInt(); };
  const auto is_bool = [](const auto& value) { return value && value->isBool(); };
  if (!is_int(heads) || !is_int(embed_dim) || !is_bool(is_separate) || !is_bool(adds_zero) ||
      adds_zero->toBool())
    return nullptr;
  for (const FunctionArgument each : {kBiasK, kBiasV, kStaticK, kStaticV}) {
    if (!call->input(each)->mustBeNone()) return nullptr;
  }
  const bool has_bias = !call->input(kInBias)->mustBeNone();
  Attention all{.out_weight = "out_proj_weight",
                .out_bias = "out_proj_bias",
                .embed_dim = embed_dim->toInt(),
                .heads = heads->toInt(),
                .batch_first = false};
  if (!has_equal_heads(all)) return nullptr;
  take_packed(all, "in_weight", has_bias ? "in_bias" : "None");
  std::string known = has_bias ? "  assert in_proj_bias is not None\n  in_bias = in_proj_bias\n" : "";
  if (is_separate->toBool()) {
    constexpr std::array<std::string_view, 3> kNames{"q", "k", "v"};
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      known +=
          fmt::format("  assert {0}_proj_weight is not None\n  {0}_weight = {0}_proj_weight\n", kNames[i]);
      all.weights[i] = fmt::format("{}_weight", kNames[i]);
    }
  } else {
    known += "  assert in_proj_weight is not None\n  in_weight = in_proj_weight\n";
  }
  return compiled(fmt::format(
      "def {}(query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int, "
      "in_proj_weight: "
      "Optional[Tensor], in_proj_bias: Optional[Tensor], bias_k: Optional[Tensor], bias_v: Optional[Tensor], "
      "add_zero_attn: bool, dropout_p: float, out_proj_weight: Tensor, out_proj_bias: Optional[Tensor], "
      "training: "
      "bool, key_padding_mask: Optional[Tensor], need_weights: bool, attn_mask: Optional[Tensor], "
      "use_separate_proj_weight: bool, q_proj_weight: Optional[Tensor], k_proj_weight: Optional[Tensor], "
      "v_proj_weight: Optional[Tensor], static_k: Optional[Tensor], static_v: Optional[Tensor], "
      "average_attn_weights: bool, is_causal: bool) -> Tuple[Tensor, Optional[Tensor]]:\n{}{}  return "
      "output, "
      "weights\n",
      kMethod, known, lines_of(all)));
}

}  // namespace tsq::torchscript
