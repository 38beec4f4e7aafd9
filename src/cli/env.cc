// trl env: prints the facts for a bug report.
#include <sys/utsname.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/handles.h"
#include "cli/terminal.h"

namespace trl::cli {

int env(const Words& words) {
  refuse_flags("env", words);
  if (!words.empty()) throw Failure(kUsage, "usage: trl env");
  utsname system{};
  uname(&system);
  Runtime runtime;
  Error error;
  nlohmann::ordered_json report = nlohmann::ordered_json::parse(trl_build_info());
  report["system"] = std::string(system.sysname) + " " + system.release + " " + system.machine;
  report["memory_bytes"] = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  check(trl_runtime_create(nullptr, runtime.out(), error.out()), error);
  const char* json = nullptr;
  if (trl_runtime_describe(runtime.get(), &json, error.out()) == TRL_OK)
    report["runtime"] = nlohmann::ordered_json::parse(json);
  else
    report["runtime"] = {{"error", trl_error_message(error.get())}};
  print(report.dump(2) + "\n");
  return 0;
}

}  // namespace trl::cli
