//! Seats for turns whose guests compute: a few for each processor, and the others stand in line.
//!
//! A thousand guests that loop are a thousand threads that want a processor. The kernel gives each its share in turn, and
//! whoever wants to stop one of them is in that line too: for the processor, and behind every thread that was put aside in the
//! middle of an act. With seats, only a few threads at a time have anything to do. A guest that has sat for a while gives way
//! if others stand; one that waits for a disk, a server or a person stands up for as long as that takes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::host::lock;
use crate::limits::{FRESH_IN_A_ROW, LEAST_SEATS, SEAT_FOR, SEATS_PER_PROCESSOR};
use crate::order::processors;

/// All of them.
pub(crate) struct Seats {
    line: Mutex<Line>,
    /// How many stand in line, so that who sits needn't look into it.
    standing: AtomicUsize,
}

/// Who stands. A turn that begins or comes back doesn't stand behind those who have had their time: a short one among many
/// that loop is served soon. Nor do those starve: after some of the others it is one of theirs.
#[derive(Default)]
struct Line {
    free: usize,
    fresh: VecDeque<Arc<Place>>,
    spent: VecDeque<Arc<Place>>,
    fresh_in_a_row: usize,
}

/// Where one stands and is called.
#[derive(Default)]
struct Place {
    called: Mutex<bool>,
    bell: Condvar,
}

impl Place {
    fn call(&self) {
        *lock(&self.called) = true;
        self.bell.notify_one();
    }

    fn wait(&self) {
        let called = lock(&self.called);
        drop(self.bell.wait_while(called, |called| !*called).unwrap_or_else(PoisonError::into_inner));
    }
}

impl Line {
    /// Who is next.
    fn next(&mut self) -> Option<Arc<Place>> {
        let fresh_first = self.fresh_in_a_row < FRESH_IN_A_ROW || self.spent.is_empty();
        if fresh_first && let Some(fresh) = self.fresh.pop_front() {
            self.fresh_in_a_row += 1;
            return Some(fresh);
        }
        self.fresh_in_a_row = 0;
        self.spent.pop_front().or_else(|| self.fresh.pop_front())
    }
}

impl Seats {
    /// As many as suit this machine.
    pub(crate) fn for_processors() -> Arc<Self> {
        Self::new((processors() * SEATS_PER_PROCESSOR).max(LEAST_SEATS))
    }

    fn new(free: usize) -> Arc<Self> {
        let line = Line { free, ..Line::default() };
        Arc::new(Self { line: Mutex::new(line), standing: AtomicUsize::new(0) })
    }

    /// Waits for a seat.
    pub(crate) fn sit(self: &Arc<Self>) -> Arc<Seat> {
        let stood = self.stand();
        let sitting = Sitting { since: Some(now()), waited: Duration::ZERO };
        Arc::new(Seat { of: Arc::clone(self), stood, sitting: Mutex::new(sitting) })
    }

    /// Stands in line until it can sit; false if it need not.
    fn stand(&self) -> bool {
        let mut line = lock(&self.line);
        if line.free > 0 {
            line.free -= 1;
            return false;
        }
        let place = Arc::new(Place::default());
        line.fresh.push_back(Arc::clone(&place));
        self.standing.fetch_add(1, Ordering::Relaxed);
        drop(line);
        place.wait();
        true
    }

    /// Somebody stands up.
    fn pass_on(&self) {
        let mut line = lock(&self.line);
        match line.next() {
            None => line.free += 1,
            Some(next) => {
                self.standing.fetch_sub(1, Ordering::Relaxed);
                drop(line);
                next.call();
            }
        }
    }

    /// Gives a seat to who is next and goes to the end of the line; false if nobody is next.
    fn change_places(&self) -> bool {
        let mut line = lock(&self.line);
        let Some(next) = line.next() else { return false };
        let place = Arc::new(Place::default());
        line.spent.push_back(Arc::clone(&place));
        drop(line);
        next.call();
        place.wait();
        true
    }
}

/// A turn's seat, or its wish for one. Only the turn's own thread sits down and stands up.
pub(crate) struct Seat {
    of: Arc<Seats>,
    stood: bool,
    sitting: Mutex<Sitting>,
}

struct Sitting {
    /// None while it stands.
    since: Option<Instant>,
    waited: Duration,
}

impl Sitting {
    /// Sits after it stood since then.
    fn again(&mut self, stood: Instant) {
        let sits = now();
        self.waited += sits.duration_since(stood);
        self.since = Some(sits);
    }
}

#[expect(clippy::disallowed_methods, reason = "who has had a seat for long gives way, by a real clock")]
fn now() -> Instant {
    Instant::now()
}

impl Seat {
    /// Whether it had to stand in line before it first sat.
    pub(crate) fn stood(&self) -> bool {
        self.stood
    }

