//! Work on all processors, heard in order.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use crate::host::lock;
use crate::limits::HEARD_LATER;

/// How many threads can work at once here.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// How a worker tells what came of its piece. When nobody listens any more, it should end.
pub(crate) type Tell<'a, T> = &'a mut dyn FnMut(T) -> ControlFlow<()>;

/// What is left to do, and where workers announce what they begin.
struct Queue<T> {
    next: usize,
    announce: SyncSender<Receiver<T>>,
}

/// Does pieces `0..pieces`, each on one of so many threads. Each thread has a worker of its own, that `worker` makes for it.
/// What they tell is heard here and now, piece by piece and in order. A piece that is ahead of its time waits when it has
/// told [`HEARD_LATER`] times, so what is in memory is bounded.
pub(crate) fn in_order<T: Send, W: FnMut(usize, Tell<'_, T>)>(
    threads: usize,
    pieces: usize,
    worker: impl Fn() -> W + Sync,
    mut hear: impl FnMut(T) -> ControlFlow<()>,
) {
    let threads = threads.min(pieces);
    if threads <= 1 {
        let mut worker = worker();
        let mut heard = ControlFlow::Continue(());
        for piece in 0..pieces {
            if heard.is_break() {
                return;
            }
            worker(piece, &mut |told| {
                heard = if heard.is_break() { heard } else { hear(told) };
                heard
            });
        }
        return;
    }
    let (announce, announced) = sync_channel(threads);
    let queue = Mutex::new(Queue { next: 0, announce });
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| work(&queue, pieces, worker()));
        }
        // Dropping `announced` and the piece's own receiver on the way out ends the workers.
        for piece in announced.into_iter().take(pieces) {
            for told in piece {
                if hear(told).is_break() {
                    return;
                }
            }
        }
    });
}

fn work<T>(queue: &Mutex<Queue<T>>, pieces: usize, mut worker: impl FnMut(usize, Tell<'_, T>)) {
    loop {
        let (piece, out) = {
            let mut queue = lock(queue);
            if queue.next == pieces {
                return;
            }
            let (out, told) = sync_channel(HEARD_LATER);
            // With the lock held, so that pieces are announced in order.
            if queue.announce.send(told).is_err() {
                return;
            }
            queue.next += 1;
            (queue.next - 1, out)
        };
        worker(piece, &mut |told| match out.send(told) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(threads: usize, pieces: usize, most: usize) -> Vec<(usize, usize)> {
        let mut heard = Vec::new();
        let worker = || {
            |piece: usize, tell: Tell<'_, (usize, usize)>| {
                for part in 0..10 * HEARD_LATER {
                    if tell((piece, part)).is_break() {
                        return;
                    }
                }
            }
        };
        in_order(threads, pieces, worker, |told| {
            heard.push(told);
            if heard.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        heard
    }

    #[test]
    fn pieces_are_heard_in_order_and_whole() {
        let expected: Vec<_> = (0..9).flat_map(|piece| (0..10 * HEARD_LATER).map(move |part| (piece, part))).collect();
        for threads in [1, 2, 7, 20] {
            assert_eq!(heard(threads, 9, usize::MAX), expected, "{threads} threads");
            assert_eq!(heard(threads, 9, 777), expected[..777], "{threads} threads, stopped early");
            assert_eq!(heard(threads, 0, usize::MAX), [], "{threads} threads with nothing to do");
        }
    }

    #[test]
    fn a_worker_that_fails_is_not_hidden() {
        let failing = || {
            std::panic::catch_unwind(|| {
                let worker = || |piece: usize, _: Tell<'_, ()>| assert!(piece != 3, "as it should");
                in_order(2, 9, worker, |()| ControlFlow::Continue(()));
            })
        };
        assert!(failing().is_err());
    }
}
