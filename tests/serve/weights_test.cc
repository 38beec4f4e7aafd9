// Tensors that replace those of a model: each part wrong once, and all or nothing.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <future>
#include <thread>

#include "fake_library.h"
#include "running_server.h"
#include "sent_tensors.h"

namespace trl::serve::test {
namespace {

const std::string kType = "Content-Type: application/x-trl-weights\r\n";

class ServedWeights : public testing::Test {
 protected:
  ServedWeights() {
    const std::lock_guard lock(fake().mutex);
    fake().tensors = {{"a", {{2, 2}, "bfloat16", "bfloat16", "aaaaaaaa"}},
                      {"b", {{3}, "float32", "float32", "bbbbbbbbbbbb"}},
                      {"c", {{4}, "float16", "float16", "cccccccc"}},
                      {"q", {{8}, "bfloat16", "nf4", std::string(16, 'q')}},
                      {"a.lora_A.x.weight", {{1}, "float32", "float32", "llll"}}};
    fake().writes = 0;
    fake().fails_from_write = fake().fails_to_write = -1;
    fake().in_use = false;
  }
  ~ServedWeights() override {
    const std::lock_guard lock(fake().mutex);
    fake().tensors.clear();
    fake().in_use = false;
  }

  Response send(const std::string& message) {
    return Client(server_.port()).post("/trl/weights", message, kType);
  }
  Response send(const SentTensors& tensors) { return send(tensors.text()); }
  std::string message_of(const Response& response) {
    return Json::parse(response.body)["error"]["message"].get<std::string>();
  }
  Json list() { return Json::parse(server_.get("/trl/weights").body); }
  static std::string bytes(const char* name) {
    const std::lock_guard lock(fake().mutex);
    return fake().tensors.at(name).bytes;
  }
  static SentTensors both() {
    return SentTensors().add("a", "bfloat16", {2, 2}, "AAAAAAAA").add("b", "float32", {3}, "BBBBBBBBBBBB");
  }

