#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>

#include "precompiled_torch.h"
