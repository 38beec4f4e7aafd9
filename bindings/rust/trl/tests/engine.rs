//! The binding for Rust with the engine.

mod support;

use std::collections::BTreeMap;
use std::error::Error as _;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{mpsc, Arc, Mutex};
use std::thread;
use std::time::Duration;
use support::json::{quoted, Json};
use support::{asked, panic_of, rows, Folder, MODEL};
use trl::{
    Answer, Bf16, Config, Control, Element, Evaluator, Event, EventKind, Generator, LogLevel, Model, Rollout, Runtime,
    Status, Tensor, TextForm, Tokenizer, Trainer, WriteKind,
};

const TEXTS: &[&str] = &["the kernel waits", "the driver wakes", "a page is read", "a lock is taken"];
const SUMS: &[&str] = &[
    r#"{"prompt": "0 + 1 =", "target": 1}"#,
    r#"{"prompt": "1 + 1 =", "target": 2}"#,
    r#"{"prompt": "2 + 1 =", "target": 3}"#,
    r#"{"prompt": "3 + 1 =", "target": 4}"#,
];

fn options<V: std::fmt::Display>(keys: &[(&str, V)]) -> Config {
    Config::with(keys.iter().map(|(key, value)| (key, value))).unwrap()
}

fn config(folder: &Folder, keys: &[(&str, &str)]) -> Config {
    let mut config = options(&[
        ("model_name_or_path", MODEL),
        ("max_steps", "4"),
        ("per_device_train_batch_size", "2"),
        ("save_strategy", "no"),
        ("logging_strategy", "no"),
        ("report_to", "none"),
        ("bf16", "false"),
    ]);
    config.set("output_dir", folder.join("out").display()).unwrap();
    for (key, value) in keys {
        config.set(key, value).unwrap();
    }
    config
}

fn trainer(folder: &Folder, keys: &[(&str, &str)]) -> Trainer {
    Trainer::new(&config(folder, keys), &asked(TEXTS), None, None).unwrap()
}

/// A trainer that writes completions.
fn online(folder: &Folder, lines: &[&str], keys: &[(&str, &str)]) -> Trainer {
    let mut all =
        vec![("method", "grpo"), ("num_generations", "2"), ("max_completion_length", "5"), ("max_steps", "2")];
    all.extend(keys);
    Trainer::new(&config(folder, &all), &rows(lines), None, None).unwrap()
}

fn global_step(trainer: &Control) -> f64 {
    Json::read(&trainer.describe().unwrap())["global_step"].number()
}

const MATRIX: &str = "model.layers.0.mlp.down_proj.weight";

/// The numbers of a tensor.
fn numbers(model: &mut Model, name: &str) -> Vec<f32> {
    model.read_tensor(name).unwrap().as_slice::<f32>().unwrap().to_vec()
}

fn is_step(event: &Event<'_>, step: f64) -> bool {
    event.kind() == EventKind::STEP && event.get("step") == Some(step)
}

// ---- training -------------------------------------------------------------------------------------------------------

#[test]
fn events_tell_and_are_answered() {
    let folder = Folder::new();
    let dataset = asked(TEXTS);
    let mut trainer = Trainer::new(&config(&folder, &[]), &dataset, &dataset, None).unwrap();
    let mut kinds = Vec::new();
    let on_event = |event: Event<'_>| {
        kinds.push(event.kind());
        assert_eq!(event.get("max_steps"), Some(4.0));
        assert_eq!(event.get("no such number"), None);
        assert!(event.iter().any(|(name, value)| name == "max_steps" && value == 4.0));
        assert!(format!("{event:?}").contains("\"max_steps\": 4.0"));
        if event.kind() == EventKind::SAVE {
            assert!(std::path::Path::new(event.text("path").unwrap()).is_dir());
            assert_eq!(event.text("completions"), None);
        }
        match event.get("step") {
            Some(step) if is_step(&event, 2.0) && step == 2.0 => Answer::SAVE | Answer::EVALUATE,
            Some(_) if is_step(&event, 3.0) => Answer::STOP,
            _ => Answer(0),
        }
    };
    assert!(trainer.train(on_event).unwrap());
    assert_eq!(kinds.iter().filter(|&&kind| kind == EventKind::STEP).count(), 3);
    assert!(kinds.contains(&EventKind::SAVE) && kinds.contains(&EventKind::EVALUATE));
    assert!(trainer.train(|_| ()).unwrap());
    assert!(!trainer.train(|_| ()).unwrap());
    assert_eq!(global_step(&trainer), 4.0);
}

#[test]
fn a_panic_or_an_error_of_an_event_ends_the_call_and_the_next_one_resumes() {
    let folder = Folder::new();
    let mut trainer = trainer(&folder, &[]);
    let mut later = 0;
    let message = panic_of(|| {
        trainer.train(|event| {
            later += i32::from(event.kind() == EventKind::TRAIN_END);
            if is_step(&event, 1.0) {
                panic!("at {}", event.get("step").unwrap());
            }
        })
    });
    assert_eq!((message.as_str(), later), ("at 1", 0));
    assert_eq!(global_step(&trainer), 1.0);
    let failing = |event: Event<'_>| if is_step(&event, 2.0) { Err("no more") } else { Ok(()) };
    let error = trainer.train(failing).unwrap_err();
    assert_eq!((error.status(), error.source().unwrap().to_string().as_str()), (Status::E_CALLBACK, "no more"));
    let error = trainer.train(|event| if is_step(&event, 3.0) { -7 } else { 0 }).unwrap_err();
    assert_eq!((error.status(), error.callback_code()), (Status::E_CALLBACK, -7));
    assert!(trainer.train(|_| ControlFlow::Continue(())).unwrap());
    assert_eq!(global_step(&trainer), 4.0);
}

