//! Serves a model over HTTP from within a program: serve MODEL [--stay] [KEY=VALUE ...]. MODEL is a Hugging Face directory or a
//! GGUF file; keys are those of the groups `serve` and `generate`. The program asks its own server; with --stay it then serves
//! until it is asked to stop by a line on its standard input.

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::ExitCode;
use std::time::Duration;
use trl::{Config, LogLevel, Model, Runtime, Server};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Called within calls of the server such as `start` and `wait`, and not on its threads.
fn on_log(_: LogLevel, component: &str, text: &str) {
    eprintln!("{component}: {text}");
}

/// The address of a running server, from its description. A program would read the JSON with the crate of its choice.
fn address_of(server: &Server) -> Result<String> {
    let json = server.describe()?;
    let found = json.split_once("\"address\":\"").and_then(|(_, rest)| rest.split_once('"'));
    Ok(found.ok_or("the server does not run")?.0.to_string())
}

/// Posts JSON and gives the status and the body of the answer, as any HTTP client does.
fn post(address: &str, path: &str, json: &str) -> Result<String> {
    let mut connection = TcpStream::connect(address)?;
    let size = json.len();
    write!(
        connection,
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {size}\r\n\r\n{json}"
    )?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("the server does not answer")?;
    Ok(format!("{} {body}", head.get(9..12).unwrap_or(head)))
}

fn run(path: &str, stay: bool, config: &Config) -> Result<()> {
    let mut runtime = Runtime::new(config)?;
    runtime.set_log(on_log)?;
    let model = Model::open(path, config, &runtime)?;
    let mut server = Server::new(config, &runtime)?;
    server.add_model("tiny", &model, None, None)?;
    server.start()?;
    let address = address_of(&server)?;
    let request = r#"{"model": "tiny", "prompt": "The kernel", "max_tokens": 16}"#;
    println!("{}", post(&address, "/v1/completions", request)?);
    server.sleep(None, 1, None)?; // the memory of keys and values goes back to the system
    println!("{}", post(&address, "/v1/completions", request)?);
    server.wake_up(None, None)?;
    if stay {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _ = std::io::stdin().read_line(&mut String::new());
                server.cancel();
            });
            while !server.wait(Duration::from_secs(1))? {}
            trl::Result::Ok(())
        })?;
    }
    server.stop(None)?; // requests that run may end
    println!("stopped");
    Ok(())
}

fn configure(pairs: &[String]) -> Result<Config> {
    let mut config = Config::with([("serve.port", "0")])?; // any that is free
    for pair in pairs {
        let (key, value) = pair.split_once('=').ok_or_else(|| format!("KEY=VALUE is needed, not {pair}"))?;
        config.set(key, value)?;
    }
    Ok(config)
}

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let before = arguments.len();
    arguments.retain(|argument| argument != "--stay");
    let stay = arguments.len() < before;
    let (path, pairs) = match arguments.split_first() {
        Some(found) => found,
        None => {
            eprintln!("usage: serve MODEL [--stay] [KEY=VALUE ...]");
            return ExitCode::from(2);
        }
    };
    match configure(pairs).and_then(|config| run(path, stay, &config)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
