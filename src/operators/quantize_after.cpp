#include "operators/quantize_after.h"

#include "ir/analysis.h"
#include "ir/quantize_operators.h"

namespace tsq::operators {

ir::Node* quantize_after(const ir::Node* op) {
  ir::Node* reader = ir::only_reader(op);
  while (reader != nullptr && reader->kind() != ir::kQuantize) reader = ir::only_reader(reader);
  return reader;
}

}  // namespace tsq::operators
