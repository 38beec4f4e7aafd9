//! The binding for Rust with the engine: trainers.

mod support;

use std::error::Error as _;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{mpsc, Arc, Mutex};
use std::thread;
use std::time::Duration;
use support::json::Json;
use support::{asked, config, global_step, numbers, options, panic_of, trainer, Folder, MATRIX, TEXTS};
use trl::{Answer, Evaluator, Event, EventKind, LogLevel, Runtime, Status, Trainer};

fn is_step(event: &Event<'_>, step: f64) -> bool {
    event.kind() == EventKind::STEP && event.get("step") == Some(step)
}

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
    let error = trainer.train(|_| _ = begun.try_send(())).unwrap_err();
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
