#include "run/convert_model.h"

#include <map>

#include "adapter/config_file.h"
#include "adapter/tensors.h"
#include "base/error.h"
#include "base/files/files.h"
#include "base/files/host_files.h"
#include "config/model_options.h"
#include "config/sizes_and_paths.h"
#include "data/tokenizer/open_tokenizer.h"
#include "engine/error_capture.h"
#include "run/open_model.h"

namespace trl::run {

EncodedVocabulary::EncodedVocabulary(const text::Tokenizer& tokenizer, int64_t rows,
                                     const std::string& origin, base::LogSink& log)
    : pairs_(data::gguf_vocabulary(tokenizer, rows, origin, &log)),
      eos_(tokenizer.special_id(tokenizer.special().eos).value_or(-1)) {}

int64_t embedding_rows(const base::Json& config, const std::string& origin) {
  const int64_t rows = named_embedding_rows(config);
  if (rows < 1)
    fail(Status::format, "{}: \"vocab_size\" is missing or not a positive integer", Place::in(origin));
  return rows;
}

namespace {

// The options of trl_model_convert.
struct Conversion {
  io::ModelSource model;  // without a name: for an adapter, the model that it names
  std::string adapter;    // empty: no adapter
  bool merged = false;    // into the model
  std::string target, type;
  std::string dtype = "auto";  // type in which weights are merged

