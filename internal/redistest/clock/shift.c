/*
 * This library is preloaded into a server. It sets the server's wall clock from the
 * file named by STINT_CLOCK: two numbers of microseconds (8 bytes each, the machine's
 * byte order). The first is how far the clock is ahead. If the second is not 0, the
 * clock is stopped at that time after the Unix epoch. The file is mapped, so writing
 * to it steps the clock at once. The monotonic clock does not change, as on a real
 * host whose clock is set.
 *
 * libfaketime cannot do this: it allocates on its first call, and jemalloc reads
 * the clock on its first allocation.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* How far the clock is ahead, and the time at which it is stopped. */
static volatile int64_t *shift;

__attribute__((constructor)) static void map_shift(void)
{
    const char *name = getenv("STINT_CLOCK");
    int fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    void *page;

    if (fd < 0)
        return;
    page = mmap(NULL, 2 * sizeof *shift, PROT_READ, MAP_SHARED, fd, 0);
    if (page != MAP_FAILED)
        shift = page;
    close(fd);
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
    int64_t by, us;
    int rc = (int)syscall(SYS_clock_gettime, id, ts);

    if (rc != 0 || shift == NULL || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE))
        return rc;
    if (shift[1] != 0) {
        ts->tv_sec = shift[1] / 1000000;
        ts->tv_nsec = shift[1] % 1000000 * 1000;
        return 0;
    }
    by = shift[0];
    us = ts->tv_nsec / 1000 + by % 1000000;
    ts->tv_sec += by / 1000000;
    ts->tv_nsec = ts->tv_nsec % 1000 + us * 1000;
    if (ts->tv_nsec < 0) {
        ts->tv_nsec += 1000000000;
        ts->tv_sec--;
    } else if (ts->tv_nsec >= 1000000000) {
        ts->tv_nsec -= 1000000000;
        ts->tv_sec++;
    }
    return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
    struct timespec ts;

    (void)tz;
    if (clock_gettime(CLOCK_REALTIME, &ts) != 0)
        return -1;
    tv->tv_sec = ts.tv_sec;
    tv->tv_usec = ts.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *t)
{
    struct timespec ts;

    if (clock_gettime(CLOCK_REALTIME, &ts) != 0)
        return (time_t)-1;
    if (t != NULL)
        *t = ts.tv_sec;
    return ts.tv_sec;
}
