// Opens a model: its files, the type of its weights, and how they are held.
#include "base/error.h"
#include "model/files/open.h"
#include "model/model.h"
#include "tensor/memory/counted.h"

namespace trl::model {

namespace {

// stored: a dtype's name, as in config.json or a weight file, in any case.
at::ScalarType choose_dtype(std::string_view wanted, std::string_view stored) {
  if (wanted == "float32" || wanted == "keep") return at::kFloat;
  if (wanted == "bfloat16") return at::kBFloat16;
  if (wanted != "auto")
    fail_key("dtype", "dtype \"{}\" is not supported; these are: auto, float32, bfloat16, keep", wanted);
  return stored == "bfloat16" || stored == "BF16" ? at::kBFloat16 : at::kFloat;
}

void refuse_keep(const io::ModelSource& from, std::string_view dtype,
                 const config::Quantization& quantization) {
  if (dtype != "keep") return;
  if (from.form() != io::ModelForm::gguf)
    fail_key("dtype", "dtype: keep: {} is {}; the weights of a GGUF file are kept as they are", from.name(),
             from.in_memory() ? "in memory" : "a directory");
  if (quantization)
    fail_key("dtype",
             "dtype: keep leaves weights as they are, and load_in_4bit or load_in_8bit quantises them");
}

}  // namespace

std::unique_ptr<Model> Model::open(const io::ModelSource& from, std::string_view dtype, base::LogSink* log,
                                   at::Device device, Head head, const config::Quantization& quantization,
                                   uint64_t seed) {
  OpenedFiles opened = open_files(from, head);
  const at::ScalarType type = choose_dtype(dtype, opened.stored_dtype);
  refuse_keep(from, dtype, quantization);
  auto model = reading(from.path(), [&] {
    return std::make_unique<Model>(std::move(opened.files), std::move(opened.weights), type, device,
                                   quantization, dtype == "keep" ? Held::as_stored : Held::numbers, log,
                                   seed);
  });
  tensor::trim();  // frees the buffers that tensors were read into
  return model;
}

std::unique_ptr<Model> Model::open_mapped(const io::ModelSource& from, std::string_view dtype,
                                          base::LogSink* log, Head head,
                                          const config::Quantization& quantization, uint64_t seed,
                                          at::ScalarType products) {
  OpenedFiles opened = open_files(from, head);
  const at::ScalarType type = choose_dtype(dtype, opened.stored_dtype);
  refuse_keep(from, dtype, quantization);
  const Held held = products == at::kBFloat16 ? Held::for_bfloat16 : Held::as_stored;
  return reading(from.path(), [&] {
    return std::make_unique<Model>(std::move(opened.files), std::move(opened.weights), type, at::kCPU,
                                   quantization, held, log, seed);
  });
}

Outline Model::outline(const io::ModelSource& from, std::string_view dtype, Head head) {
  const OpenedFiles opened = open_files(from, head);
  return {opened.files.config, choose_dtype(dtype, opened.stored_dtype)};
}

}  // namespace trl::model
