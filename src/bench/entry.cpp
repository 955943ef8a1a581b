#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tsq/bench/entry.h>
#include <tsq/error.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <ranges>
#include <string_view>

#include "base/known_engines.h"

namespace tsq::bench {
namespace {

constexpr std::array<std::string_view, 3> kForms{"as_saved", "frozen", "optimized"};
constexpr std::string_view kChannelsLast = "channels_last";
constexpr int kMostThreads = 4096;
constexpr int64_t kLargestBatch = 1'000'000;

std::string_view name_of(Form form) { return kForms[static_cast<std::size_t>(form)]; }

template <std::size_t N>
std::optional<std::size_t> place_in(const std::array<std::string_view, N>& words, std::string_view word) {
  const auto found = std::ranges::find(words, word);
  if (found == words.end()) return std::nullopt;
  return static_cast<std::size_t>(found - words.begin());
}

/// The form that a word names. "fused" is what earlier versions called the optimized one.
std::optional<Form> form_of(std::string_view word) {
  if (word == "fused") return Form::Optimized;
  const auto place = place_in(kForms, word);
  return place ? std::optional(static_cast<Form>(*place)) : std::nullopt;
}

[[noreturn]] void refuse(std::string_view word, const std::string& text, const std::string& remedy) {
  throw Error(ErrorCode::BadConfig, fmt::format("'{}' in '{}' is no setting of a model", word, text), remedy);
}

template <typename Number>
Number number_in(std::string_view word, const std::string& text, Number most) {
  const std::string_view digits = word.substr(word.find('=') + 1);
  Number number{0};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || number < 1 || number > most)
    refuse(word, text, fmt::format("give a number from 1 to {}", most));
  return number;
}

void apply(Setting& setting, std::string_view word, const std::string& text) {
  if (is_known_engine(word)) {
    if (setting.engine) refuse(word, text, "name one engine");
    setting.engine = std::string(word);
  } else if (const auto form = form_of(word)) {
    setting.form = form;
  } else if (word == kChannelsLast) {
    setting.channels_last = true;
  } else if (word == "memory=kept") {
    setting.memory = Memory::Kept;
  } else if (word == "memory=system") {
    setting.memory = Memory::System;
  } else if (word.starts_with("threads=")) {
    setting.threads = number_in<int>(word, text, kMostThreads);
  } else if (word.starts_with("batch=")) {
    setting.batch = number_in<int64_t>(word, text, kLargestBatch);
  } else {
    refuse(word, text,
           fmt::format("settings are {}; as_saved, frozen or optimized; threads=N; batch=N; memory=kept or "
                       "memory=system; channels_last",
                       fmt::join(known_engines(), ", ")));
  }
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (const auto part : std::views::split(text, ',')) words.emplace_back(part.begin(), part.end());
  return words;
}

/// Whether what follows the last @ is meant as settings, and not as part of a path.
bool are_settings(std::string_view text) {
  return !text.empty() && text.find_first_of("/.") == std::string_view::npos;
}

/// A float file without a form stands for the fastest form of it and for itself.
std::vector<Entry> forms_of(const Setting& setting, bool is_float) {
  if (setting.form || !is_float) return {{.setting = setting}};
  Entry optimized{.setting = setting, .is_optional = true};
  Entry as_saved{.setting = setting};
  optimized.setting.form = Form::Optimized;
  as_saved.setting.form = Form::AsSaved;
  return {optimized, as_saved};
}

}  // namespace

Setting setting_from(const std::string& text) {
  const std::size_t at = text.rfind('@');
  if (at == std::string::npos || !are_settings(std::string_view(text).substr(at + 1))) return {.path = text};
  Setting setting{.path = text.substr(0, at)};
  for (const std::string_view word : words_of(std::string_view(text).substr(at + 1)))
    apply(setting, word, text);
  return setting;
}

std::string name_of(const Entry& entry) {
  const Setting& setting = entry.setting;
  std::vector<std::string> parts{setting.path};
  if (setting.form && *setting.form != Form::AsSaved) parts[0] += fmt::format(" {}", name_of(*setting.form));
  if (setting.engine) parts.push_back(*setting.engine);
  if (setting.threads > 0) parts.push_back(fmt::format("threads {}", setting.threads));
  if (setting.memory == Memory::System) parts.emplace_back("memory system");
  if (setting.channels_last) parts.emplace_back("channels last");
  if (entry.batch) parts.push_back(fmt::format("batch {}", *entry.batch));
  if (entry.concurrency > 1) parts.push_back(fmt::format("{} at once", entry.concurrency));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<Entry> entries_of(const Choice& choice, const std::vector<bool>& is_float) {
  std::vector<std::optional<int64_t>> batches(choice.batches.begin(), choice.batches.end());
  if (batches.empty()) batches.emplace_back();
  std::vector<Entry> entries;
  for (const std::optional<int64_t>& batch : batches) {
    for (const int concurrency : choice.concurrency) {
      for (std::size_t i = 0; i < choice.settings.size(); ++i) {
        const Setting& setting = choice.settings[i];
        if (setting.batch && batch != batches.front()) continue;  // it has a size of its own
        for (Entry entry : forms_of(setting, is_float[i])) {
          entry.batch = setting.batch ? setting.batch : batch;
          entry.concurrency = concurrency;
          if (entry.setting.threads == 0) entry.setting.threads = choice.threads;
          entries.push_back(entry);
        }
      }
    }
  }
  return entries;
}

std::size_t baseline_of(const std::vector<Entry>& entries, std::size_t position) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].batch == entries[position].batch &&
        entries[i].concurrency == entries[position].concurrency)
      return i;
  }
  return 0;
}

nlohmann::json to_json(const Entry& entry) {
  const Setting& setting = entry.setting;
  return {{"path", setting.path},
          {"form", setting.form ? nlohmann::json(name_of(*setting.form)) : nlohmann::json(nullptr)},
          {"engine_setting", setting.engine ? nlohmann::json(*setting.engine) : nlohmann::json(nullptr)},
          {"threads", setting.threads},
          {"memory", setting.memory == Memory::Kept ? "kept" : "system"},
          {"channels_last", setting.channels_last},
          {"batch", entry.batch ? nlohmann::json(*entry.batch) : nlohmann::json(nullptr)},
          {"concurrency", entry.concurrency}};
}

Entry entry_from(const nlohmann::json& json) {
  Entry entry;
  Setting& setting = entry.setting;
  setting.path = json.at("path");
  if (const auto& form = json.at("form"); !form.is_null())
    setting.form = form_of(form.get<std::string>()).value_or(Form::AsSaved);
  if (const auto& engine = json.at("engine_setting"); !engine.is_null()) setting.engine = engine;
  setting.threads = json.at("threads");
  setting.memory = json.at("memory") == "kept" ? Memory::Kept : Memory::System;
  setting.channels_last = json.at("channels_last");
  if (const auto& batch = json.at("batch"); !batch.is_null()) entry.batch = batch.get<int64_t>();
  entry.concurrency = json.at("concurrency");
  return entry;
}

}  // namespace tsq::bench
