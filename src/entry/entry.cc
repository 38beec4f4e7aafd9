// The engine's one exported function.
#include <dlfcn.h>
#include <torch/csrc/api/include/torch/version.h>

#include "base/arithmetic/isa.h"
#include "base/json/json.h"
#include "checkpoint/convert.h"
#include "config/training_arguments.h"
#include "engine/engine.h"
#include "entry/attention_object.h"
#include "entry/boundary.h"
#include "entry/evaluator_object.h"
#include "entry/model_object.h"
#include "entry/plan/memory_plan.h"
#include "entry/trainer_object.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/gemm/gemm.h"
#include "tensor/device.h"
#include "tensor/memory/counted.h"
#include "tensor/threads/crew.h"
#include "tensor/threads/parallel.h"
#include "tensor/threads/width.h"
#include "train/trainer/trainer.h"
#include "trl/kernel.h"

namespace trl::entry {

namespace {

// Returns the name of the file that holds libtorch in this process, with its version: "libc10.so.1.13".
std::string torch_file() {
  Dl_info info{};
  const auto address =
      reinterpret_cast<void*>(static_cast<c10::WarningHandler* (*)()>(&torch_warnings::get_warning_handler));
  return ::dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

std::vector<std::string> instruction_sets() {
  std::vector<std::string> sets;
#if defined(__x86_64__)
#define TRL_IF_SUPPORTED(name) \
  if (__builtin_cpu_supports(name)) sets.push_back(name)
  TRL_IF_SUPPORTED("avx2");
  TRL_IF_SUPPORTED("fma");
  TRL_IF_SUPPORTED("avx512f");
  TRL_IF_SUPPORTED("avx512bw");
  TRL_IF_SUPPORTED("avx512vnni");
  TRL_IF_SUPPORTED("avx512bf16");
  if (base::isa() >= base::Isa::amx) sets.push_back("amx_bf16");
#undef TRL_IF_SUPPORTED
#endif
  return sets;
}

class EngineObject final : public engine::Engine {
 public:
  EngineObject(engine::Host& host, bool shared_torch) : host_(host), shared_torch_(shared_torch) {}

  std::string_view info_json() noexcept override {
    try {
      info_json_ = describe();
    } catch (const std::exception&) {
      info_json_.clear();
    }
    return info_json_;
  }

  int32_t set_threads(int32_t threads, engine::ErrorSink& error) noexcept override {
    return guard(host_, error, [&] {
      if (threads < 1) fail(Status::invalid_argument, "threads is {}; accepted: 1 or more", threads);
      tensor::set_threads(threads);  // libtorch's own setting belongs to the process and is not changed
    });
  }

  int32_t end_threads(engine::ErrorSink& error) noexcept override {
    return guard(host_, error, [&] {
      tensor::end_crew();
      tensor::end_openmp_threads();
    });
  }

  int32_t check_run(const config::RunOptions& options, engine::ErrorSink& error) noexcept override {
    return guard(host_, error, [&] {
      const auto& [config, arguments] = options;
      train::check_device(arguments, tensor::device(config.get_bool("use_cpu")));
      train::check_output(arguments, !config.get_bool("use_peft"));
      if (config.get_text("memory_budget")) check_plannable(config, arguments);
    });
  }

  int32_t check_disks(const engine::PlanSpec& spec, engine::ErrorSink& error) noexcept override {
    return compute(host_, error, [&] { entry::check_disks(spec); });
  }

  int32_t open_model(const engine::ModelSpec& spec, engine::Model** out,
                     engine::ErrorSink& error) noexcept override {
    *out = nullptr;
    return compute(host_, error, [&] { *out = new ModelObject(host_, spec); });
  }

  int32_t convert(const engine::ConvertSpec& spec, engine::ErrorSink& error) noexcept override {
    return compute(host_, error, [&] {
      HostLog log(host_);
      checkpoint::convert(spec, &log);
    });
  }

  int32_t open_attention(const engine::AttentionSpec& spec, engine::Attention** out,
                         engine::ErrorSink& error) noexcept override {
    *out = nullptr;
    return compute(host_, error, [&] { *out = new AttentionObject(spec); });
  }

  int32_t create_trainer(const engine::TrainerSpec& spec, engine::Trainer** out,
                         engine::ErrorSink& error) noexcept override {
    *out = nullptr;
    return compute(host_, kernels::path_of(spec.options->arguments.plain()), error, [&] {
      if (spec.model == nullptr || (spec.train == nullptr && spec.rollouts == nullptr))
        fail(Status::invalid_argument, "a trainer needs a model and training batches");
      *out = new TrainerObject(host_, spec);
    });
  }

  int32_t create_evaluator(const engine::EvaluatorSpec& spec, engine::Evaluator** out,
                           engine::ErrorSink& error) noexcept override {
    *out = nullptr;
    return compute(host_, kernels::path_of(spec.options->arguments.plain()), error,
                   [&] { *out = new EvaluatorObject(host_, spec); });
  }

  int32_t plan_evaluation(const engine::PlanSpec& spec, int64_t* counted,
                          engine::ErrorSink& error) noexcept override {
    *counted = 0;
    return compute(host_, error, [&] { *counted = planned_evaluation(spec); });
  }

  int32_t plan(const engine::PlanSpec& spec, engine::PlanSink& plan,
               engine::ErrorSink& error) noexcept override {
    return compute(host_, error, [&] { plan.set(run_plan(spec)); });
  }

 private:
  std::string describe() const {
    base::Json info = base::Json::object();
    info["libtorch"] = TORCH_VERSION;
    info["libtorch_file"] = torch_file();
    info["libtorch_shared_with_host"] = shared_torch_;
    info["onednn"] = kernels::onednn_version();
    info["instruction_sets"] = instruction_sets();
    info["kernels"] = kernels::cpu().name;
    info["attention"] = built_in_attention();
    info["kernel_abi_version"] = TRL_KERNEL_ABI_VERSION;
    info["threads"] = tensor::all_threads();
    return info.dump();
  }

  engine::Host& host_;
  const bool shared_torch_;
  std::string info_json_;
};

}  // namespace

}  // namespace trl::entry

extern "C" __attribute__((visibility("default"))) int32_t trl_engine_open(
    uint32_t interface_version, trl::engine::Host* host, int32_t shared_torch, trl::engine::Engine** out,
    trl::engine::ErrorSink* error) noexcept {
  *out = nullptr;
  return trl::entry::guard(*host, *error, [&] {
    if (interface_version != trl::engine::kInterfaceVersion)
      trl::fail(trl::Status::unsupported,
                "libtrl.so has version {} of the engine's interface, libtrl_engine.so has version {}",
                interface_version, trl::engine::kInterfaceVersion);
    trl::tensor::set_host(host);
    trl::base::set_host_files(host->files());
    if (shared_torch != 0) trl::kernels::leave_primitives_to_host();
    *out = new trl::entry::EngineObject(*host, shared_torch != 0);
    return trl::Status::ok;
  });
}
