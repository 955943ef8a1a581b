#pragma once

// What each layer costs the accuracy of a model, and which layers stay float so that it reaches a goal.

#include <tsq/goal_search.h>
#include <tsq/layer_sensitivity.h>
#include <tsq/quantized_layer.h>
