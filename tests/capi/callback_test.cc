// What a callback of the host throws, and in which state it finds and leaves its thread.
#include <pthread.h>

#include <cerrno>
#include <cfenv>
#include <stdexcept>
#include <thread>

#include "host.h"
#include "support/arrow_stream.h"

namespace {

using host::Error;

[[noreturn]] void throw_text() { throw std::runtime_error("the host's own words,\nin two lines\xff"); }

struct Thrower {
  bool in_next = false, in_rewind = false, in_destroy = false, a_number = false;
  int rows = 2, at = 0, destroyed = 0;

  void fail() const {
    if (a_number) throw 42;
    throw_text();
  }
  static int32_t next(void* data, trl_record* record) {
    auto* self = static_cast<Thrower*>(data);
    pthread_testcancel();
    if (self->in_next && self->at == 1) self->fail();
    if (self->at++ == self->rows) return TRL_END;
    return trl_record_set_text(record, "text", "a", 1, nullptr);
  }
  static int32_t rewind(void* data) {
    auto* self = static_cast<Thrower*>(data);
    if (self->in_rewind) self->fail();
    self->at = 0;
    return 0;
  }
  static void destroy(void* data) {
    auto* self = static_cast<Thrower*>(data);
    ++self->destroyed;
    if (self->in_destroy) self->fail();
  }
};

trl_dataset* from(Thrower& thrower, trl_runtime* runtime = nullptr) {
  trl_dataset* made = nullptr;
  EXPECT_EQ(trl_dataset_from_callback(runtime, Thrower::next, Thrower::rewind, &thrower, Thrower::destroy,
                                      nullptr, &made, nullptr),
            TRL_OK);
  return made;
}

TEST(CallbackThrows, RowsFailWithItsWords) {
  for (const bool rewind : {false, true}) {
    Thrower thrower;
    const host::Dataset rows(from(thrower));
    (rewind ? thrower.in_rewind : thrower.in_next) = true;
    int64_t count = 7;
    Error error;
    EXPECT_EQ(trl_dataset_get_row_count(rows.get(), &count, error), TRL_E_CALLBACK);
    EXPECT_EQ(error.message(), std::string("the host's ") + (rewind ? "rewind" : "next") +
                                   " callback threw: the host's own words, in two lines\xEF\xBF\xBD");
    EXPECT_EQ(count, 0);
    thrower.a_number = true;
    EXPECT_EQ(trl_dataset_get_row_count(rows.get(), &count, error), TRL_E_CALLBACK);
    EXPECT_TRUE(error.names("threw something that is not a std::exception")) << error.message();
    thrower.in_next = thrower.in_rewind = false;
    EXPECT_EQ(trl_dataset_get_row_count(rows.get(), &count, error), TRL_OK) << error.message();
    EXPECT_EQ(count, 2);
  }
}

struct ThrowingLog {
  std::vector<std::string> lines;
  bool throws = false;
  static void write(void* data, int32_t, const char*, const char* text, size_t) {
    auto* self = static_cast<ThrowingLog*>(data);
    self->lines.push_back(text);
    if (self->throws) throw_text();
  }
};

TEST(CallbackThrows, TheLogEndsTheCallAndLeavesNoHandle) {
  const host::Scratch scratch;
  host::write_file(scratch / "rows.jsonl", "{\"text\": \"a\"}\n");
  ThrowingLog log;
  log.throws = true;
  const auto runtime = host::runtime();
  ASSERT_EQ(trl_runtime_set_log(runtime.get(), ThrowingLog::write, &log, nullptr, nullptr), TRL_OK);
  const auto options = host::config({{"dataset_config", "de"}});  // of which the log warns
  trl_dataset* rows = nullptr;
  Error error;
  const trl_status status =
      trl_dataset_open(runtime.get(), (scratch / "rows.jsonl").c_str(), options.get(), &rows, error);
  EXPECT_EQ(log.lines.size(), 1u);
  EXPECT_EQ(status, TRL_E_CALLBACK);
  EXPECT_TRUE(error.names("the host's log callback threw: the host's own words")) << error.message();
  EXPECT_EQ(rows, nullptr);
}

TEST(CallbackThrows, DestroyIsToldToTheLog) {
  ThrowingLog log;
  const auto runtime = host::runtime();
  ASSERT_EQ(trl_runtime_set_log(runtime.get(), ThrowingLog::write, &log, nullptr, nullptr), TRL_OK);
  Thrower thrower;
  thrower.in_destroy = true;
  trl_dataset_destroy(from(thrower, runtime.get()));
  EXPECT_EQ(thrower.destroyed, 1);
  ASSERT_EQ(log.lines.size(), 1u);
  EXPECT_NE(log.lines[0].find("destroy callback threw: the host's own words"), std::string::npos);

  Error error;  // where a call can say so, it does
  EXPECT_EQ(trl_runtime_set_log(runtime.get(), nullptr, &thrower, Thrower::destroy, error), TRL_E_CALLBACK);
  EXPECT_EQ(thrower.destroyed, 2);
  EXPECT_TRUE(error.names("destroy callback threw")) << error.message();
  trl_dataset* none = nullptr;
  EXPECT_EQ(
      trl_dataset_from_callback(nullptr, nullptr, nullptr, &thrower, Thrower::destroy, nullptr, &none, error),
      TRL_E_CALLBACK);
  EXPECT_EQ(thrower.destroyed, 3);
  int64_t count = 0;  // and it is told once
  EXPECT_EQ(trl_dataset_get_row_count(host::rows("{\"text\": \"a\"}\n").get(), &count, error), TRL_OK);
}

TEST(CallbackThrows, AnArrowStream) {
  trl::test::ArrowStream stream({trl::test::arrow_batch({trl::test::arrow_text("text", {"a"})})});
  static int (*get_next)(ArrowArrayStream*, ArrowArray*);
  static int calls;
  get_next = stream.stream()->get_next;
  calls = 0;
  stream.stream()->get_next = [](ArrowArrayStream* self, ArrowArray* out) -> int {
    if (calls++ == 1) throw_text();
    return get_next(self, out);
  };
  trl_dataset* made = nullptr;
  Error error;
  ASSERT_EQ(trl_dataset_from_arrow(nullptr, stream.stream(), nullptr, &made, error), TRL_OK)
      << error.message();
  const host::Dataset rows(made);
  int64_t count = 0;
  EXPECT_EQ(trl_dataset_get_row_count(rows.get(), &count, error), TRL_E_CALLBACK);
  EXPECT_TRUE(error.names("get_next callback threw: the host's own words")) << error.message();
  EXPECT_EQ(stream.batches_released, 1);
  EXPECT_EQ(stream.streams_released, 1);
}

// The host rounds up: its callbacks do too, and the numbers of the library are the same.
TEST(HostThread, ItsRoundingStaysItsOwn) {
  struct Rows {
    int at = 0, rounding = -1;
    static int32_t next(void* data, trl_record* record) {
      auto* self = static_cast<Rows*>(data);
      self->rounding = std::fegetround();
      if (self->at++ == 1) return TRL_END;
      return trl_record_set_text(record, "text", "a", 1, nullptr);
    }
    static int32_t rewind(void* data) {
      static_cast<Rows*>(data)->at = 0;
      return 0;
    }
  } rows;
  trl_dataset* made = nullptr;
  ASSERT_EQ(
      trl_dataset_from_callback(nullptr, Rows::next, Rows::rewind, &rows, nullptr, nullptr, &made, nullptr),
      TRL_OK);
  const host::Dataset dataset(made);
  int64_t count = 0;
  std::fesetround(FE_UPWARD);
  std::feclearexcept(FE_ALL_EXCEPT);
  const trl_status status = trl_dataset_get_row_count(dataset.get(), &count, nullptr);
  // Printing a double does sums of its own.
  const auto config =
      host::config({{"learning_rate", "0.1"}, {"lr_scheduler_kwargs", "{\"num_cycles\": 0.3}"}});
  const char* value = nullptr;
  const trl_status read = trl_config_get(config.get(), "learning_rate", &value, nullptr);
  const int rounding = std::fegetround(), flags = std::fetestexcept(FE_ALL_EXCEPT);
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(status, TRL_OK);
  EXPECT_EQ(rows.rounding, FE_UPWARD);
  EXPECT_EQ(rounding, FE_UPWARD);
  EXPECT_EQ(flags, 0);
  EXPECT_EQ(read, TRL_OK);
  EXPECT_STREQ(value, "0.1");
}

bool came_back = false;

// AddressSanitizer does not see that the end of a thread takes its frames away, and would call the next user
// of that stack wrong: so it does not watch this one.
__attribute__((no_sanitize_address)) void* call_cancelled(void* data) {
  auto* of = static_cast<std::pair<trl_dataset*, trl_status>*>(data);
  int64_t count = 0;
  pthread_cancel(pthread_self());
  of->second = trl_dataset_get_row_count(of->first, &count, nullptr);
  came_back = count == 2;
  pthread_testcancel();
  return nullptr;
}

// pthread_cancel waits for the end of the call, in a callback too.
TEST(HostThread, ACancelledThreadEndsAfterTheCall) {
  came_back = false;
  Thrower rows;
  const host::Dataset dataset(from(rows));
  std::pair<trl_dataset*, trl_status> work{dataset.get(), TRL_E_INTERNAL};
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, nullptr, call_cancelled, &work), 0);
  void* result = nullptr;
  ASSERT_EQ(pthread_join(thread, &result), 0);
  EXPECT_EQ(result, PTHREAD_CANCELED);
  EXPECT_EQ(work.second, TRL_OK);
  EXPECT_TRUE(came_back);
}

}  // namespace
