#include "tensor/memory/rehearsal.h"

#include <utility>

namespace trl::tensor {

Rehearsal::Rehearsal() : before_(std::exchange(current_, this)), state_(std::make_shared<State>()) {}
Rehearsal::~Rehearsal() { current_ = before_; }

void Rehearsal::note(const Work& work, double flops, double times) {
  Work staged = work;
  staged.stage = state_->stage;
  state_->work[staged] += times;
  state_->clock += flops;
}

void Rehearsal::note_leaving(int64_t bytes) { state_->left += bytes; }
int64_t Rehearsal::left() const { return state_->left; }
const std::vector<Taken>& Rehearsal::taken() const { return state_->taken; }
const std::map<Work, double>& Rehearsal::work() const { return state_->work; }
const std::vector<Rehearsal::Event>& Rehearsal::events() const { return state_->events; }

Stage::Stage(const char* name) noexcept
    : state_(Rehearsal::current() != nullptr ? Rehearsal::current()->state() : nullptr) {
  if (state_ == nullptr) return;
  before_ = std::exchange(state_->stage, name);
  state_->events.push_back({state_->clock, name});  // even if the stage takes nothing
}

Stage::~Stage() {
  if (state_ != nullptr) state_->stage = before_;
}

MappedPages::MappedPages(base::MemoryKind kind, int64_t bytes)
    : state_(bytes > 0 && Rehearsal::current() != nullptr ? Rehearsal::current()->state() : nullptr) {
  if (state_ != nullptr) number_ = state_->take(kind, bytes, kMappedPages);
}

MappedPages::~MappedPages() {
  if (state_ != nullptr) state_->give(number_);
}

}  // namespace trl::tensor
