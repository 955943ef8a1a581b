#pragma once

#include <string>

#include "cli/printing/progress.h"
#include "cli/process/model_file.h"

namespace tsq::cli {

/// The first step of commands that quantize: loads the model, and says on what it runs. Where `method` is
/// forward, the model has to have it.
ModelFile load_float_model(const std::string& path, Steps& steps, const Session& session,
                           const std::string& method = "forward");

}  // namespace tsq::cli
