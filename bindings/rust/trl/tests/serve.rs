//! Servers: cargo test --features serve --test serve

use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;
use trl::{Config, Model, Runtime, Server, Status, Tokenizer};

fn model() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../tests/golden/models/qwen2")
}

fn options() -> Config {
    Config::with([("serve.port", "0")]).unwrap()
}

fn running(runtime: Option<&Runtime>) -> Server {
    let mut server = Server::new(&options(), runtime).unwrap();
    server.add_model("tiny", &Model::open(model(), None, None).unwrap(), None, None).unwrap();
    server.start().unwrap();
    server
}

/// The text that follows a name in a description.
fn after(server: &Server, name: &str) -> String {
    let json = server.describe().unwrap();
    let found = json.split_once(&format!("\"{name}\":")).unwrap().1;
    found.trim_start_matches('"').split(['"', ',']).next().unwrap().to_string()
}

#[test]
fn another_thread_ends_what_one_waits_for() {
    let server = running(None);
    assert!(!server.wait(Duration::from_millis(50)).unwrap());
    thread::scope(|scope| {
        let waits = scope.spawn(|| server.wait(None));
        server.cancel();
        assert!(waits.join().unwrap().unwrap());
    });
    assert_eq!(after(&server, "state"), "stopped");
}

#[test]
fn a_runtime_ends_the_wait_and_not_the_server() {
    let runtime = Runtime::new(None).unwrap();
    let server = running(Some(&runtime));
    thread::scope(|scope| {
        let waits = scope.spawn(|| server.wait(None));
        while !waits.is_finished() {
            runtime.cancel();
            thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(waits.join().unwrap().unwrap_err().status(), Status::E_CANCELLED);
    });
    assert_eq!(after(&server, "state"), "running");
}

#[test]
fn dropping_it_stops_it() {
    let server = running(None);
    let address = after(&server, "address");
    assert!(TcpStream::connect(&address).is_ok());
    drop(server);
    assert!(TcpStream::connect(&address).is_err());
}

#[test]
fn a_panic_of_the_log_comes_out_of_start() {
    let mut runtime = Runtime::new(None).unwrap();
    runtime.set_log(|_, _, text| std::panic::resume_unwind(Box::new(text.to_string()))).unwrap();
    let mut server = Server::new(&options(), &runtime).unwrap();
    server.add_model("tiny", &Model::open(model(), None, None).unwrap(), None, None).unwrap();
    let payload = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| server.start())).unwrap_err();
    assert!(payload.downcast_ref::<String>().unwrap().starts_with("serving tiny at http://"));
    assert_eq!(after(&server, "state"), "running");
    runtime.clear_log().unwrap();
}

#[test]
fn what_it_serves_may_be_dropped_before() {
    let (sender, lines) = channel();
    let mut runtime = Runtime::new(None).unwrap();
    let sender = std::sync::Mutex::new(sender);
    runtime.set_log(move |_, _, text| sender.lock().unwrap().send(text.to_string()).unwrap()).unwrap();
    let mut server = Server::new(&options(), &runtime).unwrap();
    let tokenizer = Tokenizer::open(model(), None, None).unwrap();
    let opened = Model::open(model(), None, None).unwrap();
    let few = Config::with([("serve.max_num_seqs", "1")]).unwrap();
    server.add_model("tiny", &opened, &tokenizer, &few).unwrap();
    server.add_generator("other", opened.generator(&tokenizer).unwrap(), &tokenizer, None).unwrap();
    drop((opened, tokenizer, runtime));
    server.start().unwrap();
    assert!(lines.recv().unwrap().contains("serving tiny"));
    server.sleep("other", 2, "wait").unwrap();
    server.wake_up("other", "weights,kv_cache").unwrap();
    assert_eq!(server.sleep("none", 1, None).unwrap_err().status(), Status::E_NOT_FOUND);
    assert_eq!(server.set_adapter(None, "tiny", model()).unwrap_err().status(), Status::E_INVALID_ARGUMENT);
    server.stop(Duration::ZERO).unwrap();
    assert!(server.wait(None).unwrap());
}
