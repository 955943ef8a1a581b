#pragma once

#include <ATen/Context.h>
#include <tsq/backend_config.h>
#include <tsq/engines.h>

#include <string>

namespace tsq {

/// The engine that a table names, for LibTorch. `must_have_kernels`: throws Error(Unsupported) for a table
/// without kernels (executorch, tensorrt), unless registered rows alone lower its models. Throws as
/// BackendConfig::engine.
at::QEngine engine_of(const BackendConfig& backend, bool must_have_kernels = false);
/// By PyTorch's name or LibTorch's, in any case; "none", for which nothing is packed, is the one in use.
/// Throws Error(Unsupported) when this LibTorch has no such engine.
at::QEngine engine_from_name(const std::string& name);

}  // namespace tsq
