// Parameters: readings and their copies, uses and the event that a gradient is complete.
#include "tensor/parameter/parameter.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tensor/counting_host.h"
#include "tensor/memory/counted.h"
#include "tensor/parameter/use.h"

namespace trl::tensor {
namespace {

int conversions = 0;

void convert(const at::Tensor& from, const at::Tensor& to) {
  ++conversions;
  at::Tensor out = to;
  out.copy_(from);
}

struct Fixture : testing::Test {
  Fixture() { set_host(&host); }
  ~Fixture() override { set_host(nullptr); }

  Parameter parameter(int64_t count = 1000) {
    const at::Tensor values = empty({count}, at::kFloat, MemoryKind::weights);
    values.fill_(1.0f);
    return Parameter("w", values);
  }
  int64_t now(MemoryKind kind) const { return host.counter.now(kind); }

  test::CountingHost host;
};

struct Readings : Fixture {};
struct Uses : Fixture {};

Status status_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.status();
  }
  return Status::ok;
}

TEST_F(Readings, ConvertEachTimeAndLeaveNothingBehind) {
  Parameter w = parameter();
  const int64_t before = host.counter.now();
  conversions = 0;
  for (int i = 0; i < 3; ++i) {
    const Reading reading = w.read(at::kBFloat16, &convert);
    EXPECT_EQ(reading->scalar_type(), at::kBFloat16);
    EXPECT_GT(now(MemoryKind::workspace), 0);
  }
  EXPECT_EQ(conversions, 3);
  EXPECT_EQ(host.counter.now(), before);
  EXPECT_TRUE(w.read(at::kFloat, &convert)->is_same(*w.read()));
  EXPECT_TRUE(w.read_either(at::kBFloat16, &convert)->is_same(*w.read()));
  EXPECT_EQ(conversions, 3);
}

TEST_F(Readings, KeepOneCopyUntilTheValuesChange) {
  Parameter w = parameter();
  const int64_t before = now(MemoryKind::weights);
  w.keep_copies(true);
  conversions = 0;
  const auto first = [&] { return (*w.read(at::kBFloat16, &convert))[0].item<float>(); };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(first(), 1.0f);
  EXPECT_EQ((*w.read_either(at::kBFloat16, &convert))[999].item<float>(), 1.0f);
  EXPECT_EQ(conversions, 1);
  const int64_t copy = now(MemoryKind::weights) - before;
  EXPECT_GE(copy, 2 * 1000);
  EXPECT_LT(copy, 2 * 1000 + 64);
  {
    const Writing writing = w.write();
    writing->fill_(2.0f);
  }
  EXPECT_EQ(first(), 2.0f);
  w.write()->fill_(3.0f);
  EXPECT_EQ(first(), 3.0f);
  EXPECT_EQ(first(), 3.0f);
  EXPECT_EQ(conversions, 3);
  EXPECT_EQ(now(MemoryKind::weights) - before, copy);
  w.keep_copies(false);
  EXPECT_EQ(now(MemoryKind::weights), before);
}

// A writing that was open while a reading was made: the copy may hold half of each.
TEST_F(Readings, ACopyMadeDuringAWritingIsOutOfDateAfterIt) {
  Parameter w = parameter();
  w.keep_copies(true);
  const auto first = [&] { return (*w.read(at::kBFloat16, &convert))[0].item<float>(); };
  std::vector<Writing> open;
  open.push_back(w.write());
  EXPECT_EQ(first(), 1.0f);
  open.front()->fill_(2.0f);
  open.clear();
  EXPECT_EQ(first(), 2.0f);
}

TEST_F(Readings, AConversionThatFailsIsMadeAgain) {
  Parameter w = parameter();
  w.keep_copies(true);
  const auto failing = [](const at::Tensor&, const at::Tensor&) { fail(Status::cancelled, "stopped"); };
  EXPECT_EQ(status_of([&] { w.read(at::kBFloat16, failing); }), Status::cancelled);
  EXPECT_EQ((*w.read(at::kBFloat16, &convert))[0].item<float>(), 1.0f);
}

TEST_F(Readings, FollowOtherValuesInTheirPlace) {
  Parameter w = parameter();
  w.keep_copies(true);
  w.read(at::kBFloat16, &convert);
  w.replace(at::full({7, 3}, 5.0f));
  EXPECT_EQ(w.shape().vec(), (std::vector<int64_t>{7, 3}));
  EXPECT_EQ(w.read(at::kBFloat16, &convert)->sum().item<float>(), 105.0f);
}

TEST_F(Readings, BelongToOneTrainerAtATime) {
  Parameter w = parameter(), frozen = parameter();
  w.begin_training(at::zeros({1000}));
  frozen.begin_training({});
  EXPECT_TRUE(w.has_gradient());
  EXPECT_FALSE(frozen.has_gradient());
  EXPECT_THROW(frozen.gradient(), Error);
  for (Parameter* p : {&w, &frozen}) {
    EXPECT_EQ(status_of([&] { p->begin_training(at::zeros({1000})); }), Status::busy);
    EXPECT_EQ(status_of([&] { p->replace(at::zeros({2})); }), Status::busy);
    p->keep_copies(true);
    p->read(at::kBFloat16, &convert);
    const int64_t with_copy = now(MemoryKind::weights);
    p->end_training();
    EXPECT_LT(now(MemoryKind::weights), with_copy);
    EXPECT_FALSE(p->has_gradient());
    EXPECT_NO_THROW(p->begin_training({}));
  }
}

