//! Putting a question to a person, and waiting for the answer.
//!
//! A question waits as a file in the data root's `approvals` folder. Whoever holds the approver's key answers it, on the
//! terminal that the turn runs in or from another process, by putting a signed decision beside it. Nothing in the folder is
//! believed for lying there: a decision counts by its signature over the question that this process itself asked.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ed25519_dalek::{SigningKey, VerifyingKey};
use lazaret_gate::approval::{
    Approver, Approvers, Attempt, BadDecision, Decision, Draft, Event, Moment, Now, Question, Requester, Scope, State,
    Verdict, step,
};
use lazaret_gate::ruling::{Answered, Asked};
use lazaret_gate::shown::{self, Shown};
use lazaret_gate::stages::Matter;
use lazaret_gate::{AgentId, Bytes, Circumstance, Halt, canonical};
use serde::{Deserialize, Serialize};

use crate::error::HostError;
use crate::files;

/// The folder of questions and answers.
const FOLDER: &str = "approvals";

/// The local approver's key.
const KEY: &str = "approver.key";

/// Bytes of a question or an answer.
const MAX_FILE: u64 = 4 << 20;

/// Approvals wider than once that are looked through.
const MAX_STANDING: usize = 1_000;

/// Answers that don't count which are put on record with one question.
const MAX_IGNORED: usize = 8;

/// How often a waiting question looks for its answer.
const LOOK: Duration = Duration::from_millis(10);

/// How often it is looked whether a decision is taken whose question is gone.
const LAST_LOOKS: usize = 30;

/// Somebody at the terminal that the turn runs in.
pub trait Person: Send + Sync {
    /// Shows a question and waits for a decision. Gives up when `over` says so.
    fn decide(&self, question: &Question, shown: &Shown, over: &dyn Fn() -> bool) -> Option<(Verdict, Scope)>;
}

/// Why a question can't be answered, or not so.
#[derive(Debug, thiserror::Error)]
pub enum Unanswerable {
    /// There is none of that name.
    #[error("no question `{0}` waits; `lazaret approvals list` shows those that do")]
    Unknown(String),
    /// The name is too short.
    #[error("`{id}` is the beginning of {count} questions; write more of it")]
    Ambiguous {
        /// What was written.
        id: String,
        /// How many begin so.
        count: usize,
    },
    /// Its time is over.
    #[error("question `{0}` has expired, and silence is denial; the agent may ask again")]
    Expired(String),
    /// Somebody answered before.
    #[error("question `{id}` was answered before: {how}; the first answer stands")]
    Answered {
        /// Which.
        id: String,
        /// What the answer was, and whose.
        how: String,
    },
    /// The answer is not one that can be given.
    #[error("{0}")]
    Bad(#[from] BadDecision),
}

impl Unanswerable {
    /// That a question has this answer.
    pub(crate) fn answered(question: &Question, answer: &Answered) -> Self {
        let Decision { verdict, by, .. } = &answer.decision;
        let verdict = match verdict {
            Verdict::Approve => "approved",
            Verdict::Deny => "denied",
        };
        Self::Answered { id: question.id.clone(), how: format!("{verdict} with key {}", by.short()) }
    }
}

/// The approver's desk of one data root.
pub struct Approvals {
    folder: PathBuf,
    key: SigningKey,
}

/// An approval wider than once, as it is kept.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Standing {
    question: Question,
    answer: Answered,
}

/// Both clocks, and which boot they belong to.
#[expect(clippy::disallowed_methods, reason = "approvals expire by the real clocks")]
pub fn now() -> Now {
    let wall_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    // It goes on while the machine sleeps, as an approver's patience does.
    let since_boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let monotonic_ms = since_boot.tv_sec.cast_unsigned() * 1000 + since_boot.tv_nsec.cast_unsigned() / 1_000_000;
    // A process lives in one boot.
    static BOOT: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        if boot.trim().is_empty() { "unknown".to_owned() } else { boot.trim().to_owned() }
    });
    Now { moment: Moment { wall_ms, monotonic_ms }, boot: BOOT.clone() }
}

fn random<const N: usize>() -> Result<[u8; N], HostError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|why| HostError::Approvals(why.to_string()))?;
    Ok(bytes)
}