/// It has no status: the next function of the host in the call ends it, and what a call has made is freed.
#[test]
fn a_panic_of_the_log_ends_a_run() {
    let folder = Folder::new();
    let mut runtime = Runtime::new(None).unwrap();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let seen = lines.clone();
    runtime.set_log(move |level, _, text| seen.lock().unwrap().push((level, text.to_string()))).unwrap();
    let config = config(&folder, &[("max_steps", "10000")]);
    let dataset = asked(TEXTS);
    let mut trainer = Trainer::new(&config, &dataset, None, &runtime).unwrap();
    trainer.step().unwrap();
    assert!(lines.lock().unwrap().iter().any(|(level, text)| *level == LogLevel::INFO && !text.is_empty()));
    runtime.set_log(|_, component, _| panic!("in the log of {component}")).unwrap();
    assert!(panic_of(|| trainer.train(|_| ())).starts_with("in the log of "));
    assert!(global_step(&trainer) < 10.0);
    assert!(panic_of(|| Trainer::new(&config, &dataset, None, &runtime)).starts_with("in the log of "));
    runtime.clear_log().unwrap();
    Json::read(&runtime.describe().unwrap())["engine"].object();
}

#[test]
fn a_trainer_is_cancelled_and_paused_from_another_thread() {
    let folder = Folder::new();
    let mut trainer = trainer(&folder, &[("max_steps", "100000")]);
    let (begun, waiting) = mpsc::sync_channel(1);
    let control = trainer.control();
    let cancel = thread::spawn(move || {
        waiting.recv().unwrap();
        control.cancel();
    });
    let error = trainer.train(|_| drop(begun.try_send(()))).unwrap_err();
    assert_eq!(error.status(), Status::E_CANCELLED);
    cancel.join().unwrap();
    let before = global_step(&trainer);

    let control = trainer.control();
    control.pause();
    let resumed = Arc::new(AtomicUsize::new(0));
    let done = resumed.clone();
    let resume = thread::spawn(move || {
        thread::sleep(Duration::from_millis(100));
        done.store(1, Ordering::SeqCst);
        control.resume();
    });
    assert_eq!(trainer.step().unwrap().unwrap().get("step"), Some(before + 1.0));
    assert_eq!(resumed.load(Ordering::SeqCst), 1);
    resume.join().unwrap();

    // From within, too; and after the trainer is gone nothing happens.
    let control = trainer.control();
    let stop = |event: Event<'_>| {
        if event.kind() == EventKind::STEP {
            control.cancel()
        }
    };
    assert_eq!(trainer.train(stop).unwrap_err().status(), Status::E_CANCELLED);
    drop(trainer);
    control.cancel();
    control.pause();
    control.resume();
    let error = control.describe().unwrap_err();
    assert_eq!((error.status(), error.to_string().as_str()), (Status::E_INVALID_ARGUMENT, "this trainer is gone"));
    assert!(control.set_learning_rate(1.0).is_err() && control.model().is_err());
}

/// The state after the last step that is done, beside a run and within it.
#[test]
fn a_trainer_is_described_while_it_trains() {
    let folder = Folder::new();
    let mut trainer = trainer(&folder, &[("max_steps", "4")]);
    let (done, steps) = mpsc::sync_channel(0);
    let (told, go_on) = mpsc::sync_channel(0);
    let (control, other) = (trainer.control(), trainer.control());
    let describe = thread::spawn(move || {
        for step in steps {
            assert_eq!(global_step(&other), step);
            assert_eq!(other.integers("global_step").unwrap(), [step as i64]);
            assert_eq!(Json::read(&other.describe().unwrap())["metrics"]["step"].number(), step);
            told.send(()).unwrap();
        }
    });
    let on_event = move |event: Event<'_>| {
        if event.kind() == EventKind::STEP {
            let step = event.get("step").unwrap();
            assert_eq!(global_step(&control), step);
            assert_eq!(control.model().unwrap().tensors().unwrap_err().status(), Status::E_BUSY);
            done.send(step).unwrap();
            go_on.recv().unwrap();
        }
    };
    trainer.train(on_event).unwrap();
    describe.join().unwrap();
    assert_eq!(trainer.integers("vocab_size").unwrap(), [512]);
    let parameters = trainer.integers("parameter_count").unwrap();
    assert_eq!(parameters, trainer.integers("trained_parameter_count").unwrap());
    assert!(parameters[0] > 1000);
    assert!(trainer.integers("eos_token_ids").unwrap().contains(&475));
    assert_eq!(trainer.integers("no such name").unwrap_err().status(), Status::E_NOT_FOUND);
}

