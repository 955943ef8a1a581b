#pragma once

#include "backends/programs/translation_cache.h"
#include "ir/weighted.h"

namespace tsq::programs {

/// What is known of a rounded weight.
WeightForms& forms_of(TranslationCache& cache, const ir::Weighted& weighted, bool transposed);

/// Its codes and what belongs to them.
void fill_codes(WeightForms& forms, const ir::Weighted& weighted);

}  // namespace tsq::programs
