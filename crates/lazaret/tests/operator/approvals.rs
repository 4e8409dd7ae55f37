//! Questions that one process asks and another answers.

use super::scene::{ASKS, Scene, Server, until};

fn standing(scene: &Scene) -> usize {
    let names = std::fs::read_dir(scene.file("approvals")).unwrap();
    names.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".standing")).count()
}

#[test]
fn an_answer_counts_once_and_is_told_apart_from_no_answer() {
    let scene = Scene::new(&[], &[]);
    scene.rule(ASKS);
    let turn = scene.start(&["agent", "send", "a", "add 1"]);
    let id = scene.question();
    let list = scene.done(&["approvals", "list"]);
    assert!(list.contains(&id) && list.lines().all(|line| line.chars().count() <= 80), "{list}");
    let shown = scene.done(&["approvals", "show", &id[..6]]);
    assert!(shown.contains("effect      storage.set") && shown.contains("scope       this effect, once"), "{shown}");
    let yes = scene.done(&["approvals", "approve", &id]);
    assert!(yes.starts_with(&shown) && yes.contains(&format!("approved {id} with key ")), "what was shown: {yes}");
    let said = turn.end();
    assert_eq!((said.code, said.flat.contains("total=1 count=1")), (0, true), "{}", said.text);

    for again in ["approve", "deny", "show"] {
        let said = scene.run(&["approvals", again, &id]);
        assert_eq!(said.code, 9, "{}", said.text);
        assert!(said.flat.contains("was answered before: approved with key "), "{}", said.text);
    }
    let never = scene.run(&["approvals", "approve", "beef"]);
    assert_eq!((never.code, never.text.contains("no question `beef` waits")), (1, true), "{}", never.text);

    let turn = scene.start(&["agent", "send", "a", "add 2"]);
    let denied = scene.question();
    scene.done(&["approvals", "deny", &denied]);
    let said = turn.end();
    assert!(said.flat.contains("approval-denied"), "{}", said.text);

    let turn = scene.start(&["--patience", "1", "agent", "send", "a", "add 3"]);
    let silent = scene.question();
    let said = turn.end();
    assert!(said.flat.contains("approval-expired") && said.flat.contains("silence is denial"), "{}", said.text);
    let late = scene.run(&["approvals", "approve", &silent]);
    assert_eq!((late.code, late.flat.contains("has expired")), (9, true), "{}", late.text);
    let status = scene.json(&["status"]);
    assert_eq!((&status["questions"], &status["pending"]), (&3.into(), &0.into()), "{status}");
}

#[test]
fn of_two_answers_the_first_stands() {
    let scene = Scene::new(&[], &[]);
    scene.rule(ASKS);
    let turn = scene.start(&["agent", "send", "a", "add 1"]);
    let id = scene.question();
    let codes: Vec<i32> = std::thread::scope(|scope| {
        let answers: Vec<_> = ["approve", "deny", "approve", "deny"]
            .map(|verdict| scope.spawn(|| scene.run(&["approvals", verdict, &id]).code))
            .into_iter()
            .collect();
        answers.into_iter().map(|answer| answer.join().unwrap()).collect()
    });
    assert_eq!(codes.iter().filter(|code| **code == 0).count(), 1, "{codes:?}");
    assert_eq!(turn.end().code, 0);
    assert_eq!(scene.json(&["status"])["questions"], 1);
}

