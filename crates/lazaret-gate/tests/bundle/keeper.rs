//! A keeper in miniature: it journals made-up turns of made-up agents, signs, and gives out bundles.

use std::collections::BTreeMap;

use ed25519_dalek::SigningKey;
use lazaret_gate::bundle::Builder;
use lazaret_gate::canonical::{self, Bytes, Digest, Exact};
use lazaret_gate::checkpoint::{Checkpoint, Verifier};
use lazaret_gate::effect::{Effect, Header, Level, Prompt, Request, Role, Utterance};
use lazaret_gate::entry::{Entry, NO_ENTRY};
use lazaret_gate::image::{Image, PAGE, PageTree, name_page};
use lazaret_gate::ledger::{Account, Caps, Holder};
use lazaret_gate::merkle::{self, Hash, Prover};
use lazaret_gate::outcome::{Answer, Completion, Entry as Stored, KeyInfo, Outcome, Response, Tool};
use lazaret_gate::record::{
    AgentCreated, AgentForked, AgentQuarantined, AgentRemoved, AgentRolledBack, AgentWoken, Body, Cause,
    ComponentAdmitted, EffectClosed, EffectOpened, Ending, Failure, Genesis, InDoubt, JOURNAL_FORMAT, Judged, Message,
    Reply, Stop, TapeEntry, TurnRecord, World,
};
use lazaret_gate::refusal::{Code, Layer};
use lazaret_gate::{AgentId, Budget, Grants, Labels, Refusal, Rulings, labels};

/// A small generator of numbers that look random (splitmix64): a seed gives back any failure.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, most: usize) -> usize {
        (self.roll() % most.max(1) as u64) as usize
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

pub(crate) struct Keeper {
    pub(crate) signing: SigningKey,
    pub(crate) verifier: Verifier,
    pub(crate) entries: Vec<Entry>,
    pub(crate) blobs: BTreeMap<Digest, Vec<u8>>,
}

impl Keeper {
    pub(crate) fn new(seed: u8) -> Self {
        let signing = SigningKey::from_bytes(&[seed; 32]);
        let verifier = Verifier::of_host(signing.verifying_key());
        let genesis = Genesis { format: JOURNAL_FORMAT.to_owned(), key: verifier.to_text() };
        let mut keeper = Self { signing, verifier, entries: Vec::new(), blobs: BTreeMap::new() };
        keeper.append(Body::Genesis(genesis));
        keeper
    }

    pub(crate) fn append(&mut self, body: Body) -> Digest {
        let prev = self.entries.last().map_or(NO_ENTRY, |entry| Digest::of_value(entry).unwrap());
        let seq = self.entries.len() as u64;
        let entry = Entry { body, prev, seq, time: 1_700_000_000_000 + 17 * seq };
        self.entries.push(entry);
        Digest::of_value(&self.entries[seq as usize]).unwrap()
    }

    pub(crate) fn put(&mut self, bytes: Vec<u8>) -> Digest {
        let digest = Digest::of(&bytes);
        self.blobs.insert(digest, bytes);
        digest
    }

    pub(crate) fn note(&self, size: u64, root: Hash) -> String {
        self.verifier.sign(&Checkpoint { size, root }, &self.signing)
    }

    /// A bundle of these entries, with older checkpoints at these sizes.
    pub(crate) fn bundle(&self, seqs: impl IntoIterator<Item = u64>, older: &[u64]) -> Vec<u8> {
        let leaves = self.entries.iter().map(|entry| merkle::leaf(&canonical::encode(entry).unwrap())).collect();
        let prover = Prover::new(leaves);
        let size = prover.size();
        let mut builder = Builder::new(&self.verifier.to_text()).unwrap();
        builder.checkpoint(&self.note(size as u64, prover.root(size).unwrap()), &[]).unwrap();
        for old in older {
            let root = prover.root(*old as usize).unwrap();
            builder.checkpoint(&self.note(*old, root), &prover.consistency(*old as usize, size).unwrap()).unwrap();
        }
        for seq in seqs {
            let proof = prover.inclusion(seq as usize, size).unwrap();
            builder.entry(self.entries[seq as usize].clone(), &proof).unwrap();
        }
        builder.finish(|digest| self.blobs.get(digest).cloned().ok_or_else(|| format!("no blob {digest}"))).unwrap()
    }

