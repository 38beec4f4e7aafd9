// Every function of the C API that opens no engine, again and again: the first allocation of the call gets no
// memory, then the second, until none is left to refuse. Each such call is an error that says so, hands out
// nothing, loses no memory, and leaves its objects as they were.
#include "no_memory/trial.h"

#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "support/arrow_stream.h"

namespace {

using host::after;
using host::Case;
using host::in_new_process;
using host::refuse_each;
using host::Trial;
using trl::test::NoMemory;

std::string golden(const char* file) { return host::golden(file); }

std::string described(const trl_config* config) {
  const char* json = nullptr;
  EXPECT_EQ(trl_config_describe(config, &json, nullptr), TRL_OK);
  return json != nullptr ? json : "";
}

int64_t rows_of(const trl_dataset* dataset) {
  int64_t count = -1;
  host::Error error;
  EXPECT_EQ(trl_dataset_get_row_count(dataset, &count, error), TRL_OK) << error.message();
  return count;
}

int lines_logged;
void count_line(void*, int32_t, const char*, const char*, size_t) { ++lines_logged; }
void throw_line(void*, int32_t, const char*, const char*, size_t) { throw std::logic_error("no"); }
int32_t go_on(void*, const char*, int64_t, int64_t) { return 0; }
void count_destroyed(void* count) { ++*static_cast<int*>(count); }
int64_t read_nothing(void*, const char*, uint64_t, void*, size_t) { return TRL_E_NOT_FOUND; }
int32_t take_batch(void* count, const char*, size_t) { return ++*static_cast<int*>(count), 0; }

constexpr std::string_view kRows =
    "{\"text\": \"one two three\"}\n{\"text\": \"four five\"}\n{\"text\": \"six\"}\n{\"text\": \"seven\"}\n";
constexpr std::string_view kChat =
    "[{\"role\": \"user\", \"content\": \"Is it so?\"}, {\"role\": \"assistant\", \"content\": \"It is.\"}]";

// Objects that live through all calls, each made when it is first asked for.
struct World {
  host::Scratch scratch;
  host::Config options = host::config({{"max_length", "8"}, {"per_device_train_batch_size", "2"}});
  host::Runtime runtime = host::runtime({{"runtime.threads", "2"}});
  host::Dataset rows = host::rows(kRows);
  host::Tokenizer tokenizer;
  World() {
    trl_tokenizer* made = nullptr;
    host::Error error;
    EXPECT_EQ(trl_tokenizer_open(nullptr, golden("models/qwen2").c_str(), nullptr, &made, error), TRL_OK)
        << error.message();
    tokenizer.reset(made);
    EXPECT_EQ(trl_runtime_set_log(runtime.get(), count_line, nullptr, nullptr, nullptr), TRL_OK);
    host::write_file(scratch / "options.yaml", "learning_rate: 1e-3\nmax_length: 7\n");
    host::write_file(scratch / "d/a.csv", "text,more\nx,\"y, z\"\ny,1\n");
    host::write_file(scratch / "d/b.jsonl", kRows);
  }
};
World& world() {
  static World only;
  return only;
}

// A change of a configuration: after an error it is as before.
template <class Body>
Case change(const char* name, Body body) {
  return {name, [body](Trial& trial) {
            const auto config = host::config({{"seed", "3"}, {"max_length", "9"}});
            const std::string before = described(config.get());
            trial.call([&](trl_error** error) { return body(config.get(), error); });
            if (trial.failed()) {
              EXPECT_EQ(described(config.get()), before);
            } else {
              trial.result = described(config.get());
            }
          }};
}

// A text that a configuration gives.
template <class Body>
Case config_text(const char* name, Body body) {
  return {name, [body](Trial& trial) {
            const auto config = host::config({{"learning_rate", "0.25"}, {"run_name", "one"}});
            const char* out = "before";
            trial.call([&](trl_error** error) { return body(config.get(), &out, error); });
            trial.text(out);
          }};
}

// A dataset that is made, and then counted.
template <class Body>
Case dataset(const char* name, Body body) {
  return {name, [body](Trial& trial) {
            trl_dataset* out = nullptr;
            trial.call([&](trl_error** error) { return body(&out, error); });
            const host::Dataset owned(out);
            trial.out(out, out != nullptr ? std::to_string(rows_of(out)) : "");
          }};
}

// Rows of a file, which are read when they are counted.
Case counted(const char* name, std::function<std::string()> path) {
  return {
      name, [path](Trial& trial) {
        const auto opened = host::open_rows(path());
        int64_t count = -1;
        trial.call([&](trl_error** error) { return trl_dataset_get_row_count(opened.get(), &count, error); });
        trial.out(count, std::to_string(count));
      }};
}

// Gives one row, within which the trial's call sets a column.
struct OneRow {
  Trial* trial;
  trl_status (*set)(trl_record*, trl_error**);
  bool given = false;
  static int32_t next(void* self, trl_record* record) {
    OneRow& on = *static_cast<OneRow*>(self);
    if (std::exchange(on.given, true)) return TRL_END;
    on.trial->call([&](trl_error** error) { return on.set(record, error); });
    return TRL_OK;
  }
  static int32_t rewind(void* self) {
    static_cast<OneRow*>(self)->given = false;
    return 0;
  }
};
Case record(const char* name, trl_status (*set)(trl_record*, trl_error**)) {
  return {name, [set](Trial& trial) {
            OneRow row{&trial, set};
            trl_dataset* made = nullptr;
            ASSERT_EQ(trl_dataset_from_callback(nullptr, OneRow::next, OneRow::rewind, &row, nullptr, nullptr,
                                                &made, nullptr),
                      TRL_OK);
            const host::Dataset owned(made);
            EXPECT_EQ(rows_of(made), 1);
          }};
}

// Rows that the host gives, without memory of its own.
int32_t next_row(void* left, trl_record* record) {
  int& rows = *static_cast<int*>(left);
  if (rows == 0) return TRL_END;
  --rows;
  return trl_record_set_text(record, "text", "one two", 7, nullptr);
}
int32_t first_row(void* left) {
  *static_cast<int*>(left) = 3;
  return 0;
}

// body(char* to, size_t capacity, size_t* out_size, trl_error**)
template <class Body>
Case copied(const char* name, Body body) {
  return {name, [body](Trial& trial) {
            std::string to(4096, '\0');
            size_t size = 99;
            trial.call([&](trl_error** error) { return body(to.data(), to.size(), &size, error); });
            trial.out(size, to.substr(0, trial.failed() ? 0 : size));
          }};
}

std::vector<Case> configurations() {
  return {
      {"trl_config_create",
       [](Trial& trial) {
         trl_config* out = nullptr;
         trial.call([&](trl_error** error) { return trl_config_create(&out, error); });
         const host::Config owned(out);
         trial.out(out, out != nullptr ? described(out) : "");
       }},
      change("trl_config_set",
             [](trl_config* config, trl_error** error) {
               return trl_config_set(config, "learning_rate", "0.125", error);
             }),
      change("trl_config_set, a list",
             [](trl_config* config, trl_error** error) {
               return trl_config_set(config, "target_modules", "[q_proj, k_proj]", error);
             }),
      change("trl_config_set, no key",
             [](trl_config* config, trl_error** error) {
               return trl_config_set(config, "lerning_rate", "0.125", error);
             }),
      change("trl_config_set, no value",
             [](trl_config* config, trl_error** error) {
               return trl_config_set(config, "lr_scheduler_type", "kosine", error);
             }),
      change("trl_config_unset",
             [](trl_config* config, trl_error** error) { return trl_config_unset(config, "seed", error); }),
      change("trl_config_load",
             [path = (world().scratch / "options.yaml").string()](trl_config* config, trl_error** error) {
               return trl_config_load(config, path.c_str(), error);
             }),
      change("trl_config_load, no file",
             [](trl_config* config, trl_error** error) { return trl_config_load(config, "/none", error); }),
      change("trl_config_load_text",
             [](trl_config* config, trl_error** error) {
               const char text[] =
                   "# all\nlearning_rate: 0.5\ntarget_modules: [a, b]\nlr_scheduler_kwargs:\n  a: 1\n";
               return trl_config_load_text(config, text, sizeof text - 1, error);
             }),
      change("trl_config_load_text, wrong",
             [](trl_config* config, trl_error** error) {
               const char text[] = "learning_rate: [1, 2\n";
               return trl_config_load_text(config, text, sizeof text - 1, error);
             }),
      config_text("trl_config_get",
                  [](const trl_config* config, const char** out, trl_error** error) {
                    return trl_config_get(config, "learning_rate", out, error);
                  }),
      config_text("trl_config_get_origin",
                  [](const trl_config* config, const char** out, trl_error** error) {
                    return trl_config_get_origin(config, "learning_rate", out, error);
                  }),
      config_text("trl_config_describe", trl_config_describe),
      config_text("trl_config_get_warnings", trl_config_get_warnings),
  };
}

// These need nothing that was made before; a process may begin with them.
std::vector<Case> first_calls() {
  return {
      {"trl_config_get_schema",
       [](Trial& trial) {
         const char* out = "before";
         trial.call([&](trl_error** error) { return trl_config_get_schema("sft", &out, error); });
         trial.text(out);
       }},
      {"trl_build_info",
       [](Trial& trial) {
         const char* out = nullptr;
         trial.ask([&] { return std::strlen(out = trl_build_info()) > 2; });
         trial.result = trial.failed() ? "" : out;
       }},
      {"trl_has_feature", [](Trial& trial) { trial.ask([] { return trl_has_feature("csv") == 1; }); }},
      {"trl_option_next",
       [](Trial& trial) { trial.ask([] { return trl_option_next(nullptr) != nullptr; }); }},
      {"trl_runtime_create, without a configuration",
       [](Trial& trial) {
         trl_runtime* out = nullptr;
         trial.call([&](trl_error** error) { return trl_runtime_create(nullptr, &out, error); });
         trial.out(out);
         trl_runtime_destroy(out);
       }},
      dataset("trl_dataset_from_buffer",
              [](trl_dataset** out, trl_error** error) {
                return trl_dataset_from_buffer(nullptr, "jsonl", kRows.data(), kRows.size(), nullptr, out,
                                               error);
              }),
      {"trl_config_create, first",
       [](Trial& trial) {
         trl_config* out = nullptr;
         trial.call([&](trl_error** error) { return trl_config_create(&out, error); });
         trial.out(out);
         trl_config_destroy(out);
       }},
      {"trl_tokenizer_open, no folder",
       [](Trial& trial) {
         trl_tokenizer* out = nullptr;
         trial.call(
             [&](trl_error** error) { return trl_tokenizer_open(nullptr, "/none", nullptr, &out, error); });
         trial.out(out);
       }},
      {"trl_runtime_shutdown", [](Trial& trial) { trial.call(trl_runtime_shutdown); }},
  };
}

std::vector<Case> runtimes() {
  static int destroyed;
  const auto once = [](auto body) {
    return [body](Trial& trial) {
      const auto runtime = host::runtime();
      destroyed = 0;
      trial.call([&](trl_error** error) { return body(runtime.get(), error); });
      EXPECT_EQ(destroyed, trial.failed() ? 1 : 0);
    };
  };
  return {
      {"trl_runtime_create",
       [](Trial& trial) {
         const auto config = host::config({{"runtime.threads", "2"}});  // as that of world()
         trl_runtime* out = nullptr;
         trial.call([&](trl_error** error) { return trl_runtime_create(config.get(), &out, error); });
         trial.out(out);
         trl_runtime_destroy(out);
       }},
      {"trl_runtime_set_log", once([](trl_runtime* runtime, trl_error** error) {
         return trl_runtime_set_log(runtime, count_line, &destroyed, count_destroyed, error);
       })},
      {"trl_runtime_set_progress", once([](trl_runtime* runtime, trl_error** error) {
         return trl_runtime_set_progress(runtime, go_on, &destroyed, count_destroyed, error);
       })},
      {"trl_runtime_mount", once([](trl_runtime* runtime, trl_error** error) {
         return trl_runtime_mount(runtime, "a-name-that-needs-memory", read_nothing, nullptr, &destroyed,
                                  count_destroyed, error);
       })},
      {"trl_runtime_set_memory_limit",
       [](Trial& trial) {
         const auto runtime = host::runtime();
         trial.call(
             [&](trl_error** error) { return trl_runtime_set_memory_limit(runtime.get(), 1 << 30, error); });
       }},
      {"trl_runtime_memory",
       [](Trial& trial) {
         const auto runtime = host::runtime();
         int64_t now = 1, peak = 1;
         trial.call([&](trl_error** error) {
           return trl_runtime_memory(runtime.get(), "data", &now, &peak, error);
         });
         trial.out(now);
         trial.out(peak);
       }},
      {"a log function that throws",
       [](Trial& trial) {
         const auto runtime = host::runtime();
         ASSERT_EQ(trl_runtime_set_log(runtime.get(), throw_line, nullptr, nullptr, nullptr), TRL_OK);
         trl_tokenizer* out = nullptr;
         const std::string folder = golden("models/qwen2");
         // A template that is not of the model's is a line in the log.
         const auto options = host::config({{"eos_token", "<|im_end|>"}});
         trial.call([&](trl_error** error) {
           return trl_tokenizer_open(runtime.get(), folder.c_str(), options.get(), &out, error);
         });
         trial.out(out);
         trl_tokenizer_destroy(out);
       }},
  };
}

std::vector<trl::test::ArrowColumn> arrow_rows() {
  return {trl::test::arrow_batch({trl::test::arrow_text("text", {"a", "bc", "d"})}),
          trl::test::arrow_batch({trl::test::arrow_text("text", {"e"})})};
}

std::vector<Case> datasets() {
  World& w = world();
  std::vector<Case> all = {
      dataset("trl_dataset_open",
              [path = (w.scratch / "d").string()](trl_dataset** out, trl_error** error) {
                return trl_dataset_open(nullptr, path.c_str(), nullptr, out, error);
              }),
      {"trl_dataset_open, no file",
       [](Trial& trial) {
         trl_dataset* out = nullptr;
         trial.call(
             [&](trl_error** error) { return trl_dataset_open(nullptr, "/none/*", nullptr, &out, error); });
         trial.out(out);
       }},
      {"trl_dataset_open_config",
       [](Trial& trial) {
         const auto config =
             host::config({{"dataset_name", world().scratch / "d/b.jsonl"}, {"test_split_size", "1"}});
         trl_dataset *train = nullptr, *eval = nullptr;
         trial.call([&](trl_error** error) {
           return trl_dataset_open_config(nullptr, config.get(), &train, &eval, error);
         });
         const host::Dataset first(train), second(eval);
         trial.out(train, train != nullptr ? std::to_string(rows_of(train)) : "");
         trial.out(eval, eval != nullptr ? std::to_string(rows_of(eval)) : "");
       }},
      {"trl_dataset_from_callback",
       [](Trial& trial) {
         static int destroyed;
         destroyed = 0;
         trl_dataset* out = nullptr;
         trial.call([&](trl_error** error) {
           return trl_dataset_from_callback(nullptr, next_row, first_row, &destroyed, count_destroyed,
                                            nullptr, &out, error);
         });
         trial.out(out);
         EXPECT_EQ(destroyed, trial.failed() ? 1 : 0);
         trl_dataset_destroy(out);
         EXPECT_EQ(destroyed, 1);
       }},
      {"trl_dataset_from_arrow",
       [](Trial& trial) {
         trl::test::ArrowStream rows(arrow_rows());
         trl_dataset* out = nullptr;
         trial.call([&](trl_error** error) {
           return trl_dataset_from_arrow(nullptr, rows.stream(), nullptr, &out, error);
         });
         const host::Dataset owned(out);
         trial.out(out, out != nullptr ? std::to_string(rows_of(out)) : "");
         EXPECT_EQ(rows.streams_released, 1);
       }},
      {"trl_dataset_get_row_count, Arrow",
       [](Trial& trial) {
         trl::test::ArrowStream rows(arrow_rows());
         trl_dataset* made = nullptr;
         ASSERT_EQ(trl_dataset_from_arrow(nullptr, rows.stream(), nullptr, &made, nullptr), TRL_OK);
         const host::Dataset owned(made);
         int64_t count = -1;
         trial.call([&](trl_error** error) { return trl_dataset_get_row_count(made, &count, error); });
         trial.out(count, std::to_string(count));
         if (trial.failed()) {
           EXPECT_EQ(rows.streams_released, 1);
         }
         EXPECT_EQ(rows.batches_released, rows.batches_given);
       }},
      counted("trl_dataset_get_row_count, a folder", [] { return (world().scratch / "d").string(); }),
      counted("trl_dataset_get_row_count, gzip", [] { return golden("data/bad/ok.jsonl.gz"); }),
      counted("trl_dataset_get_row_count, zstd", [] { return golden("data/bad/ok.jsonl.zst"); }),
      {"trl_dataset_get_row_count, a callback",
       [](Trial& trial) {
         int left = 0;
         trl_dataset* made = nullptr;
         ASSERT_EQ(
             trl_dataset_from_callback(nullptr, next_row, first_row, &left, nullptr, nullptr, &made, nullptr),
             TRL_OK);
         const host::Dataset owned(made);
         int64_t count = -1;
         trial.call([&](trl_error** error) { return trl_dataset_get_row_count(made, &count, error); });
         trial.out(count, std::to_string(count));
       }},
      {"trl_dataset_get_example",
       [](Trial& trial) {
         const char* out = "before";
         trial.call([&](trl_error** error) {
           return trl_dataset_get_example(world().rows.get(), world().tokenizer.get(), world().options.get(),
                                          1, &out, error);
         });
         trial.text(out);
       }},
      {"trl_dataset_get_profile",
       [](Trial& trial) {
         const char *json = "before", *text = "before";
         trial.call([&](trl_error** error) {
           return trl_dataset_get_profile(world().rows.get(), world().tokenizer.get(), world().options.get(),
                                          &json, &text, error);
         });
         trial.text(json);
         trial.text(text);
       }},
      {"trl_dataset_visit_batches",
       [](Trial& trial) {
         int batches = 0;
         trial.call([&](trl_error** error) {
           return trl_dataset_visit_batches(world().rows.get(), world().tokenizer.get(),
                                            world().options.get(), 0, 2, take_batch, &batches, error);
         });
         if (!trial.failed()) trial.result = std::to_string(batches);
       }},
      record("trl_record_set_text",
             [](trl_record* row, trl_error** error) {
               return trl_record_set_text(row, "a column whose name is long", "a text that is as long", 22,
                                          error);
             }),
      record("trl_record_set_ids",
             [](trl_record* row, trl_error** error) {
               const int32_t ids[] = {1, 2, 3};
               return trl_record_set_ids(row, "input_ids", ids, 3, error);
             }),
      record("trl_record_set_json",
             [](trl_record* row, trl_error** error) {
               return trl_record_set_json(row, "messages", kChat.data(), kChat.size(), error);
             }),
  };
  return all;
}

std::vector<Case> tokenizers() {
  static constexpr std::string_view kText = "Is it <|im_end|> so? \xc3\xa4\xe6\x97\xa5";
  return {
      {"trl_tokenizer_open",
       [](Trial& trial) {
         const std::string folder = golden("models/qwen2");
         trl_tokenizer* out = nullptr;
         trial.call([&](trl_error** error) {
           return trl_tokenizer_open(world().runtime.get(), folder.c_str(), nullptr, &out, error);
         });
         const host::Tokenizer owned(out);
         trial.out(out);
       }},
      {"trl_tokenizer_encode",
       [](Trial& trial) {
         int32_t ids[64];
         size_t count = 99;
         trial.call([&](trl_error** error) {
           return trl_tokenizer_encode(world().tokenizer.get(), kText.data(), kText.size(), 1, 0, ids, 64,
                                       &count, error);
         });
         std::string text;
         for (size_t i = 0; i < count && !trial.failed(); ++i) text += std::to_string(ids[i]) + " ";
         trial.out(count, text);
       }},
      copied("trl_tokenizer_decode",
             [](char* to, size_t capacity, size_t* size, trl_error** error) {
               const int32_t ids[] = {1, 2, 3, 4, 200, 201, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20};
               return trl_tokenizer_decode(world().tokenizer.get(), ids, std::size(ids), 0, to, capacity,
                                           size, error);
             }),
      copied("trl_tokenizer_get_piece",
             [](char* to, size_t capacity, size_t* size, trl_error** error) {
               return trl_tokenizer_get_piece(world().tokenizer.get(), 5, to, capacity, size, error);
             }),
      copied("trl_tokenizer_apply_chat_template",
             [](char* to, size_t capacity, size_t* size, trl_error** error) {
               return trl_tokenizer_apply_chat_template(world().tokenizer.get(), kChat.data(), kChat.size(),
                                                        to, capacity, size, error);
             }),
      {"trl_tokenizer_describe",
       [](Trial& trial) {
         const char* out = "before";
         trial.call(
             [&](trl_error** error) { return trl_tokenizer_describe(world().tokenizer.get(), &out, error); });
         trial.text(out);
       }},
  };
}

// Stands before what uses the library in this process: of two users, a forked one is refused.
TEST(NoMemoryAtFirst, EachCallCanBeTheFirst) {
  for (const Case& one : first_calls()) {
    int result = 2;
    for (int64_t nth = 1; result == 2; nth = after(nth)) {
      result = in_new_process(one, nth);
      ASSERT_TRUE(result == 0 || result == 2) << one.name << ", allocation " << nth << ": " << result;
    }
  }
}

// A runtime that is not made has no share in the settings of the process.
TEST(EveryAllocation, ARuntimeThatFailsSettlesNothing) {
  bool more = true;
  for (int64_t nth = 1; more; ++nth) {
    Trial trial(nth);
    trl_runtime* out = nullptr;
    trial.call([&](trl_error** error) { return trl_runtime_create(nullptr, &out, error); });
    trl_runtime_destroy(out);
    more = trial.refused();
    const auto other = host::runtime({{"runtime.threads", std::to_string(nth % 7 + 1)}});
    ASSERT_NE(other, nullptr) << "after allocation " << nth;
  }
}

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/tokenizer.json")

TEST(EveryAllocation, OfConfigurations) {
  NEED_MODEL();
  for (const Case& one : configurations()) refuse_each(one);
}
TEST(EveryAllocation, OfFirstCalls) {
  for (const Case& one : first_calls()) refuse_each(one);
}
TEST(EveryAllocation, OfRuntimes) {
  NEED_MODEL();
  for (const Case& one : runtimes()) refuse_each(one);
}
TEST(EveryAllocation, OfDatasets) {
  NEED_MODEL();
  for (const Case& one : datasets()) refuse_each(one);
}
TEST(EveryAllocation, OfTokenizers) {
  NEED_MODEL();
  for (const Case& one : tokenizers()) refuse_each(one);
}

// What cannot fail needs no memory: the walk over the options, an error, and the end of each handle.
TEST(WithoutMemory, OptionsAndNames) {
  ASSERT_NE(trl_option_next(nullptr), nullptr);
  const NoMemory none;
  size_t names = 0;
  for (const trl_option* o = trl_option_next(nullptr); o != nullptr; o = trl_option_next(o)) {
    names += std::strlen(trl_option_name(o)) + std::strlen(trl_option_section(o)) +
             std::strlen(trl_option_group(o)) + std::strlen(trl_option_origin(o)) +
             std::strlen(trl_option_trainers(o)) + std::strlen(trl_option_aliases(o)) +
             std::strlen(trl_option_other_names(o)) + std::strlen(trl_option_since(o)) +
             std::strlen(trl_option_default(o, nullptr)) + std::strlen(trl_option_accepted(o, nullptr)) +
             std::strlen(trl_option_doc(o, nullptr)) + std::strlen(trl_option_unsupported_reason(o)) +
             std::strlen(trl_option_ignored_reason(o)) + std::strlen(trl_option_taken(o));
    if (trl_option_type(o, nullptr) < 0 || trl_option_nullable(o) < 0) names = 0;
  }
  if (names < 10000) std::abort();
  if (std::strcmp(trl_status_name(TRL_E_IO), "TRL_E_IO") != 0 || trl_version() == 0) std::abort();
  if (trl_version_string()[0] == '\0') std::abort();
}

TEST(WithoutMemory, ErrorsAreReadAndDestroyed) {
  trl_error* error = nullptr;
  const auto config = host::config();
  ASSERT_EQ(trl_config_set(config.get(), "learning_rate", "fast", &error), TRL_E_INVALID_CONFIG);
  const char *message = nullptr, *key = nullptr, *file = "before";
  int64_t line = 1, column = 1, row = 1;
  trl_status status = TRL_OK, refused = TRL_OK;
  {
    const NoMemory none;
    message = trl_error_message(error);
    key = trl_error_key(error);
    status = trl_error_code(error);
    trl_error_place(error, &file, &line, &column, &row);
    if (std::strlen(message) == 0 || std::strcmp(key, "learning_rate") != 0) std::abort();
    if (trl_error_callback_code(error) != 0) std::abort();
    trl_error_destroy(error);
    refused = trl_config_set(config.get(), "learning_rate", "fast", &error);
    if (std::strcmp(trl_error_message(error), "out of memory") != 0) std::abort();
    trl_error_destroy(error);
  }
  EXPECT_EQ(status, TRL_E_INVALID_CONFIG);
  EXPECT_EQ(refused, TRL_E_OUT_OF_MEMORY);
}

TEST(WithoutMemory, HandlesAreDestroyed) {
  NEED_MODEL();
  World made;
  const int64_t count = rows_of(made.rows.get());
  EXPECT_EQ(count, 4);
  const char* out = nullptr;
  EXPECT_EQ(trl_dataset_get_example(made.rows.get(), made.tokenizer.get(), nullptr, 0, &out, nullptr),
            TRL_OK);
  const NoMemory none;
  trl_runtime_cancel(made.runtime.get());
  trl_dataset_destroy(made.rows.release());
  trl_tokenizer_destroy(made.tokenizer.release());
  trl_runtime_destroy(made.runtime.release());
  trl_config_destroy(made.options.release());
}

}  // namespace
