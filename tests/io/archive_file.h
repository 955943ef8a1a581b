#pragma once

#include <torch/csrc/jit/api/module.h>
#include <zip.h>

#include <functional>
#include <map>
#include <string>

namespace tsq::testing {

/// The bytes of a file's records, by their names.
using Records = std::map<std::string, std::string>;

/// A zip archive's records, each without the folder that all are in.
Records records_of(const std::string& path);
/// A zip archive of these records, as LibTorch reads it.
void write_records(const std::string& path, const Records& records);

/// A small scripted model, saved.
void save_model(const std::string& path,
                const std::string& source = "def forward(self, x):\n  return x + self.k\n");
/// What becomes of a saved model once `change` has changed its records.
void save_changed(const std::string& path, const std::function<void(Records&)>& change);
/// What `work` refuses as bad model; empty where it does not.
std::string refusal_of(const std::function<void()>& work);
/// Puts `to` in the place of the only `from`.
void replace(std::string& text, const std::string& from, const std::string& to);

}  // namespace tsq::testing
