// Prints what each way to tell the time says, in nanoseconds. The last one is a clock that nobody sets.
#include <stdint.h>
#include <stdio.h>
#include <sys/time.h>
#include <time.h>

static int64_t clock_of(clockid_t id) {
  struct timespec now = {0, 0};
  clock_gettime(id, &now);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

int main(void) {
  struct timeval now;
  gettimeofday(&now, NULL);
  printf("[%lld, %lld, %lld, %lld, %lld]\n", (long long)clock_of(CLOCK_REALTIME), (long long)clock_of(CLOCK_REALTIME_COARSE),
         now.tv_sec * 1000000000LL + now.tv_usec * 1000LL, time(NULL) * 1000000000LL, (long long)clock_of(CLOCK_MONOTONIC));
  return 0;
}
