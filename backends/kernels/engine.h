#pragma once

#include <ATen/Context.h>
#include <tsq/backend_config.h>
#include <tsq/engines.h>

#include <string>

namespace tsq {

/// The quantized engine that a backend's lowered models need; the one in use for a table that names none of
/// its own.
std::string engine_name_of(const BackendConfig& backend);
/// The same for LibTorch; the one in use for a backend without kernels in LibTorch (executorch, tensorrt)
/// too. `must_have_kernels`: throws Error(Unsupported) for these.
at::QEngine engine_of(const BackendConfig& backend, bool must_have_kernels = false);
/// By PyTorch's name or LibTorch's, in any case. Throws Error(Unsupported) when this LibTorch has no such
/// engine.
at::QEngine engine_from_name(const std::string& name);

}  // namespace tsq
