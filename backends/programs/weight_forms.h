#pragma once

#include <cstdint>

#include "backends/programs/translation_cache.h"
#include "ir/weighted.h"

namespace tsq::programs {

/// Whether a weight has int8 codes with a zero point of zero and a scale for each output channel, or one for
/// all.
[[nodiscard]] bool has_symmetric_codes(const ir::Weighted& weighted, std::int64_t output_axis);

/// What is known of a rounded weight.
WeightForms& forms_of(TranslationCache& cache, const ir::Weighted& weighted, bool transposed);

/// Its codes and what belongs to them.
void fill_codes(WeightForms& forms, const ir::Weighted& weighted);

}  // namespace tsq::programs
