// Reads the kind of head that config.json names, and the labels of a classifier.
#include <string>
#include <string_view>

#include "base/error.h"
#include "model/config/parts.h"

namespace trl::model {

namespace {

using base::Json;

constexpr std::string_view kClassifier = "ForSequenceClassification";

bool names_classifier(const ConfigKeys& keys) {
  const Json* given = keys.find("architectures");
  if (given != nullptr && given->is_array() && !given->empty()) given = &given->front();
  return given != nullptr && given->is_string() && given->get<std::string>().ends_with(kClassifier);
}

}  // namespace

// A classifier's weights are a language model's except for the head, which would be missing or made from the
// embedding. A name without a task (LlamaModel) promises no head.
void check_architecture(const ConfigKeys& keys, const Family& family, Head head) {
  if (head != Head::language && family.classifier.empty()) {
    fail(Status::unsupported, "{}: transformers has no sequence classification of model_type \"{}\"",
         keys.origin(), family.model_type);
  }
  const Json* given = keys.find("architectures");
  if (given == nullptr || (given->is_array() && given->empty())) return;
  const Json& first = given->is_array() ? given->front() : *given;
  const std::string name = first.is_string() ? first.get<std::string>() : "For";
  const size_t task = name.find("For");
  const std::string_view wanted = head == Head::language ? family.architecture : family.classifier;
  if (task == std::string::npos || name == wanted) return;
  if (head != Head::scores && name.substr(task) == "ForCausalLM") return;
  if (head != Head::language && name.substr(task) == kClassifier) return;
  fail(Status::unsupported, "{}: \"architectures\" begins with {}; a {} ({}) is expected", keys.origin(),
       first.dump(), head == Head::language ? "language model" : "classifier", wanted);
}

int64_t count_labels(const ConfigKeys& keys) {
  const Json* names = keys.find("id2label");
  if (names != nullptr && names->is_object() && !names->empty()) return std::ssize(*names);
  return keys.size_or("num_labels", 2);
}

// Only for a reward model; a language model may count labels, which means nothing.
void parse_score(const ConfigKeys& keys, ModelConfig& config) {
  config.labels = 1;
  config.new_head = !names_classifier(keys);
  config.initializer_range = keys.positive_or("initializer_range", config.initializer_range);
  const bool counted = keys.find("id2label") != nullptr || keys.find("num_labels") != nullptr;
  if (config.new_head || !counted || count_labels(keys) == 1) return;
  fail(Status::unsupported,
       "{}: the model has {} labels (num_labels, id2label); a reward model has one score: give a classifier "
       "with num_labels 1, or a language model, which gets a new head",
       keys.origin(), count_labels(keys));
}

}  // namespace trl::model
