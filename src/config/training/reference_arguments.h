// The typed view of the options that describe a reference model, of every trainer that compares with one.
#pragma once
#include <cstdint>
#include <string>

#include "config/config.h"

namespace trl::config {

struct ReferenceArguments {
  bool compares = false;           // the loss needs a reference
  std::string reference;           // ref_model_name_or_path; empty: the initial model
  bool continues_adapter = false;  // adapter_name_or_path is trained on
  bool sync_ref_model = false;
  double ref_model_mixup_alpha = 0.6;
  int64_t ref_model_sync_steps = 512;
};

// Reads and cross-checks them for the configuration's method; throws Error(invalid_config).
ReferenceArguments reference_arguments(const Config& config);

}  // namespace trl::config
