#pragma once

#include "passes/context/pass_context.h"

/// What calibration has found, and for whom.
namespace tsq::passes {

/// Methods beside forward that no calibration data reached have the ranges of forward where the same
/// operators, in the same fused form, make the same values. All else is as settle_unreached leaves it.
///   forward: y = linear(obs1(x)); encode: y = linear(obs2(x)), no data in obs2   →   encode: y =
///   linear(obs1(x))
bool settle_methods(ir::Model& model, const PassContext& context);

/// Samples without the dimension of a batch: int8 kernels take batches only. The records of norms that saw
/// such samples say OfSample.
///   obs1(conv(obs0(x)))   →   obs1(squeeze(obs1(conv(obs0(unsqueeze(obs0(x), 0)))), 0))
bool batch_inputs(ir::Model& model, const PassContext& context);

/// Operators that no calibration data reached have no ranges: those in branches that no sample entered.
/// They have those of the same values elsewhere (same_values.h). A linear layer of which another call was
/// calibrated keeps the int8 weight and finds the range of its input when the model runs. Nothing is rounded
/// for all else, whose records say NotReached. Nothing where nothing was calibrated. Recipe fx settles
/// branches alone, which FX does not trace.
///   if c: y = obs1(linear1(x)) else: y = obs2(linear2(x)), no data in obs2
///     →   if c: y = obs1(linear1(x)) else: y = linear2(x)
bool settle_unreached(ir::Model& model, const PassContext& context);

/// Adds to Model::facts what the observers saw of their values: float32 alone, whether all of it was finite,
/// and the range, where one observer has the extremes of one value. Calibration by tsq has found dtypes and
/// sizes itself; where LibTorch ran the prepared model, the observers alone know.
bool take_facts(ir::Model& model, const PassContext& context);

/// Casts of parameters to the dtype of a value that was float32 in all samples, and to its device: constants
/// from here on, of which the file holds the int8 weight alone.
///   linear(y, to(w, dtype(x)))   →   linear(y, to(w, float32))
bool know_dtypes(ir::Model& model, const PassContext& context);

/// Takes the clamps of clamp_observed away.
bool drop_observed_clamps(ir::Model& model, const PassContext& context);

/// Takes what the observers of channels have found to their layers, and the observers away. The calls of one
/// layer are given what all of them have read.
bool take_channel_statistics(ir::Model& model, const PassContext& context);

/// Takes what the observers of products have found to their layers, and the observers away.
bool take_input_products(ir::Model& model, const PassContext& context);

/// What maxima and minima compare is rounded as their result is, which rounds no more.
///   obs3(maximum(obs1(a), obs2(b)))   →   obs3(maximum(obs3(a), obs3(b)))
bool share_ranges_of_extremes(ir::Model& model, const PassContext& context);

}  // namespace tsq::passes