    pub(crate) fn everything(&self) -> Vec<u8> {
        let size = self.entries.len() as u64;
        let mut older: Vec<u64> = [size - 1, size / 2, 1].into_iter().filter(|old| (1..size).contains(old)).collect();
        older.dedup();
        self.bundle(0..size, &older)
    }
}

/// An agent and its memory between turns.
pub(crate) struct Sleeper {
    created: AgentCreated,
    tree: PageTree,
    size: u32,
    image: Option<Digest>,
    turn: u64,
    previous: Digest,
    /// What each turn left, the first being how it began: the entry, the image and the pages.
    past: Vec<(Digest, Option<Digest>, PageTree, Labels)>,
    /// What it has seen.
    labels: Labels,
}

impl Sleeper {
    pub(crate) fn create(keeper: &mut Keeper, dice: &mut Dice, name: &str, world: World) -> Self {
        let component = keeper.put(format!("component of {name}, {}", dice.roll()).into_bytes());
        let engine = Digest::of(b"engine");
        let size = keeper.blobs[&component].len() as u64;
        keeper.append(Body::ComponentAdmitted(ComponentAdmitted { component, size, world, engine }));
        let created = AgentCreated {
            agent: name.parse().unwrap(),
            component,
            world,
            engine,
            grants: grants(dice),
            budget: Budget { fuel: dice.roll() >> 11, ..Budget::default() },
            caps: Caps::default(),
            slots: Default::default(),
            image: None,
        };
        // Three nodes' worth of memory, so that there are absent nodes and absent pages.
        let (tree, past, labels) = (PageTree::default(), Vec::new(), Labels::new());
        let mut agent = Self { created, tree, size: 48, image: None, turn: 0, previous: NO_ENTRY, past, labels };
        agent.dream(keeper, dice);
        agent.created.image = agent.image;
        agent.previous = keeper.append(Body::AgentCreated(agent.created.clone()));
        agent.remember();
        agent
    }

    fn remember(&mut self) {
        self.past.push((self.previous, self.image, self.tree.clone(), self.labels.clone()));
    }

    pub(crate) fn turns(&self) -> u64 {
        self.turn
    }

    /// Another agent, as this one was after a turn.
    pub(crate) fn fork(&self, keeper: &mut Keeper, name: &str, turn: u64) -> Self {
        let (entry, image, tree, labels) = self.past[turn as usize].clone();
        let agent: AgentId = name.parse().unwrap();
        let image = image.map(|image| {
            let image: Image = canonical::decode(&keeper.blobs[&image]).unwrap();
            keeper.put(canonical::encode(&Image { agent: agent.clone(), turn: 0, ..image }).unwrap())
        });
        let created = AgentCreated { agent: agent.clone(), image, ..self.created.clone() };
        let AgentCreated { component, world, engine, grants, budget, caps, slots, .. } = created.clone();
        let from = self.created.agent.clone();
        let forked =
            AgentForked { agent, component, world, engine, grants, budget, caps, slots, image, from, turn, entry };
        let previous = keeper.append(Body::AgentForked(Box::new(forked)));
        let mut fork = Self { created, tree, size: self.size, image, turn: 0, previous, past: Vec::new(), labels };
        fork.remember();
        fork
    }

    pub(crate) fn roll_back(&mut self, keeper: &mut Keeper, to: u64) {
        let (entry, image, tree, labels) = self.past[to as usize].clone();
        (self.image, self.tree, self.labels) = (image, tree, labels);
        let (agent, by, image) = (self.created.agent.clone(), "an operator".to_owned(), image.unwrap());
        let (taken, previous) = (self.turn, self.previous);
        let back = AgentRolledBack { agent, by, to, entry, image, taken, previous };
        self.previous = keeper.append(Body::AgentRolledBack(back));
    }

    /// Changes a few pages and falls asleep.
    fn dream(&mut self, keeper: &mut Keeper, dice: &mut Dice) {
        if self.created.world == World::Stateless {
            return;
        }
        for _ in 0..1 + dice.below(3) {
            let index = *dice.pick(&[0, 1, 255, 256, 600, 767]);
            let page = [dice.below(3) as u8; PAGE];
            let name = name_page(&page);
            if name.is_some() {
                keeper.put(page.to_vec());
            }
            self.tree.set(index, name.map(|page| page.digest()));
        }
        let (memory, fresh) = self.tree.seal(self.size);
        for node in fresh {
            keeper.put(node.bytes().to_vec());
        }
        let image = Image {
            agent: self.created.agent.clone(),
            component: self.created.component,
            engine: self.created.engine,
            turn: self.turn,
            memories: vec![memory, lazaret_gate::image::Memory { size: 0, nodes: Vec::new() }],
            globals: vec![vec![Exact(dice.roll())], Vec::new()],
        };
        self.image = Some(keeper.put(canonical::encode(&image).unwrap()));
    }

