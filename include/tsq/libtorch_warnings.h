#pragma once

namespace tsq {

/// LibTorch warns on standard error of things that its users cannot change (deprecated dtypes, missing
/// NNPACK). From now on it does not, unless TORCH_CPP_LOG_LEVEL is set. For the whole process; call it once,
/// at the start, as the command does.
void silence_libtorch();

}  // namespace tsq
