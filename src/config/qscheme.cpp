#include "config/qscheme.h"

#include <fmt/format.h>
#include <tsq/error.h>
#include <tsq/qconfig.h>

#include <algorithm>
#include <array>

#include "base/text.h"

namespace tsq {
namespace {

using c10::QScheme;

struct QSchemeName {
  std::string_view name;
  QScheme qscheme;
};

constexpr std::array kQSchemeNames{
    QSchemeName{"per_tensor_affine", c10::kPerTensorAffine},
    QSchemeName{"per_tensor_symmetric", c10::kPerTensorSymmetric},
    QSchemeName{"per_channel_affine", c10::kPerChannelAffine},
    QSchemeName{"per_channel_symmetric", c10::kPerChannelSymmetric},
    QSchemeName{"per_channel_affine_float_qparams", c10::kPerChannelAffineFloatQParams},
};

}  // namespace

std::string_view qscheme_name(QScheme qscheme) {
  const auto found = std::ranges::find(kQSchemeNames, qscheme, &QSchemeName::qscheme);
  if (found != kQSchemeNames.end()) return found->name;
  throw Error(ErrorCode::Internal, "a qscheme without a name");
}

QScheme qscheme_from_name(std::string_view name) {
  const std::string_view bare = without_prefix(name, "torch.");
  const auto found = std::ranges::find(kQSchemeNames, bare, &QSchemeName::name);
  if (found != kQSchemeNames.end()) return found->qscheme;
  throw Error(ErrorCode::BadConfig, fmt::format("'{}' is not a qscheme", name),
              suggestion(bare, names_of(kQSchemeNames, &QSchemeName::name)));
}

}  // namespace tsq