    pub(crate) fn take_turn(&mut self, keeper: &mut Keeper, dice: &mut Dice, tape: Vec<TapeEntry>, ending: Ending) {
        self.turn += 1;
        let image_before = self.image;
        if matches!(ending, Ending::Replied(_)) {
            self.dream(keeper, dice);
        }
        let judged = Judged {
            caps: self.created.caps.clone(),
            spending: Account::new(Holder::Agent(self.created.agent.clone())),
            day: 20_000,
            rulings: Rulings::default(),
            labels: Some(self.labels.clone()),
        };
        let judged = keeper.put(canonical::encode(&judged).unwrap());
        let record = TurnRecord {
            agent: self.created.agent.clone(),
            turn: self.turn,
            previous: self.previous,
            component: self.created.component,
            engine: self.created.engine,
            grants: self.created.grants.clone(),
            budget: self.created.budget.clone(),
            image_before,
            input: Message::outside("text/plain", "hello"),
            tape,
            judged,
            ending,
            fuel: dice.roll() >> 11,
            image_after: self.image,
        };
        self.labels = labels::after(Some(&self.labels), &record);
        self.previous = keeper.append(Body::Turn(Box::new(record)));
        self.remember();
    }
}

/// Sets an agent apart and lets it go on.
pub(crate) fn set_apart(keeper: &mut Keeper, agent: &str) {
    let (agent, by): (AgentId, _) = (agent.parse().unwrap(), "somebody".to_owned());
    let reason = "it \u{202e}loops".to_owned();
    keeper.append(Body::AgentQuarantined(AgentQuarantined { agent: agent.clone(), by: by.clone(), reason }));
    keeper.append(Body::AgentWoken(AgentWoken { agent, by }));
}

/// A fork, rollbacks and turns after them, and an agent that was set apart.
fn family(keeper: &mut Keeper, dice: &mut Dice, mailbox: &mut Sleeper) {
    let turn = dice.below(mailbox.turns() as usize + 1) as u64;
    let mut copy = mailbox.fork(keeper, "copy", turn);
    for _ in 0..dice.below(3) {
        let to = dice.below(mailbox.turns() as usize + 1) as u64;
        mailbox.roll_back(keeper, to);
        for _ in 0..dice.below(3) {
            let (which, ending) = (dice.below(2), ending(dice));
            [&mut *mailbox, &mut copy][which].take_turn(keeper, dice, Vec::new(), ending);
        }
    }
    set_apart(keeper, "copy");
    let ending = ending(dice);
    copy.take_turn(keeper, dice, Vec::new(), ending);
}

fn grants(dice: &mut Dice) -> Grants {
    let all = [
        "storage",
        "log",
        "clock",
        "random",
        "environment",
        "model:rehearsal/*",
        "model:rehearsal/small",
        "tool:mail.list",
        "tool:mail.*",
        "http:example.com",
        "http:example.com:8443",
        "http:http://localhost:8080",
        "http:[::1]",
        "http:http://[2001:db8::7]:81",
        "agent:clerk",
        "agent:mailbox",
    ];
    // What comes from the one is marked as private, and from nowhere else as trusted.
    let marks = ["trusted:http://localhost:8080", "private:example.com"].map(|mark| mark.parse().unwrap());
    let picked = (0..dice.below(2 * all.len())).map(|_| dice.pick(&all).parse().unwrap());
    Grants::new(picked.chain(marks).collect())
}

fn ending(dice: &mut Dice) -> Ending {
    let causes = [Cause::Fuel, Cause::Memory, Cause::WallClock, Cause::Trap, Cause::Refused, Cause::BadValue];
    match dice.below(8) {
        0 => Ending::Failed(Failure::BadInput("what is \u{1f600}?".into())),
        1 => Ending::Failed(Failure::Failed(String::new())),
        2 => Ending::Stopped(Stop { cause: *dice.pick(&causes), detail: "it had to be\u{7f}\u{2028}".into() }),
        _ => Ending::Replied(Reply { content_type: "application/json".into(), body: "{\"a\":1}".into() }),
    }
}

fn done(effect: Effect, answer: Answer) -> TapeEntry {
    TapeEntry { effect, outcome: Outcome::Done(answer), ruling: None }
}

