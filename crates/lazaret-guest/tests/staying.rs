//! Pages that a turn wrote stay mapped for the next one, whatever thread that is on. Whatever comes between, a turn finds the
//! heap as its image says: after turns on other threads, after turns that failed, trapped or grew, and after changes that never
//! got to disk.

#![expect(clippy::expect_used, reason = "in a test a panic is the report")]

use std::sync::mpsc::{Sender, channel};

use lazaret_gate::record::{Ending, Message};
use lazaret_gate::{Budget, Digest, Effect, Halt, Outcome};
use lazaret_guest::{Engine, Program, State, Terms, World, turn};

const TURNS: usize = 4_000;
const THREADS: usize = 3;

/// Pages that an agent writes to: more than stay mapped without having changed.
const PAGES: usize = 24;

/// A message is what to do, a page and a value: the value is written to the page, and the reply is made from all pages.
const AGENT: &str = r#"(component
  (import "lazaret:host/types@0.1.0" (instance $types
    (type $m (record (field "sender" (option string)) (field "content-type" string) (field "body" (list u8))))
    (export "message" (type (eq $m)))
    (type $p (record (field "content-type" string) (field "body" (list u8))))
    (export "reply" (type (eq $p)))
    (type $e (variant (case "bad-input" string) (case "failed" string)))
    (export "failure" (type (eq $e)))))
  (alias export $types "message" (type $message))
  (alias export $types "reply" (type $reply))
  (alias export $types "failure" (type $failure))
  (core module $pages
    (memory (export "memory") 2 8)
    (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
    (func $sum (result i32)
      (local $page i32) (local $sum i32)
      (loop $next
        (local.set $page (i32.add (local.get $page) (i32.const 1)))
        (local.set $sum (i32.add (local.get $sum) (i32.mul (local.get $page)
          (i32.load8_u (i32.mul (local.get $page) (i32.const 4096))))))
        (br_if $next (i32.lt_u (local.get $page) (i32.const 24))))
      (local.get $sum))
    (func (export "handle") (param i32 i32 i32 i32 i32) (param $body i32) (param $len i32) (result i32)
      (local $what i32)
      (local.set $what (i32.load8_u (local.get $body)))
      (i32.store8 (i32.mul (i32.load8_u offset=1 (local.get $body)) (i32.const 4096)) (i32.load8_u offset=2 (local.get $body)))
      (if (i32.eq (local.get $what) (i32.const 2)) (then unreachable))
      (if (i32.eq (local.get $what) (i32.const 3)) (then (drop (memory.grow (i32.const 1)))))
      ;; A reply with four bytes, or an error without words.
      (i32.store (i32.const 512) (call $sum))
      (i32.store (i32.const 256) (i32.eq (local.get $what) (i32.const 1)))
      (i32.store (i32.const 260) (i32.const 0))
      (i32.store (i32.const 264) (i32.const 0))
      (i32.store (i32.const 268) (select (i32.const 0) (i32.const 512) (i32.load (i32.const 256))))
      (i32.store (i32.const 272) (select (i32.const 0) (i32.const 4) (i32.load (i32.const 256))))
      (i32.const 256)))
  (core instance $main (instantiate $pages))
  (alias core export $main "memory" (core memory $mem))
  (func (export "handle") (param "input" $message) (result (result $reply (error $failure)))
    (canon lift (core func $main "handle") (memory $mem) (realloc (core func $main "cabi_realloc")))))"#;

struct Silence;

impl World for Silence {
    fn ask(&mut self, _: Effect) -> Result<Outcome, Halt> {
        Err(Halt::Stopped("nothing is asked here".into()))
    }
}

type Work = Box<dyn FnOnce() + Send>;

/// Threads that live as long as the test.
fn threads() -> Vec<Sender<Work>> {
    let start = |_| {
        let (send, receive) = channel::<Work>();
        std::thread::spawn(move || receive.into_iter().for_each(|work| work()));
        send
    };
    (0..THREADS).map(start).collect()
}

/// What is done with a change.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Settled,
    /// As after a commit that failed: the state is dropped.
    Lost,
}

