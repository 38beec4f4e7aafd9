#include "run/convert_model.h"

#include <map>

#include "adapter/config_file.h"
#include "adapter/model_card.h"
#include "adapter/tensors.h"
#include "base/error.h"
#include "base/files/files.h"
#include "config/quantization.h"
#include "data/tokenizer/gguf_vocabulary.h"
#include "data/tokenizer/open_tokenizer.h"
#include "engine/error_capture.h"
#include "io/gguf.h"
#include "run/conversion.h"
#include "run/model_files.h"

namespace trl::run {

EncodedVocabulary::EncodedVocabulary(const text::Tokenizer& tokenizer, int64_t rows,
                                     const std::string& origin, base::LogSink& log)
    : pairs_(data::gguf_vocabulary(tokenizer, rows, origin, &log)),
      eos_(tokenizer.special_id(tokenizer.special().eos).value_or(-1)) {}

int64_t embedding_rows(const base::Json& whole, const std::string& origin) {
  // A multimodal model has the sizes of its language model in a separate section.
  const base::Json& config =
      !whole.contains("vocab_size") && whole.contains("text_config") ? whole["text_config"] : whole;
  const auto found = config.find("vocab_size");
  if (found == config.end() || !found->is_number_integer() || *found < 1)
    fail(Status::format, "{}: \"vocab_size\" is missing or not a positive integer", origin);
  return found->get<int64_t>();
}

namespace {

// Describes how the model is opened, which happens only if an adapter is merged into it.
engine::ModelSpec model_spec(const Conversion& conversion, const config::Config& options) {
  engine::ModelSpec spec{.path = conversion.model, .dtype = conversion.dtype};
  const bool brings_score = conversion.merged && makes_classifier(conversion.adapter);
  spec.reward = brings_score || (!conversion.model.empty() && names_classifier(conversion.model));
  if (!conversion.merged) return spec;
  spec.embedding_rows = adapter::embedding_rows(conversion.adapter);
  spec.seed = static_cast<uint64_t>(options.get_int("seed"));
  spec.quantization = config::quantization(options);
  return spec;
}

int64_t vocabulary_rows(const Conversion& conversion) {
  if (const int64_t rows = conversion.merged ? adapter::embedding_rows(conversion.adapter) : 0) return rows;
  if (!io::is_gguf(conversion.model)) {
    const std::string config = base::join_path(conversion.model, "config.json");
    return embedding_rows(base::read_json_file(config), config);
  }
  const io::Gguf file(conversion.model);
  const auto table = file.tensors().find("token_embd.weight");
  if (table == file.tensors().end() || table->second.shape.empty())
    fail(Status::format, "{}: tensor token_embd.weight is missing", conversion.model);
  return table->second.shape.front();
}

std::string tokenizer_path(const Conversion& conversion) {
  const bool own = conversion.merged && has_tokenizer(conversion.adapter);
  return own ? conversion.adapter : conversion.model;
}

// Reads the files next to the weights of an adapter. base: its model; empty: the model that it names.
std::map<std::string, std::string> adapter_files(const std::string& path, const std::string& base,
                                                 base::LogSink& log) {
  std::map<std::string, std::string> files;
  if (has_tokenizer(path)) {
    for (const auto& [name, bytes] : data::open_tokenizer(path, &log)->files()) files[name] = bytes;
  }
  for (const std::string_view name : {adapter::kConfigFile, adapter::kModelCard}) {
    const std::string file = base::join_path(path, name);
    if (base::file_exists(file)) files[std::string(name)] = base::read_file(file);
  }
  if (base.empty()) return files;
  std::string& text = files[std::string(adapter::kConfigFile)];
  base::Json config = base::parse_json(text, base::join_path(path, adapter::kConfigFile));
  config["base_model_name_or_path"] = adapter::model_name(base);
  text = config.dump(2, ' ', true);
  return files;
}

void run(Environment& environment, engine::ConvertSpec spec,
         const std::map<std::string, std::string>& files) {
  std::vector<engine::NamedBytes> named;
  for (const auto& [name, bytes] : files) named.push_back({name, bytes});
  spec.files = named;
  engine::ErrorCapture error;
  engine::Engine& engine = environment.engine();
  error.check(environment.use_engine(Use::save, [&] { return engine.convert(spec, error); }));
}

}  // namespace

void convert_model(Environment& environment, const std::string& path, const std::string& target,
                   const config::Config& options) {
  const Conversion conversion = conversion_of(path, target, options);
  engine::ConvertSpec spec;
  spec.model = model_spec(conversion, options);
  spec.adapter = conversion.adapter;
  spec.merged = conversion.merged;
  spec.target = conversion.target;
  spec.type = conversion.type;
  const bool keeps_adapter = !conversion.adapter.empty() && !conversion.merged;
  if (keeps_adapter)
    return run(environment, spec,
               conversion.to_gguf() ? std::map<std::string, std::string>()
                                    : adapter_files(path, conversion.model, environment.log()));
  const std::string from = tokenizer_path(conversion);
  const auto tokenizer = data::open_tokenizer(from, &environment.log());
  if (!conversion.to_gguf()) {
    const auto files = tokenizer->files();
    return run(environment, spec, {files.begin(), files.end()});
  }
  const EncodedVocabulary vocabulary(*tokenizer, vocabulary_rows(conversion), from, environment.log());
  spec.vocabulary = vocabulary.view();
  run(environment, spec, {});
}

}  // namespace trl::run
