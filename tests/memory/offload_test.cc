#include "memory/offload.h"

#include <sys/mount.h>
#include <sys/statfs.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "kernels/reference.h"
#include "memory/recompute.h"
#include "tensor/counting_host.h"

namespace trl::memory {
namespace {

using config::ActivationOffload;
using kernels::Parameter;
using test::leaf;
using test::parameter;
using test::random;
using test::same_bits;

// On a disk: what the build lies on.
std::string disk() { return TRL_BINARY_DIR; }

std::vector<char> bytes_of(size_t count, char first) {
  std::vector<char> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(first + static_cast<char>(i * i % 101));
  return bytes;
}

int64_t entries(const std::string& directory) {
  return std::distance(std::filesystem::directory_iterator(directory), {});
}

TEST(OffloadFile, GivesBackWhatWasWrittenAndUsesFreedPlacesAgain) {
  const int64_t before = entries(disk());
  OffloadFile file(disk());
  EXPECT_EQ(entries(disk()), before);  // it has no name
  const std::vector<char> a = bytes_of(5000, 1), b = bytes_of(20000, 2), c = bytes_of(8192, 3);
  const auto at_a = file.write(a), at_b = file.write(b), at_c = file.write(c);
  EXPECT_EQ(file.size(), 8192 + 20480 + 8192);
  const auto expect = [&](const OffloadFile::Extent& at, const std::vector<char>& want) {
    std::vector<char> got(want.size());
    file.read(at, got.data());
    EXPECT_EQ(got, want);
  };
  expect(at_b, b);
  file.free(at_a);
  file.free(at_b);  // one gap of 28672 bytes now
  const auto again = file.write(bytes_of(28000, 4));
  EXPECT_EQ(again.offset, 0);
  expect(again, bytes_of(28000, 4));
  expect(at_c, c);
  file.free(again);
  file.free(at_c);
  EXPECT_EQ(file.used(), 0);
  file.write(bytes_of(36000, 5));
  EXPECT_EQ(file.size(), 8192 + 20480 + 8192);
}

TEST(OffloadFile, RefusesADirectoryInMemory) {
  struct statfs info {};
  if (::statfs("/dev/shm", &info) != 0 || info.f_type != 0x01021994)
    GTEST_SKIP() << "/dev/shm is not a tmpfs";
  try {
    OffloadFile("/dev/shm/not-there");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::invalid_config);
    EXPECT_EQ(error.key(), "offload_dir");
    EXPECT_EQ(error.message(),
              "offload_dir: /dev/shm is on a tmpfs, whose files are kept in memory, so moving data there "
              "frees none: name "
              "a directory on a disk");
  }
}

TEST(OffloadFile, AWriteThatFailsLeavesNothing) {
  bool fails = true;
  const base::WriteFault fault = [&](const std::string& path, size_t bytes) {
    if (fails) fail(Status::io, "{}: no room for {}", path, bytes);
  };
  OffloadFile file(disk(), &fault);
  EXPECT_THROW(file.write(bytes_of(5000, 1)), Error);
  EXPECT_EQ(file.used(), 0);
  fails = false;
  EXPECT_EQ(file.write(bytes_of(5000, 1)).offset, 0);
}

ActivationOffload options(bool all, bool zstd = false, int64_t min_bytes = 1024) {
  return {.all = all, .min_bytes = min_bytes, .zstd = zstd, .directory = disk()};
}

// Layers that are wide enough for several to be on their way at once.
struct Layers {
  std::vector<std::unique_ptr<Parameter>> norms, ups, downs;
  at::Tensor x, dy;

