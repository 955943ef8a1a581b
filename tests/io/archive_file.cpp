#include "io/archive_file.h"

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/error.h>

#include <filesystem>

namespace tsq::testing {

Records records_of(const std::string& path) {
  Records records;
  zip_t* archive = zip_open(path.c_str(), ZIP_RDONLY, nullptr);
  for (zip_int64_t i = 0; i < zip_get_num_entries(archive, 0); ++i) {
    zip_stat_t facts;
    zip_stat_index(archive, static_cast<zip_uint64_t>(i), 0, &facts);
    std::string bytes(facts.size, '\0');
    zip_file_t* file = zip_fopen_index(archive, static_cast<zip_uint64_t>(i), 0);
    zip_fread(file, bytes.data(), bytes.size());
    zip_fclose(file);
    const std::string name = facts.name;
    records[name.substr(name.find('/') + 1)] = bytes;
  }
  zip_discard(archive);
  return records;
}

void write_records(const std::string& path, const Records& records) {
  std::filesystem::remove(path);
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE, nullptr);
  for (const auto& [name, bytes] : records) {
    zip_source_t* source = zip_source_buffer(archive, bytes.data(), bytes.size(), 0);
    const zip_int64_t index = zip_file_add(archive, ("model/" + name).c_str(), source, ZIP_FL_ENC_UTF_8);
    zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
  }
  ASSERT_EQ(zip_close(archive), 0);
}

void save_model(const std::string& path, const std::string& source) {
  torch::jit::Module module("M");
  module.register_attribute("k", c10::IntType::get(), std::int64_t{5});
  module.register_parameter("w", torch::arange(6, torch::kFloat).reshape({2, 3}), false);
  module.define(source);
  module.save(path);
}

void save_changed(const std::string& path, const std::function<void(Records&)>& change) {
  save_model(path);
  Records records = records_of(path);
  change(records);
  write_records(path, records);
}

std::string refusal_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::BadModel);
    return error.what();
  }
  return {};
}

void replace(std::string& text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  ASSERT_NE(at, std::string::npos);
  ASSERT_EQ(text.find(from, at + 1), std::string::npos);
  text.replace(at, from.size(), to);
}

}  // namespace tsq::testing
