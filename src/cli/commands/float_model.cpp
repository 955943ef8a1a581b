#include "cli/commands/float_model.h"

namespace tsq::cli {

ModelFile load_float_model(const std::string& path, Steps& steps, const Session& session,
                           const std::string& method) {
  ModelFile model = steps.run("load", [&](const Progress&) { return load_float_model(path, method); });
  tell_devices(model, session);
  return model;
}

}  // namespace tsq::cli