/// Every kind of effect and every kind of answer, once or more.
pub(crate) fn every_ask() -> Vec<TapeEntry> {
    let key = || "inbox/€\u{1}\"\\/\t".to_owned();
    let prompt = Prompt {
        model: "rehearsal/small".into(),
        utterances: [Role::System, Role::User, Role::Assistant]
            .map(|role| Utterance { role, text: "say\nsomething".into() })
            .to_vec(),
        max_tokens: u32::MAX,
    };
    let header = || Header { name: "accept".into(), value: "*/*".into() };
    let request = || Request {
        method: "POST".into(),
        url: "https://example.com/a?b".into(),
        headers: vec![header()],
        body: Bytes(vec![0, 255, 128]),
    };
    let stored = Stored { value: Bytes(vec![1, 2]), version: 3 };
    let listed = KeyInfo { key: key(), version: 1, size: 2 };
    let tool = Tool { name: "mail.list".into(), description: "lists mail".into(), arguments: "{}".into() };
    let list = |after| Effect::StorageList { prefix: "a".into(), after, limit: 10 };
    let log = |level| Effect::LogWrite { level, text: "\u{0}\u{1f}\u{8}\u{c}\r\n".into() };
    let send = Effect::AgentsSend { to: "clerk".into(), content_type: "text/plain".into(), body: "hi".into() };
    let using = Effect::SecretUse { slot: "git".into(), method: "GET".into(), url: "https://a.example/".into() };
    let said = Completion { text: "…".into(), input_tokens: 1, output_tokens: 2 };
    let call = || Effect::ToolsCall { name: "mail.send".into(), arguments: "{ }".into() };
    let reason = "`tools.call` needs `tool:mail.send`; nothing of `tool` was granted".to_owned();
    let refusals = [
        (Code::BadAsk, Layer::Form),
        (Code::NotGranted, Layer::Declared),
        (Code::EgressDenied, Layer::Executor),
        (Code::SecretNotBound, Layer::Secrets),
        (Code::SecretLeak, Layer::Secrets),
        (Code::VaultLocked, Layer::Secrets),
        (Code::EffectsSpent, Layer::Budget),
        (Code::BytesSpent, Layer::Budget),
    ];
    let mut tape = vec![
        done(Effect::StorageGet { key: key() }, Answer::Entry(None)),
        done(Effect::StorageGet { key: key() }, Answer::Entry(Some(stored))),
        done(Effect::StorageSet { key: key(), value: Bytes(Vec::new()) }, Answer::Version((1 << 53) - 1)),
        done(Effect::StorageDelete { key: String::new() }, Answer::Existed(true)),
        done(list(None), Answer::Keys(vec![listed])),
        done(list(Some("b".into())), Answer::Keys(Vec::new())),
        done(log(Level::Debug), Answer::Nothing),
        done(log(Level::Info), Answer::Nothing),
        done(log(Level::Warn), Answer::Nothing),
        done(log(Level::Error), Answer::Nothing),
        done(Effect::ClockNow {}, Answer::Time(Exact(u64::MAX))),
        done(Effect::ClockMonotonic {}, Answer::Time(Exact(0))),
        done(Effect::ClockSleep { nanos: Exact(1) }, Answer::Nothing),
        done(Effect::RandomBytes { len: 2 }, Answer::Random(Bytes(vec![7, 9]))),
        done(Effect::EnvironmentRead {}, Answer::Environment(vec![("A".into(), "b".into())])),
        done(Effect::ModelGenerate(prompt), Answer::Completion(said)),
        done(Effect::ToolsList {}, Answer::Tools(vec![tool])),
        done(call(), Answer::Result("[]".into())),
        done(
            Effect::HttpFetch(request()),
            Answer::Response(Response { status: 65535, headers: vec![header()], body: "ok".into() }),
        ),
        done(send, Answer::Sent(0)),
        done(using, Answer::Handle("lazaret-secret:git".into())),
        TapeEntry { effect: call(), outcome: Outcome::Failed("no such tool".into()), ruling: None },
    ];
    tape.extend(refusals.map(|(code, layer)| {
        let refusal = Refusal { code, layer, reason: reason.clone(), remedy: "…".into() };
        TapeEntry { effect: call(), outcome: Outcome::Refused(refusal), ruling: None }
    }));
    tape
}