#[test]
fn halves_of_a_step_are_the_step() {
    let folder = Folder::new();
    let (mut whole, mut halves) = (trainer(&folder, &[]), trainer(&folder, &[]));
    let (mut expected, mut model) = (whole.model().unwrap(), halves.model().unwrap());
    assert_eq!(halves.update(true).unwrap_err().status(), Status::E_INVALID_ARGUMENT);
    assert_eq!(model.read_gradient(MATRIX).unwrap_err().status(), Status::E_NOT_FOUND);
    let first = numbers(&mut model, MATRIX);

    let loss = halves.backward().unwrap().unwrap().get("loss").unwrap();
    assert_eq!(halves.backward().unwrap_err().status(), Status::E_INVALID_ARGUMENT);
    assert_eq!(halves.step().unwrap_err().status(), Status::E_INVALID_ARGUMENT);
    assert_eq!(numbers(&mut model, MATRIX), first);
    let gradient = model.read_gradient(MATRIX).unwrap();
    assert_eq!(gradient.shape(), model.read_tensor(MATRIX).unwrap().shape());
    assert!(gradient.as_slice::<f32>().unwrap().iter().any(|&number| number != 0.0));
    assert_eq!(halves.update(true).unwrap().get("loss"), Some(loss));
    assert_eq!(whole.step().unwrap().unwrap().get("loss"), Some(loss));
    let updated = numbers(&mut model, MATRIX);
    assert_ne!(updated, first);
    assert_eq!(numbers(&mut expected, MATRIX), updated);

    halves.backward().unwrap().unwrap();
    halves.update(false).unwrap();
    assert_eq!(numbers(&mut model, MATRIX), updated);
    while halves.backward().unwrap().is_some() {
        halves.update(true).unwrap();
    }
    assert_eq!(global_step(&halves), 4.0);
    assert!(halves.step().unwrap().is_none());
}

#[test]
fn the_learning_rate_is_set() {
    let folder = Folder::new();
    let keys = [("lr_scheduler_type", "constant"), ("learning_rate", "1e-3"), ("max_steps", "4")];
    let mut trainer = trainer(&folder, &keys);
    trainer.set_learning_rate(0.25).unwrap();
    assert_eq!(trainer.step().unwrap().unwrap().get("learning_rate"), Some(0.25));
    assert_eq!(trainer.set_learning_rate(-1.0).unwrap_err().status(), Status::E_INVALID_ARGUMENT);
    let (control, mut rates) = (trainer.control(), Vec::new());
    let on_event = |event: Event<'_>| -> trl::Result<()> {
        if event.kind() == EventKind::STEP {
            rates.push(event.get("learning_rate").unwrap());
            control.set_learning_rate(if rates.len() == 1 { Some(0.5) } else { None })?;
        }
        Ok(())
    };
    trainer.train(on_event).unwrap();
    assert_eq!(rates, [0.25, 0.5, 1e-3]);
}

#[test]
fn a_trainer_moves_between_threads() {
    let folder = Folder::new();
    let mut trainer = trainer(&folder, &[]);
    trainer.step().unwrap();
    let mut trainer = thread::spawn(move || {
        trainer.step().unwrap();
        trainer
    })
    .join()
    .unwrap();
    assert_eq!(trainer.step().unwrap().unwrap().get("step"), Some(3.0));
}

#[test]
fn within_an_event_everything_else_is_busy() {
    let folder = Folder::new();
    let dataset = asked(TEXTS);
    let mut trainer = Trainer::new(&config(&folder, &[("max_steps", "1")]), &dataset, None, None).unwrap();
    let mut busy = 0;
    trainer
        .train(|event| {
            if event.kind() == EventKind::STEP {
                assert_eq!(dataset.row_count().unwrap_err().status(), Status::E_BUSY);
                busy += 1;
            }
        })
        .unwrap();
    assert_eq!(busy, 1);
}

