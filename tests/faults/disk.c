// Preloaded into a process to give it a bad disk, in the ways that strace can't: strace can make a write return a short
// count, but then none of those bytes are written, and it can kill a process, but then the page cache keeps what was
// never flushed. Here a short write really writes its first half, and a power cut really takes back what was not flushed.
//
//   DISK_ROOT   files under this directory have the bad disk
//   DISK_FAULT  slow   none: flushes only take their time
//               short  the Nth write does only its first half and says so
//               full   as short, and from then on no file can grow
//               torn   as short, and the process is killed
//               power  before the Nth write or flush all that was not flushed is undone, and the process is killed
//               mixed  the same, but every second of those writes had reached the disk
//               lying  as power, on a disk whose flushes do nothing: what is lost then must be noticed by whoever checks
//   DISK_AT     N, from 1, counted over all threads
//   DISK_MARK   a file that is made when the fault strikes
//   DISK_SLOW   microseconds that every flush takes longer; what is written meanwhile is not flushed by it
//
// Names (create, rename, unlink) are taken to be on disk at once: only contents and lengths are undone.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST_THREADS 1024

enum fault { NONE, SLOW, SHORT, FULL, TORN, POWER, MIXED, LYING };

// A write or a change of length that was not flushed yet.
struct dirt {
    struct dirt *before;
    long serial;
    dev_t dev;
    ino_t ino;
    int fd;  // a duplicate that stays open: the file may be closed and renamed by the time that it is needed
    int appended;
    off_t at, old_size, new_size;
    size_t old_len, new_len;
    char *old_bytes, *new_bytes;
};

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static struct dirt *dirt;
static enum fault fault;
static long strike_at, count, serial;
static useconds_t slow;
static int full;
static char root[PATH_MAX];

__attribute__((constructor)) static void setup(void) {
    const char *names[] = {"", "slow", "short", "full", "torn", "power", "mixed", "lying"};
    const char *what = getenv("DISK_FAULT"), *at = getenv("DISK_AT"), *where = getenv("DISK_ROOT");
    if (what == NULL || at == NULL || where == NULL || realpath(where, root) == NULL) return;
    for (int i = SLOW; i <= LYING; i++)
        if (strcmp(what, names[i]) == 0) fault = i;
    strike_at = atol(at);
    if (getenv("DISK_SLOW") != NULL) slow = (useconds_t)atol(getenv("DISK_SLOW"));
}

