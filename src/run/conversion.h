// Reads the options of trl_model_convert.
#pragma once
#include <string>

#include "config/config.h"

namespace trl::run {

struct Conversion {
  std::string model;    // directory or GGUF file; empty: for an adapter, the model that it names
  std::string adapter;  // empty: no adapter
  bool merged = false;  // into the model
  std::string target, type;
  std::string dtype = "auto";  // type in which weights are merged

  bool to_gguf() const { return target.ends_with(".gguf"); }
};

// path: a model, or the directory of an adapter. Throws Error(invalid_config) for an option that this
// conversion does not read.
Conversion conversion_of(const std::string& path, const std::string& target, const config::Config& options);

}  // namespace trl::run
