#include "run/model_files.h"

#include "adapter/config_file.h"
#include "adapter/tensors.h"
#include "base/error.h"
#include "base/files/files.h"
#include "base/json/json.h"

namespace trl::run {

bool has_tokenizer(const std::string& directory) {
  return base::file_exists(base::join_path(directory, "tokenizer.json")) ||
         base::file_exists(base::join_path(directory, "tokenizer.model"));
}

std::string adapter_path(const config::Config& options) {
  return options.get_text("adapter_name_or_path").value_or("");
}

bool is_reward(const std::string& path, const config::Config& options) {
  const std::string adapter = adapter_path(options);
  return options.method().scores() || names_classifier(path) ||
         (!adapter.empty() && makes_classifier(adapter));
}

bool makes_classifier(const std::string& adapter) {
  return adapter::read_config(adapter).task_type == "SEQ_CLS";
}

bool names_classifier(const std::string& directory) {
  const std::string file = base::join_path(directory, "config.json");
  if (!base::file_exists(file)) return false;  // refused by its name when the model is opened
  const base::Json config = base::read_json_file(file);
  if (!config.is_object() || !config.contains("architectures")) return false;
  const base::Json& all = config["architectures"];
  const base::Json& first = all.is_array() && !all.empty() ? all.front() : all;
  return first.is_string() && first.get<std::string>().ends_with("ForSequenceClassification");
}

int64_t adapter_embedding_rows(const config::Config& options) {
  const std::string adapter = adapter_path(options);
  return adapter.empty() ? 0 : adapter::embedding_rows(adapter);
}

std::string tokenizer_path(const std::string& model, const config::Config& options) {
  const std::string adapter = adapter_path(options);
  const bool own = !adapter.empty() && has_tokenizer(adapter);
  return own ? adapter : model;
}

std::string base_path(const std::string& path, config::Config& options) {
  if (!adapter::is_adapter(path)) return path;
  const std::string base = adapter::read_config(path).base_model_name_or_path;
  if (base.empty()) {
    fail(Status::not_found,
         "{}: is an adapter, and {} does not say of which model: give the model, and the adapter as "
         "adapter_name_or_path",
         path, adapter::kConfigFile);
  }
  options.set("adapter_name_or_path", path);
  return base;
}

}  // namespace trl::run
