// A library in place of libtrl.so: the functions of trl.h that the server calls, with a model whose tokens
// are bytes and which writes "abcdefgh..." after each prompt.
#pragma once
#include <atomic>
#include <map>
#include <mutex>
#include <string>

namespace trl::serve::test {

struct FakeLibrary {
  std::atomic<int> steps{0}, added{0}, cancelled{0}, open_completions{0};
  std::atomic<int> step_milliseconds{0};  // how long a step takes
  std::atomic<int> fails_at_step{-1};     // a step that fails with an internal error
  std::atomic<int> released{0};           // calls that give memory back
  // Completions with an adapter repeat the first letter of its directory's name.
  struct Adapter {
    std::string path;
    int users = 0;
  };
  std::mutex mutex;
  std::map<std::string, Adapter> adapters;  // by name in the model
  size_t adapter_count() {
    const std::lock_guard lock(mutex);
    return adapters.size();
  }
};
FakeLibrary& fake();  // reset by each test

}  // namespace trl::serve::test
