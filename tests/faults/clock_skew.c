/* LD_PRELOADed into a redis-server: shifts its wall clock by the milliseconds in the file SKEW_FILE. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long *skew_ms; /* eight bytes, mapped, so that the test changes them at any time */

__attribute__((constructor)) static void map(void)
{
    const char *name = getenv("SKEW_FILE");
    int file = name ? open(name, O_RDONLY) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED)
        skew_ms = mapped;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    long failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && skew_ms && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        long ns = now->tv_nsec + (*skew_ms % 1000) * 1000000L;
        now->tv_sec += *skew_ms / 1000 + ns / 1000000000L - (ns < 0);
        now->tv_nsec = ns % 1000000000L + (ns < 0) * 1000000000L;
    }
    return (int)failed;
}

int gettimeofday(struct timeval *now, void *zone)
{
    struct timespec precise;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now)
{
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (now)
        *now = precise.tv_sec;
    return precise.tv_sec;
}
