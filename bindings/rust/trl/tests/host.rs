//! The binding for Rust, as far as it opens no engine.

mod support;

use std::error::Error as _;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{mpsc, Arc, Mutex};
use std::thread;
use support::json::Json;
use support::{asked, panic_of, rows, MODEL, SOURCE};
use trl::{Bf16, Config, ConfigOption, Dataset, Element, Error, OptionType, Runtime, Status, Tensor, Tokenizer};

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
        assert!(!option.doc(None).unwrap().is_empty() && !option.section().is_empty(), "{option:?}");
        assert!(!option.group().is_empty() && !option.since().is_empty(), "{option:?}");
        assert!(["trl", "ours"].contains(&option.origin()), "{option:?}");
        assert!(option.value_type(None).unwrap().name().is_some(), "{option:?}");
        assert_eq!(config.get(option.name()).unwrap(), option.default(None).unwrap(), "{option:?}");
        let _ = (option.unsupported_reason(), option.ignored_reason(), option.taken(), option.is_nullable());
        assert!(option.other_names().all(|name| ConfigOption::find(name).is_none()), "{option:?}");
    }
    let rate = ConfigOption::find("learning_rate").unwrap();
    assert_eq!(rate.value_type(None), Some(OptionType::NUMBER));
    assert!(rate.trainers().any(|name| name == "dpo"));
    assert_ne!(rate.default("dpo"), rate.default(None));
    let loss = ConfigOption::find("loss_type").unwrap();
    assert_ne!(loss.accepted("dpo"), loss.accepted("sft"));
    assert_ne!(loss.doc("dpo"), loss.doc("sft"));
    assert!(!rate.accepted(None).unwrap().is_empty());
    assert_ne!(ConfigOption::find("beta").unwrap().value_type("online_dpo"), Some(OptionType::NUMBER));
    let generations = ConfigOption::find("num_generations").unwrap();
    assert_eq!((generations.default("sft"), generations.value_type("sft")), (None, None));
    assert_eq!((generations.doc("no such trainer"), generations.accepted("a\0b")), (None, None));
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
fn a_schema_has_the_keys_of_a_trainer_or_all() {
    let properties = |trainer| Json::read(&Config::schema(trainer).unwrap())["properties"].object().clone();
    let (all, sft) = (properties(None), properties(Some("sft")));
    assert!(all.len() > sft.len() && all.contains_key("num_generations") && !sft.contains_key("num_generations"));
    assert_eq!(Config::schema("no such trainer").unwrap_err().status(), Status::E_NOT_FOUND);
}

