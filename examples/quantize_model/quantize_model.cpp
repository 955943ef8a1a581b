// Quantizes a TorchScript file to int8 for the x86 engine.
#include <torch/script.h>
#include <tsq/tsq.h>

#include <iostream>

int main(int argc, char** argv) try {
  if (argc != 4) {
    std::cerr << "usage: quantize_model MODEL.pt CALIBRATION.pt OUTPUT.pt\n";
    return 2;
  }
  const torch::jit::Module model = tsq::load(argv[1]);
  const std::vector<tsq::Sample> samples = tsq::load_samples(argv[2], model);
  const tsq::BackendConfig backend = tsq::backend_config("x86");
  const tsq::QConfigMapping mapping = tsq::best_qconfig_mapping("x86");

  tsq::Prepared prepared = tsq::prepare(model, mapping, backend);        // observers go in
  tsq::calibrate(prepared, samples);                                     // they see the data
  const torch::jit::Module quantized = tsq::convert(prepared, backend);  // int8 kernels take their place
  tsq::save(quantized, argv[3]);
} catch (const std::exception& error) {
  std::cerr << "quantize_model: " << error.what() << '\n';
  return 1;
}
