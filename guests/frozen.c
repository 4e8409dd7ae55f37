// Preloaded into the JavaScript componentizer so that it makes the same bytes each time.
//
// It runs the engine once while it builds, and the engine's memory, with its hash seeds and its start time, becomes part
// of the component. Here each clock stands still and random bytes are all alike. Nothing is lost: those values would be
// the same in every agent made from the component anyway, and agents get theirs from the host.

#define _GNU_SOURCE
#include <stddef.h>
#include <string.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>

// 2026-01-01T00:00:00Z
static const time_t moment = 1767225600;

ssize_t getrandom(void *buffer, size_t len, unsigned flags) {
    (void)flags;
    memset(buffer, 0x5a, len);
    return (ssize_t)len;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    (void)clock;
    *now = (struct timespec){.tv_sec = moment};
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    *now = (struct timeval){.tv_sec = moment};
    return 0;
}

time_t time(time_t *now) {
    if (now != NULL) *now = moment;
    return moment;
}
