//! What is known of those who commit, and of the disk: whether a second flush is worth what it costs.

use std::time::Duration;

use crate::limits::{CROWD, SLOW_FLUSH};

/// Counts those who wait, and times flushes.
pub(crate) struct Crowd {
    /// About how many commit at the same time, in quarters: the most that were seen to wait at once, forgotten slowly.
    quarters: usize,
    /// About what the disk itself takes for a flush: the shortest that was seen, forgotten slowly. All others have also waited
    /// for a processor.
    flush: Duration,
}

impl Default for Crowd {
    fn default() -> Self {
        Self { quarters: 0, flush: Duration::MAX }
    }
}

impl Crowd {
    /// A group is written, and so many wait now, for it or another one.
    pub(crate) fn see(&mut self, waiting: usize) {
        self.quarters = self.quarters.saturating_sub(1).max(waiting * 4);
    }

    /// A flush took so long.
    pub(crate) fn flushed(&mut self, took: Duration) {
        self.flush = took.min(self.flush.saturating_add(self.flush / 16)).max(Duration::from_micros(1));
    }

    /// How many in line are worth waiting for, where the disk is quick: half of all, if that is a crowd. A flush costs the
    /// processors the same for one as for all of them, and they are soon there.
    pub(crate) fn worth_waiting_for(&self) -> Option<usize> {
        Some(self.quarters / 8).filter(|half| *half >= CROWD && self.flush < SLOW_FLUSH)
    }

    /// Whether so many are worth a flush of their own, while another one is waited for: if they are half of all, and if that
    /// takes long. Where it doesn't, it is processors that are short, and a flush costs some whatever it carries.
    pub(crate) fn is_worth_it(&self, waiting: usize) -> bool {
        self.flush >= SLOW_FLUSH && waiting * 8 >= self.quarters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: Duration = Duration::from_millis(2);

    fn of(most: usize, flush: Duration) -> Crowd {
        let mut crowd = Crowd::default();
        crowd.see(most);
        crowd.flushed(flush);
        crowd
    }

    #[test]
    fn half_of_the_crowd_is_worth_a_flush_where_the_disk_is_slow() {
        assert_eq!([3, 4, 8].map(|waiting| of(8, SLOW).is_worth_it(waiting)), [false, true, true]);
        assert_eq!([3, 4, 8].map(|waiting| of(8, Duration::from_micros(100)).is_worth_it(waiting)), [false; 3]);
        assert!(of(2, SLOW).is_worth_it(1));
    }

    #[test]
    fn half_of_the_crowd_is_waited_for_where_the_disk_is_quick() {
        let quick = Duration::from_micros(100);
        let halves = [1, 3, 4, 8, 9].map(|most| of(most, quick).worth_waiting_for());
        assert_eq!(halves, [None, None, Some(2), Some(4), Some(4)]);
        assert_eq!(of(8, SLOW).worth_waiting_for(), None, "they come while it is flushed");
        assert_eq!(Crowd::default().worth_waiting_for(), None, "nothing is known of the disk yet");
        let mut crowd = of(8, quick);
        (0..32).for_each(|_| crowd.see(1));
        assert_eq!(crowd.worth_waiting_for(), None, "who left is not waited for");
    }

    #[test]
    fn who_left_and_what_was_fast_is_forgotten() {
        let mut crowd = of(8, Duration::from_micros(100));
        (0..16).for_each(|_| crowd.see(2));
        assert!(!crowd.is_worth_it(2), "one quick flush is remembered for a while");
        (0..64).for_each(|_| crowd.flushed(SLOW));
        assert!(crowd.is_worth_it(2), "half of the four that are remembered");
        crowd.flushed(Duration::from_micros(100));
        assert!(!crowd.is_worth_it(8), "the others had waited for a processor too: this one tells what the disk takes");
    }
}
