#include "train/run/setup.h"

#include "base/error.h"
#include "tensor/threads/parallel.h"
#include "tensor/threads/width.h"

namespace trl::train {

void check_device(const config::TrainingArguments& arguments, at::Device device) {
  if (device.is_cpu()) return;
  if (arguments.fused_kernels == config::FusedKernels::on) {
    fail_key("fused_kernels",
             "fused_kernels: on (or use_liger_kernel: true) is refused, because the model is on {}, and this "
             "build has fused kernels for the CPU: give fused_kernels: auto, or use_cpu: true",
             device.str());
  }
  if (!arguments.attention.plugin.empty()) {
    fail_key("attn_implementation",
             "attn_implementation: {} is refused, because the model is on {}, and plug-ins compute on the "
             "CPU: give sdpa, or use_cpu: true",
             arguments.attention.name, device.str());
  }
  if (arguments.generation_exact) {
    fail_key("generation_exact",
             "generation_exact: true is refused, because the model is on {}, and only the CPU's kernels have "
             "the sums of generation: give generation_exact: false, or use_cpu: true",
             device.str());
  }
}

using base::Json;

namespace {

Json options_json(const Setup& setup) {
  Json options = Json::object();
  for (const auto& [name, value] : setup.options) options[name] = value;
  options["runtime.threads"] =
      std::to_string(tensor::all_threads());  // the order of sums depends on the threads
  return options;
}

}  // namespace

Json fingerprint(const Setup& setup) {
  const uint64_t rows = setup.train->fingerprint();
  return {{"options", options_json(setup)},
          {"rows", setup.train->rows()},
          {"dataset", rows == 0 ? Json() : Json(fmt::format("{:016x}", rows))}};
}

void warn_of_changes(const Setup& setup, const Json& before) {
  if (setup.log == nullptr) return;
  constexpr const char* kEnd = "the run will differ from the one that was interrupted";
  const Json now = fingerprint(setup);
  for (const auto& [name, value] : now.at("options").items()) {
    const Json& was = before.at("options");
    if (was.contains(name) && was.at(name) != value) {
      setup.log->warning("checkpoint", "{} is {}, the checkpoint was made with {}: {}", name,
                         value.get<std::string>(), was.at(name).get<std::string>(), kEnd);
    }
  }
  if (now.at("rows") != before.at("rows")) {
    setup.log->warning("checkpoint", "the training dataset has {} {}, the checkpoint was made with {}: {}",
                       now.at("rows").dump(), now.at("rows") == 1 ? "row" : "rows", before.at("rows").dump(),
                       kEnd);
  } else if (!before.at("dataset").is_null() && now.at("dataset") != before.at("dataset")) {
    setup.log->warning("checkpoint",
                       "the content of the training dataset is not what the checkpoint was made with: {}",
                       kEnd);
  }
}

bool changed(const Setup& setup, const Json& before, const char* option) {
  return options_json(setup).value(option, Json()) != before.at("options").value(option, Json());
}

}  // namespace trl::train
