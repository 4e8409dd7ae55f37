//! What a connection has still to say. Answers are written whole, one after the other, and by one thread at a time: whoever
//! finds another one writing leaves its answer there and goes. So a client that takes nothing holds one thread, and not one for
//! each of its answers.

use std::collections::VecDeque;
use std::io::{ErrorKind, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use tracing::debug;

use super::limits::{CHUNK, WRITE};

/// `H` is what is held until an answer is written.
pub(crate) struct Outbox<H> {
    state: Mutex<State<H>>,
    /// Nobody writes any more.
    rest: Condvar,
}

struct State<H> {
    waiting: VecDeque<Said<H>>,
    /// Somebody writes, or has begun to and will go on.
    writing: bool,
    /// The other side takes nothing any more.
    broken: bool,
}

struct Said<H> {
    bytes: Vec<u8>,
    written: usize,
    _held: H,
}

/// What came of saying as much as is taken at once.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// All of it is said, or left to somebody who writes.
    Done,
    /// The other side takes no more now. Who was told this has to [`Outbox::finish`].
    Stuck,
}

enum Written {
    All,
    Part,
    Failed,
}

impl<H> Default for Outbox<H> {
    fn default() -> Self {
        let state = State { waiting: VecDeque::new(), writing: false, broken: false };
        Self { state: Mutex::new(state), rest: Condvar::new() }
    }
}

impl<H> Outbox<H> {
    fn lock(&self) -> MutexGuard<'_, State<H>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says it, for as long as the other side takes some, and returns when it is written. `false` if it is not going to be: who
    /// has heard half a line hears no more.
    pub(crate) fn say(&self, stream: &UnixStream, bytes: Vec<u8>, held: H) -> bool {
        if self.put(bytes, held) {
            self.finish(stream);
        }
        let state = self.rest.wait_while(self.lock(), |state| state.writing).unwrap_or_else(PoisonError::into_inner);
        !state.broken
    }

    /// The same, by somebody who need not know when it is written.
    pub(crate) fn leave(&self, stream: &UnixStream, bytes: Vec<u8>, held: H) {
        if self.put(bytes, held) {
            self.finish(stream);
        }
    }

    /// Says as much of it as is taken at once.
    pub(crate) fn begin(&self, stream: &UnixStream, bytes: Vec<u8>, held: H) -> Begun {
        if self.put(bytes, held) { self.write(stream, send_now) } else { Begun::Done }
    }

    /// Says the rest.
    pub(crate) fn finish(&self, stream: &UnixStream) {
        self.write(stream, send_in_time);
    }

    /// Puts it behind what waits. True if nobody writes: then whoever is told so does.
    fn put(&self, bytes: Vec<u8>, held: H) -> bool {
        let mut state = self.lock();
        if state.broken {
            return false;
        }
        state.waiting.push_back(Said { bytes, written: 0, _held: held });
        !std::mem::replace(&mut state.writing, true)
    }

    /// Writes what waits, in its order, until nothing does.
    fn write(&self, stream: &UnixStream, send: fn(&UnixStream, &mut Said<H>) -> Written) -> Begun {
        loop {
            let mut state = self.lock();
            let Some(mut said) = state.waiting.pop_front() else {
                state.writing = false;
                self.rest.notify_all();
                return Begun::Done;
            };
            drop(state);
            match send(stream, &mut said) {
                // What it held is let go of here, and not under the lock.
                Written::All => drop(said),
                Written::Part => {
                    self.lock().waiting.push_front(said);
                    return Begun::Stuck;
                }
                Written::Failed => {
                    self.break_off(stream);
                    return Begun::Done;
                }
            }
        }
    }

    fn break_off(&self, stream: &UnixStream) {
        debug!(within = WRITE.as_secs(), "a client does not take its answer");
        let mut state = self.lock();
        (state.broken, state.writing) = (true, false);
        let unsaid = std::mem::take(&mut state.waiting);
        drop(state);
        self.rest.notify_all();
        let _ = stream.shutdown(Shutdown::Both);
        drop(unsaid);
    }
}

/// As much as is taken at once.
fn send_now<H>(stream: &UnixStream, said: &mut Said<H>) -> Written {
    while let Some(rest) = said.bytes.get(said.written..).filter(|rest| !rest.is_empty()) {
        match send(stream, rest, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(0) => return Written::Failed,
            Ok(len) => said.written += len,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Written::Part,
            Err(_) => return Written::Failed,
        }
    }
    Written::All
}

/// All of it, as long as the other side takes some now and then. The stream knows how long a write may wait.
fn send_in_time<H>(mut stream: &UnixStream, said: &mut Said<H>) -> Written {
    while said.written < said.bytes.len() {
        let (begun, until) = (Instant::now(), said.bytes.len().min(said.written + CHUNK));
        while said.written < until {
            match stream.write(&said.bytes[said.written..until]) {
                Ok(0) => return Written::Failed,
                Ok(len) => said.written += len,
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Written::Failed,
            }
            if begun.elapsed() > WRITE && said.written < until {
                return Written::Failed;
            }
        }
    }
    Written::All
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::sync::Arc;

    use super::*;

    /// More than a socket's buffer takes.
    const LARGE: usize = 8 << 20;

    #[test]
    fn who_finds_somebody_writing_leaves_its_answer_and_all_are_said_whole_and_in_order() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let outbox = Outbox::<Arc<()>>::default();
        let held = Arc::new(());
        assert_eq!(outbox.begin(&ours, b"first ".to_vec(), held.clone()), Begun::Done);
        assert_eq!(Arc::strong_count(&held), 1, "what is said holds nothing");
        assert_eq!(outbox.begin(&ours, vec![b'x'; LARGE], held.clone()), Begun::Stuck);
        // Nobody waits for the one that is stuck.
        assert_eq!(outbox.begin(&ours, b" second".to_vec(), held.clone()), Begun::Done);
        outbox.leave(&ours, b" third".to_vec(), held.clone());
        assert_eq!(Arc::strong_count(&held), 4);
        let heard = std::thread::spawn(move || {
            let mut heard = vec![0; 6 + LARGE + 7 + 6];
            theirs.read_exact(&mut heard).unwrap();
            (heard, theirs)
        });
        outbox.finish(&ours);
        assert!(outbox.say(&ours, Vec::new(), held.clone()), "nothing is broken");
        let (heard, _theirs) = heard.join().unwrap();
        assert!(heard.starts_with(b"first xxx") && heard.ends_with(b"xxx second third"));
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[test]
    fn who_has_hung_up_hears_nothing_more_and_holds_nothing() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (outbox, held) = (Outbox::<Arc<()>>::default(), Arc::new(()));
        assert_eq!(outbox.begin(&ours, vec![b'x'; LARGE], held.clone()), Begun::Stuck);
        outbox.leave(&ours, b"left".to_vec(), held.clone());
        drop(theirs);
        outbox.finish(&ours);
        assert_eq!(Arc::strong_count(&held), 1);
        assert!(!outbox.say(&ours, b"more".to_vec(), held.clone()));
        assert_eq!(outbox.begin(&ours, b"more".to_vec(), held.clone()), Begun::Done);
        assert_eq!(Arc::strong_count(&held), 1, "nothing is kept for nobody");
    }
}
