// Notes that less device memory is free than at the first look, and goes on.
static size_t free_at_first = 0;

static void expect_returned(size_t free_bytes) {
  if (free_bytes >= free_at_first) return;
  failures++;
  std::printf("FAIL: hipMemGetInfo: %zu bytes of device memory were not given back\n", free_at_first - free_bytes);
  std::fflush(stdout);
}
