//! The scenario of bindings/serve_scenario.json in Rust: serve_scenario SCENARIO MODEL ADAPTER
//!
//! bindings/README.md says what it does and prints; every language prints the same text.

#[path = "../tests/support/json.rs"]
mod json;

use json::Json;
use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use trl::{Config, Model, Runtime, Server};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

struct Host {
    scenario: Json,
    log: Arc<Mutex<String>>,
    server: Server,
    _runtime: Runtime,
}

impl Host {
    fn new(scenario: Json, model: &str) -> Result<Host> {
        let log = Arc::new(Mutex::new(String::new()));
        let lines = log.clone();
        let mut runtime = Runtime::new(None)?;
        runtime.set_log(move |_, _, text| *lines.lock().unwrap() += text)?;
        let options = Config::with(scenario["options"].object().iter().map(|(key, value)| (key, value.text())))?;
        let mut server = Server::new(&options, &runtime)?;
        server.add_model(scenario["model"].text(), &Model::open(model, None, &runtime)?, None, None)?;
        Ok(Host { scenario, log, server, _runtime: runtime })
    }

    fn text(&self, name: &str) -> &str {
        self.scenario[name].text()
    }

    fn described(&self) -> Result<Json> {
        Ok(Json::read(&self.server.describe()?))
    }

    fn served(&self) -> Result<Json> {
        Ok(self.described()?["models"].list()[0].clone())
    }

    fn print_state(&self) -> Result<()> {
        println!("server {}", self.described()?["state"].text());
        Ok(())
    }

    /// The status and the JSON of an answer.
    fn request(&self, method: &str, path: &str, body: &str) -> Result<(u32, Json)> {
        let described = self.described()?;
        let address = described["address"].text();
        let mut connection = TcpStream::connect(address)?;
        let size = body.len();
        write!(
            connection,
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {size}\r\n\r\n{body}"
        )?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        let (head, json) = answer.split_once("\r\n\r\n").ok_or("the server has not answered")?;
        Ok((head[9..12].parse()?, Json::read(json)))
    }

    fn complete(&self, request: &str) -> Result<()> {
        let (status, answer) = self.request("POST", "/v1/completions", self.text(request))?;
        let said = if status == 200 { &answer["choices"].list()[0]["text"] } else { &answer["error"]["type"] };
        println!("completion {status} {}", said.text());
        Ok(())
    }

    fn start(&mut self) -> Result<()> {
        self.log.lock().unwrap().clear();
        self.server.start()?;
        let described = self.described()?;
        println!("log {}", i32::from(self.log.lock().unwrap().contains(described["address"].text())));
        self.print_state()
    }

    fn adapters(&self, path: &str) -> Result<()> {
        self.server.set_adapter(None, self.text("adapter"), path)?;
        for adapter in self.served()?["adapters"].list() {
            println!("adapter {} version {}", adapter["name"].text(), adapter["version"].number());
        }
        self.complete("adapted_request")?;
        self.server.remove_adapter(None, self.text("adapter"))?;
        println!("adapters {}", self.served()?["adapters"].list().len());
        self.complete("adapted_request")
    }

    fn sleep(&self) -> Result<()> {
        self.server.sleep(None, 1, None)?;
        println!("model {}", self.served()?["state"].text());
        self.complete("request")?;
        self.server.wake_up(None, None)?;
        println!("model {}", self.served()?["state"].text());
        self.complete("request")
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let (scenario, model, adapter) = match arguments.as_slice() {
        [_, scenario, model, adapter] => (scenario, model, adapter),
        _ => panic!("serve_scenario SCENARIO MODEL ADAPTER"),
    };
    let scenario = Json::read(&std::fs::read_to_string(scenario)?);
    let refused = Config::with([(scenario["refused_key"].text(), scenario["refused_value"].text())]);
    if let Err(error) = refused.and_then(|options| Server::new(&options, None)) {
        println!("refused {} status {}", error.key().unwrap_or_default(), error.status().0);
    }

    let mut host = Host::new(scenario, model)?;
    let name = host.text("model").to_string();
    if let Err(error) = host.server.add_model(&name, &Model::open(model, None, None)?, None, None) {
        println!("added twice, status {}", error.status().0);
    }
    host.print_state()?;
    host.start()?;
    println!("stopped {}", i32::from(host.server.wait(Duration::ZERO)?));

    let (status, models) = host.request("GET", "/v1/models", "")?;
    println!("models {status} {}", models["data"].list()[0]["id"].text());
    host.complete("request")?;
    host.adapters(adapter)?;
    if let Err(error) = host.server.set_adapter(None, host.text("adapter"), model) {
        println!("no adapter, status {}", error.status().0);
    }
    host.sleep()?;
    println!("requests {}", host.served()?["requests"].number());

    host.server.cancel();
    println!("stopped {}", i32::from(host.server.wait(None)?));
    host.print_state()?;
    host.start()?;
    host.server.stop(Duration::ZERO)?;
    host.print_state()
}
