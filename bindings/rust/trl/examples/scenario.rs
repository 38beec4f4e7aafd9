//! The scenario of bindings/scenario.json in Rust: scenario SCENARIO MODEL OUTPUT
//!
//! bindings/README.md says what it does and prints; every language prints the same text.

#[path = "../tests/support/json.rs"]
mod json;

use json::{quoted, Json};
use std::error::Error;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::path::Path;
use std::thread::{sleep, spawn, JoinHandle};
use std::time::Duration;
use trl::{Answer, Config, Control, Dataset, Event, EventKind, Generator, Model, Trainer};

fn on_event(event: Event<'_>) -> Answer {
    let number = |name| event.get(name).expect(name);
    if event.kind() == EventKind::STEP {
        println!("step {} of {} loss {:.9}", number("step"), number("max_steps"), number("loss"));
        return if number("step") == 3.0 { Answer::STOP } else { Answer(0) };
    }
    println!("event {} at {}", event.kind().0, number("step"));
    Answer(0)
}

/// Pauses a trainer, and calls a method of it on another thread a little later, while the next call is held.
fn meanwhile(control: Control, action: fn(&Control)) -> JoinHandle<()> {
    control.pause();
    spawn(move || {
        sleep(Duration::from_millis(100));
        action(&control);
    })
}

fn fail(event: Event<'_>) {
    let message = format!("event {} at {}", event.kind().0, event.get("step").unwrap());
    resume_unwind(Box::new(message)); // a panic that prints nothing
}

fn train(config: &Config, rows: &Dataset, output: &Path) -> trl::Result<()> {
    let mut trainer = Trainer::new(config, rows, rows, None)?;
    println!("trained {}", i32::from(trainer.train(on_event)?));
    println!("eval_loss {:.9}", trainer.evaluate(None)?.get("eval_loss").unwrap());

    let thread = meanwhile(trainer.control(), Control::resume);
    let metrics = trainer.step()?.expect("a step");
    println!("step {} after a pause, loss {:.9}", metrics.get("step").unwrap(), metrics.get("loss").unwrap());
    thread.join().unwrap();

    let thread = meanwhile(trainer.control(), Control::cancel);
    if let Err(error) = trainer.step() {
        println!("cancelled, status {}", error.status().0);
    }
    thread.join().unwrap();
    trainer.control().resume();

    trainer.save(&Config::with([("save.kind", "checkpoint")])?)?;
    println!("checkpoint {}", i32::from(output.join("checkpoint-4/trainer_state.json").is_file()));

    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| trainer.train(fail))) {
        println!("raised again: {}", payload.downcast_ref::<String>().unwrap());
    }
    println!("trained {}", i32::from(trainer.train(on_event)?));
    println!("trained {}", i32::from(trainer.train(on_event)?));
    trainer.save_to(output.join("model"), None)
}

fn generate(generator: &mut Generator, prompt: &str, options: &Json) -> trl::Result<()> {
    let options = config(options)?;
    let mut streamed = String::new();
    let completions = generator.generate(&[prompt], &options, |token| {
        println!("token {}", token.id);
        streamed += token.text;
    })?;
    let completion = completions.get(0).expect("a completion");
    println!("{}", completion.json());
    println!("streamed {}", i32::from(streamed == completion.text()));
    Ok(())
}

fn config(keys: &Json) -> trl::Result<Config> {
    Config::with(keys.object().iter().map(|(key, value)| (key, value.text())))
}

fn main() -> Result<(), Box<dyn Error>> {
    let [scenario, model, output] = <[String; 3]>::try_from(std::env::args().skip(1).collect::<Vec<_>>())
        .map_err(|_| "usage: scenario SCENARIO MODEL OUTPUT")?;
    let (scenario, output) = (Json::read(&std::fs::read_to_string(scenario)?), Path::new(&output));
    println!("version {}", trl::version());

    let mut config = config(&scenario["config"])?;
    config.set("model_name_or_path", &model)?;
    config.set("output_dir", output.display())?;
    for key in ["learning_rate", "weight_decay"] {
        println!("{key} {} from {}", config.get(key)?, config.origin(key)?);
    }
    if let Err(error) = config.set(scenario["unknown_key"].text(), 1) {
        println!("refused {} status {}", error.key().unwrap_or_default(), error.status().0);
    }

    let texts: Vec<String> = scenario["rows"].list().iter().map(|row| row.text().to_string()).collect();
    let lines: Vec<String> = texts.iter().map(|text| format!("{{\"text\": {}}}", quoted(text))).collect();
    let memory = Dataset::from_buffer("jsonl", lines.join("\n").as_bytes(), None, None)?;
    let fill = |record: &mut trl::Record<'_>, text: String| record.set_text("text", &text);
    let asked = Dataset::from_rows(move || texts.clone().into_iter(), fill, None, None)?;
    println!("rows in memory {} rows of a callback {}", memory.row_count()?, asked.row_count()?);
    train(&config, &memory, output)?;

    config.set("resume_from_checkpoint", output.join("checkpoint-4").display())?;
    let mut resumed = Trainer::new(&config, &asked, None, None)?;
    println!("resumed at {}", Json::read(&resumed.describe()?)["global_step"].number());
    resumed.train(on_event)?;

    let mut generator = Model::open(output.join("model"), None, None)?.generator(None)?;
    for options in ["generate", "sample"] {
        generate(&mut generator, scenario["prompt"].text(), &scenario[options])?;
    }
    Ok(())
}
