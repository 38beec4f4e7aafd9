// Tensors to a server of this library: only those that differ, and what becomes of a refusal.
#include "run/server/tensors_out.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "base/error.h"
#include "base/files/hash.h"
#include "base/tensor_message.h"
#include "run/server/fake_model.h"
#include "run/server/scripted_server.h"
#include "run/server/shared_memory.h"

namespace trl::test {
namespace {

using Answered = ScriptedServer::Answered;
using Asked = ScriptedServer::Asked;

std::string hash_of_floats(const std::vector<float>& numbers) {
  const std::string_view bytes(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float));
  return fmt::format("{:016x}", base::xxh3_64(bytes));
}

class TensorsOutTest : public testing::Test {
 protected:
  TensorsOutTest() { model_.tensors = {{"a", {{2}, {1, 2}}}, {"b", {{3}, {3, 4, 5}}}}; }

  // What the server has: a as the run, b not, and a tensor in blocks.
  base::Json listed() const {
    return {{"version", 7},
            {"tensors",
             {{{"name", "a"}, {"shape", {2}}, {"dtype", "float32"}, {"hash", hash_of_floats({1, 2})}},
              {{"name", "b"}, {"shape", {3}}, {"dtype", dtype_}, {"hash", "0000000000000000"}},
              {{"name", "q"}, {"shape", {9}}, {"dtype", "bfloat16"}, {"hash", nullptr}}}}};
  }
  Answered answer(const Asked& asked) {
    if (asked.method == "GET") return {200, list_.is_null() ? listed().dump() : list_.dump()};
    return posts_++ < refusals_ ? Answered{refusal_, "no"} : Answered{200, R"({"version": 8})"};
  }
  // Sends the tensors of two steps; returns the message of the error, or an empty text.
  std::string send(int steps = 1) {
    ScriptedServer server([this](const Asked& asked) { return answer(asked); });
    KeptLog log;
    run::Exchange exchange = server.exchange(log);
    std::string message;
    try {
      run::TensorsOut out(model_, exchange, pool_, log, std::make_unique<run::BodyMemory>(exchange),
                          "served");
      for (int64_t step = 0; step < steps; ++step) {
        EXPECT_EQ(out.send(step), "served");
        EXPECT_EQ(out.send(step), "served");
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.key(), run::kServerKey);
      message = error.message();
    }
    asked_ = server.asked;
    return message;
  }

  FakeModel model_;
  base::ThreadPool pool_{2};
  base::Json list_;
  std::string dtype_ = "float32";
  int posts_ = 0, refusals_ = 0;
  int32_t refusal_ = 409;
  std::vector<Asked> asked_;
};

TEST_F(TensorsOutTest, SendsWhatDiffers) {
  EXPECT_EQ(send(), "");
  ASSERT_EQ(asked_.size(), 2u);
  EXPECT_EQ(asked_[1].path, "/trl/weights");
  EXPECT_EQ(asked_[1].headers[1], "Content-Type: application/x-trl-weights");
  namespace form = base::tensor_message;
  const std::string& body = asked_[1].body;
  EXPECT_TRUE(body.starts_with("TRLW"));
  uint64_t size = 0;
  std::memcpy(&size, body.data() + form::kSizeAt, sizeof size);
  const base::Json header = base::parse_json(body.substr(form::kHeaderAt, size), "header");
  EXPECT_EQ(header.at("base_version"), 7);
  EXPECT_EQ(header.at("tensors"),
            base::Json::parse(R"([{"name":"b","dtype":"float32","shape":[3],"bytes":12,"hash":")" +
                              hash_of_floats({3, 4, 5}) + "\"}]"));
  EXPECT_EQ(header.at("unchanged")[0].at("name"), "a");
  const size_t begin = form::aligned(form::kHeaderAt + size);
  EXPECT_EQ(body.size(), begin + form::kAlign);
  EXPECT_EQ(0, std::memcmp(body.data() + begin, model_.tensors.at("b").numbers.data(), 12));
}

