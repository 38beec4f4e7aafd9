//! Fine-tunes a model on a JSONL file and shows what it writes before and after: sft MODEL ROWS OUTPUT [KEY=VALUE ...]
//! MODEL is a Hugging Face directory or a GGUF file; every key of `trl options sft` may follow.

use std::io::Write;
use std::process::ExitCode;
use trl::{Config, Dataset, Event, EventKind, LogLevel, Runtime, Trainer};

const PROMPT: &str = "The kernel";

fn on_log(level: LogLevel, component: &str, text: &str) {
    if level >= LogLevel::WARNING {
        eprintln!("{component}: {text}");
    }
}

/// Called on this thread, between the steps. `Answer::STOP`, `SAVE` and `EVALUATE` as results would ask for more.
fn on_event(event: Event<'_>) {
    if event.kind() == EventKind::STEP {
        let number = |name| event.get(name).unwrap_or(f64::NAN);
        println!("step {} of {}: loss {:.4}", number("step"), number("max_steps"), number("loss"));
    }
}

fn print_completion(trainer: &mut Trainer, config: &Config) -> trl::Result<()> {
    print!("{PROMPT} ->");
    for token in trainer.generator()?.stream(PROMPT, config)? {
        print!("{}", token?.1);
        let _ = std::io::stdout().flush();
    }
    println!();
    Ok(())
}

fn run(model: &str, rows: &str, output: &str, pairs: &[(&str, &str)]) -> trl::Result<()> {
    let mut config = Config::with([
        ("model_name_or_path", model),
        ("output_dir", output),
        ("learning_rate", "1e-3"),
        ("per_device_train_batch_size", "4"),
        ("max_steps", "10"),
        ("save_strategy", "no"),
        ("generate.max_new_tokens", "16"),
    ])?;
    for (key, value) in pairs {
        config.set(key, value)?;
    }
    let mut runtime = Runtime::new(&config)?;
    runtime.set_log(on_log)?;
    let dataset = Dataset::open(rows, &config, &runtime)?;
    let mut trainer = Trainer::new(&config, &dataset, None, &runtime)?;
    print_completion(&mut trainer, &config)?;
    trainer.train(on_event)?;
    trainer.save(None)?;
    print_completion(&mut trainer, &config)?;
    println!("saved in {output}");
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let pairs: Option<Vec<(&str, &str)>> = arguments.iter().skip(3).map(|pair| pair.split_once('=')).collect();
    let result = match (&arguments[..], pairs) {
        ([model, rows, output, ..], Some(pairs)) => run(model, rows, output, &pairs),
        _ => {
            eprintln!("usage: sft MODEL ROWS OUTPUT [KEY=VALUE ...]");
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