impl Approvals {
    /// Opens the folder, making it and the local approver's key if they aren't there.
    pub fn open(root: &Path) -> Result<Self, HostError> {
        let wrong = |why: std::io::Error| HostError::Approvals(why.to_string());
        let folder = root.join(FOLDER);
        make_folder(&folder).map_err(wrong)?;
        let path = root.join(KEY);
        let unread = |why| HostError::Approvals(format!("`{}`: {why}", path.display()));
        let seed = match read_file(&path).map_err(unread)? {
            Some(seed) => seed.as_slice().try_into().map_err(|_| {
                HostError::Approvals(format!("`{}` has {} bytes, not the 32 of a key", path.display(), seed.len()))
            })?,
            None => {
                let seed = random::<32>()?;
                files::write(&path, &seed).map_err(wrong)?;
                seed
            }
        };
        Ok(Self { folder, key: SigningKey::from_bytes(&seed) })
    }

    /// The local approver's public key.
    pub fn approver(&self) -> VerifyingKey {
        self.key.verifying_key()
    }

    /// The questions that wait, oldest first.
    pub fn pending(&self) -> Result<Vec<Question>, HostError> {
        let at = now();
        let mut questions = self.asked()?;
        questions.retain(|question| !question.is_past(&at));
        Ok(questions)
    }

    /// The questions that lie there, whether or not their time is over.
    fn asked(&self) -> Result<Vec<Question>, HostError> {
        let names = list(&self.folder, ".question").map_err(|why| HostError::Approvals(why.to_string()))?;
        let mut questions = Vec::new();
        for name in names {
            // One that is gone or half written by now is not waiting.
            let Ok(Some(bytes)) = read_file(&self.folder.join(name)) else { continue };
            questions.extend(Question::decode(&bytes).ok());
        }
        questions.sort_by_key(|question| question.created.wall_ms);
        Ok(questions)
    }

    /// A question that waits, by its id or the beginning of it.
    pub fn question(&self, id: &str) -> Result<Question, HostError> {
        let mut found: Vec<_> = self.asked()?.into_iter().filter(|question| question.id.starts_with(id)).collect();
        match (found.pop(), found.len()) {
            (Some(question), 0) if question.is_past(&now()) => Err(Unanswerable::Expired(question.id).into()),
            (Some(question), 0) if !id.is_empty() => Ok(question),
            (Some(_), more) => Err(Unanswerable::Ambiguous { id: id.to_owned(), count: more + 1 }.into()),
            (None, _) => Err(Unanswerable::Unknown(id.chars().take(80).collect()).into()),
        }
    }

    /// Answers a question with the local approver's key. The first answer that counts stands.
    pub fn decide(&self, question: &Question, verdict: Verdict, scope: Scope) -> Result<Decision, HostError> {
        let wrong = |why: std::io::Error| HostError::Approvals(why.to_string());
        let at = now();
        if question.is_past(&at) {
            return Err(Unanswerable::Expired(question.id.clone()).into());
        }
        let decision = self.sign(question, verdict, scope, &at)?;
        let path = self.file(question, "decision");
        match self.found(question) {
            None => {}
            Some(Ok(before)) => return Err(Unanswerable::answered(question, &before).into()),
            // What doesn't count must not keep others from answering.
            Some(Err(_)) => remove(&path),
        }
        if place_file(&path, &canonical::encode(&decision)?).map_err(wrong)? && self.is_heard(question) {
            return Ok(decision);
        }
        let how = "by somebody else at the same moment".to_owned();
        Err(Unanswerable::Answered { id: question.id.clone(), how }.into())
    }

    /// Whether a decision that was put beside a question is what will be found there, or was. Whoever asks takes the
    /// question away first and then the decision: one that stays where there is no question came too late.
    fn is_heard(&self, question: &Question) -> bool {
        let (asked, decision) = (self.file(question, "question"), self.file(question, "decision"));
        for _ in 0..LAST_LOOKS {
            if exists(&asked) || !exists(&decision) {
                return true;
            }
            #[expect(clippy::disallowed_methods, reason = "another process is about to remove a file")]
            std::thread::sleep(LOOK);
        }
        remove(&decision);
        false
    }

    fn sign(&self, question: &Question, verdict: Verdict, scope: Scope, at: &Now) -> Result<Decision, Unanswerable> {
        Ok(Decision::sign(question, verdict, scope, at.moment.wall_ms, &self.key)?)
    }

    /// Takes every question back that still lies there. Only whoever has the data root open may: the others ask none.
    pub(crate) fn withdraw_all(&self) {
        for ending in [".question", ".decision"] {
            for name in list(&self.folder, ending).unwrap_or_default() {
                remove(&self.folder.join(name));
            }
        }
    }

