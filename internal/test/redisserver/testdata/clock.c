// A library for LD_PRELOAD that gives one process a clock of its own: the machine's, and the number of nanoseconds that
// stands in the file which LOCKMW_CLOCK names. The file is mapped: who writes to it steps the clock at once.
//
// Only the time of day is another one. Monotonic clocks are the machine's. The kernel is asked by system calls, as
// allocators tell the time before libraries are ready, and asking one of them would not end.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t second = 1000000000;
static _Atomic int64_t none;
static _Atomic int64_t *ahead = &none; // ns

__attribute__((constructor)) static void map_clock(void) {
  const char *path = getenv("LOCKMW_CLOCK");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) _exit(2); // it would run by the machine's clock
  void *page = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
  if (page == MAP_FAILED) _exit(2);
  close(file);
  ahead = page;
}

int clock_gettime(clockid_t id, struct timespec *ts) {
  int failed = (int)syscall(SYS_clock_gettime, id, ts);
  if (failed || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE)) return failed;
  int64_t now = ts->tv_sec * second + ts->tv_nsec + *ahead;
  ts->tv_sec = now / second;
  ts->tv_nsec = now % second;
  return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
  struct timespec now;
  (void)zone; // the kernel's is obsolete
  if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
  tv->tv_sec = now.tv_sec;
  tv->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *seconds) {
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
  if (seconds) *seconds = now.tv_sec;
  return now.tv_sec;
}
