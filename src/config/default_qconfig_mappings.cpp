#include <tsq/qconfig_mapping.h>

#include <algorithm>
#include <array>

#include "config/observers.h"

namespace tsq {
namespace {

/// Operators whose output range is known beforehand. Source: _FIXED_QPARAMS_OP_TO_OBSERVER in
/// qconfig_mapping.py.
struct FixedQParamsOp {
  std::string_view type;
  bool from_minus_one;  ///< -1 to 1; else 0 to 1
};
constexpr std::array kFixedQParamsOps{
    FixedQParamsOp{"torch.nn.Hardsigmoid", false},
    FixedQParamsOp{"torch.nn.functional.hardsigmoid", false},
    FixedQParamsOp{"hardsigmoid", false},
    FixedQParamsOp{"hardsigmoid_", false},
    FixedQParamsOp{"torch.nn.Sigmoid", false},
    FixedQParamsOp{"torch.sigmoid", false},
    FixedQParamsOp{"sigmoid", false},
    FixedQParamsOp{"sigmoid_", false},
    FixedQParamsOp{"torch.nn.Softmax", false},
    FixedQParamsOp{"torch.nn.Tanh", true},
    FixedQParamsOp{"torch.tanh", true},
    FixedQParamsOp{"tanh", true},
    FixedQParamsOp{"tanh_", true},
};

constexpr std::array<std::string_view, 6> kConvTransposes{
    "torch.nn.ConvTranspose1d",
    "torch.nn.ConvTranspose2d",
    "torch.nn.ConvTranspose3d",
    "torch.nn.functional.conv_transpose1d",
    "torch.nn.functional.conv_transpose2d",
    "torch.nn.functional.conv_transpose3d",
};

/// Source: _get_default_qconfig_mapping.
QConfigMapping default_mapping(const QConfig& qconfig, std::string_view backend, bool qat) {
  using namespace observers;
  const ObserverSpec default_weight = qat ? fake_weight() : weight();
  // Transposed convolutions of fbgemm and x86 have no per-channel weights.
  const bool per_tensor = backend == "fbgemm" || backend == "x86";
  const QConfig transpose = per_tensor ? QConfig{qconfig.activation, default_weight} : qconfig;
  const QConfig layer_norm{qconfig.activation, placeholder()};

  QConfigMapping mapping;
  mapping.set_global(qconfig).set_object_type("reshape", tsq::qconfig("default_reuse_input_qconfig"));
  for (const std::string_view type : kConvTransposes) mapping.set_object_type(type, transpose);
  mapping.set_object_type("torch.nn.functional.layer_norm", layer_norm)
      .set_object_type("torch.nn.LayerNorm", layer_norm)
      .set_object_type("torch.nn.PReLU", tsq::qconfig("default_quint8_weight_qconfig"));
  for (const FixedQParamsOp& op : kFixedQParamsOps) {
    ObserverSpec activation = op.from_minus_one ? fixed_neg_1_to_1() : fixed_0_to_1();
    if (qat) activation.fake_quantize = "FixedQParamsFakeQuantize";
    mapping.set_object_type(op.type, QConfig{std::move(activation), default_weight});
  }
  return mapping;
}

/// Source: _get_default_qconfig_mapping_with_default_qconfig (B-24).
QConfigMapping with_one_qconfig(QConfigMapping mapping, const QConfig& qconfig) {
  mapping.set_global(qconfig);
  const auto entries = mapping.object_type_qconfigs();
  for (const auto& [type, ignored] : entries) {
    if (std::ranges::find(kFixedQParamsOps, type.name, &FixedQParamsOp::type) == kFixedQParamsOps.end())
      mapping.set_object_type(type, qconfig);
  }
  return mapping;
}

}  // namespace

QConfigMapping default_qconfig_mapping(std::string_view backend, int version) {
  return default_mapping(default_qconfig(backend, version), backend, false);
}

QConfigMapping default_qat_qconfig_mapping(std::string_view backend, int version) {
  return default_mapping(default_qat_qconfig(backend, version), backend, true);
}

QConfigMapping symmetric_qnnpack_qconfig_mapping() {
  return with_one_qconfig(default_qconfig_mapping("qnnpack"), qconfig("default_symmetric_qnnpack_qconfig"));
}

QConfigMapping symmetric_qnnpack_qat_qconfig_mapping() {
  return with_one_qconfig(default_qat_qconfig_mapping("qnnpack"),
                          qconfig("default_symmetric_qnnpack_qat_qconfig"));
}

QConfigMapping dynamic_qconfig_mapping() {
  return QConfigMapping().set_global(qconfig("default_dynamic_qconfig"));
}

QConfigMapping weight_only_qconfig_mapping(int bits, int64_t group_size) {
  constexpr int kFewestLinearBits = 4;
  const QConfig embedding = embedding_weight_only_qconfig(bits);
  const QConfig linear = weight_only_qconfig(std::max(bits, kFewestLinearBits), group_size);
  return QConfigMapping()
      .set_object_type("torch.nn.Embedding", embedding)
      .set_object_type("torch.nn.EmbeddingBag", embedding)
      .set_object_type("torch.nn.functional.embedding", embedding)
      .set_object_type("torch.nn.functional.embedding_bag", embedding)
      .set_object_type("torch.nn.Linear", linear);
}

}  // namespace tsq
