#pragma once

#include "passes/context/pass_context.h"

/// One spelling for each operation, whoever wrote the file: scripting, tracing or freezing.
namespace tsq::passes {

/// How the author wrote what a trace has one operator for, out of the Python file that the trace names, where
/// that file is here: what is known of a node is then what a scripted file tells (ir::origin_of). A file that
/// is missing, or in whose line the operator is not, changes nothing.
///   aten::add, model.py(12)   →   aten::add, `torch.add` of model.py(12)
bool read_python_source(ir::Model& model, const PassContext& context);

/// Recurrent operators that tracing or freezing opened, or that users call themselves, with constant weights
/// become calls of torch.nn modules.
///   %y, %h, %c = aten::lstm(%x, %hx, constants, …)   →   y, h, c = LSTM(x, hx)
bool lift_recurrent(ir::Model& model, const PassContext& context);

/// The plain form of what tracing and freezing write in their own: `_convolution`, numbers and sizes as
/// tensors, parameters as constants.
bool untrace(ir::Model& model, const PassContext& context);

/// One spelling per operation: `aten::add_` → `aten::add` where nobody sees the difference; parameters of
/// convolutions and linear layers taken out of their modules.
bool normalise(ir::Model& model, const PassContext& context);

/// Modules and functions that write their result into their input (`inplace=True`): what reads that input
/// later reads the result, in int8 too, where nothing is written. FX reads what was there before.
///   y = ReLU(x); z = linear(x)   →   y = ReLU(x); z = linear(y)
bool read_written_inputs(ir::Model& model, const PassContext& context);

/// What the graph computes from parameters and buffers alone, and is no larger than they are, becomes a
/// constant; branches that constants decide are removed.
///   conv(x, weight_norm(v, g))   →   conv(x, w)
bool fold_constants(ir::Model& model, const PassContext& context);

/// Tensors that a model makes of constants, for sums and products, become attributes, as FX evaluates them
/// when it traces: they can be quantized.
///   x + torch.tensor([1., 2.])   →   x + self.literal
bool fold_literals(ir::Model& model, const PassContext& context);

/// Operators that tracing or freezing made of a torch.nn module, its parameters constants, become its calls
/// again.
///   %y = aten::conv2d(%x, constant, …)   →   y = Conv2d(x)
bool lift(ir::Model& model, const PassContext& context);

/// Embeddings in every form become calls with their tables: modules, functions, and the operators that
/// tracing and freezing make of them, when the table is a parameter or constant.
///   %y = aten::embedding(constant, %indices, …)   →   y = Embedding(indices)
bool lift_embeddings(ir::Model& model, const PassContext& context);

/// The tables of embedding modules alone, where functions stay functions.
bool find_embedding_tables(ir::Model& model, const PassContext& context);

/// Sizes that the parameters of a layer tell become numbers, and so does what is computed of them.
///   b, t, d = linear(x).size(); scores * (d // 4) ** -0.5   →   scores * 0.125
bool fold_sizes(ir::Model& model, const PassContext& context);

/// A row of the table holds for every spelling of an operator from here on (Model::any_spelling).
bool take_any_spelling(ir::Model& model, const PassContext& context);

}  // namespace tsq::passes
