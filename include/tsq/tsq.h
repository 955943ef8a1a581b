#pragma once

#include <tsq/backend_config.h>
#include <tsq/custom_config.h>
#include <tsq/derived_maps.h>
#include <tsq/dtype_config.h>
#include <tsq/equalization.h>
#include <tsq/error.h>
#include <tsq/lowering.h>
#include <tsq/observer.h>
#include <tsq/pattern.h>
#include <tsq/qconfig.h>
#include <tsq/qconfig_mapping.h>
#include <tsq/quantize.h>
#include <tsq/recipe.h>
#include <tsq/reference_module.h>
#include <tsq/report.h>
#include <tsq/sensitivity.h>