// Tensors that differed the last time are written before they are compared, and those that do not differ any
// more are taken out of the message again.
TEST_F(TensorsOutTest, SendsWhatDiffersEachTime) {
  namespace form = base::tensor_message;
  model_.tensors = {{"a", {{2}, {1, 2}}}, {"b", {{3}, {3, 4, 5}}}, {"c", {{1}, {6}}}};
  std::vector<float> of_server_a = {0, 0}, of_server_b = {0, 0, 0}, of_server_c = {0};
  const auto listed = [&] {
    const auto one = [](const char* name, const std::vector<float>& numbers) {
      return base::Json{{"name", name},
                        {"shape", {numbers.size()}},
                        {"dtype", "float32"},
                        {"hash", hash_of_floats(numbers)}};
    };
    return base::Json{{"version", 1},
                      {"tensors", {one("a", of_server_a), one("b", of_server_b), one("c", of_server_c)}}};
  };
  list_ = listed();
  ScriptedServer server([this](const Asked& asked) { return answer(asked); });
  KeptLog log;
  run::Exchange exchange = server.exchange(log);
  run::TensorsOut out(model_, exchange, pool_, log, std::make_unique<run::BodyMemory>(exchange), "served");
  const auto sent = [&] {
    const std::string& body = server.asked.back().body;
    uint64_t size = 0;
    std::memcpy(&size, body.data() + form::kSizeAt, sizeof size);
    const base::Json header = base::parse_json(body.substr(form::kHeaderAt, size), "header");
    std::string names;
    size_t at = form::aligned(form::kHeaderAt + size);
    for (const base::Json& one : header.at("tensors")) {
      const auto name = one.at("name").get<std::string>();
      const std::vector<float>& numbers = model_.tensors.at(name).numbers;
      EXPECT_EQ(one.at("hash"), hash_of_floats(numbers));
      EXPECT_EQ(0, std::memcmp(body.data() + at, numbers.data(), numbers.size() * sizeof(float)));
      at += form::aligned(numbers.size() * sizeof(float));
      names += name;
    }
    EXPECT_EQ(body.size(), at);
    EXPECT_EQ(header.at("tensors").size() + header.at("unchanged").size(), 3u);
    return names;
  };
  out.send(0);
  EXPECT_EQ(sent(), "abc");
  of_server_a = {1, 2};
  list_ = listed();
  out.send(1);
  EXPECT_EQ(sent(), "bc");
  of_server_b = {3, 4, 5};
  of_server_c = {6};
  list_ = listed();
  const size_t before = server.asked.size();
  out.send(2);
  EXPECT_EQ(server.asked.size(), before + 1);  // it has them
  model_.tensors.at("a").numbers = {7, 8};
  out.send(3);
  EXPECT_EQ(sent(), "a");
}

TEST_F(TensorsOutTest, SendsTheTypeThatTheServerHas) {
  for (const auto& [dtype, bytes] : {std::pair{"bfloat16", "\x40\x40\x80\x40\xa0\x40"},
                                     std::pair{"float16", "\x00\x42\x00\x44\x00\x45"}}) {
    dtype_ = dtype;
    EXPECT_EQ(send(), "");
    EXPECT_EQ(asked_.back().body.substr(asked_.back().body.size() - base::tensor_message::kAlign, 6),
              std::string(bytes, 6));
  }
}

TEST_F(TensorsOutTest, SendsNothingIfNothingDiffers) {
  list_ = listed();
  list_["tensors"][1]["hash"] = hash_of_floats({3, 4, 5});
  EXPECT_EQ(send(2), "");
  EXPECT_EQ(asked_.size(), 2u);  // what it has, at each step
}

TEST_F(TensorsOutTest, ComparesAgainAfterAConflict) {
  refusals_ = 2;
  EXPECT_EQ(send(), "");
  EXPECT_EQ(asked_.size(), 6u);
  posts_ = 0;
  refusals_ = 3;
  EXPECT_NE(send().find("another client replaces the weights of this server"), std::string::npos);
  posts_ = 0;
  refusals_ = 2;
  refusal_ = 404;  // another client has asked for shared memory meanwhile
  EXPECT_EQ(send(), "");
}

TEST_F(TensorsOutTest, ARefusalIsTheEnd) {
  refusals_ = 1;
  refusal_ = 400;
  EXPECT_NE(send().find("/trl/weights: Request failed: 400, no"), std::string::npos);
}

