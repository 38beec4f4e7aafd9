//! The binding for Rust, as far as it opens no engine.

mod support;

use std::error::Error as _;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{mpsc, Arc, Mutex};
use std::thread;
use support::json::Json;
use support::{asked, panic_of, rows, MODEL, SOURCE};
use trl::{Config, ConfigOption, Dataset, Error, OptionType, Runtime, Status, Tokenizer};

const TEXTS: &[&str] = &["one two three 1", "one two three 2", "one two three 3", "one two three 4"];

#[derive(Debug, PartialEq)]
struct Oops(i32);

impl std::fmt::Display for Oops {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "oops {}", self.0)
    }
}

impl std::error::Error for Oops {}

fn oops_of(error: &Error) -> &Oops {
    error.source().and_then(|source| source.downcast_ref()).expect("the host's error")
}

/// Counts what is alive.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Alive {
        count.fetch_add(1, Ordering::Relaxed);
        Alive(count.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn version_and_features() {
    let number = trl::version_number();
    assert_eq!(trl::version(), format!("{}.{}.{}", number >> 16, number >> 8 & 255, number & 255));
    let info = Json::read(trl::build_info());
    assert_eq!(info["version"].text(), trl::version());
    assert!(info["features"].list().iter().all(|name| trl::has_feature(name.text())));
    assert!(!trl::has_feature("no such feature") && !trl::has_feature("a\0b"));
}

#[test]
fn options_have_names_docs_and_defaults_that_a_configuration_has() {
    let config = Config::new().unwrap();
    assert!(trl::options().count() > 500);
    for option in trl::options() {
        assert!(!option.doc().is_empty() && !option.section().is_empty(), "{option:?}");
        assert!(!option.group().is_empty() && !option.since().is_empty(), "{option:?}");
        assert!(["trl", "ours"].contains(&option.origin()), "{option:?}");
        assert!(option.value_type().name().is_some(), "{option:?}");
        assert_eq!(config.get(option.name()).unwrap(), option.default(), "{option:?}");
        let _ = (option.unsupported_reason(), option.ignored_reason(), option.taken(), option.is_nullable());
        assert!(option.other_names().all(|name| ConfigOption::find(name).is_none()), "{option:?}");
    }
    let rate = ConfigOption::find("learning_rate").unwrap();
    assert_eq!(rate.value_type(), OptionType::NUMBER);
    assert!(rate.trainers().any(|name| name == "dpo"));
    assert_ne!(rate.default_for("dpo"), Some(rate.default()));
    let loss = ConfigOption::find("loss_type").unwrap();
    assert_ne!(loss.accepted_for("dpo"), loss.accepted_for("sft"));
    assert_ne!(loss.doc_for("dpo"), loss.doc_for("sft"));
    assert!(!rate.accepted().is_empty());
    assert_eq!(ConfigOption::find("num_generations").unwrap().default_for("sft"), None);
    let older = trl::options().find(|option| option.aliases().next().is_some()).unwrap();
    assert_eq!(ConfigOption::find(older.aliases().next().unwrap()), Some(older));
}

#[test]
fn a_configuration_has_keys_origins_and_warnings() {
    let mut config = Config::with([("learning_rate", 1e-4), ("max_steps", 3.0)]).unwrap();
    config.set("bf16", false).unwrap();
    config.set("generate.stop", r#"["a", "b"]"#).unwrap();
    assert_eq!(config.get("learning_rate").unwrap(), "1e-04");
    assert_eq!(config.get("seed").unwrap(), "42");
    assert_eq!((config.origin("seed").unwrap(), config.origin("max_steps").unwrap()), ("default".into(), "set".into()));
    config.unset("max_steps").unwrap();
    assert_eq!(Json::read(&config.describe().unwrap()).object().len(), 3);
    assert!(format!("{config:?}").contains("generate.stop"));
    config.load_text("learning_rate: 1e-3\nseed: 7\n").unwrap();
    assert_eq!(config.origin("seed").unwrap(), "text:2");
    assert_eq!(config.load_text("").unwrap_err().status(), Status::E_INVALID_CONFIG);
    assert_eq!(config.load("/nowhere/recipe.yaml").unwrap_err().status(), Status::E_NOT_FOUND);
    Json::read(&config.warnings().unwrap()).list();
}

#[test]
fn an_error_has_a_status_and_a_key() {
    let mut config = Config::new().unwrap();
    let error = config.set("learning_rat", 1).unwrap_err();
    assert_eq!(
        (error.status(), error.key(), error.callback_code()),
        (Status::E_INVALID_CONFIG, Some("learning_rat"), 0)
    );
    assert!(error.to_string().contains("learning_rate") && error.source().is_none());
    assert_eq!(config.set("learning_rate", "fast").unwrap_err().key(), Some("learning_rate"));
    let error = config.set("output_dir", "a\0b").unwrap_err();
    assert_eq!((error.status(), error.to_string()), (Status::E_INVALID_ARGUMENT, r#""a\0b" has a NUL at 1"#.into()));
    assert_eq!(format!("{:?} {:?}", Status::E_BUSY, Status(-99)), "E_BUSY Status(-99)");
}

/// What the header says of threads is what the types say.
#[test]
fn objects_are_sent_and_shared() {
    fn shared<T: Send + Sync>() {}
    shared::<Config>();
    shared::<Runtime>();
    shared::<Dataset>();
    shared::<Tokenizer>();
    shared::<trl::Model>();
    shared::<trl::Trainer>();
    shared::<trl::Control>();
    shared::<trl::Rollout>();
    shared::<trl::Evaluator>();
    shared::<trl::Generator>();
    shared::<trl::Completions>();
    shared::<trl::Metrics<'static>>();
    shared::<ConfigOption>();
    shared::<Error>();
}

#[test]
fn rows_in_memory_and_of_the_host() {
    assert_eq!(rows(&[r#"{"text": "a"}"#, r#"{"text": "b"}"#]).row_count().unwrap(), 2);
    assert_eq!(Dataset::from_buffer("csv", b"text\na\nb\n", None, None).unwrap().row_count().unwrap(), 2);
    Dataset::from_buffer("csv", b"", None, None).unwrap();
    let dataset = asked(TEXTS);
    assert_eq!((dataset.row_count().unwrap(), dataset.row_count().unwrap()), (4, 4));
    let error = Dataset::from_buffer("xml", b"", None, None).err().unwrap();
    assert_eq!(error.status(), Status::E_INVALID_ARGUMENT);
}

#[test]
fn columns_keep_their_types() {
    let messages = r#"[{"role": "user", "content": "é 字 🙂"}, {"role": "assistant", "content": "a\u0000b"}]"#;
    let tokenizer = Tokenizer::open(MODEL, None, None).unwrap();
    let dataset = Dataset::from_rows(
        move || Some(messages).into_iter(),
        |record, messages| {
            record.set_json("messages", messages)?;
            record.set_text("note", "a\0b")
        },
        None,
        None,
    )
    .unwrap();
    let line = format!("{{\"messages\": {messages}}}");
    let expected = rows(&[&line]).example(&tokenizer, 0, None).unwrap();
    assert_eq!(dataset.example(&tokenizer, 0, None).unwrap(), expected);
}

#[test]
fn errors_and_panics_of_rows_come_through() {
    let failing = |fill: fn(&mut trl::Record<'_>, usize) -> Result<(), trl::HostError>| {
        Dataset::from_rows(|| 0..4usize, fill, None, None).unwrap().row_count()
    };
    let error = failing(|record, index| {
        record.set_text("text", "one")?;
        if index == 2 {
            Err(Oops(2).into())
        } else {
            Ok(())
        }
    });
    let error = error.unwrap_err();
    assert_eq!((error.status(), oops_of(&error)), (Status::E_CALLBACK, &Oops(2)));
    // An error of the library is the same one.
    let error = failing(|record, _| Ok(record.set_json("text", "not JSON")?)).unwrap_err();
    assert_eq!((error.status(), error.source().is_none()), (Status::E_FORMAT, true));
    assert_eq!(panic_of(|| failing(|_, index| panic!("at row {index}"))), "at row 0");

    let start = || -> std::iter::Empty<()> { panic!("at the start") };
    let dataset = Dataset::from_rows(start, |_, ()| Ok::<(), Error>(()), None, None).unwrap();
    for _ in 0..2 {
        assert_eq!(panic_of(|| dataset.row_count()), "at the start");
    }
}

#[test]
fn functions_are_freed_once_and_with_their_last_user() {
    let count = Arc::new(AtomicUsize::new(0));
    let alive = || count.load(Ordering::Relaxed);
    let made = |options: Option<&Config>, runtime: Option<&Runtime>| {
        let (first, second) = (Alive::new(&count), Alive::new(&count));
        let rewind = move || {
            let _own = &first;
            0..2
        };
        let fill = move |record: &mut trl::Record<'_>, _| {
            let _own = &second;
            record.set_text("text", "one")
        };
        Dataset::from_rows(rewind, fill, options, runtime)
    };
    let dataset = made(None, None).unwrap();
    assert_eq!(alive(), 2);
    drop(dataset);
    assert_eq!(alive(), 0);

    let mut runtime = Runtime::new(None).unwrap();
    for _ in 0..3 {
        let own = Alive::new(&count);
        runtime.set_log(move |_, _, _| drop(&own)).unwrap();
        let own = Alive::new(&count);
        runtime.set_progress(move |_, _, _| drop(&own)).unwrap();
        assert_eq!(alive(), 2);
    }
    runtime.clear_log().unwrap();
    runtime.clear_progress().unwrap();
    assert_eq!(alive(), 0);
    let own = Alive::new(&count);
    runtime.set_log(move |_, _, _| drop(&own)).unwrap();
    let dataset = made(None, Some(&runtime)).unwrap();
    drop(runtime);
    assert_eq!(dataset.row_count().unwrap(), 2);
    drop(dataset);
    assert_eq!(alive(), 0);
}

/// A panic of what a closure owns, while the library frees it.
#[test]
fn a_panic_of_a_drop_comes_through() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !thread::panicking() {
                panic!("dropped");
            }
        }
    }
    let armed = || {
        let mut runtime = Runtime::new(None).unwrap();
        let bomb = Bomb;
        runtime.set_log(move |_, _, _| drop(&bomb)).unwrap();
        runtime
    };
    let mut runtime = armed();
    assert_eq!(panic_of(|| runtime.clear_log()), "dropped");
    drop(runtime);
    let runtime = armed();
    assert_eq!(panic_of(|| drop(runtime)), "dropped");
    Config::new().unwrap();
}

#[test]
fn rows_of_the_host_are_read_by_one_thread_at_a_time() {
    let (reading, begun) = mpsc::channel();
    let (go_on, waiting) = mpsc::channel::<()>();
    let first = move |record: &mut trl::Record<'_>, index: usize| -> Result<(), trl::HostError> {
        if index == 0 {
            reading.send(())?;
            waiting.recv()?;
        }
        Ok(record.set_text("text", "one")?)
    };
    let dataset = Dataset::from_rows(|| 0..2usize, first, None, None).unwrap();
    thread::scope(|scope| {
        let other = scope.spawn(|| dataset.row_count());
        begun.recv().unwrap();
        assert_eq!(dataset.row_count().unwrap_err().status(), Status::E_BUSY);
        go_on.send(()).unwrap();
        assert_eq!(other.join().unwrap().unwrap(), 2);
    });
}

#[test]
fn a_configuration_names_rows() {
    let path = format!("{SOURCE}/tests/golden/data/datasets/train_lm.jsonl");
    let config = Config::with([("dataset_name", &path)]).unwrap();
    let (train, evaluation) = Dataset::open_config(&config, None).unwrap();
    assert!(evaluation.is_none());
    let count = Dataset::open(&path, None, None).unwrap().row_count().unwrap();
    assert_eq!(train.row_count().unwrap(), count);
    let config = Config::with([("dataset_name", &path), ("eval_dataset_name", &path)]).unwrap();
    let (_, evaluation) = Dataset::open_config(&config, None).unwrap();
    assert_eq!(evaluation.unwrap().row_count().unwrap(), count);
    let config = Config::with([("dataset_name", "/nowhere.jsonl")]).unwrap();
    assert_eq!(Dataset::open_config(&config, None).err().unwrap().status(), Status::E_NOT_FOUND);
}

#[test]
fn lengths_examples_and_batches() {
    let (tokenizer, dataset) = (Tokenizer::open(MODEL, None, None).unwrap(), asked(TEXTS));
    let profile = dataset.profile(&tokenizer, &Config::with([("profile.max_lengths", "[4, 16]")]).unwrap()).unwrap();
    assert_eq!(Json::read(&profile.json)["rows"].number(), 4.0);
    assert!(profile.text.contains('\n'));
    let example = Json::read(&dataset.example(&tokenizer, 2, None).unwrap());
    assert_eq!(example["input_ids"].list().len(), example["labels"].list().len());

    let (options, mut batches) = (Config::with([("per_device_train_batch_size", 2)]).unwrap(), Vec::new());
    dataset.visit_batches(&tokenizer, &options, 0, 99, |json| batches.push(json.to_string())).unwrap();
    assert_eq!(batches.len(), 2);
    assert_eq!(batches[1], dataset.batch(&tokenizer, 1, &options).unwrap());
    let mut seen = 0;
    let stop = |_: &str| {
        seen += 1;
        ControlFlow::Break(())
    };
    dataset.visit_batches(&tokenizer, &options, 0, 99, stop).unwrap();
    assert_eq!(seen, 1);
    assert_eq!(dataset.batch(&tokenizer, 99, None).unwrap_err().status(), Status::E_INVALID_ARGUMENT);
    let error = dataset.visit_batches(&tokenizer, &options, 0, 99, |_| Err::<(), _>(Oops(1))).unwrap_err();
    assert_eq!(oops_of(&error), &Oops(1));
    let error = dataset.visit_batches(&tokenizer, &options, 0, 99, |_| -7).unwrap_err();
    assert_eq!((error.status(), error.callback_code()), (Status::E_CALLBACK, -7));
    let visit = || dataset.visit_batches(&tokenizer, &options, 0, 99, |_| -> () { panic!("in a batch") });
    assert_eq!(panic_of(visit), "in a batch");
}

/// The start of Arrow's ArrowArrayStream.
#[repr(C)]
struct Stream {
    get_schema: extern "C" fn(*mut Stream, *mut u8) -> i32,
    get_next: extern "C" fn(*mut Stream, *mut u8) -> i32,
    get_last_error: extern "C" fn(*mut Stream) -> *const u8,
    release: Option<extern "C" fn(*mut Stream)>,
    released: *mut i32,
}

/// A stream that fails: its code is that of the error, and it was released.
#[test]
fn an_arrow_stream_is_taken_over() {
    if !trl::has_feature("arrow") {
        return;
    }
    extern "C" fn fail(_: *mut Stream, _: *mut u8) -> i32 {
        5
    }
    extern "C" fn no_error(_: *mut Stream) -> *const u8 {
        std::ptr::null()
    }
    extern "C" fn release(stream: *mut Stream) {
        unsafe {
            *(*stream).released += 1;
            (*stream).release = None;
        }
    }
    let mut released = 0;
    let mut stream = Stream {
        get_schema: fail,
        get_next: fail,
        get_last_error: no_error,
        release: Some(release),
        released: &mut released,
    };
    let pointer: *mut Stream = &mut stream;
    let error = unsafe { Dataset::from_arrow(pointer.cast(), None, None) }.err().unwrap();
    assert_eq!((error.status(), error.callback_code()), (Status::E_CALLBACK, 5));
    assert!(stream.release.is_none());
    assert_eq!(released, 1);
}

#[test]
fn a_tokenizer_encodes_decodes_and_renders() {
    let tokenizer = Tokenizer::open(MODEL, None, None).unwrap();
    let text = format!("the kernel é 字 🙂 \0 {}", "long ".repeat(400));
    let ids = tokenizer.encode(&text, true).unwrap();
    assert_eq!(tokenizer.decode(&ids, false).unwrap(), text);
    assert_eq!(tokenizer.encode("", true).unwrap(), []);
    assert_eq!(tokenizer.decode(&[], true).unwrap(), "");
    assert_eq!(tokenizer.piece(tokenizer.encode("e", false).unwrap()[0]).unwrap(), "e");
    assert!(Json::read(&tokenizer.describe().unwrap())["vocab_size"].number() > 100.0);
    assert_eq!(tokenizer.decode(&[1_000_000_000], false).unwrap_err().status(), Status::E_INVALID_ARGUMENT);
    assert_eq!(Tokenizer::open("/nowhere", None, None).err().unwrap().status(), Status::E_NOT_FOUND);

    let messages = r#"[{"role": "user", "content": "hi"}]"#;
    let short = tokenizer.apply_chat_template(messages).unwrap();
    let longer = format!("{{\"messages\": {messages}, \"add_generation_prompt\": true}}");
    let longer = tokenizer.apply_chat_template(&longer).unwrap();
    assert!(short.contains("hi") && longer.starts_with(&short) && longer.ends_with("assistant\n"));
    assert_eq!(tokenizer.apply_chat_template("{").unwrap_err().status(), Status::E_FORMAT);
}

#[test]
fn log_and_progress() {
    let path = format!("{SOURCE}/tests/golden/data/datasets/train_lm.jsonl");
    let runtime = Runtime::new(None).unwrap();
    let phases = Arc::new(Mutex::new(Vec::new()));
    let seen = phases.clone();
    runtime.set_progress(move |phase, _, _| seen.lock().unwrap().push(phase.to_string())).unwrap();
    let count = || Dataset::open(&path, None, &runtime)?.row_count();
    count().unwrap();
    assert!(phases.lock().unwrap().contains(&"rows".to_string()));

    runtime.set_progress(|_, _, _| -> () { panic!("in progress") }).unwrap();
    assert_eq!(panic_of(count), "in progress");
    runtime.set_progress(|_, _, _| Err::<(), _>(Oops(3))).unwrap();
    assert_eq!(oops_of(&count().unwrap_err()), &Oops(3));
    runtime.set_progress(|_, _, _| ControlFlow::Break(())).unwrap();
    assert_eq!(count().unwrap_err().status(), Status::E_CANCELLED);
    runtime.clear_progress().unwrap();
    count().unwrap();
}

#[test]
fn a_runtime_is_cancelled_from_another_thread() {
    let runtime = Runtime::new(None).unwrap();
    let (reading, begun) = mpsc::sync_channel(1);
    let endless = move |record: &mut trl::Record<'_>, _| {
        let _ = reading.try_send(());
        record.set_text("text", "one")
    };
    let dataset = Dataset::from_rows(|| 0.., endless, None, &runtime).unwrap();
    let runtime = &runtime;
    thread::scope(|scope| {
        scope.spawn(move || {
            begun.recv().unwrap();
            runtime.cancel();
        });
        assert_eq!(dataset.row_count().unwrap_err().status(), Status::E_CANCELLED);
    });
}
