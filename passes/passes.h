#pragma once

/// Every pass, by rooms in the order in which a model goes through them. A pass is a function on a
/// GraphModule; passes share no state. What a pass leaves for the next is in the GraphModule, or in the table
/// that it returns.
#include "passes/capture/passes.h"
#include "passes/convert/passes.h"
#include "passes/lower/passes.h"
#include "passes/match/passes.h"
#include "passes/numerics/passes.h"
#include "passes/observe/passes.h"
#include "passes/placement/passes.h"
#include "passes/rewrite/passes.h"
#include "passes/tune/passes.h"
