// What the preparation of preference, unpaired and prompt-only rows needs, for its tests.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/error.h"
#include "data/prepare/preference.h"
#include "data/source/source.h"
#include "support/warnings.h"

namespace trl::test {

struct PreferenceShop {
  explicit PreferenceShop(std::unique_ptr<text::Tokenizer> with, int threads = 2)
      : tokenizer(std::move(with)), pool(threads) {
    context.tokenizer = tokenizer.get();
    context.arguments = &arguments;
    context.log = &log;
    context.pool = &pool;
    context.memory = &memory;
  }
  static std::shared_ptr<const data::Table> table(std::string jsonl) {
    const auto source = data::open_memory_source("jsonl", std::move(jsonl), "t.jsonl");
    return data::spool_rows(*source, {});
  }
  std::unique_ptr<text::Tokenizer> tokenizer;
  config::DataArguments arguments;
  Warnings log;
  base::ThreadPool pool;
  base::MemoryCounter memory;
  data::PrepareContext context;
};

template <class Body>
std::string message_of(const Body& body, Status status = Status::format) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), status) << error.message();
    return error.message();
  }
  return "no error";
}

}  // namespace trl::test