TEST_F(TensorsOutTest, AnotherModelIsTold) {
  const auto told = [&](const std::function<void(base::Json&)>& change) {
    list_ = listed();
    change(list_);
    return send();
  };
  EXPECT_NE(told([](base::Json& list) { list["tensors"][1]["name"] = "c"; }).find("the run has no tensor c"),
            std::string::npos);
  EXPECT_NE(told([](base::Json& list) {
              list["tensors"][1]["shape"] = {1, 3};
            }).find("b has the shape [1, 3], and the run's [3]"),
            std::string::npos);
  EXPECT_NE(
      told([](base::Json& list) { list["tensors"].erase(1); }).find("it lacks 1 tensor that the run trains"),
      std::string::npos);
  EXPECT_NE(told([](base::Json& list) {
              list["tensors"][0].erase("hash");
            }).find("the answer is none of this library's"),
            std::string::npos);
}

TEST(SharedMessage, FallsBackToABodyIfTheMemoryCannotBeOpened) {
  ScriptedServer server([](const Asked& asked) -> Answered {
    if (asked.path == "/trl/weights/shared")
      return {200, R"({"token": "0123", "path": "/dev/null", "bytes": 100})"};
    return {200, "{}"};
  });
  KeptLog log;
  run::Exchange exchange = server.exchange(log);
  run::SharedMessage message(exchange, log);
  for (int i = 0; i < 2; ++i) {
    std::memset(message.begin(100), 'x', 100);
    EXPECT_EQ(message.send(100).status, 200);
  }
  ASSERT_EQ(server.asked.size(), 3u);  // it is not tried again
  EXPECT_EQ(server.asked[2].path, "/trl/weights");
  EXPECT_EQ(server.asked[2].body, std::string(100, 'x'));
}

TEST(SharedMessage, IsWrittenIntoTheMemoryOfTheServer) {
  const std::string token = "0123456789abcdef";
  const int memory = ::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(::ftruncate(memory, 100), 0);
  ASSERT_EQ(::fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  ASSERT_EQ(::pwrite(memory, token.data(), token.size(), 0), static_cast<ssize_t>(token.size()));
  ScriptedServer server([&](const Asked& asked) -> Answered {
    const std::string path = "/proc/self/fd/" + std::to_string(memory);
    const base::Json given = {{"token", token}, {"path", path}, {"bytes", 100}};
    return {200, asked.path == "/trl/weights/shared" ? given.dump() : "{}"};
  });
  KeptLog log;
  run::Exchange exchange = server.exchange(log);
  run::SharedMessage message(exchange, log);
  char* const first = message.begin(100);
  for (const size_t bytes : {100u, 80u}) {  // the server gives the same memory again
    char* const place = message.begin(bytes);
    EXPECT_EQ(place, first);
    std::memset(place, static_cast<int>(bytes), bytes);
    EXPECT_EQ(message.send(bytes).status, 200);
    std::string all(bytes, ' ');
    EXPECT_EQ(::pread(memory, all.data(), all.size(), 0), static_cast<ssize_t>(bytes));
    EXPECT_EQ(all, std::string(bytes, static_cast<char>(bytes)));
    EXPECT_EQ(server.asked.back().path, "/trl/weights/commit");
    EXPECT_EQ(server.asked.back().body,
              R"({"token":")" + token + R"(","bytes":)" + std::to_string(bytes) + "}");
  }
  EXPECT_EQ(server.asked.size(), 4u);  // asked for twice, committed twice
  ::close(memory);
}

TEST(SharedMessage, IsForAServerOnThisMachineOfThisUser) {
  run::VllmServer server;
  server.weights = {"http", "shared_memory"};
  server.user = ::geteuid();
  EXPECT_TRUE(run::shares_memory(server, "http://127.0.0.1:8000"));
  EXPECT_TRUE(run::shares_memory(server, "http://localhost:8000/x"));
  EXPECT_TRUE(run::shares_memory(server, "http://[::1]:8000"));
  EXPECT_FALSE(run::shares_memory(server, "http://10.0.0.1:8000"));
  EXPECT_FALSE(run::shares_memory(server, "http://127.example.com"));
  ++server.user;
  EXPECT_FALSE(run::shares_memory(server, "http://127.0.0.1:8000"));
}

}  // namespace
}  // namespace trl::test
