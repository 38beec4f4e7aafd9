// Every function with NULL, with a handle of another type and with memory that is not a handle: an error,
// never a crash.
#include <fstream>
#include <functional>
#include <set>

#include "dlpack.h"
#include "host.h"
#include "support/arrow_stream.h"

namespace {

using host::Error;

// A call with one handle replaced by `h`, all else as it should be. It returns the status; the outputs are
// checked here.
struct Case {
  const char* name;
  std::function<trl_status(void* h, trl_error** e)> call;
};

void* const kNothing = nullptr;
void* out() { return reinterpret_cast<void*>(1); }  // what an output holds before the call

template <class T, class Call>
trl_status with_out(Call&& call) {
  T* handle = static_cast<T*>(out());
  const trl_status status = call(&handle);
  EXPECT_EQ(handle, nullptr);
  return status;
}

const host::Config& good_config() {
  static const auto* const config = new host::Config(host::config());
  return *config;
}

template <class T>
T* as(void* handle) {
  return static_cast<T*>(handle);
}

std::vector<Case> cases() {
  static const char kJson[] = "[]";
  std::vector<Case> all = {
      {"trl_config_set",
       [](void* h, trl_error** e) { return trl_config_set(as<trl_config>(h), "seed", "1", e); }},
      {"trl_config_unset",
       [](void* h, trl_error** e) { return trl_config_unset(as<trl_config>(h), "seed", e); }},
      {"trl_config_get",
       [](void* h, trl_error** e) {
         return with_out<const char>(
             [&](const char** o) { return trl_config_get(as<trl_config>(h), "seed", o, e); });
       }},
      {"trl_config_get_origin",
       [](void* h, trl_error** e) {
         return with_out<const char>(
             [&](const char** o) { return trl_config_get_origin(as<trl_config>(h), "seed", o, e); });
       }},
      {"trl_config_get_warnings",
       [](void* h, trl_error** e) {
         return with_out<const char>(
             [&](const char** o) { return trl_config_get_warnings(as<trl_config>(h), o, e); });
       }},
      {"trl_dataset_open_config",
       [](void* h, trl_error** e) {
         trl_dataset* eval = static_cast<trl_dataset*>(out());
         const trl_status status = with_out<trl_dataset>([&](trl_dataset** o) {
           return trl_dataset_open_config(nullptr, as<trl_config>(h), o, &eval, e);
         });
         EXPECT_EQ(eval, nullptr);
         return status;
       }},
      {"trl_config_load",
       [](void* h, trl_error** e) { return trl_config_load(as<trl_config>(h), "/dev/null", e); }},
      {"trl_config_load_text",
       [](void* h, trl_error** e) { return trl_config_load_text(as<trl_config>(h), "", 0, e); }},
      {"trl_config_describe",
       [](void* h, trl_error** e) {
         return with_out<const char>(
             [&](const char** o) { return trl_config_describe(as<trl_config>(h), o, e); });
       }},
      {"trl_runtime_set_log",
       [](void* h, trl_error** e) {
         return trl_runtime_set_log(as<trl_runtime>(h), nullptr, nullptr, nullptr, e);
       }},
      {"trl_runtime_set_progress",
       [](void* h, trl_error** e) {
         return trl_runtime_set_progress(as<trl_runtime>(h), nullptr, nullptr, nullptr, e);
       }},
      {"trl_runtime_mount",
       [](void* h, trl_error** e) {
         return trl_runtime_mount(as<trl_runtime>(h), "m", nullptr, nullptr, nullptr, nullptr, e);
       }},
      {"trl_runtime_set_memory_limit",
       [](void* h, trl_error** e) { return trl_runtime_set_memory_limit(as<trl_runtime>(h), 0, e); }},
      {"trl_runtime_memory",
       [](void* h, trl_error** e) {
         int64_t now = 7, peak = 7;
         const trl_status status = trl_runtime_memory(as<trl_runtime>(h), nullptr, &now, &peak, e);
         EXPECT_EQ(now + peak, 0);
         return status;
       }},
      {"trl_runtime_describe",
       [](void* h, trl_error** e) {
         return with_out<const char>(
             [&](const char** o) { return trl_runtime_describe(as<trl_runtime>(h), o, e); });
       }},
      {"trl_record_set_text",
       [](void* h, trl_error** e) { return trl_record_set_text(as<trl_record>(h), "text", "a", 1, e); }},
      {"trl_record_set_ids",
       [](void* h, trl_error** e) { return trl_record_set_ids(as<trl_record>(h), "ids", nullptr, 0, e); }},
      {"trl_record_set_json",
       [](void* h, trl_error** e) {
         return trl_record_set_json(as<trl_record>(h), "text", "no JSON", 7, e);
       }},
      {"trl_dataset_get_row_count",
       [](void* h, trl_error** e) {
         int64_t count = 7;
         const trl_status status = trl_dataset_get_row_count(as<trl_dataset>(h), &count, e);
         EXPECT_EQ(count, 0);
         return status;
       }},
      {"trl_dataset_get_profile",
       [](void* h, trl_error** e) {
         return with_out<const char>([&](const char** o) {
           return trl_dataset_get_profile(as<trl_dataset>(h), nullptr, nullptr, o, nullptr, e);
         });
       }},
      {"trl_dataset_get_example",
       [](void* h, trl_error** e) {
         return with_out<const char>([&](const char** o) {
           return trl_dataset_get_example(as<trl_dataset>(h), nullptr, nullptr, 0, o, e);
         });
       }},
      {"trl_dataset_visit_batches",
       [](void* h, trl_error** e) {
         return trl_dataset_visit_batches(as<trl_dataset>(h), nullptr, nullptr, 0, 1, nullptr, nullptr, e);
       }},
      {"trl_tokenizer_encode",
       [](void* h, trl_error** e) {
         size_t count = 7;
         const trl_status status =
             trl_tokenizer_encode(as<trl_tokenizer>(h), "a", 1, 0, 0, nullptr, 0, &count, e);
         EXPECT_EQ(count, 0u);
         return status;
       }},
      {"trl_tokenizer_decode",
       [](void* h, trl_error** e) {
         size_t size = 7;
         const trl_status status =
             trl_tokenizer_decode(as<trl_tokenizer>(h), nullptr, 0, 0, nullptr, 0, &size, e);
         EXPECT_EQ(size, 0u);
         return status;
       }},
      {"trl_tokenizer_get_piece",
       [](void* h, trl_error** e) {
         size_t size = 7;
         const trl_status status = trl_tokenizer_get_piece(as<trl_tokenizer>(h), 0, nullptr, 0, &size, e);
         EXPECT_EQ(size, 0u);
         return status;
       }},
      {"trl_tokenizer_apply_chat_template",
       [](void* h, trl_error** e) {
         size_t size = 7;
         const trl_status status =
             trl_tokenizer_apply_chat_template(as<trl_tokenizer>(h), kJson, 2, nullptr, 0, &size, e);
         EXPECT_EQ(size, 0u);
         return status;
       }},
      {"trl_tokenizer_describe",
       [](void* h, trl_error** e) {
         return with_out<const char>(
             [&](const char** o) { return trl_tokenizer_describe(as<trl_tokenizer>(h), o, e); });
       }},
      {"trl_model_describe",
       [](void* h, trl_error** e) {
         return with_out<const char>(
             [&](const char** o) { return trl_model_describe(as<trl_model>(h), o, e); });
       }},
      {"trl_model_from_trainer",
       [](void* h, trl_error** e) {
         return with_out<trl_model>(
             [&](trl_model** o) { return trl_model_from_trainer(as<trl_trainer>(h), o, e); });
       }},
      {"trl_model_get_tensors",
       [](void* h, trl_error** e) {
         return with_out<const char>(
             [&](const char** o) { return trl_model_get_tensors(as<trl_model>(h), o, e); });
       }},
      {"trl_model_read_tensor",
       [](void* h, trl_error** e) {
         return with_out<DLManagedTensorVersioned>([&](DLManagedTensorVersioned** o) {
           return trl_model_read_tensor(as<trl_model>(h), "mine", TRL_TENSOR_COPY, o, e);
         });
       }},
      {"trl_model_write_tensor",
       [](void* h, trl_error** e) {
         host::FloatTensor values({1});
         const trl_status status = trl_model_write_tensor(as<trl_model>(h), "mine", values.get(), e);
         EXPECT_EQ(values.deleted(), status == TRL_E_BUSY ? 0 : 1);  // it is taken over all the same
         return status;
       }},
      {"trl_model_add_adapter",
       [](void* h, trl_error** e) {
         return trl_model_add_adapter(as<trl_model>(h), "mine", "/tmp/no_adapter", e);
       }},
      {"trl_model_remove_adapter",
       [](void* h, trl_error** e) { return trl_model_remove_adapter(as<trl_model>(h), "mine", e); }},
      {"trl_model_use_adapter",
       [](void* h, trl_error** e) { return trl_model_use_adapter(as<trl_model>(h), "mine", e); }},
      {"trl_model_merge_adapter",
       [](void* h, trl_error** e) { return trl_model_merge_adapter(as<trl_model>(h), "mine", e); }},
      {"trl_model_save",
       [](void* h, trl_error** e) { return trl_model_save(as<trl_model>(h), "/tmp/no_target", nullptr, e); }},
      {"trl_trainer_add_reward",
       [](void* h, trl_error** e) {
         return trl_trainer_add_reward(
             as<trl_trainer>(h), "mine", [](void*, trl_rollout*) { return int32_t{0}; }, nullptr, nullptr, e);
       }},
      {"trl_trainer_set_rollout",
       [](void* h, trl_error** e) {
         return trl_trainer_set_rollout(
             as<trl_trainer>(h), [](void*, trl_rollout*) { return int32_t{0}; }, nullptr, nullptr, e);
       }},
      {"trl_trainer_set_tools",
       [](void* h, trl_error** e) {
         return trl_trainer_set_tools(
             as<trl_trainer>(h), [](void*, trl_rollout*) { return int32_t{0}; }, nullptr, nullptr, e);
       }},
      {"trl_rollout_get",
       [](void* h, trl_error** e) {
         const char* json = nullptr;
         return trl_rollout_get(as<trl_rollout>(h), 0, &json, e);
       }},
      {"trl_rollout_set_reward",
       [](void* h, trl_error** e) { return trl_rollout_set_reward(as<trl_rollout>(h), 0, 1.0, e); }},
      {"trl_rollout_set_completion",
       [](void* h, trl_error** e) {
         const int32_t id = 1;
         return trl_rollout_set_completion(as<trl_rollout>(h), 0, &id, 1, nullptr, nullptr, nullptr, e);
       }},
      {"trl_rollout_log",
       [](void* h, trl_error** e) { return trl_rollout_log(as<trl_rollout>(h), "mine", 1.0, e); }},
      {"trl_rollout_set_value",
       [](void* h, trl_error** e) { return trl_rollout_set_value(as<trl_rollout>(h), 0, "mine", "1", e); }},
      {"trl_rollout_finish",
       [](void* h, trl_error** e) { return trl_rollout_finish(as<trl_rollout>(h), nullptr, e); }},
      {"trl_trainer_create",
       [](void* h, trl_error** e) {
         return with_out<trl_trainer>([&](trl_trainer** o) {
           return trl_trainer_create(nullptr, as<trl_config>(h), nullptr, nullptr, o, e);
         });
       }},
      {"trl_model_score",
       [](void* h, trl_error** e) {
         const char* const text = "a";
         float score = 7;
         const trl_status status =
             trl_model_score(as<trl_model>(h), &text, nullptr, 1, 0, nullptr, &score, e);
         EXPECT_EQ(score, 7);
         return status;
       }},
      {"trl_evaluator_create",
       [](void* h, trl_error** e) {
         return with_out<trl_evaluator>(
             [&](trl_evaluator** o) { return trl_evaluator_create(nullptr, as<trl_config>(h), o, e); });
       }},
      {"trl_evaluator_evaluate",
       [](void* h, trl_error** e) {
         return with_out<const trl_metrics>([&](const trl_metrics** o) {
           return trl_evaluator_evaluate(as<trl_evaluator>(h), nullptr, o, e);
         });
       }},
      {"trl_evaluator_complete",
       [](void* h, trl_error** e) {
         return with_out<const char>(
             [&](const char** o) { return trl_evaluator_complete(as<trl_evaluator>(h), o, e); });
       }},
      {"trl_trainer_check",
       [](void* h, trl_error** e) { return trl_trainer_check(as<trl_runtime>(h), nullptr, e); }},
      {"trl_trainer_plan",
       [](void* h, trl_error** e) {
         return with_out<const char>([&](const char** o) {
           return trl_trainer_plan(as<trl_runtime>(h), nullptr, nullptr, o, nullptr, e);
         });
       }},
      {"trl_trainer_step",
       [](void* h, trl_error** e) {
         return with_out<const trl_metrics>(
             [&](const trl_metrics** o) { return trl_trainer_step(as<trl_trainer>(h), o, e); });
       }},
      {"trl_trainer_train",
       [](void* h, trl_error** e) { return trl_trainer_train(as<trl_trainer>(h), nullptr, nullptr, e); }},
      {"trl_trainer_evaluate",
       [](void* h, trl_error** e) {
         return with_out<const trl_metrics>(
             [&](const trl_metrics** o) { return trl_trainer_evaluate(as<trl_trainer>(h), nullptr, o, e); });
       }},
      {"trl_trainer_backward",
       [](void* h, trl_error** e) {
         return with_out<const trl_metrics>(
             [&](const trl_metrics** o) { return trl_trainer_backward(as<trl_trainer>(h), o, e); });
       }},
      {"trl_trainer_update",
       [](void* h, trl_error** e) {
         return with_out<const trl_metrics>(
             [&](const trl_metrics** o) { return trl_trainer_update(as<trl_trainer>(h), 1, o, e); });
       }},
      {"trl_trainer_set_learning_rate",
       [](void* h, trl_error** e) { return trl_trainer_set_learning_rate(as<trl_trainer>(h), 0.1, e); }},
      {"trl_trainer_save",
       [](void* h, trl_error** e) { return trl_trainer_save(as<trl_trainer>(h), "/tmp", nullptr, e); }},
      {"trl_trainer_describe",
       [](void* h, trl_error** e) {
         return with_out<const char>(
             [&](const char** o) { return trl_trainer_describe(as<trl_trainer>(h), o, e); });
       }},
      {"trl_trainer_get_integers",
       [](void* h, trl_error** e) {
         size_t count = 7;
         const trl_status status =
             trl_trainer_get_integers(as<trl_trainer>(h), "max_steps", nullptr, 0, &count, e);
         EXPECT_EQ(count, 0u);
         return status;
       }},
      {"trl_metrics_get",
       [](void* h, trl_error**) {
         double value = 7;
         const trl_status status = trl_metrics_get(as<trl_metrics>(h), "loss", &value);
         EXPECT_EQ(value, 0);
         return status;
       }},
      {"trl_generator_create",
       [](void* h, trl_error** e) {
         return with_out<trl_generator>(
             [&](trl_generator** o) { return trl_generator_create(as<trl_model>(h), nullptr, o, e); });
       }},
      {"trl_generator_generate",
       [](void* h, trl_error** e) {
         return with_out<trl_completions>([&](trl_completions** o) {
           return trl_generator_generate(as<trl_generator>(h), nullptr, nullptr, 0, nullptr, nullptr, nullptr,
                                         o, e);
         });
       }},
      {"trl_generator_add",
       [](void* h, trl_error** e) {
         size_t first = 0;
         return trl_generator_add(as<trl_generator>(h), "a", 1, nullptr, 0, nullptr, &first, e);
       }},
      {"trl_generator_step",
       [](void* h, trl_error** e) { return trl_generator_step(as<trl_generator>(h), nullptr, nullptr, e); }},
      {"trl_generator_extend",
       [](void* h, trl_error** e) {
         return trl_generator_extend(as<trl_generator>(h), 0, "a", 1, nullptr, 0, nullptr, e);
       }},
      {"trl_generator_cancel",
       [](void* h, trl_error** e) { return trl_generator_cancel(as<trl_generator>(h), 0, 1, e); }},
      {"trl_generator_take",
       [](void* h, trl_error** e) {
         return with_out<trl_completions>(
             [&](trl_completions** o) { return trl_generator_take(as<trl_generator>(h), 0, 1, o, e); });
       }},
      {"trl_generator_release_memory",
       [](void* h, trl_error** e) { return trl_generator_release_memory(as<trl_generator>(h), e); }},
  };
  return all;
}

// Where NULL is allowed, the wrong handles still are not.
std::vector<Case> nullable_cases() {
  return {
      {"trl_runtime_create",
       [](void* h, trl_error** e) {
         return with_out<trl_runtime>(
             [&](trl_runtime** o) { return trl_runtime_create(as<trl_config>(h), o, e); });
       }},
      {"trl_dataset_open",
       [](void* h, trl_error** e) {
         return with_out<trl_dataset>([&](trl_dataset** o) {
           return trl_dataset_open(as<trl_runtime>(h), "/dev/null", nullptr, o, e);
         });
       }},
      {"trl_dataset_open_config",
       [](void* h, trl_error** e) {
         static const auto* const config = new host::Config(host::config({{"dataset_name", "/dev/null"}}));
         trl_dataset* eval = nullptr;
         return with_out<trl_dataset>([&](trl_dataset** o) {
           return trl_dataset_open_config(as<trl_runtime>(h), config->get(), o, &eval, e);
         });
       }},
      {"trl_dataset_from_arrow",
       [](void* h, trl_error** e) {
         trl::test::ArrowStream table({trl::test::arrow_batch({trl::test::arrow_text("text", {"a"})})});
         return with_out<trl_dataset>([&](trl_dataset** o) {
           return trl_dataset_from_arrow(as<trl_runtime>(h), table.stream(), nullptr, o, e);
         });
       }},
      {"trl_dataset_from_buffer",
       [](void* h, trl_error** e) {
         return with_out<trl_dataset>([&](trl_dataset** o) {
           return trl_dataset_from_buffer(nullptr, "jsonl", "", 0, as<trl_config>(h), o, e);
         });
       }},
      {"trl_dataset_from_callback",
       [](void* h, trl_error** e) {
         return with_out<trl_dataset>([&](trl_dataset** o) {
           return trl_dataset_from_callback(
               as<trl_runtime>(h), [](void*, trl_record*) { return TRL_END + 0; }, [](void*) { return 0; },
               nullptr, nullptr, nullptr, o, e);
         });
       }},
      {"trl_tokenizer_open",
       [](void* h, trl_error** e) {
         return with_out<trl_tokenizer>([&](trl_tokenizer** o) {
           return trl_tokenizer_open(as<trl_runtime>(h), "/tmp", nullptr, o, e);
         });
       }},
      {"trl_model_convert",
       [](void* h, trl_error** e) {
         return trl_model_convert(as<trl_runtime>(h), "/tmp/no_model", "/tmp/no_target", nullptr, e);
       }},
      {"trl_model_open",
       [](void* h, trl_error** e) {
         return with_out<trl_model>(
             [&](trl_model** o) { return trl_model_open(as<trl_runtime>(h), "/tmp", nullptr, o, e); });
       }},
  };
}

// A handle that none of the functions above takes, and bytes that are none.
class Wrong {
 public:
  Wrong() { trl_config_set(good_config().get(), "no_such_key", "1", &error_); }
  ~Wrong() { trl_error_destroy(error_); }
  std::vector<void*> all() { return {error_, bytes_.data(), ones_.data()}; }

