// Turns: the order, fairness, and threads that wait no more.
#include "base/threads/turns.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>

namespace trl::base {
namespace {

// A thread that waits for its turn; made when it does.
class Waiting {
 public:
  template <class Then>
  Waiting(
      Turns& turns, Then then, std::function<bool()> goes_on = [] { return true; })
      : thread_([this, &turns, then, goes_on] {
          Turn turn(turns);
          try {
            const bool has = turn.wait([&] {
              asked_ = true;
              return goes_on();
            });
            then(has);
          } catch (const std::runtime_error&) {
            threw_ = true;
          }
        }) {
    while (!asked_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ~Waiting() { thread_.join(); }
  bool threw() const { return threw_; }

 private:
  std::atomic<bool> asked_{false}, threw_{false};
  std::thread thread_;
};

TEST(Turns, ComeInTheOrderOfAsking) {
  Turns turns;
  std::vector<int> order;
  {
    Turn first(turns);
    EXPECT_TRUE(first.wait([] { return true; }));
    EXPECT_FALSE(turns.wanted());
    const auto note = [&](int number) {
      return [&order, number](bool has) {
        EXPECT_TRUE(has);
        order.push_back(number);
      };
    };
    const Waiting second(turns, note(2)), third(turns, note(3)), fourth(turns, note(4));
    EXPECT_TRUE(turns.wanted());
    EXPECT_TRUE(order.empty());
    first.give_way([] { return true; });
    order.push_back(1);
  }
  EXPECT_EQ(order, (std::vector<int>{2, 3, 4, 1}));
}

TEST(Turns, AreLeftToTheNextByThreadsThatWaitNoMore) {
  Turns turns;
  std::atomic<int> had{0}, stopped{0};
  std::atomic<bool> stop{false};
  {
    Turn first(turns);
    EXPECT_TRUE(first.wait([] { return true; }));
    const Waiting stops(
        turns, [&](bool has) { stopped += has ? 0 : 1; }, [&] { return !stop; });
    const Waiting throws(
        turns, [&](bool) { ADD_FAILURE(); },
        [&] {
          if (stop) throw std::runtime_error("no more");
          return true;
        });
    const Waiting last(turns, [&](bool has) { had += has ? 1 : 0; });
    stop = true;
    while (stopped == 0 || !throws.threw()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(had, 0);
    first.give_way([] { return true; });
    EXPECT_EQ(had, 1);
  }
}

// One thread makes steps and gives way between them, two make calls: all of them get on, one at a time.
TEST(Turns, StarveNobody) {
  Turns turns;
  int shared = 0;  // of whoever has the turn
  std::atomic<int> steps{0}, guests{2};
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    Turn turn(turns);
    turn.wait([] { return true; });
    while (guests > 0) {
      ++shared;
      ++steps;
      turn.give_way([] { return true; });
    }
  });
  for (int guest = 0; guest < 2; ++guest) {
    threads.emplace_back([&] {
      while (steps == 0) std::this_thread::yield();
      for (int call = 0; call < 200; ++call) {
        Turn turn(turns);
        turn.wait([] { return true; });
        ++shared;
      }
      --guests;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(shared, steps + 400);
  EXPECT_GE(steps, 200);  // between two calls of a guest there is one
}

}  // namespace
}  // namespace trl::base
