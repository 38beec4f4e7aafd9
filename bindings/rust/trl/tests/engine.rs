//! The binding for Rust with the engine.

mod support;

use std::error::Error as _;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{mpsc, Arc, Mutex};
use std::thread;
use std::time::Duration;
use support::json::{quoted, Json};
use support::{asked, panic_of, rows, Folder, MODEL};
use trl::{
    Answer, Config, Evaluator, Event, EventKind, Generator, LogLevel, Model, Rollout, Runtime, Status, TextForm,
    Tokenizer, Trainer,
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

fn global_step(trainer: &mut Trainer) -> f64 {
    Json::read(&trainer.describe().unwrap())["global_step"].number()
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
    assert_eq!(global_step(&mut trainer), 4.0);
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
    assert_eq!(global_step(&mut trainer), 1.0);
    let failing = |event: Event<'_>| if is_step(&event, 2.0) { Err("no more") } else { Ok(()) };
    let error = trainer.train(failing).unwrap_err();
    assert_eq!((error.status(), error.source().unwrap().to_string().as_str()), (Status::E_CALLBACK, "no more"));
    let error = trainer.train(|event| if is_step(&event, 3.0) { -7 } else { 0 }).unwrap_err();
    assert_eq!((error.status(), error.callback_code()), (Status::E_CALLBACK, -7));
    assert!(trainer.train(|_| ControlFlow::Continue(())).unwrap());
    assert_eq!(global_step(&mut trainer), 4.0);
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
    assert!(global_step(&mut trainer) < 10.0);
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
    let before = global_step(&mut trainer);

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
    assert!(trainer.evaluate().unwrap().get("eval_loss").is_some());
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
        let mut generator = Some(trainer.as_mut().unwrap().generator().unwrap());
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
    let mut seen = Vec::new();
    let completions = generator
        .generate(&["the kernel", "a page"], &options(&keys), |token| seen.push((token.completion, token.id)))
        .unwrap();
    assert_eq!(completions.len(), 4);
    for (index, completion) in completions.iter().enumerate() {
        assert_eq!(completion.finish_reason(), Some("length"));
        let tokens: Vec<i32> = seen.iter().filter(|(number, _)| *number == index).map(|(_, id)| *id).collect();
        assert_eq!(tokens, completion.token_ids());
        let json = Json::read(completion.json());
        assert_eq!((json["token_ids"].ids(), json["text"].text()), (tokens, completion.text()));
        assert_eq!(json["logprobs"].list().len(), 4);
    }
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

#[test]
fn adapters() {
    let folder = Folder::new();
    let keys = [("use_peft", "true"), ("lora_r", "2"), ("max_steps", "1"), ("lora_target_modules", "all-linear")];
    let mut trainer = trainer(&folder, &keys);
    trainer.train(|_| ()).unwrap();
    let path = folder.join("adapter");
    trainer.save_to(&path, None).unwrap();
    trainer.add_adapter("other", &path).unwrap();
    let with = options(&[("generate.adapter", "other"), ("generate.max_new_tokens", "1")]);
    trainer.generator().unwrap().generate(&["the"], &with, |_| ()).unwrap();
    trainer.remove_adapter("other").unwrap();

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
