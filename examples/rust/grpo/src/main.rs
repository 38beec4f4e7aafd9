//! Teaches a model sums by GRPO, with a reward in Rust: grpo MODEL OUTPUT [KEY=VALUE ...]. MODEL is a Hugging Face directory or a
//! GGUF file. A short SFT shows it the sums of two digits with their answers; OUTPUT/sft then answers some. From there GRPO shows
//! it no answer, and rewards completions that are the right number. Every key of `trl options grpo` may follow; with method=rloo
//! or method=ppo that trainer takes GRPO's place.

use std::process::ExitCode;
use trl::{Config, Dataset, Event, EventKind, HostError, Rollout, Trainer};

type Pairs<'a> = [(&'a str, &'a str)];

/// The hundred sums of two digits, for SFT with their answers.
fn sums(answered: bool, config: &Config) -> trl::Result<Dataset> {
    Dataset::from_rows(
        || (0..100).map(|number| (number / 10, number % 10)),
        move |record, (a, b)| {
            record.set_text("prompt", &format!("{a}+{b}="))?;
            if answered {
                record.set_text("completion", &(a + b).to_string())?;
            }
            trl::Result::Ok(())
        },
        config,
        None,
    )
}

/// A text of a row, in which nothing is escaped. A program would read the JSON with the crate of its choice.
fn text_of<'a>(row: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = row.split_once(&format!("\"{name}\":\""))?;
    Some(rest.split_once('"')?.0)
}

/// 1 for a completion that is the sum and nothing else, 0 for any other; `None` if the prompt is not a sum.
fn reward_of(row: &str) -> Option<f64> {
    let (a, b) = text_of(row, "prompt")?.strip_suffix('=')?.split_once('+')?;
    let sum = a.parse::<u32>().ok()? + b.parse::<u32>().ok()?;
    Some(if text_of(row, "completion")? == sum.to_string() { 1.0 } else { 0.0 })
}

/// Called once for each generation, with all of its completions.
fn check_sums(rollout: Rollout) -> Result<(), HostError> {
    for (index, row) in rollout.rows().enumerate() {
        rollout.set_reward(index, reward_of(&row?).ok_or("the prompt is not a sum")?)?;
    }
    Ok(())
}

fn on_event(event: Event<'_>) {
    let reward = event.get("reward").or_else(|| event.get("objective/scores")); // the name that PPO has for it
    if let (EventKind::STEP, Some(reward)) = (event.kind(), reward) {
        println!("step {:3}: mean reward {reward:.3}", event.get("step").unwrap_or(f64::NAN));
    }
}

/// The settings of a method, which are for a tiny model.
fn settings(method: &str) -> &'static Pairs<'static> {
    match method {
        "sft" => &[("max_steps", "70"), ("per_device_train_batch_size", "50")],
        "ppo" => &[
            ("max_steps", "100"),
            ("per_device_train_batch_size", "100"), // one for each prompt
            ("num_ppo_epochs", "2"),
            ("temperature", "1"),
            ("response_length", "4"),
            ("stop_token", "eos"),
        ],
        _ => &[
            ("max_steps", "100"),
            ("per_device_train_batch_size", "400"), // 8 for each of 50 prompts
            ("num_generations", "8"),
            ("max_completion_length", "4"),
        ],
    }
}

/// Trains a model and saves it in output. The pairs win over the settings.
fn train(method: &str, model: &str, output: &str, pairs: &Pairs<'_>) -> trl::Result<()> {
    let mut config = Config::with([
        ("method", method),
        ("model_name_or_path", model),
        ("output_dir", output),
        ("learning_rate", "2e-3"),
        ("save_strategy", "no"),
        ("bf16", "false"),
    ])?;
    for (key, value) in settings(method).iter().chain(pairs) {
        config.set(key, value)?;
    }
    let mut trainer = Trainer::new(&config, &sums(method == "sft", &config)?, None, None)?;
    if method != "sft" {
        trainer.add_reward("check_sums", check_sums)?;
    }
    trainer.train(on_event)?;
    trainer.save(None)
}

fn run(model: &str, output: &str, pairs: &Pairs<'_>) -> trl::Result<()> {
    let method = pairs.iter().find(|(key, _)| *key == "method").map_or("grpo", |(_, value)| value);
    let start = format!("{output}/sft");
    train("sft", model, &start, &[])?;
    train(method, &start, output, pairs)?;
    println!("saved in {output}");
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let pairs: Option<Vec<(&str, &str)>> = arguments.iter().skip(2).map(|pair| pair.split_once('=')).collect();
    let result = match (&arguments[..], pairs) {
        ([model, output, ..], Some(pairs)) => run(model, output, &pairs),
        _ => {
            eprintln!("usage: grpo MODEL OUTPUT [KEY=VALUE ...]");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error {}: {error}", error.status().0);
            ExitCode::FAILURE
        }
    }
}