#[test]
fn steps_evaluations_and_saves() {
    let folder = Folder::new();
    let dataset = asked(TEXTS);
    let mut trainer = Trainer::new(&config(&folder, &[("max_steps", "2")]), &dataset, &dataset, None).unwrap();
    assert!(trainer.step().unwrap().unwrap().get("loss").is_some());
    let loss = trainer.evaluate(None).unwrap().get("eval_loss").unwrap();
    assert_eq!(trainer.evaluate(&dataset).unwrap().get("eval_loss"), Some(loss));
    assert_ne!(trainer.evaluate(&asked(&["another row"])).unwrap().get("eval_loss"), Some(loss));
    trainer.save_to(folder.join("checkpoint"), &options(&[("save.kind", "checkpoint")])).unwrap();
    trainer.save_to(folder.join("model"), None).unwrap();
    let last = format!("{:?}", trainer.step().unwrap().unwrap());
    assert!(trainer.step().unwrap().is_none());
    trainer.save(None).unwrap();
    assert!(folder.join("out/model.safetensors").exists());

    let resumed = folder.join("checkpoint").display().to_string();
    let again =
        config(&folder, &[("max_steps", "2"), ("resume_from_checkpoint", &resumed), ("overwrite_output_dir", "true")]);
    let mut again = Trainer::new(&again, &dataset, None, None).unwrap();
    assert_eq!(format!("{:?}", again.step().unwrap().unwrap()), last);

    let model = folder.join("model").display().to_string();
    let keys =
        [("model_name_or_path", model.as_str()), ("sample_prompts", r#"["the"]"#), ("sample_max_new_tokens", "2")];
    let mut evaluator = Evaluator::new(&config(&folder, &keys), None).unwrap();
    assert!(evaluator.evaluate(&dataset).unwrap().get("eval_loss").is_some());
    assert_eq!(Json::read(&evaluator.complete().unwrap()).list().len(), 1);
}

#[test]
fn plans_and_checks() {
    let folder = Folder::new();
    let plan = trl::plan(&config(&folder, &[]), &asked(TEXTS), None).unwrap();
    assert!(Json::read(&plan.json)["peak_bytes"].number() > 0.0);
    assert!(plan.text.contains("memory"));
    let runtime = Runtime::new(None).unwrap();
    trl::check(&config(&folder, &[]), &runtime).unwrap();
    let error = trl::check(&config(&folder, &[("resume_from_checkpoint", "/nowhere")]), &runtime).unwrap_err();
    assert_eq!((error.status(), error.key()), (Status::E_NOT_FOUND, Some("resume_from_checkpoint")));
}

#[test]
fn any_order_of_destruction() {
    let folder = Folder::new();
    let few = options(&[("generate.max_new_tokens", 1)]);
    for order in 0..24 {
        let mut names = vec!["runtime", "rows", "trainer", "generator"];
        let mut mutable_runtime = Runtime::new(None).unwrap();
        mutable_runtime.set_log(|_, _, _| ()).unwrap();
        let mut runtime = Some(mutable_runtime);
        let texts = || TEXTS.iter();
        let fill = |record: &mut trl::Record<'_>, text: &&str| record.set_text("text", text);
        let mut rows = Some(trl::Dataset::from_rows(texts, fill, None, runtime.as_ref()).unwrap());
        let keys = config(&folder, &[("max_steps", "9")]);
        let mut trainer = Some(Trainer::new(&keys, rows.as_ref().unwrap(), None, runtime.as_ref()).unwrap());
        let mut generator = Some(trainer.as_ref().unwrap().generator().unwrap());
        let mut number = order;
        while !names.is_empty() {
            let next = number % names.len();
            number /= names.len();
            match names.remove(next) {
                "runtime" => drop(runtime.take()),
                "rows" => drop(rows.take()),
                "trainer" => drop(trainer.take()),
                _ => drop(generator.take()),
            }
            if let Some(trainer) = &mut trainer {
                trainer.step().unwrap();
            }
            if let Some(generator) = &mut generator {
                assert_eq!(generator.generate(&["the"], &few, |_| ()).unwrap().len(), 1);
            }
        }
    }
}

// ---- generating -----------------------------------------------------------------------------------------------------

fn generator() -> Generator {
    let tokenizer = Tokenizer::open(MODEL, None, None).unwrap();
    Model::open(MODEL, None, None).unwrap().generator(&tokenizer).unwrap()
}

#[test]
fn prompts_together() {
    let mut generator = generator();
    let keys = [
        ("generate.max_new_tokens", 4),
        ("generate.num_return_sequences", 2),
        ("generate.logprobs", 0),
        ("generate.temperature", 1),
    ];
    let (mut seen, mut told) = (Vec::new(), Vec::new());
    let completions = generator
        .generate(&["the kernel", "a page"], &options(&keys), |token| {
            seen.push((token.completion, token.id));
            told.push((token.completion, token.log_probability.unwrap()));
        })
        .unwrap();
    assert_eq!(completions.len(), 4);
    for (index, completion) in completions.iter().enumerate() {
        assert_eq!(completion.finish_reason(), Some("length"));
        let tokens: Vec<i32> = seen.iter().filter(|(number, _)| *number == index).map(|(_, id)| *id).collect();
        assert_eq!(tokens, completion.token_ids());
        let json = Json::read(completion.json());
        assert_eq!((json["token_ids"].ids(), json["text"].text()), (tokens, completion.text()));
        let of_tokens: Vec<f64> = json["logprobs"].list().iter().map(Json::number).collect();
        assert_eq!(told.iter().filter(|(number, _)| *number == index).map(|one| one.1).collect::<Vec<_>>(), of_tokens);
    }
    let without = |token: trl::Token<'_>| assert_eq!(token.log_probability, None);
    generator.generate(&["the"], &options(&[("generate.max_new_tokens", 1)]), without).unwrap();
    assert!(completions.get(4).is_none());
    assert!(generator.generate(&[] as &[&str], None, |_| ()).unwrap().is_empty());
}

#[test]
fn an_answer_ends_a_completion_and_a_panic_the_call() {
    let mut generator = generator();
    let nine = options(&[("generate.max_new_tokens", 9)]);
    let done = generator.generate(&["the"], &nine, |_| ControlFlow::Break(())).unwrap();
    assert_eq!(done.get(0).unwrap().token_ids().len(), 1);
    assert_eq!(done.get(0).unwrap().finish_reason(), Some("callback"));
    assert_eq!(panic_of(|| generator.generate(&["the"], &nine, |_| -> () { panic!("at a token") })), "at a token");
    let error = generator.generate(&["the"], &nine, |_| Err::<(), _>("no more")).err().unwrap();
    assert_eq!(error.source().unwrap().to_string(), "no more");
    assert_eq!(generator.generate(&["the"], &nine, |_| ()).unwrap().get(0).unwrap().token_ids().len(), 9);
}

#[test]
fn requests() {
    let mut generator = generator();
    let keys = [("generate.max_new_tokens", "3"), ("generate.keep", "true")];
    let first = generator.add("the kernel", &options(&keys)).unwrap();
    let second = generator.add(&[1, 2, 3], &options(&[("generate.max_new_tokens", 50)])).unwrap();
    let mut tokens = 0;
    while tokens < 6 {
        assert!(generator.step(|_| tokens += 1).unwrap());
    }
    assert_eq!(generator.take(first, 1).unwrap().get(0).unwrap().finish_reason(), Some("length"));
    generator.extend(first, " waits", &options(&[("generate.max_new_tokens", 2)])).unwrap();
    generator.cancel(second, 1).unwrap();
    while generator.step(|_| ()).unwrap() {}
    assert_eq!(generator.take(first, 1).unwrap().get(0).unwrap().token_ids().len(), 2);
    assert_eq!(generator.take(second, 1).unwrap().get(0).unwrap().finish_reason(), Some("cancelled"));
    generator.cancel(first, 1).unwrap();
    generator.release_memory().unwrap();
    assert_eq!(generator.take(second, 1).err().unwrap().status(), Status::E_NOT_FOUND);
}

#[test]
fn streams() {
    let mut generator = generator();
    let six = options(&[("generate.max_new_tokens", 6)]);
    let whole = generator.generate(&["the kernel"], &six, |_| ()).unwrap();
    let whole = whole.get(0).unwrap();
    let pieces: Vec<(i32, String)> = generator.stream("the kernel", &six).unwrap().map(Result::unwrap).collect();
    assert_eq!(pieces.iter().map(|(id, _)| *id).collect::<Vec<_>>(), whole.token_ids());
    assert_eq!(pieces.iter().map(|(_, text)| text.as_str()).collect::<String>(), whole.text());
    let mut stream = generator.stream("the kernel", &six).unwrap();
    stream.next().unwrap().unwrap();
    drop(stream);
    assert!(!generator.step(|_| ()).unwrap());
}

#[test]
fn describes_converts_and_saves() {
    let folder = Folder::new();
    let mut model = Model::open(MODEL, None, None).unwrap();
    let parameters = |model: &Model| Json::read(&model.describe().unwrap())["parameters"].number();
    let target = folder.join("model.gguf");
    trl::convert(MODEL, &target, &options(&[("convert.type", "f32")]), None).unwrap();
    let mut again = Model::open(&target, None, None).unwrap();
    assert_eq!(parameters(&again), parameters(&model));
    again.save(folder.join("again"), None).unwrap();
    assert!(folder.join("again/config.json").exists());
    assert_eq!(model.score(&["text"], TextForm::ANSWER, None).unwrap_err().status(), Status::E_UNSUPPORTED);
    assert_eq!(Model::open("/nowhere", None, None).err().unwrap().status(), Status::E_NOT_FOUND);
}

/// It sees every step, and lives on without the trainer's object, as tensors do without it.
#[test]
fn the_model_of_a_trainer() {
    let folder = Folder::new();
    let mut trainer = trainer(&folder, &[]);
    let mut model = trainer.model().unwrap();
    let first = numbers(&mut model, MATRIX);
    let view = unsafe { model.view_tensor(MATRIX) }.unwrap();
    assert_eq!(view.as_slice::<f32>().unwrap(), first);
    trainer.step().unwrap();
    let copy = model.read_tensor(MATRIX).unwrap();
    assert_ne!(copy.as_slice::<f32>().unwrap(), first);
    assert_eq!(view.as_slice::<f32>().unwrap().len(), first.len()); // its memory is readable
    trainer.save_to(folder.join("model"), None).unwrap();
    let mut saved = Model::open(folder.join("model"), None, None).unwrap();
    assert_eq!(copy.as_slice::<f32>().unwrap(), numbers(&mut saved, MATRIX));
    assert_eq!(model.save(folder.join("again"), None).unwrap_err().status(), Status::E_UNSUPPORTED);

    drop(trainer);
    assert_eq!(copy.as_slice::<f32>().unwrap(), numbers(&mut model, MATRIX));
    let few = options(&[("generate.max_new_tokens", 1)]);
    assert_eq!(model.generator(None).unwrap().generate(&["the"], &few, |_| ()).unwrap().len(), 1);
    drop(model);
    assert_eq!(view.as_slice::<f32>().unwrap().len(), first.len());
    thread::spawn(move || drop((view, copy))).join().unwrap();
}

#[test]
fn tensors_are_listed_read_and_written() {
    let mut model = Model::open(MODEL, None, None).unwrap();
    let list = Json::read(&model.tensors().unwrap());
    let entry = list.list().iter().find(|entry| entry["name"].text() == MATRIX).unwrap();
    let shape: Vec<i64> = entry["shape"].list().iter().map(|size| size.number() as i64).collect();
    assert_eq!((entry["dtype"].text(), entry["trained"].clone()), ("float32", Json::Bool(false)));

    let mut tensor = model.read_tensor(MATRIX).unwrap();
    assert_eq!((tensor.shape(), tensor.dtype(), tensor.device()), (&shape[..], f32::DTYPE, (1, 0)));
    tensor.as_mut_slice::<f32>().unwrap()[1] = 0.5;
    let expected = tensor.as_slice::<f32>().unwrap().to_vec();
    model.write_tensor(MATRIX, tensor).unwrap();
    assert_eq!(numbers(&mut model, MATRIX), expected);
    let view = unsafe { model.view_tensor(MATRIX) }.unwrap();
    assert_eq!(view.as_slice::<f32>().unwrap(), expected);

    let halves = Tensor::new(&shape, vec![Bf16(0x3f00); expected.len()]).unwrap();
    model.write_tensor(MATRIX, halves).unwrap();
    assert!(numbers(&mut model, MATRIX).iter().all(|&number| number == 0.5));
    model.write_tensor("model.norm.weight", vec![2f64; 64]).unwrap();
    assert_eq!(numbers(&mut model, "model.norm.weight"), [2.0; 64]);

    assert_eq!(model.read_tensor("no such tensor").unwrap_err().status(), Status::E_NOT_FOUND);
    let refused = [model.write_tensor(MATRIX, vec![0f32]), model.write_tensor("model.norm.weight", vec![0i32; 64])];
    assert_eq!(refused.map(|result| result.unwrap_err().status()), [Status::E_INVALID_ARGUMENT; 2]);
}

/// Saved into memory, and opened from there.
#[test]
fn files_of_the_host() {
    let folder = Folder::new();
    let (runtime, mut trainer) = (Runtime::new(None).unwrap(), trainer(&folder, &[]));
    let files = Arc::new(Mutex::new(BTreeMap::<String, Vec<u8>>::new()));
    let (kinds, fails) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let (source, target, told, failing) = (files.clone(), files.clone(), kinds.clone(), fails.clone());
    let read = move |file: &str, offset: u64, buffer: Option<&mut [u8]>| -> std::io::Result<Option<u64>> {
        Ok(match (source.lock().unwrap().get(file), buffer) {
            (None, _) => None,
            (Some(data), None) => Some(data.len() as u64),
            (Some(data), Some(buffer)) => Some((&data[offset as usize..]).read(buffer)? as u64),
        })
    };
    let write = move |kind: WriteKind, file: &str, offset: u64, data: &[u8]| -> Result<(), trl::HostError> {
        if kind != WriteKind::DATA {
            told.lock().unwrap().push((kind, file.to_string()));
            return Ok(());
        }
        match failing.load(Ordering::Relaxed) {
            1 => return Err("the disk is full".into()),
            2 => panic!("in a file"),
            _ => {}
        }
        let mut files = target.lock().unwrap();
        let stored = files.entry(file.to_string()).or_default();
        stored.truncate(offset as usize);
        stored.extend_from_slice(data);
        Ok(())
    };
    runtime.mount("rust-engine", read, write).unwrap();
    trainer.save_to("host://rust-engine/model", None).unwrap();
    assert_eq!(kinds.lock().unwrap().drain(..).collect::<Vec<_>>(), [(WriteKind::DONE, "model".to_string())]);
    assert!(files.lock().unwrap().contains_key("model/model.safetensors"));
    let mut opened = Model::open("host://rust-engine/model", None, &runtime).unwrap();
    assert_eq!(numbers(&mut opened, MATRIX), numbers(&mut trainer.model().unwrap(), MATRIX));

    let mut save = |fails_so: usize| {
        fails.store(fails_so, Ordering::Relaxed);
        trainer.save_to("host://rust-engine/other", None)
    };
    let error = save(1).unwrap_err();
    assert_eq!(
        (error.status(), error.source().unwrap().to_string().as_str()),
        (Status::E_CALLBACK, "the disk is full")
    );
    assert_eq!(panic_of(|| save(2)), "in a file");
    assert_eq!(*kinds.lock().unwrap(), vec![(WriteKind::DROPPED, "other".to_string()); 2]);
    save(0).unwrap();
}

#[test]
fn adapters() {
    let folder = Folder::new();
    let keys = [("use_peft", "true"), ("lora_r", "2"), ("max_steps", "1"), ("lora_target_modules", "all-linear")];
    let mut trainer = trainer(&folder, &keys);
    trainer.train(|_| ()).unwrap();
    let path = folder.join("adapter");
    trainer.save_to(&path, None).unwrap();
    let mut own = trainer.model().unwrap();
    own.add_adapter("other", &path).unwrap();
    let with = options(&[("generate.adapter", "other"), ("generate.max_new_tokens", "1")]);
    own.generator(None).unwrap().generate(&["the"], &with, |_| ()).unwrap();
    own.remove_adapter("other").unwrap();
    assert_eq!(own.use_adapter("default").unwrap_err().status(), Status::E_UNSUPPORTED);

    let mut model = Model::open(MODEL, None, None).unwrap();
    model.add_adapter("mine", &path).unwrap();
    model.use_adapter("mine").unwrap();
    model.merge_adapter("mine").unwrap();
    model.merge_adapter(None).unwrap();
    model.use_adapter(None).unwrap();
    model.remove_adapter("mine").unwrap();
    assert_eq!(model.use_adapter("mine").unwrap_err().status(), Status::E_NOT_FOUND);
}

#[test]
fn scores() {
    let folder = Folder::new();
    let pairs = rows(&[r#"{"prompt": "one", "chosen": " two", "rejected": " four"}"#; 2]);
    let keys = config(&folder, &[("method", "reward"), ("max_steps", "1")]);
    let mut trainer = Trainer::new(&keys, &pairs, None, None).unwrap();
    trainer.train(|_| ()).unwrap();
    trainer.save(None).unwrap();
    let mut scorer = Model::open(folder.join("out"), None, None).unwrap();
    let both = scorer.score(&["one two", "one\0three"], TextForm::ANSWER, None).unwrap();
    let one = scorer.score(&["one two".to_string()], TextForm::ANSWER, None).unwrap();
    assert!((both[0] - one[0]).abs() < 1e-5 && (both[0] - both[1]).abs() > 1e-5);
}

// ---- rewards, rollouts and tools ------------------------------------------------------------------------------------

fn reward_all(rollout: Rollout) -> trl::Result<()> {
    (0..rollout.len()).try_for_each(|index| rollout.set_reward(index, 1.0))
}

#[test]
fn rewards_now_and_later() {
    let folder = Folder::new();
    let mut trainer = online(&folder, SUMS, &[("logging_strategy", "steps"), ("logging_steps", "1")]);
    trainer
        .add_reward("now", |rollout: Rollout| -> trl::Result<()> {
            for (index, row) in rollout.rows().enumerate() {
                let row = Json::read(&row?);
                rollout.set_reward(index, row["completion_ids"].list().len() as f64)?;
                rollout.set_value(index, "note", "{\"a\": 1}")?;
            }
            rollout.log("mine", 2.0)?;
            assert_eq!(rollout.row(rollout.len()).unwrap_err().status(), Status::E_INVALID_ARGUMENT);
            rollout.finish()
        })
        .unwrap();
    let joined = Arc::new(Mutex::new(Vec::new()));
    let threads = joined.clone();
    trainer
        .add_reward("later", move |rollout: Rollout| -> trl::Result<()> {
            threads.lock().unwrap().push(thread::spawn(move || {
                for index in 0..rollout.len() {
                    let reward = if index == 0 { None } else { Some(0.5) };
                    rollout.set_reward(index, reward).unwrap();
                }
                thread::sleep(Duration::from_millis(5)); // the rollout ends here
            }));
            Ok(())
        })
        .unwrap();
    trainer.train(|_| ()).unwrap();
    joined.lock().unwrap().drain(..).for_each(|thread| thread.join().unwrap());
    let state = Json::read(&trainer.describe().unwrap());
    let record = &state["log_history"].list()[0];
    assert_eq!((record["rewards/later/mean"].number(), record["mine"].number()), (0.5, 2.0));

    let error = trainer.add_reward("now", reward_all).unwrap_err();
    assert!(matches!(error.status(), Status::E_INVALID_CONFIG | Status::E_INVALID_ARGUMENT), "{error}");
}

#[test]
fn a_reward_that_fails_can_be_tried_again() {
    let folder = Folder::new();
    let mut trainer = online(&folder, SUMS, &[]);
    let mut asked = 0;
    trainer
        .add_reward("reward", move |rollout: Rollout| -> Result<(), trl::HostError> {
            asked += 1;
            match asked {
                1 => panic!("in a reward"),
                2 => Err("no reward".into()),
                3 => Ok(rollout.fail("at once")?),
                4 => {
                    thread::spawn(move || {
                        thread::sleep(Duration::from_millis(5));
                        rollout.fail("the judge is away").unwrap();
                    });
                    Ok(())
                }
                5 => {
                    thread::spawn(move || {
                        let _own = rollout;
                        std::panic::resume_unwind(Box::new("the judge fell"));
                    });
                    Ok(())
                }
                _ => Ok(reward_all(rollout)?),
            }
        })
        .unwrap();
    assert_eq!(panic_of(|| trainer.step().map(drop)), "in a reward");
    assert_eq!(trainer.step().unwrap_err().source().unwrap().to_string(), "no reward");
    for reason in ["at once", "the judge is away", "a thread of the host has panicked"] {
        let error = trainer.step().unwrap_err();
        assert!(error.status() == Status::E_CALLBACK && error.to_string().contains(reason), "{error}");
    }
    assert_eq!(trainer.step().unwrap().unwrap().get("step"), Some(1.0));
}

/// A rollout that outlives its function, although that has failed, is over.
#[test]
fn a_rollout_ends_with_its_function() {
    let folder = Folder::new();
    let mut trainer = online(&folder, SUMS, &[]);
    let kept = Arc::new(Mutex::new(None));
    let keep = kept.clone();
    trainer
        .add_reward("reward", move |rollout: Rollout| -> Result<(), &str> {
            *keep.lock().unwrap() = Some(rollout);
            Err("not today")
        })
        .unwrap();
    assert_eq!(trainer.step().unwrap_err().source().unwrap().to_string(), "not today");
    let rollout = kept.lock().unwrap().take().unwrap();
    assert_eq!(rollout.set_reward(0, 1.0).unwrap_err().to_string(), "this rollout is over");
    assert!(rollout.is_empty());
    rollout.finish().unwrap();
}

#[test]
fn the_host_writes_completions() {
    let folder = Folder::new();
    let mut trainer = online(&folder, SUMS, &[]);
    let written = Arc::new(Mutex::new(Vec::new()));
    let seen = written.clone();
    trainer
        .add_reward("reward", move |rollout: Rollout| -> trl::Result<()> {
            for (index, row) in rollout.rows().enumerate() {
                let row = Json::read(&row?);
                seen.lock().unwrap().push(row["completion_ids"].ids());
                rollout.set_reward(index, row["columns"]["mark"].number())?;
            }
            Ok(())
        })
        .unwrap();
    trainer
        .set_rollout(|rollout: Rollout| -> trl::Result<()> {
            let wrong = rollout.set_completion(0, &[1, 2], &[0.0][..], None, None).unwrap_err();
            assert!(wrong.to_string().contains("one value for each of the 2 ids"));
            for index in 0..rollout.len() {
                let (log_probs, columns) = ([-1.0, -2.0, f32::NAN], format!("{{\"mark\": {index}}}"));
                rollout.set_completion(
                    index,
                    &[5, 6, 7],
                    &log_probs[..],
                    &[true, true, false][..],
                    columns.as_str(),
                )?;
            }
            Ok(())
        })
        .unwrap();
    trainer.step().unwrap().unwrap();
    assert_eq!(*written.lock().unwrap(), vec![vec![5, 6, 7]; 2]);
}

/// With a generator of the trainer, which the function owns: all of it is freed with the trainer.
#[test]
fn a_generator_of_the_trainer_writes_completions() {
    let folder = Folder::new();
    let alive = Arc::new(());
    {
        let mut trainer = online(&folder, SUMS, &[]);
        trainer
            .add_reward("reward", |rollout: Rollout| {
                (0..rollout.len()).try_for_each(|index| rollout.set_reward(index, (index % 2) as f64))
            })
            .unwrap();
        let (mut generator, four, own) =
            (trainer.generator().unwrap(), options(&[("generate.max_new_tokens", 4)]), alive.clone());
        trainer
            .set_rollout(move |rollout: Rollout| -> trl::Result<()> {
                let _own = &own;
                for index in 0..rollout.len() {
                    let ids = Json::read(&rollout.row(index)?)["prompt_ids"].ids();
                    let first = generator.add(&ids, &four)?;
                    while generator.step(|_| ())? {}
                    let taken = generator.take(first, 1)?;
                    rollout.set_completion(index, taken.get(0).unwrap().token_ids(), None, None, None)?;
                }
                Ok(())
            })
            .unwrap();
        assert!(trainer.step().unwrap().is_some());
    }
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[test]
fn tools() {
    let folder = Folder::new();
    let tools = r#"[{"type": "function", "function": {"name": "add", "description": "Adds.", "parameters":
        {"type": "object", "properties": {"a": {"type": "integer"}}}}}]"#;
    let stop = format!("{{\"stop_token_ids\": {:?}}}", (0..96).collect::<Vec<_>>());
    let keys = [
        ("tools", tools),
        ("tool_call_parser", "host"),
        ("max_completion_length", "200"),
        ("generation_kwargs", stop.as_str()),
    ];
    let chats: Vec<String> = ["One?", "Two?"]
        .iter()
        .map(|text| format!("{{\"prompt\": [{{\"role\": \"user\", \"content\": {}}}]}}", quoted(text)))
        .collect();
    let chats: Vec<&str> = chats.iter().map(String::as_str).collect();
    let mut trainer = online(&folder, &chats, &keys);
    trainer.add_reward("reward", reward_all).unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let (counted, mut called) = (calls.clone(), Vec::new());
    trainer
        .set_tools(move |rollout: Rollout| -> trl::Result<()> {
            for (index, row) in rollout.rows().enumerate() {
                let row = Json::read(&row?);
                if row["ask"].text() == "call" {
                    assert_eq!(row["calls"].list()[0]["name"].text(), "add");
                    counted.fetch_add(1, Ordering::Relaxed);
                    rollout.set_value(index, "results", "[41]")?;
                    continue;
                }
                let place = row["place"].number();
                let call =
                    r#", "tool_calls": [{"type": "function", "function": {"name": "add", "arguments": {"a": 1}}}]"#;
                let call = if called.contains(&place) { "" } else { call };
                called.push(place);
                let message = format!("{{\"role\": \"assistant\", \"content\": \"I add.\"{call}}}");
                rollout.set_value(index, "message", &message)?;
            }
            Ok(())
        })
        .unwrap();
    assert!(trainer.step().unwrap().is_some());
    assert_eq!(calls.load(Ordering::Relaxed), 2);
}