#[test]
fn wider_than_once_is_seen_before_it_is_said() {
    let scene =
        Scene::new(&["tool:pay"], &["--cap", "currency=EUR", "--cap", "day.money=9000000", "--cap", "rails=card"]);
    scene.done(&["agent", "send", "a", "add 1"]);
    scene.done(&["agent", "send", "a", "add 2"]);
    scene.rule(ASKS);

    let turn = scene.start(&["agent", "send", "a", "add 3"]);
    let id = scene.question();
    let unseen = scene.run(&["approvals", "approve", &id, "--for-minutes", "5"]);
    assert_eq!(unseen.code, 3, "nobody at a terminal: {}", unseen.text);
    assert!(unseen.text.contains("pattern     storage.set total"), "{}", unseen.text);
    assert!(unseen.text.contains("it would have covered 2 past effects"), "{}", unseen.text);
    let misses = scene.run(&["approvals", "approve", &id, "--for-run", "--pattern", "storage.set other/*", "--yes"]);
    assert_eq!((misses.code, misses.flat.contains("does not cover the effect")), (3, true), "{}", misses.text);
    scene.done(&["approvals", "approve", &id, "--for-minutes", "5", "--yes"]);
    assert_eq!(turn.end().code, 0);
    // Other runs of the agent are covered, so nobody is asked.
    assert!(scene.done(&["agent", "send", "a", "add 4"]).contains("total=10"));
    assert!(scene.done(&["replay", "verify", "a"]).contains("MATCH"));
    assert_eq!(standing(&scene), 1);
    // A decision is one by its signature over the pattern and the number that were shown.
    let file = std::fs::read_dir(scene.file("approvals")).unwrap().find_map(|entry| {
        let path = entry.unwrap().path();
        path.extension().is_some_and(|ending| ending == "standing").then_some(path)
    });
    let file = file.unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("\"matched\":2"), "{text}");
    std::fs::write(&file, text.replace("\"matched\":2", "\"matched\":3")).unwrap();
    let turn = scene.start(&["agent", "send", "a", "add 5"]);
    let id = scene.question();
    scene.done(&["approvals", "approve", &id, "--for-run", "--yes"]);
    assert_eq!(turn.end().code, 0);
    std::fs::remove_file(&file).unwrap();
    // What holds for a run ends with it.
    assert_eq!(standing(&scene), 0);
    let turn = scene.start(&["--patience", "1", "agent", "send", "a", "add 6"]);
    scene.question();
    assert!(turn.end().flat.contains("approval-expired"));

    let pay = r#"tool pay {"amount_micros":1000000,"currency":"EUR","rail":"card","to":"shop"}"#;
    let turn = scene.start(&["agent", "send", "a", pay]);
    let id = scene.question();
    for wide in [["--for-run", "--yes"].as_slice(), &["--for-minutes", "5", "--yes"]] {
        let refused = scene.run(&[&["approvals", "approve", &id], wide].concat());
        assert_eq!(refused.code, 3, "{}", refused.text);
        assert!(refused.flat.contains("of high risk and leaves the host"), "{}", refused.text);
    }
    scene.done(&["approvals", "approve", &id]);
    assert!(turn.end().flat.contains("there is no tool `pay` here"), "it was let pass, once");
}

#[test]
fn an_answer_by_another_key_is_ignored_and_reported() {
    let scene = Scene::new(&[], &[]);
    scene.rule(ASKS);
    let turn = scene.start(&["agent", "send", "a", "add 1"]);
    let id = scene.question();
    let key = scene.file("approver.key");
    let own = std::fs::read(&key).unwrap();
    std::fs::write(&key, [7; 32]).unwrap();
    scene.done(&["approvals", "approve", &id]);
    let decision = scene.file(format!("approvals/{id}.decision"));
    until("the answer is looked at", || (!decision.exists()).then_some(()));
    // Nor is something else that lies there.
    std::fs::write(&decision, "yes!").unwrap();
    until("the answer is looked at", || (!decision.exists()).then_some(()));
    assert_eq!(scene.question(), id, "it waits still");
    std::fs::write(&key, own).unwrap();
    scene.done(&["approvals", "approve", &id]);
    let said = turn.end();
    let text = &said.flat;
    assert_eq!(said.code, 0, "{text}");
    assert!(
        text.contains(&format!("ignored: an answer to question {id} does not count: no approver has the key")),
        "{text}"
    );
    assert!(text.contains("does not count: a decision that can't be read"), "{text}");
    assert!(scene.done(&["replay", "verify", "a"]).contains("MATCH"));
}

#[test]
fn a_crash_between_the_yes_and_the_end_needs_another_yes() {
    let server = Server::start(false);
    let scene = Scene::new(&[&server.grant()], &[]);
    scene.rule(ASKS);
    let turn = scene.start(&["agent", "send", "a", &format!("fetch {}", server.url())]);
    let id = scene.question();
    scene.done(&["approvals", "approve", &id]);
    server.wait_for_request();
    turn.crash();
    // The request may be made again, but not on the same yes: the turn is taken up with a question of its own.
    let recovery = scene.start(&["agent", "send", "a", "recall"]);
    let another = scene.question();
    assert_ne!(another, id);
    assert_eq!(scene.run(&["approvals", "approve", &id]).code, 9, "the old yes is spent");
    scene.done(&["approvals", "deny", &another]);
    let said = recovery.end();
    assert!(said.flat.contains("turn 1 of `a` was cut off and is now finished"), "{}", said.text);
    assert_eq!(server.more_requests(), 0, "one yes, one request");
    assert!(scene.done(&["replay", "verify", "a"]).contains("MATCH"));

    // A crash before anybody answered leaves no question behind that could be answered.
    let turn = scene.start(&["agent", "send", "a", "add 1"]);
    let id = scene.question();
    turn.crash();
    scene.done(&["agent", "send", "a", "recall"]);
    assert_eq!(scene.run(&["approvals", "approve", &id]).code, 1);
}