  explicit Layers(int count, int64_t rows = 512) : x(leaf(random({rows, 64}, 7))), dy(random({rows, 64}, 8)) {
    for (int i = 0; i < count; ++i) {
      norms.push_back(std::make_unique<Parameter>(parameter(random({64}, 3 * i))));
      ups.push_back(std::make_unique<Parameter>(parameter(random({256, 64}, 3 * i + 1) * 0.2)));
      downs.push_back(std::make_unique<Parameter>(parameter(random({64, 256}, 3 * i + 2) * 0.2)));
    }
  }
  // The gradient of x, and those of the weights.
  std::vector<at::Tensor> run(config::Recomputed form) {
    at::Tensor y = x;
    for (size_t i = 0; i < norms.size(); ++i) {
      y = recompute(y, form, [this, i](const at::Tensor& in) {
        const auto [stream, h] = kernels::residual_norm(in, {}, {.weight = norms[i].get()});
        const kernels::Again again{[this, i](const std::vector<at::Tensor>& from) {
                                     return kernels::norm(from[0], {.weight = norms[i].get()});
                                   },
                                   {stream}};
        const at::Tensor wide = kernels::linear(h, *ups[i], nullptr, at::kBFloat16, again);
        const at::Tensor act = kernels::activate(kernels::Activation::silu, wide);
        return std::vector{kernels::add(stream, kernels::linear(act, *downs[i], nullptr, at::kBFloat16))};
      })[0];
    }
    std::vector<at::Tensor> all = torch::autograd::grad({y}, {x}, {dy});
    for (const auto* list : {&norms, &ups, &downs}) {
      for (const auto& p : *list) {
        all.push_back(p->gradient().clone());
        at::Tensor(p->gradient()).zero_();
      }
    }
    return all;
  }
};

TEST(Offload, SameBitsHoweverMuchLeaves) {
  using config::Recomputed;
  Layers layers(12);
  for (const Recomputed form : {Recomputed::nothing, Recomputed::products, Recomputed::layers}) {
    const std::vector<at::Tensor> want = layers.run(form);
    for (const ActivationOffload& what :
         {options(true), options(true, true), options(false), options(true, false, 1 << 17)}) {
      Offload offload(what, nullptr, /*on_the_way=*/1);
      for (int pass = 0; pass < 3; ++pass) {
        const Offload::Pass scope(&offload);
        const std::vector<at::Tensor> got = layers.run(form);
        for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(same_bits(got[i], want[i])) << i;
      }
      EXPECT_EQ(offload.file().used(), 0);
      const bool leaves = what.all || form == Recomputed::layers || form == Recomputed::products;
      EXPECT_EQ(offload.file().size() > 0, leaves);
    }
  }
}

// Host and file have what one layer needs, and what is on its way; the file grows no more after the first
// pass.
TEST(Offload, MemoryFallsAndTheFileDoesNotGrow) {
  test::CountingHost host;
  tensor::set_host(&host);
  {
    constexpr int kLayers = 60;
    constexpr int64_t kLayer =
        4096 * 64 * 4 + 4096 * 256 * 2 * 2;  // stream, and both sides of the activation
    Layers layers(kLayers, 4096);
    host.counter.reset_peak();
    layers.run(config::Recomputed::nothing);
    const int64_t all = host.counter.peak(base::MemoryKind::activations);
    EXPECT_GT(all, kLayers * kLayer);
    Offload offload(options(true));
    std::vector<int64_t> sizes;
    for (int pass = 0; pass < 4; ++pass) {
      host.counter.reset_peak();
      const Offload::Pass scope(&offload);
      layers.run(config::Recomputed::nothing);
      sizes.push_back(offload.file().size());
    }
    const int64_t peak = host.counter.peak(base::MemoryKind::activations);
    EXPECT_LT(peak, (int64_t{64} << 20) + 3 * kLayer);
    EXPECT_LT(peak, all / 2);
    EXPECT_LE(sizes.back(), kLayers * (kLayer + (1 << 20)));
    EXPECT_EQ(host.counter.now(base::MemoryKind::activations), 0);
  }
  tensor::set_host(nullptr);
}

TEST(Offload, ADiskThatFillsUpIsAnErrorAndTheNextPassWorks) {
  Layers layers(12);
  const std::vector<at::Tensor> want = layers.run(config::Recomputed::nothing);
  for (const int64_t room : {0, 1, 7, 20}) {
    std::atomic<int64_t> left{room};
    const base::WriteFault fault = [&](const std::string& path, size_t) {
      if (left-- <= 0) fail(Status::io, "{}: the disk is full", path);
    };
    Offload offload(options(true), &fault, /*on_the_way=*/1);
    try {
      const Offload::Pass scope(&offload);
      layers.run(config::Recomputed::nothing);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::io);
      EXPECT_EQ(error.message(), disk() + ": the disk is full");
    }
    EXPECT_EQ(offload.file().used(), 0);
    for (const auto* list : {&layers.norms, &layers.ups, &layers.downs}) {
      for (const auto& p : *list) at::Tensor(p->gradient()).zero_();
    }
    left = 1 << 20;
    const Offload::Pass scope(&offload);
    const std::vector<at::Tensor> got = layers.run(config::Recomputed::nothing);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(same_bits(got[i], want[i])) << i;
  }
}

// Threads of this process by that name. One that ends meanwhile has none.
int64_t threads_named(const std::string& name) {
  int64_t count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string own;
    std::ifstream(task.path() / "comm") >> own;
    count += own == name ? 1 : 0;
  }
  return count;
}

TEST(Offload, ItsThreadIsThereOnlyWhileSomethingLeaves) {
  Offload offload(options(true));
  Layers layers(3);
  EXPECT_EQ(threads_named("trl-offload"), 0);
  {
    const Offload::Pass scope(&offload);
    EXPECT_EQ(threads_named("trl-offload"), 0);
    layers.run(config::Recomputed::nothing);
    EXPECT_EQ(threads_named("trl-offload"), 1);
  }
  // A thread that has been joined is listed until the system has reaped it.
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (threads_named("trl-offload") != 0 && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(threads_named("trl-offload"), 0);
}

}  // namespace
}  // namespace trl::memory