// Whether a descriptor is a file with the bad disk. The lock's content and SQLite's shared memory mean nothing after a
// crash.
static int ours(int fd, struct stat *found) {
    char link[64], path[PATH_MAX];
    if (fault == NONE || fstat(fd, found) != 0 || !S_ISREG(found->st_mode)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    if (len <= 0) return 0;
    path[len] = 0;
    const char *dot = strrchr(path, '.');
    if (strstr(path, "-shm") != NULL || (dot != NULL && strcmp(dot, ".lock") == 0)) return 0;
    return strncmp(path, root, strlen(root)) == 0;
}

static void mark(void) {
    const char *path = getenv("DISK_MARK");
    if (path != NULL) close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

static int strikes(void) {
    if (++count != strike_at) return 0;
    mark();
    return 1;
}

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

static char *copy(const void *bytes, size_t len) {
    char *made = malloc(len + 1);
    if (made == NULL) abort();
    memcpy(made, bytes, len);
    return made;
}

static void undo(const struct dirt *d) {
    if (!d->appended && d->old_len > 0) syscall(SYS_pwrite64, d->fd, d->old_bytes, d->old_len, d->at);
    syscall(SYS_ftruncate, d->fd, d->old_size);
}

// Every second one had reached the disk: done again in their order after all were undone.
static void redo_some(const struct dirt *d, int *turn) {
    if (d == NULL) return;
    redo_some(d->before, turn);
    if (d->appended || (*turn)++ % 2 == 0) return;
    if (d->new_bytes != NULL) syscall(SYS_pwrite64, d->fd, d->new_bytes, d->new_len, d->at);
    else syscall(SYS_ftruncate, d->fd, d->new_size);
}

static int stopped;

static void stop_here(int signal) {
    (void)signal;
    __atomic_add_fetch(&stopped, 1, __ATOMIC_SEQ_CST);
    for (;;) pause();
}

// Sends every other thread to `stop_here`, and returns how many there are; `told` are those who know. Nothing is allocated: who
// was stopped may hold the allocator's lock.
static int stop_others(pid_t *told, int *many) {
    static char room[32768] __attribute__((aligned(8)));
    int others = 0, tasks = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (long got; (got = syscall(SYS_getdents64, tasks, room, sizeof room)) > 0;) {
        for (long at = 0; at < got; at += *(unsigned short *)(room + at + 16)) {
            pid_t task = (pid_t)atol(room + at + 19);
            if (task == 0 || task == syscall(SYS_gettid)) continue;
            others++;
            int known = 0;
            for (int i = 0; i < *many; i++) known |= told[i] == task;
            if (known || *many == MOST_THREADS) continue;
            told[(*many)++] = task;
            syscall(SYS_tgkill, getpid(), task, SIGUSR2);
        }
    }
    close(tasks);
    return others;
}

// No other thread runs after this: it would read what is about to be undone, and complain.
static void stop_all(void) {
    static pid_t told[MOST_THREADS];
    int many = 0;
    struct sigaction action = {.sa_handler = stop_here};
    sigfillset(&action.sa_mask);
    sigaction(SIGUSR2, &action, NULL);
    for (int tries = 0; tries < 5000; tries++) {
        if (stop_others(told, &many) <= __atomic_load_n(&stopped, __ATOMIC_SEQ_CST)) return;
        usleep(100);
    }
}

static void cut_power(void) {
    int turn = 0;
    stop_all();
    for (struct dirt *d = dirt; d != NULL; d = d->before) undo(d);
    if (fault == MIXED) redo_some(dirt, &turn);
    die();
}

static int kept_fd(int fd, const struct stat *file) {
    for (struct dirt *d = dirt; d != NULL; d = d->before)
        if (d->dev == file->st_dev && d->ino == file->st_ino) return d->fd;
    return fcntl(fd, F_DUPFD_CLOEXEC, 100);
}

// Remembers what a change does away with. `bytes` is NULL for a change of length to `size`.
static void soil(int fd, const struct stat *file, const void *bytes, size_t len, off_t at, off_t size) {
    struct dirt *d = calloc(1, sizeof *d);
    if (d == NULL) abort();
    *d = (struct dirt){.before = dirt, .serial = ++serial, .dev = file->st_dev, .ino = file->st_ino, .fd = kept_fd(fd, file), .at = at,
                       .old_size = file->st_size, .new_size = size, .new_len = len,
                       .appended = (fcntl(fd, F_GETFL) & O_APPEND) != 0};
    if (bytes != NULL) d->new_bytes = copy(bytes, len);
    off_t end = bytes != NULL && at + (off_t)len < file->st_size ? at + (off_t)len : file->st_size;
    if (end > at && (d->old_bytes = malloc(end - at)) != NULL) {
        ssize_t got = syscall(SYS_pread64, fd, d->old_bytes, end - at, at);
        d->old_len = got > 0 ? (size_t)got : 0;
    }
    dirt = d;
}

// Its duplicates stay open: closing one would drop SQLite's locks.
static void flushed(const struct stat *file, long upto) {
    for (struct dirt **place = &dirt; *place != NULL;) {
        struct dirt *d = *place;
        if (d->serial <= upto && d->dev == file->st_dev && d->ino == file->st_ino) {
            *place = d->before;
            free(d->old_bytes);
            free(d->new_bytes);
            free(d);
        } else {
            place = &d->before;
        }
    }
}

static ssize_t put(int fd, const void *bytes, size_t len, off_t at, int placed) {
    if (placed) return syscall(SYS_pwrite64, fd, bytes, len, at);
    return syscall(SYS_write, fd, bytes, len);
}

static ssize_t bad_write(int fd, const void *bytes, size_t len, off_t at, int placed) {
    struct stat file;
    if (!ours(fd, &file)) return put(fd, bytes, len, at, placed);
    pthread_mutex_lock(&guard);
    int now = strikes();
    if (!placed) at = fcntl(fd, F_GETFL) & O_APPEND ? file.st_size : lseek(fd, 0, SEEK_CUR);
    if (fault >= POWER) {
        if (now) cut_power();
        soil(fd, &file, bytes, len, at, at + (off_t)len > file.st_size ? at + (off_t)len : file.st_size);
    }
    ssize_t done;
    if (full && at + (off_t)len > file.st_size) {
        errno = ENOSPC;
        done = -1;
    } else {
        done = put(fd, bytes, now && fault <= TORN ? len / 2 : len, at, placed);
    }
    if (now && fault == TORN) die();
    if (now && fault == FULL) full = 1;
    pthread_mutex_unlock(&guard);
    return done;
}

static int bad_flush(int fd, long number) {
    struct stat file;
    if (!ours(fd, &file)) return (int)syscall(number, fd);
    pthread_mutex_lock(&guard);
    if (fault >= POWER && strikes()) cut_power();
    long upto = serial;
    pthread_mutex_unlock(&guard);
    if (slow > 0) usleep(slow);
    if (fault < POWER) return (int)syscall(number, fd);
    pthread_mutex_lock(&guard);
    int done = (int)syscall(number, fd);
    if (done == 0 && fault != LYING) flushed(&file, upto);
    pthread_mutex_unlock(&guard);
    return done;
}

ssize_t write(int fd, const void *bytes, size_t len) { return bad_write(fd, bytes, len, 0, 0); }

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t at) { return bad_write(fd, bytes, len, at, 1); }

ssize_t pwrite64(int fd, const void *bytes, size_t len, off_t at) { return bad_write(fd, bytes, len, at, 1); }

int fsync(int fd) { return bad_flush(fd, SYS_fsync); }

int fdatasync(int fd) { return bad_flush(fd, SYS_fdatasync); }

int ftruncate(int fd, off_t size) {
    struct stat file;
    if (fault < POWER || !ours(fd, &file)) return (int)syscall(SYS_ftruncate, fd, size);
    pthread_mutex_lock(&guard);
    soil(fd, &file, NULL, 0, size, size);
    int done = (int)syscall(SYS_ftruncate, fd, size);
    pthread_mutex_unlock(&guard);
    return done;
}

int ftruncate64(int fd, off_t size) { return ftruncate(fd, size); }