  bool to_gguf() const { return target.ends_with(".gguf"); }
};

// Keys that decide how a model is opened, and with which adapter.
constexpr std::string_view kOpening[] = {"adapter_name_or_path", "dtype",
                                         "load_in_4bit",         "load_in_8bit",
                                         "bnb_4bit_quant_type",  "use_bnb_nested_quant"};

void refuse_opening(const config::Config& options) {
  for (const std::string_view key : kOpening)
    if (options.is_set(key))
      fail_key(key, "{}: it is only for save.kind: merged, which opens the model", key);
}

// Settles dtype, the type in which weights are merged and then written.
void settle_dtype(const config::Config& options, Conversion& conversion) {
  const bool given = options.is_set("dtype") || options.is_set("model_init_kwargs");
  if (given) conversion.dtype = config::model_dtype(options);
  const std::string& dtype = conversion.dtype;
  const std::string& type = conversion.type;
  const char* const own = dtype == "float32" ? "f32" : dtype == "bfloat16" ? "bf16" : nullptr;
  if (own == nullptr) return;
  if (type != "auto" && type != own)
    fail_key("convert.type", "convert.type: {} contradicts dtype: {}: give one of them", type, dtype);
  conversion.type = own;
}

void merge_options(const std::string& path, const config::Config& options, Conversion& conversion) {
  const std::optional<std::string> base = options.get_text("convert.base");
  const std::optional<std::string> given = options.get_text("adapter_name_or_path");
  conversion.merged = true;
  settle_dtype(options, conversion);
  if (!adapter::is_adapter(path)) {
    if (!given)
      fail_key("save.kind",
               "save.kind: merged needs an adapter, and {} is a model: give the adapter's directory, or "
               "adapter_name_or_path",
               path);
    conversion.model = path;
    conversion.adapter = *given;
    return;
  }
  if (given)
    fail_key("adapter_name_or_path", "adapter_name_or_path: {} is an adapter itself: give one of them", path);
  conversion.adapter = path;
  conversion.model = base ? *base : adapter::base_model(path, "convert.base");
}

void adapter_options(const std::string& path, const config::Config& options, Conversion& conversion) {
  const std::optional<std::string> base = options.get_text("convert.base");
  conversion.adapter = path;
  if (base) conversion.model = *base;
  if (!base && conversion.to_gguf()) conversion.model = adapter::base_model(path, "convert.base");
}

// path: a model, or the directory of an adapter. Throws Error(invalid_config) for an option that this
// conversion does not read.
Conversion conversion_of(const std::string& path, const std::string& target, const config::Config& options) {
  Conversion conversion;
  for (const std::string& file : {path, target})
    if (base::is_host_path(file))
      fail(Status::unsupported, "{}: a conversion reads and writes files of this machine alone", file);
  conversion.target = target;
  conversion.type = options.get("convert.type");
  const std::string kind = options.get("save.kind");
  const bool is_adapter = adapter::is_adapter(path);
  if (kind != "model" && kind != "merged")
    fail_key("save.kind", "save.kind: {}: merged is the kind that a conversion may have", kind);
  if (!is_adapter && options.get_text("convert.base"))
    fail_key("convert.base", "convert.base: it is for an adapter, and {} is not one", path);
  if (kind != "merged") refuse_opening(options);
  if (kind == "merged")
    merge_options(path, options, conversion);
  else if (is_adapter)
    adapter_options(path, options, conversion);
  else
    conversion.model = path;
  config::refuse_host_path("convert.base", conversion.model.name());
  config::refuse_host_path("adapter_name_or_path", conversion.adapter);
  if (!conversion.model.name().empty()) conversion.model = conversion.model.path();
  return conversion;
}

// Describes how the model is opened, which happens only if an adapter is merged into it.
engine::ModelSpec opened_by(const Conversion& conversion, const config::Config& options) {
  engine::ModelSpec spec{.source = conversion.model, .dtype = conversion.dtype};
  const bool brings_score = conversion.merged && makes_classifier(conversion.adapter);
  spec.reward = brings_score || (!conversion.model.name().empty() && names_classifier(conversion.model));
  if (!conversion.merged) return spec;
  spec.embedding_rows = adapter::embedding_rows(conversion.adapter);
  spec.seed = static_cast<uint64_t>(options.get_int("seed"));
  spec.quantization = config::quantization(options);
  return spec;
}

int64_t vocabulary_rows(const Conversion& conversion) {
  if (const int64_t rows = conversion.merged ? adapter::embedding_rows(conversion.adapter) : 0) return rows;
  const io::ModelSource& model = conversion.model;
  if (model.form() != io::ModelForm::gguf)
    return embedding_rows(base::read_json_file(model, "config.json"), model.place("config.json"));
  const auto file = model.gguf();
  const auto table = file->tensors().find("token_embd.weight");
  if (table == file->tensors().end() || table->second.shape.empty())
    fail(Status::format, "{}: tensor token_embd.weight is missing", Place::in(model.name()));
  return table->second.shape.front();
}

io::ModelSource origin_of_tokens(const Conversion& conversion) {
  const bool own = conversion.merged && has_tokenizer(conversion.adapter);
  return own ? conversion.adapter : conversion.model;
}

// Reads the files next to the weights of an adapter. base: its model; empty: the model that it names.
std::map<std::string, std::string> adapter_files(const std::string& path, const std::string& base,
                                                 base::LogSink& log) {
  std::map<std::string, std::string> files;
  if (has_tokenizer(path))
    for (const auto& [name, bytes] : data::open_tokenizer(path, &log)->files()) files[name] = bytes;
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
  spec.model = opened_by(conversion, options);
  spec.adapter = conversion.adapter;
  spec.merged = conversion.merged;
  spec.target = conversion.target;
  spec.type = conversion.type;
  const bool keeps_adapter = !conversion.adapter.empty() && !conversion.merged;
  if (keeps_adapter)
    return run(environment, spec,
               conversion.to_gguf() ? std::map<std::string, std::string>()
                                    : adapter_files(path, conversion.model.name(), environment.log()));
  const io::ModelSource from = origin_of_tokens(conversion);
  const auto tokenizer = data::open_tokenizer(from, &environment.log());
  if (!conversion.to_gguf()) {
    const auto files = tokenizer->files();
    return run(environment, spec, {files.begin(), files.end()});
  }
  const EncodedVocabulary vocabulary(*tokenizer, vocabulary_rows(conversion), from.name(), environment.log());
  spec.vocabulary = vocabulary.view();
  run(environment, spec, {});
}

}  // namespace trl::run
