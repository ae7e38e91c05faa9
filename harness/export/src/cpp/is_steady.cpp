// Returns true if a time is at most 20 times the first time plus one second. Times are in microseconds.
static bool is_steady(long long time) {
  static long long first = -1;
  if (first < 0) first = time;
  return time <= 20 * first + 1000000;
}