    /// Waits for a seat, unless it has one.
    pub(crate) fn take(&self) {
        let mut sitting = lock(&self.sitting);
        if sitting.since.is_none() {
            let begun = now();
            self.of.stand();
            sitting.again(begun);
        }
    }

    /// Stands up, for something that takes its time.
    pub(crate) fn leave(&self) {
        if lock(&self.sitting).since.take().is_some() {
            self.of.pass_on();
        }
    }

    /// Lets another sit if this one has had its time and others stand; returns when it sits again.
    ///
    /// Not in the middle of an act: whoever stops the agent waits for that.
    pub(crate) fn give_way(&self) {
        if self.of.standing.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut sitting = lock(&self.sitting);
        let begun = now();
        let is_due = sitting.since.is_some_and(|since| begun.duration_since(since) >= SEAT_FOR);
        if is_due && self.of.change_places() {
            sitting.again(begun);
        }
    }

    /// How long it stood in line since it first sat: that is not the guest's time.
    pub(crate) fn waited(&self) -> Duration {
        lock(&self.sitting).waited
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// Waits until so many stand in line.
    fn until_standing(seats: &Seats, many: usize) {
        while seats.standing.load(Ordering::Relaxed) != many {
            std::thread::yield_now();
        }
    }

    /// Lets a seat's time be over.
    fn outstay(seat: &Seat) {
        let mut sitting = lock(&seat.sitting);
        sitting.since =
            sitting.since.map(|since| since.checked_sub(SEAT_FOR).expect("a machine that is on for longer"));
    }

    #[test]
    fn who_stands_up_or_goes_lets_the_next_one_sit() {
        let seats = Seats::new(1);
        let first = seats.sit();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| drop(seats.sit()));
            until_standing(&seats, 1);
            assert!(!second.is_finished());
            first.leave();
            second.join().expect("the second");
        });
        assert_eq!(lock(&seats.line).free, 1);
        first.leave();
        assert_eq!(lock(&seats.line).free, 1, "it had stood up already");
        first.take();
        first.take();
        assert_eq!(lock(&seats.line).free, 0, "it sits once");
        drop(first);
        assert_eq!(lock(&seats.line).free, 1);
    }

    #[test]
    fn who_has_had_its_time_gives_way_and_comes_back() {
        let seats = Seats::new(1);
        let looping = seats.sit();
        outstay(&looping);
        looping.give_way();
        assert_eq!(lock(&seats.line).free, 0, "nobody stands, so it stays");
        std::thread::scope(|scope| {
            let (sat, seen) = channel();
            let seats = &seats;
            scope.spawn(move || {
                let seat = seats.sit();
                sat.send(()).expect("somebody looks");
                until_standing(seats, 1);
                drop(seat);
            });
            until_standing(seats, 1);
            lock(&looping.sitting).since = Some(now());
            looping.give_way();
            assert!(seen.try_recv().is_err(), "its time isn't over");
            outstay(&looping);
            looping.give_way();
            seen.recv().expect("the other one sat meanwhile");
        });
        assert!(looping.waited() > Duration::ZERO);
        drop(looping);
        assert_eq!((lock(&seats.line).free, seats.standing.load(Ordering::Relaxed)), (1, 0));
    }

    #[test]
    fn those_who_come_are_served_before_those_who_loop_but_not_always() {
        let mut line = Line::default();
        let places = |many: usize| -> VecDeque<Arc<Place>> { (0..many).map(|_| Arc::default()).collect() };
        (line.fresh, line.spent) = (places(2 * FRESH_IN_A_ROW), places(3));
        let mut order = Vec::new();
        loop {
            let fresh = line.fresh.len();
            if line.next().is_none() {
                break;
            }
            order.push(if line.fresh.len() < fresh { 'f' } else { 's' });
        }
        let row = "f".repeat(FRESH_IN_A_ROW);
        assert_eq!(order.iter().collect::<String>(), format!("{row}s{row}ss"));
    }

    #[test]
    fn a_crowd_that_comes_and_goes_loses_no_seat() {
        let seats = Seats::new(3);
        let sitting = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for number in 0..24_usize {
                let (seats, sitting) = (&seats, &sitting);
                scope.spawn(move || {
                    let seat = seats.sit();
                    for step in number..number + 200 {
                        assert!(sitting.fetch_add(1, Ordering::SeqCst) < 3, "more sit than there are seats");
                        sitting.fetch_sub(1, Ordering::SeqCst);
                        match step % 3 {
                            0 => {
                                outstay(&seat);
                                seat.give_way();
                            }
                            1 => {
                                seat.leave();
                                seat.take();
                            }
                            _ => {}
                        }
                    }
                });
            }
        });
        assert_eq!((lock(&seats.line).free, seats.standing.load(Ordering::Relaxed)), (3, 0));
    }
}
