// Reports if less device memory is free than at the first query, or, with `exactly`, if another amount is free. The
// runtime may free memory of finished work a little later, so the query is repeated for up to a second.
static size_t free_at_first = 0;

static void expect_returned(size_t free_bytes, size_t total_bytes, bool exactly = false) {
  if (free_bytes > total_bytes) {
    failures++;
    std::printf("FAIL: hipMemGetInfo gave more than the total\n");
    std::fflush(stdout);
    return;
  }
  if (free_at_first == 0) free_at_first = free_bytes;
  // A single right value among wrong ones may be a coincidence, so two in a row are required.
  size_t least = free_bytes;
  for (int tries = 0; tries < 100 && least < free_at_first; tries++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const size_t before = free_bytes;
    if (hipMemGetInfo(&free_bytes, &total_bytes) != hipSuccess) break;
    least = free_bytes < before ? free_bytes : before;
  }
  free_bytes = least;
  if (free_bytes == free_at_first || (free_bytes > free_at_first && !exactly)) return;
  failures++;
  if (free_bytes < free_at_first)
    std::printf("FAIL: hipMemGetInfo: %zu bytes of device memory were not given back\n", free_at_first - free_bytes);
  else
    std::printf("FAIL: hipMemGetInfo: %zu bytes of device memory are free that should be in use\n",
                free_bytes - free_at_first);
  std::fflush(stdout);
}