struct Watched {
  explicit Watched(Parameter own) : parameter(std::move(own)) {
    parameter.begin_training(at::zeros({1000}));
    parameter.on_complete([this] { sums.push_back(parameter.gradient()[0].item<float>()); });
  }
  Parameter parameter;
  std::vector<float> sums;  // at each event
};

void add_one(const Use& use) {
  use.add([](at::Tensor& gradient) { gradient.add_(1.0f); });
}

TEST_F(Uses, TheLastToEndSaysThatTheGradientIsComplete) {
  Watched w(parameter());
  for (int pass = 1; pass <= 2; ++pass) {
    Use first(w.parameter), second(w.parameter), third(w.parameter);
    add_one(second);
    second.end();
    second.end();
    add_one(first);
    first.end();
    EXPECT_EQ(w.sums.size(), static_cast<size_t>(pass - 1));
    add_one(third);
    third.end();
    third.end();
    EXPECT_EQ(w.sums.size(), static_cast<size_t>(pass));
  }
  EXPECT_EQ(w.sums, (std::vector<float>{3.0f, 6.0f}));
}

TEST_F(Uses, TakeMemoryFromTheFirstAdditionUntilTheGradientIsDropped) {
  Parameter w = parameter();
  w.begin_training_in(at::kFloat);
  const auto bytes = [&] { return now(MemoryKind::gradients); };
  Use use(w);
  EXPECT_EQ(bytes(), 0);
  add_one(use);
  EXPECT_FALSE(w.gradient_is_whole());
  EXPECT_GE(bytes(), 4000);
  use.end();
  EXPECT_EQ(w.gradient()[0].item<float>(), 1.0f);
  w.end_gradient();
  EXPECT_TRUE(w.gradient_is_whole());
  w.drop_gradient();
  EXPECT_FALSE(w.gradient_is_whole());
  EXPECT_EQ(bytes(), 0);
  EXPECT_EQ(w.gradient()[999].item<float>(), 0.0f);  // nothing was added since
}

TEST(Fixing, LeavesOtherReasons) {
  Parameter w("w", at::zeros({2})), other("other", at::zeros({2}));
  other.fixed = "it is in a file";
  {
    const Fixing fixing({&w, &other}, "a copy is kept");
    EXPECT_STREQ(w.fixed, "a copy is kept");
    EXPECT_STREQ(other.fixed, "it is in a file");
  }
  EXPECT_EQ(w.fixed, nullptr);
  EXPECT_STREQ(other.fixed, "it is in a file");
}

// 256 parts of 1/256 on top of 255: each by itself would be lost in bfloat16.
TEST_F(Uses, OfABfloat16GradientAreSummedInFloat32WhileSeveralAreOpen) {
  Parameter w = parameter();
  w.begin_training_in(at::kBFloat16);
  for (int micro_batch = 1; micro_batch <= 2; ++micro_batch) {
    std::vector<Use> uses;
    for (int i = 0; i < 256; ++i) uses.emplace_back(w);
    for (Use& use : uses) {
      use.add([&](at::Tensor& gradient) { gradient.add_(1.0f / 256 + (&use == &uses[0] ? 255.0f : 0.0f)); });
      use.end();
    }
    EXPECT_EQ(w.gradient().scalar_type(), at::kBFloat16);
    EXPECT_EQ(w.gradient()[0].item<float>(), 256.0f * static_cast<float>(micro_batch));
    EXPECT_LT(now(MemoryKind::gradients), 3000);
  }
}

TEST_F(Uses, OfAGraphThatIsDroppedCauseNoEvent) {
  Watched w(parameter());
  {
    Use one(w.parameter);
    Use moved(std::move(one));
    add_one(moved);
  }
  EXPECT_TRUE(w.sums.empty());
  Use next(w.parameter);
  next.end();
  EXPECT_EQ(w.sums.size(), 1u);
}

TEST_F(Uses, OutliveTheTrainerAndTheParameter) {
  std::optional<Use> use;
  {
    Parameter w = parameter();
    w.begin_training(at::zeros({1000}));
    use.emplace(w);
    w.end_training();
    EXPECT_FALSE(Use(w));
  }
  add_one(*use);
  use->end();
}

TEST_F(Uses, AreHeldForWhatWasRead) {
  Watched a(parameter()), b(parameter());
  Parameter frozen = parameter();
  std::vector<Use> uses;
  {
    const Reads reads;
    a.parameter.read();
    {
      const Reads inner;
      b.parameter.read(at::kBFloat16, &convert);
      EXPECT_EQ(inner.uses().size(), 1u);
    }
    a.parameter.read(at::kBFloat16, &convert);
    frozen.read();
    uses = reads.uses();
  }
  b.parameter.read();
  ASSERT_EQ(uses.size(), 1u);
  Use again(a.parameter);
  uses[0].end();
  EXPECT_TRUE(a.sums.empty());
  again.end();
  EXPECT_EQ(a.sums.size(), 1u);
}

}  // namespace
}  // namespace trl::tensor
