#include "config/other_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/nearest.h"
#include "config/option_value.h"

namespace trl::config {

namespace {

struct OtherNames {
  std::string_view key, names;
};

constexpr OtherNames kOtherNames[] = {
    {"model_name_or_path",
     "base_model,model,model_name,model_path,model_id,model_dir,pretrained_model,pretrained_model_name_or_"
     "path,"
     "base_model_name_or_path"},
    {"ref_model_name_or_path", "ref_model,ref_model_path,reference_model,ref_model_name"},
    {"adapter_name_or_path",
     "lora_model_dir,adapter_path,adapter_dir,adapter_model,lora_path,lora_adapter,lora_weights,peft_model,"
     "peft_model_id,resume_adapter_file"},
    {"tokenizer_name_or_path", "tokenizer,tokenizer_path,tokenizer_config"},
    {"chat_template_path", "template,prompt_template,chat_template_file,chat_template_jinja,jinja_template"},
    {"dataset_name",
     "dataset,data,data_path,dataset_path,dataset_dir,dataset_id,dataset_name_or_path,input_file,train_data,"
     "train_dataset,train_file,train_files,training_data,training_file"},
    {"eval_dataset_name",
     "eval_data,eval_dataset,eval_file,test_datasets,test_file,val_data,val_dataset,val_file,valid_file,"
     "validation_data,validation_dataset,validation_file"},
    {"dataset_train_split",
     "split,train_split,dataset_split,limit,max_samples,max_train_samples,num_samples,num_train_samples"},
    {"test_split_size",
     "val_set_size,val_size,test_size,validation_split,eval_split_ratio,split_dataset_ratio"},
    {"dataset_text_field", "text_field,text_key,field"},
    {"dataset_columns", "columns,column_mapping,rename_columns"},
    {"dataset_cache_dir", "dataset_prepared_path,tokenized_path"},
    {"dataset_num_proc", "dataset_processes,num_proc"},
    {"dataset_streaming", "stream"},
    {"completion_only_loss",
     "train_on_inputs,train_on_prompt,mask_inputs,mask_prompt,mask_prompts,train_on_completions,"
     "train_on_completions_only"},
    {"assistant_only_loss", "train_on_responses_only,roles_to_train"},
    {"max_length",
     "sequence_len,sequence_length,cutoff_len,seq_len,seq_length,max_len,max_seq_len,max_sequence_length,"
     "model_max_length,context_length,max_context_length,block_size,ctx_len,n_ctx"},
    {"packing", "sample_packing,neat_packing,pack,packed,pack_sequences"},
    {"eval_packing", "eval_sample_packing"},
    {"padding_free", "batch_flattening"},
    {"train_sampling_strategy", "shuffle,sampler,disable_shuffling,curriculum_sampling"},
    {"per_device_train_batch_size",
     "micro_batch_size,batch_size,train_batch_size,mini_batch_size,micro_batch_size_per_gpu,bs,bsz"},
    {"per_device_eval_batch_size", "eval_batch_size,val_batch_size,test_batch_size"},
    {"gradient_accumulation_steps",
     "gradient_accumulation,grad_accum,grad_accum_steps,grad_acc_steps,grad_accumulation_steps,"
     "accumulation_steps,accumulate_grad_batches"},
    {"learning_rate", "lr,base_lr,max_lr,peak_lr,initial_lr,init_lr"},
    {"lr_scheduler_type", "lr_scheduler,lr_schedule,scheduler,schedule,scheduler_type,lr_decay_style"},
    {"lr_scheduler_kwargs", "cosine_min_lr_ratio,lr_scheduler_args,min_lr,min_lr_ratio"},
    {"warmup_steps", "warmup,warmup_iters,num_warmup_steps,lr_warmup_steps"},
    {"num_train_epochs", "epochs,epoch,n_epochs,num_epochs,max_epochs,total_epochs,train_epochs"},
    {"max_steps", "iters,steps,max_iters,num_steps,num_train_steps,max_train_steps,train_steps,total_steps"},
    {"optim", "optimizer,optimiser,optimizer_type,optim_type"},
    {"optim_args", "optimizer_args,optimizer_kwargs,optim_kwargs"},
    {"adam_beta1", "beta1"},
    {"adam_beta2", "beta2"},
    {"adam_epsilon", "adam_eps,eps,epsilon"},
    {"weight_decay", "wd"},
    {"max_grad_norm",
     "clip_grad,clip_grad_norm,grad_clip,grad_norm_clip,gradient_clip,gradient_clip_val,"
     "max_norm"},
    {"gradient_checkpointing",
     "enable_activation_checkpointing,grad_checkpoint,grad_checkpointing,"
     "use_gradient_checkpointing"},
    {"seed", "random_seed,random_state"},
    {"dtype", "precision,compute_dtype,model_dtype,infer_dtype,data_type"},
    {"attn_implementation",
     "attn,attention,attention_implementation,attn_impl,flash_attention,flash_attn,use_flash_attn,"
     "use_flash_attention,sdp_attention,xformers_attention"},
    {"neftune_noise_alpha", "noisy_embedding_alpha"},
    {"use_liger_kernel", "enable_liger_kernel,liger"},
    {"use_peft", "adapter,lora,peft,use_lora,finetuning_type,fine_tune_type,train_type,tuner_type"},
    {"lora_r", "lora_rank,lora_dim,rank,r"},
    {"lora_alpha", "alpha"},
    {"lora_target_modules", "lora_target,lora_target_linear,lora_modules,target_modules"},
    {"lora_modules_to_save", "additional_target,additional_modules,modules_to_save"},
    {"use_dora", "peft_use_dora,dora"},
    {"use_rslora", "peft_use_rslora,rslora"},
    {"load_in_4bit", "qlora,quantization_bit,quant_bit,quantize,load_4bit,use_4bit"},
    {"load_in_8bit", "load_8bit,use_8bit"},
    {"bnb_4bit_quant_type", "quantization_type,quant_type"},
    {"use_bnb_nested_quant", "double_quantization,bnb_4bit_use_double_quant,use_double_quant"},
    {"method", "stage,rl,rlhf_type,algorithm,trainer,trainer_type,train_method,training_type"},
    {"beta", "pref_beta,dpo_beta,kto_beta,rl_beta"},
    {"loss_type", "pref_loss,preference_loss,dpo_loss_type,dpo_loss"},
    {"loss_weights", "pref_ftx,dpo_ftx"},
    {"label_smoothing", "dpo_label_smoothing"},
    {"desirable_weight", "kto_desirable_weight,kto_chosen_weight"},
    {"undesirable_weight", "kto_undesirable_weight,kto_rejected_weight"},
    {"output_dir", "output,output_directory,output_folder,output_path,out,out_dir,save_dir,save_path"},
    {"logging_steps",
     "log_every,log_freq,log_interval,log_steps,logging_interval,print_every,steps_per_report"},
    {"eval_steps",
     "evals_per_epoch,eval_every,eval_freq,eval_interval,evaluation_steps,steps_per_eval,val_check_interval,"
     "val_interval"},
    {"save_steps",
     "saves_per_epoch,save_every,save_freq,save_interval,steps_per_save,checkpoint_every,ckpt_interval"},
    {"save_total_limit", "keep_checkpoints,keep_last_n_checkpoints,max_checkpoints"},
    {"max_shard_size", "export_size,shard_size"},
    {"resume_from_checkpoint",
     "resume,resume_from,resume_training,auto_resume_from_checkpoints,checkpoint,load_checkpoint"},
    {"report_to", "report,log_with,logger,loggers,plot_loss,use_wandb,wandb"},
    {"run_name", "wandb_name,wandb_run_name,experiment_name,exp_name"},
    {"deepspeed", "ds_config"},
    {"runtime.threads", "threads,n_threads,nthreads,num_threads"},
    {"generate.max_new_tokens",
     "max_tokens,max_output_tokens,max_completion_tokens,max_gen_len,n_predict,num_predict"},
    {"generate.temperature", "temp"},
    {"generate.num_return_sequences", "n,num_completions,num_generations_per_prompt,best_of"},
    {"generate.system", "system_message,system_text,default_system"},
    {"generate.repetition_penalty", "rep_pen,rep_penalty,repeat_penalty"},
    {"generate.stop", "stop_sequences,stop_strings,stop_tokens,stop_words"},
    {"convert.type", "outtype,qtype,quant,quantization"},
};

bool names(std::string_view list, std::string_view name) {
  const std::vector<std::string_view> words = split_words(list, ',');
  return std::find(words.begin(), words.end(), name) != words.end();
}

// Returns the key that has this name elsewhere, or in the flag of a command; empty: none, or the trainer does
// not have it.
std::string_view key_called(std::string_view name, std::string_view trainer) {
  for (const OtherNames& other : kOtherNames) {
    const Option* const option = names(other.names, name) ? find_option(other.key) : nullptr;
    if (option != nullptr && (trainer.empty() || is_of(*option, trainer))) return option->name;
  }
  const std::string end = fmt::format(".{}", name);
  for (const Option& option : options()) {
    if (option.name.ends_with(end) && (trainer.empty() || is_of(option, trainer))) return option.name;
  }
  return {};
}

}  // namespace

std::string_view other_names(const Option& option) {
  for (const OtherNames& other : kOtherNames) {
    if (other.key == option.name) return other.names;
  }
  return {};
}

std::string unknown_key(std::string_view key, std::string_view trainer) {
  const std::string plain = underscored(key);
  if (const std::string_view here = key_called(plain, trainer); !here.empty())
    return fmt::format("{}: unknown key; the key for it is {}", shown(key), here);
  std::vector<std::string_view> candidates;
  for (const Option& option : options()) {
    if (option.section == "trl and accelerate launch") continue;
    if (!trainer.empty() && !is_of(option, trainer)) continue;
    candidates.push_back(option.name);
    for (const std::string_view alias : alias_list(option)) candidates.push_back(alias);
  }
  const std::string_view near = base::nearest(plain, candidates);
  if (near.empty() || key.empty()) return fmt::format("{}: unknown key", shown(key));
  return fmt::format("{}: unknown key; the nearest is {}", shown(key), near);
}

}  // namespace trl::config
