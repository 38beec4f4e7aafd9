// trl_model_from_trainer: the model of a trainer, as a model handle.
#include "capi/guard.h"
#include "capi/model/model_handle.h"
#include "capi/trainer/trainer_handle.h"
#include "run/complete/open_generator.h"

namespace trl::capi {
namespace {

// Calls on it are calls on the trainer.
class TrainerModel final : public Model {
 public:
  explicit TrainerModel(std::shared_ptr<Trainer> trainer) : trainer_(std::move(trainer)) {
    describe_as(trainer_->model());
  }
  const std::shared_ptr<Runtime>& runtime() const override { return trainer_->runtime(); }
  std::shared_ptr<run::Tokenizer> tokenizer() override { return trainer_->tokenizer(); }
  engine::GeneratorSpec generator_spec() override {
    return run::training_generator_spec(*runtime(), trainer_->options());
  }
  bool scores() const override { return trainer_->options().method().scores(); }
  void need_own(std::string_view function, std::string_view instead) const override {
    fail(Status::unsupported, "{} is not for the model of a trainer: {}", function, instead);
  }
  void add_adapter(const std::string& name, const std::string& directory) override {
    if (beside() == nullptr) return trainer_->add_adapter(name, directory);
    ask(Sharing::generation, Use::open, [&](engine::Model& model, engine::ErrorSink& error) {
      return model.add_adapter(name, directory, error);
    });
  }
  void remove_adapter(std::string_view name) override {
    if (beside() == nullptr) return trainer_->remove_adapter(name);
    ask(Sharing::generation, Use::open,
        [&](engine::Model& model, engine::ErrorSink& error) { return model.remove_adapter(name, error); });
  }
  engine::Beside* beside() const override { return trainer_->beside(); }

 private:
  void run(Sharing sharing, bool pausable, const Task& task) override {
    const auto alone = [&] { task(trainer_->model(), nullptr); };
    switch (sharing) {
      case Sharing::none:
        return trainer_->exclusively(alone, pausable);
      case Sharing::score:
        return trainer_->in_turn(alone, pausable);
      case Sharing::generation:
        if (beside() != nullptr)
          return trainer_->besides([&] { task(beside()->model(), nullptr); }, pausable);
        return trainer_->generating([&](OpenRollout* rollout) { task(trainer_->model(), rollout); },
                                    pausable);
    }
  }

  const std::shared_ptr<Trainer> trainer_;
};

}  // namespace
}  // namespace trl::capi

using namespace trl::capi;

trl_status trl_model_from_trainer(trl_trainer* trainer, trl_model** out_model, trl_error** error) noexcept {
  return guard<From::anywhere>(error, out_model, [&] {
    const auto shared = get(trainer, "trainer");
    need(out_model, "out_model");
    *out_model = new trl_model(std::make_shared<TrainerModel>(shared));
  });
}
