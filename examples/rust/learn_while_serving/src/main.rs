//! Answers requests while it learns from corrections: learn_while_serving MODEL OUTPUT
//! MODEL is a Hugging Face directory or a GGUF file; OUTPUT gets the adapter.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use trl::{Config, Dataset, Generator, Status, Trainer};

const QUESTION: &str = "The kernel answers the";
const ANSWER: &str = " driver at noon";

type Told = Arc<Mutex<Vec<(String, String)>>>;

fn correct(told: &Told, prompt: &str, completion: &str) {
    told.lock().unwrap().push((prompt.to_string(), completion.to_string()));
}

/// The rows of the run, which it reads about a thousand ahead: all that was told so far, again and again.
fn again(told: &Told) -> impl Iterator<Item = (String, String)> + Send {
    let told = told.clone();
    (0..).map(move |number: usize| {
        let rows = told.lock().unwrap();
        rows[number % rows.len()].clone()
    })
}

/// The step whose adapter wrote the last token.
fn last_version(json: &str) -> &str {
    let name = "\"last_version\":";
    let number = json.find(name).map_or("", |at| &json[at + name.len()..]);
    number.split(|c: char| !c.is_ascii_digit()).next().unwrap_or("")
}

/// One request, token by token; the steps of the trainer go on meanwhile. Returns that step, and the text.
fn ask(generator: &mut Generator, config: &Config) -> trl::Result<(String, String)> {
    let number = generator.add(QUESTION, config)?;
    while generator.step(|_| ())? {}
    let done = generator.take(number, 1)?;
    let only = done.iter().next().expect("a completion");
    Ok((last_version(only.json()).to_string(), only.text().to_string()))
}

/// Asks until the answer is right or the run is over. Returns how often, and whether it is right.
fn serve(generator: &mut Generator, config: &Config, told: &Told, over: &AtomicBool) -> trl::Result<(u32, bool)> {
    let (mut asked, mut last) = (0, String::new());
    while !last.starts_with(ANSWER) && !over.load(Ordering::SeqCst) {
        if asked == 20 {
            println!("corrected: {QUESTION}{ANSWER}");
            correct(told, QUESTION, ANSWER);
        }
        let (step, text) = ask(generator, config)?;
        if text != last {
            println!("step {step}: {QUESTION}{text}");
        }
        (asked, last) = (asked + 1, text);
    }
    Ok((asked, last.starts_with(ANSWER)))
}

/// Returns whether it has learned the answer.
fn run(model: &str, output: &str) -> trl::Result<bool> {
    let config = Config::with([
        ("model_name_or_path", model),
        ("output_dir", output),
        ("dtype", "float32"),
        ("bf16", "false"),
        ("use_peft", "true"),
        ("lora_r", "8"),
        ("lora_target_modules", "all-linear"),
        ("serve_share", "0.5"),
        ("serve_swap", "token"),
        ("dataset_streaming", "true"),
        ("train_sampling_strategy", "sequential"),
        ("learning_rate", "1e-2"),
        ("lr_scheduler_type", "constant"),
        ("max_steps", "2000"),
        ("per_device_train_batch_size", "16"),
        ("save_strategy", "no"),
        ("report_to", "none"),
        ("logging_strategy", "no"),
        ("generate.max_new_tokens", "8"),
    ])?;
    let told = Told::default();
    correct(&told, "The scheduler", " picks a task.");
    let rows = told.clone();
    let dataset = Dataset::from_rows(
        move || again(&rows),
        |record, (prompt, completion)| {
            record.set_text("prompt", &prompt)?;
            record.set_text("completion", &completion)
        },
        &config,
        None,
    )?;
    let mut trainer = Trainer::new(&config, &dataset, None, None)?;
    let mut generator = trainer.generator()?;
    let (control, over) = (trainer.control(), AtomicBool::new(false));
    let (served, trained) = std::thread::scope(|scope| {
        let training = scope.spawn(|| {
            let trained = trainer.train(|_| ());
            over.store(true, Ordering::SeqCst);
            trained
        });
        let served = serve(&mut generator, &config, &told, &over);
        control.cancel();
        (served, training.join().expect("the run"))
    });
    match trained {
        Err(error) if error.status() != Status::E_CANCELLED => return Err(error),
        _ => {} // the answer is right, and nothing is left to learn
    }
    let (asked, right) = served?;
    if right {
        trainer.save(None)?;
        println!("{asked} requests, none lost; the adapter is in {output}");
    }
    Ok(right)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match &arguments[..] {
        [model, output] => run(model, output),
        _ => {
            eprintln!("usage: learn_while_serving MODEL OUTPUT");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("the run ended before it was learned");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error {}: {error}", error.status().0);
            ExitCode::FAILURE
        }
    }
}
