//! The binding for Rust with the engine: rewards, rollouts and tools.

mod support;

use std::error::Error as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use support::json::{quoted, Json};
use support::{config, options, panic_of, rows, Folder};
use trl::{Rollout, Status, Trainer};

const SUMS: &[&str] = &[
    r#"{"prompt": "0 + 1 =", "target": 1}"#,
    r#"{"prompt": "1 + 1 =", "target": 2}"#,
    r#"{"prompt": "2 + 1 =", "target": 3}"#,
    r#"{"prompt": "3 + 1 =", "target": 4}"#,
];

/// A trainer that writes completions.
fn online(folder: &Folder, lines: &[&str], keys: &[(&str, &str)]) -> Trainer {
    let mut all =
        vec![("method", "grpo"), ("num_generations", "2"), ("max_completion_length", "5"), ("max_steps", "2")];
    all.extend(keys);
    Trainer::new(&config(folder, &all), &rows(lines), None, None).unwrap()
}

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

#[test]
fn a_reward_that_fails_may_count_as_none() {
    let folder = Folder::new();
    let keys = [("on_reward_error", "none"), ("logging_strategy", "steps"), ("logging_steps", "1")];
    let mut trainer = online(&folder, SUMS, &keys);
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    trainer
        .add_reward("fails", move |_: Rollout| -> Result<(), &str> {
            count.fetch_add(1, Ordering::Relaxed);
            Err("in a reward")
        })
        .unwrap();
    trainer.add_reward("reward", reward_all).unwrap();
    trainer.train(|_| ()).unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    let state = Json::read(&trainer.describe().unwrap());
    assert_eq!(state["log_history"].list()[1]["rewards/reward/mean"].number(), 1.0);
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
