#pragma once

/// Warnings of LibTorch.
namespace tsq {

/// LibTorch warns on standard error of things that its users cannot change (deprecated dtypes, missing
/// NNPACK). From now on it does not, unless TORCH_CPP_LOG_LEVEL is set. For the whole process; call it once,
/// at the start.
void silence_libtorch();

}  // namespace tsq
