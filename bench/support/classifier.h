// A sequence classifier with one score, made from a causal model: a reward model that has learned nothing.
#pragma once
#include <string>

namespace trl::bench {

// Copies a Hugging Face directory whose weights are one model.safetensors. The head of the classifier is new,
// and always the same.
void write_classifier(const std::string& model, const std::string& directory);

}  // namespace trl::bench
