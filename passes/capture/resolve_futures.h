#pragma once

#include <ATen/core/function_schema.h>

#include "ir/graph.h"

namespace tsq::passes {

/// Where forked calls stand inlined, their results are there at once: futures, and lists, dicts and tuples of
/// them, hold the results themselves, and nobody waits. False, and the graph is not to be used, where a
/// future comes from elsewhere or goes where its type must stay: into or out of the model, an attribute, a
/// call.
///   l = [f(x)]: List[Future[Tensor]]; y = wait(l[0])   →   l = [f(x)]: List[Tensor]; y = l[0]
[[nodiscard]] bool resolve_futures(ir::Graph& graph, const c10::FunctionSchema& schema);

}  // namespace tsq::passes
