#pragma once

#include <string>

namespace tsq::io {

/// What a file is that is no TorchScript model, and what to do about it.
struct FileKind {
  std::string what{};    ///< "an ONNX model", to follow "'x.pt' is "
  std::string remedy{};  ///< "give the TorchScript file …"
};

/// Tells by the content what a file holds that was given as a model; the extension counts only for formats
/// without a mark of their own. `what` is empty for a whole TorchScript archive and for what is not known.
FileKind kind_of_file(const std::string& path);

}  // namespace tsq::io
