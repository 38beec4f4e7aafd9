// A library in place of libtrl.so: the functions of trl.h that the server calls, with a model whose tokens
// are bytes and which writes "abcdefgh..." after each prompt.
#pragma once
#include <atomic>

namespace trl::serve::test {

struct FakeLibrary {
  std::atomic<int> steps{0}, added{0}, cancelled{0}, open_completions{0};
  std::atomic<int> step_milliseconds{0};  // how long a step takes
  std::atomic<int> fails_at_step{-1};     // a step that fails with an internal error
};
FakeLibrary& fake();  // reset by each test

}  // namespace trl::serve::test
