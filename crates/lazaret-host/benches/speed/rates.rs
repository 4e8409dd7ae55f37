//! How often something can be done in a second, by one and by many at once; and the anchor: writing and flushing a file.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long each is measured.
const EACH: Duration = Duration::from_millis(1_500);

/// Does something again and again on as many threads as there are workers; how often in a second all together.
pub(crate) fn rate<W: Send>(workers: &mut [W], work: impl Fn(&mut W) + Sync) -> f64 {
    let (over, begun) = (AtomicBool::new(false), Instant::now());
    let count: u64 = std::thread::scope(|scope| {
        let (over, work) = (&over, &work);
        let threads = workers.iter_mut().map(|worker| {
            scope.spawn(move || {
                let mut count = 0_u64;
                while !over.load(Ordering::Relaxed) {
                    work(&mut *worker);
                    count += 1;
                }
                count
            })
        });
        let all: Vec<_> = threads.collect();
        std::thread::sleep(EACH);
        over.store(true, Ordering::Relaxed);
        all.into_iter().map(|one| one.join().expect("a worker")).sum()
    });
    count as f64 / begun.elapsed().as_secs_f64()
}

pub(crate) fn middle<T: Copy>(mut all: Vec<T>, key: impl Fn(&T) -> f64) -> T {
    all.sort_by(|one, other| key(one).total_cmp(&key(other)));
    all[all.len() / 2]
}

/// A file to write into and flush, as long as need be, so that no flush moves its end.
pub(crate) struct Raw {
    file: File,
    bytes: Vec<u8>,
    at: u64,
}

const RAW_LEN: u64 = 16 << 20;

impl Raw {
    pub(crate) fn new(path: &Path, len: usize) -> Self {
        let file = File::options().create(true).truncate(true).read(true).write(true).open(path).expect("a file");
        file.write_all_at(&vec![0; RAW_LEN as usize], 0).expect("room");
        file.sync_all().expect("a flush");
        Self { file, bytes: vec![1; len], at: 0 }
    }

    pub(crate) fn flush(&mut self) {
        if self.at + self.bytes.len() as u64 > RAW_LEN {
            self.at = 0;
        }
        self.file.write_all_at(&self.bytes, self.at).expect("a write");
        self.file.sync_data().expect("a flush");
        self.at += self.bytes.len() as u64;
    }
}
