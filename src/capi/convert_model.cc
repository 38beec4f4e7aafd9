// trl_model_convert.
#include "capi/convert_model.h"
#include "adapter/config_file.h"
#include "base/files.h"
#include "base/json.h"
#include "capi/config_handle.h"
#include "capi/guard.h"
#include "capi/model_handle.h"
#include "data/gguf_vocabulary.h"
#include "data/open_tokenizer.h"
#include "engine/error_capture.h"
#include "io/gguf.h"

namespace trl::capi {

EncodedVocabulary::EncodedVocabulary(const text::Tokenizer& tokenizer, int64_t rows,
                                     const std::string& origin)
    : pairs_(data::gguf_vocabulary(tokenizer, rows, origin, current_log())),
      eos_(tokenizer.special_id(tokenizer.special().eos).value_or(-1)) {}

int64_t embedding_rows(const base::Json& whole, const std::string& origin) {
  // A multimodal model keeps the sizes of its language model in a section of their own.
  const base::Json& config =
      !whole.contains("vocab_size") && whole.contains("text_config") ? whole["text_config"] : whole;
  const auto found = config.find("vocab_size");
  if (found == config.end() || !found->is_number_integer() || *found < 1)
    fail(Status::format, "{}: \"vocab_size\" is missing or not a positive integer", origin);
  return found->get<int64_t>();
}

namespace {

void convert(const engine::ConvertSpec& spec) {
  engine::ErrorCapture error;
  engine::Engine& engine = process().engine();
  error.check(process().use_engine(Use::save, [&] { return engine.convert(spec, error); }));
}

void convert_directory(const std::string& path, const std::string& target, const std::string& type) {
  const auto tokenizer = data::open_tokenizer(path, current_log());
  const std::string config = base::join_path(path, "config.json");
  const EncodedVocabulary vocabulary(*tokenizer, embedding_rows(base::read_json_file(config), config), path);
  const engine::GgufVocabulary view = vocabulary.view();
  convert({.path = path, .target = target, .type = type, .base = {}, .vocabulary = &view, .files = {}});
}

// base: convert.base; none: what the adapter's configuration says.
void convert_adapter(const std::string& path, const std::string& target, const std::string& type,
                     const std::optional<std::string>& base) {
  const std::string model = base ? *base : adapter::base_model(path, "convert.base");
  convert({.path = path, .target = target, .type = type, .base = model, .files = {}});
}

void convert_gguf(const std::string& path, const std::string& target, const std::string& type) {
  const auto files = data::open_tokenizer(path, current_log())->files();
  std::vector<engine::NamedBytes> named;
  for (const auto& [name, bytes] : files) named.push_back({name, bytes});
  convert({.path = path, .target = target, .type = type, .base = {}, .files = named});
}

}  // namespace

}  // namespace trl::capi

using namespace trl::capi;

trl_status trl_model_convert(trl_runtime* runtime, const char* path, const char* target,
                             const trl_config* options, trl_error** error) noexcept {
  return guard(error, [&] {
    const std::string from = path_of(path), to = path_of(target, "target");
    auto held = runtime_of(runtime);
    const RuntimeScope scope(*held);
    const trl::config::Config& config = options_of(options);
    const std::string type = config.get("convert.type");
    if (trl::adapter::is_adapter(from))
      return convert_adapter(from, to, type, config.get_text("convert.base"));
    if (config.get_text("convert.base"))
      trl::fail_key("convert.base", "convert.base: it is for an adapter, and {} is not one", from);
    trl::io::is_gguf(from) ? convert_gguf(from, to, type) : convert_directory(from, to, type);
  });
}
