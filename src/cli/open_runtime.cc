#include "cli/open_runtime.h"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <iterator>
#include <set>

#include "cli/progress.h"

namespace trl::cli {

namespace {

// Returns whether the command shows the line itself: "evaluate at step 4 of 8: ...".
bool is_event(std::string_view component, std::string_view text) {
  return component == "train" && text.find(" at step ") != std::string_view::npos;
}

// Returns whether the process has not written the line before.
bool is_new(std::string_view line) {
  static std::set<std::string, std::less<>> written;
  return written.emplace(line).second;
}

// Writes a line about options once, though trl_trainer_check and trl_trainer_create both give it.
void on_log(void*, int32_t level, const char* component, const char* text, size_t size) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                   spdlog::level::warn, spdlog::level::err};
  const std::string_view line(text, size);
  const bool debugs = spdlog::get_level() <= spdlog::level::debug;
  if (level == TRL_LOG_INFO && is_event(component, line) && !debugs) return;
  if (level == TRL_LOG_WARNING) return warn_once(line);
  const spdlog::level::level_enum known = kLevels[level < 0 || level > 3 ? 3 : level];
  if (!spdlog::should_log(known) || (std::string_view(component) == "config" && !is_new(line))) return;
  clear_line();
  spdlog::log(known, "{}", line);
}

// Returns the level of log_level, and of quiet above it; errors are always written.
spdlog::level::level_enum level_of(const Config& config) {
  const std::string name = get(config, "log_level");
  const bool quiet = get(config, "quiet") == "true";
  if (name == "error" || name == "critical") return spdlog::level::err;
  if (name == "warning" || quiet) return spdlog::level::warn;
  if (name == "debug" || name == "detail") return spdlog::level::debug;
  return spdlog::level::info;
}

// A signal handler can reach its data only through globals. Lock-free atomics are safe there.
std::atomic<void (*)(void*)> g_stop{nullptr};
std::atomic<void*> g_object{nullptr};  // of g_stop
std::atomic<bool> g_polled{false};
std::atomic<const char*> g_last_words{nullptr};
std::atomic<int> g_signal{0};
constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
struct sigaction g_before[std::size(kSignals)];

void say(std::string_view text) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

void on_signal(int number) {
  const int before = errno;  // the interrupted code still reads its own
  int none = 0;
  if (!g_signal.compare_exchange_strong(none, number)) {
    if (number == SIGHUP) return;  // a terminal that goes away and its shell both send it
    _exit(128 + number);
  }
  void (*const stop)(void*) = g_stop.load();
  if (stop == nullptr && !g_polled) {
    say("\ntrl: ");
    say(g_last_words.load());
    say("\n");
    _exit(128 + number);
  }
  say("\ntrl: stopping at the next safe point; press Ctrl-C again to quit now\n");
  if (stop != nullptr) stop(g_object.load());
  errno = before;
}

// Leaves a SIGHUP that is ignored from the start ignored, because nohup does that.
void install(int number, struct sigaction& before) {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, &before);
  if (number == SIGHUP && before.sa_handler == SIG_IGN) sigaction(number, &before, nullptr);
}

}  // namespace

void set_log_level(const Config& config) { spdlog::set_level(level_of(config)); }

void warn_once(std::string_view text) {
  if (!is_new(text) || !spdlog::should_log(spdlog::level::warn)) return;
  clear_line();
  spdlog::warn("{}", text);
}

void open_runtime(const Config& config, Runtime& runtime) {
  Error error;
  set_log_level(config);
  check(trl_runtime_create(config.get(), runtime.out(), error.out()), error);
  check(trl_runtime_set_log(runtime.get(), on_log, nullptr, nullptr, error.out()), error);
  if (shows_progress(config))
    check(trl_runtime_set_progress(runtime.get(), show_phase, nullptr, nullptr, error.out()), error);
}

std::vector<std::string> model_keys() {
  return {"model_name_or_path",
          "model_revision",
          "adapter_name_or_path",
          "dtype",
          "load_in_4bit",
          "load_in_8bit",
          "bnb_4bit_quant_type",
          "use_bnb_nested_quant",
          "use_cpu",
          "fused_kernels",
          "memory_budget",
          "split_special_tokens",
          "eos_token",
          "pad_token",
          "chat_template",
          "chat_template_path",
          "kv_cache_memory",
          "kv_cache_dtype",
          "prefix_cache",
          "generation_dtype",
          "generation_dtype_head"};
}

void need_tokenizer(const Config& config) {
  if (get(config, "model_name_or_path").empty())
    throw Failure(kUsage,
                  "--model_name_or_path is required: a model directory or a GGUF file, for its tokenizer");
}

void open_tokenizer(const Config& config, const Runtime& runtime, Tokenizer& tokenizer) {
  Error error;
  const std::string path = get(config, "model_name_or_path");
  check(trl_tokenizer_open(runtime.get(), path.c_str(), config.get(), tokenizer.out(), error.out()), error);
}

void open_rows(const Config& config, const Runtime& runtime, Dataset& train, Dataset& evaluation) {
  Error error;
  check(trl_dataset_open_config(runtime.get(), config.get(), train.out(), evaluation.out(), error.out()),
        error);
}

OpenRows::OpenRows(const Config& config, Interrupt* interrupt) {
  open_runtime(config, runtime);
  if (interrupt != nullptr) interrupt->watch_calls(runtime.get());
  open_tokenizer(config, runtime, tokenizer);
  open_rows(config, runtime, train, evaluation);
}

Interrupt::Interrupt(const char* last_words) {
  g_signal = 0;
  g_last_words = last_words;
  for (size_t i = 0; i < std::size(kSignals); ++i) install(kSignals[i], g_before[i]);
}

Interrupt::~Interrupt() {
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &g_before[i], nullptr);
  g_stop = nullptr;
  g_polled = false;
}

void Interrupt::watch(trl_trainer* trainer) {
  watch([](void* running) { trl_trainer_cancel(static_cast<trl_trainer*>(running)); }, trainer);
}

void Interrupt::watch(void (*stop)(void*), void* object) {
  g_stop = nullptr;
  g_object = object;
  g_stop = stop;
}

void Interrupt::watch_calls(trl_runtime* runtime) {
  const auto stop = [](void*, const char*, int64_t, int64_t) -> int32_t {
    return g_signal != 0 ? TRL_PROGRESS_STOP : 0;
  };
  Error error;
  check(trl_runtime_set_progress(runtime, stop, nullptr, nullptr, error.out()), error);
  g_polled = true;
}

int Interrupt::signal_number() { return g_signal; }

}  // namespace trl::cli
