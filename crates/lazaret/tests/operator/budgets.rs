//! Sums that balance, whatever happens in the middle of a turn.

use serde_json::Value;

use super::scene::{Scene, Server};

/// What is used of a line, and what of the account is reserved.
fn account(scene: &Scene) -> (u64, usize) {
    let shown = scene.json(&["budget", "show", "a"]);
    let effects = |line: &&Value| line["unit"] == "effects" && line["period"] == "total";
    let line = shown["lines"].as_array().unwrap().iter().find(effects).expect("a line");
    (line["used"].as_u64().unwrap(), shown["account"]["open"].as_array().unwrap().len())
}

#[test]
fn sums_balance_after_a_crash_in_the_middle_of_a_turn() {
    let server = Server::start(false);
    let caps = ["--cap", "total.effects=100", "--cap", "total.bytes_out=100000"];
    let scene = Scene::new(&[&server.grant()], &caps);
    scene.done(&["agent", "send", "a", "add 1"]);
    assert_eq!(account(&scene), (1, 0));
    for round in 0..3 {
        let turn = scene.start(&["agent", "send", "a", &format!("fetch {}", server.url())]);
        server.wait_for_request();
        turn.crash();
        assert_eq!(account(&scene), (1 + round, 0), "nothing is booked before the turn is over");
        // The turn is taken up, its request is made again, and an operator stops that.
        let recovery = scene.start(&["agent", "send", "a", "recall"]);
        server.wait_for_request();
        scene.done(&["kill", "all"]);
        let said = recovery.end();
        assert_eq!(said.code, 6, "{}", said.text);
        assert_eq!(account(&scene), (2 + round, 0), "one effect, once");
        scene.done(&["kill", "--lift"]);
        scene.done(&["agent", "send", "a", "recall"]);
    }
    scene.done(&["journal", "verify"]);
}

#[test]
fn an_effect_in_doubt_is_booked_when_a_person_has_settled_it() {
    let server = Server::start(false);
    let scene = Scene::new(&[&server.grant()], &["--cap", "total.effects=100"]);
    let turn = scene.start(&["agent", "send", "a", &format!("post {} hello", server.url())]);
    server.wait_for_request();
    turn.crash();
    let said = scene.run(&["agent", "send", "a", "recall"]);
    assert_eq!(said.code, 8, "{}", said.text);
    assert_eq!(account(&scene), (0, 0));
    scene.done(&["agent", "settle", "a", "--failed"]);
    assert_eq!(account(&scene), (1, 0));
    assert_eq!(server.more_requests(), 0, "it was not sent again");
}
