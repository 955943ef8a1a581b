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

/// The same with a sentence that has `part` in it.
template <typename Action>
void expect_error_with(const std::string& part, Action&& action) {
  try {
    action();
    ADD_FAILURE() << "no error, wanted one with: " << part;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    EXPECT_EQ(error.code(), ErrorCode::BadConfig);
  }
}

}  // namespace tsq
