#include "backends/kernels/packing_rules.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>

#include "backends/kernels/first_row.h"
#include "backends/kernels/packed.h"

namespace tsq::kernels {
namespace {

bool is_transposed(std::string_view prepack) {
  return prepack.find("conv_transpose") != std::string_view::npos;
}

bool has_zero_points(std::string_view /*prepack*/, const ir::Weighted& weighted) {
  return weighted.weight_qparams->zero_point.ne(0).any().item<bool>();
}

bool pads_transposed_output(std::string_view prepack, const ir::Weighted& weighted) {
  return is_transposed(prepack) &&
         std::ranges::any_of(weighted.output_padding, [](std::int64_t padding) { return padding != 0; });
}

bool has_scales_of_transposed(std::string_view prepack, const ir::Weighted& weighted) {
  return is_transposed(prepack) && weighted.weight_qparams->qscheme == c10::QScheme::PER_CHANNEL_AFFINE;
}

/// What an engine does not pack, of the operators quantized::*_prepack.
struct PackingRule {
  std::string_view engine;
  bool (*refuses)(std::string_view prepack, const ir::Weighted& weighted);
  const char* reason;
};
constexpr const char* kScalesOfTransposed = "a transposed convolution has one scale for its whole weight";
constexpr std::array kRules{
    PackingRule{"onednn", pads_transposed_output, "onednn pads no output of a transposed convolution"},
    PackingRule{"x86", has_scales_of_transposed, kScalesOfTransposed},
    PackingRule{"fbgemm", has_scales_of_transposed, kScalesOfTransposed},
    PackingRule{"onednn", has_scales_of_transposed, kScalesOfTransposed},
    PackingRule{"onednn", has_zero_points, "onednn takes weights with zero point 0 alone"},
};

}  // namespace

std::string packing_refusal(const Target& target, std::string_view prepack, const ir::Weighted& weighted) {
  const bool is_of_bytes = weighted.weight_qparams->dtype == c10::ScalarType::QInt8;
  if (!is_of_bytes || !prepack.starts_with("quantized::")) return {};
  const PackingRule* rule = first_row(kRules, [&](const PackingRule& row) {
    return row.engine == target.engine && row.refuses(prepack, weighted);
  });
  return rule == nullptr ? std::string() : refusal(prepack, rule->reason).problem();
}

}  // namespace tsq::kernels
