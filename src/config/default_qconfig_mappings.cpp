#include <tsq/qconfig_mapping.h>

#include <algorithm>
#include <array>

#include "base/known_engines.h"
#include "config/fixed_range_operators.h"
#include "config/observers.h"

namespace tsq {
namespace {

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
  // FBGEMM's transposed convolutions have no per-channel weights.
  const QConfig transpose = runs_fbgemm(backend) ? QConfig{qconfig.activation, default_weight} : qconfig;
  const QConfig layer_norm{qconfig.activation, placeholder()};

  QConfigMapping mapping;
  mapping.set_global(qconfig).set_object_type("reshape", tsq::qconfig("default_reuse_input_qconfig"));
  for (const std::string_view type : kConvTransposes) mapping.set_object_type(type, transpose);
  mapping.set_object_type("torch.nn.functional.layer_norm", layer_norm)
      .set_object_type("torch.nn.LayerNorm", layer_norm)
      .set_object_type("torch.nn.PReLU", tsq::qconfig("default_quint8_weight_qconfig"));
  for (const FixedRangeOperator& op : kFixedRangeOperators) {
    ObserverSpec activation = op.observer();
    if (qat) activation.fake_quantize = "FixedQParamsFakeQuantize";
    mapping.set_object_type(op.name, QConfig{std::move(activation), default_weight});
  }
  return mapping;
}

/// Source: _get_default_qconfig_mapping_with_default_qconfig (B-24).
QConfigMapping with_one_qconfig(QConfigMapping mapping, const QConfig& qconfig) {
  mapping.set_global(qconfig);
  const auto entries = mapping.object_type_qconfigs();
  for (const auto& [type, ignored] : entries) {
    if (std::ranges::count(kFixedRangeOperators, type.name, &FixedRangeOperator::name) == 0)
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
