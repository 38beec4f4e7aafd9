#include "data/batch/batch_stream.h"

#include "base/error.h"

namespace trl::data {

void BatchStream::start_pass(int64_t) { fail(Status::unsupported, "these rows cannot be read on their own"); }

OrderOptions train_order(const config::TrainingArguments& training, const config::DataArguments& data) {
  OrderOptions order;
  order.batch_size = training.per_device_train_batch_size;
  order.group_batch = order.batch_size * training.gradient_accumulation_steps;
  order.sampling = data.streaming ? Sampling::sequential : data.sampling;
  order.drop_last = data.dataloader_drop_last && !data.streaming;
  const bool grouped = data.sampling == Sampling::group_by_length;
  order.seed = static_cast<uint64_t>(grouped ? training.seed : training.data_seed.value_or(training.seed));
  order.prefix_window = data.share_prefix_window;
  return order;
}

OrderOptions eval_order(const config::TrainingArguments& training, const config::DataArguments& data) {
  OrderOptions order;
  order.batch_size = training.per_device_eval_batch_size;
  order.batch_key = "per_device_eval_batch_size";
  order.sampling =
      data.sampling == Sampling::group_by_length ? Sampling::group_by_length : Sampling::sequential;
  order.group_batch = order.batch_size;
  order.seed = static_cast<uint64_t>(training.data_seed.value_or(training.seed));
  order.own_generator = true;
  order.may_be_empty = true;
  order.drop_last = data.dataloader_drop_last && !data.streaming;
  return order;
}

BatchLayout layout_of(const config::DataArguments& data) {
  return {data.padding_free, data.pad_to_multiple_of.value_or(1)};
}

}  // namespace trl::data
