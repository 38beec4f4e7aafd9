// The module itself, with a server of this process.
#include <gtest/gtest.h>
#include <httplib.h>

#include <string>
#include <thread>

#include "base/files/module_path.h"
#include "http/module.h"

namespace trl::http {
namespace {

struct Got {
  std::string body, why;
  static void put(void* to, const char* bytes, size_t size) {
    static_cast<Got*>(to)->body.append(bytes, size);
  }
  static bool goes_on(void*) { return true; }
  static void fail(void* to, const char* text, size_t size) { static_cast<Got*>(to)->why.assign(text, size); }
};

TEST(Module, TakesAnswersUpToTheSizeThatIsWanted) {
  const Module& module = base::open_module<Module>(TRL_HTTP_MODULE, kEntryName, kModuleVersion);
  httplib::Server server;
  server.Get("/x", [](const httplib::Request&, httplib::Response& reply) {
    reply.set_content(std::string(100'000, 'x'), "text/plain");
  });
  const int port = server.bind_to_any_port("127.0.0.1");
  std::thread thread([&] { server.listen_after_bind(); });
  while (!server.is_running()) std::this_thread::yield();
  const std::string url = "http://127.0.0.1:" + std::to_string(port) + "/x";
  const auto ask = [&](size_t most, Got& got) {
    const Request request{"GET", url.c_str(), nullptr, 0, nullptr, 0, 1000, most};
    const Reply reply{&got, Got::put, Got::goes_on, Got::fail};
    int32_t status = 0;
    return module.exchange(&request, &reply, &status);
  };
  Got whole, cut;
  EXPECT_EQ(ask(100'000, whole), Outcome::answered) << whole.why;
  EXPECT_EQ(whole.body.size(), 100'000u);
  EXPECT_EQ(ask(99'999, cut), Outcome::too_large);
  EXPECT_LT(cut.body.size(), 100'000u);
  EXPECT_EQ(cut.why, "the answer has more than 99999 bytes");
  server.stop();
  thread.join();
}

}  // namespace
}  // namespace trl::http
