#pragma once

#include <gtest/gtest.h>
#include <tsq/error.h>

#include <string>

namespace tsq {

/// Runs `action`, which must throw Error(BadConfig) with exactly this sentence.
template <typename Action>
void expect_error(const std::string& sentence, Action&& action) {
  try {
    action();
    ADD_FAILURE() << "no error, wanted: " << sentence;
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), sentence);
    EXPECT_EQ(error.code(), ErrorCode::BadConfig);
  }
}

}  // namespace tsq
