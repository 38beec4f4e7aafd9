#include "config/training/reference_arguments.h"

#include "base/error.h"

namespace trl::config {

ReferenceArguments reference_arguments(const Config& config) {
  ReferenceArguments a;
  const MethodRow& method = config.method();
  a.compares = method.reference || (method.reference_with_beta && config.get_double("beta") != 0);
  if (config.has("sync_ref_model")) a.sync_ref_model = config.get_bool("sync_ref_model");
  if (a.sync_ref_model && !a.compares) {
    fail_key("sync_ref_model",
             "sync_ref_model: true is refused with beta: 0, under which there is no reference: leave it out, "
             "or give "
             "a beta above 0");
  }
  if (a.sync_ref_model && config.get_bool("use_peft")) {
    fail_key("sync_ref_model",
             "sync_ref_model: true is refused with use_peft, whose reference is the model without the "
             "adapter: leave it out");
  }
  if (!a.compares) return a;
  a.reference = config.get_text("ref_model_name_or_path").value_or("");
  a.continues_adapter = config.get_text("adapter_name_or_path").has_value();
  a.ref_model_mixup_alpha = config.get_double("ref_model_mixup_alpha");
  a.ref_model_sync_steps = config.get_int("ref_model_sync_steps");
  return a;
}

}  // namespace trl::config