 private:
  trl_error* error_ = nullptr;
  std::vector<uint64_t> bytes_ = std::vector<uint64_t>(64, 0);
  std::vector<uint64_t> ones_ = std::vector<uint64_t>(64, ~0ull);
};

TEST(Arguments, NullIsRefusedByName) {
  Error error;
  for (const Case& c : cases()) {
    EXPECT_EQ(c.call(kNothing, error), TRL_E_INVALID_ARGUMENT) << c.name;
    EXPECT_EQ(c.call(kNothing, nullptr), TRL_E_INVALID_ARGUMENT) << c.name;
    if (std::string(c.name) != "trl_metrics_get") {
      EXPECT_TRUE(error.names("is NULL")) << c.name << ": " << error.message();
      EXPECT_EQ(trl_error_code(error.get()), TRL_E_INVALID_ARGUMENT) << c.name;
    }
  }
}

TEST(Arguments, AnotherTypeOfHandleIsRefused) {
  Wrong wrong;
  Error error;
  for (const auto& list : {cases(), nullable_cases()}) {
    for (const Case& c : list) {
      for (void* handle : wrong.all()) EXPECT_EQ(c.call(handle, error), TRL_E_INVALID_ARGUMENT) << c.name;
    }
  }
  // a configuration where something else is needed, and something else where a configuration is
  for (const Case& c : cases()) {
    if (std::string(c.name).find("config") != std::string::npos ||
        std::string(c.name) == "trl_trainer_create" || std::string(c.name) == "trl_evaluator_create")
      continue;
    EXPECT_EQ(c.call(good_config().get(), error), TRL_E_INVALID_ARGUMENT) << c.name;
    EXPECT_FALSE(error.names("a  is required")) << c.name << ": " << error.message();
  }
}

TEST(Arguments, AccessorsAnswerForEverything) {
  Wrong wrong;
  for (void* handle : wrong.all()) {
    EXPECT_EQ(trl_metrics_next(as<trl_metrics>(handle), nullptr), nullptr);
    size_t size = 7;
    EXPECT_EQ(trl_completions_text(as<trl_completions>(handle), 0, &size), nullptr);
    EXPECT_EQ(size, 0u);
    EXPECT_EQ(trl_completions_tokens(as<trl_completions>(handle), 0, &size), nullptr);
    size = 7;
    EXPECT_EQ(trl_completions_json(as<trl_completions>(handle), 0, &size), nullptr);
    EXPECT_EQ(size, 0u);
    trl_trainer_cancel(as<trl_trainer>(handle));
    trl_trainer_pause(as<trl_trainer>(handle));
    trl_trainer_resume(as<trl_trainer>(handle));
    trl_trainer_destroy(as<trl_trainer>(handle));
    trl_evaluator_destroy(as<trl_evaluator>(handle));
    trl_config_destroy(as<trl_config>(handle));
    trl_dataset_destroy(as<trl_dataset>(handle));
    trl_runtime_destroy(as<trl_runtime>(handle));
    trl_tokenizer_destroy(as<trl_tokenizer>(handle));
    trl_model_destroy(as<trl_model>(handle));
    trl_generator_destroy(as<trl_generator>(handle));
    trl_completions_destroy(as<trl_completions>(handle));
  }
  EXPECT_EQ(trl_error_code(as<trl_error>(good_config().get())), TRL_E_INVALID_ARGUMENT);
  EXPECT_STREQ(trl_error_message(as<trl_error>(good_config().get())), "");
  trl_error_destroy(as<trl_error>(good_config().get()));
}

TEST(Arguments, NullAccessorsAndDestroys) {
  EXPECT_EQ(trl_error_code(nullptr), TRL_OK);
  EXPECT_STREQ(trl_error_message(nullptr), "");
  EXPECT_EQ(trl_error_key(nullptr), nullptr);
  EXPECT_EQ(trl_error_callback_code(nullptr), 0);
  EXPECT_EQ(trl_error_place(nullptr, nullptr, nullptr, nullptr, nullptr), 0);
  EXPECT_EQ(trl_metrics_next(nullptr, nullptr), nullptr);
  EXPECT_EQ(trl_completions_text(nullptr, 0, nullptr), nullptr);
  EXPECT_EQ(trl_completions_tokens(nullptr, 0, nullptr), nullptr);
  EXPECT_EQ(trl_completions_json(nullptr, 0, nullptr), nullptr);
  trl_trainer_cancel(nullptr);
  trl_trainer_pause(nullptr);
  trl_trainer_resume(nullptr);
  trl_error_destroy(nullptr);
  trl_config_destroy(nullptr);
  trl_runtime_destroy(nullptr);
  trl_dataset_destroy(nullptr);
  trl_tokenizer_destroy(nullptr);
  trl_model_destroy(nullptr);
  trl_trainer_destroy(nullptr);
  trl_generator_destroy(nullptr);
  trl_completions_destroy(nullptr);
}

TEST(Arguments, OutputsAreNeeded) {
  Error error;
  const auto config = host::config();
  EXPECT_EQ(trl_config_create(nullptr, error), TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(trl_config_get(config.get(), "seed", nullptr, error), TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(trl_config_describe(config.get(), nullptr, error), TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(trl_config_get_schema(nullptr, nullptr, error), TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(trl_runtime_create(config.get(), nullptr, error), TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(trl_dataset_open(nullptr, "/dev/null", nullptr, nullptr, error), TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(trl_dataset_from_arrow(nullptr, nullptr, nullptr, nullptr, error), TRL_E_INVALID_ARGUMENT);
  EXPECT_TRUE(error.names("stream")) << error.message();
  EXPECT_EQ(trl_dataset_open_config(nullptr, nullptr, nullptr, nullptr, error), TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(trl_dataset_open_config(nullptr, config.get(), nullptr, nullptr, error), TRL_E_INVALID_ARGUMENT);
  EXPECT_TRUE(error.names("out_train")) << error.message();
  EXPECT_EQ(trl_tokenizer_open(nullptr, "/tmp", nullptr, nullptr, error), TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(trl_model_open(nullptr, "/tmp", nullptr, nullptr, error), TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(trl_model_convert(nullptr, "/tmp", nullptr, nullptr, error), TRL_E_INVALID_ARGUMENT);
  EXPECT_TRUE(error.names("target")) << error.message();
  EXPECT_EQ(trl_trainer_create(nullptr, config.get(), nullptr, nullptr, nullptr, error),
            TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(trl_config_set(config.get(), nullptr, "1", error), TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(trl_config_set(config.get(), "seed", nullptr, error), TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(trl_config_load(config.get(), nullptr, error), TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(trl_config_load_text(config.get(), nullptr, 3, error), TRL_E_INVALID_ARGUMENT);
  EXPECT_TRUE(error.names("text")) << error.message();
}

// The functions that trl.h allows inside callbacks: those without `error`, and those whose contract says so.
std::set<std::string> allowed_inside_callbacks() {
  std::string header = host::read_file(TRL_SOURCE_DIR "/include/trl/trl.h");
  for (size_t at; (at = header.find("\n * ")) != std::string::npos;) header.replace(at, 4, " ");
  std::set<std::string> allowed;
  size_t before = header.find("trl_version");
  for (size_t at; (at = header.find("TRL_API ", before)) != std::string::npos;
       before = header.find(';', at)) {
    const std::string comment = header.substr(before, at - before);
    const std::string function = header.substr(at, header.find(';', at) - at);
    const size_t paren = function.find('(');
    const size_t name = function.rfind("trl_", paren);
    if (function.find("trl_error** error") == std::string::npos ||
        comment.find("also in callbacks") != std::string::npos)
      allowed.insert(function.substr(name, paren - name));
  }
  return allowed;
}

// A call that is not allowed is told so before its arguments are looked at.
TEST(Arguments, InsideCallbacksTheHeaderSaysWhatMayBeCalled) {
  static int calls;
  calls = 0;
  const auto next = [](void*, trl_record*) -> int32_t {
    const std::set<std::string> allowed = allowed_inside_callbacks();
    Error error;
    for (const auto& list : {cases(), nullable_cases()}) {
      for (const Case& c : list) {
        const trl_status status = c.call(kNothing, error);
        EXPECT_EQ(status != TRL_E_BUSY, allowed.contains(c.name)) << c.name << ": " << error.message();
        ++calls;
      }
    }
    return TRL_END;
  };
  trl_dataset* made = nullptr;
  ASSERT_EQ(trl_dataset_from_callback(
                nullptr, next, [](void*) -> int32_t { return 0; }, nullptr, nullptr, nullptr, &made, nullptr),
            TRL_OK);
  const host::Dataset dataset(made);
  int64_t count = 0;
  Error error;
  EXPECT_EQ(trl_dataset_get_row_count(dataset.get(), &count, error), TRL_OK) << error.message();
  EXPECT_GT(calls, 60);
}

// The tables above and the few functions tested by themselves are all there is: a new function joins one of
// them.
TEST(Arguments, EveryFunctionIsHere) {
  std::set<std::string> covered;
  for (const auto& list : {cases(), nullable_cases()}) {
    for (const Case& c : list) covered.insert(c.name);
  }
  std::ifstream list(TRL_SOURCE_DIR "/tests/abi/symbols.txt");
  std::string line;
  int functions = 0;
  while (std::getline(list, line)) {
    if (line.starts_with("#")) continue;
    const std::string name = line.substr(0, line.find(' '));
    ++functions;
    const bool apart =
        name.ends_with("_destroy") || name.starts_with("trl_option_") || name.starts_with("trl_error_") ||
        name.starts_with("trl_completions_") || name == "trl_metrics_next" || name == "trl_metrics_text" ||
        name == "trl_rollout_count" || name == "trl_runtime_cancel" || name == "trl_trainer_cancel" ||
        name == "trl_trainer_pause" || name == "trl_trainer_resume" || name.starts_with("trl_version") ||
        name == "trl_build_info" || name == "trl_has_feature" || name == "trl_config_create" ||
        name == "trl_status_name" || name == "trl_config_get_schema" || name == "trl_runtime_shutdown";
    EXPECT_TRUE(apart || covered.count(name)) << name;
  }
  EXPECT_EQ(functions, 130);
}

}  // namespace