/// The entries of a turn that was interrupted.
fn interruption(keeper: &mut Keeper, agent: &AgentId) {
    let ask = every_ask().remove(0);
    let labels = ["private", "untrusted"].map(str::to_owned).into();
    let input = Message { sender: Some(agent.clone()), content_type: String::new(), body: Bytes::default(), labels };
    let opened = EffectOpened {
        agent: agent.clone(),
        turn: 1,
        message: 9,
        input: Some(input),
        number: 1,
        tape: vec![ask.clone()],
        judged: Digest::of(b"rulings"),
        effect: ask.effect,
        ruling: None,
    };
    let closed = EffectClosed { agent: agent.clone(), turn: 1, number: 1, outcome: ask.outcome };
    keeper.append(Body::EffectOpened(Box::new(opened)));
    keeper.append(Body::InDoubt(InDoubt { agent: agent.clone(), turn: 1, number: 1 }));
    keeper.append(Body::Settled(Box::new(closed.clone())));
    keeper.append(Body::EffectClosed(Box::new(closed)));
}

/// A journal with a bit of everything; the seed decides on the details.
pub(crate) fn honest(seed: u64) -> Keeper {
    let mut dice = Dice(seed);
    let mut keeper = Keeper::new(seed as u8);
    let mut agents = [
        Sleeper::create(&mut keeper, &mut dice, "mailbox", World::Durable),
        Sleeper::create(&mut keeper, &mut dice, "clerk", World::Stateless),
        Sleeper::create(&mut keeper, &mut dice, "archive-2", World::Durable),
    ];
    interruption(&mut keeper, &agents[0].created.agent);
    for round in 0..4 + dice.below(4) {
        let asks = every_ask();
        let tape = match round {
            0 => asks,
            _ => (0..dice.below(4)).map(|_| dice.pick(&asks).clone()).collect(),
        };
        let (which, ending) = (dice.below(agents.len()), ending(&mut dice));
        agents[which].take_turn(&mut keeper, &mut dice, tape, ending);
    }
    family(&mut keeper, &mut dice, &mut agents[0]);
    keeper.append(Body::AgentRemoved(AgentRemoved { agent: "clerk".parse().unwrap() }));
    keeper
}

/// A journal that is the same whatever the dice are: two agents, three turns that end well and one that doesn't.
pub(crate) fn plain() -> Keeper {
    let mut dice = Dice(3);
    let mut keeper = Keeper::new(3);
    let mut mailbox = Sleeper::create(&mut keeper, &mut dice, "mailbox", World::Durable);
    let mut clerk = Sleeper::create(&mut keeper, &mut dice, "clerk", World::Stateless);
    let replied = || Ending::Replied(Reply { content_type: "text/plain".into(), body: "done".into() });
    let stopped = Ending::Stopped(Stop { cause: Cause::Fuel, detail: "out of fuel".into() });
    mailbox.take_turn(&mut keeper, &mut dice, every_ask(), replied());
    clerk.take_turn(&mut keeper, &mut dice, Vec::new(), replied());
    mailbox.take_turn(&mut keeper, &mut dice, Vec::new(), stopped);
    mailbox.take_turn(&mut keeper, &mut dice, Vec::new(), replied());
    keeper.append(Body::AgentRemoved(AgentRemoved { agent: "clerk".parse().unwrap() }));
    keeper
}

/// A journal that is the same whatever the dice are: an agent, its fork, rollbacks of it, and the fork set apart.
pub(crate) fn kin() -> Keeper {
    let mut dice = Dice(5);
    let mut keeper = Keeper::new(5);
    let replied = || Ending::Replied(Reply { content_type: "text/plain".into(), body: "done".into() });
    let mut mailbox = Sleeper::create(&mut keeper, &mut dice, "mailbox", World::Durable);
    mailbox.take_turn(&mut keeper, &mut dice, Vec::new(), replied());
    mailbox.take_turn(&mut keeper, &mut dice, every_ask(), replied());
    let mut copy = mailbox.fork(&mut keeper, "copy", 1);
    copy.take_turn(&mut keeper, &mut dice, Vec::new(), replied());
    mailbox.roll_back(&mut keeper, 1);
    mailbox.take_turn(&mut keeper, &mut dice, Vec::new(), replied());
    set_apart(&mut keeper, "copy");
    copy.take_turn(&mut keeper, &mut dice, Vec::new(), replied());
    mailbox.roll_back(&mut keeper, 0);
    mailbox.take_turn(&mut keeper, &mut dice, Vec::new(), replied());
    keeper
}
