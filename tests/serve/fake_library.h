// A library in place of libtrl.so: the functions of trl.h that the server calls, with a model whose tokens
// are bytes and which writes "abcdefgh..." after each prompt. Its end token is 0, which is "<|im_end|>" as a
// text.
#pragma once
#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace trl::serve::test {

struct FakeLibrary {
  std::atomic<int> steps{0}, added{0}, cancelled{0}, open_completions{0};
  std::atomic<int> most_open{0};          // completions at once
  std::atomic<int> step_milliseconds{0};  // how long a step takes
  std::atomic<int> fails_at_step{-1};     // a step that fails with an internal error
  std::atomic<int> positions{200};        // of a server's model
  // Set while no server runs.
  std::string answer;            // what the model writes, and then its end token; empty: letters
  std::string chat_template;     // of the tokenizer; conversations are written in a form of its own
  std::atomic<int> released{0};  // calls that give memory back
  std::atomic<bool> runtime_cancelled{false};
  // Completions with an adapter repeat the first letter of its directory's name.
  struct Adapter {
    std::string path;
    int users = 0;
  };
  struct Tensor {
    std::vector<int64_t> shape;
    std::string dtype, stored, bytes;
  };
  std::mutex mutex;
  // Forms of texts, by key and value: one with "slow" is compiled until the call is told to end, or this
  // ends.
  std::atomic<bool> slow_forms{false};
  std::atomic<int> compiled{0}, compiling{0}, held_forms{0};
  std::atomic<int> compiled_late{0};               // by the call that adds a prompt
  std::atomic<int64_t> trained_version{-1};        // that completions begin with
  std::map<std::string, int> forms;                // that are held, and how often
  std::map<std::string, Adapter> adapters;         // by name in the model
  std::map<std::string, Tensor> tensors;           // of all models
  int writes = 0;                                  // of tensors
  int fails_from_write = -1, fails_to_write = -1;  // writes that fail
  bool in_use = false;                             // by a call of the host
  std::vector<std::string> lines;                  // of the log
  std::map<std::string, std::string> options;      // of the last request
  std::string conversation;                        // that the template got last
  size_t adapter_count() {
    const std::lock_guard lock(mutex);
    return adapters.size();
  }
};
FakeLibrary& fake();  // reset by each test

}  // namespace trl::serve::test