    /// Ends what was approved for a run.
    pub(crate) fn end_run(&self, run: &str) {
        for name in list(&self.folder, ".standing").unwrap_or_default() {
            let path = self.folder.join(name);
            let standing = read_file(&path).ok().flatten().and_then(|bytes| canonical::decode::<Standing>(&bytes).ok());
            let ends = |it: &Standing| it.question.run == run && matches!(it.answer.decision.scope, Scope::Run { .. });
            if standing.is_some_and(|standing| ends(&standing)) {
                remove(&path);
            }
        }
    }

    /// Ends what was approved for an agent.
    pub(crate) fn end_agent(&self, agent: &AgentId) {
        for name in list(&self.folder, ".standing").unwrap_or_default() {
            let path = self.folder.join(name);
            let standing = read_file(&path).ok().flatten().and_then(|bytes| canonical::decode::<Standing>(&bytes).ok());
            if standing.is_some_and(|standing| standing.question.agent == *agent) {
                remove(&path);
            }
        }
    }

    fn file(&self, question: &Question, kind: &str) -> PathBuf {
        self.folder.join(format!("{}.{kind}", question.id))
    }

    fn approvers(&self) -> Approvers {
        [Approver::new(self.approver())].into_iter().collect()
    }

    /// Asks and waits. `then` tells the circumstances when the wait is over; `over` whether to give up before.
    pub(crate) fn ask(
        &self,
        asking: &Asking<'_>,
        then: &mut dyn FnMut() -> Circumstance,
        over: &dyn Fn() -> bool,
    ) -> Result<Asked, Halt> {
        let stopped = |why: String| Halt::Stopped(format!("a question can't be asked: {why}"));
        if let Some((question, answer)) = self.standing(asking) {
            return Ok(Asked { question, answer: Some(answer), at: now(), then: then(), ignored: Vec::new() });
        }
        let question = self.draft(asking).map_err(|why| stopped(why.to_string()))?;
        let path = self.file(&question, "question");
        let bytes = question.encode().map_err(|why| stopped(why.to_string()))?;
        files::write(&path, &bytes).map_err(|why| stopped(why.to_string()))?;
        let mut ignored = Vec::new();
        let answer = self.wait(asking, &question, over, &mut ignored);
        let (at, then) = (now(), then());
        remove(&path);
        remove(&self.file(&question, "decision"));
        if let Some(answer) = answer.as_ref().filter(|answer| answer.decision.scope != Scope::Once) {
            let standing = Standing { question: question.clone(), answer: answer.clone() };
            if let Ok(bytes) = canonical::encode(&standing) {
                // If it can't be kept, the next one is asked again.
                let _ = files::write(&self.file(&question, "standing"), &bytes);
            }
        }
        Ok(Asked { question, answer, at, then, ignored })
    }

    fn draft(&self, asking: &Asking<'_>) -> Result<Question, HostError> {
        let Matter { effect, risk, rule, reason } = asking.matter;
        let facts = &asking.under.facts;
        let id: String = random::<8>()?.iter().map(|byte| format!("{byte:02x}")).collect();
        let draft = Draft {
            id,
            agent: asking.agent.clone(),
            run: facts.run.clone(),
            effect: effect.clone(),
            policy: asking.under.rulebook,
            rule: rule.to_owned(),
            reason: reason.to_owned(),
            risk: risk.clone(),
            labels: facts.labels.iter().cloned().collect(),
            nonce: Bytes(random::<16>()?.to_vec()),
            requester: Requester::Agent(asking.agent.clone()),
        };
        Question::ask(draft, &now(), asking.patience_ms).map_err(|why| HostError::Approvals(why.to_string()))
    }