#[test]
fn an_error_has_a_place() {
    let error = Config::new().unwrap().load_text("seed: 1\nmax_steps: x\n").unwrap_err();
    let place = error.place().unwrap();
    assert_eq!((place.file.as_str(), place.line, place.column, place.row), ("text", Some(2), Some(1), None));
    let error = rows(&[r#"{"text": "a"}"#, r#"{"text": nothing}"#]).row_count().unwrap_err();
    let place = error.place().unwrap();
    assert_eq!((place.file.as_str(), place.line, place.row), ("buffer", Some(2), Some(1)));
    assert!(place.column > Some(9));
    let error = Config::new().unwrap().load("/nowhere/recipe.yaml").unwrap_err();
    let place = error.place().unwrap();
    assert_eq!((place.file.as_str(), place.line, place.row), ("/nowhere/recipe.yaml", None, None));
    assert_eq!(Config::new().unwrap().set("seed", "x").unwrap_err().place(), None);
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
    let names = [Status::E_BUSY, Status(77), Status(-99)].map(|status| status.to_string());
    assert_eq!(names, ["TRL_E_BUSY", "TRL_OK", "TRL_E_INTERNAL"]);
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
    shared::<trl::Tensor>();
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
fn rows_of_ids() {
    let tokenizer = Tokenizer::open(MODEL, None, None).unwrap();
    let dataset = Dataset::from_rows(
        || [(); 2].into_iter(),
        |record, ()| {
            record.set_ids("input_ids", &[5, 6, 7])?;
            record.set_ids("labels", &[-100, 6, 7])
        },
        None,
        None,
    )
    .unwrap();
    let example = Json::read(&dataset.example(&tokenizer, 0, None).unwrap());
    assert_eq!((example["input_ids"].ids(), example["labels"].ids()), (vec![5, 6, 7], vec![-100, 6, 7]));
    let empty = Dataset::from_rows(|| Some(()).into_iter(), |record, ()| record.set_ids("a", &[]), None, None);
    assert_eq!(empty.unwrap().row_count().unwrap(), 1);
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
        runtime.set_log(move |_, _, _| _ = &own).unwrap();
        let own = Alive::new(&count);
        runtime.set_progress(move |_, _, _| _ = &own).unwrap();
        assert_eq!(alive(), 2);
    }
    runtime.clear_log().unwrap();
    runtime.clear_progress().unwrap();
    assert_eq!(alive(), 0);
    let own = Alive::new(&count);
    runtime.set_log(move |_, _, _| _ = &own).unwrap();
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
        runtime.set_log(move |_, _, _| _ = &bomb).unwrap();
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
    let mut second = String::new();
    dataset.visit_batches(&tokenizer, &options, 1, 1, |json| second += json).unwrap();
    assert_eq!(batches[1], second);
    let mut seen = 0;
    let stop = |_: &str| {
        seen += 1;
        ControlFlow::Break(())
    };
    dataset.visit_batches(&tokenizer, &options, 0, 99, stop).unwrap();
    assert_eq!(seen, 1);
    let error = dataset.visit_batches(&tokenizer, &options, 99, 1, |_| ()).unwrap_err();
    assert_eq!(error.status(), Status::E_INVALID_ARGUMENT);
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
    let ids = tokenizer.encode(&text, true, None).unwrap();
    assert_eq!(tokenizer.decode(&ids, false).unwrap(), text);
    assert_eq!(tokenizer.encode("", true, None).unwrap(), []);
    assert_eq!(tokenizer.decode(&[], true).unwrap(), "");
    assert_eq!(tokenizer.piece(tokenizer.encode("e", false, None).unwrap()[0]).unwrap(), "e");
    let end = |split: Option<bool>| tokenizer.encode("<|im_end|>", false, split).unwrap().len();
    assert!(end(Some(false)) == 1 && end(None) == 1 && end(Some(true)) > 1);
    let splits = Tokenizer::open(MODEL, &Config::with([("split_special_tokens", true)]).unwrap(), None).unwrap();
    assert_eq!(splits.encode("<|im_end|>", false, None).unwrap().len(), end(Some(true)));
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

/// What a function of a mount does instead of reading.
type Spoil = fn() -> Result<(), trl::HostError>;

/// The files of the model, but for its weights.
fn read_model(spoil: Spoil) -> impl Fn(&str, u64, Option<&mut [u8]>) -> Result<Option<u64>, trl::HostError> {
    move |file, offset, buffer| {
        spoil()?;
        let data = match std::fs::read(format!("{MODEL}/{file}")) {
            Ok(data) => data,
            Err(_) => return Ok(None),
        };
        Ok(Some(match buffer {
            None => data.len() as u64,
            Some(buffer) => (&data[offset as usize..]).read(buffer)? as u64,
        }))
    }
}

#[test]
fn files_of_the_host() {
    let count = Arc::new(AtomicUsize::new(0));
    let alive = || count.load(Ordering::Relaxed);
    let runtime = Runtime::new(None).unwrap();
    let (own, read) = (Alive::new(&count), read_model(|| Ok(())));
    let read = move |file: &str, offset, buffer: Option<&mut [u8]>| {
        let _own = &own;
        read(file, offset, buffer)
    };
    runtime.mount("rust-files", read, |_, _, _, _| ()).unwrap();
    let tokenizer = Tokenizer::open("host://rust-files", None, &runtime).unwrap();
    let expected = Tokenizer::open(MODEL, None, None).unwrap();
    let ids = |tokenizer: &Tokenizer| tokenizer.encode("the kernel", true, None).unwrap();
    assert_eq!(ids(&tokenizer), ids(&expected));
    assert_eq!(Tokenizer::open("host://rust-files/none", None, &runtime).err().unwrap().status(), Status::E_NOT_FOUND);

    // A name belongs to one mount, which what was made with its runtime keeps.
    let own = Alive::new(&count);
    let again = runtime.mount_to_write("rust-files", move |_, _, _, _| _ = &own);
    assert_eq!((again.unwrap_err().status(), alive()), (Status::E_INVALID_ARGUMENT, 1));
    let rows = Dataset::from_buffer("text", b"one", None, &runtime).unwrap();
    drop(runtime);
    assert_eq!(alive(), 1);
    Tokenizer::open("host://rust-files", None, None).unwrap();
    drop(rows);
    assert_eq!(alive(), 1);
    drop(tokenizer);
    assert_eq!(alive(), 0);
    assert_eq!(Tokenizer::open("host://rust-files", None, None).err().unwrap().status(), Status::E_NOT_FOUND);
    let runtime = Runtime::new(None).unwrap();
    assert_eq!(runtime.mount_to_write("a/b", |_, _, _, _| ()).unwrap_err().status(), Status::E_INVALID_ARGUMENT);
    runtime.mount_to_write("rust-files", |_, _, _, _| ()).unwrap();
    assert!(Tokenizer::open("host://rust-files", None, &runtime).is_err());
}

#[test]
fn errors_and_panics_of_files_come_through() {
    let opened = |name: &str, spoil: Spoil| {
        let runtime = Runtime::new(None).unwrap();
        runtime.mount_to_read(name, read_model(spoil)).unwrap();
        Tokenizer::open(format!("host://{name}"), None, &runtime)
    };
    let error = opened("rust-failing", || Err(Oops(4).into())).err().unwrap();
    assert_eq!((error.status(), oops_of(&error)), (Status::E_CALLBACK, &Oops(4)));
    assert_eq!(panic_of(|| opened("rust-panicking", || panic!("in a file"))), "in a file");
}

/// As dlpack.h has it: what another library finds at which byte.
#[test]
fn a_tensor_is_that_of_dlpack() {
    let tensor = Tensor::new(&[2, 3], vec![1f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    assert_eq!(format!("{tensor:?}"), "Tensor(float32[2, 3])");
    assert_eq!((tensor.shape(), tensor.dtype(), tensor.device()), (&[2i64, 3][..], f32::DTYPE, (1, 0)));
    assert_eq!(tensor.as_slice::<f32>(), Some(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0][..]));
    assert_eq!((tensor.as_slice::<i32>(), tensor.as_slice::<f64>()), (None, None));

    let pointer = tensor.into_dlpack();
    unsafe {
        let start = pointer.as_ptr().cast::<u8>();
        unsafe fn at<T: Copy>(start: *mut u8, offset: usize) -> *mut T {
            start.add(offset).cast()
        }
        assert_eq!(*at::<[u32; 2]>(start, 0), [1, 0]);
        assert_eq!((*at::<i32>(start, 48), *at::<[u8; 4]>(start, 52)), (2, [2, 32, 1, 0]));
        let (shape, strides) = (*at::<*mut i64>(start, 56), *at::<*mut i64>(start, 64));
        assert_eq!([*shape, *shape.add(1), *strides, *strides.add(1)], [2, 3, 3, 1]);
        assert_eq!(*(*at::<*mut f32>(start, 32)).add(5), 6.0);

        // Another order of the numbers, a place of the first one, and those that are only read.
        let mut tensor = Tensor::from_dlpack(pointer);
        tensor.as_mut_slice::<f32>().unwrap()[4] = 7.0;
        *at::<u64>(start, 24) = 1;
        assert!(tensor.as_mut_slice::<f32>().is_none());
        assert_eq!(tensor.as_slice::<f32>().unwrap()[4], 7.0);
        *strides = 1;
        assert!(tensor.as_slice::<f32>().is_none());
        (*shape, *at::<u64>(start, 72)) = (1, 12);
        assert_eq!(tensor.as_slice::<f32>(), Some(&[4.0, 7.0, 6.0][..]));
        *at::<i32>(start, 40) = 2;
        assert!(tensor.as_slice::<f32>().is_none());
    }
}

#[test]
fn tensors_of_any_shape_and_type() {
    let one = Tensor::new(&[], vec![Bf16(0x3fc0)]).unwrap();
    assert_eq!((one.shape(), one.dtype().to_string().as_str()), (&[][..], "bfloat16"));
    assert_eq!(one.as_slice::<Bf16>().unwrap().iter().map(|&x| f32::from(x)).collect::<Vec<_>>(), [1.5]);
    assert_eq!(Tensor::new(&[3, 0], Vec::<i64>::new()).unwrap().as_slice::<i64>(), Some(&[][..]));
    assert_eq!(Tensor::from(vec![1u8, 2]).shape(), [2]);
    for shape in [&[2i64, 2][..], &[-1, -3], &[i64::MAX, i64::MAX]] {
        let error = Tensor::new(shape, vec![0f64; 3]).err().unwrap();
        assert_eq!(error.status(), Status::E_INVALID_ARGUMENT);
    }
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