/// Takes a turn; the state after it, with its image's root if there is a new one, and the reply.
fn take(
    program: &Program,
    mut state: State,
    body: [u8; 3],
    fate: Fate,
    stays: bool,
) -> (Option<State>, Option<Digest>, Option<u32>) {
    let input = Message::outside("", body.to_vec());
    let budget = Budget::default();
    let terms = Terms { input: &input, budget: &budget };
    let (ran, leftover) = turn::run_and_leave(program, &state, &terms, Box::new(Silence));
    let reply = match ran.ending.expect("an end") {
        Ending::Replied(reply) => Some(u32::from_le_bytes(reply.body.0.try_into().expect("four bytes"))),
        Ending::Failed(_) | Ending::Stopped(_) => None,
    };
    let root = ran.change.as_ref().and_then(|change| {
        let sealed = state.advance(change);
        sealed.memories[0].nodes[0]
    });
    if stays {
        leftover.settle(&mut state, ran.change).expect("room");
    } else {
        drop(leftover);
        ran.change.map_or(Ok(()), |change| state.settle(change)).expect("room");
    }
    ((fate == Fate::Settled).then_some(state), root, reply)
}

fn newborn(program: &Program) -> State {
    let birth = program.birth().expect("a birth");
    let mut state = State::default();
    let _ = state.advance(&birth);
    state.settle(birth).expect("room");
    state
}

/// A state whose pages hold these values, made by turns that leave nothing mapped.
fn made(program: &Program, pages: &[u8; PAGES + 1], grown: usize) -> State {
    let mut state = newborn(program);
    for (page, value) in pages.iter().enumerate().skip(1).filter(|(_, value)| **value != 0) {
        state = take(program, state, [0, page as u8, *value], Fate::Settled, false).0.expect("it was settled");
    }
    for _ in 0..grown {
        state = take(program, state, [3, 1, pages[1]], Fate::Settled, false).0.expect("it was settled");
    }
    state
}

#[test]
fn a_turn_finds_the_heap_as_its_image_says() {
    let engine = Engine::new().expect("an engine");
    let program = engine.admit(&wat::parse_str(AGENT).expect("a component")).expect("an agent").program;
    let threads = threads();
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below as u64) as usize
    };
    let (mut state, mut pages, mut grown) = (newborn(&program), [0_u8; PAGES + 1], 0);
    let (mut lost, mut failed) = (0, 0);
    for number in 0..TURNS {
        let what = [0, 0, 0, 0, 0, 0, 1, 2, 3][random(9)];
        // Mostly the same pages, as real agents do.
        let page = 1 + if random(4) == 0 { random(PAGES) } else { random(3) };
        let value = random(256) as u8;
        let fate = if random(12) == 0 { Fate::Lost } else { Fate::Settled };
        let body = [what, page as u8, value];
        let (send, receive) = channel();
        let (on, taken) = (program.clone(), state);
        let work = move || drop(send.send(take(&on, taken, body, fate, true)));
        threads[if random(3) == 0 { random(THREADS) } else { 0 }].send(Box::new(work)).expect("a thread");
        let (after, root, reply) = receive.recv().expect("a turn");
        let replies = what == 0 || what == 3;
        let mut expected = pages;
        expected[page] = value;
        let sum = expected.iter().enumerate().map(|(page, value)| page as u32 * u32::from(*value)).sum::<u32>();
        assert_eq!(reply, replies.then_some(sum), "turn {number}: {body:?}");
        failed += usize::from(!replies);
        if replies && number % 16 == 0 {
            let (_, plain, _) = take(&program, made(&program, &pages, grown), body, Fate::Lost, false);
            assert_eq!(root, plain, "turn {number}: the image has another root than where nothing stays");
        }
        match after {
            Some(after) => {
                state = after;
                if replies {
                    pages = expected;
                    grown = (grown + usize::from(what == 3)).min(6);
                }
            }
            None => {
                lost += 1;
                state = made(&program, &pages, grown);
            }
        }
    }
    assert!(lost > TURNS / 30 && failed > TURNS / 10, "{lost} changes lost, {failed} turns failed");
}
