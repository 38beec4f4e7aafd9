//! Answers several users at once and prints tokens as they come, cancels one answer in the middle, and goes on with another
//! conversation: generate MODEL [KEY=VALUE ...]. MODEL is a Hugging Face directory or a GGUF file with a chat template; keys are
//! those of the group `generate`, such as generate.temperature.

use std::process::ExitCode;
use trl::{Config, Generator, HostError, Model, Token, Tokenizer};

type Result<T> = std::result::Result<T, HostError>;

const PROMPTS: [&str; 3] = ["What does the kernel do?", "Who wrote it?", "Name a row."];
const NEXT: &str = "And since when?";
const MARK: &str = "THE-ANSWER-4f1c"; // stands for an answer in the template

/// Gets the tokens of different completions in turn. `ControlFlow::Break` as a result would end this completion.
fn on_token(token: Token<'_>) {
    println!("[{}] {} \"{}\"", token.completion, token.id, token.text);
}

/// Prints a completion, and returns its last token.
fn print_completion(generator: &mut Generator, prompt: &str, number: usize) -> Result<Option<i32>> {
    let done = generator.take(number, 1)?;
    let only = done.get(0).ok_or("there is no completion")?;
    println!("{prompt} -> {} ({})", only.text(), only.finish_reason().unwrap_or("it goes on"));
    Ok(only.token_ids().last().copied())
}

/// The tokens that the template writes between an answer and the next one.
fn between(tokenizer: &Tokenizer) -> Result<Vec<i32>> {
    let question = PROMPTS[0];
    let text = tokenizer.apply_chat_template(&format!(
        r#"{{"messages": [{{"role": "user", "content": "{question}"}}, {{"role": "assistant", "content": "{MARK}"}},
            {{"role": "user", "content": "{NEXT}"}}], "add_generation_prompt": true}}"#
    ))?;
    let (_, rest) = text.split_once(MARK).ok_or("the chat template does not write answers as they are")?;
    Ok(tokenizer.encode(rest, false, false)?)
}

fn generate(generator: &mut Generator, tokenizer: &Tokenizer, config: &Config) -> Result<()> {
    let numbers = PROMPTS.iter().map(|&prompt| generator.add(prompt, config)).collect::<trl::Result<Vec<_>>>()?;
    for _ in 0..3 {
        generator.step(on_token)?;
    }
    generator.cancel(numbers[1], 1)?;
    while generator.step(on_token)? {}
    let mut last = Vec::new();
    for (prompt, &number) in PROMPTS.iter().zip(&numbers) {
        last.push(print_completion(generator, prompt, number)?);
    }
    // The answer's tokens stay as they were generated, and what the template writes after it follows them. The first token
    // of that is the end of the answer, which is there already unless the answer ended for another reason. Keys and values
    // are kept (generate.keep): only the new message is computed now.
    let ids = between(tokenizer)?;
    let skipped = usize::from(ids.first().copied() == last[0]);
    generator.extend(numbers[0], &ids[skipped..], config)?;
    while generator.step(on_token)? {}
    print_completion(generator, NEXT, numbers[0])?;
    Ok(generator.release_memory()?)
}

fn run(path: &str, pairs: &[(&str, &str)]) -> Result<()> {
    let mut config =
        Config::with([("generate.max_new_tokens", "8"), ("generate.chat", "true"), ("generate.keep", "true")])?;
    for (key, value) in pairs {
        config.set(key, value)?;
    }
    let tokenizer = Tokenizer::open(path, None, None)?;
    let model = Model::open(path, &config, None)?;
    generate(&mut model.generator(&tokenizer)?, &tokenizer, &config)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let pairs: Option<Vec<(&str, &str)>> = arguments.iter().skip(1).map(|pair| pair.split_once('=')).collect();
    let result = match (&arguments[..], pairs) {
        ([model, ..], Some(pairs)) => run(model, &pairs),
        _ => {
            eprintln!("usage: generate MODEL [KEY=VALUE ...]");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