  RunningServer server_;
};

TEST_F(ServedWeights, AreListedWithTheirHashes) {
  const Json all = list();
  EXPECT_EQ(all["version"], 0);
  EXPECT_EQ(all["updating"], false);
  ASSERT_EQ(all["tensors"].size(), 4u);
  EXPECT_EQ(all["tensors"][0],
            Json::parse(R"({"name": "a", "shape": [2, 2], "dtype": "bfloat16", "hash": ")" +
                        hash_of("aaaaaaaa") + "\"}"));
  EXPECT_EQ(all["tensors"][3]["hash"], nullptr);  // in blocks
}

TEST_F(ServedWeights, AreReplacedTogether) {
  SentTensors sent = both();
  sent.header["base_version"] = 0;
  sent.header["unchanged"] = {{{"name", "c"}, {"hash", hash_of("cccccccc")}}};
  const Response response = send(sent);
  ASSERT_EQ(response.status, 200) << response.body;
  const Json answer = Json::parse(response.body);
  EXPECT_EQ(answer["version"], 1);
  EXPECT_EQ(answer["changed"], 2);
  EXPECT_EQ(answer["bytes"], 20);
  EXPECT_EQ(bytes("a"), "AAAAAAAA");
  EXPECT_EQ(bytes("b"), "BBBBBBBBBBBB");
  EXPECT_EQ(list()["tensors"][0]["hash"], hash_of("AAAAAAAA"));
  EXPECT_EQ(server_.describe()["models"][0]["weights_version"], 1);
  const Json info = Json::parse(server_.get("/server_info").body)["libtrl"];
  EXPECT_EQ(info["weights_version"], 1);
  EXPECT_EQ(info["weights"][0], "http");
  // The version that the client knows is an old one, and numbers differ from those that it knows.
  const Response late = send(sent);
  EXPECT_EQ(late.status, 409);
  EXPECT_NE(message_of(late).find("base_version: the weights have the version 1, not 0"), std::string::npos);
  sent.header["base_version"] = 1;
  sent.header["unchanged"][0]["hash"] = hash_of("dddddddd");
  const Response other = send(sent);
  EXPECT_EQ(other.status, 409);
  EXPECT_NE(message_of(other).find(
                "c: the server has other numbers; send it, too; the model keeps its weights, version 1"),
            std::string::npos)
      << message_of(other);
}

// Of more bytes than are read at once, with tensors that several threads check; the next request is behind it
// already.
TEST_F(ServedWeights, MayBeLong) {
  constexpr size_t kBytes = 3 << 20;
  constexpr int64_t kNumbers = kBytes / 2;
  {
    const std::lock_guard lock(fake().mutex);
    for (const char* name : {"long", "longer"})
      fake().tensors[name] = {{kNumbers}, "bfloat16", "bfloat16", std::string(kBytes, 'l')};
  }
  std::string numbers(kBytes, ' ');
  for (size_t i = 0; i < kBytes; ++i) numbers[i] = static_cast<char>(i * 2654435761u >> 13);
  SentTensors sent = both();
  sent.add("long", "bfloat16", {kNumbers}, numbers).add("longer", "bfloat16", {kNumbers}, numbers);
  Client client(server_.port());
  client.send(request("POST", "/trl/weights", sent.text(), kType) + request("GET", "/trl/weights", ""));
  const Response response = client.read(), listed = client.read();
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(Json::parse(response.body)["bytes"], 2 * kBytes + 20);
  EXPECT_TRUE(bytes("longer") == numbers);
  EXPECT_EQ(Json::parse(listed.body)["version"], 1);
  sent.header["tensors"][3]["hash"] = "0123456789abcdef";
  const Response other = send(sent);
  EXPECT_EQ(other.status, 400);
  EXPECT_NE(message_of(other).find("longer: its bytes have the hash "), std::string::npos);
}

TEST_F(ServedWeights, EachPartWrongOnce) {
  struct Case {
    std::function<void(SentTensors&)> spoil;
    const char* message;
  };
  const auto in_first = [](const char* name, const Json& value) {
    return [=](SentTensors& sent) { sent.header["tensors"][0][name] = value; };
  };
  const Case cases[] = {
      {in_first("name", "A"), "A: the model has no such tensor"},
      {in_first("name", "b"), "name: \"b\" is not accepted; give each tensor once"},
      {in_first("name", nullptr), "tensors[0]: name: null is not accepted"},
      {in_first("name", "q"), "q: its shape is [8], not [2, 2]"},
      {in_first("name", "a.lora_A.x.weight"), "a.lora_A.x.weight: the model has no such tensor"},
      {in_first("shape", {4}), "a: its shape is [2, 2], not [4]"},
      {in_first("shape", {2, 3}), "tensors[0] a: bytes: 8 is not accepted; give 12"},
      {in_first("shape", "2"), "tensors[0] a: shape: \"2\" is not accepted"},
      {in_first("shape", {-2, -2}), "tensors[0] a: shape: [-2,-2] is not accepted"},
      {in_first("shape", {uint64_t{1} << 62, uint64_t{1} << 62}), "give one of fewer numbers"},
      {in_first("dtype", "float16"), "a: float16 is not accepted; send bfloat16"},
      {in_first("dtype", "int8"), "tensors[0] a: dtype: \"int8\" is not accepted"},
      {in_first("dtype", 3), "tensors[0] a: dtype: 3 is not accepted"},
      {in_first("bytes", 9), "tensors[0] a: bytes: 9 is not accepted; give 8"},
      {in_first("hash", "0123"), "tensors[0] a: hash: \"0123\" is not accepted"},
      {in_first("hash", "0123456789abcdef"), "a: its bytes have the hash "},
      {[](SentTensors& sent) { sent.header["tensors"][1] = 7; },
       "tensors[1]: 7 is not accepted; give an object"},
      {[](SentTensors& sent) { sent.header["tensors"] = "all"; }, "tensors: "},
      {[](SentTensors& sent) { sent.header["step"] = -1; }, "step: -1 is not accepted"},
      {[](SentTensors& sent) { sent.header["base_version"] = "x"; }, "base_version: \"x\" is not accepted"},
      {[](SentTensors& sent) {
         sent.header["unchanged"] = {{{"name", "z"}, {"hash", hash_of("")}}};
       },
       "z: the model has no such tensor"},
      {[](SentTensors& sent) { sent.bytes[1] += std::string(64, 'x'); }, "and its tensors end after"},
      {[](SentTensors& sent) { sent.bytes.pop_back(); }, "within b"}};
  for (const Case& one : cases) {
    SentTensors sent = both();
    one.spoil(sent);
    const Response response = send(sent);
    EXPECT_EQ(response.status, 400) << one.message;
    EXPECT_NE(message_of(response).find(one.message), std::string::npos) << message_of(response);
    EXPECT_NE(message_of(response).find("; the model keeps its weights, version 0"), std::string::npos);
  }
  SentTensors blocks;
  blocks.add("q", "bfloat16", {8}, std::string(16, 'Q'));
  EXPECT_NE(message_of(send(blocks)).find("q: it is held as nf4"), std::string::npos);
  EXPECT_EQ(fake().writes, 0);
  EXPECT_EQ(bytes("a"), "aaaaaaaa");
  EXPECT_EQ(Client(server_.port()).post("/trl/weights", "{}").status, 415);
  EXPECT_EQ(send(both()).status, 200);
}

TEST_F(ServedWeights, ATornMessageIsRefused) {
  const std::string whole = both().text();
  for (size_t size = 0; size < whole.size(); size += 3) {
    if (size == 0) continue;
    const Response response = send(whole.substr(0, size));
    EXPECT_EQ(response.status, 400) << size;
  }
  std::string other = whole;
  other[0] = 'X';
  EXPECT_EQ(send(other).status, 400);
  other = whole;
  other[4] = 2;
  EXPECT_NE(message_of(send(other)).find("its version is 2; send version 1"), std::string::npos);
  other = whole;
  other[15] = 1;
  EXPECT_NE(message_of(send(other)).find("its header has "), std::string::npos);
  EXPECT_EQ(fake().writes, 0);
}

TEST_F(ServedWeights, AWriteThatFailsLeavesTheOldOnes) {
  for (int failing = 0; failing < 2; ++failing) {
    {
      const std::lock_guard lock(fake().mutex);
      fake().writes = 0;
      fake().fails_from_write = failing;
      fake().fails_to_write = failing + 1;
    }
    const Response response = send(both());
    EXPECT_EQ(response.status, 500);
    EXPECT_NE(message_of(response).find(": the write failed; the model keeps its weights, version 0"),
              std::string::npos)
        << message_of(response);
    EXPECT_EQ(bytes("a"), "aaaaaaaa");
    EXPECT_EQ(bytes("b"), "bbbbbbbbbbbb");
    EXPECT_EQ(server_.post("/v1/completions", R"({"prompt": "Hi"})").status, 200);
  }
  EXPECT_NE(
      server_.get("/metrics").body.find("trl_weight_updates_total{model_name=\"tiny\",result=\"refused\"} 2"),
      std::string::npos);
  const std::lock_guard lock(fake().mutex);
  fake().fails_from_write = fake().fails_to_write = -1;
}

// Nothing is generated with weights of which some are new, until all have been sent.
TEST_F(ServedWeights, IncompleteOnesAreNotUsed) {
  {
    const std::lock_guard lock(fake().mutex);
    fake().fails_from_write = 1;
    fake().fails_to_write = 3;
  }
  const Response response = send(both());
  EXPECT_EQ(response.status, 500);
  EXPECT_NE(message_of(response).find("the weights are incomplete: send all of them again"),
            std::string::npos);
  const Response refused = server_.post("/v1/completions", R"({"prompt": "Hi"})");
  EXPECT_EQ(refused.status, 503);
  EXPECT_NE(refused.body.find("the weights are incomplete"), std::string::npos);
  EXPECT_EQ(server_.post("/wake_up", "").status, 200);
  EXPECT_EQ(server_.post("/v1/completions", R"({"prompt": "Hi"})").status, 503);
  EXPECT_EQ(list()["version"], 1);
  EXPECT_EQ(list()["tensors"][0]["hash"], hash_of("AAAAAAAA"));
  EXPECT_NE(message_of(send(both()))
                .find("c is missing: send it, or name it in unchanged; the weights are "
                      "incomplete"),
            std::string::npos);
  SentTensors all = both();
  all.header["unchanged"] = {{{"name", "c"}, {"hash", hash_of("cccccccc")}}};
  EXPECT_EQ(send(all).status, 200);
  EXPECT_EQ(server_.post("/v1/completions", R"({"prompt": "Hi"})").status, 200);
}

TEST_F(ServedWeights, OneUpdateAtATime) {
  const std::string message = both().text();
  Client slow(server_.port());
  const std::string head = request("POST", "/trl/weights", message, kType);
  slow.send(head.substr(0, head.size() - 8));
  for (int i = 0; i < 200 && !list()["updating"].get<bool>(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const Response second = send(message);
  EXPECT_EQ(second.status, 409);
  EXPECT_NE(message_of(second).find("another client is replacing the weights"), std::string::npos);
  slow.send(head.substr(head.size() - 8));
  EXPECT_EQ(slow.read().status, 200);
  EXPECT_EQ(send(message).status, 200);
  {  // one that goes in the middle gives its place back
    Client gone(server_.port());
    gone.send(head.substr(0, head.size() - 8));
    for (int i = 0; i < 200 && !list()["updating"].get<bool>(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    gone.reset();
  }
  Response after;
  for (int i = 0; i < 200 && after.status != 200; ++i) after = send(message);
  EXPECT_EQ(after.status, 200);
}

TEST_F(ServedWeights, WaitForACallOfTheHost) {
  {
    const std::lock_guard lock(fake().mutex);
    fake().in_use = true;
  }
  auto response = std::async(std::launch::async, [&] { return send(both()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(fake().writes, 0);
  {
    const std::lock_guard lock(fake().mutex);
    fake().in_use = false;
  }
  EXPECT_EQ(response.get().status, 200);
}

TEST_F(ServedWeights, TooLongAMessageIsRefusedBeforeItCame) {
  Client client(server_.port());
  client.send("POST /trl/weights HTTP/1.1\r\nHost: localhost\r\n" + kType +
              "Content-Length: 99999999999\r\n\r\n");
  EXPECT_EQ(client.read().status, 413);
}

// A message in memory that the server shares.
class SharedWeights : public ServedWeights {
 protected:
  Response ask(size_t size) { return server_.post("/trl/weights/shared", Json{{"bytes", size}}.dump()); }
  // Writes a message into the memory; returns the token.
  std::string write(const std::string& message) {
    const Json given = Json::parse(ask(message.size()).body);
    const std::string token = given["token"];
    const int fd = ::open(given["path"].get<std::string>().c_str(), O_RDWR | O_CLOEXEC);
    EXPECT_GE(fd, 0);
    std::string begin(token.size(), '\0');
    EXPECT_EQ(::pread(fd, begin.data(), begin.size(), 0), static_cast<ssize_t>(begin.size()));
    EXPECT_EQ(begin, token);
    EXPECT_NE(::ftruncate(fd, 0), 0);  // sealed
    EXPECT_EQ(::pwrite(fd, message.data(), message.size(), 0), static_cast<ssize_t>(message.size()));
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
    return token;
  }
  Response commit(const std::string& token, Json fields = Json::object()) {
    fields["token"] = token;
    return server_.post("/trl/weights/commit", fields.dump());
  }
  ~SharedWeights() override {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd_ = -1;
};

TEST_F(SharedWeights, AreTakenWithoutACopyOverTheConnection) {
  const std::string token = write(both().text());
  EXPECT_EQ(bytes("a"), "aaaaaaaa");
  const Response response = commit(token);
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(Json::parse(response.body)["version"], 1);
  EXPECT_EQ(bytes("a"), "AAAAAAAA");
  EXPECT_EQ(commit(token).status, 404);
  EXPECT_EQ(Json::parse(server_.get("/server_info").body)["libtrl"]["weights"][1], "shared_memory");
}

TEST_F(SharedWeights, AreCheckedAsOthersAre) {
  SentTensors sent = both();
  sent.header["tensors"][0]["hash"] = "0123456789abcdef";
  EXPECT_EQ(commit(write(sent.text())).status, 400);
  EXPECT_EQ(bytes("a"), "aaaaaaaa");
  EXPECT_EQ(commit("none").status, 404);
  EXPECT_EQ(server_.post("/trl/weights/commit", "{}").status, 400);
  EXPECT_EQ(ask(1).status, 400);
  EXPECT_EQ(ask(size_t{1} << 40).status, 400);
  EXPECT_EQ(server_.post("/trl/weights/shared", "{}").status, 400);
}

// The same memory serves one message after the other; a client that asks meanwhile gets another.
TEST_F(SharedWeights, StaysForTheNextMessage) {
  const std::string first = both().text();
  const std::string token = write(first);
  EXPECT_EQ(commit(token).status, 200);
  SentTensors one;
  one.add("b", "float32", {3}, "cccccccccccc");
  const std::string second = one.text();
  ASSERT_LT(second.size(), first.size());
  EXPECT_EQ(write(second), token);
  EXPECT_EQ(commit(token, {{"bytes", first.size() + 1}}).status, 400);
  EXPECT_EQ(write(second), token);
  EXPECT_EQ(commit(token).status, 400);  // what follows belongs to the message before
  EXPECT_EQ(write(second), token);
  EXPECT_EQ(commit(token, {{"bytes", second.size()}}).status, 200);
  EXPECT_EQ(bytes("b"), "cccccccccccc");
  EXPECT_EQ(write(second), token);
  const std::string other = write(second);  // another client
  EXPECT_NE(other, token);
  EXPECT_EQ(commit(token).status, 404);
  EXPECT_EQ(commit(other).status, 200);
  EXPECT_NE(write(first), other);  // it is larger
}

// What a client still writes to its memory changes no numbers of the model.
TEST_F(SharedWeights, AreCopied) {
  const std::string message = both().text(), token = write(message);
  void* const mapped = ::mmap(nullptr, message.size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_EQ(commit(token).status, 200);
  std::memset(mapped, 'z', message.size());
  ::munmap(mapped, message.size());
  EXPECT_EQ(bytes("a"), "AAAAAAAA");
  EXPECT_EQ(bytes("b"), "BBBBBBBBBBBB");
}

TEST_F(SharedWeights, GiveTheirMemoryBackWhenTheModelSleeps) {
  const std::string message = both().text(), token = write(message);
  EXPECT_EQ(commit(token).status, 200);
  EXPECT_EQ(server_.post("/sleep", "").status, 200);
  EXPECT_NE(write(message), token);
  EXPECT_EQ(server_.post("/wake_up", "").status, 200);
  EXPECT_EQ(send(both()).status, 200);
}

TEST_F(ServedWeights, WithoutNcclGroupsAreRefused) {
  for (const char* path :
       {"/init_weight_transfer_engine", "/start_weight_update", "/update_weights", "/finish_weight_update",
        "/init_communicator/", "/update_named_param/", "/close_communicator/"}) {
    const Response response = server_.post(path, "{}");
    EXPECT_EQ(response.status, 501) << path;
    EXPECT_NE(response.body.find("/v1/load_lora_adapter"), std::string::npos);
    EXPECT_NE(response.body.find("/trl/weights"), std::string::npos);
  }
}

}  // namespace
}  // namespace trl::serve::test
