#pragma once

#include <string>

#include "ir/model.h"

/// What calibration saw of the values of a model, as the file of a stage keeps it.
namespace tsq::detail {

/// The layer, argument or kind of operator that returns a value. The names of all other values change when
/// code is printed and read again.
std::string name_of_value(const ir::Model& model, const ir::Value* value);

/// As JSON, with a hash of the values that have numbers.
std::string text_of_facts(const ir::Model& model);
/// Of a model that was prepared again. Nothing where its values have become others, as those of a traced
/// model whose Python files are gone have: then observers alone say what they saw (take_facts). Throws Error,
/// or what nlohmann throws, for a text of another form.
ir::Facts facts_of_text(const std::string& text, const ir::Model& model);

}  // namespace tsq::detail
