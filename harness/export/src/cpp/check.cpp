// Compares a buffer with its expected bytes. Prints how many bytes are wrong, and the first of them.
static void check(const char* what, const unsigned char* got, const unsigned char* right, size_t bytes) {
  size_t wrong = 0, first = 0;
  for (size_t i = bytes; i-- > 0;)
    if (got[i] != right[i]) wrong++, first = i;
  if (wrong == 0) return;
  failures++;
  std::printf("FAIL: buffer %s: %zu of %zu bytes are wrong, the first at offset %zu\n", what, wrong, bytes, first);
  const size_t end = std::min(bytes, first + 16);
  std::printf("  got     ");
  for (size_t i = first; i < end; i++) std::printf(" %02x", got[i]);
  std::printf("\n  expected");
  for (size_t i = first; i < end; i++) std::printf(" %02x", right[i]);
  std::printf("\n");
  std::fflush(stdout);
}