    /// Waits for an answer that counts, or for the question's time to pass. Notes why others don't count.
    fn wait(
        &self,
        asking: &Asking<'_>,
        question: &Question,
        over: &dyn Fn() -> bool,
        ignored: &mut Vec<String>,
    ) -> Option<Answered> {
        let shown = shown::decision(question, &Scope::Once);
        let late = || over() || question.is_past(&now());
        let path = self.file(question, "decision");
        // Somebody may answer from elsewhere while the question stands on this terminal.
        let elsewhere = || late() || exists(&path);
        let mut present = asking.present;
        loop {
            if let Some((verdict, scope)) = present.take().and_then(|it| it.decide(question, &shown, &elsewhere)) {
                let signed = self.sign(question, verdict, scope, &now()).map_err(|why| why.to_string());
                match signed.and_then(|decision| self.counted(question, decision)) {
                    Ok(answer) => return Some(answer),
                    Err(why) => ignored.push(why),
                }
            }
            match self.found(question) {
                Some(Ok(answer)) => return Some(answer),
                Some(Err(why)) => {
                    remove(&path);
                    if ignored.len() < MAX_IGNORED && !ignored.contains(&why) {
                        ignored.push(why);
                    }
                    present = asking.present;
                }
                None => {}
            }
            if late() {
                return None;
            }
            #[expect(clippy::disallowed_methods, reason = "waiting for a person is waiting")]
            std::thread::sleep(LOOK);
        }
    }

    /// The decision that lies beside a question, or why it is none.
    fn found(&self, question: &Question) -> Option<Result<Answered, String>> {
        let bytes = read_file(&self.file(question, "decision")).ok().flatten()?;
        let read = canonical::decode(&bytes).map_err(|why| format!("a decision that can't be read: {why}"));
        Some(read.and_then(|decision| self.counted(question, decision)))
    }

    /// An answer, if it is one of an approver to this very question; otherwise why it isn't.
    fn counted(&self, question: &Question, decision: Decision) -> Result<Answered, String> {
        let verified = decision.verify(question, &self.approvers()).map_err(|why| why.to_string())?;
        let key = Bytes(self.approver().as_bytes().to_vec());
        Ok(Answered { decision: verified.decision().clone(), key, at: now() })
    }

    /// An earlier yes that covers this ask.
    fn standing(&self, asking: &Asking<'_>) -> Option<(Question, Answered)> {
        let at = now();
        for name in list(&self.folder, ".standing").ok()?.into_iter().take(MAX_STANDING) {
            let path = self.folder.join(name);
            let Some(bytes) = read_file(&path).ok().flatten() else { continue };
            let Ok(Standing { question, answer }) = canonical::decode::<Standing>(&bytes) else { continue };
            let decided = answer.decision.clone().verify(&question, &self.approvers());
            let Some(state) = decided
                .ok()
                .and_then(|verified| step(&question, &State::Pending, &Event::Decide(verified), &answer.at).ok())
            else {
                continue;
            };
            if state.is_past(&question, &at) {
                remove(&path);
                continue;
            }
            let attempt = Attempt {
                agent: asking.agent.clone(),
                run: asking.under.facts.run.clone(),
                effect: asking.matter.effect.clone(),
                policy: asking.under.rulebook,
                risk: asking.matter.risk.clone(),
                labels: asking.under.facts.labels.clone(),
            };
            if step(&question, &state, &Event::Use(Box::new(attempt)), &at).is_ok() {
                return Some((question, answer));
            }
        }
        None
    }
}

/// What is to be asked, by whom and of whom.
pub(crate) struct Asking<'a> {
    pub(crate) agent: &'a AgentId,
    pub(crate) matter: Matter<'a>,
    pub(crate) under: &'a Circumstance,
    pub(crate) present: Option<&'a dyn Person>,
    pub(crate) patience_ms: u64,
}

#[expect(clippy::disallowed_types, reason = "questions and answers lie in the data root")]
fn make_folder(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn read_file(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    Ok(files::read(path, MAX_FILE)?.map(|(bytes, _)| bytes))
}

/// Whole or not at all, unless something lies there: then it stays, and the answer is `false`.
#[expect(clippy::disallowed_methods, reason = "questions and answers lie in the data root")]
fn place_file(path: &Path, bytes: &[u8]) -> std::io::Result<bool> {
    let whole = path.with_extension(format!("new-{}", std::process::id()));
    files::write(&whole, bytes)?;
    let placed = std::fs::hard_link(&whole, path);
    remove(&whole);
    match placed {
        Ok(()) => Ok(true),
        Err(why) if why.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(why) => Err(why),
    }
}

#[expect(clippy::disallowed_methods, reason = "questions and answers lie in the data root")]
fn remove(path: &Path) {
    // What stays behind is past its time soon, and ignored then.
    let _ = std::fs::remove_file(path);
}

#[expect(clippy::disallowed_methods, reason = "questions and answers lie in the data root")]
fn exists(path: &Path) -> bool {
    path.exists()
}

#[expect(clippy::disallowed_methods, reason = "questions and answers lie in the data root")]
fn list(folder: &Path, ending: &str) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(ending) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}
